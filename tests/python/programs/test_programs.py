"""Whole CUDA programs on the simulator: `coalesce run` and `coalesce exec`. Needs nvcc and g++."""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import Any

import pytest
from whole_programs import NEEDS_COMPILERS, Program, coalesce

from coalesce.compile import nvcc, runtime_library

pytestmark = NEEDS_COMPILERS

VECTOR_ADD = """
#include <cstdio>
#include <cstdlib>
__constant__ float scale;
__device__ int counter;
__global__ void add(const float *a, const float *b, float *c, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        c[i] = (a[i] + b[i]) * scale;
        if (i % 100 == 0) atomicAdd(&counter, 1);
    }
}
int main(int argc, char **argv) {
    int n = argc > 1 ? atoi(argv[1]) : 1024, count = 0;
    float *a, *b, *c, two = 2, *h = new float[n];
    for (int i = 0; i < n; ++i) h[i] = i;
    cudaMalloc(&a, n * 4); cudaMalloc(&b, n * 4); cudaMalloc(&c, n * 4);
    cudaMemcpyToSymbol(scale, &two, sizeof two);
    cudaMemcpy(a, h, n * 4, cudaMemcpyHostToDevice);
    cudaMemcpy(b, h, n * 4, cudaMemcpyHostToDevice);
    add<<<(n + 255) / 256, 256>>>(a, b, c, n);
    cudaMemcpy(h, c, n * 4, cudaMemcpyDeviceToHost);
    cudaMemcpyFromSymbol(&count, counter, sizeof count);
    printf("%g %d\\n", h[n - 1], count);
    cudaFree(a); cudaFree(b); cudaFree(c);
    return argc > 2 ? 7 : 0;
}
"""


def written(folder: Path, text: str, name: str = "program.cu") -> Path:
    path = folder / name
    path.write_text(textwrap.dedent(text))
    return path


# The programs of the marks follow this text.
HEAD = r"""
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#define NAME(call) printf("%s\n", cudaGetErrorName(call))
#define OK(call) do { cudaError_t e_ = call; if (e_ != cudaSuccess) \
    { printf("%s: %s\n", #call, cudaGetErrorName(e_)); exit(9); } } while (0)
"""
# Only these programs are compiled for two GPUs.
FOR_A100 = "any_gpu.cu"
# These programs have no variables, which could get the memory that was freed.
FREED = "freed.cu"


@pytest.fixture(scope="module")
def vector_add(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(tmp_path_factory.mktemp("vector_add"), VECTOR_ADD)


def test_a_program_runs_with_its_arguments_and_status(vector_add: Path, tmp_path: Path) -> None:
    done = coalesce("run", vector_add, "--json", tmp_path / "r.json", "--", "2000", "fail")
    assert done.stdout == "7996 20\n"
    assert done.returncode == 7
    (kernel,) = json.loads((tmp_path / "r.json").read_text())["kernels"]
    assert (kernel["name"], kernel["launches"], kernel["blocks"]) == ("add", 1, 8)
    assert kernel["load_requests"] == 2 * 63  # 63 warps have threads below 2000
    assert kernel["load_sectors"] == 2 * 250  # 8000 bytes
    assert kernel["machine_code"]
    assert kernel["modelled_ms"] > 0
    assert "add" in done.stderr
    assert "modelled time" in done.stderr


def test_an_executable_runs(vector_add: Path, tmp_path: Path) -> None:
    made = tmp_path / "made.o"
    subprocess.run([nvcc.nvcc(), "-arch=sm_90", "-c", "-o", made, vector_add], check=True)
    for options, name in ((["-cudart", "shared"], "shared"), ([], "static")):
        command = [nvcc.nvcc(), *options, "-arch=sm_90", "-o", tmp_path / name, made]
        own = [f"-L{tmp_path}", *(["-lcudart"] if options else [])]
        (tmp_path / "libcudart.so").unlink(missing_ok=True)
        (tmp_path / "libcudart.so").symlink_to(runtime_library.library())
        built = subprocess.run([*command, *own], capture_output=True, text=True, check=False)
        if name == "static" and built.returncode:
            pytest.skip(f"nvcc has no static runtime here: {built.stderr}")
        assert built.returncode == 0, built.stderr
        done = coalesce("exec", tmp_path / name, "--", "512")
        if name == "shared":
            assert (done.returncode, done.stdout) == (0, "2044 6\n"), done.stderr
        else:
            assert done.returncode == 1
            assert "-cudart shared" in done.stderr


def test_the_program_is_compiled_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COALESCE_CACHE_DIR", str(tmp_path / "cache"))
    header = written(tmp_path, "#define N 3\n", "own.h")
    source = written(tmp_path, '#include "own.h"\n__global__ void k() {}\nint main() {}\n')
    compiled: list[Path] = []
    inner = nvcc._compile

    def counting(compiler: str, paths: list[Path], *rest: Any, **options: Any) -> object:
        compiled.extend(paths)
        return inner(compiler, paths, *rest, **options)

    monkeypatch.setattr(nvcc, "_compile", counting)
    first = nvcc.build([source], arch=90)
    assert nvcc.build([source], arch=90).executable == first.executable
    assert len(compiled) == 1
    # a change of an included header must also lead to a new build
    header.write_text("#define N 4\n")
    nvcc.build([source], arch=90)
    nvcc.build([source], ["-DX"], arch=90)
    assert len(compiled) == 3


def test_a_program_may_have_several_files(tmp_path: Path) -> None:
    written(tmp_path, "int twice(int);\n", "own.h")
    other = written(tmp_path, '#include "own.h"\nint twice(int n) { return 2 * n; }\n', "twice.cpp")
    main = f'{HEAD}#include "own.h"\nint main() {{ printf("%d\\n", twice(4)); }}\n'
    source = written(tmp_path, main)
    assert coalesce("run", source, other).stdout == "8\n"


@pytest.mark.program(
    "void *p; for (int i = 60; cudaMalloc(&p, size_t(1) << i); --i) {} cudaFree(p);",
)
def test_only_the_first_failed_allocation_is_reported(program: Program) -> None:
    done = program.run()
    assert done.returncode == 0
    assert done.stderr.count("cudaMalloc() failed") == 1


@pytest.mark.program(
    "int *p; OK(cudaMalloc(&p, 64)); p[2] = 1;",
)
def test_the_host_may_not_use_device_memory(program: Program) -> None:
    done = program.run()
    assert done.returncode == 128 + signal.SIGSEGV
    assert "8 bytes into the 64 bytes of cudaMalloc() number 1" in done.stderr


@pytest.mark.program(
    """
    int *p; OK(cudaMalloc(&p, 64)); write_ends<<<1, 32>>>(p); OK(cudaDeviceSynchronize());
    volatile int zero = 0;
    switch (atoi(getenv("MISTAKE"))) {
        case SIGABRT: abort();
        case SIGFPE: return 1000 / zero;
        case SIGSEGV: return *(volatile int *)8;
    }
    """,
    """
    #include <csignal>
    __global__ void write_ends(int *x) { x[threadIdx.x / 16] = threadIdx.x; }
    """,
)
@pytest.mark.parametrize("ended_by", [signal.SIGABRT, signal.SIGFPE, signal.SIGSEGV])
def test_a_signal_does_not_lose_the_report(program: Program, ended_by: signal.Signals) -> None:
    done = program.run("--check", environment={"MISTAKE": int(ended_by)})
    assert done.returncode == 128 + ended_by
    assert f"The program was ended by {ended_by.name}." in done.stderr
    assert "check of write_ends: 1 error\n" in done.stderr
    assert "were not freed" not in done.stderr
    assert re.search(r"^write_ends +1 +1 ", done.stderr, re.MULTILINE)


@pytest.mark.program(
    """
    int *managed, *pinned, *device, *async, own[64] = {};
    OK(cudaMallocManaged(&managed, 256)); OK(cudaMallocHost(&pinned, 256));
    OK(cudaMallocAsync(&async, 256, 0));
    OK(cudaHostRegister(own, sizeof own, 0));
    pinned[1] = 5; total = 1;
    grow<<<1, 64>>>(managed, 1); grow<<<1, 64>>>(pinned, 2); grow<<<1, 64>>>(own, 3);
    OK(cudaMemsetAsync(async, 0, 256)); grow<<<1, 64>>>(async, 4);
    OK(cudaDeviceSynchronize());
    OK(cudaMemcpy(&own[1], async, 4, cudaMemcpyDefault));
    printf("%d %d %d %d %d\\n", managed[63], pinned[1], own[0], own[1], total);
    size_t pitch; char rows[3][5] = {"abcd", "efgh", "ijkl"}, back[3][5] = {};
    OK(cudaMallocPitch(&device, &pitch, 5, 3));
    OK(cudaMemcpy2D(device, pitch, rows, 5, 5, 3, cudaMemcpyHostToDevice));
    OK(cudaMemset2D((char *)device + 1, pitch, 'x', 2, 3));
    OK(cudaMemcpy2D(back, 5, device, pitch, 5, 3, cudaMemcpyDeviceToHost));
    printf("%s %s %s\\n", back[0], back[1], back[2]);
    cudaPointerAttributes a; OK(cudaPointerGetAttributes(&a, managed + 1));
    printf("%d %d\\n", a.type == cudaMemoryTypeManaged, a.hostPointer == managed + 1);
    void *symbol; OK(cudaGetSymbolAddress(&symbol, counts)); size_t bytes;
    OK(cudaGetSymbolSize(&bytes, counts)); OK(cudaMemset(symbol, 0, bytes));
    printf("%d\\n", int(bytes));
    """,
    """
    __managed__ int total; __device__ int counts[8];
    __global__ void grow(int *x, int by) {
        x[threadIdx.x] += by;
        atomicAdd(&total, by);
    }
    """,
)
def test_memory_of_every_kind(program: Program) -> None:
    done = program.run()
    assert done.stdout.splitlines() == ["1 7 3 4 641", "axxd exxh ixxl", "1 1", "32"], done.stderr


@pytest.mark.program(
    """
    cudaStream_t s, t; cudaEvent_t begin, end, none; float ms; int order = 0;
    OK(cudaStreamCreate(&s)); OK(cudaStreamCreateWithFlags(&t, cudaStreamNonBlocking));
    OK(cudaEventCreate(&begin)); OK(cudaEventCreate(&end)); OK(cudaEventCreate(&none));
    OK(cudaEventRecord(begin, s));
    spin<<<64, 256, 0, s>>>(nullptr);
    OK(cudaEventRecord(end, s)); OK(cudaStreamWaitEvent(t, end, 0));
    OK(cudaLaunchHostFunc(s, [](void *p) { *(int *)p = 4; }, &order));
    OK(cudaStreamSynchronize(s)); OK(cudaEventElapsedTime(&ms, begin, end));
    printf("%d %d\\n", ms > 0.001, order);
    puts(cudaGetErrorName(cudaEventElapsedTime(&ms, begin, none)));
    OK(cudaStreamDestroy(s)); puts(cudaGetErrorName(cudaStreamSynchronize(s)));
    """,
    "__global__ void spin(float *p) { if (p) *p = 0; __syncthreads(); }",
)
def test_streams_events_and_callbacks(program: Program) -> None:
    done = program.run()
    assert done.stdout.splitlines() == [
        "1 4",
        "cudaErrorInvalidResourceHandle",
        "cudaErrorInvalidResourceHandle",
    ], done.stderr
    assert done.stderr.count("modelled times") == 1


@pytest.mark.program(
    """
    int *lock; OK(cudaMalloc(&lock, 4)); OK(cudaMemset(lock, 0, 4));
    cudaEvent_t begin, end; float ms; OK(cudaEventCreate(&begin)); OK(cudaEventCreate(&end));
    OK(cudaEventRecord(begin)); take<<<8, 32>>>(lock); OK(cudaEventRecord(end));
    OK(cudaEventSynchronize(end)); OK(cudaEventElapsedTime(&ms, begin, end));
    printf("%g\\n", ms);
    """,
    """__global__ void take(int *lock) {
        if (threadIdx.x) return;
        while (atomicCAS(lock, 0, 1)) {}
        __threadfence();
        atomicExch(lock, 0);
    }""",
)
def test_a_program_that_measures_a_time_that_is_not_modelled(program: Program) -> None:
    done = program.run(environment={"COLUMNS": "80"})
    assert done.stdout.split() == ["0"]
    assert "cudaEventElapsedTime() counts launches of take as 0 ms" in done.stderr
    assert "take: no time is modelled, because threads repeat" in done.stderr
    assert all(len(line) < 81 for line in done.stderr.partition("kernel  ")[2].splitlines())
    checked = program.run("--check")
    assert checked.stdout.split() == ["0"]
    assert "counts kernels as 0 ms, because a check models no times" in checked.stderr
    assert "modelled times" not in checked.stderr


@pytest.mark.program(
    """
    int *x, h = 0, by = 5; cudaStream_t s; cudaGraph_t g, built; cudaGraphExec_t e;
    OK(cudaMalloc(&x, 4)); OK(cudaMemset(x, 0, 4)); OK(cudaStreamCreate(&s));
    OK(cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal));
    add<<<1, 1, 0, s>>>(x, 1); add<<<1, 1, 0, s>>>(x, 2);
    OK(cudaStreamEndCapture(s, &g));
    OK(cudaMemcpy(&h, x, 4, cudaMemcpyDeviceToHost)); printf("%d ", h);
    size_t count; OK(cudaGraphGetNodes(g, nullptr, &count)); printf("%d ", int(count));
    OK(cudaGraphInstantiate(&e, g, 0));
    OK(cudaGraphLaunch(e, s)); OK(cudaGraphLaunch(e, s)); OK(cudaStreamSynchronize(s));
    OK(cudaMemcpy(&h, x, 4, cudaMemcpyDeviceToHost)); printf("%d ", h);
    cudaGraphNode_t a, b; void *values[] = {&x, &by};
    cudaKernelNodeParams p = {(void *)add, 1, 1, 0, values, nullptr};
    OK(cudaGraphCreate(&built, 0));
    OK(cudaGraphAddMemsetNode(&a, built, nullptr, 0,
       new cudaMemsetParams{x, 0, 7, 4, 1, 1}));
    OK(cudaGraphAddKernelNode(&b, built, &a, 1, &p));
    OK(cudaGraphInstantiate(&e, built, 0)); by = 9;  // the node has its own copy
    OK(cudaGraphLaunch(e, s));
    OK(cudaMemcpy(&h, x, 4, cudaMemcpyDeviceToHost)); printf("%d ", h);
    OK(cudaGraphExecKernelNodeSetParams(e, b, &p)); OK(cudaGraphLaunch(e, s));
    OK(cudaMemcpy(&h, x, 4, cudaMemcpyDeviceToHost)); printf("%d\\n", h);
    """,
    "__global__ void add(int *x, int by) { *x += by; }",
)
def test_graphs_are_captured_built_and_changed(program: Program) -> None:
    done = program.run()
    assert done.stdout == "0 2 6 12 16\n", done.stderr


@pytest.mark.program(
    """
    cudaDeviceProp p; int value, blocks, least, best; OK(cudaGetDeviceProperties(&p, 0));
    OK(cudaDeviceGetAttribute(&value, cudaDevAttrMultiProcessorCount, 0));
    OK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, zero, 256, 0));
    OK(cudaOccupancyMaxPotentialBlockSize(&least, &best, zero, 0, 0));
    printf("%d.%d %d %d %d %d\\n", p.major, p.minor, p.multiProcessorCount, value, blocks,
           best);
    """,
    "__global__ void zero(float *x) { x[threadIdx.x] = 0; }",
    FOR_A100,
)
def test_the_device_is_the_chosen_gpu(program: Program) -> None:
    assert program.run().stdout == "9.0 132 132 8 1024\n"
    assert program.run("--device", "sim:a100").stdout == "8.0 108 108 8 1024\n"


@pytest.mark.program(
    """
    struct cudaDeviceProp p; int device, *x; OK(cudaGetDevice(&device));
    OK(cudaGetDeviceProperties(&p, device)); OK(cudaMallocManaged(&x, 64));
    OK(cudaMemPrefetchAsync(x, 64, device, 0)); OK(cudaMemPrefetchAsync(x, 64, -1));
    OK(cudaMemAdvise(x, 64, cudaMemAdviseSetReadMostly, device));
    OK(cudaThreadSynchronize());
    printf("%d %d\\n", p.clockRate, p.deviceOverlap);
    """,
)
def test_programs_for_older_cuda_compile(program: Program) -> None:
    done = program.run()
    assert done.stdout == "1980000 1\n", done.stderr


@pytest.mark.program("NAME(cudaIpcCloseMemHandle(nullptr));" * 2)
def test_what_is_missing_names_itself(program: Program) -> None:
    done = program.run()
    assert done.stdout == "cudaErrorNotSupported\n" * 2
    assert done.stderr.count("cudaIpcCloseMemHandle() is not simulated") == 1


@pytest.mark.program(
    'hello<<<1, 2>>>(); puts("host"); OK(cudaDeviceSynchronize()); puts("end");',
    '__global__ void hello() { printf("thread %d\\n", threadIdx.x); }',
)
def test_printf_comes_when_the_host_waits(program: Program) -> None:
    assert program.run().stdout == "host\nthread 0\nthread 1\nend\n"


def test_a_program_that_does_not_compile_shows_the_log(tmp_path: Path) -> None:
    done = coalesce("run", written(tmp_path, "int main() { return nothing; }\n"))
    assert done.returncode == 1
    assert "program.cu(1)" in done.stderr
    fft = 'extern "C" int cufftDestroy(int);\nint main() { return cufftDestroy(0); }\n'
    done = coalesce("run", written(tmp_path, fft))
    assert "cuFFT" in done.stderr
    nested = "__global__ void k() { k<<<1, 1>>>(); }\nint main() { k<<<1, 1>>>(); }\n"
    done = coalesce("run", written(tmp_path, nested))
    assert done.returncode == 1
    assert "(dynamic parallelism), which the simulator does not support" in done.stderr


@pytest.mark.program(
    'puts("on"); fflush(stdout); endless<<<1, 1>>>(); OK(cudaDeviceSynchronize());',
    "__global__ void endless() { for (volatile int i = 0;; ++i) { } }",
)
def test_ctrl_c_stops_it(program: Program) -> None:
    with started(program) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "on\n"
        time.sleep(0.3)
        os.killpg(process.pid, signal.SIGINT)
        assert process.wait(30) == 130


def started(program: Program, *words: str) -> subprocess.Popen[str]:
    """Start `coalesce run` with these words for a program that does not end."""
    return subprocess.Popen(
        [sys.executable, "-m", "coalesce", "run", program.file, *words, "--", str(program.number)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


STOPPED = (
    """
    first<<<2, 32>>>(); OK(cudaDeviceSynchronize());
    printf("%d\\n", int(getpid())); fflush(stdout);
    runs_on<<<1, 1>>>(); OK(cudaDeviceSynchronize());
    """,
    """
    #include <unistd.h>
    __global__ void first() {}
    __global__ void runs_on() { for (volatile int i = 0;; ++i) { } }
    """,
)


def stopped(
    program: Program, number: signal.Signals, *words: str, both: bool = False
) -> tuple[int, str]:
    """Send a signal to `coalesce run WORDS`. Return its status and what it printed on stderr.

    The program must end, too. If `both`, it gets the signal as well, as from the command `timeout`.
    """
    with started(program, *words) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        child = int(process.stdout.readline())
        time.sleep(0.3)
        (os.killpg if both else os.kill)(process.pid, number)
        status = process.wait(30)
        try:
            for _ in range(100):
                os.kill(child, 0)
                time.sleep(0.1)
        except ProcessLookupError:
            return status, process.stderr.read()
        os.kill(child, signal.SIGKILL)
    pytest.fail("the program was still running")


@pytest.mark.program(*STOPPED)
@pytest.mark.parametrize("both", [False, True])
@pytest.mark.parametrize("option", [(), ("--profile",), ("--check",)])
def test_a_stopped_command_ends_the_program_and_prints_the_table(
    program: Program, both: bool, option: tuple[str, ...]
) -> None:
    status, printed = stopped(program, signal.SIGTERM, *option, both=both)
    assert ("launches were not profiled, because a signal" in printed) == ("--profile" in option)
    assert status == 128 + signal.SIGTERM
    assert "The program was ended by SIGTERM." in printed
    assert re.search(r"^first +1 +2 ", printed, re.MULTILINE)


@pytest.mark.program(
    """
    printf("%d\\n", int(getpid())); fflush(stdout);
    lasts<<<1, 32>>>(); OK(cudaDeviceSynchronize());
    """,
    """
    #include <unistd.h>
    __device__ unsigned turns;  // a loop without a result would be removed
    __global__ void lasts() { for (int i = 0; i < 5000000; ++i) atomicAdd(&turns, i); }
    """,
)
def test_a_signal_ends_the_profiling(program: Program) -> None:
    with started(program, "--profile") as process:
        assert process.stdout is not None
        assert process.stderr is not None
        child = Path(f"/proc/{int(process.stdout.readline())}")
        while child.exists():
            time.sleep(0.01)
        time.sleep(0.1)
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 128 + signal.SIGTERM
        printed = process.stderr.read()
    assert "1 launch was not profiled, because a signal" in printed
    assert re.search(r"^lasts +1 +1 ", printed, re.MULTILINE)


def compilers(folder: Path) -> list[str]:
    """Return the commands of running compilers whose temporary files are in a folder."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            command = (process / "cmdline").read_text(errors="replace")
            if f"{folder}/coalesce-" in command and process.name != str(os.getpid()):
                found.append(command)
    return found


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT])
def test_a_stopped_command_ends_the_compilers(tmp_path: Path, number: signal.Signals) -> None:
    source = written(tmp_path, f"#include <thrust/sort.h>\nint main() {{ return {number:d}; }}\n")
    command = [sys.executable, "-m", "coalesce", "run", str(source)]
    environment = {**os.environ, "TMPDIR": str(tmp_path), "COALESCE_CACHE_DIR": str(tmp_path)}
    # If the tests themselves run in the background, they ignore some of these signals.
    before = signal.signal(number, signal.SIG_DFL)
    try:
        process = subprocess.Popen(command, env=environment, stderr=subprocess.PIPE)
    finally:
        signal.signal(number, before)
    with process:
        while not any("cudafe++" in c or "cc1plus" in c for c in compilers(tmp_path)):
            time.sleep(0.05)
        process.send_signal(number)
        assert process.wait(10) == 128 + number
    assert not compilers(tmp_path)
    assert not [*tmp_path.glob("coalesce-*")]


@pytest.mark.program(*STOPPED)
def test_a_killed_command_does_not_leave_the_program_behind(program: Program) -> None:
    status, _ = stopped(program, signal.SIGKILL)
    assert status == -signal.SIGKILL


@pytest.mark.program(
    "same<<<1, 64>>>();", "__device__ int table[8][4]; __global__ void same() { table[3][2]++; }"
)
def test_elements_of_device_variables_are_named(program: Program) -> None:
    done = program.run("--check")
    assert done.returncode == 3
    assert "data race on table[3][2]: " in done.stderr


@pytest.mark.program(
    """
    Square host; Square *device; float *out;
    cudaMalloc(&device, sizeof host); cudaMalloc(&out, 4);
    cudaMemcpy(device, &host, sizeof host, cudaMemcpyHostToDevice);
    areas<<<1, 1>>>(device, out);
    return cudaDeviceSynchronize() == cudaErrorIllegalAddress;
    """,
    """
    struct Shape { __host__ __device__ virtual float area() const { return 0; } };
    struct Square : Shape { __host__ __device__ float area() const override { return 1; } };
    __global__ void areas(const Shape *s, float *out) { *out = s->area(); }
    """,
)
@pytest.mark.parametrize("words", [(), ("--check",)])
def test_virtual_functions_of_an_object_of_the_host(
    program: Program, words: tuple[str, ...]
) -> None:
    done = program.run(*words)
    assert done.returncode in (1, 3)
    assert "If the kernel calls a virtual function, a kernel must construct" in done.stderr


@pytest.mark.program(
    """
    int n = 1002; float *x;
    cudaMalloc(&x, 4 * n);
    set<<<1, 256>>>((float4 *)x, n);
    cudaFree(x);
    """,
    "__global__ void set(float4 *x, int n) { if (threadIdx.x < n / 4) x[threadIdx.x] = {}; }",
)
def test_the_rest_of_an_array_of_vectors_is_noted(program: Program) -> None:
    done = program.run("--check")
    assert done.returncode == 0
    assert "note: 8 of the 4008 bytes of `x` were not written" in done.stderr


@pytest.mark.program(
    """
    int *x, *gone, host[8] = {};
    cudaMalloc(&x, 256);
    cudaMalloc(&gone, 256); cudaFree(gone);
    cudaMemcpy(host, x, 32, cudaMemcpyHostToDevice);
    cudaMemcpy(gone, host, 32, cudaMemcpyHostToDevice);
    cudaMemcpy(x + 60, host, 32, cudaMemcpyHostToDevice);
    cudaFree(gone);
    reverse<<<1, 64>>>(x);
    cudaDeviceSynchronize();
    reverse<<<1, 4096>>>(x);
    """,
    """
    __global__ void reverse(int *x) {
        __shared__ int s[64];
        s[threadIdx.x] = x[threadIdx.x];
        x[threadIdx.x] = s[63 - threadIdx.x];
    }
    """,
)
def test_checks_find_mistakes_of_kernels_and_of_the_host(program: Program, tmp_path: Path) -> None:
    lines = program.lines()
    done = program.run("--check", "--json", tmp_path / "r.json")
    assert done.returncode == 3
    assert re.search(
        r"^  read: line \d+ of program\.cu:   x\[threadIdx\.x\] = s", done.stderr, re.MULTILINE
    )
    assert re.search(r"data race on s\[\d+\]: ", done.stderr)
    report = json.loads((tmp_path / "r.json").read_text())
    kinds = {f["kind"] for launch in report["checked"] for f in launch["findings"]}
    assert kinds == {"uninitialized", "race"}
    line = report["checked"][0]["findings"][0]["first"]["line"]
    assert "x[threadIdx.x]" in lines[line - 1]
    by_line = {}
    for mistake in report["host"]:
        name, _, number = mistake["place"].partition(":")
        assert name == "program.cu", mistake
        by_line[lines[int(number) - 1].strip()] = (mistake["kind"], mistake["text"])
    expected = {
        "cudaMemcpy(host, x, 32, cudaMemcpyHostToDevice)": ("wrong call", "destination is host"),
        "cudaMemcpy(gone, host": ("wrong call", "was freed"),
        "cudaMemcpy(x + 60": ("wrong call", "16 bytes past the end"),
        "cudaFree(gone);": ("wrong call", "freed before"),
        "reverse<<<1, 4096>>>": ("unchecked error", "block.x is 4096"),
        "cudaMalloc(&x, 256);": ("leak", "256 bytes"),
    }
    for start, (kind, text) in expected.items():
        (got,) = (value for line, value in by_line.items() if line.startswith(start))
        assert got[0] == kind
        assert text in got[1]
    assert len(by_line) == len(expected)


@pytest.mark.program("int *x; OK(cudaMalloc(&x, 256));")
@pytest.mark.parametrize(("words", "status"), [((), 0), (("--fail-on", "leak"), 3)])
def test_a_leak_alone_is_a_warning(program: Program, words: tuple[str, ...], status: int) -> None:
    done = program.run("--check", *words)
    assert done.returncode == status
    assert "host, leak: the 256 bytes" in done.stderr


@pytest.mark.program(
    """
    float *inside = new float[8](), **rows = new float *[8];
    for (int i = 0; i < 8; ++i) rows[i] = inside;
    Vector h{8, inside}, *d;
    float **m;
    OK(cudaMalloc(&d, sizeof h)); OK(cudaMemcpy(d, &h, sizeof h, cudaMemcpyHostToDevice));
    OK(cudaMalloc(&m, 64)); OK(cudaMemcpy(m, rows, 64, cudaMemcpyHostToDevice));
    if (*getenv("CASE") == 'a') by_pointer<<<1, 8>>>(d);
    if (*getenv("CASE") == 'b') of_rows<<<1, 8>>>(m);
    if (*getenv("CASE") == 'c') by_value<<<1, 8>>>(h);
    NAME(cudaDeviceSynchronize());
    """,
    """
    struct Vector { int n; float *v; };
    __global__ void by_pointer(Vector *s) { s->v[threadIdx.x] *= 2; }
    __global__ void of_rows(float **m) { m[threadIdx.x][0] = 1; }
    __global__ void by_value(Vector s) { s.v[threadIdx.x] = 1; }
    """,
)
@pytest.mark.parametrize("check", [(), ("--check",)])
@pytest.mark.parametrize(
    ("case", "text"),
    [
        ("a", "a pointer that the kernel read from memory of the GPU points to the host"),
        ("b", "a pointer that the kernel read from memory of the GPU points to the host"),
        ("c", "an argument of the kernel contains a pointer to the host"),
    ],
)
def test_a_pointer_to_the_host_inside_data(
    program: Program, case: str, text: str, check: tuple[str, ...]
) -> None:
    done = program.run(*check, environment={"CASE": case})
    assert text in done.stdout + done.stderr


def test_a_right_program_has_no_findings(vector_add: Path) -> None:
    done = coalesce("run", vector_add, "--check")
    assert done.returncode == 0
    assert "error" not in done.stderr


@pytest.mark.program(
    """
    float *x; OK(cudaMalloc(&x, 4096 * 32)); OK(cudaMemset(x, 0, 4096 * 32));
    int by[] = {1, 32}; OK(cudaMemcpyToSymbol(stride, &by[0], 4));
    scale<<<4, 256>>>(x);
    OK(cudaMemcpyToSymbol(stride, &by[1], 4));
    scale<<<4, 256>>>(x);
    OK(cudaFree(x));
    """,
    "__constant__ int stride;\n"
    "__global__ void scale(float *x) {\n"
    "    x[(blockIdx.x * blockDim.x + threadIdx.x) * stride] *= 2;\n}",
)
def test_launches_are_profiled(program: Program, tmp_path: Path) -> None:
    page, data = tmp_path / "page.html", tmp_path / "r.json"
    loads = {}
    for words in (["--profile"], ["--launch", "2"], ["--launch", "all"]):
        done = program.run(*words, "--html", page, "--json", data)
        assert done.returncode == 0, done.stderr
        assert "x[(blockIdx.x * blockDim.x + threadIdx.x) * stride] *= 2;" in done.stderr
        name = "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum"
        loads[words[-1]] = [p["metrics"][name] for p in json.loads(data.read_text())["profiles"]]
    assert loads == {"--profile": [128], "2": [1024], "all": [128, 1024]}
    assert "scale, launch 2" in page.read_text()


STENCIL = """
__global__ void sums(const float *x, float *y) {
    int i = threadIdx.x;
    y[i] = x[i - 1] + x[i] + x[i + 1];
}
__global__ void pairs(const float4 *x, float *y) {
    float4 v = x[threadIdx.x];
    y[threadIdx.x] = v.x + 10 * v.y + 100 * v.z + 1000 * v.w;
}
__global__ void far(const float *x, float *y, long distance) { *y = x[distance]; }
"""


@pytest.mark.program(
    """
    float *x; int *n;
    cudaMalloc(&x, 128); cudaMalloc(&n, 128);
    cudaMemset(x, 0, 128); cudaMemset(n, 0, 128);
    next<<<1, 32>>>(x); next<<<1, 32>>>(n);
    cudaFree(x); cudaFree(n);
    """,
    """
    __global__ void next(float *x) { x[threadIdx.x] += x[threadIdx.x + 1]; }
    __global__ void next(int *x) { x[threadIdx.x] += x[threadIdx.x + 1]; }
    """,
)
def test_each_overload_that_reads_outside_is_named(program: Program) -> None:
    done = program.run()
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("kernel next read outside an array") == 2


@pytest.mark.program(
    """
    // The kernel `pairs` reads 16 bytes, of which 8 are in the array.
    float *x, *y, h[64];
    const int launches = atoi(getenv("LAUNCHES"));
    for (int i = 0; i < 64; ++i) h[i] = 1;
    cudaMalloc(&x, 64 * 4); cudaMalloc(&y, 64 * 4);
    cudaMemcpy(x, h, 64 * 4, cudaMemcpyHostToDevice);
    for (int n = 0; n < launches; ++n) sums<<<1, 64>>>(x, y);
    cudaMemcpy(h, y, 64 * 4, cudaMemcpyDeviceToHost);
    printf("%g %g %g %g\\n", h[0], h[1], h[62], h[63]);
    cudaFree(x); cudaMalloc(&x, 24);
    h[0] = h[1] = h[2] = h[3] = h[4] = h[5] = 1;
    cudaMemcpy(x, h, 24, cudaMemcpyHostToDevice);
    for (int n = 0; n < launches; ++n) pairs<<<1, 2>>>((float4 *)x, y);
    cudaMemcpy(h, y, 8, cudaMemcpyDeviceToHost);
    printf("%g %g\\n", h[0], h[1]);
    cudaFree(x); cudaFree(y);
    """,
    STENCIL,
)
def test_reads_near_an_array_continue_with_zeros(program: Program) -> None:
    for launches in ("1", "3"):  # the third launch is not counted
        environment = {"LAUNCHES": launches}
        done = program.run(environment=environment)
        assert done.returncode == 0, done.stderr
        assert done.stdout == "2 3 3 2\n1111 11\n"
        assert done.stderr.count("read outside an array, and continued with zeros") == 2
        assert "read of 4 bytes before the start of `x`" in done.stderr
        assert "y[i] = x[i - 1] + x[i] + x[i + 1];" in done.stderr
        assert "read of 16 bytes past the end of `x`" in done.stderr
        profiled = program.run("--profile", environment=environment)
        assert profiled.returncode == 0, profiled.stderr
        assert "y[i] = x[i - 1] + x[i] + x[i + 1];" in profiled.stderr
        checked = program.run("--check", environment=environment)
        assert checked.returncode == 3
        assert "continued with zeros" not in checked.stderr


@pytest.mark.program(
    """
    float *y, *x;
    const char *place = getenv("PLACE");
    cudaMalloc(&y, 4); cudaMalloc(&x, 8);
    long distance = 0;
    if (!strcmp(place, "far past")) distance = (8 << 20) / 4;
    if (!strcmp(place, "far before")) distance = -(8 << 20) / 4;
    if (!strcmp(place, "freed")) cudaFree(x);
    if (!strcmp(place, "null")) x = 0, distance = 1;
    far<<<1, 1>>>(x, y, distance);
    puts(cudaGetErrorName(cudaDeviceSynchronize()));
    """,
    STENCIL,
    FREED,
)
def test_other_reads_outside_are_faults(program: Program) -> None:
    for place in ("far past", "far before", "freed", "null"):
        done = program.run(environment={"PLACE": place})
        assert done.stdout == "cudaErrorIllegalAddress\n", (place, done.stderr)
        assert "continued with zeros" not in done.stderr
    done = program.run(environment={"PLACE": "inside"})
    assert done.stdout == "cudaSuccess\n", done.stderr


@pytest.mark.program(
    "float *p; OK(cudaMalloc(&p, 400)); fill<<<1, 128>>>(p); cudaDeviceSynchronize();",
    "__global__ void fill(float *values) { values[threadIdx.x] = 1; }",
)
def test_messages_name_arguments(program: Program) -> None:
    done = program.run()
    assert "write of 4 bytes past the end of `values`" in done.stderr
    assert "values[100]" in done.stderr
    assert "the 400 bytes of cudaMalloc() number 1" in done.stderr


@pytest.mark.program(
    """
    int *x, *y, sum = 0; OK(cudaMallocManaged(&x, 256)); OK(cudaMallocHost(&y, 256));
    x[0] = 1;
    add<<<1, 64>>>(x);
    sum += x[0];
    OK(cudaDeviceSynchronize());
    sum += x[1];
    add<<<1, 64>>>(x);
    OK(cudaMemcpyAsync(y, x, 256, cudaMemcpyDefault));
    sum += y[2];
    OK(cudaDeviceSynchronize());
    sum += y[3] + x[3];
    printf("%d\\n", sum);
    OK(cudaFree(x)); OK(cudaFreeHost(y));
    """,
    "__global__ void add(int *x) { x[threadIdx.x] += 1; }",
)
def test_checks_find_a_host_that_does_not_wait(program: Program, tmp_path: Path) -> None:
    done = program.run("--check", "--json", tmp_path / "r.json")
    assert done.stdout == "9\n", done.stderr
    mistakes = json.loads((tmp_path / "r.json").read_text())["host"]
    lines = program.lines()
    places = [lines[int(f["place"].partition(":")[2]) - 1].strip() for f in mistakes]
    assert [f["kind"] for f in mistakes] == ["missing wait"] * 2
    assert places == ["sum += x[0];", "sum += y[2];"]


@pytest.mark.program(
    """
    int n = 600, *a, *b, *sum, fit = 0, cooperative = 0;
    cudaMallocManaged(&a, n * sizeof(int));
    cudaMallocManaged(&sum, sizeof(int));
    cudaMalloc(&b, n * sizeof(int));
    for (int i = 0; i < n; ++i) a[i] = i;
    cudaDeviceGetAttribute(&cooperative, cudaDevAttrCooperativeLaunch, 0);
    cudaOccupancyMaxActiveBlocksPerMultiprocessor(&fit, turn, 1024, 0);
    void *arguments[] = {&a, &b, &n};
    cudaError_t e = cudaLaunchCooperativeKernel((void *)turn, dim3(5), dim3(128), arguments, 0, 0);
    printf("%s %d %d\\n", cudaGetErrorName(e), cooperative, fit);
    printf("%s\\n", cudaGetErrorName(cudaDeviceSynchronize()));
    printf("a %d %d\\n", a[0], a[n - 1]);
    e = cudaLaunchCooperativeKernel((void *)turn, dim3(132 * fit + 1), dim3(1024), arguments, 0, 0);
    printf("%s\\n", cudaGetErrorName(e));
    cudaGetLastError();
    *sum = 0;
    NAME(cudaDeviceSetLimit(cudaLimitMallocHeapSize, 4000000));
    lists<<<2, 32>>>(sum, 10);
    cudaDeviceSynchronize();
    printf("sum %d\\n", *sum);
    NAME(cudaDeviceSetLimit(cudaLimitMallocHeapSize, 8192));  // too late
    *sum = 0;
    lists<<<1, 1>>>(sum, 2000000);
    cudaDeviceSynchronize();
    printf("sum %d\\n", *sum);
    turn<<<1, 32>>>(a, b, 32);
    printf("%s\\n", cudaGetErrorName(cudaDeviceSynchronize()));
    """,
    """
    #include <cooperative_groups.h>
    __global__ void turn(int *a, int *b, int n) {
        auto grid = cooperative_groups::this_grid();
        int i = grid.thread_rank();
        if (i < n) b[i] = a[i] * 2;
        grid.sync();
        if (i < n) a[i] = b[n - 1 - i];
    }
    __global__ void lists(int *sum, int n) {
        int *own = new int[n];
        if (!own) { atomicAdd(sum, 1000000); return; }
        for (int i = 0; i < n; ++i) own[i] = i;
        atomicAdd(sum, own[n - 1]);
        delete[] own;
    }
    """,
)
def test_cooperative_launches_and_the_device_heap(program: Program) -> None:
    done = program.run()
    assert done.stdout.splitlines() == [
        "cudaSuccess 1 2",
        "cudaSuccess",
        "a 1198 0",
        "cudaErrorCooperativeLaunchTooLarge",
        "cudaSuccess",
        f"sum {64 * 9}",
        "cudaErrorInvalidValue",
        "sum 1000000",
        "cudaErrorLaunchFailure",
    ]
    assert "265 blocks, but the NVIDIA H200 SXM can hold only 264" in done.stderr
    assert "grid.sync() needs a cooperative launch" in done.stderr


@pytest.mark.program(
    """
    int *out, n = 8, supported = 0;
    cudaMallocManaged(&out, n * sizeof(int));
    cudaDeviceGetAttribute(&supported, cudaDevAttrClusterLaunch, 0);
    cudaLaunchAttribute attribute[1];
    attribute[0].id = cudaLaunchAttributeClusterDimension;
    attribute[0].val.clusterDim.x = 4;
    attribute[0].val.clusterDim.y = attribute[0].val.clusterDim.z = 1;
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3(n);
    config.blockDim = dim3(64);
    config.attrs = attribute;
    config.numAttrs = 1;
    OK(cudaLaunchKernelEx(&config, neighbours, out));
    OK(cudaDeviceSynchronize());
    printf("%d", supported);
    for (int i = 0; i < n; ++i) printf(" %d", out[i]);
    config.gridDim = dim3(6);
    printf("\\n%d\\n", cudaLaunchKernelEx(&config, neighbours, out) != cudaSuccess);
    """,
    """
    #include <cooperative_groups.h>
    __global__ void neighbours(int *out) {
        __shared__ int own;
        auto cluster = cooperative_groups::this_cluster();
        if (threadIdx.x == 0) own = 100 * blockIdx.x;
        cluster.sync();
        int next = (cluster.block_rank() + 1) % cluster.num_blocks();
        int value = *cluster.map_shared_rank(&own, next);
        cluster.sync();
        if (threadIdx.x == 0) out[blockIdx.x] = value + cluster.num_blocks();
    }
    """,
)
def test_clusters_of_a_launch(program: Program) -> None:
    done = program.run()
    assert done.stdout.splitlines() == [
        "1 104 204 304 4 504 604 704 404",
        "1",
    ], done.stderr


@pytest.mark.program(
    """
    cudaStream_t s, t;
    OK(cudaStreamCreate(&s));
    OK(cudaStreamCreateWithPriority(&t, 0, -2));
    cudaStreamAttrValue v = {}, w = {};
    v.accessPolicyWindow.num_bytes = 64;
    OK(cudaStreamSetAttribute(s, cudaStreamAttributeAccessPolicyWindow, &v));
    OK(cudaStreamCopyAttributes(t, s));
    OK(cudaStreamGetAttribute(t, cudaStreamAttributeAccessPolicyWindow, &w));
    printf("%zu\\n", w.accessPolicyWindow.num_bytes);
    OK(cudaStreamGetAttribute(t, cudaStreamAttributePriority, &w));
    printf("%d\\n", w.priority);
    printf("%s\\n", cudaGetErrorName(
        cudaStreamSetAttribute(s, cudaLaunchAttributeCooperative, &v)));
    OK(cudaCtxResetPersistingL2Cache());
    float *m, *d;
    OK(cudaMallocManaged(&m, 4)); OK(cudaMalloc(&d, 4));
    OK(cudaStreamAttachMemAsync(s, m, 0, cudaMemAttachSingle));
    printf("%s\\n", cudaGetErrorName(cudaStreamAttachMemAsync(s, d, 0, cudaMemAttachSingle)));
    """,
)
def test_attributes_of_streams_and_managed_memory(program: Program) -> None:
    done = program.run()
    expected = ["64", "-2", "cudaErrorInvalidValue", "cudaErrorInvalidValue"]
    assert done.stdout.splitlines() == expected, done.stderr
    assert "(persisting L2 accesses) is not modelled" in done.stderr


@pytest.mark.program(
    """
    cudaLaunchConfig_t c = {};
    cudaLaunchAttribute a = {};
    a.id = cudaLaunchAttributeClusterDimension;
    a.val.clusterDim.x = 4; a.val.clusterDim.y = a.val.clusterDim.z = 1;
    c.blockDim = 1024; c.gridDim = 4; c.attrs = &a; c.numAttrs = 1;
    int n = 0;
    cudaError_t e = cudaOccupancyMaxActiveClusters(&n, k, &c);
    printf("%s %d\\n", cudaGetErrorName(e), n);
    OK(cudaOccupancyMaxPotentialClusterSize(&n, k, &c));
    printf("%d\\n", n);
    """,
    "__global__ void k() {}",
    FOR_A100,
)
def test_occupancy_of_clusters(program: Program) -> None:
    # 132 multiprocessors in 8 GPCs of 16 or 17, which hold 8 clusters of 4 blocks each.
    assert program.run().stdout.splitlines() == ["cudaSuccess 64", "8"]
    on_a100 = program.run("--device", "sim:a100")
    assert on_a100.stdout.splitlines() == ["cudaErrorNotSupported 0", "1"]


@pytest.mark.program(
    """
    size_t many = (size_t)1 << 56;
    char *d, *h = (char *)malloc(512);
    OK(cudaMalloc(&d, 512));
    NAME(cudaMemcpy2D(d, 256, h, 256, 256, many + 1, cudaMemcpyHostToDevice));
    NAME(cudaMemset2D(d, 256, 0, 256, many + 1));
    cudaChannelFormatDesc c = cudaCreateChannelDesc<float4>();
    cudaArray_t array;
    OK(cudaMallocArray(&array, &c, 16));
    cudaMemcpy3DParms p = {};
    p.srcPtr = make_cudaPitchedPtr(h, 256, 16, 1);
    p.dstArray = array;
    p.extent = make_cudaExtent(((size_t)1 << 60) + 4, 1, 1);
    p.kind = cudaMemcpyHostToDevice;
    NAME(cudaMemcpy3D(&p));
    int n = -1;
    OK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&n, none, 32, SIZE_MAX));
    printf("%d\\n", n);
    cudaLaunchConfig_t l = {};
    l.gridDim = 1; l.blockDim = dim3(1u << 31, 2, 1);
    OK(cudaOccupancyMaxActiveClusters(&n, none, &l));
    printf("%d\\n", n);
    NAME(cudaOccupancyMaxPotentialClusterSize(&n, none, nullptr));
    """,
    """
    __global__ void none() {}
    """,
)
def test_sizes_that_overflow_are_refused(program: Program) -> None:
    """The product of the numbers has more than 64 bits, and its lower bits are a small size."""
    done = program.run()
    refused = "cudaErrorInvalidValue"
    expected = [refused, refused, refused, "0", "0", refused]
    assert done.stdout.splitlines() == expected, done.stderr


def test_kernels_of_one_name_are_counted_apart(tmp_path: Path) -> None:
    other = written(
        tmp_path, "namespace { __global__ void k() {} }\nvoid f() { k<<<3, 1>>>(); }", "b.cu"
    )
    source = written(
        tmp_path,
        "namespace { __global__ void k() {} }\nvoid f();\nint main() { k<<<1, 1>>>(); f(); }",
        "a.cu",
    )
    done = coalesce("run", source, other, "--json", tmp_path / "r.json")
    assert done.returncode == 0, done.stderr
    kernels = json.loads((tmp_path / "r.json").read_text())["kernels"]
    assert [(k["name"], k["blocks"]) for k in kernels] == [("k", 1), ("k", 3)]


SET = "__global__ void set(int *x, int n) { if (threadIdx.x <= n) x[threadIdx.x] = 1; }"


@pytest.mark.program(
    """
    int *x; cudaMalloc(&x, 128); cudaFree(x);
    set<<<1, 32>>>(x, 32);
    return cudaDeviceSynchronize() == cudaSuccess;
    """,
    SET,
    FREED,
)
def test_findings_name_the_freed_allocation(program: Program) -> None:
    done = program.run("--check")
    assert done.returncode == 3, done.stdout + done.stderr
    expected = "`x` points into memory that was freed: the 128 bytes of cudaMalloc() number 1 ("
    assert expected + "freed.cu:" in done.stderr


@pytest.mark.program("int *x; cudaMalloc(&x, 40); set<<<1, 32>>>(x, 10); cudaFree(x);", SET)
def test_findings_name_the_allocation(program: Program) -> None:
    done = program.run("--check")
    assert done.returncode == 3
    assert "`x` is in the 40 bytes of cudaMalloc() number 1 (program.cu:" in done.stderr
    # cudaFree() fails after the fault; this is not a leak.
    assert "leak" not in done.stderr


@pytest.mark.program(
    """
    float *x; cudaMalloc(&x, 256); cudaMemset(x, 0, 256);
    early<<<1, 64>>>(x); condition<<<1, 64>>>(x); cudaDeviceSynchronize(); cudaFree(x);
    """,
    """
    __global__ void early(float *x) {
        x += threadIdx.x;
        if (threadIdx.x >= 32) { *x = 2; return; }
        __syncthreads();
        *x = 2;
    }
    __global__ void condition(float *x) {
        x += threadIdx.x;
        if (threadIdx.x < 32) { __syncthreads(); }
        *x = 2;
    }
    """,
)
def test_checks_tell_early_ends_from_conditions(program: Program, tmp_path: Path) -> None:
    """The compiler makes the same code from both kernels. Only the source shows the difference."""
    done = program.run("--check", "--json", tmp_path / "r.json")
    assert done.returncode == 3, done.stderr
    checked = json.loads((tmp_path / "r.json").read_text())["checked"]
    found = [(c["kernel"].split("(")[0], f["severity"]) for c in checked for f in c["findings"]]
    assert found == [("early", "warning"), ("condition", "error")]


@pytest.mark.program(
    """
    int *flag, *own; cudaMallocHost(&flag, 4); *flag = 0;
    cudaMalloc(&own, 4); cudaMemset(own, 0, 4);
    std::thread host([&] {
        std::this_thread::sleep_for(std::chrono::seconds(13));
        *(volatile int *)flag = 1;
    });
    wait_for<<<3000, 128>>>(flag, own);
    host.join();
    printf("%d\\n", cudaDeviceSynchronize());
    """,
    """
    #include <chrono>
    #include <thread>
    __global__ void wait_for(volatile int *flag, volatile int *own) {
        if (threadIdx.x == 0) while (*flag == 0 && *own == 0);
    }
    """,
)
def test_blocks_that_wait_for_the_host_are_not_stuck(program: Program) -> None:
    """The grid does not fit, but other blocks would not help these."""
    assert program.run().stdout == "0\n"
