"""The error codes of the runtime and driver API: misuses that give them, and what limits GPUs have.

`tests/kernels/error_codes.cu` has the misuses. It makes them in a random order. Needs nvcc and g++.
"""

import datetime
import re
from pathlib import Path

import pytest
from whole_programs import NEEDS_COMPILERS, Program, coalesce

pytestmark = NEEDS_COMPILERS

ROOT = Path(__file__).parents[3]
PROGRAM = ROOT / "tests/kernels/error_codes.cu"
SECONDS = 15  # tests/nightly.sh runs it longer
SEED = datetime.datetime.now(datetime.timezone.utc).date().toordinal()  # another order every day

# The codes that no call on one healthy simulated GPU returns, and why.
LEFT_OUT = {
    "a feature that CUDA has removed or does not report in this way any more": [
        5, 6, 7, 8, 10, 16, 17, 18, 19, 22, 23, 24, 25, 28, 31, 32, 37, 43, 44, 45, 49, 52, 53,
        66, 67, 702, 703, 714, 717, 999, 10000,
    ],
    "CUDA 13 returns 1 and 400 instead": [9, 98],
    "the installation of the driver": [
        34, 35, 36, 46, 102, 103, 127, 221, 223, 227, 302, 303, 802, 803, 804,
    ],
    "several GPUs, or none": [100, 704, 711, 919, 47],
    "a GPU that is broken, protected or used by others": [214, 216, 220, 226, 708, 916],
    "graphics": [205, 206, 207, 208, 210, 211, 212, 213, 219, 911],
    "the service for several processes (MPS)": [805, 806, 807, 808, 809, 810],
    "launches by kernels, which are not simulated": [65, 68, 69, 225, 811, 812],
    "green contexts and resources, which are not simulated": [914, 915, 917],
    "waits that take too long: the simulator works at once": [909],
    "functions that are not simulated": [402, 721, 913, 918],
    "code for another GPU, or damaged code; see test_programs_driver.py": [209, 300],
    "features that are not simulated; the message says which": [801],
    "the end of the process; the last line of the program": [4],
    "before the first call; the first line of the program": [3],
    "a context that is current already, which is allowed now": [202],
}  # fmt: skip


def codes_in(name: str) -> set[int]:
    text = (ROOT / "csrc/cudart" / name).read_text()
    return {int(number) for number in re.findall(r"^[ED]\(\w+, (\d+)", text, re.MULTILINE)}


@pytest.mark.parametrize("gpu", ["h200", "t4"])
def test_misuses_give_the_documented_codes_in_every_order(gpu: str) -> None:
    done = coalesce(
        "run", "--device", f"sim:{gpu}", "--option=-lcuda", PROGRAM, "--", SECONDS, SEED
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (line,) = re.findall("^codes:(.*)", done.stdout, re.MULTILINE)
    made = set(map(int, line.split()))
    assert "at the end: cudaErrorCudartUnloading, 4" in done.stdout
    left_out = [code for codes in LEFT_OUT.values() for code in codes]
    assert len(set(left_out)) == len(left_out)
    assert not made & set(left_out)
    assert made | set(left_out) == codes_in("runtime/errors.inc") | codes_in("driver/errors.inc")


HEAD = r"""
#include <cassert>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <thread>
#include <unistd.h>
#include <sys/wait.h>
#define NAME(call) printf("%s\n", cudaGetErrorName(call)), fflush(stdout)
#define OK(call) do { cudaError_t e_ = call; if (e_ != cudaSuccess) \
    { printf("%s: %s\n", #call, cudaGetErrorName(e_)); exit(9); } } while (0)
__global__ void set(int *p, long i) { p[i] = 1; }
template <class T> __global__ void twice(const T *x, int *y) {
    y[threadIdx.x] = int(2 * x[threadIdx.x]);
}
"""

WORDS = """
__global__ void doubles(float *x) { x[threadIdx.x] *= 2; }
__global__ void plain(float *out, int n) {
    out[threadIdx.x + (1 << 28)] = 1.0f;  // n is not a multiple of 32
}
__global__ void assert_order(const int *a) { if (a[threadIdx.x] == 0) __trap(); }
__global__ void asserts(int *o, int n) { assert(threadIdx.x < n); o[threadIdx.x] = 1; }
__global__ void unaligned(char *p) { *(int *)(p + 2) = 1; }
__global__ void near(const int *p, int *o) { *o = p[64]; }
__global__ void calls(unsigned long long at) { ((void (*)())at)(); }
__global__ void vote(int *o, int mask) {
    if (threadIdx.x < 16) *o = __ballot_sync(mask, 1);
    o[1] = 5;
}
"""


@pytest.mark.parametrize("words", [(), ("--check",)])
@pytest.mark.program(
    """
    char *d;
    OK(cudaMalloc(&d, 256)); OK(cudaMemset(d, 0, 256));
    near<<<1, 1>>>((int *)d, (int *)d + 1); NAME(cudaDeviceSynchronize());
    for (int k = 0; k < 8; ++k) {
        OK(cudaMalloc(&d, 256)); OK(cudaMemset(d, 0, 256));
        if (k == 0) plain<<<1, 32>>>((float *)d, 32);
        if (k == 1) assert_order<<<1, 32>>>((int *)d);
        if (k == 2) asserts<<<1, 64>>>((int *)d, 40);
        if (k == 3) unaligned<<<1, 1>>>(d);
        if (k == 4) calls<<<1, 1>>>(3);
        if (k == 5) calls<<<1, 1>>>(1ull << 44);
        if (k == 6) calls<<<1, 1>>>(~0ull << 4);
        if (k == 7) vote<<<1, 32>>>((int *)d, 255);
        NAME(cudaDeviceSynchronize()); OK(cudaDeviceReset());
    }
    """,
    WORDS,
)
def test_the_code_of_a_fault_does_not_depend_on_texts_or_checks(
    program: Program, words: tuple[str, ...]
) -> None:
    # These are the codes of an H200. Reads near an array return other memory there.
    assert program.run(*words).stdout.split() == [
        "cudaSuccess",
        "cudaErrorIllegalAddress",
        "cudaErrorLaunchFailure",
        "cudaErrorAssert",
        "cudaErrorMisalignedAddress",
        "cudaErrorInvalidPc",
        "cudaErrorIllegalAddress",
        "cudaErrorIllegalInstruction",
        "cudaErrorIllegalInstruction",
    ]


DEPTH = """
__device__ int depth(int n, volatile int *sink) {
    volatile int pad[16];
    pad[n % 16] = n;
    if (n == 0) return *sink;
    int r = depth(n - 1, sink);
    return r + pad[n % 16] - n + 1;
}
__global__ void deep(int n, int *o) { o[threadIdx.x] = depth(n, o + 64); }
"""


@pytest.mark.program(
    """
    const struct { int depth; size_t limit; } cases[] = {
        {5, 0}, {10, 0}, {100, 0}, {100, 65536}, {2000, 262144}, {2000, 131072}, {2, 524288}};
    for (auto c : cases) {
        for (int launch = 0; launch < 3; ++launch) {  // the third launch is not counted
            int *o; OK(cudaMalloc(&o, 4 * 65)); OK(cudaMemset(o, 0, 4 * 65));
            cudaError_t limit = c.limit ? cudaDeviceSetLimit(cudaLimitStackSize, c.limit)
                                        : cudaSuccess;
            for (int i = 0; i < launch; ++i) deep<<<1, 32>>>(1, o);
            deep<<<1, 32>>>(c.depth, o);
            cudaError_t e = cudaDeviceSynchronize();
            printf("%d%s%s", c.depth, limit ? " refused " : " ", cudaGetErrorName(e));
            printf(launch == 2 ? "\\n" : ", ");
            OK(cudaDeviceReset());
        }
    }
    """,
    DEPTH,
)
def test_the_stack_has_the_bytes_of_its_limit(program: Program) -> None:
    done = program.run()
    expected = []  # of an H200
    for depth, name in [
        (5, "cudaSuccess"),
        (10, "cudaErrorIllegalAddress"),
        (100, "cudaErrorIllegalAddress"),
        (100, "cudaSuccess"),
        (2000, "cudaSuccess"),
        (2000, "cudaErrorIllegalAddress"),
        (2, "cudaSuccess"),
    ]:
        refused = " refused" if depth == 2 else ""
        expected.append(", ".join([f"{depth}{refused} {name}"] * 3))
    assert done.stdout.splitlines() == expected, done.stderr
    assert "cudaDeviceSetLimit(cudaLimitStackSize" in done.stderr


# What the compiler makes of this kernel needs more than 64 registers for each thread.
HEAVY = """
__global__ void heavy(const double *x, double *y) {
    int t = threadIdx.x;
    double a[48], s = 0;
    #pragma unroll
    for (int i = 0; i < 48; ++i) a[i] = x[i * 1024 + t];
    #pragma unroll 1
    for (int k = 0; k < 3; ++k) {
        #pragma unroll
        for (int i = 0; i < 48; ++i) a[i] = a[i] * a[(i * 7 + 3) % 48] + a[(i + 11) % 48];
    }
    #pragma unroll
    for (int i = 0; i < 48; ++i) s += a[i];
    y[t] = s;
}
"""


@pytest.mark.program(
    """
    cudaFuncAttributes a; OK(cudaFuncGetAttributes(&a, heavy));
    int most = a.maxThreadsPerBlock;
    double *x; OK(cudaMalloc(&x, 49 * 8 * 1024)); OK(cudaMemset(x, 0, 49 * 8 * 1024));
    for (int threads : {most, most + 32, 1024}) {
        int blocks;
        OK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, heavy, threads, 0));
        heavy<<<1, threads>>>(x, x + 48 * 1024);
        printf("%d %d ", most, blocks > 0); NAME(cudaGetLastError());
    }
    NAME(cudaDeviceSynchronize());
    """,
    HEAVY,
)
def test_a_block_needs_registers(program: Program) -> None:
    done = program.run()
    refused = "0 cudaErrorLaunchOutOfResources"
    most = re.match(r"\d+", done.stdout)
    assert most
    assert 512 <= int(most[0]) <= 608
    assert done.stdout.splitlines() == [
        f"{most[0]} 1 cudaSuccess",
        f"{most[0]} {refused}",
        f"{most[0]} {refused}",
        "cudaSuccess",
    ]
    assert "registers per thread" in done.stderr


@pytest.mark.program(
    r"""
    early.prints = true;
    atexit([] { printf("exit "); NAME(cudaDeviceSynchronize()); });
    OK(cudaMalloc(&own.p, 64));
    std::thread([] { OK(cudaMalloc(&own.p, 64)); set<<<1, 1>>>(own.p, 0l); }).join();
    static Late late;
    static auto shared = std::shared_ptr<int>(
        [] { int *p; OK(cudaMalloc(&p, 64)); return p; }(),
        [](int *p) { printf("deleter "); NAME(cudaFree(p)); });
    """,
    """
    struct Late { ~Late() { int *q; printf("late "); NAME(cudaMalloc(&q, 16)); } };
    static struct Static {
        bool prints = false;
        ~Static() {
            if (!prints) return;
            int h = 7, *q = nullptr; printf("static "); NAME(cudaFree(q));
            set<<<1, 1>>>(q, 0l); NAME(cudaGetLastError());
            NAME(cudaMemcpy(&h, q, 4, cudaMemcpyDeviceToHost)); }
    } early;
    struct Own { int *p = nullptr; ~Own() { if (p) { printf("thread "); NAME(cudaFree(p)); } } };
    static thread_local Own own;
    """,
)
def test_calls_at_the_end_of_the_process(program: Program) -> None:
    done = program.run()
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "thread cudaSuccess",
        "thread cudaSuccess",
        "deleter cudaSuccess",
        "late cudaSuccess",
        "exit cudaErrorCudartUnloading",
        "static cudaErrorCudartUnloading",
        "cudaErrorCudartUnloading",
        "cudaErrorCudartUnloading",
    ]


@pytest.mark.program(
    r"""
    int *d; OK(cudaMalloc(&d, 64));
    set<<<1, 1>>>(d, 0); OK(cudaDeviceSynchronize());
    if (daemon(1, 1)) return 1;
    NAME(cudaDeviceSynchronize());
    """
)
def test_a_daemon_cannot_use_the_gpu_of_its_parent(program: Program) -> None:
    done = program.run()
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr


HOST_MISTAKES = {
    "a copy of memory to which nothing was written": (
        "OK(cudaMemcpy(l, d, 256, cudaMemcpyDeviceToHost));",
        "uninitialized copy",
        "256 bytes of cudaMalloc() number",
    ),
    "a part of it": (
        "OK(cudaMemset(d, 0, 240)); OK(cudaMemcpy(l, d, 256, cudaMemcpyDeviceToHost));",
        "uninitialized copy",
        "16 of the copied bytes",
    ),
    "within the device": (
        "OK(cudaMemcpy(e, d, 256, cudaMemcpyDeviceToDevice));",
        "uninitialized copy",
        "256 bytes of cudaMalloc() number",
    ),
    "rows": (
        "OK(cudaMemset(d, 0, 8)); OK(cudaMemcpy2D(l, 8, d, 64, 8, 4, cudaMemcpyDeviceToHost));",
        "uninitialized copy",
        "24 of the copied bytes",
    ),
    "the source of a copy changes": (
        "OK(cudaMemcpyAsync(d, h, 256, cudaMemcpyHostToDevice, s)); ((volatile int *)h)[0] = 9;",
        "missing wait",
        "writes to",
    ),
    "a host function of another stream changes the source": (
        (
            "cudaStream_t t; OK(cudaStreamCreateWithFlags(&t, cudaStreamNonBlocking));"
            "OK(cudaMemcpyAsync(d, h, 256, cudaMemcpyHostToDevice, s));"
            "OK(cudaLaunchHostFunc(t, [](void *p) { ((volatile int *)p)[0] = 9; }, h));"
            "OK(cudaStreamDestroy(t));"
        ),
        "missing wait",
        "writes to byte 0",
    ),
    "the destination of a copy is read": (
        (
            "OK(cudaMemset(d, 0, 256)); OK(cudaMemcpyAsync(h, d, 256, cudaMemcpyDeviceToHost, s));"
            "if (((volatile int *)h)[0]) return 5;"
        ),
        "missing wait",
        "reads byte 0",
    ),
    "bytes set for elements": (
        "OK(cudaMemset(d, 1, 256)); twice<<<1, 32>>>((float *)d, e);",
        "wrong fill",
        "each float32 of `x` became 0x01010101, not 1",
    ),
    "bytes set for elements that are updated": (
        "OK(cudaMemset(d, 1, 256)); doubles<<<1, 32>>>((float *)d);",
        "wrong fill",
        "each float32 of `x` became 0x01010101, not 1",
    ),
}
NO_HOST_MISTAKES = [
    "OK(cudaMemset(d, 0, 256)); OK(cudaMemcpy(l, d, 256, cudaMemcpyDeviceToHost));",
    "OK(cudaMemset(d, 0, 245)); OK(cudaMemcpy(l, d, 256, cudaMemcpyDeviceToHost));",  # padding
    (
        "OK(cudaMemset(d, 0, 64)); OK(cudaMemcpy(e, d, 256, cudaMemcpyDeviceToDevice));"
        "OK(cudaMemcpy(l, e, 64, cudaMemcpyDeviceToHost));"
    ),
    (
        "OK(cudaMemcpyAsync(d, h, 256, cudaMemcpyHostToDevice, s));"
        "if (((volatile int *)h)[0]) return 5;"
    ),  # reading the source is right
    (
        "OK(cudaMemcpyAsync(d, h, 256, cudaMemcpyHostToDevice, s)); OK(cudaStreamSynchronize(s));"
        "((volatile int *)h)[0] = 9;"
    ),
    (
        "OK(cudaMemcpyAsync(d, h, 256, cudaMemcpyHostToDevice, s));"
        "OK(cudaLaunchHostFunc(s, [](void *p) { ((volatile int *)p)[0] = 9; }, h));"
    ),
    "OK(cudaMemset(d, 1, 256)); twice<<<1, 32>>>((char *)d, e);",
    "OK(cudaMemset(d, 0, 256)); twice<<<1, 32>>>(d, e);",
    "OK(cudaMemset(d, 0x7f, 256)); twice<<<1, 32>>>(d, e);",  # a large number
    "OK(cudaMemset(d, 1, 256)); set<<<1, 1>>>(d, 0);",  # it is not read
    "OK(cudaMemset(d, 1, 256)); OK(cudaMemset(d, 0, 256)); twice<<<1, 32>>>(d, e);",
    (
        "OK(cudaMemset(d, 1, 256)); OK(cudaMemcpy(d, h, 256, cudaMemcpyHostToDevice));"
        "twice<<<1, 32>>>(d, e);"
    ),
]


def host_program(case: str) -> str:
    return (
        "int *d, *e, *h; char l[256]; cudaStream_t s; OK(cudaStreamCreate(&s));"
        "OK(cudaMalloc(&d, 256)); OK(cudaMalloc(&e, 256)); OK(cudaMallocHost(&h, 256));"
        f"memset(h, 0, 256);\n{case}\n"
        "OK(cudaStreamSynchronize(s)); OK(cudaFree(d)); OK(cudaFree(e)); OK(cudaFreeHost(h));"
        "OK(cudaStreamDestroy(s)); (void)l;"
    )


@pytest.mark.parametrize(
    ("case", "kind", "text"),
    [
        pytest.param(*row, id=name, marks=pytest.mark.program(host_program(row[0])))
        for name, row in HOST_MISTAKES.items()
    ],
)
def test_a_check_finds_mistakes_of_copies(
    program: Program, case: str, kind: str, text: str
) -> None:
    done = program.run("--check")
    assert done.returncode == 3, (case, done.stderr)
    assert f"{kind}: " in done.stderr
    assert text in done.stderr


@pytest.mark.parametrize(
    "case", [pytest.param(c, marks=pytest.mark.program(host_program(c))) for c in NO_HOST_MISTAKES]
)
def test_a_check_of_right_copies_finds_nothing(program: Program, case: str) -> None:
    done = program.run("--check")
    assert done.returncode == 0, (case, done.stderr)


@pytest.mark.parametrize("words", [(), ("--check",)])
@pytest.mark.program(
    """
    int *gone, *neighbour;
    OK(cudaMalloc(&gone, 256)); OK(cudaMalloc(&neighbour, 256)); OK(cudaFree(gone));
    set<<<1, 1>>>(gone, 3); NAME(cudaDeviceSynchronize());
    """
)
def test_freed_memory_is_named(program: Program, words: tuple[str, ...]) -> None:
    done = program.run(*words)
    assert done.stdout == "cudaErrorIllegalAddress\n"
    assert "`p` points into memory that was freed: the 256 bytes of cudaMalloc() number 1" in (
        done.stderr
    )
    assert "number 2" not in done.stderr
    assert "past the end" not in done.stderr


# CUDA C++ Programming Guide, "Technical Specifications per Compute Capability": the GPUs, then the
# blocks and warps of a multiprocessor, its shared memory and that of a block in KiB.
SPECIFICATIONS = {
    ("v100",): (32, 64, 96, 96),
    ("t4",): (16, 32, 64, 64),
    ("a100",): (32, 64, 164, 163),
    ("rtx3090",): (16, 48, 100, 99),
    ("l4", "rtx4090"): (24, 48, 100, 99),
    ("h100", "h200"): (32, 64, 228, 227),
}
BY_GPU = {gpu: row for gpus, row in SPECIFICATIONS.items() for gpu in gpus}


@pytest.mark.parametrize("gpu", BY_GPU)
@pytest.mark.program(
    r"""
    cudaDeviceProp p; OK(cudaGetDeviceProperties(&p, 0));
    printf("%d %d %zu %zu\n", p.maxBlocksPerMultiProcessor, p.maxThreadsPerMultiProcessor / 32,
           p.sharedMemPerMultiprocessor >> 10, p.sharedMemPerBlockOptin >> 10);
    int most = int(p.sharedMemPerBlockOptin);
    const auto bytes = cudaFuncAttributeMaxDynamicSharedMemorySize;
    const auto last = [](int code) { cudaGetLastError(); return code; };
    for (int more : {0, 1}) {  // at the limit, and one past it
        int codes[] = {
            last(cudaFuncSetAttribute(nothing, bytes, most + more)),
            (nothing<<<1, 1, most + more>>>(), last(cudaPeekAtLastError())),
            (nothing<<<1, 1024 + more>>>(), last(cudaPeekAtLastError())),
            (nothing<<<1, dim3(1, 1, 64 + more)>>>(), last(cudaPeekAtLastError())),
            (nothing<<<dim3(1, 65535 + more), 1>>>(), last(cudaPeekAtLastError())),
            (nothing<<<dim3(1, 1, 65535 + more), 1>>>(), last(cudaPeekAtLastError()))};
        for (int code : codes) printf("%d ", code);
        auto f = cudaCreateChannelDesc<char>();
        const struct { cudaExtent e; unsigned flags; } arrays[] = {
            {{131072, 0, 0}, 0}, {{1, 65536, 0}, 0}, {{131072, 1, 0}, 0}, {{1, 1, 32768}, 0},
            {{1, 16384, 1}, 0}, {{32768, 0, 1}, 1}, {{1, 0, 2048}, 1}, {{1, 32768, 1}, 1},
            {{1, 1, 2048}, 1}, {{32768, 0, 0}, 2}, {{1, 16384, 1}, 2}};
        for (auto a : arrays) {
            size_t *sides[] = {&a.e.width, &a.e.height, &a.e.depth};
            if (more) for (size_t *side : sides) if (*side > 1) *side += 1;
            cudaArray_t made;
            const int code = last(cudaMalloc3DArray(&made, &f, a.e, a.flags));
            printf("%d ", code);
            if (code == 0) OK(cudaFreeArray(made));
        }
        puts("");
    }
    """,
    "__global__ void nothing() {}",
    file="limits.cu",
)
def test_every_gpu_has_the_limits_of_its_compute_capability(program: Program, gpu: str) -> None:
    done = program.run("--device", f"sim:{gpu}")
    if gpu == "v100":  # nvcc 13 makes no code for it
        assert done.stdout.startswith("32 64 96 96\n")
        return
    assert done.stdout.splitlines() == [
        " ".join(map(str, BY_GPU[gpu])),
        "0 0 0 0 0 0 " + "0 " * 11,
        "1 " * 17,
    ], done.stderr


@pytest.mark.parametrize("words", [(), ("--check",)])
@pytest.mark.program(
    r"""
    #define P(call) printf("%d ", int(call)); cudaGetLastError()
    char *d, *pinned, *managed, *h = (char *)aligned_alloc(4096, 1 << 16);
    OK(cudaMalloc(&d, 1 << 16)); OK(cudaMallocHost(&pinned, 4096));
    OK(cudaMallocManaged(&managed, 4096));
    P(cudaHostRegister(h + 4096, 4096, 0)); P(cudaHostRegister(h, 8192, 0));
    P(cudaHostRegister(h + 8192, 4096, 0)); P(cudaHostRegister(h + 4104, 16, 0));
    set<<<1, 1>>>((int *)(h + 4096), 5); P(cudaDeviceSynchronize());
    P(cudaHostUnregister(h + 4100)); P(cudaHostUnregister(h + 4096));
    P(cudaHostUnregister(h)); P(cudaHostUnregister(h + 8192));
    P(cudaHostRegister(h + 5, 100, 0)); P(cudaHostRegister(h + 300, 100, 0));
    puts("");
    for (char *p : {d, pinned, managed, (char *)nullptr}) {
        P(cudaHostRegister(p, 64, 0)); P(cudaHostUnregister(p));
    }
    P(cudaHostRegister((void *)0x10000, 64, 0)); P(cudaHostRegister((void *)printf, 64, 0));
    P(cudaHostRegister(h, 0, 0)); P(cudaHostRegister(h, ~size_t(0), 0));
    puts("");
    char *m = (char *)mmap(0, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    munmap(m + 4096, 4096);
    P(cudaHostRegister(m, 8192, 0)); P(cudaHostRegister(m, 4096, 0));
    char *r = (char *)mmap(0, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    P(cudaHostRegister(r, 4096, 0)); P(cudaHostRegister(r, 4096, cudaHostRegisterReadOnly));
    twice<<<1, 32>>>((int *)r, (int *)d); P(cudaDeviceSynchronize());
    P(cudaMemset2D(d, 16, 0, 4, 0)); P(cudaMemset2DAsync(d, 16, 0, 4, 0, 0));
    P(cudaMemset2D(0, 16, 0, 4, 0)); P(cudaMemset2D(d, 16, 0, 0, 4));
    set<<<1, 1>>>((int *)r, 0); P(cudaDeviceSynchronize());
    """,
    "#include <sys/mman.h>\n",
)
def test_registered_memory_and_empty_fills(program: Program, words: tuple[str, ...]) -> None:
    # These are the codes of an H200.
    assert program.run(*words).stdout.splitlines() == [
        "0 712 0 712 0 1 0 713 0 0 0 ",
        "1 1 1 1 1 1 1 1 1 1 1 1 ",
        "1 0 1 0 0 0 0 0 0 700 ",
    ]


@pytest.mark.program(
    r"""
    char *d; OK(cudaMalloc(&d, 16));
    for (auto mode : {cudaStreamCaptureModeGlobal, cudaStreamCaptureModeRelaxed})
        for (int call = 0; call < 12; ++call) {
            cudaStream_t s; OK(cudaStreamCreate(&s)); OK(cudaStreamBeginCapture(s, mode));
            void *p; float f; int e = -1;
            switch (call) {
                case 0: e = cudaEventSynchronize(nullptr); break;
                case 1: e = cudaEventQuery(nullptr); break;
                case 2: e = cudaEventRecord(nullptr, 0); break;
                case 3: e = cudaEventElapsedTime(&f, nullptr, nullptr); break;
                case 4: e = cudaMalloc((void **)nullptr, 16); break;
                case 5: e = cudaMalloc(&p, 0); break;
                case 6: e = cudaMalloc(&p, 16); break;
                case 7: e = cudaMallocManaged(&p, 0); break;
                case 8: e = cudaMemset(d, 0, 0); break;
                case 9: e = cudaMemcpy(d, d, 0, cudaMemcpyDefault); break;
                case 10: e = cudaMemcpy(nullptr, d, 4, cudaMemcpyDefault); break;
                case 11: e = cudaDeviceSynchronize(); break;
            }
            cudaGraph_t g; printf("%d/%d ", e, cudaStreamEndCapture(s, &g));
        }
    """
)
def test_calls_in_a_capture(program: Program) -> None:
    """The answers of an H200: the code of the call, and that of cudaStreamEndCapture()."""
    relaxed = "400/0 400/0 906/901 400/0 1/0 0/0 {} 0/0 0/0 0/0 906/901 900/901 "
    assert program.run().stdout == relaxed.format("900/901") + relaxed.format("0/0")
