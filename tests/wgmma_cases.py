"""Products of warpgroups (`wgmma`): forms, descriptors and operands that are recorded on a GPU.

A case does not contain matrices. Shared memory holds random numbers, and the descriptors say how
the tensor cores read them. So a wrong address gives a wrong sum.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

import many_kernels
import numpy as np
from matrix_cases import FORMATS, KINDS, Source, numbers

import coalesce

A_BYTES, B_BYTES = 16384, 32768  # the bytes of shared memory for the operands
IMAGE = A_BYTES + B_BYTES


@dataclass(frozen=True)
class Operand:
    """The position of an operand in shared memory: the fields of its descriptor, in bytes."""

    start: int = 0
    leading: int = 128
    stride: int = 256
    base: int = 0
    swizzle: int = 0  # 0: none, 1: 128 bytes, 2: 64 bytes, 3: 32 bytes

    def encoded(self, region: int = 0) -> int:
        """Return the descriptor of an operand, given the start of its region of shared memory."""
        fields = (region + self.start) // 16 | self.leading // 16 << 16 | self.stride // 16 << 32
        return fields | self.base << 49 | self.swizzle << 62


@dataclass(frozen=True)
class Wgmma:
    """One instruction, its descriptors and the kind of its operands."""

    n: int
    d: str
    a: str
    b: str
    in_registers: bool = False
    transposed: tuple[int, int] = (0, 0)
    signs: tuple[int, int] = (1, 1)
    options: str = ""  # such as ".satfinite"
    at: tuple[Operand, Operand] = (Operand(), Operand())
    kinds: tuple[str, ...] = ("near",)
    adds: int = 1  # the operand scale-d

    @property
    def k(self) -> int:
        """Return the depth of the product; a row of the operand has 32 bytes."""
        return 256 // FORMATS[self.a].bits

    @property
    def opcode(self) -> str:
        """Return the instruction as PTX spells it."""
        return (
            f"wgmma.mma_async.sync.aligned.m64n{self.n}k{self.k}{self.options}"
            f".{self.d}.{self.a}.{self.b}"
        )

    @property
    def name(self) -> str:
        """Return a unique name."""
        return " ".join(
            [self.opcode, *(["registers"] if self.in_registers else []),
             f"trans{self.transposed}", f"signs{self.signs}",
             *(f"{o.start}+{o.leading}+{o.stride}+{o.base}+{o.swizzle}" for o in self.at),
             "".join(kind[0] for kind in self.kinds), str(self.adds)]
        )  # fmt: skip

    @property
    def floating(self) -> bool:
        """Return whether elements are floating-point numbers."""
        return FORMATS[self.a].exponent > 0

    @property
    def registers(self) -> int:
        """Return the number of d registers per thread."""
        return self.n // (4 if self.d == "f16" else 2)


def cases() -> Iterator[Wgmma]:
    """Yield the recorded cases."""
    floats = [("f32", "f16", "f16"), ("f16", "f16", "f16"), ("f32", "bf16", "bf16")]
    floats += [("f32", "tf32", "tf32")]
    floats += [(d, a, b) for d in ("f32", "f16") for a in ("e4m3", "e5m2")
               for b in ("e4m3", "e5m2")]  # fmt: skip
    integers = [("s32", a, b) for a in ("s8", "u8") for b in ("s8", "u8")]
    for d, a, b in floats:
        yield Wgmma(8, d, a, b, kinds=KINDS * 2)
        yield Wgmma(8, d, a, b, in_registers=True, kinds=KINDS)
        yield Wgmma(8, d, a, b, signs=(-1, 1), kinds=KINDS)
        yield Wgmma(8, d, a, b, signs=(1, -1), kinds=KINDS, adds=0)
    for d, a, b in integers:
        for options in ("", ".satfinite"):
            yield Wgmma(8, d, a, b, options=options, kinds=("bits",) * 3)
        yield Wgmma(16, d, a, b, in_registers=True, kinds=("bits",))
    # Each swizzle and direction, unequal strides, and operands that begin inside a repetition.
    group = {0: 256, 1: 1024, 2: 512, 3: 256}
    for swizzle in range(4):
        for n in (8, 24, 64):
            for trans in ((0, 0), (1, 0), (0, 1), (1, 1)):
                a = Operand(0, 2048, group[swizzle], 0, swizzle)
                b = Operand(0, 4096 if trans[1] else 128, 2 * group[swizzle], 0, swizzle)
                yield Wgmma(n, "f32", "bf16", "bf16", transposed=trans, at=(a, b))
        for start in (16, 32, 64, 96, 128, 256, 384, 1024):
            a = Operand(start, 128, 1024, 0, swizzle)
            b = Operand(2 * start, 2048, 1024, 0, swizzle)
            yield Wgmma(16, "f32", "f16", "f16", at=(a, b))
            yield Wgmma(16, "f32", "f16", "f16", transposed=(1, 1), at=(a, b))
        for base in (1, 3, 4):
            a = Operand(base * 128, 128, 1024, base, swizzle)
            b = Operand(base * 128, 2048, 1024, base, swizzle)
            yield Wgmma(16, "f32", "f16", "f16", at=(a, b))
            yield Wgmma(16, "f32", "f16", "f16", transposed=(1, 1), at=(a, b))
        for d, kind in (("f32", "tf32"), ("f32", "e4m3"), ("s32", "s8")):
            a = Operand(0, 128, 2 * group[swizzle], 0, swizzle)
            b = Operand(32, 4096, group[swizzle], 0, swizzle)
            kinds = ("bits",) if kind == "s8" else ("near",)
            yield Wgmma(16, d, kind, kind, at=(a, b), kinds=kinds)
            yield Wgmma(32, d, kind, kind, in_registers=True, at=(a, b), kinds=kinds)
    for n in (128, 256):
        yield Wgmma(n, "f32", "f16", "f16", at=(Operand(0, 128, 256), Operand(0, 128, 256)))
        yield Wgmma(n, "f16", "f16", "f16", in_registers=True, transposed=(0, 1),
                    at=(Operand(), Operand(0, 8192, 1024, 0, 1)))  # fmt: skip


def _filled(source: Source, case: Wgmma, kind: str, element: str, count: int) -> np.ndarray:
    """Return `count` bytes of random elements."""
    form = FORMATS[element]
    shape = (count * 8 // form.bits,)
    if kind == "bits":
        values = source.bits(form.bits, *shape)
    else:
        values = numbers(source, kind, form, shape)
        if kind == "cancel" and case.transposed == (0, 0):
            values[1::2] = values[0::2]
    return values.astype(f"u{form.bits // 8}").view("u1")


@cache
def operands(case: Wgmma, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return registers of d, images of shared memory, and registers of a; a block per kind."""
    source = Source(seed)
    d, images, a = [], [], []
    for kind in case.kinds:
        sums = "wide" if kind == "cancel" else kind
        d.append(_filled(source, case, sums, case.d, 4 * 128 * case.registers).view("u4"))
        of_a = _filled(source, case, kind, case.a, A_BYTES)
        of_b = _filled(source, case, kind, case.b, B_BYTES)
        registers = _filled(source, case, kind, case.a, 4 * 4 * 128)
        if kind == "cancel":
            sign = np.uint64(1 << (FORMATS[case.a].bits - 1))
            for x in (of_a, registers):
                elements = x.view(f"u{FORMATS[case.a].bits // 8}")
                elements[1::2] ^= sign.astype(elements.dtype)
                noise = source.bits(1, len(elements[1::2])) & source.bits(1, len(elements[1::2]))
                elements[1::2] ^= noise.astype(elements.dtype)
        images.append(np.concatenate([of_a, of_b]).view("u4"))
        a.append(registers.view("u4"))
    shape = (len(case.kinds), 128)
    return (
        np.stack(d).reshape(*shape, -1), np.stack(images), np.stack(a).reshape(*shape, 4)
    )  # fmt: skip


def source_of(case: Wgmma) -> str:
    """Return CUDA C++ of a kernel `multiply` with a warpgroup for each kind of operands."""
    count = case.registers
    names = iter(range(count + 8))
    listed = "{" + ", ".join(f"%{next(names)}" for _ in range(count)) + "}"
    a_text = (
        "{" + ", ".join(f"%{next(names)}" for _ in range(4)) + "}"
        if case.in_registers else f"%{next(names)}"
    )  # fmt: skip
    b_text, p_text = f"%{next(names)}", f"%{next(names)}"
    rest = ""
    if case.floating:
        rest = f", {case.signs[0]}, {case.signs[1]}"
        if FORMATS[case.a].bits == 16:
            rest += f", {case.transposed[1]}" if case.in_registers else (
                f", {case.transposed[0]}, {case.transposed[1]}"
            )  # fmt: skip
    outputs = ", ".join(f'"+r"(d[{n}])' for n in range(count))
    given = ", ".join(f'"r"(a[{n}])' for n in range(4)) if case.in_registers else '"l"(a_matrix)'
    return f"""
    extern "C" __global__ void multiply(unsigned* sums, const unsigned* images,
                                        const unsigned* fragments, unsigned long long a_matrix,
                                        unsigned long long b_matrix, int add) {{
        extern __shared__ __align__(1024) unsigned image[];
        const int t = threadIdx.x;
        for (int i = t; i < {IMAGE // 4}; i += 128)
            image[i] = images[blockIdx.x * {IMAGE // 4} + i];
        asm volatile("fence.proxy.async;" ::: "memory");
        __syncthreads();
        const unsigned long long at = unsigned(__cvta_generic_to_shared(image)) / 16;
        a_matrix += at;
        b_matrix += at;
        unsigned* const own = sums + (blockIdx.x * 128 + t) * {count};
        unsigned d[{count}], a[4];
        for (int i = 0; i < {count}; ++i) d[i] = own[i];
        for (int i = 0; i < 4; ++i) a[i] = fragments[(blockIdx.x * 128 + t) * 4 + i];
        asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
        asm volatile("{{ .reg .pred p; setp.ne.b32 p, {p_text}, 0; "
            "{case.opcode} {listed}, {a_text}, {b_text}, p{rest}; }}"
            : {outputs} : {given}, "l"(b_matrix), "r"(add) : "memory");
        asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
        asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
        for (int i = 0; i < {count}; ++i) own[i] = d[i];
    }}"""


@cache
def _sources() -> dict[str, tuple[str, str]]:
    return many_kernels.together((source_of(case) for case in cases()), "multiply")


@cache
def _kernel(text: str, device: str) -> coalesce.Kernel:
    source, name = _sources()[text]
    return coalesce.Kernel(source, name, device=device, arch="sm_90a")


def run(case: Wgmma, seed: int, device: str, counts: bool = False) -> np.ndarray:
    """Return the registers of the results: an array [kind, thread, register].

    With `counts`, the simulator must execute the machine code.
    """
    d, images, a = operands(case, seed)
    d = d.copy()
    record = _kernel(source_of(case), device).launch(
        len(d), 128, d, images, a, np.uint64(case.at[0].encoded()),
        np.uint64(case.at[1].encoded(A_BYTES)), case.adds, shared_bytes=IMAGE, counts=counts,
    )  # fmt: skip
    assert not counts or record.counts.machine_code
    return d
