"""What a reader must be told first: idle lanes, constant memory, and which of two kernels did less.

Each kernel is the smallest form of a question that was asked in public.
"""

import numpy as np
import pytest

import coalesce
from coalesce._core import model
from coalesce.launch.modelled import BOUNDS
from coalesce.profiling.hardware import metrics
from coalesce.profiling.sentences import gains

KERNELS = r"""
__constant__ float table[1024];
__global__ void copied(const float* x, float* y) {
    y[blockIdx.x * blockDim.x + threadIdx.x] = x[blockIdx.x * blockDim.x + threadIdx.x];
}
__global__ void one_adds(const float* x, float* y) {
    __shared__ float s[256];
    s[threadIdx.x] = x[blockIdx.x * 256 + threadIdx.x];
    __syncthreads();
    if (threadIdx.x == 0) {
        float t = 0;
        for (int i = 0; i < 256; ++i) t += s[i];
        y[blockIdx.x] = t;
    }
}
__global__ void odd_lanes(const float* x, float* y) {
    float v = x[threadIdx.x];
    if (threadIdx.x % 2)
        for (int j = 0; j < 50; ++j) v = v * v + .1f;
    else
        for (int j = 0; j < 60; ++j) v = sqrtf(v) + .2f;
    y[threadIdx.x] = v;
}
__global__ void odd_warps(const float* x, float* y) {
    float v = x[threadIdx.x];
    if (threadIdx.x / 32 % 2)
        for (int j = 0; j < 50; ++j) v = v * v + .1f;
    else
        for (int j = 0; j < 60; ++j) v = sqrtf(v) + .2f;
    y[threadIdx.x] = v;
}
__global__ void sum_of_block(const float* x, float* y) {
    float t = 0;
    for (int i = 0; i < 64; ++i) t += x[blockIdx.x * 64 + i];
    y[blockIdx.x] = t;
}
__global__ void sum_of_row(const float* x, float* y) {
    int row = blockIdx.x * blockDim.y + threadIdx.y;
    float t = 0;
    for (int i = 0; i < 64; ++i) t += x[row * 64 + i];
    y[row] = t;
}
__global__ void flagged(const float* x, float* y) {
    if (x[threadIdx.x] > 0) y[blockIdx.x] = 1;
}
__global__ void looked_up(const float* x, float* y) {
    y[threadIdx.x] = table[INDEX];
}
__global__ void halved(const float* x, float* y) {
    __shared__ float s[256];
    int t = threadIdx.x;
    s[t] = x[t];
    __syncthreads();
    for (int i = 1; i < LIMIT; i *= 2) {
        if (t % (2 * i) == 0) s[t] += s[t + i];
        __syncthreads();
    }
    if (t == 0) y[0] = s[0];
}
__global__ void transposed(const float* x, float* y) {
    int i = threadIdx.x, j = threadIdx.y, n = i * 128 + j;
    if (i && j) y[n] = x[n];
}
"""


def profile(name, grid=1, block=256, **macros):
    options = [f"-D{k}={v}" for k, v in ({"INDEX": 0, "LIMIT": 256} | macros).items()]
    kernel = coalesce.Kernel(KERNELS, name, options=options, device="sim")
    return kernel.profile(grid, block, np.ones(1 << 14, np.float32), np.ones(1 << 14, np.float32))


def line_of(text):
    return KERNELS.splitlines().index(next(t for t in KERNELS.splitlines() if text in t)) + 1


@pytest.mark.parametrize(
    ("name", "block", "lanes", "said"),
    [
        ("copied", 1, 1, "1 of 32 lanes is active; a block has 1 thread, and so 1 per warp."),
        ("copied", 48, 24, None),
        ("copied", 256, 32, None),
        ("odd_lanes", 256, 16, "of the idle lanes are in line"),
        ("odd_warps", 256, 32, None),
    ],
)
def test_idle_lanes_are_said_first(name, block, lanes, said):
    p = profile(name, 1, block)
    ratio = p.metrics()["smsp__thread_inst_executed_per_inst_executed.ratio"]
    assert ratio == p.lanes_per_instruction == pytest.approx(lanes, abs=1)
    assert ("lanes" in p.verdict[0]) == (said is not None)
    assert said is None or said in p.verdict[0]


def test_the_line_with_most_idle_lanes_is_named():
    p = profile("one_adds", 4)
    worst = max(p.lines(), key=lambda line: 32 * line.executed - line.threads)
    assert worst.number == line_of("for (int i = 0; i < 256")
    assert worst.lanes == 1
    assert f"are in line {worst.number}" in p.verdict[0]
    assert p.lines()[0].lanes > 1


@pytest.mark.parametrize(
    ("variant", "bound", "line", "following"),
    [
        ("naive", "data", "sum += a[", "requests"),
        ("coalesced", "requests", "sum += a[", "latency"),
        ("thread_per_row", "data", "sum += ", "latency"),
    ],
)
def test_the_report_opens_with_the_limit(variant, bound, line, following):
    a = np.ones((256, 256), np.float32)
    operation = "row_sums" if variant == "thread_per_row" else "matmul"
    p = coalesce.profile(operation, *[a] * (1 + (operation == "matmul")), variant=variant)
    m = p.modelled
    first, second = sorted(m.cycles, key=m.cycles.get)[:-3:-1]
    assert (m.bound, first, second) == (bound, bound, following)
    number = next(i for i, t in enumerate(p.source.splitlines(), 1) if line in t)
    said = (
        f"of its work is in line {number}. The next limit, at "
        f"{m.cycles[second] / m.cycles[first]:.0%} of this time, is {BOUNDS[following]}."
    )
    text = " ".join(str(p).split())
    assert said in text
    assert text.index(said) < text.index(p.verdict[0])
    assert said in p.to_html()


@pytest.mark.parametrize(("block", "room"), [(256, 8 * 132), (32, 32 * 132), (1024, 2 * 132)])
def test_a_small_grid_has_too_few_warps(block, room):
    modelled = profile("copied", 1, block).modelled
    assert modelled.blocks_on_gpu == room
    assert f"too few warps to hide it: 1 block, room for {room:,}" in modelled.why


@pytest.mark.parametrize(
    ("index", "words"), [("threadIdx.x / 32", 1), ("threadIdx.x", 32), ("threadIdx.x * 3 / 2", 32)]
)
def test_constant_memory_has_a_row(index, words):
    p = profile("looked_up", INDEX=index)
    load = next(a for a in p.accesses() if a.space == "constant")
    assert (load.unit, load.requests, load.words, load.ideal) == ("words", 8, 8 * words, 8)
    assert (load.bytes_moved, load.pattern, load.picture()) == (0, None, None)
    assert load.sentence.startswith("32 words of table") == (words > 1)
    assert p.verdict[0].startswith("Constant memory delivers 32 words") == (words > 1)
    assert f"8 x {words} word" in str(p)
    assert next(t for t in p.totals() if t.space == "constant").per_request == words


def test_a_comparison_shows_what_changed():
    """The compiler unrolls a loop of a known length: fewer instructions, and equal accesses."""
    c = coalesce.compare(profile("halved", LIMIT="blockDim.x"), profile("halved"))
    changed = [row.name for row in c.rows() if row.changed]
    assert "instructions of warps" in changed
    assert "the same" not in str(c).split("quantities")[0]
    same = len(c.rows()) - len(changed)
    assert f"{same} quantities are the same in all profiles" in str(c)
    assert f"{same} quantities are the same in all profiles" in c._repr_html_()
    assert "All" in str(coalesce.compare(profile("copied"), profile("copied")))


def test_the_example_has_the_usual_number_of_lanes():
    """The first warp of `transposed` has 15 active lanes, and each other one has 30."""
    p = profile("transposed", 1, (16, 16))
    assert "Only 15" not in " ".join(line.sentence for line in p.lines())


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("gld_efficiency", "smsp__sass_average_data_bytes_per_sector_mem_global_op_ld.pct"),
        ("l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum", "Profile.bank_conflicts"),
        ("smsp__inst_executed.avg", "counts smsp__inst_executed.sum"),
        ("smsp__inst_executd.sum", "near: smsp__inst_executed.sum"),
        ("sm__warps_active.avg.pct_of_peak_sustained_active", "how long a GPU takes"),
        ("l1tex__average_t_sectors_per_request_pipe_lsu_mem_local_op_ld.ratio", "no accesses"),
        ("idc__requests.sum", "does not count it"),
        (7, "does not count it"),
    ],
)
def test_a_missing_metric_says_what_to_use(name, hint):
    with pytest.raises(KeyError) as raised:
        profile("copied").metrics()[name]
    assert str(raised.value).startswith(f"{name!r}: ")
    assert hint in str(raised.value)


def test_names_of_nvprof_lead_to_metrics_that_exist():
    """Each name stands for a metric that some kernel of this file has."""
    known = {m for name in ("copied", "one_adds") for m in profile(name).metrics()}
    missing = set(metrics.OF_NVPROF.values()) - known
    assert all("local" in name for name in missing), missing


def test_a_part_of_the_metrics():
    p = profile("one_adds")
    parts = [p.metrics(part) for part in metrics.SETS[1:]]
    assert {name for part in parts for name in part} == set(p.metrics())
    assert "dram__bytes_read.sum" in p.metrics("memory")
    with pytest.raises(ValueError, match="`set` must be one of 'all', 'instructions'"):
        p.metrics("memry")


def test_every_name_of_nvprof_and_of_reports_has_an_answer():
    known = profile("copied", 1, 64).metrics()
    for name in (
        *metrics.OF_NVPROF,
        *metrics.OF_OTHERS,
        "pcie_total_data_received",
        "ecc_throughput",
    ):
        with pytest.raises(KeyError) as raised:
            known[name]
        assert "nvprof" in str(raised.value) or "label of Nsight Compute" in str(raised.value)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("launch__grid_size", 2),
        ("launch__block_size", 96),
        ("smsp__warps_launched.sum", 6),
        ("sm__inst_executed.sum", "smsp__inst_executed.sum"),
        ("l1tex__t_bytes_pipe_lsu_mem_global_op_ld.sum", 6 * 4 * 32),
        ("dram__sectors_read.sum", 24),
        ("dram__bytes.sum", 24 * 32),
        ("smsp__average_inst_executed_per_warp.ratio", 13),
    ],
)
def test_metrics_that_follow_from_others(name, value):
    known = profile("copied", 2, 96).metrics()
    assert name not in known
    assert known[name] == (known[value] if isinstance(value, str) else value)


GAINS = [
    ("matmul", "naive", "coalesced"),
    ("transpose", "tiled", "padded"),
]


@pytest.mark.parametrize(("operation", "now", "then"), GAINS)
def test_a_gain_is_what_the_change_brings(operation, now, then):
    a = np.ones((512, 512), np.float32)
    arrays = (a, a) if operation == "matmul" else (a,)
    slow, fast = (coalesce.profile(operation, *arrays, variant=v) for v in (now, then))
    gain = slow.gains()[0]
    assert gain.ms == pytest.approx(fast.modelled_ms, rel=0.05)
    assert gain.factor == pytest.approx(slow.modelled_ms / gain.ms)
    report = slow.to_text(width=100)
    assert report.index("Faster  up to") < report.index("requests")


def test_blocks_that_leave_the_gpu_empty_are_the_first_gain():
    a = np.ones((512, 512), np.float32)
    first, second = coalesce.profile("row_sums", a, variant="thread_per_row").gains()[:2]
    assert "shared by 1,056 blocks, not 2" in first.text
    assert (second.place, second.factor > 4) == ("line 19", True)


def test_a_comparison_begins_with_the_largest_effect():
    slow, fast = (
        coalesce.Kernel(KERNELS, "halved", options=[f"-DLIMIT={limit}", "-DINDEX=0"])
        for limit in ("blockDim.x", "256")
    )
    x = np.ones(256 * 512, np.float32)
    profiles = [k.profile(512, 256, x, x.copy()) for k in (slow, fast)]
    rows = [row.name for row in coalesce.compare(*profiles).rows() if row.changed]
    assert rows[:2] == ["time, ms (modelled)", "instructions of warps"]


@pytest.mark.parametrize(
    ("kernel", "block", "lanes"),
    [
        ("sum_of_block", 64, 32),
        ("sum_of_block", 20, 20),
        ("sum_of_row", (32, 4), 32),
        ("sum_of_row", (4, 32), 0),
        ("sum_of_block", 1, 0),
        ("flagged", 64, 0),
    ],
)
def test_lanes_that_do_the_same_work_are_named(kernel, block, lanes):
    verdict = " ".join(profile(kernel, 2, block).verdict)
    assert ("lanes of a warp do the same work" in verdict) == bool(lanes)
    assert not lanes or f"{lanes} lanes" in verdict


@pytest.mark.parametrize("registers", [33, 40, 64, 65, 128])
@pytest.mark.parametrize("block", [128, 256, 1024])
def test_registers_that_limit_the_occupancy_are_named(block, registers):
    p = profile("copied", 1, block)
    p.registers = registers
    all_fit = 2048 // block
    most = gains._registers_for(p, all_fit)
    fits = [model.occupancy("h200", block, n, 0)["blocks"] for n in (most, most + 1)]
    assert (most, fits[0]) == (32, all_fit)
    assert fits[1] < all_fit
