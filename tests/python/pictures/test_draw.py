"""Pictures: static, well-formed, and drawn from the sectors and wavefronts that are counted."""

import base64
import re
import xml.etree.ElementTree as ET
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import coalesce
from coalesce import draw
from coalesce.draw import Matrix

SVG = "{http://www.w3.org/2000/svg}"
LANES = np.arange(32)
ALL = 2**32 - 1


def parsed(picture):
    return ET.fromstring(picture.svg)


def marked(picture, name):
    """Return the elements that have data- attributes, each as a dict of these attributes."""
    elements = [e.attrib for e in parsed(picture).iter() if f"data-{name}" in e.attrib]
    return [{k[5:]: v for k, v in a.items() if k.startswith("data-")} for a in elements]


def texts(picture):
    return ["".join(e.itertext()) for e in parsed(picture).iter(f"{SVG}text")]


def gallery():
    """Return a picture of every kind, with large and unusual ones."""
    gather = np.random.default_rng(3).integers(0, 1 << 20, 64) * 4
    frames = {f"k = {k}": [Matrix("a", (512, 512), [(n, k) for n in LANES])] for k in range(3)}
    return {
        "contiguous": draw.warp_access(4 * LANES, 4, title="x[i] < 3 && y"),
        "misaligned": draw.warp_access(4 * LANES + 4, 4),
        "stride": draw.warp_access(4096 * LANES, 4, array="a"),
        "one lane": draw.warp_access([100], 4),
        "64 scattered lanes": draw.warp_access(gather, 4, sector_bytes=64),
        "half a warp": draw.warp_access(4 * LANES, 4, 0xFFFF),
        "wide": draw.warp_access(16 * LANES, 16, kind="store"),
        "bank conflict": draw.bank_board(128 * LANES, 4),
        "bank words": draw.bank_board(132 * LANES, 4, rows="words"),
        "bank far apart": draw.bank_board(2000 * 4 * LANES, 4, rows="words"),
        "bank wide": draw.bank_board(32 * LANES, 16),
        "frames": draw.matrices(frames, title="a & b"),
        "matrix": draw.matrix_cells((16, 16), [(n // 16, n % 16) for n in LANES]),
        "map": draw.matrix_cells((3000, 70), [(97 * n % 3000, 31 * n % 70) for n in LANES]),
        "row": draw.matrix_cells((1 << 30,), LANES * 7919, name="x"),
        "whole tile": draw.matrix_cells((64, 64), np.argwhere(np.ones((64, 64), bool))),
        "block": draw.thread_block((24, 5)),
        "large block": draw.thread_block(1024),
        "tall block": draw.thread_block((1, 1024)),
        "deep block": draw.thread_block((4, 4, 64)),
    }


GALLERY = gallery()


@pytest.fixture(params=GALLERY, ids=lambda name: name.replace(" ", "_"))
def picture(request):
    return GALLERY[request.param]


class TestEveryPicture:
    def test_is_one_static_svg(self, picture):
        root = parsed(picture)
        assert root.tag == f"{SVG}svg"
        assert root.get("viewBox") == f"0 0 {picture.width:g} {root.get('height')}"
        tags = Counter(element.tag.removeprefix(SVG) for element in root.iter())
        assert set(tags) <= {"svg", "desc", "style", "title", "rect", "path", "text", "tspan"}
        names = {name for element in root.iter() for name in element.attrib}
        assert not any(name.startswith("on") or "href" in name for name in names)

    def test_has_no_ids_that_could_clash_on_a_page(self, picture):
        assert not any("id" in element.attrib for element in parsed(picture).iter())
        assert "url(" not in picture.svg

    def test_has_a_description_for_screen_readers(self, picture):
        root = parsed(picture)
        assert root.get("role") == "img"
        assert root.get("aria-label") == picture.headline
        assert root.find(f"{SVG}desc").text.startswith(picture.headline)

    def test_has_light_colours_without_its_style_sheet(self, picture):
        """GitHub removes the style sheet.

        So every shape and text also has its colours as attributes.
        """
        for element in parsed(picture).iter():
            if element.tag.removeprefix(SVG) in ("rect", "path", "text"):
                assert element.get("fill"), element.attrib
                assert element.get("class") is None or element.get("fill") != element.get("class")

    def test_stays_within_its_borders(self, picture):
        for element in parsed(picture).iter(f"{SVG}rect"):
            if element.get("width") != "100%":
                x, y, w, h = (float(element.get(name)) for name in ("x", "y", "width", "height"))
                assert x >= 0
                assert y >= 0
                assert x + w <= picture.width + 0.1
                assert y + h <= picture.height + 0.1
        for element in parsed(picture).iter(f"{SVG}text"):
            assert 0 < float(element.get("y")) < picture.height

    def test_is_of_a_size_for_a_notebook(self, picture):
        assert picture.width == 760
        assert picture.height < 1000
        assert len(picture.svg) < 200_000

    def test_text_is_ascii_and_fits_a_terminal(self, picture):
        assert picture.text.isascii()
        assert repr(picture) == str(picture) == picture.text
        lines = picture.text.splitlines()
        assert len(lines) < 40
        assert max(map(len, lines)) <= 80
        assert picture.headline.replace("→", "->") in " ".join(lines)

    def test_notebooks_get_pictures_with_and_without_tooltips(self, picture):
        html = ET.fromstring(
            picture._repr_html_().replace("&nbsp;", " ").replace('"></o', '"/></o')
        )
        assert html.tag == "object"
        (image,) = html
        for data in (html.get("data"), image.get("src")):
            kind, _, payload = data.partition(",")
            assert kind == "data:image/svg+xml;base64"
            assert base64.b64decode(payload).decode() == picture.svg
        assert image.get("alt") == picture.headline
        assert picture._repr_svg_() == picture.svg


def test_a_picture_is_the_same_each_time():
    again = gallery()
    assert {name: p.svg for name, p in again.items()} == {n: p.svg for n, p in GALLERY.items()}


def test_save(tmp_path):
    picture = draw.thread_block(8)
    path = picture.save(tmp_path / "block.svg")
    assert path.read_text(encoding="utf-8") == picture.svg + "\n"
    with pytest.raises(ValueError, match=r"`path` must end in \.svg.*'block\.png'"):
        picture.save(tmp_path / "block.png")


def test_text_is_escaped():
    nasty = "<script>alert('1')</script> & \x00\x1b\ud800 \"quoted\""
    for picture in (
        draw.warp_access(4 * LANES, 4, title=nasty, array=nasty),
        draw.bank_board(4 * LANES, 4, title=nasty),
        draw.matrix_cells((8, 8), [(0, 0)], name=nasty, labels=[nasty], title=nasty),
        draw.matrices({nasty: [Matrix(nasty, (8, 8), [(0, 0)], note=nasty)]}, headline=nasty),
        draw.thread_block(8, title=nasty),
    ):
        assert "<script>alert('1')</script> & \ufffd\ufffd\ufffd \"quoted\"" in texts(picture)
        assert "<script" not in picture._repr_html_()


WIDTHS = {1: "unsigned char", 2: "short", 4: "float", 8: "double", 16: "int4"}
COPY = """
extern "C" __global__ void gather(const WORD* x, const int* index, WORD* out, unsigned mask) {
    __shared__ WORD tile[2048];
    const int lane = threadIdx.x, i = index[lane];
    for (int j = lane; j < 2048; j += 32) tile[j] = x[j];
    __syncwarp();
    if (mask >> lane & 1) {
        out[lane] = x[i];
        out[lane + 32] = tile[i];
    }
}
"""


@pytest.fixture(scope="module", params=WIDTHS, ids=lambda width: f"{width}B")
def counted(request, device):
    """Return the element width and a function.

    The function returns the simulator's counts for the elements that lanes load.
    """
    if device != "sim":
        pytest.skip("counts are the simulator's")
    width = request.param
    options = [f"-DWORD={WIDTHS[width]}"]
    kernel = coalesce.Kernel(COPY, "gather", device="sim", options=options)
    lines = COPY.splitlines()

    def count(index, mask):
        dtype = {1: np.uint8, 2: np.int16, 4: np.float32, 8: np.float64, 16: np.int32}[width]
        x, out = (np.zeros(n * width // dtype().itemsize, dtype) for n in (2048, 64))
        arguments = (x, np.asarray(index, np.int32), out, np.uint32(mask))
        table = kernel.launch(1, 32, *arguments, counts=True).counts.table()

        def row(text):
            (line,) = (n for n, source in enumerate(lines, 1) if text in source)
            (position,) = np.flatnonzero((table["line"] == line) & (table["kind"] == "load"))
            return {name: int(table[name][position]) for name in ("sectors", "lines", "wavefronts")}

        memory, shared = row("out[lane] = x[i]"), row("out[lane + 32] = tile[i]")
        return memory["sectors"], memory["lines"], shared["wavefronts"]

    return width, count


@st.composite
def accesses(draw_):
    """Return elements of 32 lanes (strided, or gathered from a small or large range) and a mask."""
    start, stride = draw_(st.integers(0, 40)), draw_(st.integers(0, 63))
    spread = draw_(st.sampled_from((1, 4, 40, 300, 2047)))
    strided = [start + lane * stride for lane in range(32)]
    gathered = draw_(st.lists(st.integers(0, spread), min_size=32, max_size=32))
    return draw_(st.sampled_from((strided, gathered))), draw_(st.integers(1, ALL) | st.just(ALL))


@given(access=accesses())
def test_pictures_show_what_the_simulator_counts(counted, access):
    index, mask = access
    width, count = counted
    sectors, lines, wavefronts = count(index, mask)
    addresses = width * np.array(index)

    warp = draw.warp_access(addresses, width, mask)
    drawn = marked(warp, "sector")
    in_memory = [m for m in drawn if "used" in m]
    # If there are more than four lines, the first one is drawn twice, the second time enlarged.
    assert len({m["sector"] for m in in_memory}) == sectors
    assert len({m["line"] for m in marked(warp, "line")}) == lines
    assert f"→ {sectors} sector" in warp.headline
    assert f"in {lines} line" in warp.headline
    lanes = [int(m["lane"]) for m in drawn if "lane" in m]
    assert lanes == [lane for lane in range(32) if mask >> lane & 1]
    assert sum(int(m["links"]) for m in marked(warp, "links")) == len(lanes)

    board = draw.bank_board(addresses, width, mask)
    assert f"→ {wavefronts} wavefront" in board.headline
    if wavefronts <= 3:  # all wavefronts are drawn
        served = Counter(lane for m in marked(board, "bank") for lane in m["lanes"].split())
        assert {int(lane) for lane in served} == set(lanes)


class TestWarpAccess:
    @pytest.mark.parametrize(
        ("addresses", "itemsize", "sectors", "lines", "used"),
        [
            (4 * LANES, 4, 4, 1, "100 %"),
            (4 * LANES[::-1], 4, 4, 1, "100 %"),
            (4 * LANES + 4, 4, 5, 2, "80 %"),
            (8 * LANES, 4, 8, 2, "50 %"),
            (4096 * LANES, 4, 32, 32, "12.5 %"),
            (0 * LANES, 4, 1, 1, ""),  # a broadcast wastes nothing
            (LANES, 1, 1, 1, "100 %"),
            (8 * LANES, 8, 8, 2, "100 %"),
            (16 * LANES, 16, 16, 4, "100 %"),
        ],
    )
    def test_headline(self, addresses, itemsize, sectors, lines, used):
        headline = draw.warp_access(addresses, itemsize).headline
        s, ln = (f"{n} {w}{'s' * (n > 1)}" for n, w in ((sectors, "sector"), (lines, "line")))
        moved = f"{used} of the bytes used" if used else "a broadcast"
        assert headline == f"32 lanes, {itemsize}-byte loads → {s} in {ln}, {moved}"

    def test_used_bytes_of_each_sector(self):
        drawn = marked(draw.warp_access(4 * LANES + 4, 4), "used")
        assert [int(m["used"]) for m in drawn] == [28, 32, 32, 32, 4]

    def test_a_lane_may_straddle_sectors(self):
        """An element may lie in two sectors, because AMD's GPUs allow unaligned accesses."""
        picture = draw.warp_access([30], 4)
        assert "2 sectors in 1 line" in picture.headline
        assert [int(m["used"]) for m in marked(picture, "used")] == [2, 2]

    def test_lanes_are_drawn_over_the_bytes_they_read(self):
        """The links of neighbouring lanes are straight, so a misaligned warp looks shifted."""
        paths = [e.get("d") for e in parsed(draw.warp_access(4 * LANES + 4, 4)).iter(f"{SVG}path")]
        links = [m for d in paths for m in re.findall(r"M([\d.]+) [\d.]+C\1 [\d.]+ ([\d.]+) ", d)]
        assert len(links) == 32
        assert all(abs(float(a) - float(b)) < 0.5 for a, b in links)

    def test_lanes_that_are_missing_are_inactive(self):
        picture = draw.warp_access([0, 4, 8], 4)
        assert picture.headline.startswith("3 of 32 lanes")
        assert len(marked(picture, "lane")) == 3

    def test_addresses_are_shown_as_elements(self):
        base = 0x7F00_0000_0200
        picture = draw.warp_access(base + 4 * LANES + 128, 4, array="x", base=base)
        assert "x[32]" in texts(picture)

    def test_addresses_of_inactive_lanes_do_not_matter(self):
        picture = draw.warp_access([2**64 - 1, -5, 8], 4, mask=4)
        assert picture.headline.startswith("1 of 32 lanes")

    def test_text(self):
        assert draw.warp_access(8 * LANES[:16], 4, title="x[2 * i]").text.splitlines() == [
            "x[2 * i]",
            "16 of 32 lanes, 4-byte loads -> 4 sectors in 1 line, 50 % of the bytes used",
            "The 64 bytes asked for would fit in 2 sectors; the sectors have 128 bytes.",
            "lane 0       8       16      24",
            "     AAAABBBBCCCCDDDD----------------",
            "0x0 |A.A.A.A.|B.B.B.B.|C.C.C.C.|D.D.D.D.|",
            "a letter: 4 bytes used; '.': in a touched sector; blank: not touched",
        ]


class TestBankBoard:
    @pytest.mark.parametrize(
        ("addresses", "itemsize", "claim"),
        [
            (4 * LANES, 4, "1 wavefront, no bank conflict"),
            (8 * LANES, 4, "2 wavefronts, a 2-way bank conflict"),
            (128 * LANES, 4, "32 wavefronts, a 32-way bank conflict"),
            (132 * LANES, 4, "1 wavefront, no bank conflict"),
            (0 * LANES, 4, "1 wavefront, no bank conflict"),
            (LANES, 1, "1 wavefront, no bank conflict"),
            (8 * LANES, 8, "2 wavefronts, no bank conflict"),
            (16 * LANES, 16, "4 wavefronts, no bank conflict"),
            (32 * LANES, 16, "8 wavefronts, a 2-way bank conflict"),
        ],
    )
    def test_headline(self, addresses, itemsize, claim):
        for rows in ("wavefronts", "words"):
            assert draw.bank_board(addresses, itemsize, rows=rows).headline.endswith(f"→ {claim}")

    @pytest.mark.parametrize(
        ("addresses", "opcode", "claim", "note"),
        [
            (4 * LANES, "", "1 wavefront, no bank conflict", "No two lanes"),
            (0 * LANES, "", "32 wavefronts, up to 32 lanes update words of one bank", "32 lanes, "),
            (128 * LANES, "", "32 wavefronts, a 32-way bank conflict", "32 different words"),
            (4 * (LANES // 2), "ATOMS.ADD", "2 wavefronts, up to 2 lanes", "16 banks must each"),
            (0 * LANES, "ATOMS.POPC.INC.32", "1 wavefront, no bank conflict", "served together"),
            (4 * (LANES // 2), "ATOMS.CAS", "4 wavefronts, up to 2 lanes", "each in 2 wavefronts"),
            (0 * LANES, "ATOMS.CAST.SPIN", "2 wavefronts, no bank", "repeat the instruction"),
        ],
    )
    def test_atomics(self, addresses, opcode, claim, note):
        """Most atomics serve one lane of a bank at a time, even if lanes share a word."""
        for rows in ("wavefronts", "words"):
            picture = draw.bank_board(addresses, 4, kind="atomic", opcode=opcode, rows=rows)
            assert f"4-byte atomics → {claim}" in picture.headline
            assert note in " ".join(picture.text.split())

    def test_words_are_counted_from_the_base(self):
        picture = draw.bank_board(2**24 + 128 * LANES[:2], 4, rows="words", base=2**24)
        assert [text for text in texts(picture) if text.endswith(" B")] == ["0 B", "128 B"]

    def test_text(self):
        lines = draw.bank_board(8 * LANES, 4).text.splitlines()
        assert lines[3] == "wavefront 0    0.1.2.3.4.5.6.7.8.9.a.b.c.d.e.f."
        assert lines[4] == "wavefront 1    g.h.i.j.k.l.m.n.o.p.q.r.s.t.u.v."


class TestMatrices:
    @given(
        rows=st.integers(1, 50),
        cols=st.integers(1, 50),
        itemsize=st.sampled_from([1, 2, 4, 8, 16]),
        data=st.data(),
    )
    def test_sectors_follow_the_addresses(self, rows, cols, itemsize, data):
        cell = st.tuples(st.integers(0, rows - 1), st.integers(0, cols - 1))
        cells = data.draw(st.lists(cell, min_size=1, max_size=32))
        pitch = cols + data.draw(st.integers(0, 5))
        matrix = Matrix("a", (rows, cols), cells, itemsize=itemsize, pitch=pitch)
        sectors = {(r * pitch + c) * itemsize // 32 for r, c in cells}
        assert len(matrix._moved.sectors) == len(sectors)
        brought = {
            (r, c)
            for r in range(rows)
            for c in range(cols)
            if (r * pitch + c) * itemsize // 32 in sectors and (r, c) not in cells
        }
        assert set(matrix.moved_cells) == brought

    def test_steps_are_frames_of_one_window(self):
        steps = {f"k = {k}": [Matrix("a", (64, 64), [(n, k) for n in LANES])] for k in range(3)}
        picture = draw.matrices(steps)
        assert picture.headline == "A warp at one step: 32 sectors of a"
        shown = [(m["row"], m["col"]) for m in marked(picture, "touched")]
        assert shown == [(str(row), str(k)) for k in range(3) for row in range(32)]
        assert all(label in texts(picture) for label in steps)

    def test_cells_shared_by_lanes(self):
        matrix = Matrix("b", (8, 8), [(1, 2)] * 32)
        (cell,) = marked(draw.matrices([matrix]), "touched")
        assert cell["lanes"] == "32"
        assert matrix.direction == "all lanes at one cell"
        assert matrix.notes == ["all lanes at one cell", "1 sector", "a broadcast"]

    def test_a_tile_in_shared_memory_has_no_sectors(self):
        picture = draw.matrices([Matrix("tile", (4, 4), [(0, 0)], memory="shared")])
        assert marked(picture, "brought") == []
        assert "sector" not in picture.headline

    def test_scattered_cells_become_a_map(self):
        cells = [(97 * n % 3000, 31 * n % 70) for n in range(32)]
        picture = draw.matrix_cells((3000, 70), cells)
        assert len(marked(picture, "touched")) == 32

    def test_long_axes_are_cut(self):
        cells = [(r, c) for r in range(64) for c in range(64)]
        picture = draw.matrix_cells((4096, 4096), cells)
        assert sum(int(m["cells"]) for m in marked(picture, "touched")) == 33 * 33


class TestThreadBlock:
    @pytest.mark.parametrize(
        ("block_dim", "headline"),
        [
            ((4, 4), "4 x 4 threads are 1 warp, with 16 of 32 lanes"),
            ((8, 8, 2), "8 x 8 x 2 threads are 4 warps"),
            ((24, 5), "24 x 5 threads are 4 warps; the last has 24 of 32 lanes"),
            (256, "256 threads are 8 warps"),
            ((1, 1, 64), "1 x 1 x 64 threads are 2 warps"),
        ],
    )
    def test_headline(self, block_dim, headline):
        assert draw.thread_block(block_dim).headline == headline

    @given(st.tuples(st.integers(1, 12), st.integers(1, 9), st.integers(1, 8)))
    def test_threads_are_numbered_x_first(self, block_dim):
        runs = marked(draw.thread_block(block_dim), "warp")
        threads = [
            32 * int(m["warp"]) + int(m["lane"]) + i for m in runs for i in range(int(m["threads"]))
        ]
        assert threads == list(range(int(np.prod(block_dim))))

    def test_text(self):
        assert draw.thread_block((24, 2)).text.splitlines()[2:] == [
            "y = 0  AAAAAAAAAAAAAAAAAAAAAAAA",
            "y = 1  AAAAAAAABBBBBBBBBBBBBBBB",
        ]

    @pytest.mark.parametrize(
        ("block_dim", "words"),
        [
            ((16, 16), "2 rows: threadIdx.y differs"),
            ((8, 8, 2), "4 rows: threadIdx.y differs"),
            ((4, 4, 64), "8 rows: threadIdx.y and z differ"),
            ((16, 3, 2), "2 rows: threadIdx.y and z differ"),
            ((1, 1, 64), "32 rows: threadIdx.z differs"),
            ((4, 2, 2), "all 4 rows: threadIdx.y and z differ"),
            ((4, 4), "all 4 rows: threadIdx.y differs"),
        ],
    )
    def test_indices_that_differ_within_a_warp(self, block_dim, words):
        assert words in draw.thread_block(block_dim).text


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: draw.warp_access([], 4), ValueError, "1 to 64 addresses, one for each.*got 0"),
        (
            lambda: draw.warp_access(range(65), 4),
            ValueError,
            "1 to 64 addresses, one for each.*got 65",
        ),
        (lambda: draw.warp_access([0], 4, 2), ValueError, "with a bit for each address"),
        (lambda: draw.warp_access([0, 4], 4, [True]), ValueError, r"\(2,\); got shape \(1,\)"),
        (lambda: draw.warp_access([0], 4, 0), ValueError, "no active lane"),
        (lambda: draw.warp_access([0], 4, sector_bytes=48), ValueError, "power of two; got 48"),
        (
            lambda: draw.warp_access([0], 4, line_bytes=16),
            ValueError,
            "`line_bytes` must be from 32",
        ),
        (lambda: draw.bank_board([2], 4), ValueError, "lane 0 has 2"),
        (lambda: draw.bank_board([0], 3), ValueError, "1, 2, 4, 8 or 16; got 3"),
        (lambda: draw.bank_board([0], 4, base=64), ValueError, "multiple of 128; got 64"),
        (
            lambda: draw.matrix_cells((4, 4), [(4, 0)]),
            ValueError,
            r"`touched` contains the cell \(4, 0\)",
        ),
        (lambda: draw.matrix_cells((2, 2, 2), []), ValueError, r"\(rows, columns\)"),
        (lambda: Matrix("a", (4, 4), pitch=3), ValueError, "`pitch` must be at least 4; got 3"),
        (lambda: draw.matrices({}), ValueError, "at least one frame"),
        (lambda: draw.matrices({"k": []}), ValueError, "1 to 6 matrices; 'k' has 0"),
        (lambda: draw.matrices(["a"]), TypeError, "must contain Matrix objects"),
        (lambda: draw.thread_block((32, 33)), ValueError, "at most 1024 threads; got 1056"),
        (lambda: draw.thread_block(8, warp_size=48), ValueError, "power of two; got 48"),
    ],
)
def test_bad_input_is_named(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_a_legend_stays_within_the_picture():
    # bank 0 has two words; two lanes read word 20
    words = [*range(16), 20, 20, 32, *range(21, 32), 21, 22]
    picture = draw.bank_board([4 * word for word in words], 4)
    root = parsed(picture)
    texts = {e.text: float(e.attrib["x"]) for e in root.iter(f"{SVG}text") if "x" in e.attrib}
    assert "served to two lanes at once" in texts
    assert texts["served to two lanes at once"] + 150 < picture.width


def test_a_board_has_the_states_of_its_cells():
    states = np.full((3, 8), "", object)
    states[0, :5] = "used"
    states[2, 3] = "wrong"
    words = {"used": "read", "wrong": "read too early"}
    picture = draw.board([draw.Grid("tile", states, note="3 rows")], words, headline="a < b")
    assert picture.headline == "a < b"
    assert {m["state"] for m in marked(picture, "state")} == {"", "used", "wrong"}
    assert {"tile", "3 rows", "read", "read too early", "a < b"} <= set(texts(picture))
    assert "  |#####   |\n  |        |\n  |   X    |\n  3 rows" in picture.text
    assert max(map(len, picture.text.splitlines())) <= 80


@pytest.mark.parametrize(
    ("states", "legend", "message"),
    [
        ([["read"]], {}, "`states` must be one of '', 'used'"),
        ([], {}, "must have rows and columns"),
        ([["used"]], {}, "`legend` must explain the state 'used'"),
        ([["used"]], {"read": "x"}, "`legend` must be one of"),
    ],
)
def test_a_board_refuses_states_without_a_meaning(states, legend, message):
    with pytest.raises(ValueError, match=message):
        draw.board([draw.Grid("a", states)], legend, headline="none")


def test_a_player_has_a_button_for_each_picture_and_no_script(check_html):
    frames = {f"k = {k}": draw.thread_block((8, k + 1), title="<k>") for k in range(4)}
    one = draw.player(frames)
    html = one._repr_html_()
    assert "<script" not in html
    assert html.count('type="radio"') == html.count("<img") == 4
    assert html.count(" checked>") == 1
    assert html.count("<div hidden") == 2  # without styles, the first and the last are left
    names = re.findall(r'name="([^"]*)"', html)
    assert len(set(names)) == 1
    assert re.findall(r'id="([^"]*)"', html)[1:] == [f"{names[0]}-{k}" for k in range(4)]
    assert html == draw.player(frames)._repr_html_(), "the same in each run"
    assert names[0] not in draw.player({"other": frames["k = 0"]})._repr_html_()
    assert "[k = 0]" in repr(one)
    assert "... 2 more: k = 1, k = 2" in repr(one)
    without = re.sub(r"<style>.*?</style>|<input[^>]*>|</?label[^>]*>", "", html)
    check_html(re.sub(r' (id|class|hidden)="[^"]*"', "", without))


def test_a_player_needs_pictures():
    with pytest.raises(ValueError, match="`frames` is empty"):
        draw.player({})
    with pytest.raises(TypeError, match="`frames` must contain pictures; 'a' is int 1"):
        draw.player({"a": 1})
    with pytest.raises(TypeError, match="a mapping whose labels are strings; got int 1"):
        draw.player({1: draw.warp_access([0], 4)})
