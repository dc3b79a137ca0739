"""Makes small random kernels: lanes diverge and exchange values, and values reach type limits.

python tests/random_kernels.py --first 100 --count 50

Each seed gives one kernel. Its machine code must leave the same results as its PTX. A kernel reads
words and writes four words per thread; `source(seed)` returns its source.
"""

import argparse
import random
import sys
from collections.abc import Callable

import numpy as np
from both_ways import why_ptx

import coalesce

HEADER = """
#include <cuda_fp16.h>
__device__ unsigned within(unsigned mask, unsigned value, unsigned from) {
    return mask >> from & 1 ? value : 0;
}
__device__ half half_of(unsigned x) { return __ushort_as_half(x); }
__device__ half2 halves_of(unsigned x) { half2 h; memcpy(&h, &x, 4); return h; }
__device__ unsigned word_of(half2 h) { unsigned x; memcpy(&x, &h, 4); return x; }
#define PERMUTE(mode) __device__ unsigned mode(unsigned x, unsigned y, unsigned z) { \\
    unsigned d; \\
    asm("prmt.b32." #mode " %0, %1, %2, %3;" : "=r"(d) : "r"(x), "r"(y), "r"(z)); \\
    return d; }
PERMUTE(f4e) PERMUTE(b4e) PERMUTE(rc8) PERMUTE(ecl) PERMUTE(ecr) PERMUTE(rc16)
typedef unsigned long long u64;
__device__ __noinline__ unsigned f0(unsigned x) { return x * 2654435761u ^ x >> 7; }
__device__ __noinline__ unsigned f1(unsigned x) { return x / 7 + (x % 13 ? x << 3 : ~x); }
__device__ __noinline__ unsigned f2(unsigned x) { return __brev(x) - __clz(x); }
typedef unsigned (*Function)(unsigned);
__device__ Function functions[3] = {f2, f0, f1};
extern "C" __global__ void other(unsigned* out) { out[0] = functions[out[1] % 3](out[2]); }
"""

UNARY = [
    "~{a}", "-{a}", "__popc({a})", "__clz({a})", "__ffs({a})", "__brev({a})",
    "(unsigned)abs((int){a})", "(unsigned)(char){a}", "(unsigned)(short)({a} >> 3)",
    "f0({a})", "f1({a})", "functions[{a} % 3]({a})", "__float_as_uint((float){a})",
    "__float_as_uint(sqrtf(__uint_as_float({a})))", "__float_as_uint(1 / (float)(int){a})",
    "(unsigned)(int)(__uint_as_float({a}))", "(unsigned)(__uint_as_float({a}) * 3.7f)",
    "__float_as_uint(__uint_as_float({a}) / 2.3f)", "(unsigned)((u64){a} * {a} >> 27)",
    "(unsigned)(u64)__longlong_as_double((u64){a} << 31 | {a})",
    "(unsigned)__double_as_longlong((double){a} / 3.7)",
    "(unsigned)(__double_as_longlong(sqrt((double){a})) >> 9)",
    "(unsigned)((long long)(int){a} / 1000003)", "(unsigned)((long long)(int){a} % 77)",
    "memory[{a} % 96]", "local[{a} % 8]", "in[{a} % 192]",
    "(unsigned)__half2short_rz(half_of({a}))",
    "(unsigned)__half2ushort_rn(half_of({a}))", "__half_as_ushort(__uint2half_rz({a}))",
    "(unsigned)__half2int_ru(half_of({a} >> 9))", "__half_as_ushort(__int2half_rd((int){a}))",
]  # fmt: skip

BINARY = [
    "{a} + {b}", "{a} - {b}", "{a} * {b}", "{a} & {b}", "{a} | {b}", "{a} ^ {b}",
    "{a} << ({b} & 31)", "{a} >> ({b} & 31)", "(unsigned)((int){a} >> ({b} & 31))",
    "{a} / ({b} | 1)", "{a} % ({b} | 1)",
    "(unsigned)((int){a} / (int)({b} | 1))", "min({a}, {b})", "(unsigned)max((int){a}, (int){b})",
    "__umulhi({a}, {b})", "(unsigned)__mulhi((int){a}, (int){b})", "__funnelshift_l({a}, {b}, {a})",
    "__byte_perm({a}, {b}, {b})", "({a} < {b} ? {a} : {b} + 1)", "((int){a} < (int){b}) * 5u",
    "(unsigned)(((u64){a} << 32 | {b}) / (({b} & 1023) + 3))", "__usad({a}, {b}, {a})",
    "(unsigned)(((u64){a} << 32 | {b}) - ((u64){b} << 32 | {a}) >> 13)", "__vabsdiffu4({a}, {b})",
    "__float_as_uint(__uint_as_float({a}) * __uint_as_float({b}))", "__dp4a({a}, {b}, {a})",
    "__float_as_uint(__uint_as_float({a}) + __uint_as_float({b}))", "__vmaxs2({a}, {b})",
    "__float_as_uint(fminf(__uint_as_float({a}), __uint_as_float({b})))", "__vaddus4({a}, {b})",
    "__float_as_uint(fmodf((float)(int){a}, (float)({b} & 4095) + 0.5f))",
    "__float_as_uint((float)(int){a} / (float)(int){b})",
    "(unsigned)__double_as_longlong((double){a} / (double)(int){b})",
    "(unsigned)(__double_as_longlong(fma((double){a}, 1.1, (double){b})) >> 21)",
    "f4e({a}, {b}, {a})", "b4e({a}, {b}, {b})", "rc8({a}, {b}, {b})", "ecl({a}, {b}, {a})",
    "ecr({a}, {b}, {b})", "rc16({a}, {b}, {a})", "__hgt2_mask(halves_of({a}), halves_of({b}))",
    "__half_as_ushort(__float2half(__int_as_float({a}) + __int_as_float({b})))",
    "__vcmpgts4({a}, {b})", "__viaddmax_s32({a}, {b}, {a})", "__vimin3_u32({a}, {b}, 77)",
    "__funnelshift_rc({a}, {b}, {b} & 63)", "__dp2a_lo((int){a}, (int){b}, 3)",
    "(unsigned)((long long)((u64){a} << 32 | {b}) % (int)({b} | 1))",
]  # fmt: skip

# The lanes of `mask` that execute the instruction.
EXCHANGES = [
    "__shfl_sync(mask, {a}, {b} & 31)", "__shfl_xor_sync(mask, {a}, 5)",
    "__shfl_up_sync(mask, {a}, 3, 8)", "__shfl_sync(mask, {a}, {b}, 4)",
    "__shfl_down_sync(mask, {a}, 9, 2)", "__shfl_xor_sync(mask, {a}, 17, 16)",
    "__shfl_down_sync(mask, {a}, {b} & 7, 16)",
    "__ballot_sync(mask, {a} & 4)", "__any_sync(mask, {a} % 5 == 0)", "__all_sync(mask, {a} % 3)",
    "__match_any_sync(mask, {a} % 3)", "__match_any_sync(mask, (u64)({a} % 3) << 32)",
    "__reduce_add_sync(mask, {a})", "__reduce_min_sync(mask, {a})", "__reduce_or_sync(mask, {a})",
    "__reduce_max_sync(mask, (int){a})", "__reduce_xor_sync(mask, {a})", "__popc(mask)",
]  # fmt: skip

# For a group of lanes. A lane may also read from a lane outside its group. CUDA does not define
# this value, so it is replaced by 0. A second shuffle finds the lane that was read.
GROUP_EXCHANGES = [
    f"within(mask, {e}, {e.replace('{a}', '(threadIdx.x & 31)')})" if "shfl" in e else e
    for e in EXCHANGES
]


class _Writer:
    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.lines: list[str] = []
        self.indent = 1
        self.loops = 0

    def line(self, text: str) -> None:
        self.lines.append("    " * self.indent + text)

    def value(self) -> str:
        pick = self.random.random()
        if pick < 0.75:
            return f"v{self.random.randrange(6)}"
        if pick < 0.85:
            return "t"
        return f"{self.random.choice([0, 1, 3, 31, 255, 0x7FFFFFFF, 0x80000000, 0x7F800001])}u"

    def assignment(self, templates: list[str]) -> None:
        template = self.random.choice(templates)
        text = template.format(a=self.value(), b=self.value())
        operation = self.random.choice(["=", "=", "^=", "+="])
        self.line(f"v{self.random.randrange(6)} {operation} {text};")

    def block(self, depth: int) -> None:
        self.indent += 1
        self.statements(depth, self.random.randrange(2, 5))
        self.indent -= 1

    def grouped(self) -> None:
        """Exchange data among lanes with the same value, which may execute it in groups."""
        key = f"{self.value()} % {self.random.choice([2, 3, 5, 32])}"
        self.line("{")
        self.indent += 1
        self.line("const unsigned active = ~0u;")
        self.line(f"const unsigned mask = __match_any_sync(active, {key});")
        for _ in range(self.random.randrange(1, 4)):
            self.assignment(GROUP_EXCHANGES)
        self.indent -= 1
        self.line("}")

    def statements(self, depth: int, count: int) -> None:
        for _ in range(count):
            kind = self.random.random()
            if kind < 0.3:
                self.assignment(UNARY)
            elif kind < 0.62:
                self.assignment(BINARY)
            elif kind < 0.66:
                self.line(f"local[{self.value()} % 8] = {self.value()};")
            elif kind < 0.76 and depth <= 1:
                # All lanes come here only if there is no enclosing branch.
                self.exchange(depth)
            elif kind < 0.86 and depth < 3:
                self.line(f"if ({self.value()} & {1 << self.random.randrange(6)}) {{")
                self.block(depth + 1)
                if self.random.random() < 0.6:
                    self.line("} else {")
                    self.block(depth + 1)
                self.line("}")
            elif kind < 0.93 and depth < 3:
                self.loops += 1
                i = f"i{self.loops}"
                self.line(f"for (unsigned {i} = 0; {i} < {self.value()} % 5; ++{i}) {{")
                self.block(depth + 1)
                self.line("}")
            elif depth < 3:
                self.line(f"switch ({self.value()} % 5) {{")
                for case in range(self.random.randrange(2, 6)):
                    self.line(f"case {case}:")
                    self.block(depth + 1)
                    self.line("    break;")
                self.line("}")

    def exchange(self, depth: int) -> None:
        if depth == 0 and self.random.random() < 0.5:
            self.line("{")
            self.indent += 1
            self.line("const unsigned mask = ~0u;")
            self.assignment(EXCHANGES)
            self.indent -= 1
            self.line("}")
        elif depth == 0:
            self.grouped()

    def barrier(self) -> None:
        self.line("__syncthreads();")
        self.line(f"memory[threadIdx.x] = {self.value()};")
        self.line("__syncthreads();")
        self.line(f"v{self.random.randrange(6)} ^= memory[(threadIdx.x * 5 + 3) % 96];")


def source(seed: int) -> str:
    """Return the CUDA source of a kernel `k(const unsigned* in, unsigned* out)`, 96 threads."""
    writer = _Writer(seed)
    writer.line("__shared__ unsigned memory[96];")
    writer.line("const unsigned t = threadIdx.x;")
    writer.line("unsigned local[8] = {1, 2, 3, 4, 5, 6, 7, 8};")
    writer.line("memory[t] = in[t];")
    writer.line("__syncthreads();")
    for n in range(6):
        writer.line(f"unsigned v{n} = in[(t + {n * 17}) % 192];")
    for _ in range(writer.random.randrange(1, 4)):
        writer.statements(0, writer.random.randrange(4, 9))
        if writer.random.random() < 0.5:
            writer.barrier()
    writer.line("__syncthreads();")
    writer.line("out[4 * t] = v0 ^ v1; out[4 * t + 1] = v2; out[4 * t + 2] = v3 + v4;")
    writer.line("out[4 * t + 3] = v5 ^ local[t % 8];")
    body = "\n".join(writer.lines)
    return (
        f"{HEADER}\nextern "
        f'"C" __global__ void k(const unsigned* in, unsigned* out) {{\n{body}\n}}\n'
    )


def words() -> np.ndarray:
    """Return the words that kernels read."""
    numbers = np.random.PCG64(3).random_raw(192).astype(np.uint32)
    numbers[::10] %= 50
    numbers[[7, 38, 50, 70]] = 0, 2**32 - 1, 0x7F800000, 0xFFC00000
    return numbers


def difference(seed: int) -> str:
    """Say how a seed's machine code, or its check, differs from its PTX; empty if they agree."""
    kernel = coalesce.Kernel(source(seed), "k", device="sim", instruction_limit=10_000_000)
    left, errors = [], []
    for how in (kernel.launch, kernel.profile, kernel.check):
        left.append(np.zeros(4 * 96, np.uint32))
        try:
            how(1, 96, words(), left[-1])
        except coalesce.CoalesceError as error:
            errors.append(str(error))
    for name, words_left in zip(("profile", "check"), left[1:], strict=True):
        places = np.flatnonzero(left[0] != words_left)
        if places.size:
            errors.append(f"{name}: {places.size} words differ, the first at {places[0]}")
    return "; ".join([*errors, why_ptx(kernel)]).strip("; ")


def compare_seeds(
    arguments: list[str],
    description: str | None,
    source: Callable[[int], str],
    difference: Callable[[int], str],
) -> int:
    """Compare PTX and machine code for some seeds; print those that differ."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int, default=20)
    parser.add_argument("--show", action="store_true", help="print the kernels' text")
    options = parser.parse_args(arguments)
    bad = 0
    for seed in range(options.first, options.first + options.count):
        if options.show:
            print(source(seed))
        if message := difference(seed):
            bad += 1
            print(f"seed {seed}: {message}", flush=True)
    print(f"{options.count - bad} of {options.count} seeds are alike")
    return bad != 0


if __name__ == "__main__":
    sys.exit(compare_seeds(sys.argv[1:], __doc__, source, difference))
