"""printf in kernels: every conversion, flag and length gives the same text as in C."""

import math
import subprocess
import sys

import numpy as np
import pytest

import coalesce

# (format, arguments in CUDA C++, the output in C)
CASES = [
    ("plain text, 100%%", "", "plain text, 100%"),
    ("%d %i %5d|%-5d|%05d|%+d|% d", "1, -2, 3, 4, 5, 6, 7", "1 -2     3|4    |00005|+6| 7"),
    ("%u %x %X %#x %o %#o", "4000000000u, 255, 255, 255, 8, 8", "4000000000 ff FF 0xff 10 010"),
    ("%lld %llu %llx", "-5000000000ll, 10000000000ull, 1ull << 40",
     "-5000000000 10000000000 10000000000"),
    ("%ld %lu %zu %td %jd", "-7l, 8ul, sizeof(int), (long)9, 10ll", "-7 8 4 9 10"),
    ("%hd %hu %hhd %hhu", "(short)-3, (unsigned short)65535, (signed char)-4, (unsigned char)200",
     "-3 65535 -4 200"),
    ("%f %.2f %8.3f|%-8.1f|%+.1f %.0f", "1.5, 2.345678, 3.14159, 2.25, 0.5, 2.5",
     "1.500000 2.35    3.142|2.2     |+0.5 2"),
    ("%e %.3E %g %G %g", "12345.678, 0.00012, 1e-10, 1e20, 0.0001",
     "1.234568e+04 1.200E-04 1e-10 1E+20 0.0001"),
    ("%a", "1.0", "0x1p+0"),
    ("%f %f %e", "1.0f / 3, (float)1e10, 1e300", "0.333333 10000000000.000000 1.000000e+300"),
    ("%c%c%c", "'a', 66, '!'", "aB!"),
    ("%s, %10s|%-6s|%.2s", '"word", "right", "left", "cut"', "word,      right|left  |cu"),
    ("%*d|%-*d|%.*f", "5, 1, 4, 2, 2, 3.14159", "    1|2   |3.14"),
    ("%d%%%d", "1, 2", "1%2"),
    ("%c %lld %c %f", "'x', 1ll << 50, 'y', 0.5", "x 1125899906842624 y 0.500000"),
]  # fmt: skip


@pytest.fixture
def printed(on_simulator, capfd):
    def launch(source: str, *arguments, grid=1, block=1) -> str:
        coalesce.Kernel("#include <stdio.h>\n" + source, "k", device=on_simulator)[grid, block](
            *arguments
        )
        return capfd.readouterr().out

    return launch


def test_every_format(printed):
    calls = "".join(f'printf("{f}\\n"{", " + a if a else ""});\n' for f, a, _ in CASES)
    out = printed(f'extern "C" __global__ void k() {{ {calls} }}')
    assert out.splitlines() == [want for _, _, want in CASES]


def test_not_a_number_and_infinity(printed):
    out = printed(
        """extern "C" __global__ void k(const float *x) {
            printf("%f %f %f %f %f\\n", x[0] / x[0], sqrtf(x[1]), x[1] / x[0], -x[1] / x[0], x[2]);
        }""",
        np.array([0, -1, math.nan], np.float32),
    )
    assert out.split() == ["nan", "nan", "-inf", "inf", "nan"]


def test_a_call_is_one_piece_of_text(printed):
    """The text of one call is not split, and threads of a warp print in order."""
    out = printed(
        """extern "C" __global__ void k() {
            if (threadIdx.x % 3 == 0) printf("<%d,%d:", blockIdx.x, threadIdx.x);
            if (threadIdx.x % 3 == 0) printf("%d>\\n", threadIdx.x * threadIdx.x);
        }""",
        grid=1,
        block=32,
    )
    threads = range(0, 32, 3)
    first = "".join(f"<0,{t}:" for t in threads)
    second = "".join(f"{t * t}>\n" for t in threads)
    assert out == first + second


def test_many_blocks(printed):
    out = printed(
        """extern "C" __global__ void k() {
            printf("block %d thread %d of %d\\n", blockIdx.x, threadIdx.x, blockDim.x);
        }""",
        grid=20,
        block=40,
    )
    want = {f"block {b} thread {t} of 40" for b in range(20) for t in range(40)}
    assert len(out.splitlines()) == 800
    assert set(out.splitlines()) == want


def test_returned_count_and_strings_from_memory(on_simulator, capfd):
    text = np.frombuffer(b"from an array\0", np.int8).copy()
    counts = np.zeros(3, np.int32)
    source = """
    #include <stdio.h>
    __constant__ char greeting[] = "constant";
    extern "C" __global__ void k(const char *text, int *counts) {
        char local[] = {'l', 'o', 'c', 'a', 'l', 0};
        __shared__ char shared[8];
        for (int i = 0; i < 7; ++i) shared[i] = 's';
        shared[7] = 0;
        counts[0] = printf("%s|%s|%s|%s\\n", text, greeting, local, shared);
        counts[1] = printf("%%\\n");
        counts[2] = printf("%d %d\\n", 1, 2);
    }"""
    coalesce.Kernel(source, "k", device=on_simulator)[1, 1](text, counts)
    assert capfd.readouterr().out == "from an array|constant|local|sssssss\n%\n1 2\n"
    np.testing.assert_array_equal(counts, [4, 0, 2])


def test_long_strings_are_not_cut(printed):
    out = printed(
        """extern "C" __global__ void k(const char *x) { printf("[%s]%2000d.\\n", x, 7); }""",
        np.frombuffer(b"ab" * 1000 + b"\0", np.int8).copy(),
    )
    assert out == "[" + "ab" * 1000 + "]" + " " * 1999 + "7.\n"


@pytest.mark.usefixtures("on_simulator")
def test_output_before_a_fault_is_printed():
    source = r'''
import numpy as np, coalesce
k = coalesce.Kernel("""#include <stdio.h>
extern "C" __global__ void k(int *x) { printf("before\\n"); x[1 << 20] = 1; }""", "k", device="sim")
try:
    k[1, 1](np.zeros(4, np.int32))
except coalesce.MemoryFault:
    print("fault")
'''
    done = subprocess.run(
        [sys.executable, "-c", source], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["before", "fault"]


def test_the_output_of_a_kernel_is_limited(printed) -> None:
    wide = 'extern "C" __global__ void k() { printf("%999999999d|%.*f|", 7, 900000000, 0.5); }'
    text = printed(wide)
    assert len(text) < 200_000
    assert text.count("[cut]") == 2
    assert text.startswith(" " * 65534 + "7[cut]|0.5000")

    long = """extern "C" __global__ void k() {
        for (int i = 0; i < 40; ++i) printf("%60000d\\n", i);
    }"""
    text = printed(long, grid=2, block=32)
    assert 16 << 20 <= len(text) < (16 << 20) + 200
    assert text.endswith("[coalesce: the kernel printed more than 16 MiB; the rest is left out]\n")


def test_the_widest_allowed_field_is_not_cut(printed) -> None:
    text = printed('extern "C" __global__ void k() { printf("%065535d", 7); }')
    assert text == "0" * 65534 + "7"
