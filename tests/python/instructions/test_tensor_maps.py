"""Copies through tensor maps (cp.async.bulk.tensor) on the simulator: results, errors, checks.

The results are compared with those of an H100 (`tools/record_results.py`).
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensor_map_cases
from counter_cases.case import KERNELS
from tensor_map_cases import Copy, simulated

import coalesce
from coalesce._core import sim
from coalesce.profiling.hardware import exactness

CASES = {case.name: (seed, case) for seed, case in enumerate(tensor_map_cases.cases())}
PLAIN = Copy((40, 30), (160,), (16, 8), (4, 3))
RECORDED = np.load(Path(__file__).parents[2] / "data" / "tensor_maps_h100.npz")


def copied(case: Copy, seed: int = 0) -> np.ndarray:
    return tensor_map_cases.run(case, seed, "sim", simulated)


@pytest.mark.parametrize("name", CASES)
def test_boxes(name: str) -> None:
    seed, case = CASES[name]
    if case.stores and min(case.at) < 0:
        assert name not in RECORDED  # the H100 stopped with an illegal instruction
        with pytest.raises(coalesce.LaunchError, match="cannot begin before the array"):
            copied(case, seed)
        return
    np.testing.assert_array_equal(copied(case, seed), RECORDED[name])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"extents": (0, 30)}, r"extent 0 of the tensor map must be 1 to 2\^32; got 0"),
        ({"strides": (164,)}, "stride 1 of the tensor map must be a multiple of 16 bytes"),
        ({"box": (16, 257)}, "the box's extent 1 of the tensor map must be 1 to 256; got 257"),
        ({"box": (3, 8)}, "a row of a tensor map's box must have a multiple of 16 bytes; got 12"),
        ({"steps": (1, 9)}, "element stride 1 of the tensor map must be 1 to 8; got 9"),
        ({"swizzle": 1}, "a row of the box has 64 bytes; with this swizzle it can have at most 32"),
        ({"swizzle": 4}, "swizzle must be 0 to 3"),
        ({"nan": 1}, "only a tensor map with floating-point elements can fill with NaN"),
        ({"element": "float8"}, "a tensor map cannot have elements of type float8"),
        ({"strides": ()}, "a tensor map has 1 to 5 dimensions"),
        ({"offset": 64}, "a box must lie at a multiple of 128 bytes in shared memory"),
        ({"at": (3, 3)}, "a box must begin at a multiple of 16 bytes .* first coordinate is 3"),
        ({"at": (-1, 0)}, "first coordinate is -1, and an element has 4 bytes"),
        ({"at": (4, 3, 0)}, "the tensor map has 2 dimensions, but the instruction is for 3"),
    ],
)
def test_wrong_maps(change: dict[str, Any], message: str) -> None:
    case = replace(PLAIN, **change)
    if len(case.at) == 3:  # the rank of the instruction differs from the rank of the map
        other = replace(case, box=(16, 8, 1))
        with pytest.raises(coalesce.LaunchError, match=message):
            tensor_map_cases.run(other, 0, "sim", lambda _, array: simulated(PLAIN, array))
        return
    with pytest.raises(coalesce.LaunchError, match=message):
        copied(case)


def test_bytes_that_are_no_map() -> None:
    for wrong in (bytes(128), b"\1" + bytes(126) + b"\2"):
        with pytest.raises(coalesce.LaunchError, match="not a tensor map that the simulator made"):
            tensor_map_cases.run(PLAIN, 0, "sim", lambda *_, wrong=wrong: wrong)


@pytest.mark.parametrize("stores", [False, True])
def test_maps_that_reach_beyond_the_array(stores: bool) -> None:
    case = replace(PLAIN, extents=(40, 30000), at=(4, 29000), stores=stores)
    with pytest.raises(coalesce.MemoryFault, match=r"past the end of|outside"):
        copied(case)


def test_boxes_that_do_not_fit() -> None:
    with pytest.raises(coalesce.MemoryFault, match="shared memory"):
        copied(replace(PLAIN, box=(256, 30)))


HELPERS = (KERNELS / "mbarriers.cuh").read_text()


def map_of(x: Any, box: tuple[int, int], swizzle: int = 0) -> bytes:
    rows, cols = x.shape
    return sim.tensor_map(
        x._address, str(x.dtype), (cols, rows), (cols * x.dtype.itemsize,), box[::-1], (1, 1),
        swizzle,
    )  # fmt: skip


def kernel(body: str, parameters: str, arch: str = "sm_90") -> coalesce.Kernel:
    source = HELPERS + f'extern "C" __global__ void k({parameters}) {{ {body} }}'
    return coalesce.Kernel(source, "k", device="sim", arch=arch)


COPY = """
    __shared__ __align__(128) float box[32][8];
    __shared__ __align__(8) unsigned long long full;
    const int t = threadIdx.x;
    if (t == 0) init(at(&full));
    __syncthreads();
    if (t == 0) { expect(at(&full), sizeof box); bring_box(at(box), &map, 0, 0, at(&full)); }
    if (waits) wait(at(&full));
    out[t] = box[t][1];
"""
PARAMETERS = "const __grid_constant__ Map map, const float* x, float* out, int waits"


def test_a_copy_that_nobody_waits_for_has_not_arrived() -> None:
    x = coalesce.asarray(np.arange(32 * 8, dtype=np.float32).reshape(32, 8), device="sim")
    out = np.zeros(32, np.float32)
    k = kernel(COPY, PARAMETERS)
    k[1, 32](map_of(x, (32, 8)), x, out, 1)
    np.testing.assert_array_equal(out, np.asarray(x)[:, 1])
    k[1, 32](map_of(x, (32, 8)), x, out, 0)
    assert np.isnan(out).all()  # shared memory starts as NaN


def test_checks_see_a_missing_wait() -> None:
    x = coalesce.asarray(np.arange(32 * 8, dtype=np.float32).reshape(32, 8), device="sim")
    out = np.zeros(32, np.float32)
    k = kernel(COPY, PARAMETERS)
    assert not k.check(1, 32, map_of(x, (32, 8)), x, out, 1)
    findings = k.check(1, 32, map_of(x, (32, 8)), x, out, 0)
    assert "box" in str(findings)
    assert "wait for its mbarrier first" in str(findings)


@pytest.mark.parametrize("fenced", [True, False])
def test_checks_see_a_missing_fence_between_proxies(fenced: bool) -> None:
    x = coalesce.asarray(np.zeros((32, 8), np.float32), device="sim")
    fence = 'asm volatile("fence.proxy.async.shared::cta;" ::: "memory");' if fenced else ""
    k = kernel(
        f"""
    __shared__ __align__(128) float box[32][8];
    for (int i = 0; i < 8; ++i) box[threadIdx.x][i] = i;
    {fence}
    __syncthreads();
    if (threadIdx.x == 0) take_out_box(&map, 0, 0, at(box));
    end_group();
    """,
        "const __grid_constant__ Map map, float* x",
    )
    findings = k.check(1, 32, map_of(x, (32, 8)), x)
    assert bool(findings) != fenced
    if not fenced:
        assert "a write and an asynchronous copy are not ordered" in str(findings)


def test_checks_see_blocks_that_write_the_same_box() -> None:
    x = coalesce.asarray(np.zeros((64, 8), np.float32), device="sim")
    k = kernel(
        """
    __shared__ __align__(128) float box[32][8];
    for (int i = 0; i < 8; ++i) box[threadIdx.x][i] = blockIdx.x;
    asm volatile("fence.proxy.async;" ::: "memory");
    __syncthreads();
    if (threadIdx.x == 0) take_out_box(&map, 0, apart ? 32 * blockIdx.x : 16 * blockIdx.x, at(box));
    end_group();
    """,
        "const __grid_constant__ Map map, float* x, int apart",
    )
    assert not k.check(2, 32, map_of(x, (32, 8)), x, 1)
    assert "race" in str(k.check(2, 32, map_of(x, (32, 8)), x, 0)).lower()
    k[2, 32](map_of(x, (32, 8)), x, 1)
    np.testing.assert_array_equal(np.asarray(x)[:, 3], np.repeat([0, 1], 32))


def test_maps_in_constant_and_global_memory() -> None:
    x = coalesce.asarray(np.arange(32 * 8, dtype=np.float32).reshape(32, 8), device="sim")
    out = np.zeros(32, np.float32)
    source = HELPERS + "__constant__ Map constant;\n" + f"""
    extern "C" __global__ void k(const Map* given, const float* x, float* out, int waits) {{
        const Map& map = given ? *given : constant;
        asm volatile("prefetch.tensormap [%0];" :: "l"(&map) : "memory");
        asm volatile("fence.proxy.tensormap::generic.acquire.gpu [%0], 128;"
                     :: "l"(&map) : "memory");
        {COPY} }}"""  # fmt: skip
    k = coalesce.Kernel(source, "k", device="sim", arch="sm_90")
    k.globals["constant"] = np.frombuffer(map_of(x, (32, 8)), np.uint8)
    k[1, 32](None, x, out, 1)
    np.testing.assert_array_equal(out, np.asarray(x)[:, 1])
    out[:] = 0
    k[1, 32](
        coalesce.asarray(np.frombuffer(map_of(x, (32, 8)), np.uint64), device="sim"), x, out, 1
    )
    np.testing.assert_array_equal(out, np.asarray(x)[:, 1])


def test_a_box_for_the_blocks_of_a_cluster() -> None:
    x = coalesce.asarray(np.arange(32 * 8, dtype=np.float32).reshape(32, 8), device="sim")
    out = np.zeros((4, 32), np.float32)
    source = (
        HELPERS
        + """
    extern "C" __global__ void __cluster_dims__(4) k(const __grid_constant__ Map map,
                                                     const float* x, float* out) {
        __shared__ __align__(128) float box[32][8];
        __shared__ __align__(8) unsigned long long full;
        const int t = threadIdx.x;
        if (t == 0) {
            init(at(&full));
            asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
            expect(at(&full), blockIdx.x == 2 ? 0 : sizeof box);
        }
        asm volatile("barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;" ::: "memory");
        if (t == 0 && blockIdx.x == 1)
            asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global"
                         ".mbarrier::complete_tx::bytes.multicast::cluster"
                         " [%0], [%1, {%2, %3}], [%4], %5;"
                         :: "r"(at(box)), "l"(&map), "r"(0), "r"(0), "r"(at(&full)),
                         "h"((short)0b1011) : "memory");
        wait(at(&full));
        if (blockIdx.x != 2) out[32 * blockIdx.x + t] = box[t][2];
        asm volatile("barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;" ::: "memory");
    }"""
    )
    k = coalesce.Kernel(source, "k", device="sim", arch="sm_90")
    k[4, 32](map_of(x, (32, 8)), x, out)
    for block, row in enumerate(out):
        np.testing.assert_array_equal(row, np.asarray(x)[:, 2] if block != 2 else 0)
    assert not k.check(4, 32, map_of(x, (32, 8)), x, out)


@pytest.mark.usefixtures("machine_code")
@pytest.mark.parametrize("name", [n for n in CASES if n in RECORDED])
def test_machine_code(name: str) -> None:
    """Counted runs execute UTMALDG and UTMASTG; the results equal those of an H100."""
    seed, case = CASES[name]
    result = tensor_map_cases.run(case, seed, "sim", simulated, counts=True)
    np.testing.assert_array_equal(result, RECORDED[name])


@pytest.mark.usefixtures("machine_code")
def test_counts() -> None:
    """A copy of a box is not an access of the load/store unit; the time is not modelled."""
    x = coalesce.asarray(np.arange(32 * 8, dtype=np.float32).reshape(32, 8), device="sim")
    k = kernel(COPY, PARAMETERS)
    out = np.zeros(32, np.float32)
    profile = k.profile(1, 32, map_of(x, (32, 8)), x, out, 1)
    np.testing.assert_array_equal(out, np.asarray(x)[:, 1])
    metrics = profile.metrics()
    assert metrics["smsp__inst_executed_op_shared_ld.sum"] == 1
    assert metrics["smsp__inst_executed_op_ldgsts.sum"] == 0
    assert metrics["l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum"] == 0
    assert metrics["l1tex__m_xbar2l1tex_read_sectors_mem_global_op_tma_ld.sum"] == 32
    arithmetic = {name for name in metrics if name.startswith(exactness.ARITHMETIC)}
    assert set(profile.inexact) == arithmetic | {
        *exactness.TOTALS,
        "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum",
    }
    assert "bulk copies" in profile.not_modelled


REPLACE = """
    __shared__ __align__(128) unsigned words[32];
    __shared__ __align__(128) float box[32][8];
    __shared__ __align__(8) unsigned long long full;
    const int t = threadIdx.x;
    words[t] = from_zero ? 0 : ((const unsigned*)given)[t];
    if (t == 0) init(at(&full));
    __syncthreads();
    if (t == 0) {
    #define SET(field, ...) \\
        asm volatile("tensormap.replace.tile." field ".shared::cta.b1024." __VA_ARGS__ : "memory")
        SET("global_address", "b64 [%0], %1;" :: "r"(at(words)), "l"(x));
        SET("global_dim", "b32 [%0], 1, %1;" :: "r"(at(words)), "r"(rows));
        if (from_zero) {
            SET("rank", "b32 [%0], 1;" :: "r"(at(words)));
            SET("box_dim", "b32 [%0], 0, %1;" :: "r"(at(words)), "r"(8));
            SET("box_dim", "b32 [%0], 1, %1;" :: "r"(at(words)), "r"(32));
            SET("global_dim", "b32 [%0], 0, %1;" :: "r"(at(words)), "r"(8));
            SET("global_stride", "b64 [%0], 0, %1;" :: "r"(at(words)), "l"(32ull));
            SET("element_stride", "b32 [%0], 0, %1;" :: "r"(at(words)), "r"(1));
            SET("element_stride", "b32 [%0], 1, %1;" :: "r"(at(words)), "r"(1));
            SET("elemtype", "b32 [%0], 7;" :: "r"(at(words)));
            SET("interleave_layout", "b32 [%0], 0;" :: "r"(at(words)));
            SET("swizzle_mode", "b32 [%0], 0;" :: "r"(at(words)));
            SET("fill_mode", "b32 [%0], 1;" :: "r"(at(words)));
        }
    }
    __syncthreads();
    asm volatile("tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync"
                 ".aligned [%0], [%1], 128;" :: "l"(made), "r"(at(words)) : "memory");
    asm volatile("fence.proxy.tensormap::generic.acquire.gpu [%0], 128;" :: "l"(made) : "memory");
    if (t == 0) {
        expect(at(&full), sizeof box);
        bring_box(at(box), (const Map*)made, 0, 0, at(&full));
    }
    wait(at(&full));
    out[t] = box[t][1];
"""


@pytest.mark.parametrize("from_zero", [0, 1])
def test_a_kernel_makes_or_changes_a_map(from_zero: int) -> None:
    """PTX ISA, tensormap.replace: the map in shared memory describes 20 rows of x then."""
    x = coalesce.asarray(np.arange(32 * 8, dtype=np.float32).reshape(32, 8), device="sim")
    given = np.frombuffer(map_of(coalesce.zeros((9, 8), np.float32, device="sim"), (32, 8)), "u4")
    made, out = coalesce.zeros(32, np.uint32, device="sim"), np.zeros(32, np.float32)
    parameters = "const unsigned* given, float* x, void* made, float* out, int rows, int from_zero"
    k = kernel(REPLACE, parameters, "sm_90a")
    arguments = given.copy(), x, made, out, 20, from_zero
    k[1, 32](*arguments)
    np.testing.assert_array_equal(out[:20], np.asarray(x)[:20, 1])
    assert np.isnan(out[20:]).all() if from_zero else not out[20:].any()
    assert not k.check(1, 32, *arguments)
    profile = k.profile(1, 32, *arguments)
    np.testing.assert_array_equal(out[:20], np.asarray(x)[:20, 1])
    assert any("tensormap" in why for why in profile.inexact.values())
