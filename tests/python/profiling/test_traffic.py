"""The floating-point operations of a kernel, and the chart of the bytes that it moves."""

from __future__ import annotations

import re

import numpy as np
import pytest

import coalesce
from coalesce.launch.modelled import of_bytes
from coalesce.profiling.rows import machine_instructions

pytestmark = pytest.mark.usefixtures("on_simulator")

AXPY = """
#include <cuda_fp16.h>
template <class T> __global__ void axpy(int n, T a, const T *x, T *y) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = a * x[i] + y[i];
}
"""
SUM = """
__global__ void sum(const float *x, float *total) {
    __shared__ float part[256];
    part[threadIdx.x] = x[threadIdx.x];
    for (int half = 128; half > 0; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half) part[threadIdx.x] += part[threadIdx.x + half];
    }
    if (threadIdx.x == 0) *total = part[0];
}
"""
# The condition becomes the guard of the multiplication, which has no branch around it.
SOME = """
__global__ void some(const int *chosen, const float *x, float *y) {
    int i = threadIdx.x;
    float value = x[i];
    if (chosen[i] > 0) value *= value;
    y[i] = value;
}
"""


@pytest.mark.parametrize(
    ("dtype", "name", "per_element"),
    [("float32", "float", 2), ("float64", "double", 2), ("float16", "__half", 4)],
)
def test_operations_of_each_type(dtype, name, per_element):
    n = 1003
    x, y = np.ones(n, dtype), np.ones(n, dtype)
    kernel = coalesce.Kernel(AXPY, f"axpy<{name}>")
    flops = kernel.profile((n + 127) // 128, 128, n, x.dtype.type(2), x, y).flops
    assert flops == {"float16": 0, "float32": 0, "float64": 0} | {dtype: per_element * n}


def test_operations_of_a_tree():
    p = coalesce.Kernel(SUM).profile(1, 256, np.ones(256, np.float32), np.zeros(1, np.float32))
    assert p.flops["float32"] == 255


@pytest.mark.parametrize("seed", range(3))
def test_lanes_whose_guard_is_false_do_not_count(seed):
    chosen = np.random.default_rng(seed).integers(0, 2, 96, np.int32)
    x = np.ones(96, np.float32)
    p = coalesce.Kernel(SOME).profile(1, 96, chosen, x, x.copy())
    assert p.flops["float32"] == chosen.sum()


def test_operations_of_a_product():
    a, b = np.ones((33, 20), np.float32), np.ones((20, 45), np.float32)
    p = coalesce.profile("matmul", a, b, variant="coalesced")
    flops = 2 * 33 * 45 * 20 + 33 * 45  # each sum is multiplied by alpha
    assert p.flops == {"float16": 0, "float32": flops, "float64": 0}
    ax = coalesce.plots.roofline([p], peak_gflops=1e4, peak_gbps=1e3)
    assert ax.lines[1].get_ydata()[0] == pytest.approx(flops / p.modelled_ms / 1e6)


def test_memory_chart():
    a = np.ones((256, 256), np.float32)
    p = coalesce.profile("matmul", a, a.copy(), variant="tiled")
    m = p.metrics()
    picture = p.memory_chart()
    names, _, stores = picture.text.splitlines()[3:6]
    assert max(map(len, picture.text.splitlines())) <= 80
    sectors = m["l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum"]
    from_l2 = m["lts__t_sectors_srcunit_tex_op_read.sum"]
    reads = [of_bytes(n) for n in (32 * sectors, 32 * from_l2, m["dram__bytes_read.sum"])]
    assert [part.strip() for part in re.split("<-|L1|L2|DRAM", names)] == [
        "kernel", reads[0], "", reads[1], "", reads[2], ""
    ]  # fmt: skip
    assert stores.split("->")[1].strip() == "262 kB"
    assert "are modelled" in picture.text
    assert "0 of them because of bank conflicts" in " ".join(picture.text.split())
    assert picture.svg.count('data-bytes="262144"') == 2  # the stores, to L1 and to L2


@pytest.mark.parametrize("variant", ["naive", "pipelined", "split_k", "tensor_map", "tma"])
def test_memory_chart_has_every_kind_of_load(variant):
    """Loads, asynchronous copies and copies by the copy engine, for a shape that fits no tile."""
    a, b = np.ones((37, 53), np.float32), np.ones((53, 29), np.float32)
    picture = coalesce.profile("matmul", a, b, variant=variant).memory_chart()
    assert re.match(
        r"Loads need [1-9][\d.]* kB of global memory, and touch [1-9]", picture.headline
    )
    assert re.match(r"kernel <- [1-9][\d.]* [kM]?B +L1", picture.text.splitlines()[3])


def test_memory_chart_without_models():
    a = np.ones((64, 64), np.float32)
    picture = coalesce.profile("matmul", a, a, variant="tiled", caches=False).memory_chart(
        title="T"
    )
    assert picture.text.startswith("T\n")
    assert "L2 and DRAM are missing" in " ".join(picture.text.split())
    assert "L2" not in picture.text.splitlines()[3]


def test_rooflines_of_each_memory():
    a = np.ones((256, 256), np.float32)
    p = coalesce.profile("matmul", a, a.copy(), variant="tiled")
    picture = p.roofline_chart()
    rows = {line.split()[0]: line for line in picture.text.splitlines()[4:7]}
    flops, bandwidth = p.flops["float32"], 0.92 * 4.8  # of an H200, as the time model has it
    rates = {"L1": 128 * 132 * 1.98e-3, "L2": 80 * 32 * 1.98e-3, "DRAM": bandwidth}
    assert list(rows) == list(rates)
    for name, rate in rates.items():
        assert f"{rate:.3g} TB/s" in rows[name]
    assert f"{flops / p.modelled.work['dram_bytes']:.3g}" in rows["DRAM"]
    assert f"{flops / p.modelled_ms / 1e9:.3g} TFLOP/s (modelled)" in picture.headline
    assert max(map(len, picture.text.splitlines())) <= 80
    assert picture.svg.count("<rect") >= 4  # the paper and three points


def test_stalls_name_what_limits_the_kernel():
    a = np.ones((256, 256), np.float32)
    p = coalesce.profile("matmul", a, a.copy(), variant="naive")
    text = p.stall_chart(title="T").text
    assert text.startswith("T\n")
    shares = {line[:44].strip(): int(line[44:49].strip(" %")) for line in text.splitlines()[3:9]}
    assert max(shares, key=shares.get) == "waits for the data stage of L1"
    assert sum(shares.values()) == pytest.approx(100, abs=3)
    assert "as modelled" in text


def test_charts_that_cannot_be_drawn():
    a = np.ones((64, 64), np.float32)
    with pytest.raises(ValueError, match="no floating-point operations"):
        coalesce.profile("transpose", a, variant="tiled").roofline_chart()
    with pytest.raises(ValueError, match="traffic of L2 and DRAM: the profile was made without"):
        coalesce.profile("matmul", a, a, variant="tiled", caches=False).roofline_chart()
    with pytest.raises(ValueError, match="model of the time"):
        coalesce.profile("matmul", a, a, variant="tma").stall_chart()


def test_a_page_has_the_charts():
    a = np.ones((64, 64), np.float32)
    page = coalesce.profile("matmul", a, a, variant="tiled").to_html()
    assert page.partition("Charts")[2].count("<img") == 3
    assert "Charts" in coalesce.profile("matmul", a, a, variant="tma").to_html()


def test_machine_code_beside_the_source():
    p = coalesce.Kernel(SUM).profile(1, 256, np.ones(256, np.float32), np.zeros(1, np.float32))
    code = p.machine_code()
    text = str(code)
    assert re.search(r"line 4: part\[threadIdx.x\] = x\[threadIdx.x\];\n.*\n? +[0-9a-f]{4}", text)
    store = next(line for line in text.splitlines() if " STG" in line)
    assert re.match(r"  [0-9a-f]{4} +1  B[-0-9]{6}:R[-0-5]:W-:[-Y]:S\d\d  (@!?P\d )?STG", store)
    executed = sum(row["executed"] for row in code.to_dict()["instructions"])
    assert executed == p.metrics()["smsp__inst_executed.sum"]
    assert "STG" in code._repr_html_()


def test_control_words():
    """The encodings are of instructions that ptxas wrote; nvdisasm does not decode the words."""
    listing = '\t.section\t.text.k,"ax"\n' + "".join(
        f"        /*{i * 16:04x}*/                   NOP ;   /* 0x0000000000000000 */\n"
        f"                                              /* 0x{upper:016x} */\n"
        for i, upper in enumerate((0x000FEA0003800000, 0x000EA4000C1E1900, 0x004FC80000000800))
    )
    assert [i.control for i in machine_instructions.read(listing, "k")] == [
        "B------:R-:W-:-:S05",
        "B------:R-:W2:-:S02",
        "B--2---:R-:W-:Y:S04",
    ]
