"""Public performance questions: is the cause in the first lines of the report, and what to do?

Each kernel is the smallest form of the situation in a question that was asked in a forum.
"""

import re

import numpy as np
import pytest

import coalesce

pytestmark = pytest.mark.usefixtures("on_simulator")

N = 1 << 17
AT = "int i = blockIdx.x * blockDim.x + threadIdx.x; "

# Name: the parameters and the body of the kernel, the grid, the block, and what the first lines of
# the report have to say.
QUESTIONS = {
    "one row per thread": (
        "const float* x, float* y, int n",
        "float s = 0; for (int c = 0; c < 64; ++c) s += x[i * 64 + c]; y[i] = s;",
        (N // 64 // 256, 256),
        r"Faster  up to .*load of x in line 1 took 4 sectors per request, not 32\. Let",
    ),
    "every fourth element": (
        "float2* x, float* y, int n",
        "x[4 * i].x += 2;",
        (N // 256, 256),
        r"Faster .*accesses to x in line 1 took as little as needed\. Let neighbouring lanes",
    ),
    "columns of a tile": (
        "const float* x, float* y, int n",
        (
            "__shared__ float s[32][32]; s[threadIdx.x % 32][threadIdx.x / 32] = x[i]; "
            "__syncthreads(); y[i] = s[threadIdx.x % 32][threadIdx.x / 32];"
        ),
        (N // 1024, 1024),
        r"Faster .*accesses to s in line 1 .*Pad the rows of the array by one element",
    ),
    "one counter": (
        "const float* x, int* y, int n",
        "if (x[i] > 0) atomicAdd(y + int(x[i]) % 2, int(x[i]));",
        (N // 256, 256),
        r"bound by atomics in L2.*Faster  .*(Combining|Fewer atomics|combine)",
    ),
    "double constants": (
        "const float* x, float* y, int n",
        "float v = x[i]; for (int j = 0; j < 64; ++j) v = v * 1.0001 + 0.5; y[i] = v;",
        (N // 256, 256),
        r"bound by conversions.* in line 1.*constants such as 1\.0 without f",
    ),
    "odd lanes": (
        "const float* x, float* y, int n",
        (
            "float v = x[i]; if (i % 2) for (int j = 0; j < 99; ++j) v = v * v + .1f; "
            "else for (int j = 0; j < 99; ++j) v = v * .5f - v * v; y[i] = v;"
        ),
        (N // 256, 256),
        r"if all 32 lanes had work, not 1\d(\.\d)? on average: most idle lanes are in line 1",
    ),
    "one thread per block": (
        "const float* x, float* y, int n",
        "y[i] = x[i];",
        (20000, 1),
        r"if each warp had 32 threads, not 1: launch blocks of a multiple of 32 threads",
    ),
    "one block": (
        "const float* x, float* y, int n",
        "for (int j = i; j < 1 << 17; j += 1024) y[j] = x[j];",
        (1, 1024),
        r"if the same work were shared by 264 blocks, not 1",
    ),
    "table in constant memory": (
        "const float* x, float* y, int n",
        "float s = 0; for (int j = 0; j < 9; ++j) s += table[(7 * i + j) % 1024]; y[i] = s;",
        (N // 256, 256),
        r"bound by loads from constant memory.*Faster .*into global memory, or copy them to shared",
    ),
    "array of a thread": (
        "const float* x, float* y, int n",
        (
            "float v[32]; for (int j = 0; j < 32; ++j) v[j] = x[j] * i; float s = 0; "
            "for (int j = 0; j < 32; ++j) s += v[(int(x[j]) + i) % 32]; y[i] = s;"
        ),
        (N // 256, 256),
        r"if the local memory of line 1 were not used\. .*Arrays: use indices that the compiler",
    ),
    "bytes": (
        "const unsigned char* x, unsigned char* y, int n",
        "y[i] = 255 - x[i];",
        (16384, 64),
        r"if each lane accessed 16 bytes at once, not 1: use types such as",
    ),
    "conversions between other work": (
        "const float* x, float* y, int n",
        "float v = x[i]; for (int j = 0; j < 20; ++j) v += sinf(v * 1.01 + 0.01); y[i] = v;",
        (N // 256, 256),
        r"% of the instructions convert between float32 and float64, most of them in line 1\.",
    ),
    "no result": (
        "const float* x, float* y, int n",
        "float v = x[i]; if (v == -1) __trap();",
        (N // 256, 256),
        r"The kernel writes nothing to memory, so the compiler may have removed its work",
    ),
    "many barriers": (
        "const float* x, float* y, int n",
        (
            "__shared__ float s[1024]; s[threadIdx.x] = x[i]; for (int j = 0; j < 50; ++j) { "
            "__syncthreads(); float v = s[(threadIdx.x + 1) % 1024]; __syncthreads(); "
            "s[threadIdx.x] = v; } y[i] = s[threadIdx.x];"
        ),
        (132, 1024),
        r"Faster .*did not wait 100 times at a barrier",
    ),
    "small launch": (
        "const float* x, float* y, int n",
        "y[i] = x[i];",
        (4, 256),
        r"The launch itself takes [67]\d% of the time.*Faster  The launch takes most of the time",
    ),
    "longer and longer loops": (
        "const float* x, float* y, int n",
        "float s = 0; for (int j = 0; j <= i; ++j) s += x[j]; y[i] = s;",
        (16, 256),
        r"if all warps did equal work: the slowest does (1\.9|2\.0) times the average",
    ),
}


@pytest.mark.parametrize("name", QUESTIONS)
def test_the_first_lines_name_the_cause(name: str) -> None:
    parameters, body, launch, expected = QUESTIONS[name]
    source = f"__constant__ float table[1024]; __global__ void k({parameters}) {{ {AT}{body} }}"
    kinds = [
        np.uint8 if "char" in p else np.int32 if "int*" in p else np.float32
        for p in parameters.split(",")[:2]
    ]
    arrays = [(np.arange(1 << 20) % 97).astype(kind) for kind in kinds]
    report = coalesce.Kernel(source).profile(*launch, *arrays, 0).to_text(width=80)
    first = " ".join(line for line in report.splitlines()[3:16])
    assert re.search(expected, re.sub(r" +", " ", first).replace("Faster ", "Faster  ")), first
