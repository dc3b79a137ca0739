"""Comparisons of profiles: what changed in each quantity and on each line."""

import json

import numpy as np
import pytest

import coalesce
from coalesce.profiling.comparison_data import Row
from coalesce.profiling.report.comparison_text import change

SCALE = """\
extern "C" __global__ void scale(float* x, float* y) {
    const int i = threadIdx.x;
    x[i * STRIDE] *= 2;
    y[i] += 1;
}
"""


def scaled(stride):
    kernel = coalesce.Kernel(SCALE, options=[f"-DSTRIDE={stride}"], device="sim")
    return kernel.profile(1, 32, np.ones(32 * stride, np.float32), np.ones(32, np.float32))


@pytest.fixture(scope="module")
def transposes():
    a = np.ones((64, 64), np.float32)
    return [
        coalesce.profile("transpose", a, variant=v)
        for v in ("naive_write", "tiled", "padded", "swizzled", "copy")
    ]


def test_rows_and_ratios(transposes):
    c = coalesce.compare(*transposes[:3])
    assert c.names == ("naive_write", "tiled", "padded")
    rows = {row.name: row for row in c.rows()}
    assert rows["sectors per global load"].values == (32, 4, 4)
    assert rows["bank conflicts"].values == (0, 3968, 0)
    assert c.ratio("global load sectors") == 1 / 8
    assert c.ratio("global load sectors", 2) == 1 / 8
    assert c.ratio("l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum") == 1 / 8
    assert c.ratio("bank conflicts") is None
    assert rows["global load sectors"].better(1) is True
    assert rows["bytes used per global load, %"].better(1) is True
    assert rows["global load requests"].better(1) is None
    back = {row.name: row for row in coalesce.compare(*transposes[1::-1]).rows()}
    assert back["global load sectors"].better(1) is False
    assert back["bytes used per global load, %"].better(1) is False
    with pytest.raises(
        ValueError,
        match=r"`name` is 'speed', .*; the known quantities are .*'bank conflicts'",
    ):
        c.ratio("speed")


def test_passes_of_l1():
    """Rows that are 512 elements apart use the same part of L1's tags."""
    source = """__global__ void k(const float *a, float *b, int pitch) {
        b[threadIdx.x] = a[threadIdx.x * pitch];
    }"""
    a, b = np.ones(32 * 520, np.float32), np.zeros(32, np.float32)
    kernel = coalesce.Kernel(source, device="sim")
    c = coalesce.compare(*(kernel.profile(1, 32, a, b, pitch) for pitch in (512, 520)))
    assert c.ratio("L1 passes of global memory (modelled)") < 0.7
    assert c.ratio("global load sectors") == 1


def test_lines_of_one_source_are_paired():
    c = coalesce.compare(scaled(8), scaled(1))
    pairs = c.lines()
    assert [(a.number, b.number) for a, b in pairs] == [(3, 3), (4, 4)]
    assert [(a.sectors, b.sectors) for a, b in pairs] == [(64, 8), (8, 8)]
    text = c.to_text()
    assert "-   3 │ x[i * STRIDE] *= 2;" in text
    assert "+   3 │ x[i * STRIDE] *= 2;" in text
    assert "1 line with the same cost in both is not shown." in text
    assert c.names == ("scale (1)", "scale (2)")


def test_no_line_changed(check_html):
    c = coalesce.compare(scaled(8), scaled(8))
    assert c.to_text().endswith(
        "\nAll 2 lines that access memory cost the same in scale (1) and scale (2)."
    )
    html = c._repr_html_()
    check_html(html)
    for shown in (c.to_text(), html):
        assert "Lines of" not in shown
        assert "left out" not in shown
    assert "All 2 lines that access memory cost the same" in html


def test_no_line_accesses_memory(check_html):
    nothing = coalesce.Kernel('extern "C" __global__ void idle() {}', device="sim").profile(1, 32)
    c = coalesce.compare(nothing, nothing)
    assert "ines" not in c.to_text()
    html = c._repr_html_()
    check_html(html)
    assert "ines" not in html


def test_lines_of_two_sources(transposes):
    pairs = coalesce.compare(*transposes[1:3]).lines()
    # Each line has a partner with the same text, although the line numbers differ.
    assert all(a is not None and b is not None for a, b in pairs)
    assert [a.source for a, _ in pairs] == [b.source for _, b in pairs]
    pairs = coalesce.compare(transposes[0], transposes[1]).lines()
    assert [a is None for a, _ in pairs] == [False, True, True]
    assert [b is None for _, b in pairs] == [True, False, False]


@pytest.mark.parametrize("width", [80, 100])
@pytest.mark.parametrize("n", [2, 3, 5])
def test_text_fits(transposes, n, width):
    text = coalesce.compare(*transposes[:n]).to_text(width)
    lines = text.splitlines()
    assert max(map(len, lines)) <= width
    assert "8x less" in text
    for p in transposes[:n]:
        assert any(line.startswith(p.title.split()[-1] + "  grid") for line in lines)


def test_html(transposes, tmp_path, check_html):
    c = coalesce.compare(*transposes)
    check_html(c._repr_html_())
    c.to_html(tmp_path / "c.html")
    page = (tmp_path / "c.html").read_text(encoding="utf-8")
    assert c._repr_html_() in page
    assert "8x less" in page
    assert repr(c) == c.to_text()


def test_to_dict(transposes):
    data = json.loads(json.dumps(coalesce.compare(*transposes[:2]).to_dict()))
    assert data["names"] == ["naive_write", "tiled"]
    values = {row["name"]: row["values"] for row in data["rows"]}
    assert values["global load sectors"] == [4096, 512]
    assert len(data["profiles"]) == 2


def test_example():
    """The example of the docstring prints what it says."""
    a = np.ones((64, 64), np.float32)
    naive, tiled = (coalesce.profile("matmul", a, a, variant=v) for v in ("naive", "tiled"))
    assert coalesce.compare(naive, tiled).ratio("global load requests") == 1 / 32


def test_mistakes(transposes):
    with pytest.raises(ValueError, match="needs two profiles or more; got 1"):
        coalesce.compare(transposes[0])
    with pytest.raises(TypeError, match="`profiles` must be of type Profile; got dict"):
        coalesce.compare(transposes[0], {})


@pytest.mark.parametrize(
    ("values", "shown"),
    [
        ((15.15, 100.0), "+85 points"),
        ((100.0, 0.0), "-100 points"),
        ((66.41, 66.6), "+0.2 points"),  # a small change is not shown as +0
        ((50.0, 49.96), "-0.04 points"),
        ((50.0, 50.0), "the same"),
    ],
)
def test_changes_of_percentages(values, shown):
    assert change(Row("bytes used per global load, %", values), 1) == shown
