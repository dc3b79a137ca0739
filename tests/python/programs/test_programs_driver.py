"""Programs that use CUDA's driver API, alone or with the runtime API. Needs nvcc and g++."""

import json
import subprocess
from pathlib import Path

import pytest
from whole_programs import NEEDS_COMPILERS, Program, coalesce

from coalesce.compile import nvcc, pathfinder, runtime_library

pytestmark = NEEDS_COMPILERS

KERNELS = """
extern "C" {
__device__ int counter;
__constant__ float factor;
__global__ void add(int *x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] += 1;
    if (i == 0) counter += n;
}
__global__ void scale(float *x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] *= factor;
}
}
"""
HEAD = r"""
#include <cuda.h>
#include <dlfcn.h>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>
const char *name(CUresult r) { const char *n = 0; cuGetErrorName(r, &n); return n ? n : "?"; }
#define OK(call) do { CUresult r_ = call; if (r_ != CUDA_SUCCESS) { \
    printf("%s: %s\n", #call, name(r_)); exit(9); } } while (0)
#define SHOW(call) printf("%s\n", name(call))
CUdevice device;
CUcontext context;
CUmodule module;
CUdeviceptr memory;
void start() {
    OK(cuInit(0)); OK(cuDeviceGet(&device, 0)); OK(cuCtxCreate(&context, nullptr, 0, device));
}
"""


# A program without kernels of its own.
HOST = "program.cpp"


@pytest.fixture(scope="module")
def code(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the kernels as PTX, machine code (cubin) and a fat binary."""
    folder = tmp_path_factory.mktemp("code")
    (folder / "kernels.cu").write_text(KERNELS)
    architectures = "arch=compute_90,code=[compute_90,sm_90]"
    command = [nvcc.nvcc(), "-fatbin", "-keep", "-lineinfo", "-gencode", architectures]
    subprocess.run([*command, "kernels.cu"], cwd=folder, check=True)
    return folder


@pytest.mark.parametrize("file", ["kernels.ptx", "kernels.fatbin"])
@pytest.mark.program(
    """
    start();
    OK(cuModuleLoad(&module, getenv("FILE")));
    CUfunction add, scale;
    OK(cuModuleGetFunction(&add, module, "add"));
    OK(cuModuleGetFunction(&scale, module, "scale"));
    int n = 1000, count = 0;
    size_t bytes;
    std::vector<int> h(n, 41);
    OK(cuMemAlloc(&memory, n * 4));
    OK(cuMemcpyHtoD(memory, h.data(), n * 4));
    void *arguments[] = {&memory, &n};
    OK(cuLaunchKernel(add, 4, 1, 1, 256, 1, 1, 0, 0, arguments, 0));
    struct { CUdeviceptr x; int n; } packed = {memory, n};
    size_t size = sizeof packed;
    void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &packed, CU_LAUNCH_PARAM_BUFFER_SIZE, &size,
                     CU_LAUNCH_PARAM_END};
    OK(cuLaunchKernel(add, 4, 1, 1, 256, 1, 1, 0, 0, 0, extra));
    OK(cuCtxSynchronize());
    OK(cuMemcpyDtoH(h.data(), memory, n * 4));
    CUdeviceptr counter;
    OK(cuModuleGetGlobal(&counter, &bytes, module, "counter"));
    OK(cuMemcpyDtoH(&count, counter, 4));
    printf("%d %d %d %zu\\n", h[0], h[n - 1], count, bytes);
    float two = 2, ones[64];
    for (float &x : ones) x = 1.5f;
    CUdeviceptr factor;
    OK(cuModuleGetGlobal(&factor, 0, module, "factor"));
    OK(cuMemcpyHtoD(factor, &two, 4));
    OK(cuMemcpyHtoD(memory, ones, sizeof ones));
    n = 64;
    OK(cuLaunchKernel(scale, 1, 1, 1, 64, 1, 1, 0, 0, arguments, 0));
    OK(cuMemcpyDtoH(ones, memory, sizeof ones));
    int registers, limit;
    OK(cuFuncGetAttribute(&registers, CU_FUNC_ATTRIBUTE_NUM_REGS, add));
    OK(cuFuncGetAttribute(&limit, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, add));
    printf("%g %d %d\\n", ones[63], registers > 0, limit);
    OK(cuMemFree(memory)); OK(cuModuleUnload(module)); OK(cuCtxDestroy(context));
    """,
    file=HOST,
)
def test_a_module_of_a_file_runs(program: Program, code: Path, tmp_path: Path, file: str) -> None:
    done = program.run("--json", tmp_path / "r.json", cwd=code, environment={"FILE": file})
    assert done.stdout == "43 43 2000 4\n3 1 1024\n", done.stderr
    assert done.returncode == 0
    first, second = json.loads((tmp_path / "r.json").read_text())["kernels"]
    assert (first["name"], first["launches"], first["blocks"]) == ("add", 2, 8)
    assert first["load_requests"] == 2 * 33  # 32 warps load x, one thread loads the counter
    assert second["name"] == "scale"
    assert first["machine_code"], first["why_ptx"]


@pytest.mark.program('start(); SHOW(cuModuleLoad(&module, "kernels.sm_90.cubin"));', file=HOST)
def test_machine_code_without_ptx_is_refused(program: Program, code: Path) -> None:
    done = program.run(cwd=code)
    assert done.stdout == "CUDA_ERROR_NO_BINARY_FOR_GPU\n"
    assert "the module has no PTX" in done.stderr
    assert "nvcc -fatbin" in done.stderr


WRONG = {
    "no such kernel": (
        (
            "start(); CUfunction f; OK(cuModuleLoad(&module, PTX));"
            'SHOW(cuModuleGetFunction(&f, module, "subtract"));'
        ),
        "CUDA_ERROR_NOT_FOUND",
        "the module has no kernel `subtract`; its kernels are `add`, `scale`",
    ),
    "no such variable": (
        (
            "start(); OK(cuModuleLoad(&module, PTX));"
            'SHOW(cuModuleGetGlobal(&memory, 0, module, "x"));'
        ),
        "CUDA_ERROR_NOT_FOUND",
        "the module has no variable `x`",
    ),
    "unloaded": (
        (
            "start(); CUfunction f; OK(cuModuleLoad(&module, PTX));"
            'OK(cuModuleGetFunction(&f, module, "add")); OK(cuModuleUnload(module));'
            "SHOW(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0));"
        ),
        "CUDA_ERROR_INVALID_HANDLE",
        "the module of the kernel `add` was unloaded, or its context was destroyed",
    ),
    "context destroyed by another thread": (
        (
            "start(); std::thread([] { OK(cuCtxDestroy(context)); }).join();"
            "SHOW(cuMemAlloc(&memory, 4));"
        ),
        "CUDA_ERROR_CONTEXT_IS_DESTROYED",
        "the current context was destroyed",
    ),
    "memory of a destroyed context": (
        (
            "start(); OK(cuMemAlloc(&memory, 4)); OK(cuCtxDestroy(context));"
            "OK(cuCtxCreate(&context, nullptr, 0, device)); SHOW(cuMemsetD32(memory, 0, 1));"
        ),
        "CUDA_ERROR_INVALID_VALUE",
        "was freed",
    ),
    "no arguments": (
        (
            "start(); CUfunction f; OK(cuModuleLoad(&module, PTX));"
            'OK(cuModuleGetFunction(&f, module, "add"));'
            "SHOW(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0));"
        ),
        "CUDA_ERROR_INVALID_VALUE",
        "the launch passes no arguments, but the kernel has parameters",
    ),
    "copy past the end": (
        "start(); OK(cuMemAlloc(&memory, 4)); int h[2]; SHOW(cuMemcpyHtoD(memory, h, 8));",
        "CUDA_ERROR_INVALID_VALUE",
        "cuMemcpyHtoD(): the destination goes 4 bytes past the end of the 4 bytes of cuMemAlloc() ",
    ),
    "mapped memory to which nothing was written": (
        (
            "start(); CUmemAllocationProp p = {}; p.type = CU_MEM_ALLOCATION_TYPE_PINNED;"
            "p.location.type = CU_MEM_LOCATION_TYPE_DEVICE; size_t n = 2 << 20; int h[2];"
            "CUmemGenericAllocationHandle m; OK(cuMemCreate(&m, n, &p, 0));"
            "OK(cuMemAddressReserve(&memory, 2 * n, 0, 0, 0)); OK(cuMemMap(memory, n, 0, m, 0));"
            "OK(cuMemMap(memory + n, n, 0, m, 0));"  # the same memory
            "CUmemAccessDesc access = {p.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};"
            "OK(cuMemSetAccess(memory, 2 * n, &access, 1)); OK(cuMemsetD32(memory + n, 0, 1));"
            "OK(cuMemcpyDtoH(h, memory, 4)); SHOW(cuMemcpyDtoH(h, memory + n + 4, 4));"
        ),
        "CUDA_SUCCESS",
        "memory to which nothing was written: the 4194304 bytes of cuMemMap() number 1",
    ),
    "mapped without access": (
        (
            "start(); CUmemAllocationProp p = {}; p.type = CU_MEM_ALLOCATION_TYPE_PINNED;"
            "p.location.type = CU_MEM_LOCATION_TYPE_DEVICE; size_t n = 2 << 20;"
            "CUmemGenericAllocationHandle h; OK(cuMemCreate(&h, n, &p, 0));"
            "OK(cuMemAddressReserve(&memory, n, 0, 0, 0)); OK(cuMemMap(memory, n, 0, h, 0));"
            "SHOW(cuMemsetD32(memory, 0, 1));"
        ),
        "CUDA_ERROR_INVALID_VALUE",
        "is not in any allocation of the device",
    ),
    "odd granularity": (
        "start(); SHOW(cuMemAddressReserve(&memory, 4096, 0, 0, 0));",
        "CUDA_ERROR_INVALID_VALUE",
        "multiples of what cuMemGetAllocationGranularity() returns",
    ),
}


def test_wrong_programs_get_cudas_errors_and_a_reason(tmp_path: Path, code: Path) -> None:
    # One program has all mistakes, because compiling takes seconds. Each run makes one of them.
    cases = "\n".join(
        f"case {number}: {{ {body} break; }}" for number, (body, _, _) in enumerate(WRONG.values())
    )
    source = tmp_path / "wrong.cpp"
    source.write_text(
        f'{HEAD}#define PTX "{code / "kernels.ptx"}"\n'
        f"int main(int, char **v) {{ switch (atoi(v[1])) {{\n{cases}\n}} }}\n"
    )
    for number, (what, (_, error, reason)) in enumerate(WRONG.items()):
        done = coalesce("run", source, "--check", "--", number)
        assert done.stdout == f"{error}\n", what
        assert reason in done.stdout + done.stderr, (what, done.stderr)
        assert done.returncode == 3, what


@pytest.mark.program(
    """
    start();
    const char *ptx = ".version 8.0\\n.target sm_70\\n.address_size 64\\n"
                      ".visible .entry f() { .reg .b32 %r; mov.b32 %r, %nothing; ret; }\\n";
    char log[400] = "";
    CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
    void *values[] = {log, (void *)sizeof log};
    SHOW(cuModuleLoadDataEx(&module, ptx, 2, options, values));
    printf("%s\\n", log);
    """,
    file=HOST,
)
def test_wrong_ptx_is_refused_with_the_assemblers_message(program: Program) -> None:
    done = program.run()
    assert done.stdout.startswith("CUDA_ERROR_INVALID_PTX\n")
    assert "%nothing" in done.stdout


@pytest.mark.program(
    """
    OK(cuInit(0)); OK(cuDeviceGet(&device, 0));
    CUcontext primary, own, now;
    unsigned flags; int active;
    OK(cuDevicePrimaryCtxRetain(&primary, device));
    OK(cuDevicePrimaryCtxGetState(device, &flags, &active));
    OK(cuCtxGetCurrent(&now));
    printf("%d %d\\n", active, now == 0);
    OK(cuCtxSetCurrent(primary));
    OK(cuCtxCreate(&own, nullptr, 0, device));
    OK(cuCtxGetCurrent(&now)); printf("%d\\n", now == own);
    OK(cuMemAlloc(&memory, 64));
    OK(cuCtxPopCurrent(&now)); printf("%d\\n", now == own);
    OK(cuCtxGetCurrent(&now)); printf("%d\\n", now == primary);
    std::thread([&] {
        CUcontext here;
        OK(cuCtxGetCurrent(&here)); printf("%d\\n", here == 0);
        OK(cuCtxPushCurrent(own));
        CUcontext owner;
        OK(cuPointerGetAttribute(&owner, CU_POINTER_ATTRIBUTE_CONTEXT, memory));
        printf("%d\\n", owner == own);
        OK(cuMemFree(memory));
        OK(cuCtxPopCurrent(&here));
        SHOW(cuCtxPopCurrent(&here));
    }).join();
    OK(cuCtxDestroy(own));
    SHOW(cuCtxPushCurrent(own));
    OK(cuDevicePrimaryCtxRelease(device));
    SHOW(cuMemAlloc(&memory, 4));
    SHOW(cuDevicePrimaryCtxRelease(device));
    """,
    file=HOST,
)
def test_contexts_have_a_stack_in_each_thread(program: Program) -> None:
    done = program.run()
    assert done.stdout.splitlines() == [
        "1 1", "1", "1", "1", "1", "1", "CUDA_ERROR_INVALID_CONTEXT",
        "CUDA_ERROR_CONTEXT_IS_DESTROYED", "CUDA_ERROR_CONTEXT_IS_DESTROYED",
        "CUDA_ERROR_INVALID_CONTEXT",
    ]  # fmt: skip


@pytest.mark.program(
    """
    int *x, h[64], n = 64;
    cudaMalloc(&x, sizeof h);
    cudaMemset(x, 0, sizeof h);
    cudaStream_t stream;
    cudaStreamCreate(&stream);
    // The runtime API has initialized the driver and made the primary context current.
    CUcontext now, primary;
    OK(cuCtxGetCurrent(&now));
    OK(cuDevicePrimaryCtxRetain(&primary, 0));
    OK(cuModuleLoad(&module, "kernels.fatbin"));
    CUfunction f;
    OK(cuModuleGetFunction(&f, module, "add"));
    void *arguments[] = {&x, &n};
    OK(cuLaunchKernel(f, 1, 1, 1, 64, 1, 1, 0, stream, arguments, 0));
    twice<<<1, 64, 0, stream>>>(x);
    CUfunction g;
    cudaGetFuncBySymbol(&g, (void *)twice);
    arguments[0] = &x;
    OK(cuLaunchKernel(g, 1, 1, 1, 64, 1, 1, 0, stream, arguments, 0));
    cudaMemcpyAsync(h, x, sizeof h, cudaMemcpyDeviceToHost, stream);
    OK(cuStreamSynchronize(stream));
    CUdeviceptr start;
    size_t bytes;
    OK(cuMemGetAddressRange(&start, &bytes, (CUdeviceptr)(x + 5)));
    printf("%d %d %d %zu\\n", h[63], now == primary, start == (CUdeviceptr)x, bytes);
    SHOW(cuMemFree((CUdeviceptr)x + 4));
    printf("%s\\n", cudaGetErrorName(cudaGetLastError()));
    cudaFree(x);
    """,
    "__global__ void twice(int *x) { x[threadIdx.x] *= 2; }",
)
def test_both_apis_share_their_objects(program: Program, code: Path) -> None:
    done = program.run(cwd=code)
    assert done.stdout == "4 1 1 256\nCUDA_ERROR_INVALID_VALUE\ncudaSuccess\n", done.stderr


@pytest.mark.program(
    """
    start();
    CUstream stream; CUevent first, last;
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    OK(cuEventCreate(&first, 0)); OK(cuEventCreate(&last, 0));
    size_t pitch;
    OK(cuMemAllocPitch(&memory, &pitch, 40, 4, 4));
    OK(cuEventRecord(first, stream));
    OK(cuMemsetD2D16Async(memory, pitch, 0x0102, 20, 4, stream));
    OK(cuMemsetD8(memory + pitch, 7, 2));
    unsigned char h[4][10] = {};
    CUDA_MEMCPY2D c = {};
    c.srcMemoryType = CU_MEMORYTYPE_DEVICE; c.srcDevice = memory; c.srcPitch = pitch;
    c.dstMemoryType = CU_MEMORYTYPE_HOST; c.dstHost = h; c.dstPitch = 10;
    c.WidthInBytes = 10; c.Height = 4;
    OK(cuMemcpy2D(&c));
    OK(cuEventRecord(last, stream)); OK(cuEventSynchronize(last));
    float ms; OK(cuEventElapsedTime(&ms, first, last));
    printf("%zu %d %d %d %d %d\\n", pitch % 512, h[0][0], h[0][1], h[1][0], h[3][9], ms > 0);
    void *pinned; OK(cuMemHostAlloc(&pinned, 64, CU_MEMHOSTALLOC_DEVICEMAP));
    CUdeviceptr same; OK(cuMemHostGetDevicePointer(&same, pinned, 0));
    CUmemorytype type; OK(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, same));
    printf("%d %d\\n", same == (CUdeviceptr)pinned, type);
    OK(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, memory));
    int on_stack;
    printf("%d %s\\n", type, name(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                                        (CUdeviceptr)&on_stack)));
    CUdeviceptr managed; OK(cuMemAllocManaged(&managed, 64, CU_MEM_ATTACH_GLOBAL));
    OK(cuMemsetD32(managed, 5, 16));
    OK(cuCtxSynchronize());
    printf("%d\\n", ((int *)managed)[15]);
    OK(cuMemFree(managed)); OK(cuMemFreeHost(pinned)); OK(cuMemFree(memory));
    OK(cuEventDestroy(first)); OK(cuEventDestroy(last)); OK(cuStreamDestroy(stream));
    SHOW(cuStreamSynchronize(stream));
    """,
    file=HOST,
)
def test_streams_events_copies_and_fills(program: Program) -> None:
    done = program.run()
    assert done.stdout == (
        "0 2 1 7 1 1\n1 1\n2 CUDA_ERROR_INVALID_VALUE\n5\nCUDA_ERROR_INVALID_HANDLE\n"
    ), done.stderr


@pytest.mark.program(
    """
    start();
    CUmemAllocationProp p = {};
    p.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    p.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    size_t unit;
    OK(cuMemGetAllocationGranularity(&unit, &p, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
    OK(cuMemAddressReserve(&memory, 3 * unit, 0, 0, 0));
    CUmemGenericAllocationHandle a, b;
    OK(cuMemCreate(&a, unit, &p, 0));
    OK(cuMemCreate(&b, unit, &p, 0));
    OK(cuMemMap(memory, unit, 0, a, 0));
    OK(cuMemMap(memory + unit, unit, 0, b, 0));
    OK(cuMemMap(memory + 2 * unit, unit, 0, a, 0));  // the same memory as the first part
    CUmemAccessDesc access = {p.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    OK(cuMemSetAccess(memory, 3 * unit, &access, 1));
    OK(cuMemRelease(a));
    OK(cuMemRelease(b));
    OK(cuModuleLoad(&module, "kernels.ptx"));
    CUfunction f;
    OK(cuModuleGetFunction(&f, module, "add"));
    int n = 2 * unit / 4, first, middle, last;  // the kernel's array is in both allocations
    void *arguments[] = {&memory, &n};
    OK(cuLaunchKernel(f, n / 1024, 1, 1, 1024, 1, 1, 0, 0, arguments, 0));
    OK(cuMemcpyDtoH(&first, memory, 4));
    OK(cuMemcpyDtoH(&middle, memory + 2 * unit - 4, 4));
    OK(cuMemcpyDtoH(&last, memory + 2 * unit, 4));
    printf("%d %d %d\\n", first, middle, last);
    OK(cuMemUnmap(memory, 3 * unit));
    OK(cuMemAddressFree(memory, 3 * unit));
    SHOW(cuMemcpyDtoH(&first, memory, 4));
    for (int i = 0; i < 20; ++i) {  // more than all simulated addresses
        OK(cuMemAddressReserve(&memory, size_t(1) << 40, 0, 0, 0));
        OK(cuMemAddressFree(memory, size_t(1) << 40));
    }
    for (int i = 0; i < 20; ++i) {
        CUdeviceptr other;
        OK(cuMemAlloc(&memory, 4096)); OK(cuMemAlloc(&other, 1 << 20));
        if (memory == other) puts("two allocations have one address");
        OK(cuMemFree(memory)); OK(cuMemFree(other));
    }
    """,
    file=HOST,
)
def test_memory_is_mapped_at_reserved_addresses(program: Program, code: Path) -> None:
    done = program.run(cwd=code)
    assert done.stdout == "1 1 1\nCUDA_ERROR_INVALID_VALUE\n", done.stderr


@pytest.mark.program(
    """
    start();
    CUlibrary library; CUkernel kernel; CUfunction f;
    OK(cuLibraryLoadFromFile(&library, "kernels.ptx", 0, 0, 0, 0, 0, 0));
    unsigned count;
    OK(cuLibraryGetKernelCount(&count, library));
    OK(cuLibraryGetKernel(&kernel, library, "add"));
    OK(cuKernelGetFunction(&f, kernel));
    const char *text;
    OK(cuKernelGetName(&text, kernel));
    int blocks, grid, block;
    OK(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, f, 256, 0));
    OK(cuOccupancyMaxPotentialBlockSize(&grid, &block, f, 0, 0, 0));
    printf("%u %s %d %d %d\\n", count, text, blocks, grid, block);
    SHOW(cuFuncSetAttribute(f, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 1 << 20));
    CUlinkState state; void *cubin; size_t bytes;
    OK(cuLinkCreate(0, 0, 0, &state));
    OK(cuLinkAddFile(state, CU_JIT_INPUT_PTX, "kernels.ptx", 0, 0, 0));
    OK(cuLinkComplete(state, &cubin, &bytes));
    OK(cuModuleLoadData(&module, cubin));
    OK(cuLinkDestroy(state));
    OK(cuModuleGetFunction(&f, module, "add"));
    int n = 32, h = 0;
    OK(cuMemAlloc(&memory, 128)); OK(cuMemsetD32(memory, 6, 32));
    void *arguments[] = {&memory, &n};
    CUlaunchConfig config = {1, 1, 1, 32, 1, 1};
    OK(cuLaunchKernelEx(&config, f, arguments, 0));
    OK(cuLaunchCooperativeKernel(f, 1, 1, 1, 32, 1, 1, 0, 0, arguments));
    OK(cuMemcpyDtoH(&h, memory, 4));
    printf("%d\\n", h);
    """,
    file=HOST,
)
def test_libraries_the_linker_and_occupancy(program: Program, code: Path) -> None:
    done = program.run(cwd=code)
    assert done.stdout == "2 add 8 264 1024\nCUDA_ERROR_INVALID_VALUE\n8\n", done.stderr


@pytest.mark.program(
    """
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    auto init = (CUresult (*)(unsigned))dlsym(driver, "cuInit");
    SHOW(init(0));
    CUresult (*create)(CUcontext *, unsigned, CUdevice);
    CUdriverProcAddressQueryResult status;
    // A program of CUDA 11 gets the function that CUDA 11 had.
    OK(cuGetProcAddress("cuCtxCreate", (void **)&create, 11000, 0, &status));
    OK(create(&context, 0, 0));
    CUresult (*allocate)(CUdeviceptr *, size_t);
    OK(cuGetProcAddress("cuMemAlloc", (void **)&allocate, 13000, 0, &status));
    OK(allocate(&memory, 64));
    void *nothing;
    OK(cuGetProcAddress("cuNothing", &nothing, 13000, 0, &status));
    printf("%d %d\\n", nothing == 0, status);
    SHOW(cuGreenCtxDestroy(0));
    """,
    file=HOST,
)
def test_functions_are_found_by_name(program: Program) -> None:
    done = program.run()
    assert done.stdout == "CUDA_SUCCESS\n1 1\nCUDA_ERROR_NOT_SUPPORTED\n", done.stderr
    assert "cuNothing() of the driver API is not simulated" in done.stderr
    assert "cuGreenCtxDestroy() is not simulated" in done.stderr


def test_an_executable_that_uses_the_driver_api_alone_runs(tmp_path: Path, code: Path) -> None:
    source = tmp_path / "program.cpp"
    body = f'start(); OK(cuModuleLoad(&module, "{code}/kernels.ptx")); printf("loaded\\n");'
    source.write_text(f"{HEAD}\nint main() {{ {body} }}\n")
    header = Path(nvcc.nvcc()).resolve().parent.parent / "include"
    (tmp_path / "libcuda.so.1").symlink_to(runtime_library.library())
    command = ["g++", f"-I{header}", source, tmp_path / "libcuda.so.1", "-o", tmp_path / "own"]
    wheel = pathfinder.file_of("nvidia-cuda-runtime", "cuda.h")
    subprocess.run([*command, *([f"-I{Path(wheel).parent}"] if wheel else [])], check=True)
    done = coalesce("exec", tmp_path / "own")
    assert (done.returncode, done.stdout) == (0, "loaded\n"), done.stderr


@pytest.mark.program(
    """
    start();
    OK(cuModuleLoad(&module, "kernels.ptx"));
    CUDA_KERNEL_NODE_PARAMS p = {};
    OK(cuModuleGetFunction(&p.func, module, "add"));
    OK(cuMemAlloc(&memory, 128)); OK(cuMemsetD32(memory, 1, 32));
    int n = 32, h = 0;
    void *arguments[] = {&memory, &n};
    p.gridDimX = p.gridDimY = p.gridDimZ = 1;
    p.blockDimX = 32; p.blockDimY = p.blockDimZ = 1;
    p.kernelParams = arguments;
    CUgraph graph; CUgraphNode node, again; CUgraphExec executable;
    OK(cuGraphCreate(&graph, 0));
    OK(cuGraphAddKernelNode(&node, graph, 0, 0, &p));
    OK(cuGraphAddKernelNode(&again, graph, &node, 1, &p));
    OK(cuGraphInstantiate(&executable, graph, 0));
    OK(cuGraphLaunch(executable, 0)); OK(cuGraphLaunch(executable, 0));
    OK(cuMemcpyDtoH(&h, memory, 4));
    printf("%d\\n", h);
    """,
    file=HOST,
)
def test_graphs_of_the_driver_api(program: Program, code: Path) -> None:
    done = program.run(cwd=code)
    assert done.stdout == "5\n", done.stderr


NVRTC = r"""
#include <nvrtc.h>
std::vector<char> compiled(const char *architecture, bool ptx, std::string &lowered) {
    const char *source = R"(template <class T> __global__ void twice(T *x) {
        x[threadIdx.x] *= 2;
    })";
    nvrtcProgram made;
    if (nvrtcCreateProgram(&made, source, "twice.cu", 0, 0, 0)) exit(8);
    nvrtcAddNameExpression(made, "twice<int>");
    const char *options[] = {architecture};
    if (nvrtcCompileProgram(made, 1, options)) exit(7);
    size_t bytes;
    ptx ? nvrtcGetPTXSize(made, &bytes) : nvrtcGetCUBINSize(made, &bytes);
    std::vector<char> code(bytes);
    ptx ? nvrtcGetPTX(made, code.data()) : nvrtcGetCUBIN(made, code.data());
    const char *name;
    nvrtcGetLoweredName(made, "twice<int>", &name);
    lowered = name;
    nvrtcDestroyProgram(&made);
    return code;
}
"""


@pytest.mark.parametrize(("arch", "ptx"), [("sm_90", 0), ("compute_80", 1)])
@pytest.mark.program(
    """
    start();
    std::string lowered;
    const auto code = compiled(getenv("ARCH"), atoi(getenv("PTX")), lowered);
    OK(cuModuleLoadData(&module, code.data()));
    CUfunction f;
    OK(cuModuleGetFunction(&f, module, lowered.c_str()));
    OK(cuMemAlloc(&memory, 128)); OK(cuMemsetD32(memory, 21, 32));
    void *arguments[] = {&memory};
    OK(cuLaunchKernel(f, 1, 1, 1, 32, 1, 1, 0, 0, arguments, 0));
    int h;
    OK(cuMemcpyDtoH(&h, memory + 124, 4));
    printf("%d\\n", h);
    """,
    NVRTC,
    file="nvrtc.cpp",
)
def test_a_program_compiles_its_kernel_at_run_time(
    program: Program, tmp_path: Path, arch: str, ptx: int
) -> None:
    environment = {"ARCH": f"--gpu-architecture={arch}", "PTX": ptx}
    done = program.run("--json", tmp_path / "r.json", environment=environment)
    if "nvrtc.h" in done.stderr:
        pytest.skip("needs the headers of nvidia-cuda-nvrtc")
    assert done.stdout == "42\n", done.stderr
    (kernel,) = json.loads((tmp_path / "r.json").read_text())["kernels"]
    assert (kernel["name"], kernel["load_requests"]) == ("twice<int>", 1)
    if not ptx:  # ptxas may be older than NVRTC, so it may not know its PTX
        assert kernel["machine_code"], kernel["why_ptx"]
        assert kernel["file"].endswith("twice.cu")


@pytest.mark.program(
    """
    start();
    float h[3][4], back[3][4] = {};
    for (int i = 0; i < 12; ++i) h[i / 4][i % 4] = i;
    CUDA_ARRAY_DESCRIPTOR d = {4, 3, CU_AD_FORMAT_FLOAT, 1}, e;
    CUarray a;
    OK(cuArrayCreate(&a, &d));
    OK(cuArrayGetDescriptor(&e, a));
    printf("%zu %zu %d %u\\n", e.Width, e.Height, e.Format, e.NumChannels);
    CUDA_MEMCPY2D c = {};
    c.srcMemoryType = CU_MEMORYTYPE_HOST; c.srcHost = h; c.srcPitch = 16;
    c.dstMemoryType = CU_MEMORYTYPE_ARRAY; c.dstArray = a;
    c.WidthInBytes = 16; c.Height = 3;
    OK(cuMemcpy2D(&c));
    CUDA_MEMCPY2D b = {};
    b.srcMemoryType = CU_MEMORYTYPE_ARRAY; b.srcArray = a; b.srcXInBytes = 4; b.srcY = 1;
    b.dstMemoryType = CU_MEMORYTYPE_HOST; b.dstHost = back; b.dstPitch = 16;
    b.WidthInBytes = 8; b.Height = 2;
    OK(cuMemcpy2D(&b));
    printf("%g %g %g %g\\n", back[0][0], back[0][1], back[1][0], back[1][1]);
    b.srcXInBytes = 2;
    SHOW(cuMemcpy2D(&b));
    CUDA_ARRAY_DESCRIPTOR line = {8, 0, CU_AD_FORMAT_UNSIGNED_INT8, 1};
    CUarray bytes;
    OK(cuArrayCreate(&bytes, &line));
    OK(cuMemcpyHtoA(bytes, 2, "abcdef", 6));
    char text[4] = {};
    OK(cuMemcpyAtoH(text, bytes, 3, 3));
    printf("%s\\n", text);
    CUDA_ARRAY3D_DESCRIPTOR cube = {4, 4, 2, CU_AD_FORMAT_SIGNED_INT16, 2,
                                    CUDA_ARRAY3D_SURFACE_LDST}, got;
    CUarray s;
    OK(cuArray3DCreate(&s, &cube));
    OK(cuArray3DGetDescriptor(&got, s));
    printf("%zu %d %u %u\\n", got.Depth, got.Format, got.NumChannels, got.Flags);
    CUDA_RESOURCE_DESC r = {}, back_r;
    r.resType = CU_RESOURCE_TYPE_ARRAY; r.res.array.hArray = s;
    CUsurfObject surface;
    OK(cuSurfObjectCreate(&surface, &r));
    OK(cuSurfObjectGetResourceDesc(&back_r, surface));
    printf("%d\\n", back_r.res.array.hArray == s);
    OK(cuSurfObjectDestroy(surface));
    r.res.array.hArray = a;
    CUDA_TEXTURE_DESC t = {}, back_t;
    t.addressMode[0] = t.addressMode[1] = CU_TR_ADDRESS_MODE_CLAMP;
    t.filterMode = CU_TR_FILTER_MODE_LINEAR;
    CUtexObject texture;
    OK(cuTexObjectCreate(&texture, &r, &t, nullptr));
    OK(cuTexObjectGetTextureDesc(&back_t, texture));
    OK(cuTexObjectGetResourceDesc(&back_r, texture));
    printf("%d %u %d\\n", back_t.filterMode, back_t.flags, back_r.res.array.hArray == a);
    CUfunction f;
    OK(cuModuleLoad(&module, "texture.ptx"));
    OK(cuModuleGetFunction(&f, module, "sample"));
    OK(cuMemAlloc(&memory, 16));
    void *arguments[] = {&texture, &memory};
    OK(cuLaunchKernel(f, 1, 1, 1, 3, 1, 1, 0, nullptr, arguments, nullptr));
    OK(cuMemcpyDtoH(back, memory, 12));
    printf("%g %g %g\\n", back[0][0], back[0][1], back[0][2]);
    OK(cuTexObjectDestroy(texture));
    OK(cuArrayDestroy(a)); OK(cuArrayDestroy(bytes)); OK(cuArrayDestroy(s));
    SHOW(cuArrayDestroy(a));
    CUmipmappedArray m;
    CUarray level;
    OK(cuMipmappedArrayCreate(&m, &cube, 2));
    OK(cuMipmappedArrayGetLevel(&level, m, 1));
    OK(cuArray3DGetDescriptor(&got, level));
    printf("%zu\\n", got.Width);
    d.Format = CU_AD_FORMAT_NV12;
    SHOW(cuArrayCreate(&a, &d));
    OK(cuCtxDestroy(context));
    OK(cuCtxCreate(&context, nullptr, 0, device));
    SHOW(cuMipmappedArrayDestroy(m));
    """,
    file=HOST,
)
def test_arrays_and_texture_objects(program: Program, tmp_path: Path) -> None:
    (tmp_path / "texture.cu").write_text(
        'extern "C" __global__ void sample(cudaTextureObject_t t, float *y) {\n'
        "    y[threadIdx.x] = tex2D<float>(t, threadIdx.x + 1.0f, 1.0f);\n}\n"
    )
    words = [nvcc.nvcc(), "-ptx", "-arch=compute_90", "-o", "texture.ptx", "texture.cu"]
    subprocess.run(words, cwd=tmp_path, check=True, capture_output=True)
    done = program.run(cwd=tmp_path)
    assert done.stdout.splitlines() == [
        "4 3 32 1", "5 6 9 10", "CUDA_ERROR_INVALID_VALUE", "bcd", "2 9 2 2", "1", "1 0 1",
        "2.5 3.5 4.5", "CUDA_ERROR_INVALID_VALUE", "2", "CUDA_ERROR_NOT_SUPPORTED",
        "CUDA_ERROR_INVALID_VALUE",
    ], done.stderr  # fmt: skip
