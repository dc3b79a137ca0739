"""The models of caches and time compared with recordings of an H200 (models_h200.json)."""

import importlib.util
import itertools
import math
import statistics
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import counter_cases
import numpy as np
import pytest
from both_ways import bound

import coalesce
from coalesce import _core
from coalesce.arrays import devices
from coalesce.catalogue.table import OPERATIONS
from coalesce.compile.binaries import cubin
from coalesce.launch.modelled import Modelled
from coalesce.launch.module import Module
from coalesce.launch.run import run
from coalesce.launch.simulated import simulate

DATA = Path(__file__).parents[2] / "data"
RECORDED = counter_cases.load(DATA / "models_h200.json")
# The cases that run quickly. The products include cases with high and low hit rates.
QUICK = [
    *(
        f"{operation}/{v.name} 512x512 float32"
        for operation in ("transpose", "row_sums", "column_sums")
        for v in coalesce.variants(operation)
    ),
    "matmul/naive_2d 512x512x512 float32",
    "matmul/tiled 512x512x512 float32",
]


# In these products a thread computes many elements. There are few warps, so latency matters.
IN_REGISTERS = (
    *("blocktiled_1d", "blocktiled_2d", "vectorized", "warptiled", "pipelined"),
    "split_k",
)


def is_quick(name: str) -> bool:
    return name in QUICK or (name.startswith("access/") and " 262144 " in name)


@pytest.fixture(scope="module")
def launches_and_code():
    """Return (recorded metrics, modelled values) and the bytes of machine code, by case."""
    recorded = {launch["case"]: launch["metrics"] for launch in RECORDED["launches"]}
    pairs, code = {}, {}
    of_module, launched = Module.model_options, []

    def model_options(module, device, entry):
        launched.append(cubin.section(module.compiled(device).cubin, f".text.{entry}"))
        return of_module(module, device, entry)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Module, "model_options", model_options)
        for case in counter_cases.shipped.of_size(512, 512, 512):
            if is_quick(case.name):
                values = case.run("sim", timed=True)[-1][1].modelled
                pairs[case.name] = recorded[case.name], values
                code[case.name] = len(launched[-1])
    return pairs, code


@pytest.fixture(scope="module")
def launches(launches_and_code):
    """Return (recorded metrics, modelled values) of each launch by case."""
    return launches_and_code[0]


def modelled_and_measured(launches, metric):
    """Return (modelled, measured) of each launch."""
    return {name: (m.metrics()[metric], real[metric]) for name, (real, m) in launches.items()}


def shares(pairs):
    return {name: abs(ours / theirs - 1) for name, (ours, theirs) in pairs.items() if theirs}


def test_l1_hit_rates(launches):
    pairs = modelled_and_measured(launches, "l1tex__t_sector_hit_rate.pct")
    off = {name: abs(ours - theirs) for name, (ours, theirs) in pairs.items()}
    assert statistics.median(off.values()) < 0.1
    # The hardware counts consecutive stores to one line as hits less often.
    assert {name for name, points in off.items() if points > 3} == {
        "transpose/naive_read 512x512 float32"
    }


def test_l2_sectors(launches):
    reads = shares(modelled_and_measured(launches, "lts__t_sectors_srcunit_tex_op_read.sum"))
    assert statistics.median(reads.values()) == 0
    assert max(reads.values()) < 0.05
    # In these cases several multiprocessors read the same data; L2 merges 15 to 35 % of it.
    shared = {
        n for n, (_, m) in launches.items() if m.caches["l2_merged"] > 0.05 * m.caches["l2_reads"]
    }
    assert shared == {
        "matmul/naive_2d 512x512x512 float32",
        "matmul/tiled 512x512x512 float32",
    }
    for alone in ("access/stride 262144 float32 stride=2", "transpose/copy 512x512 float32"):
        assert launches[alone][1].caches["l2_merged"] == 0
    writes = modelled_and_measured(launches, "lts__t_sectors_srcunit_tex_op_write.sum")
    several = {name: pair for name, pair in writes.items() if pair[1] > 1000}
    assert all(ours == theirs for ours, theirs in several.values())


def test_dram_bytes(launches_and_code):
    launches, code = launches_and_code
    reads = modelled_and_measured(launches, "dram__bytes_read.sum")
    assert statistics.median(shares(reads).values()) < 0.005
    # A GPU reads the kernel's code, too, and about 2,300 bytes for the launch. The model does not.
    others = {name: theirs - ours - code[name] for name, (ours, theirs) in reads.items()}
    assert all(2000 < count < 2800 for count in others.values())
    # The 512 x 512 floats that the kernel writes stay in L2.
    assert all(m.metrics()["dram__bytes_write.sum"] == 0 for _, m in launches.values())


@pytest.mark.parametrize("width", [4, 8, 16])
def test_lookups_of_tags(width):
    """The tags of lines in the same set are looked up one after another."""
    recorded = counter_cases.load(DATA / "tag_sets_h200.json")
    counted = {launch["case"]: launch["metrics"] for launch in recorded["launches"]}
    (metric,) = recorded["metrics"]
    tables = counter_cases.many_lines.tables(width)
    predicted = {
        name: _core.model.l1_cycles(offsets.tolist(), width)[0] - 1
        for name, offsets in tables.items()
    }
    assert predicted == {name: counted[f"global_load<{width}> {name}"][metric] for name in tables}
    assert max(predicted.values()) == 15


def test_times(launches):
    off = shares(modelled_and_measured(launches, "gpu__time_duration.sum"))
    assert statistics.median(off.values()) < 0.1
    assert max(off.values()) < 0.25


def test_the_order_of_variants(launches):
    """If two measured times differ by more than 10 %, the prediction orders them right."""
    by_operation = {}
    for name, times in modelled_and_measured(launches, "gpu__time_duration.sum").items():
        by_operation.setdefault(name.partition("/")[0], []).append((name, *times))
    compared = [
        (a, b)
        for members in by_operation.values()
        for a, b in itertools.combinations(members, 2)
        if max(a[2], b[2]) > 1.1 * min(a[2], b[2])
    ]
    assert len(compared) > 80
    wrong = [(a[0], b[0]) for a, b in compared if (a[1] - b[1]) * (a[2] - b[2]) <= 0]
    assert wrong == []


def time_on_recorded_counts(launch):
    """Return the modelled time for recorded counts, without the latency of a single warp."""
    m = launch["metrics"]
    shared = m["l1tex__data_pipe_lsu_wavefronts_mem_shared.sum"]
    work = {
        "blocks": math.prod(launch["grid"]),
        "instructions": m["smsp__inst_executed.sum"],
        "fp32": m["smsp__inst_executed_pipe_fma.sum"],
        "requests": m["l1tex__lsuin_requests.sum"],
        "tag_lookups": m["l1tex__data_pipe_lsu_wavefronts.sum"] - shared,
        "shared_wavefronts": shared,
        "l2_writes": m["lts__t_sectors_srcunit_tex_op_write.sum"],
        "l2_sectors": m["lts__t_sectors_srcunit_tex_op_read.sum"]
        + m["lts__t_sectors_srcunit_tex_op_write.sum"],
        "dram_bytes": m["dram__bytes_read.sum"] + m["dram__bytes_write.sum"],
    }
    registers = m["launch__registers_per_thread"]
    static = m["launch__shared_mem_per_block"] - 1024
    threads = math.prod(launch["block"])
    return 1e6 * _core.model.time("h200", threads, registers, static, work)["ms"]


def test_products_on_recorded_counts():
    """The time model alone, without the simulator, at all sizes from 512 to 4096."""
    times = {}
    for launch in RECORDED["launches"]:
        if launch["kernel"] in IN_REGISTERS:
            continue
        if launch["case"].startswith("matmul") and "prepared" not in launch["case"]:
            measured = launch["metrics"]["gpu__time_duration.sum"]
            times[launch["case"]] = time_on_recorded_counts(launch), measured
    off = shares(times)
    assert len(off) == 60
    assert statistics.median(off.values()) < 0.05
    assert max(off.values()) < 0.2
    for (a, (ours_a, real_a)), (b, (ours_b, real_b)) in itertools.combinations(times.items(), 2):
        if a.partition(" ")[2] == b.partition(" ")[2] and max(real_a, real_b) > 1.2 * min(
            real_a, real_b
        ):
            assert (ours_a < ours_b) == (real_a < real_b), (a, b)


@pytest.mark.parametrize(
    ("kernel", "threads", "registers", "shared"),
    sorted(
        {
            (
                launch["kernel"],
                math.prod(launch["block"]),
                launch["metrics"]["launch__registers_per_thread"],
                launch["metrics"]["launch__shared_mem_per_block"] - 1024,
            )
            for launch in RECORDED["launches"]
        }
    ),
)
def test_occupancy_is_as_recorded(kernel, threads, registers, shared):
    limits = next(
        launch["metrics"]
        for launch in RECORDED["launches"]
        if launch["kernel"] == kernel
        and math.prod(launch["block"]) == threads
        and launch["metrics"]["launch__registers_per_thread"] == registers
    )
    names = ("blocks", "registers", "shared_mem", "warps")
    recorded = min(limits[f"launch__occupancy_limit_{name}"] for name in names)
    # The recorded limit by shared memory depends on the part that the driver had reserved.
    assert _core.model.occupancy("h200", threads, registers, shared)["blocks"] >= recorded
    blocks = _core.model.occupancy("h200", threads, registers, 0)["blocks"]
    assert blocks == min(limits[f"launch__occupancy_limit_{n}"] for n in names if n != "shared_mem")


def test_the_first_blocks_represent_the_launch():
    """The first two waves of blocks predict the rates of the whole grid, approximately."""
    a = np.zeros((1024, 1024), np.float32)
    modelled = []

    def launch(k, _variant):
        for rounds in (0, 2):
            result = simulate(k, counts=True, caches=True, first_rounds=rounds)
            modelled.append(Modelled.of(result.model))
        return run(k)

    options = {"variant": "tiled", "tile": 16}
    OPERATIONS["matmul"].run((a[:, :128], a[:128]), options, device="sim", launcher=launch)
    whole, part = modelled
    assert whole.share == 1
    assert 0 < part.share < 0.6
    assert part.ms == pytest.approx(whole.ms, rel=0.1)
    for name, ours in part.metrics().items():
        if "dram" not in name:
            assert ours == pytest.approx(whole.metrics()[name], rel=0.1), name
    # The first waves load into L2 what later blocks find there.
    read = "dram__bytes_read.sum"
    assert 0.4 < part.metrics()[read] / whole.metrics()[read] < 2


def test_profiles_report_the_modelled_values():
    a = np.zeros((256, 256), np.float32)
    p = coalesce.profile("transpose", a, variant="naive_write")
    modelled = {name for name, why in p.inexact.items() if why == "modelled"}
    assert modelled == {
        "gpu__time_duration.sum",
        "l1tex__t_sector_hit_rate.pct",
        "lts__t_sectors_srcunit_tex_op_read.sum",
        "lts__t_sectors_srcunit_tex_op_write.sum",
        "lts__t_sector_hit_rate.pct",
        "dram__bytes_read.sum",
        "dram__bytes_write.sum",
    }
    # Of eight lanes that read a sector, one misses and seven hit; no store hits.
    assert p.metrics()["l1tex__t_sector_hit_rate.pct"] == pytest.approx(700 / 9)
    assert p.metrics()["dram__bytes_read.sum"] == a.nbytes
    for text in (" ".join(p.to_text().split()), p.to_html()):
        assert "(modelled), bound by" in text
        assert "DRAM: 262 kB read" in text
        assert p.modelled.why in " ".join(text.split())
    assert p.to_dict()["modelled"]["bound"] == p.modelled.bound
    without = coalesce.profile("transpose", a, variant="naive_write", caches=False)
    assert "dram__bytes_read.sum" not in without.metrics()
    assert without.modelled_ms is not None
    assert "caches=True" in without.to_text()
    with ThreadPoolExecutor(1) as pool:
        divided = coalesce.profile("transpose", a, executor=pool)
    assert divided.modelled is None
    assert "not modelled with an executor" in " ".join(divided.to_text().split())


@pytest.mark.parametrize("result", ["atomicAdd(&out[i % 100], sum)", "out[i % 100] = sum"])
def test_caches_are_the_same_on_any_number_of_host_threads(result):
    source = r"""
    extern "C" __global__ void f(const float *x, float *out, int n, int stride) {
        int i = blockIdx.x * blockDim.x + threadIdx.x;
        __shared__ float s[64];
        s[threadIdx.x] = x[i * stride % n];
        __syncthreads();
        float sum = s[63 - threadIdx.x] + x[i % n];
        RESULT;
    }"""
    kernel = coalesce.Kernel(source.replace("RESULT", result), "f", device="sim")
    x, out = np.zeros(5000, np.float32), np.zeros(100, np.float32)
    given = x, out, np.int32(x.size), np.int32(37)
    prepared = bound(kernel, 700, 64, given, 0, devices.resolve("sim"))
    totals = [
        simulate(prepared, counts=True, caches=True, workers=workers).model["caches"]
        for workers in (1, 2, 5)
    ]
    assert totals[0] == totals[1] == totals[2]
    assert totals[0]["blocks_replayed"] == 700
    assert totals[0]["dram_read_bytes"] >= x.nbytes


def test_local_memory_goes_through_the_caches():
    source = r"""
    extern "C" __global__ void f(const int *index, float *out, int n) {
        float own[32];
        for (int k = 0; k < 32; ++k) own[k] = k * threadIdx.x;
        for (int k = 0; k < 32; ++k) own[index[k] % 32] += k;
        out[blockIdx.x * blockDim.x + threadIdx.x] = own[index[threadIdx.x % 32] % 32];
    }"""
    kernel = coalesce.Kernel(source, "f", device="sim")
    index = np.arange(32, dtype=np.int32)
    p = kernel.profile(4, 64, index, np.zeros(256, np.float32), np.int32(32))
    assert p.metrics()["l1tex__t_sectors_pipe_lsu_mem_local_op_ld.sum"] > 0
    assert (
        p.modelled.caches["l1_loads"]
        > p.metrics()["l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum"]
    )


def test_a_launch_of_one_thread_and_of_many_blocks():
    kernel = coalesce.Kernel(
        'extern "C" __global__ void f(float *x) { x[blockIdx.x] += 1; }', "f", device="sim"
    )
    one = kernel.profile(1, 1, np.zeros(1, np.float32))
    assert one.modelled.bound == "latency"
    assert one.metrics()["dram__bytes_read.sum"] == 64
    many = kernel.profile(100_000, 1, np.zeros(100_000, np.float32))
    assert many.modelled_ms > one.modelled_ms
    assert many.metrics()["dram__bytes_read.sum"] == 400_000


def test_the_script_of_the_models_page_runs_the_first_blocks():
    """`docs/model_accuracy.py --first-rounds 1` has a launcher of its own."""
    path = Path(__file__).parents[3] / "docs" / "model_accuracy.py"
    spec = importlib.util.spec_from_file_location("model_accuracy", path)
    script = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = script  # its dataclasses look their module up
    spec.loader.exec_module(script)
    (row,) = script.rows(r"^transpose/naive_write 2048x2048 float32$", rounds=1)
    assert row.case == "transpose/naive_write 2048x2048 float32"
    assert 0 < row.share < 1
