"""Kernels that are compiled for the host leave the same bits, and raise the same errors."""

import random as chance
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import coalesce
from coalesce._core import sim
from coalesce.launch import compiled_kernels

pytest.importorskip("llvmlite")

Outcomes = Callable[..., list[Any]]


@pytest.fixture
def outcomes() -> Iterator[Outcomes]:
    """Return a function that runs a kernel without and with compiled code."""

    def run(source: str, grid: Any, block: Any, *arguments: Any) -> list[Any]:
        found = []
        for compiler in (None, compiled_kernels.compile_now):
            sim.set_kernel_compiler(compiler)
            kernel = coalesce.Kernel(source, "k", device="sim")
            # The code for warps with inactive lanes is compiled when it is first missing.
            for _ in range(2):
                given = [a.copy() if isinstance(a, np.ndarray) else a for a in arguments]
                try:
                    kernel[grid, block](*given)
                except RuntimeError as error:  # all errors of kernels
                    found.append(str(error))
                else:
                    found.append([a.tobytes() for a in given if isinstance(a, np.ndarray)])
        return found

    yield run
    sim.set_kernel_compiler(None)


class Writer:
    """Write a random kernel: arithmetic, memory, branches, loops, barriers, exchanges."""

    def __init__(self, seed: int) -> None:
        self.chance = chance.Random(seed)
        self.depth = 0

    def one(self, *texts: str) -> str:
        return self.chance.choice(texts)

    def integer(self, d: int = 2) -> str:
        if d == 0 or self.chance.random() < 0.25:
            return self.one("i", "t", "n", "v0", "v1", "v2", "7", "-9", "33", "1048576")
        a, b = self.integer(d - 1), self.integer(d - 1)
        return self.one(
            *(f"({a} {op} {b})" for op in "+-*&|^"),
            f"({a} < {b} ? {b} : {a})",
            f"__popc({a})",
            f"__clz({a})",
            f"min({a}, {b})",
            f"__mulhi({a}, {b})",
            f"(int)((unsigned)({a}) >> ({b} & 31))",
            f"({a} << ({b} & 31))",
            f"(int)(short)({a})",
            f"(int)({self.wide(d - 1)})",
            f"__float_as_int({self.real(d - 1)})",
        )

    def wide(self, d: int = 2) -> str:
        if d == 0 or self.chance.random() < 0.3:
            return self.one("l0", "l1", "77LL", "-3LL")
        a, b = self.wide(d - 1), self.wide(d - 1)
        return self.one(
            *(f"({a} {op} {b})" for op in "+-*&^"), f"(long long)({self.integer(d - 1)})"
        )

    def real(self, d: int = 2) -> str:
        if d == 0 or self.chance.random() < 0.3:
            return self.one("f0", "f1", "f2", "1.5f", "-0.0f", "1e-40f", "3e38f")
        a, b = self.real(d - 1), self.real(d - 1)
        return self.one(
            *(f"({a} {op} {b})" for op in "+-*/"),
            f"fmaf({a}, {b}, {self.real(d - 1)})",
            f"fminf({a}, {b})",
            f"fmaxf({a}, {b})",
            f"sqrtf({a})",
            f"rsqrtf({a})",
            f"fabsf({a})",
            f"(float)({self.integer(d - 1)})",
            f"__int_as_float({self.integer(d - 1)})",
        )

    def condition(self) -> str:
        return self.one(
            f"{self.real(1)} < {self.real(1)}",
            f"{self.integer(1)} >= {self.integer(1)}",
            f"(t & {self.one('1', '3', '8', '16', '32')})",
            "n > 50",
        )

    def statement(self, d: int, top: bool = False) -> str:
        # Only at the top level, all threads of the block execute a statement together.
        together = [
            (
                f"s[t] = {self.integer(1)}; __syncthreads(); v0 ^= s[({self.integer(1)}) & 127]; "
                "__syncthreads();"
            ),
            f"v2 += __shfl_down_sync(~0u, v0, {self.one('1', '16', 'n & 31')});",
            f"v1 ^= __ballot_sync(~0u, {self.condition()});",
        ]
        nested = []
        if d:
            name = f"k{self.chance.randrange(10**6)}"
            body, other = self.block(d - 1), self.block(d - 1)
            leave = self.one("", f"if ({self.condition()}) {self.one('break', 'continue')};")
            bound = self.one("(v0 & 7)", "(t & 7)", "5", "(n & 15)")
            nested = [
                f"if ({self.condition()}) {{ {body} }}",
                f"if ({self.condition()}) {{ {body} }} else {{ {other} }}",
                (
                    f"for (int {name} = 0; {name} < {bound}; {name}++) "
                    f"{{ {body} {leave} v1 += {name}; }}"
                ),
            ]
        return self.one(
            f"{self.one('v0', 'v1', 'v2')} = {self.integer()};",
            f"{self.one('f0', 'f1', 'f2')} = {self.real()};",
            f"{self.one('l0', 'l1')} = {self.wide()};",
            f"v0 += x[({self.integer(1)}) & 1023];",
            f"f1 += y[({self.integer(1)}) & 511];",
            f"o[i * 8 + {self.chance.randrange(8)}] = {self.integer(1)};",
            f"atomicAdd(&a[({self.integer(1)}) & 63], {self.integer(1)});",
            *nested * 2,
            *(together if top else []),
        )

    def block(self, d: int) -> str:
        return " ".join(self.statement(d) for _ in range(self.chance.randint(1, 3)))

    def kernel(self) -> str:
        body = "\n".join(self.statement(3, top=True) for _ in range(8))
        return f"""
extern "C" __global__ void k(const int *x, const float *y, int *a, int *o, int n) {{
    __shared__ int s[256];
    int t = threadIdx.x + threadIdx.y * blockDim.x, i = blockIdx.x * blockDim.x * blockDim.y + t;
    s[t] = t; s[(t + 128) & 255] = 1; __syncthreads();
    int v0 = x[i & 1023], v1 = i * 3, v2 = threadIdx.x;
    float f0 = y[i & 511], f1 = 1.5f * threadIdx.y, f2 = i;
    long long l0 = i, l1 = x[t];
{body}
    o[i * 8] ^= v0; o[i * 8 + 1] ^= v1; o[i * 8 + 2] ^= v2; o[i * 8 + 3] ^= __float_as_int(f0);
    o[i * 8 + 4] ^= __float_as_int(f1); o[i * 8 + 5] ^= __float_as_int(f2);
    o[i * 8 + 6] ^= (int)l0; o[i * 8 + 7] ^= (int)l1 ^ (int)(l1 >> 32);
}}"""


@pytest.mark.parametrize("block", [(128,), (16, 8), (100,), (64, 2)], ids=str)
@pytest.mark.parametrize("seed", range(3))
def test_random_kernels(
    outcomes: Outcomes, seed: int, block: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    if seed == 2:  # as the code of a long function
        monkeypatch.setattr(compiled_kernels, "_LONG", 0)
    values = np.random.default_rng(seed)
    x = values.integers(-(2**31), 2**31, 1024).astype(np.int32)
    y = values.standard_normal(512).astype(np.float32)
    y[::37], y[5::41], y[7::53] = np.nan, np.inf, -0.0
    arrays = x, y, np.zeros(64, np.int32), np.arange(8 * 128 * 3, dtype=np.int32)
    plain, *others = outcomes(Writer(seed).kernel(), 3, block, *arrays, np.int32(17 * seed))
    assert isinstance(plain, list), plain
    assert all(other == plain for other in others)


def test_background(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread compiles a kernel that takes long enough, while the interpreter executes it."""
    source = """extern "C" __global__ void k(int *x, int n) {
        int i = blockIdx.x * blockDim.x + threadIdx.x, v = i;
        for (int j = 0; j < n; j++) v = v * 3 + j % (i | 1);
        x[i] = v; }"""
    monkeypatch.setattr(compiled_kernels, "_SECONDS", 0.02)
    monkeypatch.setenv("COALESCE_JIT", "1")
    compiled_kernels.enable.__wrapped__()
    try:
        kernel = coalesce.Kernel(source, "k", device="sim")
        x = np.zeros(64 * 64, np.int32)
        kernel[64, 64](x, np.int32(10))
        assert kernel.compiled == ["not compiled"]
        expected = None
        for _ in range(200):
            kernel[64, 64](x, np.int32(3000))
            expected = x.copy() if expected is None else expected
            assert np.array_equal(x, expected)
            if kernel.compiled[0].startswith("compiled"):
                break
        kernel[64, 64](x, np.int32(3000))
        assert np.array_equal(x, expected)
        assert kernel.compiled[0].startswith("compiled")
    finally:
        sim.set_kernel_compiler(None)


def test_long_kernels_are_interpreted(outcomes: Outcomes) -> None:
    """LLVM would need minutes for a kernel with many registers and many accesses."""
    source = """extern "C" __global__ void k(int *x) {
        int v[64], t = threadIdx.x;
        for (int j = 0; j < 64; j++) v[j] = x[t + j];
        #pragma unroll
        for (int j = 0; j < 600; j++) v[j % 64] ^= x[v[j * 7 % 64] & 63];
        for (int j = 1; j < 64; j++) v[0] += v[j];
        x[t + 64] = v[0]; }"""
    plain, *others = outcomes(source, 1, 32, np.arange(128, dtype=np.int32))
    assert others == [plain] * 3
    kernel = coalesce.Kernel(source, "k", device="sim")
    kernel[1, 32](np.arange(128, dtype=np.int32))
    assert kernel.compiled == ["not compiled: it is too long"]


def test_failures_of_the_compiler() -> None:
    """The interpreter executes a kernel whose compilation fails."""
    asked = []

    def fail(code: sim.KernelCode) -> None:
        asked.append(code.next())
        code.fail("no reason")

    sim.set_kernel_compiler(fail)
    try:
        kernel = coalesce.Kernel(
            'extern "C" __global__ void k(int *x) { x[threadIdx.x] = 7; }', "k", device="sim"
        )
        x = np.zeros(32, np.int32)
        for _ in range(2):
            kernel[1, 32](x)
        assert (x == 7).all()
        assert len(asked) == 1
        assert kernel.compiled == ["not compiled: no reason"]
    finally:
        sim.set_kernel_compiler(None)


@pytest.mark.parametrize(
    "body",
    [
        "x[i + n] = 1.0f;",
        "x[i * (n - 900)] += 1.0f;",
        "for (int j = 0; j < n; j++) x[i] += x[i + 64 * j];",
        "if (i % 3 == 1) x[i + 900] = x[i + 1000];",
        "if (i < 40) { x[i] = 2; x[i - n] = 3; }",
        "*(float *)((char *)x + 2 * i) = 1.0f;",
        "for (int j = 0; j < n; j++) if (j == i + 70) x[j * 64] = 1.0f;",
        "__shared__ float s[64]; s[threadIdx.x + (i > 80 ? n : 0)] = x[i]; x[i] = s[0];",
        "if (i == 77) __trap();",
        "double d = y[i]; x[i] = float(d / (i - 5)) + y[i + (i == 99 ? n : 0)];",
    ],
)
def test_errors(outcomes: Outcomes, body: str) -> None:
    y = np.ones(128, np.float32)
    source = (
        f'extern "C" __global__ void k(float *x, const float *y, int n) {{ '
        f"int i = blockIdx.x * blockDim.x + threadIdx.x; {body} }}"
    )
    plain, *others = outcomes(source, 2, 64, np.ones(1024, np.float32), y, np.int32(1000))
    assert isinstance(plain, str)
    assert others == [plain] * 3


PTX = """.version 8.3
.target sm_90
.address_size 64
.visible .entry k(.param .u64 px, .param .u32 pn) {{
  .reg .b32 %r<8>; .reg .b64 %d<8>; .reg .pred %p<4>;
  ld.param.u64 %d0, [px]; ld.param.u32 %r0, [pn]; mov.u32 %r1, %tid.x;
  mul.wide.u32 %d1, %r1, 4; add.s64 %d1, %d1, %d0; ld.global.u32 %r2, [%d1];
  {body}
  st.global.u32 [%d1], %r2;
  ret;
}}"""

# Each of these kernels had other results when it was compiled.
CASES = {
    # The address has another stride each time, which the function for volatile loads must see.
    "strides of addresses": """
        mov.u32 %r3, 0; mad.wide.u32 %d2, %r1, 4, %d0;
        again: ld.volatile.global.u32 %r4, [%d2]; add.u32 %r2, %r2, %r4;
        mad.lo.u32 %r5, %r2, %r1, %r3; and.b32 %r5, %r5, 63;
        mad.wide.u32 %d2, %r5, 4, %d0; add.u32 %r3, %r3, 1;
        setp.lt.u32 %p0, %r3, 5; @%p0 bra again;""",
    # The instruction writes its own guard.
    "two results": """
        setp.lt.u32 %p0, %r1, 20; setp.gt.u32 %p1, %r1, 10;
        @%p0 setp.gt.u32 %p0|%p1, %r1, 5; @!%p1 setp.lt.u32 %p1|%p0, %r1, 30;
        selp.u32 %r3, 1, 0, %p0; selp.u32 %r4, 2, 0, %p1; add.u32 %r2, %r3, %r4;""",
    # 31 times the stride is 4 modulo 2^64.
    "huge strides": """
        mov.u64 %d2, -4760450083537948804; cvt.u64.u32 %d3, %r1;
        mad.lo.u64 %d2, %d3, %d2, %d0; ld.global.u32 %r3, [%d2]; add.u32 %r2, %r2, %r3;""",
}


@pytest.mark.parametrize("case", CASES)
def test_former_faults(outcomes: Outcomes, case: str) -> None:
    x = np.arange(3, 67, dtype=np.int32)
    plain, *others = outcomes(PTX.format(body=CASES[case]), 1, 64, x, np.uint32(9))
    assert others == [plain] * 3


@pytest.mark.parametrize("block", [(128,), (96, 2), (48,), (16, 6), (8, 4, 3)], ids=str)
def test_parts_of_the_thread_index(outcomes: Outcomes, block: tuple[int, ...]) -> None:
    """In blocks of whole rows of 32 threads, threadIdx.x / 32 is the same in all lanes."""
    parts = ["t >> 5", "t >> 4", "t >> 40 % n", "t & 31", "t & 63", "t & 96", "t & 48", "t & -32"]
    parts += ["(t & 63) >> 5", "(t & 31) >> 5", "(t & 95) & 40", "(t + 1) >> 5", "(t - 32) >> 5"]
    parts += ["-t >> 5", "(2 * t) >> 6", "(t & 63) & 31", "(t | 1) & 31", "lane >> 5", "lane & 7"]
    parts += ["t / 32", "t / 8", "t % 64", "t % 24", "-t / 32", "(t & 60) / 64", "t >> 9"]
    body = "".join(f"o[{k}] = {part}; r += y[{part} & 511];" for k, part in enumerate(parts))
    source = f"""extern "C" __global__ void k(int *x, const int *y, int n) {{
        int t = threadIdx.x, lane, r = 0;
        asm("mov.u32 %0, %laneid;" : "=r"(lane));
        int i = (blockIdx.x * blockDim.z + threadIdx.z) * blockDim.y + threadIdx.y;
        int *o = x + (i * blockDim.x + t) * {len(parts) + 1};
        {body} o[{len(parts)}] = r; }}"""
    x, y = np.zeros(2 * 192 * (len(parts) + 1), np.int32), np.arange(512, dtype=np.int32) ** 2
    plain, *others = outcomes(source, 2, block, x, y, np.int32(7))
    assert isinstance(plain, list), plain
    assert others == [plain] * 3


def test_cooperative_launches_are_interpreted() -> None:
    """Compiled code does not note the addresses by which waiting loops are recognised."""
    source = """
        #include <cooperative_groups.h>
        extern "C" __global__ void k(int *x) {
            x[blockIdx.x * blockDim.x + threadIdx.x] = 1;
            cooperative_groups::this_grid().sync();
            x[blockIdx.x * blockDim.x + threadIdx.x] += x[threadIdx.x];
        }"""
    sim.set_kernel_compiler(compiled_kernels.compile_now)
    try:
        kernel = coalesce.Kernel(source, "k", device="sim")
        x = np.zeros(4 * 32, np.int32)
        kernel.launch(4, 32, x, cooperative=True)
        assert kernel.compiled == []
    finally:
        sim.set_kernel_compiler(None)


def test_masks_have_the_form_of_all_versions_of_llvm() -> None:
    """LLVM before version 22 does not read the alignment as an attribute of the pointer."""
    texts: list[str] = []

    def keep(code: sim.KernelCode) -> None:
        texts.extend(code.next() or ())
        code.fail("not compiled")

    sim.set_kernel_compiler(keep)
    try:
        body = "@%p0 ld.global.u32 %r3, [%d1]; @%p0 st.global.u32 [%d1], %r3;"
        kernel = coalesce.Kernel(
            PTX.format(body=f"setp.lt.u32 %p0, %r1, 9; {body}"), "k", device="sim"
        )
        kernel[1, 32](np.zeros(32, np.int32), np.uint32(0))
    finally:
        sim.set_kernel_compiler(None)
    calls = [line for line in texts[1].splitlines() if "call" in line and "@llvm.masked" in line]
    assert len(calls) >= 2
    assert all(", i32 4, <32 x i1> " in call and "align" not in call for call in calls)
