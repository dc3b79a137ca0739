"""Helpers of the lessons: recorded times, with and without a recording, and checked exercises."""

import json
import re
from pathlib import Path

import pytest

import coalesce
from coalesce import lessons
from coalesce.lessons import _exercises, _recording, _times

pytestmark = pytest.mark.usefixtures("on_simulator")
NOTEBOOKS = Path(__file__).parents[3] / "notebooks"


@pytest.fixture(autouse=True)
def simulated(monkeypatch):
    monkeypatch.setenv("COALESCE_DEVICE", "sim")


def _row(variant, ms, **options):
    return {
        "operation": "matmul",
        "variant": variant,
        "options": options,
        "n": 64,
        "kernel_ms": ms,
        "spread": 0.01,
        "runs": 5,
        "gflops": 2 * 64**3 / ms / 1e6,
        "gbps": 3 * 64 * 64 * 4 / ms / 1e6,
        "device": "cuda:0",
        "parts": [[variant, ms]],
    }


@pytest.fixture
def recorded(tmp_path, monkeypatch):
    """A recording with invented figures of a GPU that does not exist."""
    file = tmp_path / "recording.json"
    content = {
        "gpu": "Invented 1",
        "driver": "1.2",
        "nvrtc": "3.4",
        "coalesce": "0.0",
        "date": "2001-02-03",
        "command": "none",
        "times": [_row("naive", 8.0), _row("tiled", 2.0), _row("tiled", 4.0, tile=16)],
        "sweeps": [{"pattern": "stride", "itemsize": 4, "values": [1, 2], "gbps": [9.0, 5.0]}],
    }
    file.write_text(json.dumps(content))
    made = _recording.read(file)
    monkeypatch.setattr(_times, "recording", lambda: made)
    return made


@pytest.fixture
def unrecorded(monkeypatch):
    monkeypatch.setattr(_times, "recording", lambda: None)


@pytest.mark.usefixtures("recorded")
def test_times_of_a_recording(check_html):
    t = lessons.times("matmul", ["naive", "tiled", ("tiled", {"tile": 16})], n=64)
    assert list(t) == ["naive", "tiled", "tiled, tile=16"]
    assert t.ratio("tiled") == 4
    assert t.ratio("tiled", "tiled, tile=16") == 2
    assert t["tiled"].source == "measured"
    text = repr(t)
    assert "measured on Invented 1, recorded 2001-02-03" in text
    assert re.search(r"^tiled +2\.000 +0 +4\.00$", text, re.MULTILINE)
    assert "here" not in text
    check_html(t._repr_html_())


@pytest.mark.usefixtures("recorded")
def test_times_are_compared_with_any_variant():
    t = lessons.times("matmul", ["naive", "tiled"], n=64, against="tiled")
    assert t.ratio("naive") == 0.25
    assert "speed, tiled = 1" in repr(t)
    assert re.search(r"^naive .* 0\.25$", repr(t), re.MULTILINE)


@pytest.mark.usefixtures("recorded")
def test_a_time_that_was_not_recorded_is_left_out():
    t = lessons.times("matmul", ["naive", "coalesced"], n=64)
    assert list(t) == ["naive"]
    assert t.ratio("coalesced") is None


@pytest.mark.usefixtures("unrecorded")
def test_without_a_recording_times_say_so(check_html):
    t = lessons.times("matmul", ["naive", "tiled"])
    assert not t
    assert repr(t) == (
        "matmul of 4096 x 4096 float32: no measurement is recorded, and there is no GPU here"
    )
    check_html(t._repr_html_())
    assert t.ratio("tiled") is None


def test_times_need_a_variant():
    with pytest.raises(ValueError, match="`variants` is empty"):
        lessons.times("matmul", [])


@pytest.mark.usefixtures("recorded")
def test_sweep_uses_the_recorded_bandwidth():
    data = lessons.sweep("stride", [1, 2])
    assert data.sectors.tolist() == [4, 8]
    assert data.gbps.tolist() == [9, 5]
    assert (data.source, data.device) == ("measured", "Invented 1, recorded 2001-02-03")
    assert lessons.sweep("stride", [1, 3]).gbps is None  # no time of stride 3 was recorded


@pytest.mark.usefixtures("unrecorded")
def test_sweep_without_a_recording_only_counts():
    assert lessons.sweep("stride", [1, 2]).gbps is None


def test_a_modelled_time_is_never_recorded():
    import numpy as np

    _, timing = coalesce.matmul(*np.ones((2, 8, 8), np.float32), return_timing=True)
    assert timing.source == "modelled"
    with pytest.raises(ValueError, match="the time of matmul naive is modelled"):
        _recording.row_of("matmul", "naive", {}, 8, timing)
    with pytest.raises(ValueError, match="was not measured"):
        _recording.sweep_row(coalesce.plots.Sweep.run("stride", [1]))


def test_the_shipped_recording_was_measured():
    known = lessons.recording()
    if known is None:
        pytest.skip("there is no recording")
    assert known.command == "python benchmarks/lessons.py"
    taught = {v.name for v in coalesce.variants("matmul") if v.tiles and not v.hopper}
    untimed = taught - set(known.times("matmul", 4096))
    assert not untimed, f"on a GPU, run {known.command}"
    for n in known.sizes("matmul"):  # lesson 2 compares rows of a power of two with others
        assert {"naive", "coalesced"} <= set(known.times("matmul", n))
    assert all(t.source == "measured" for t in known.times("transpose", 4096).values())


def test_the_shipped_recording_has_counters_at_the_size_of_the_times():
    known = lessons.recording()
    if known is None:
        pytest.skip("there is no recording")
    counters = known.counters("matmul", 4096)
    assert {"naive", "coalesced", "tiled", "pipelined"} <= set(counters)
    for name in ("naive", "coalesced", "tiled"):
        ms = counters[name]["gpu__time_duration.sum"] / 1e6
        assert ms == pytest.approx(known.times("matmul", 4096)[name].kernel_ms, rel=0.02)
    assert known.counters("matmul", 5) == {}


def test_lesson_kernels_have_sources():
    assert "again" in lessons.source("repeats")
    with pytest.raises(ValueError, match="`name` must be one of 'padding', 'repeats'; got 'x'"):
        lessons.source("x")


# The step at which the check of each starting point stops, and its message.
STARTS = {
    "add_arrays": ("check", ["two blocks write the same value to out[0]"]),
    "thread_number": ("result", ["x must run fastest"]),
    "which_warp": ("result", ["A row got a warp of its own", "warp[1, 0] is 1 and should be 0"]),
    "copy_four": ("counts", ["global loads take 16 sectors", "Neighbouring lanes are 4 elements"]),
    "pair_means": ("counts", ["4,096 sectors", "Several loads visit the same sectors"]),
    "crop": ("check", ["two blocks write different values to out[1, 0]"]),
    "product": ("counts", ["global loads take 16.5 sectors", "one row of a"]),
    "gram": ("counts", ["global stores take 16 sectors", "one row of out"]),
    "pad": ("counts", ["11.3 passes of L1 each; at most 4.5", "few of the 32 banks of L1"]),
    "grey": ("counts", ["9,216 sectors", "Several loads visit the same sectors"]),
    "barriers": ("check", ["data race on tile"]),
    "tiled": (
        "counts",
        [
            "blocks that load their rows of a and columns of b once take 3,456; at most 1.05 times",
            "global loads take 55,296 requests",
            "The same elements are accessed several times",
        ],
    ),
    "corner": ("counts", ["bank conflicts cost", "32 words apart"]),
    "transpose": ("counts", ["global stores take 32 sectors"]),
    "swizzle": ("counts", ["32-way bank conflict"]),
    "mirror": ("counts", ["global loads take 16 sectors", "global stores take 16 sectors"]),
    "row_means": ("counts", ["16,384 requests", "Only 1 of 32 lanes is active"]),
    "block_sums": ("counts", ["8-way bank conflict"]),
    "column_max": ("counts", ["global loads take 32 sectors"]),
    "prefix": ("counts", ["10,176 requests, one pass over the array takes 64"]),
    "polar": ("counts", ["of 32 lanes execute an instruction on average; at least 30"]),
    "count_positive": ("counts", ["2.19 of 32 lanes", "Only 1 of 32 lanes is active"]),
    "warp_sums": (
        "check",
        ["ordered only if the warp runs in lockstep", "what other lanes have stored"],
    ),
    "register_tile": ("counts", ["0.812 wavefronts per multiply-add", "Which R and C"]),
    "turned_tile": ("counts", ["bank conflict"]),
    "brighten": ("counts", ["global loads take 32 sectors per request; at most 4.5 are allowed"]),
    "rotate": ("counts", ["global stores take 32 sectors per request; at most 4.5 are allowed"]),
    "smooth": (
        "counts",
        [
            "global loads take 4,352 requests, one pass over the array takes 256; at most 1.5",
            "sectors, one pass over the array takes 1,024; at most 1.5",
            "The same elements are accessed several times: by neighbouring threads",
        ],
    ),
    "double_all": ("check", ["the same value"]),
    "untiled": ("result", ["one product per tile instead of 16"]),
    "histogram": ("counts", ["atomics on global memory take 512 requests"]),
    "distances": ("counts", ["2 load requests per store; at most 1.25", "line 5: load y"]),
    "votes": ("counts", ["line 5: load local, 4,096 requests", "stays in registers"]),
}


def test_every_exercise_has_a_starting_point():
    assert list(STARTS) == [one.name for one in lessons.exercises()]
    assert len(STARTS) >= 30
    assert {one.lesson for one in lessons.exercises()} == {*range(10), 11}


@pytest.mark.parametrize("name", STARTS)
def test_a_starting_point_fails_and_the_reason_is_named(name):
    one = lessons.exercise(name)
    stage, reasons = STARTS[name]
    verdict = one.check(one.source)
    assert verdict.stage == stage
    for reason in reasons:
        assert reason in verdict.text


@pytest.mark.parametrize("name", STARTS)
def test_a_solution_passes(name):
    one = lessons.exercise(name)
    verdict = one.check(one.solution)
    assert verdict, str(verdict)
    assert "solved" in str(verdict)


def test_an_endless_loop_is_stopped(monkeypatch):
    monkeypatch.setattr(_exercises, "_time_limit_seconds", 0.5)
    one = lessons.exercise("double_all")
    verdict = one.check(one.solution.replace("i += stride", "i += 0"))
    assert verdict.stage == "time"
    assert "did not end" in str(verdict)


def test_hints_are_graded_and_do_not_end_in_an_error():
    for one in lessons.exercises():
        first, second = one.hint(1), one.hint(2)
        assert first != second
        assert "There are" in one.hint(9)
        assert one.solution.strip() not in repr(one)
    with pytest.raises(ValueError, match="`number` must be at least 1"):
        lessons.exercise("smooth").hint(0)


@pytest.mark.parametrize("one", lessons.exercises(), ids=lambda one: one.name)
def test_its_lesson_has_the_exercise_once(one):
    (lesson,) = NOTEBOOKS.glob(f"{one.lesson:02}_*.py")
    cell = f'# %% tags=["exercise"]\nlessons.exercise("{one.name}")\n'
    assert lesson.read_text(encoding="utf-8").count(cell) == 1


def test_a_wrong_result_is_named():
    one = lessons.exercise("brighten")
    verdict = one.check(one.source.replace("gain *", "2 + gain *"))
    assert verdict.stage == "result"
    assert re.search(
        r"out\[0, 0\] is \S+ and should be \S+; 3,500 of\s+3,500 are wrong", verdict.text
    )
    verdict = one.check(one.source.replace("col < cols", "col < 0"))
    assert "nothing was written to out[0, 0]" in verdict.text


def test_work_that_every_block_repeats_does_not_pass():
    """All blocks repeat the same loads. The loads are coalesced and the result is right."""
    one = lessons.exercise("brighten")
    lines = [
        "__global__ void brighten(const float* image, float* out, int rows, int cols,",
        "                         float gain) {",
        "  for (int i = START; i < rows * cols; i += STEP) out[i] = gain * image[i];",
        "}",
    ]
    text = "\n".join(lines)
    again = text.replace("START", "threadIdx.x").replace("STEP", "blockDim.x")
    verdict = one.check(again)
    assert verdict.stage == "check"
    assert "the same value" in verdict.text
    # The verdict is the same if only the loads are repeated and the writes are not.
    thrifty = again.replace("out[i] =", "if (i / 256 % gridDim.x == blockIdx.x) out[i] =")
    wasteful = thrifty.replace("gain * image[i]", "gain * x").replace(
        "if (i /", "{ float x = __ldcv(image + i); if (i /"
    )
    verdict = one.check(wasteful.replace("gain * x;", "gain * x; }"))
    assert verdict.stage == "counts"
    assert "one pass over the array takes 1,024; at most 1.25" in verdict.text
    loop = text.replace("START", "blockIdx.x * blockDim.x + threadIdx.x")
    assert one.check(loop.replace("STEP", "gridDim.x * blockDim.x"))


def test_other_good_answers_pass():
    wide = """
__global__ void brighten(const float* image, float* out, int rows, int cols, float gain) {
    int i = 4 * (blockIdx.x * blockDim.x + threadIdx.x), n = rows * cols;
    if (i + 3 < n) {
        float4 p = *(const float4*)(image + i);
        *(float4*)(out + i) = make_float4(gain * p.x, gain * p.y, gain * p.z, gain * p.w);
    } else {
        for (; i < n; ++i) out[i] = gain * image[i];
    }
}"""
    assert lessons.exercise("brighten").check(wide)
    swizzled = lessons.exercise("rotate").solution.replace("[33]", "[32]")
    swizzled = swizzled.replace("tile[ty][tx]", "tile[ty][tx ^ ty]")
    swizzled = swizzled.replace("tile[31 - tx][ty]", "tile[31 - tx][ty ^ (31 - tx)]")
    assert lessons.exercise("rotate").check(swizzled)


def test_lockstep_does_not_pass():
    """The check warns, and the warning counts as a finding: the result is right only by luck."""
    text = """
__global__ void brighten(const float* image, float* out, int rows, int cols, float gain) {
    __shared__ volatile float s[256];
    int t = threadIdx.x, i = blockIdx.x * blockDim.x + t;
    if (i - t % 32 + 31 < rows * cols) {
        s[t] = gain * image[i];
        out[i ^ 31] = s[t ^ 31];
    } else if (i < rows * cols) {
        out[i] = gain * image[i];
    }
}"""
    verdict = lessons.exercise("brighten").check(text)
    assert verdict.stage == "check"
    assert "lockstep" in verdict.text


def test_a_kernel_is_needed():
    with pytest.raises(
        TypeError, match=r"`kernel` must be a Kernel, or a string of CUDA C\+\+; got int"
    ):
        lessons.exercise("rotate").check(3)
    with pytest.raises(ValueError, match=r"`name` must be one of 'add_arrays', .*; got 'x'"):
        lessons.exercise("x")


@pytest.mark.parametrize(
    "changed", ["const int* a", "const double* a", "float a", "float x, int a"]
)
def test_wrong_parameters_are_named_beside_the_right_ones(changed):
    one = lessons.exercise("add_arrays")
    right = re.escape("add_arrays(const float *a, const float *b, float *out, int n)")
    with pytest.raises(TypeError, match=f"must be those of the exercise, {right}; got add_arrays"):
        one.check(f"__global__ void add_arrays({changed}, const float* b, float* out, int n) {{}}")


def test_exercises_show_their_task():
    for one in lessons.exercises():
        assert one.name in one.source
        assert one.task in " ".join(repr(one).split())
        assert max(map(len, repr(one).splitlines())) < 80
        assert len(one.demands) >= 1


def test_code_is_numbered_as_in_its_file(check_html):
    code = lessons.code("matmul", "naive")
    assert coalesce.source("matmul", "naive").splitlines()[code.first - 1] == code.splitlines()[0]
    number, line = next(x for x in enumerate(code.splitlines(), code.first) if "sum +=" in x[1])
    assert f"{number:4}  {line}" in repr(code).splitlines()
    html = code._repr_html_()
    check_html(html)
    assert f"{number:4}</span>" in html
    assert "font-weight:600" in html  # keywords are bold


def test_code_marks_the_lines_that_another_variant_does_not_have(check_html):
    code = lessons.code("matmul", "coalesced", since="naive")
    lines = dict(enumerate(code.splitlines(), code.first))
    marked = [lines[number].strip() for number in sorted(code.marked & set(lines))]
    assert any(line.startswith("const int row =") for line in marked)
    assert any(line.startswith("const int col =") for line in marked)
    assert not any(
        "sum +=" in line or "__global__" in line or "REAL sum" in line for line in marked
    )
    number = next(n for n, line in lines.items() if "const int row =" in line)
    assert f"{number:4}+ {lines[number]}" in repr(code).splitlines()
    html = code._repr_html_()
    check_html(html)
    assert html.count("background-color") == len(marked)
    assert not lessons.code("matmul", "naive", since="naive").marked


def test_code_shows_a_part_and_folds_the_whole_file(check_html):
    code = lessons.code("matmul", "vectorized", part=("__device__ Vector load", "return result"))
    assert code.splitlines()[0].startswith("__device__ Vector load")
    assert code.splitlines()[-1].strip() == "if (row >= rows) return result;"
    source = coalesce.source("matmul", "vectorized").splitlines()
    assert source[code.first - 1] == code.splitlines()[0]
    assert code.whole is not None
    assert code.whole.splitlines() == source[code.whole.first - 1 :]
    assert not code.whole.startswith("//")  # the first comment, which gives the costs, is removed
    html = code._repr_html_()
    check_html(html)
    count = len(code.whole.splitlines())
    assert f"<details><summary>The whole file, without its first comment ({count} lines)" in html
    assert "The whole file" not in lessons.code("matmul", "vectorized")._repr_html_()
    with pytest.raises(ValueError, match="'nothing of the kind' is not on the first line with"):
        lessons.code("matmul", "naive", part=("for (", "nothing of the kind"))
    with pytest.raises(ValueError, match="no line of the source contains 'while'"):
        lessons.code("matmul", "naive", part=("while", "}"))


def test_a_table_is_text_and_html(check_html):
    table = lessons.Table(["kernel", "loads"], [["a < b", "12"], ["c", "3"]], "per element")
    assert repr(table) == "per element\nkernel  loads\na < b      12\nc           3"
    html = table._repr_html_()
    check_html(html)
    assert "a &lt; b" in html
    assert repr(lessons.Table(["kernel"], [], "nothing")) == "nothing"


def test_the_advice_of_the_register_tile_counts_wavefronts():
    one = lessons.exercise("register_tile")
    flat = one.solution.replace("t / 16 * 4", "t / 8 * 2").replace("t % 16 * 4", "t % 8 * 8")
    for old, new in (("a_values[4]", "a_values[2]"), ("b_values[4]", "b_values[8]")):
        flat = flat.replace(old, new)
    flat = (
        flat.replace("sum[4][4]", "sum[2][8]").replace("i < 4", "i < 2").replace("j < 4", "j < 8")
    )
    verdict = one.check(flat)
    assert verdict.stage == "counts", str(verdict)
    assert "wavefronts per multiply-add of a warp; at most 0.41 are allowed" in verdict.text
