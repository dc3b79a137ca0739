"""The number in the picture of an access is the number that is counted for the access.

Each kernel has one block of one warp and no loop over an access. So the examples of an instruction
are all of its executions, and their costs add up to its count.
"""

import re
from collections.abc import Iterator

import many_kernels
import numpy as np
import pytest

import coalesce
from coalesce import draw
from coalesce.profiling import Example, Instruction, Profile

HEADLINE = re.compile(r"→ ([\d,]+) (sector|wavefront)s?\b")

PRELUDE = """
__device__ unsigned at(void *p) { return (unsigned)__cvta_generic_to_shared(p); }
__device__ void copy16(void *to, const void *from) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" :: "r"(at(to)), "l"(from));
}
__device__ void wait() { asm volatile("cp.async.wait_all;" ::: "memory"); }
"""

# The statements of a kernel with the parameters `float *x`, `float *out` and `int *index`.
KERNELS = {
    "stride": "out[t] = x[8 * t];",
    "runs": "out[t] = x[t % 4 + 32 * (t / 4)];",
    "vectors": "((float4 *)out)[t] = ((float4 *)x)[index[t]];",
    "pairs": "((float2 *)out)[t] = ((float2 *)x)[t / 2];",
    "some lanes": "if (t % 3) out[t] = x[16 * t];",
    "atomics of one word": "atomicAdd(out, x[t]);",
    "atomics of few words": "atomicAdd(out + index[t] % 5, x[t]);",
    "atomics of many words": "x[t] = atomicExch(out + 8 * t, x[t]);",
    "integer atomics": "out[t] = atomicAdd(index + t / 4, 3);",
    "shared memory": """
        __shared__ float tile[32][32];
        for (int i = 0; i < 32; ++i) tile[t][i] = x[t + i];
        __syncwarp();
        out[t] = tile[t][index[t] % 32] + tile[index[t] % 32][t] + tile[3][3];""",
    "vectors in shared memory": """
        __shared__ float4 tile[64];
        tile[2 * t] = ((float4 *)x)[t];
        tile[2 * t + 1] = ((float4 *)x)[t];
        __syncwarp();
        float4 a = tile[t / 2], b = tile[index[t] % 64], c = tile[t % 2 + t / 4 * 2];
        out[t] = a.x + a.y + a.z + a.w + b.x + b.y + b.z + b.w + c.x + c.y + c.z + c.w;""",
    "atomics in shared memory": """
        __shared__ int sums[64];
        sums[t] = sums[t + 32] = 0;
        __syncwarp();
        atomicAdd(sums + index[t] % 7, index[t]);
        atomicMax(sums + 32, index[t]);
        atomicCAS(sums + 2 * (t % 16), 0, index[t]);
        __syncwarp();
        out[t] = sums[t];""",
    "copies": """
        __shared__ float4 tile[64];
        copy16(tile + t, (float4 *)x + t);
        copy16(tile + 32 + t, (float4 *)x + index[t] % 32);
        wait();
        out[t] = tile[t].x + tile[63 - t].y;""",
    "scattered copies": """
        __shared__ float4 tile[64];
        copy16(tile + 2 * (t % 32), (float4 *)x + t * 3 % 32);
        wait();
        out[t] = tile[2 * t].x;""",
    "copies through L1": """
        __shared__ float tile[32 * 9];
        asm volatile("cp.async.ca.shared.global [%0], [%1], 4;"
                     :: "r"(at(tile + 9 * t)), "l"(x + 2 * t));
        asm volatile("cp.async.ca.shared.global [%0], [%1], 8;"
                     :: "r"(at(tile + 2 * t)), "l"(x + 4 * t));
        wait();
        out[t] = tile[9 * t] + tile[t];""",
}
# The rows of matrices: `first` is the row that a lane supplies, `pitch` the floats of a row.
for count, registers in ((1, "%0"), (2, "%0, %1"), (4, "%0, %1, %2, %3")):
    for name, row in {"apart": "t", "in pairs": "t / 2", "one": "0", "swizzled": "t ^ 4"}.items():
        KERNELS[f"ldmatrix x{count}, rows {name}"] = f"""
            __shared__ __align__(16) float tile[32 * 32];
            for (int i = t; i < 1024; i += 32) tile[i] = x[i];
            __syncwarp();
            int r[4] = {{0, 0, 0, 0}};
            asm volatile("ldmatrix.sync.aligned.m8n8.x{count}.shared.b16 {{{registers}}}, [%4];"
                : "+r"(r[0]), "+r"(r[1]), "+r"(r[2]), "+r"(r[3]) : "r"(at(tile + 32 * ({row}))));
            out[t] = r[0] + r[1] + r[2] + r[3];"""
KERNELS["stmatrix"] = """
    __shared__ __align__(16) float tile[32 * 36];
    asm volatile("stmatrix.sync.aligned.m8n8.x2.shared.b16 [%0], {%1, %2};"
        :: "r"(at(tile + 36 * t)), "r"(index[t]), "r"(t));
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %1, %2};"
        :: "r"(at(tile + 32 * t)), "r"(index[t]), "r"(t));
    __syncwarp();
    out[t] = tile[t];"""


def source_of(name: str) -> str:
    return f"""
    extern "C" __global__ void kernel(float *x, float *out, int *index) {{
        int t = threadIdx.x;
        {KERNELS[name]}
    }}"""


TOGETHER = many_kernels.together(map(source_of, KERNELS), "kernel")


def profile_of(name: str) -> Profile:
    source, entry = TOGETHER[source_of(name)]
    kernel = coalesce.Kernel(PRELUDE + source, entry, device="sim")
    index = np.random.default_rng(5).integers(0, 1024, 1024).astype(np.int32)
    x, out = np.ones(4096, np.float32), np.zeros(4096, np.float32)
    return kernel.profile(1, 32, x, out, index % 256, caches=False)


def executed(profile: Profile) -> Iterator[Instruction]:
    """Yield the instructions that access memory that can be drawn."""
    for line in profile.lines():
        for access in line.accesses:
            if access.space != "local":
                yield from access.instructions


def check_picture(example: Example) -> None:
    picture = example.picture()
    if example.not_drawn:
        assert picture is None
        return
    assert picture is not None
    match = HEADLINE.search(picture.headline)
    assert match is not None
    unit = "wavefront" if example.space == "shared" else "sector"
    assert (int(match[1].replace(",", "")), match[2]) == (example.cost, unit)


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.usefixtures("machine_code", "on_simulator")
def test_pictures_add_up_to_the_count(name: str) -> None:
    seen = 0
    for instruction in executed(profile_of(name)):
        assert len(instruction.examples) == instruction.requests
        counted = instruction.wavefronts if instruction.space == "shared" else instruction.sectors
        assert sum(example.cost for example in instruction.examples) == counted, instruction.opcode
        for example in instruction.examples:
            check_picture(example)
        seen += 1
    assert seen


@pytest.mark.usefixtures("machine_code", "on_simulator")
def test_a_copy_that_cannot_be_drawn_says_why() -> None:
    (copy,) = [a for a in profile_of("scattered copies").accesses() if a.kind == "async_copy"]
    assert copy.example is not None
    assert copy.picture() is None
    assert copy.example.not_drawn.startswith("There is no picture: the copy bypasses L1")
    assert f"{copy.example.cost} are counted" in copy.example.not_drawn


@pytest.mark.parametrize(
    "variant", ["naive", "corner_turned", "vectorized", "pipelined", "split_k", "tf32", "dmma"]
)
@pytest.mark.usefixtures("machine_code", "on_simulator")
def test_pictures_of_variants_have_the_costs_of_their_examples(variant: str) -> None:
    a = np.ones((64, 64), coalesce.variants("matmul")[variant].dtype or np.float32)
    profile = coalesce.profile("matmul", a, a, variant=variant, caches=False)
    for instruction in executed(profile):
        for example in instruction.examples[:2]:
            check_picture(example)


COPY = """
    __device__ unsigned at(void *p) { return (unsigned)__cvta_generic_to_shared(p); }
    extern "C" __global__ void copies(const float4 *x, float4 *out) {
        __shared__ float4 tile[64];
        int t = threadIdx.x;
        asm volatile("cp.async.CACHE.shared.global [%0], [%1], 16;"
                     :: "r"(at(tile + TO)), "l"(x + FROM));
        asm volatile("cp.async.wait_all;" ::: "memory");
        out[t] = tile[t];
    }"""


@pytest.mark.parametrize(
    ("cache", "to", "source", "headlines"),
    [
        ("ca", "t", "t", ("16 sectors in 4 lines, 100 %", "4 wavefronts, no bank conflict")),
        ("cg", "t", "t", ("16 sectors in 4 lines, 100 %", "4 wavefronts, no bank conflict")),
        ("ca", "2 * t", "t", ("16 sectors in 4 lines, 100 %", "8 wavefronts, a 2-way")),
        # The source has the bank conflicts.
        ("ca", "t", "8 * t", ("32 sectors", "Shared memory alone would take 4 wavefronts; 32")),
        # The sectors depend on the destination.
        ("cg", "2 * t", "t", ("touch 16 sectors; 32 are counted", "8 wavefronts, a 2-way")),
        (
            "cg",
            "t % 16",
            "t",
            ("touch 16 sectors; 8 are counted", "4 wavefronts, no bank conflict"),
        ),
    ],
)
@pytest.mark.usefixtures("on_simulator")
def test_events_of_copies(cache: str, to: str, source: str, headlines: tuple[str, str]) -> None:
    text = COPY.replace("CACHE", cache).replace("TO", to).replace("FROM", source)
    x, out = np.ones((256, 4), np.float32), np.ones((32, 4), np.float32)
    trace = coalesce.Kernel(text, device="sim").trace(1, 32, x, out).select(kind="async_copy")
    for number, expected in enumerate(headlines):
        try:
            said = draw.event(trace, number).headline
        except ValueError as error:
            said = str(error)
            assert "cannot be drawn" in said
        assert expected in said


@pytest.mark.usefixtures("on_simulator")
def test_one_event_of_a_copy_is_not_enough() -> None:
    for cache, space in (("cg", "global"), ("ca", "shared")):
        text = COPY.replace("CACHE", cache).replace("TO", "t").replace("FROM", "t")
        x, out = np.ones((256, 4), np.float32), np.ones((32, 4), np.float32)
        trace = coalesce.Kernel(text, device="sim").trace(1, 32, x, out).select(kind="async_copy")
        with pytest.raises(ValueError, match="These addresses were not recorded"):
            draw.event(trace.select(space=space))
