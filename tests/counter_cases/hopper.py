"""Instructions of compute capability 9.0a: bulk copies, tensor maps, products of warpgroups.

The kernels are in tests/kernels/hopper.cu. tests/wgmma_cases.py has the forms of wgmma, and
tests/tensor_map_cases.py the tensor maps.
"""

import functools
from collections.abc import Callable, Iterator
from typing import Any

import many_kernels
import numpy as np
import tensor_map_cases
import wgmma_cases
from wgmma_cases import A_BYTES, IMAGE, Operand, Wgmma

import coalesce
from counter_cases.case import KERNELS, Case, Launches, launch, matrix, whole_numbers


@functools.cache
def kernel_of(entry: str, device: Any) -> coalesce.Kernel:
    """Return a kernel of tests/kernels/hopper.cu."""
    source, helpers = ((KERNELS / name).read_text() for name in ("hopper.cu", "mbarriers.cuh"))
    headers = {"mbarriers.cuh": helpers}
    return coalesce.Kernel(source, entry, device=device, arch="sm_90a", headers=headers)


def cases() -> Iterator[Case]:
    """Yield whole kernels with copies and mbarriers."""

    def one(name: str, grid: int, block: int, *arguments: Any) -> Case:
        entry = name.split(" ")[0]
        kernel = functools.partial(kernel_of, entry)
        return launch(name, "", entry, grid, block, arguments, kernel=kernel)

    for size, stride in ((16, 1), (128, 1), (256, 3), (512, 32)):
        x, out = matrix(size, 3 * 8 * size), np.zeros(3 * 96, np.float32)
        yield one(f"bulk_by_lanes {size} {stride}", 3, 96, x, out, size, stride)
    for copies in (1, 5, 32):
        x, out = matrix(copies, 4096), np.zeros(4096, np.float32)
        yield one(f"bulk_there_and_back {copies}", 2, 128, x, out, copies)
    for stages in (1, 4, 11):
        x, out = matrix(stages, 2 * stages * 1024), np.zeros(2 * 160, np.float32)
        yield one(f"bulk_ring {stages}", 2, 160, x, out, stages)
    for count in (1, 6):
        yield one(f"phases {count}", 2, 128, matrix(count, 256), np.zeros(256, np.float32), count)
    yield one("impatient", 1, 64, matrix(9, 2048), np.zeros(64, np.float32))
    words = whole_numbers(3, 8192, 1 << 31, "uint32") & np.uint32(0x3FFF3FFF)
    for steps in (0, 1, 3):
        out = np.zeros(4096 + 256, np.float32)
        yield one(f"few_registers {steps}", 2, 256, words, out, steps)
    for stages in (1, 4, 11):
        yield _of_boxes(f"box_ring {stages}", 2, 160, (64, 32 * stages), 320, stages)
    yield _of_boxes("share_boxes", 4, 1024, (64, 32), 4 * 1024)
    yield _of_boxes("transpose_boxes", (3, 2), 128, (64, 96), 64 * 96)


def copies() -> Iterator[Case]:
    """Yield single copies: bulk copies that begin inside a sector, and boxes of many forms."""
    for size in (32, 48, 80, 96, 160):  # each lane's copy follows that of the lane before
        x, out = matrix(size, 3 * 8 * size), np.zeros(3 * 96, np.float32)
        kernel = functools.partial(kernel_of, "bulk_by_lanes")
        name = f"bulk_by_lanes {size} 1"
        yield launch(name, "", "bulk_by_lanes", 3, 96, (x, out, size, 1), kernel=kernel)
    for seed, case in enumerate(tensor_map_cases.cases()):
        if not (case.stores and min(case.at) < 0):  # an illegal instruction
            yield Case(case.name, functools.partial(_copy, case, seed))


def _copy(
    case: tensor_map_cases.Copy, seed: int, device: Any, counts: bool = False, timed: bool = False
) -> Launches:
    assert not timed
    record = tensor_map_cases.launched(case, seed, device, encoder(device), counts)[1]
    return [("store" if case.stores else "load", record)]


def _of_boxes(
    name: str, grid: Any, block: int, shape: tuple[int, int], results: int, *more: int
) -> Case:
    """Return a case whose tensor map has boxes of 32 x 32 floats of a matrix."""
    entry = name.split(" ")[0]

    def run(device: Any, counts: bool = False, timed: bool = False) -> Launches:
        x = coalesce.asarray(matrix(7, *shape), device=device)
        out = coalesce.asarray(np.zeros(results, np.float32), device=device)
        maps = [_map(x, shape, device)]
        if entry == "transpose_boxes":
            maps.append(_map(out, shape[::-1], device))
        record = kernel_of(entry, device).launch(
            grid, block, *maps, x, out, *more, counts=counts, runs="auto" if timed else None
        )
        return [(entry, record)]

    return Case(name, run)


def _map(array: Any, shape: tuple[int, int], device: Any) -> bytes:
    rows, cols = shape
    case = tensor_map_cases.Copy((cols, rows), (4 * cols,), (32, 32), (0, 0), "float32")
    return encoder(device)(case, array)


def encoder(device: Any) -> Callable[[tensor_map_cases.Copy, Any], bytes]:
    """Return the function that makes a tensor map: the driver's, or the simulator's."""
    if str(device).startswith("cuda"):
        import record_results

        return record_results.encoded
    return tensor_map_cases.simulated


def _forms() -> Iterator[Wgmma]:
    """Yield forms of wgmma: sizes, types, and operands with and without bank conflicts."""
    for n in (8, 16, 24, 32, 40, 48, 64, 96, 128, 192, 256):
        yield Wgmma(n, "f32", "bf16", "bf16")
        if n in (8, 24, 64, 256):
            yield Wgmma(n, "f32", "bf16", "bf16", in_registers=True)
    for n in (8, 64, 256):
        yield Wgmma(n, "f16", "f16", "f16")
        yield Wgmma(n, "f32", "f16", "f16")
        yield Wgmma(n, "f32", "tf32", "tf32")
        yield Wgmma(n, "f32", "e4m3", "e5m2")
        yield Wgmma(n, "f16", "e4m3", "e4m3", in_registers=True)
        yield Wgmma(n, "s32", "s8", "u8", kinds=("bits",))
        yield Wgmma(n, "s32", "u8", "u8", in_registers=True, kinds=("bits",))
    group = {0: 256, 1: 1024, 2: 512, 3: 256}
    for swizzle in range(4):
        for trans in ((0, 0), (1, 1)):
            a = Operand(0, 2048, group[swizzle], 0, swizzle)
            b = Operand(0, 4096 if trans[1] else 128, group[swizzle], 0, swizzle)
            yield Wgmma(64, "f32", "bf16", "bf16", transposed=trans, at=(a, b))
    # All parts of a matrix are in the same banks, or at the same address.
    for stride in (0, 1024):
        of_a, of_b = Operand(0, 1024, stride), Operand(0, stride, stride)
        yield Wgmma(64, "f32", "bf16", "bf16", at=(of_a, of_b))
    yield Wgmma(64, "f32", "bf16", "bf16", signs=(-1, 1), adds=0)


def products() -> Iterator[Case]:
    """Yield one wgmma of one warpgroup in many forms."""
    for seed, form in enumerate(_forms()):
        d, images, a = (x[:1] for x in wgmma_cases.operands(form, seed))
        at = [np.uint64(o.encoded(r)) for o, r in zip(form.at, (0, A_BYTES), strict=True)]
        given = (d, images, a, *at, form.adds)
        kernel = functools.partial(_product, form)
        yield launch(form.name, "", "multiply", 1, 128, given, shared=IMAGE, kernel=kernel)


@functools.cache
def _sources() -> dict[str, tuple[str, str]]:
    return many_kernels.together((wgmma_cases.source_of(form) for form in _forms()), "multiply")


@functools.cache
def _product(form: Wgmma, device: Any) -> coalesce.Kernel:
    source, name = _sources()[wgmma_cases.source_of(form)]
    return coalesce.Kernel(source, name, device=device, arch="sm_90a")
