"""Patterns: the name and the description of the addresses of a warp."""

from operator import mul

import pytest

from coalesce import draw
from coalesce.profiling.patterns.classification import classify
from coalesce.tracing import TraceArray

LANES = range(32)


def array(shape, dtype="float32"):
    return TraceArray("a", shape, dtype, "global", 0)


@pytest.mark.parametrize(
    ("addresses", "width", "kind", "words"),
    [
        ([4 * i for i in LANES], 4, "contiguous", "Contiguous."),
        ([16 * i for i in LANES], 16, "contiguous", "Contiguous."),
        ([4 * i + 64 for i in LANES], 4, "contiguous", "Contiguous."),
        ([4 * i + 4 for i in LANES], 4, "misaligned", "beginning 4 bytes after"),
        ([8 * i + 8 for i in LANES], 8, "misaligned", "beginning 8 bytes after"),
        ([4 * (31 - i) for i in LANES], 4, "permuted", "another order"),
        ([4 * (i ^ 5) for i in LANES], 4, "permuted", "another order"),
        ([4 * (32 - i) for i in LANES], 4, "misaligned", "another order, but beginning 4"),
        ([i + 1 for i in LANES], 1, "misaligned", "beginning 1 byte after"),
        ([96] * 32, 4, "broadcast", "the same address"),
        ([512 * (i // 16) for i in LANES], 4, "groups", "2 different addresses"),
        ([8 * i for i in LANES], 4, "stride", "4 in each sector, which could serve 8"),
        ([-64 * i + 4096 for i in LANES], 4, "stride", "(64 bytes) apart"),
        ([(i * 7919) % 4096 * 4 for i in LANES], 4, "gather", "gather from"),
        ([400 * (i // 4) + 4 * (i % 4) for i in LANES], 4, "runs", "8 runs of 4 neighbouring"),
        ([9000 * (i // 16) + 100 * (i // 4 % 4) + 4 * (i % 4) for i in LANES], 4, "runs", "of 4"),
        ([100 * (i // 16) + 4 * (i % 16) for i in LANES], 4, "runs", "2 runs of 16"),
        ([40 * (i // 4) + 800 * (i % 4) for i in LANES], 4, "stride", "In runs of 4, neighbouring"),
        (list(LANES), 4, "stride", "overlap: they are 1 byte apart, and each accesses 4."),
        ([64 * (i // 2) for i in LANES], 4, "groups", "16 different addresses"),
    ],
)
def test_global_memory(addresses, width, kind, words):
    pattern = classify(addresses, width)
    assert pattern.kind == kind
    assert words in pattern.text


@pytest.mark.parametrize(
    ("lanes", "step", "kind", "words"),
    [
        ([0, 1, 4, 5, 9, 30], 4, "partial", "some lanes in between are inactive"),
        ([0, 1, 4, 5, 9, 30], 64, "stride", "Neighbouring lanes are 16 elements (64 bytes) apart"),
        (range(0, 32, 4), 4, "partial", "some lanes in between are inactive"),
        (range(0, 32, 4), -4, "partial", "some lanes in between are inactive"),
        (range(0, 32, 4), 8, "stride", "Active lanes are 8 elements (32 bytes) apart"),
        (range(8, 20), 4, "contiguous", "Contiguous."),
    ],
)
def test_inactive_lanes(lanes, step, kind, words):
    """The description says how addresses depend on lanes, whichever lanes are active."""
    mask = sum(1 << lane for lane in lanes)
    pattern = classify([4096 + step * i for i in LANES], 4, mask)
    assert pattern.kind == kind
    assert words in pattern.text


def test_incomplete_runs_of_lanes():
    """At the edge of a grid, the lanes beyond the edge are inactive."""
    mask = sum(1 << i for i in LANES if i % 4 < 3)
    pattern = classify([400 * (i // 4) + 4 * (i % 4) for i in LANES], 4, mask)
    assert (pattern.kind, pattern.name) == ("runs", "8 runs of 3")


@pytest.mark.parametrize("block", [(5, 3, 7), (3, 8, 2), (24, 3, 2), (31, 4, 2), (17, 5, 1)])
@pytest.mark.parametrize(
    ("steps", "kind", "words"),
    [
        ((4, 400, 8000), "runs", "neighbouring elements"),
        ((720, 80, 4), "stride", "neighbouring lanes are 180 elements (720 bytes) apart"),
    ],
)
def test_warps_of_blocks_whose_rows_do_not_divide_them(block, steps, kind, words):
    """An address is a sum of steps along x, y and z, wherever in the block the warp begins."""
    x, y, z = block
    threads = [(i, j, k) for k in range(z) for j in range(y) for i in range(x)]
    for first in range(0, len(threads) - 31, 32):
        warp = threads[first : first + 32]
        addresses = [sum(map(mul, steps, thread)) for thread in warp]
        pattern = classify(addresses, 4, threads=warp)
        assert (pattern.kind, pattern.regular) == (kind, True)
        assert words in pattern.text
    scattered = [4 * ((i * 7919) % 4093) for i in LANES]
    assert classify(scattered, 4, threads=threads[:32]).kind == "gather"


def test_strides_are_named_by_axes_of_the_array():
    rows = classify([256 * i for i in LANES], 4, array=array((64, 64)))
    assert (rows.axis, rows.stride_bytes, rows.name) == (0, 256, "stride 64")
    assert "64 elements (256 bytes) apart, one row of a, each in a sector" in rows.text
    planes = classify([4096 * i for i in LANES], 4, array=array((8, 32, 32)))
    assert planes.axis == 0
    assert "one step along axis 0 of a" in planes.text
    other = classify([128 * i for i in LANES], 4, array=array((64, 64)))
    assert other.axis is None
    assert "32 elements (128 bytes) apart, each" in other.text


@pytest.mark.parametrize(("shape", "dtype"), [((99,), "V16"), ((99, 4), "float32")])
def test_fields_of_structures(shape, dtype):
    pattern = classify([16 * i + 12 for i in LANES], 4, array=array(shape, dtype))
    assert (pattern.kind, pattern.stride_bytes) == ("field", 16)
    assert "4 of the 16 bytes of a structure of a" in pattern.text
    image = classify([3 * i for i in LANES], 1, array=array((64, 64, 3), "uint8"))
    assert "1 of the 3 bytes of a structure of a" in image.text
    whole = classify([16 * i for i in LANES], 16, array=array(shape, dtype))
    assert whole.kind == "contiguous"


@pytest.mark.parametrize(
    ("mask", "words"),
    [
        (0xFF, "Only 8 of 32 lanes are active."),
        (0x11111111, "Only every 4th lane is active."),
        (0x55555555, "Only every 2nd lane is active."),
        (1 << 7, "Only one lane"),
    ],
)
def test_partial_warps(mask, words):
    assert words in classify([4 * i for i in LANES], 4, mask).text


@pytest.mark.parametrize(
    ("addresses", "width", "name"),
    [
        ([4 * i for i in LANES], 4, "no conflict"),
        ([8 * i for i in LANES], 4, "2-way conflict"),
        ([128 * i for i in LANES], 4, "32-way conflict"),
        ([132 * i for i in LANES], 4, "no conflict"),
        ([8 * i for i in LANES], 8, "no conflict"),
        ([256 * i for i in LANES], 8, "16-way conflict"),
        ([16 * i for i in LANES], 16, "no conflict"),
        ([64] * 32, 4, "broadcast"),
        (list(LANES), 1, "no conflict"),
        ([4 * (i // 2) for i in LANES], 4, "no conflict"),
        ([128 * (i % 3) + 4 * (i // 3) for i in LANES], 4, "3-way conflict"),
    ],
)
def test_shared_memory(addresses, width, name):
    assert classify(addresses, width, space="shared").name == name


@pytest.mark.parametrize("kind", ["load", "store"])
@pytest.mark.parametrize("mask", [0xFFFFFFFF, 0x00FF00FF, 0xF0F0F0F0, 0x80000001, 0x0000FFFF])
@pytest.mark.parametrize("width", [4, 8, 16])
@pytest.mark.parametrize("step", [1, 2, 16, 17])
def test_pictures_and_sentences_agree_about_conflicts(kind, mask, width, step):
    """Lanes are served in groups by lane number, whether or not all of them are active."""
    addresses = [width * step * (i // 2 * 2 if step == 2 else i) for i in LANES]
    sentence = classify(addresses, width, mask, space="shared", access=kind).name
    picture = draw.bank_board(addresses, width, mask, kind=kind).headline
    assert sentence.replace("no ", "no bank ").replace("-way ", "-way bank ") in picture


def test_half_of_each_half_warp_has_no_conflict():
    addresses = [8 * i for i in LANES]
    assert classify(addresses, 8, 0x00FF00FF, space="shared").name == "no conflict"
    assert "2 wavefronts, no bank conflict" in draw.bank_board(addresses, 8, 0x00FF00FF).headline


def test_whether_a_conflict_follows_from_the_code(random):
    rows = classify([128 * (i // 4) + 4 * (i % 4) for i in LANES], 4, space="shared")
    assert rows.regular
    of_data = classify([4 * w for w in random.integers(0, 256, 32)], 4, space="shared")
    assert not of_data.regular
    assert "without a regular step" in of_data.text
