"""Profiles: the counts by line and by access, and the assertions about them."""

import doctest
import json
import textwrap

import counter_cases
import numpy as np
import pytest

import coalesce
from coalesce.profiling.assertions import Assertions

N = 64

PATTERNS = r"""
struct Particle { float x, y, z, mass; };

extern "C" __global__ void patterns(const float* x, const Particle* p, const int* index,
                                    float* out, int n) {
    __shared__ float tile[32][32];
    __shared__ float padded[32][33];
    const int i = threadIdx.x;
    float sum = 0;
    sum += x[i];                 // contiguous
    sum += x[i + 1];             // misaligned
    sum += x[i * 8];             // stride
    sum += x[n];                 // broadcast
    sum += p[i].mass;            // field
    sum += x[index[i]];          // gather
    if (i < 8) sum += x[2 * n + i];  // partial
    tile[i][0] = sum;            // conflict
    padded[i][0] = sum;          // padded
    __syncthreads();
    out[i] = tile[i][1 & i] + padded[31 - i][0];  // result
}
"""


def line_of(source: str, comment: str) -> int:
    lines = source.splitlines()
    (index,) = [i for i, line in enumerate(lines) if line.endswith(f"// {comment}")]
    return index + 1


@pytest.fixture(scope="module")
def patterns():
    """Return the profile of one warp that accesses memory in all patterns of PATTERNS."""
    kernel = coalesce.Kernel(PATTERNS, "patterns", device="sim")
    x = np.arange(1024, dtype=np.float32)
    particles = np.zeros(32, np.dtype([(f, np.float32) for f in ("x", "y", "z", "mass")]))
    index = (np.arange(32, dtype=np.int32) * 40) % 1024
    out = np.zeros(32, np.float32)
    p = kernel.profile(1, 32, x, particles, index, out, 256)
    assert out.any()  # the kernel has written its result, as in a launch
    return p


def matmul(variant, n=N, **options):
    a, b = np.ones((2, n, n), np.float32)
    return coalesce.profile("matmul", a, b, variant=variant, **options)


@pytest.mark.parametrize("variant", ["naive", "tiled"])
def test_metrics_equal_the_hardware(variant):
    recording = counter_cases.load(counter_cases.path_of("shipped"))
    case = f"matmul/{variant} 128x128x128 float32"
    (recorded,) = (n["metrics"] for n in recording["launches"] if n["case"] == case)
    p = matmul(variant, n=128)
    of_global_memory = [name for name in p.exact if "_global" in name and name in recorded]
    assert len(of_global_memory) > 10
    for name in of_global_memory:
        assert p.metrics()[name] == pytest.approx(recorded[name], abs=0.0051)


def test_exact_and_inexact_are_all_metrics():
    p = matmul("naive")
    assert p.exact | set(p.inexact) == set(p.metrics())
    assert not p.exact & set(p.inexact)
    assert "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum" in p.exact
    assert p.inexact["gpu__time_duration.sum"] == "modelled"
    assert "memory_l2_theoretical_sectors_global" in p.exact
    assert p.metrics()["gpu__time_duration.sum"] == pytest.approx(1e6 * p.modelled_ms)
    assert isinstance(p.metrics()["l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum"], int)


@pytest.mark.parametrize(
    ("comment", "sectors", "bytes_used"),
    [
        ("contiguous", 4, 128),
        ("misaligned", 5, 128),
        ("stride", 32, 128),
        ("broadcast", 1, None),
        ("field", 16, 128),
        ("partial", 1, 32),
    ],
)
def test_lines_of_global_memory(patterns, comment, sectors, bytes_used):
    (line,) = [x for x in patterns.lines() if x.number == line_of(PATTERNS, comment)]
    assert line.source.endswith(f"// {comment}")
    (access,) = [a for a in line.accesses if a.kind == "load"]
    assert (access.space, access.requests, access.sectors) == ("global", 1, sectors)
    assert line.sectors_per_request == access.per_request == sectors
    assert access.bytes_moved == 32 * sectors
    if bytes_used is not None:
        assert access.bytes_used == bytes_used
        assert access.efficiency == bytes_used / access.bytes_moved
    assert access.excess == max(0, sectors - access.ideal)


@pytest.mark.parametrize(
    ("comment", "name", "words"),
    [
        ("contiguous", "load x", "Contiguous."),
        ("misaligned", "load x", "4 bytes after"),
        ("stride", "load x", "8 elements (32 bytes) apart"),
        ("broadcast", "load x", "a broadcast"),
        ("gather", "load x", "gather"),
        ("conflict", "store tile", "32-way bank conflict"),
        ("padded", "store padded", "No bank conflict"),
    ],
)
def test_accesses_have_descriptions(patterns, comment, name, words):
    at = line_of(PATTERNS, comment)
    (access,) = [a for a in patterns.accesses() if a.line == at and a.name == name]
    assert words in access.sentence
    picture = access.picture()
    assert picture.svg.startswith("<svg")
    assert access.source.strip() in picture.svg.replace("&lt;", "<")
    if access.space == "global":
        assert access.example.sectors == access.sectors


def test_a_row_of_a_matrix_is_named():
    (worst,) = [a for a in matmul("naive").accesses() if a.name == "load a"]
    assert "64 elements (256 bytes) apart, one row of a" in worst.sentence
    assert "threadIdx.x" in worst.sentence
    assert "32 cells of a" in worst.example.matrix().headline


PACKED = """
extern "C" __global__ void pack(const float *x, float *out, int *n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (x[i] > 0.5f) out[atomicAdd(n, 1)] = x[i];
}
extern "C" __global__ void pack_blocks(const float *x, float *out, int *n) {
    __shared__ int count, first;
    if (threadIdx.x == 0) count = 0;
    __syncthreads();
    int i = blockIdx.x * blockDim.x + threadIdx.x, rank = -1;
    if (x[i] > 0.5f) rank = atomicAdd(&count, 1);
    __syncthreads();
    if (threadIdx.x == 0) first = atomicAdd(n, count);
    __syncthreads();
    if (rank >= 0) out[first + rank] = x[i];
}
extern "C" __global__ void ranks(const float *x, float *out, int *n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (x[i] > 0.5f) out[i] = atomicAdd(n, 1);  // the results differ, not where they lie
}
"""


@pytest.mark.parametrize(
    ("entry", "blocks", "follow"),
    [("pack", 20, True), ("pack_blocks", 20, True), ("ranks", 20, False), ("pack", 1, False)],
)
def test_counts_that_depend_on_the_order_of_atomics_are_inexact(random, entry, blocks, follow):
    kernel = coalesce.Kernel(PACKED, entry, device="sim")
    x, out = random.random(32 * blocks).astype(np.float32), np.zeros(32 * blocks, np.float32)
    p = kernel.profile(blocks, 32, x, out, np.zeros(1, np.int32))
    sectors = "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum"
    assert (sectors not in p.exact) == follow
    assert "l1tex__t_requests_pipe_lsu_mem_global_op_st.sum" in p.exact
    assert ("depend on the results of atomics" in " ".join(p.to_text().split())) == follow


def test_an_array_of_structures_is_named():
    p = coalesce.profile("access", np.ones((256, 4), np.float32), pattern="aos")
    (load,) = [a for a in p.accesses() if a.kind == "load"]
    assert "Each lane accesses 4 of the 16 bytes of a structure of x." in load.sentence


def test_one_array_under_two_names():
    a = np.ones((N, N), np.float32)
    p = coalesce.profile("matmul", a, a, variant="transposed_b")
    loads = {x.name: x for x in p.accesses() if x.kind == "load"}
    assert set(loads) == {"load a", "load b"}
    assert "one row of b" in loads["load b"].sentence


def test_an_example_is_typical(random):
    x, index = np.ones(4096, np.float32), random.integers(0, 4096, 4096)
    p = coalesce.profile("access", x, pattern="gather", index=index)
    (gather,) = [a for a in p.accesses() if a.name == "load x"]
    assert abs(gather.example.sectors - gather.per_request) < 2


def test_a_gather_has_two_accesses(patterns):
    (line,) = [x for x in patterns.lines() if x.number == line_of(PATTERNS, "gather")]
    assert sorted(a.sectors for a in line.accesses) == [4, 32]
    assert line.requests == 2
    assert line.sectors == 36


def test_bank_conflicts(patterns):
    by_number = {line.number: line for line in patterns.lines()}
    conflict = by_number[line_of(PATTERNS, "conflict")]
    assert (conflict.shared_requests, conflict.wavefronts, conflict.conflict) == (1, 32, 32)
    padded = by_number[line_of(PATTERNS, "padded")]
    assert (padded.wavefronts, padded.conflict, padded.bank_conflicts) == (1, 1, 0)
    assert patterns.bank_conflicts == sum(line.bank_conflicts for line in patterns.lines())
    assert patterns.bank_conflicts >= 31


@pytest.mark.parametrize(
    ("operation", "variant"),
    [("matmul", "naive"), ("matmul", "tiled_transposed"), ("transpose", "tiled")],
)
def test_lines_add_up_to_the_metrics(operation, variant):
    a = np.ones((N, N), np.float32)
    p = coalesce.profile(operation, *[a] * (1 + (operation == "matmul")), variant=variant)
    lines, metrics = p.lines(), p.metrics()
    of_global = [
        metrics[f"l1tex__t_{what}_pipe_lsu_mem_global_op_{op}.sum"]
        for what in ("requests", "sectors")
        for op in ("ld", "st")
    ]
    assert sum(line.requests for line in lines) == of_global[0] + of_global[1]
    assert sum(line.sectors for line in lines) == of_global[2] + of_global[3]
    assert sum(line.wavefronts for line in lines) == metrics["memory_l1_wavefronts_shared"]
    assert sum(line.share for line in lines) == pytest.approx(1)
    assert sum(i.executed for i in p.instructions()) == sum(line.executed for line in lines)
    assert [t.kind for t in p.totals() if t.space == "global"] == ["load", "store"]


def test_the_verdict_names_the_wasteful_line():
    p = matmul("naive")
    worst = max(p.lines(), key=lambda line: line.sectors)
    assert "sum += a[" in worst.source
    assert [a.per_request for a in worst.accesses] == [32, 1]  # a, then b: one address per warp
    assert worst.share > 0.9
    assert p.sectors_per_request == {"load": 16.5, "store": 32}
    assert p.verdict[0].startswith("Global memory takes")
    assert f"line {worst.number}" in p.verdict[0]


def test_a_good_kernel_has_no_wasteful_line():
    p = matmul("tiled")
    assert p.bank_conflicts == 0
    assert p.verdict == [
        "Global memory: 4 sectors per request, as few as possible.",
        "Shared memory: no bank conflicts.",
    ]


@pytest.mark.parametrize(
    ("item", "mask", "groups"),
    [("float2", "0x00FF00FF", "halves"), ("float4", "0x0F0F0F0F", "quarters")],
)
def test_verdict_sentence_and_picture_agree_if_few_lanes_are_active(item, mask, groups):
    """The lanes are in several groups, which are served one after the other, without a conflict."""
    source = f"""__global__ void k({item}* out) {{
    __shared__ {item} s[32];
    s[threadIdx.x] = {{}};
    __syncthreads();
    if ({mask}u >> threadIdx.x & 1) out[threadIdx.x] = s[threadIdx.x];
}}"""
    p = coalesce.Kernel(source, device="sim").profile(1, 32, np.zeros(128, np.float32))
    (load,) = [a for a in p.accesses() if a.space == "shared" and a.kind == "load"]
    assert load.wavefronts == 2 * load.ideal
    assert f"No bank conflict, but few lanes are active: the {groups}" in load.sentence
    assert "no bank conflict" in load.picture().headline
    assert any(s.startswith("Shared memory has no bank conflicts, but") for s in p.verdict)


def test_kernels_that_prepare_are_listed():
    p = matmul("corner_turned")
    assert p.title == "matmul, variant corner_turned"
    assert [other.title for other in p.preparation] == ["transpose, variant padded"]
    assert "transpose, variant padded" in p.to_text()
    assert not matmul("tiled").preparation


def test_options_reach_the_operation():
    assert matmul("tiled", tile=16).block == (16, 16, 1)
    x = np.ones(256, np.float32)
    p = coalesce.profile("access", x, pattern="stride", stride=8)
    assert p.sectors_per_request["load"] == 32
    p = coalesce.profile("row_sums", np.ones((8, 64)), variant="block_per_row", shared="dynamic")
    assert p.shared_bytes > 0


def test_accesses_of_headers_belong_to_the_calling_line():
    header = "__device__ inline float twice(const float* x, int i) {\n    return 2 * x[i * 2];\n}\n"
    source = '#include "twice.h"\nextern "C" __global__ void k(const float* x, float* y) {\n'
    source += "    y[threadIdx.x] = twice(x, threadIdx.x);\n}\n"
    kernel = coalesce.Kernel(source, "k", headers={"twice.h": header}, device="sim")
    p = kernel.profile(1, 32, np.ones(64, np.float32), np.zeros(32, np.float32))
    loads = [a for a in p.accesses() if a.kind == "load"]
    assert [a.line for a in loads] == [3]  # the line that the kernel's author wrote


def test_ptx_without_lines(on_simulator):
    del on_simulator
    kernel = coalesce.Kernel(
        textwrap.dedent("""\
        .version 7.0
        .target sm_70
        .address_size 64
        .visible .entry k(.param .u64 out)
        {
            .reg .u64 %a, %t;
            .reg .u32 %i;
            ld.param.u64 %a, [out];
            mov.u32 %i, %tid.x;
            mul.wide.u32 %t, %i, 64;
            add.u64 %a, %a, %t;
            st.global.u32 [%a], %i;
            ret;
        }
        """),
        device="sim",
    )
    p = kernel.profile(1, 32, np.zeros(32 * 16, np.uint32))
    (access,) = p.accesses()
    assert (access.sectors, access.line) == (32, 12)
    assert access.source.strip() == "st.global.u32 [%a], %i;"


def test_to_dict_is_json():
    p = matmul("corner_turned")
    data = json.loads(json.dumps(p.to_dict()))
    assert data["title"] == p.title
    assert data["metrics"] == p.metrics()
    assert set(data["inexact"]) == set(p.inexact)
    assert data["grid"] == [2, 2, 1]
    assert len(data["lines"]) == len(p.lines())
    conflict = max(a["conflict"] for line in data["lines"] for a in line["accesses"])
    assert conflict == 8  # a column of 16-byte loads: 32 wavefronts instead of 4
    assert data["preparation"][0]["title"] == "transpose, variant padded"
    assert {a["name"] for a in data["arrays"]} >= {"a", "b", "out"}


@pytest.mark.parametrize("by", ["access", "line", "instruction"])
def test_to_dataframe(by):
    pytest.importorskip("pandas")
    p = matmul("naive")
    frame = p.to_dataframe(by)
    sectors = p.metrics()["l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum"]
    assert len(frame) == len({"access": p.accesses, "line": p.lines}.get(by, p.instructions)())
    if by != "line":
        assert frame[frame["kind"] == "load"]["sectors"].sum() == sectors
    with pytest.raises(ValueError, match="`by` must be"):
        p.to_dataframe("warp")


def test_progress_is_reported():
    seen = []
    matmul("naive", progress=lambda done, total: seen.append((done, total)))
    assert seen[-1] == (4, 4)
    with pytest.raises(TypeError, match="`progress` must be"):
        matmul("naive", progress=3)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda a: coalesce.profile("matmull", a, a), ValueError, "did you mean 'matmul'"),
        (lambda a: coalesce.profile("matmul", a, a, variant="tield"), ValueError, "tiled"),
        (lambda a: coalesce.profile("matmul", a[:0], a), ValueError, "launches no kernel"),
        (lambda a: coalesce.profile("transpose", a, return_timing=True), TypeError, "the times"),
    ],
)
def test_mistakes(call, error, message):
    with pytest.raises(error, match=message):
        call(np.ones((8, 8), np.float32))


def test_examples_of_the_docstrings():
    a = np.ones((8, 8), np.float32)
    p = coalesce.profile("matmul", a, a, variant="naive")
    names = {"coalesce": coalesce, "np": np, "a": a, "b": a, "p": p}
    x = np.arange(5, dtype=np.float32)
    names["x"] = x
    source = 'extern "C" __global__ void k(float* x, float f, int n) {'
    source += " if (threadIdx.x < n) x[threadIdx.x] *= f; }"
    names["kernel"] = coalesce.Kernel(source, device="sim")
    examples = [
        example
        for thing in (coalesce.Profile, Assertions, coalesce.profile, coalesce.Kernel.profile)
        for example in doctest.DocTestFinder().find(thing, "example", globs=names)
    ]
    assert sum(len(example.examples) for example in examples) >= 8
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    for example in examples:
        runner.run(example)
    assert runner.failures == 0


@pytest.mark.usefixtures("machine_code")
@pytest.mark.parametrize(
    ("statement", "recorded"),
    [
        ("*y = *x;", True),
        ("__threadfence(); *y = *x;", True),
        ("__threadfence_system(); *y = *x;", False),
        ('asm volatile("st.release.sys.global.b32 [%0], %1;" ::"l"(y), "r"(*x));', False),
        ('asm volatile("ld.mmio.relaxed.sys.global.b32 %0, [%1];" : "=r"(*y) : "l"(x));', False),
    ],
)
def test_counts_that_the_driver_adds_to_are_not_called_exact(statement, recorded):
    """On an H100, fences for the whole system are counted as further instructions and accesses."""
    source = f"""extern "C" __global__ void k(const int* x, int* y) {{
        x += threadIdx.x; y += threadIdx.x; {statement}
    }}"""
    kernel = coalesce.Kernel(source, "k", device="sim")
    p = kernel.profile(1, 32, np.ones(32, np.int32), np.zeros(32, np.int32), caches=False)
    of_global_memory = {n for n, v in p.metrics().items() if "_global_op" in n and v}
    assert (of_global_memory <= p.exact) == recorded
    assert bool(of_global_memory & p.exact) == recorded
    assert ("smsp__inst_executed.sum" in p.exact) == recorded
