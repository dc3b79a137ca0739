"""Products of warpgroups (wgmma) on the simulator.

The operands of `tests/wgmma_cases.py` are random bytes of shared memory. The sums are compared bit
by bit with those of an H100 (`tools/record_results.py`).
"""

from functools import cache
from pathlib import Path

import matrix_cases
import numpy as np
import pytest
import wgmma_cases
from both_ways import both_ways
from matrix_cases import FORMATS, Mma
from wgmma_cases import A_BYTES, IMAGE, Operand, Wgmma

import coalesce

CASES = {case.name: (seed, case) for seed, case in enumerate(wgmma_cases.cases())}
RECORDED = np.load(Path(__file__).parents[2] / "data" / "wgmma_h100.npz")


@cache
def result(name: str) -> np.ndarray:
    seed, case = CASES[name]
    return wgmma_cases.run(case, seed, "sim")


def place(operand: Operand, row: int, byte: int, *, transposed: bool, k: int) -> int:
    """Return the position of an element: row `row` of a or column `row` of b, `byte` along k."""
    span = {0: 16, 1: 128, 2: 64, 3: 32}[operand.swizzle]
    if transposed:  # 8 elements (16 bits each) of neighbouring rows are adjacent
        chunk, inside = divmod(row, 8)
        groups = span // 16
        if operand.swizzle:
            at = chunk % groups * 16 + chunk // groups * operand.leading
            at += k % 8 * span + k // 8 * operand.stride
        else:
            at = chunk * operand.stride + k % 8 * 16 + k // 8 * operand.leading
        at += 2 * inside
    else:
        chunk, inside = divmod(byte, 16)
        at = row % 8 * span + row // 8 * operand.stride + inside
        at += chunk * (16 if operand.swizzle else operand.leading)
    at += operand.start
    since = at - 128 * operand.base
    for bit in range({0: 0, 1: 3, 2: 2, 3: 1}[operand.swizzle]):
        at ^= (since >> (7 + bit) & 1) << (4 + bit)
    return at


def matrix(image: np.ndarray, operand: Operand, kind: str, rows: int, k: int, transposed: int,
           region: int = 0) -> np.ndarray:  # fmt: skip
    """Return the bits of an operand as [row or column, k]."""
    item = FORMATS[kind].bits // 8
    raw = image.view("u1")
    rows_of_bytes = np.zeros((rows, k), "u8")
    for row in range(rows):
        for step in range(k):
            at = region + place(operand, row, step * item, transposed=bool(transposed), k=step)
            rows_of_bytes[row, step] = int.from_bytes(raw[at : at + item].tobytes(), "little")
    return rows_of_bytes


def sums(case: Wgmma, registers: np.ndarray) -> np.ndarray:
    """Return the bits of c or d as [64, n], made from registers [thread, register]."""
    form = Mma(16, 8, case.k, case.d, case.a, case.b, case.d)
    each = registers.shape[1] * 8 // case.n
    tiles = registers.reshape(4, 32, case.n // 8, each).transpose(0, 2, 1, 3)
    at = matrix_cases.c_positions(form, case.d)
    joined = matrix_cases.unpacked(form, tiles.reshape(-1, 32, each), case.d, at)
    return joined.reshape(4, case.n // 8, 16, 8).transpose(0, 2, 1, 3).reshape(64, case.n)


@pytest.mark.parametrize("name", CASES)
def test_products_equal_those_of_an_h100(name: str) -> None:
    np.testing.assert_array_equal(result(name), RECORDED[name])


def test_bits() -> None:
    case = Wgmma(16, "s32", "s8", "s8", kinds=("bits",))
    d, images, a = wgmma_cases.operands(case, 1)
    source = wgmma_cases.source_of(case).replace("k32.s32.s8.s8", "k256.s32.b1.b1.and.popc")
    product = d.copy()
    kernel = coalesce.Kernel(source, "multiply", device="sim", arch="sm_90a")
    kernel[1, 128, IMAGE](product, images, a, np.uint64(case.at[0].encoded()),
                          np.uint64(case.at[1].encoded(A_BYTES)), 1)  # fmt: skip
    rows = matrix(images[0], case.at[0], "s8", 64, 32, 0)
    columns = matrix(images[0], case.at[1], "s8", 16, 32, 0, A_BYTES)
    common = np.bitwise_count(rows[:, None] & columns[None]).sum(axis=2)
    wanted = (sums(case, d[0]).astype("u4") + common.astype("u4")).astype("u4")
    np.testing.assert_array_equal(sums(case, product[0]).astype("u4"), wanted)


SMALL = Wgmma(8, "f32", "f16", "f16")


def launched(source: str, case: Wgmma = SMALL, threads: int = 128, arch: str = "sm_90a",
             at: tuple[int, int] | None = None, check: bool = False) -> object:  # fmt: skip
    d, images, a = wgmma_cases.operands(case, 1)
    a_at, b_at = at or (case.at[0].encoded(), case.at[1].encoded(A_BYTES))
    kernel = coalesce.Kernel(source, "multiply", device="sim", arch=arch)
    arguments = (d.copy(), images, a, np.uint64(a_at), np.uint64(b_at), 1)
    if check:
        return kernel.check(1, threads, *arguments, shared_bytes=IMAGE)
    kernel[1, threads, IMAGE](*arguments)
    return None


@pytest.mark.parametrize(
    ("old", "new", "options", "message"),
    [
        ("", "", {"threads": 96}, "a warpgroup has 4 whole warps"),
        ("a_matrix += at;", "a_matrix += at + t / 3 % 2;", {}, "different matrix descriptors"),
        ('"r"(add)', '"r"(add + t % 2 - 1)', {}, "different values of scale-d"),
        ("", "", {"at": (0x3FFF, 0x3FFF)}, "shared memory"),
        (
            'asm volatile("{ .reg',
            'if (t % 2) asm volatile("{ .reg',
            {},
            "wait for other lanes",
        ),
        (".wait_group", ".wait_group", {"threads": 160}, ""),
    ],
)
def test_misuse(old: str, new: str, options: dict[str, object], message: str) -> None:
    source = wgmma_cases.source_of(SMALL)
    assert old in source
    source = source.replace(old, new)
    if not message:
        source = source.replace("const int t = threadIdx.x;",
                                "const int t = threadIdx.x; if (t >= 128) return;")  # fmt: skip
        launched(source, **options)
        return
    with pytest.raises((coalesce.LaunchError, coalesce.MemoryFault), match=message):
        launched(source, **options)


def test_checks() -> None:
    source = wgmma_cases.source_of(SMALL)
    assert not launched(source, check=True)
    barrier = "__syncthreads();"
    assert source.count(barrier) == 1
    assert "race" in str(launched(source.replace(barrier, ""), check=True)).lower()
    unfenced = source.replace('asm volatile("fence.proxy.async;" ::: "memory");', "")
    assert unfenced != source
    text = str(launched(unfenced, check=True))
    assert "a write and an asynchronous product are not ordered" in text
    assert "put fence.proxy.async after the write" in text
    # A thread writes to an operand of the product before it has waited for the product.
    commit = 'asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");'
    early = source.replace(commit, commit + "image[t] = 0;")
    assert "race" in str(launched(early, check=True)).lower()
    wait = 'asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");'
    late = source.replace(wait, wait + "image[t] = 0;")
    assert late != source
    assert early != source
    assert not launched(late, check=True)
    part = source.replace("i < 12288; i += 128", "i < 2048; i += 128")
    assert part != source
    assert "written" in str(launched(part, check=True))


@pytest.mark.usefixtures("machine_code")
@pytest.mark.parametrize("name", CASES)
def test_machine_code(name: str) -> None:
    """Counted runs execute HGMMA, QGMMA and IGMMA; the results equal those of an H100."""
    seed, case = CASES[name]
    product = wgmma_cases.run(case, seed, "sim", counts=True)
    np.testing.assert_array_equal(product, RECORDED[name])


def bits_case(in_registers: bool) -> tuple[str, tuple[np.ndarray, ...]]:
    """Return a product of bits: a source and the operands of a product of bytes."""
    case = Wgmma(8, "s32", "s8", "s8", in_registers=in_registers, kinds=("bits",))
    source = wgmma_cases.source_of(case)
    of_bits = source.replace(
        case.opcode, "wgmma.mma_async.sync.aligned.m64n8k256.s32.b1.b1.and.popc"
    )
    assert of_bits != source
    return of_bits, wgmma_cases.operands(case, 7)


COMMIT = "wgmma.commit_group.sync.aligned"


@pytest.mark.usefixtures("machine_code")
@pytest.mark.parametrize(
    ("change", "in_registers"),
    [
        ("", False),
        ("", True),
        # nothing is added; something is added in any case
        ('"r"(add)->"r"(0)', False),
        ('"r"(add)->"r"(1)', True),
        # a group without products
        ("commit_group.sync.aligned->commit_group.sync.aligned; " + COMMIT, False),
    ],
)  # fmt: skip
def test_machine_code_of_bits_and_groups(change: str, in_registers: bool) -> None:
    """PTX and machine code give equal results."""
    source, (d, images, a) = bits_case(in_registers)
    if change:
        old, new = change.split("->")
        assert old in source
        source = source.replace(old, new)
    at = [np.uint64(o.encoded(r)) for o, r in zip(SMALL.at, (0, A_BYTES), strict=True)]
    kernel = coalesce.Kernel(source, "multiply", device="sim", arch="sm_90a")
    result, *_ = both_ways(kernel, 1, 128, d, images, a, *at, 1, shared_bytes=IMAGE)
    assert (result != d).any()


@pytest.mark.usefixtures("machine_code")
def test_counts() -> None:
    """Products are not accesses of the load/store unit; the time is not modelled."""
    d, images, a = wgmma_cases.operands(SMALL, 1)
    kernel = coalesce.Kernel(wgmma_cases.source_of(SMALL), "multiply", device="sim", arch="sm_90a")
    at = [np.uint64(o.encoded(r)) for o, r in zip(SMALL.at, (0, A_BYTES), strict=True)]
    profile = kernel.profile(1, 128, d.copy(), images, a, *at, 1, shared_bytes=IMAGE)
    metrics = profile.metrics()
    assert metrics["sm__ops_path_tensor_src_fp16.sum"] == 2 * 64 * 8 * 16
    assert metrics["smsp__inst_executed_op_shared_ld.sum"] == 0
    assert {"smsp__inst_executed.sum", "smsp__inst_executed_op_shared_st.sum"} <= set(profile.exact)
    assert "wgmma" in profile.not_modelled
