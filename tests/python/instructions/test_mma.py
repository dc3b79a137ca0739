"""Matrix products on tensor cores equal the results of a GPU bit by bit.

`tools/record_results.py` recorded them; `tests/matrix_cases.py` defines the forms and the operands.
The arithmetic of older compute capabilities is compared with a reference in NumPy.
"""

from functools import cache
from pathlib import Path

import matrix_cases
import numpy as np
import pytest
from both_ways import why_ptx
from matrix_cases import FORMATS

import coalesce

FORMS = {form.opcode: (seed, form) for seed, form in enumerate(matrix_cases.forms())}
RECORDED = Path(__file__).parents[2] / "data" / "mma_h200.npz"


@cache
def recorded() -> dict[str, np.ndarray]:
    with np.load(RECORDED) as file:
        return dict(file)


def assert_same_bits(result: np.ndarray, wanted: np.ndarray) -> None:
    wanted = wanted.view(result.dtype)
    if result.dtype == np.float64:  # a NaN may have any payload
        result, wanted = (np.where(np.isnan(x), np.nan, x) for x in (result, wanted))
    np.testing.assert_array_equal(result.view("u1"), wanted.view("u1"))


@pytest.mark.usefixtures("machine_code")
@pytest.mark.parametrize("how", ["launch", "profile"])
@pytest.mark.parametrize("opcode", FORMS)
def test_results_are_those_of_the_gpu(opcode: str, how: str) -> None:
    """A launch executes the PTX, and a profile the machine code."""
    seed, form = FORMS[opcode]
    d, a, b, c = (
        np.ascontiguousarray(matrix_cases.chosen(form, x))
        for x in matrix_cases.registers(form, seed)
    )
    kernel = matrix_cases.kernel_of(form, "sim")
    assert not why_ptx(kernel)
    getattr(kernel, how)(len(d), 32, d, a, b, c)
    assert_same_bits(d, recorded()[opcode])


# --- older tensor cores, after the publications that matrix/arithmetic.hpp cites ---


@pytest.mark.parametrize(
    ("arch", "name", "bits", "step", "kept"),
    [
        ("sm_75", "m16n8k8.row.col.f32.f16.f16.f32", 24, 8, 23),
        ("sm_80", "m16n8k16.row.col.f32.f16.f16.f32", 24, 8, 23),
        ("sm_86", "m16n8k16.row.col.f32.bf16.bf16.f32", 24, 8, 23),
        ("sm_80", "m16n8k8.row.col.f32.tf32.tf32.f32", 24, 4, 23),
        ("sm_89", "m16n8k32.row.col.f32.e4m3.e5m2.f32", 13, 16, 13),
    ],
)
@pytest.mark.parametrize("kind", ["near", "cancel"])
def test_older_tensor_cores(
    arch: str, name: str, bits: int, step: int, kept: int, kind: str
) -> None:
    _, form = FORMS[f"mma.sync.aligned.{name}"]
    source = matrix_cases.Source(7)
    shapes = ((20, form.m, form.k), (20, form.k, form.n), (20, form.m, form.n))
    a, b, c = (
        matrix_cases.numbers(source, kind, FORMATS[t], shape)
        for t, shape in zip((form.a, form.b, form.c), shapes, strict=True)
    )
    at = matrix_cases.c_positions(form, "f32")
    given = [
        matrix_cases.packed(form, a, form.a, matrix_cases.a_positions(form)),
        matrix_cases.packed(form, b, form.b, matrix_cases.b_positions(form)),
        matrix_cases.packed(form, c, "f32", at),
    ]
    d = np.zeros((20, 32, 4), "u4")
    kernel = coalesce.Kernel(matrix_cases.source_of(form), "multiply", device="sim", arch=arch)
    kernel[20, 32](d, *given)
    for first in range(0, form.k, step):
        some = slice(first, first + step)
        c = matrix_cases.fused(form, a[:, :, some], b[:, some], c.astype("u8"), bits, kept)
    np.testing.assert_array_equal(matrix_cases.unpacked(form, d, "f32", at), c)


# --- wrong use ---

PTX = """
.version 8.0
.target {target}
.address_size 64
.visible .entry k() {{
    .reg .b32 %r<20>;
    .reg .f32 %f<9>;
    {code}
    ret;
}}
"""


def ptx(code: str, target: str = "sm_90") -> coalesce.Kernel:
    return coalesce.Kernel(PTX.format(code=code, target=target), "k", device="sim")


@pytest.mark.parametrize(
    ("code", "target", "error", "words"),
    [
        (
            ("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"
            " {%f0,%f1,%f2,%f3}, {%r0,%r1}, {%r2,%r3}, {%f0,%f1,%f2,%f3};"),
            "sm_90", coalesce.PtxError, "fragment a must have 4 registers; it has 2",
        ),
        (
            ("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"
            " {%f0,%f1,%f2,%f3}, {%r0,%r1,%r2,%r3}, {%r2,%r3}, {%f0,%f1,%f2,%f3};"),
            "sm_75", coalesce.UnsupportedInstruction, "needs sm_80; the PTX is for sm_75",
        ),
        (
            "stmatrix.sync.aligned.m8n8.x1.shared.b16 [%r0], {%r1};",
            "sm_80", coalesce.UnsupportedInstruction, "needs sm_90",
        ),
        (
            "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r1,%r2}, [%r0];",
            "sm_90", coalesce.PtxError, "fragment d must have 4 registers; it has 2",
        ),
        (
            ("mma.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32"
            " {%f0,%f1,%f2,%f3}, {%r0,%r1,%r2,%r3}, {%r2,%r3}, {%f0,%f1,%f2,%f3};"),
            "sm_90", coalesce.UnsupportedInstruction, "cannot execute",
        ),
        (
            ("mma.sync.aligned.m16n8k16.row.col.f32.bf16.f16.f32"
            " {%f0,%f1,%f2,%f3}, {%r0,%r1,%r2,%r3}, {%r2,%r3}, {%f0,%f1,%f2,%f3};"),
            "sm_90", coalesce.UnsupportedInstruction, "cannot execute",
        ),
        (
            ("mma.sp.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32"
            " {%f0,%f1,%f2,%f3}, {%r0,%r1,%r2,%r3}, {%r2,%r3,%r4,%r5}, {%f0,%f1,%f2,%f3}, %r6, 0;"),
            "sm_90", coalesce.UnsupportedInstruction, "cannot execute",
        ),
        (
            ("wmma.mma.sync.aligned.row.col.m16n16k16.f32.f32 {%f0,%f1,%f2,%f3}, "
            "{%r0,%r1,%r2,%r3,%r4,%r5,%r6,%r7}, {%r0,%r1,%r2,%r3,%r4,%r5,%r6,%r7}, "
            "{%f0,%f1,%f2,%f3,%f4,%f5,%f6,%f7};"),
            "sm_90", coalesce.PtxError, "fragment d must have 8 registers; it has 4",
        ),
    ],
)  # fmt: skip
def test_wrong_forms_are_refused(
    code: str, target: str, error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        ptx(code, target)[1, 32]()


def test_all_lanes_must_participate() -> None:
    code = (
        "mov.u32 %r0, 0; mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32"
        " {%f0,%f1,%f2,%f3}, {%r0,%r0}, {%r0}, {%f0,%f1,%f2,%f3};"
    )
    ptx(code)[1, 64]()
    with pytest.raises(coalesce.LaunchError, match="all 32 threads of a warp; here lanes 0-15"):
        ptx(code)[1, 48]()
