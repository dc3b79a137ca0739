"""How `coalesce run` compiles programs: when again, with which names of CUDA, what it refuses."""

import os
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from whole_programs import NEEDS_COMPILERS, coalesce

from coalesce._core import CompileError
from coalesce.compile import nvcc
from coalesce.compile.runtime_library import link_libraries

pytestmark = NEEDS_COMPILERS

HEAD = "#include <cstdio>\n#include <cstdlib>\n#include <cuda_runtime.h>\n"
HOST = "#include <cstdio>\n"


@pytest.fixture
def built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """Build a program in a new folder with an empty cache. Return what the program prints."""
    monkeypatch.setenv("COALESCE_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)

    def run(*options: str, sources: Sequence[str] = ("main.cpp",)) -> str:
        Path("made").unlink(missing_ok=True)
        Path("made").write_bytes(nvcc.build(sources, options, arch=90).executable)
        Path("made").chmod(0o700)
        return subprocess.run(["./made"], capture_output=True, text=True, check=True).stdout.strip()

    return run


def compiled(folder: Path, name: str, text: str, archive: str) -> None:
    """Compile `text`, and put the object file into an archive, which is made new."""
    (folder / f"{name}.cpp").write_text(text)
    subprocess.run(["g++", "-c", f"{name}.cpp", "-o", f"{name}.o"], cwd=folder, check=True)
    (folder / archive).unlink(missing_ok=True)
    subprocess.run(["ar", "rc", archive, f"{name}.o"], cwd=folder, check=True)


PRINTS_B = HOST + '#include <b.h>\nint main() { printf("%d", B); }\n'
ASSEMBLES = """
asm(".data\\nvalue: .incbin \\"b.h\\"\\n.byte 0\\n.text");
extern "C" const char value[] asm("value");
int main() { fputs(value, stdout); }
"""
FROM_LIBRARY = HOST + 'int b();\nint main() { printf("%d", b()); }\n'
# What a build depends on: the program, its options, and two ways to prepare the folder. After the
# first the program prints 1, after the second 2.
DEPENDS: dict[str, tuple[str, list[str], str, str]] = {
    "header": (PRINTS_B, ["-I."], "#define B 1", "#define B 2"),
    "macro": (
        HOST + 'int main() { printf("%d", B); }\n',
        ["-include", "b.h"],
        "#define B 1",
        "#define B 2",
    ),
    "incbin": (HOST + ASSEMBLES, [], "1", "2"),
    "incbin in parts": (
        HOST + ASSEMBLES.replace(".incbin", r'.inc" "\142in'),
        [],
        "1",
        "2",
    ),
    "assembler include": (
        HOST + ASSEMBLES.replace(".incbin", ".include"),
        [],
        '.ascii "1"',
        '.ascii "2"',
    ),
    "options": (PRINTS_B, ["-I.", "--options-file", "more"], "#define B 1", ""),
}


@pytest.mark.parametrize("case", DEPENDS)
def test_a_changed_file_is_compiled_again(case: str, built: Callable[..., str]) -> None:
    text, options, first, second = DEPENDS[case]
    Path("main.cpp").write_text(text)
    for number, content in enumerate((first, second), 1):
        Path("b.h").write_text(content)
        Path("more").write_text("" if content else "-DB=2")
        status = Path("main.cpp").stat()
        os.utime("b.h", ns=(status.st_atime_ns, status.st_mtime_ns))
        assert built(*options) == str(number)


def test_a_header_that_appears_earlier_is_used(built: Callable[..., str]) -> None:
    Path("main.cpp").write_text(
        HOST + "#include <b.h>\n#include <sub/c.h>\n"
        '#if __has_include("opt.h")\n#include "opt.h"\n#else\n#define OPT 1\n#endif\n'
        'int main() { printf("%d %d %d", B, C, OPT); }\n'
    )
    steps = [
        ({"late/b.h": "#define B 1", "late/sub/c.h": "#define C 1"}, "1 1 1"),
        ({"early/b.h": "#define B 2"}, "2 1 1"),
        ({"early/sub/c.h": "#define C 2"}, "2 2 1"),
        ({"opt.h": "#define OPT 2"}, "2 2 2"),
        ({"b.h": "#define B 3"}, "2 2 2"),  # not on the path
    ]
    for files, expected in steps:
        for name, content in files.items():
            Path(name).parent.mkdir(parents=True, exist_ok=True)
            Path(name).write_text(content + "\n")
        assert built("-Iearly", "-Ilate") == expected


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("NVCC_APPEND_FLAGS", "-DB=2"),
        ("NVCC_PREPEND_FLAGS", "-DB=2"),
        ("CPATH", "more"),
        ("CPLUS_INCLUDE_PATH", "more"),
    ],
)
def test_a_variable_of_the_compilers_counts(
    variable: str, value: str, built: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("main.cpp").write_text(
        HOST + "#if __has_include(<b.h>)\n#include <b.h>\n#endif\n#ifndef B\n#define B 1\n#endif\n"
        'int main() { printf("%d", B); }\n'
    )
    Path("more").mkdir()
    Path("more/b.h").write_text("#define B 2\n")
    monkeypatch.delenv(variable, raising=False)
    assert built() == "1"
    monkeypatch.setenv(variable, value)
    assert built() == "2"


def test_libraries_count(built: Callable[..., str], tmp_path: Path) -> None:
    Path("main.cpp").write_text(FROM_LIBRARY)
    for folder in ("early", "late"):
        Path(folder).mkdir()
    options = ("-Learly", "-Llate", "-lb")
    for folder, number in (("late", 1), ("late", 2), ("early", 3)):
        compiled(tmp_path / folder, "b", f"int b() {{ return {number}; }}\n", "libb.a")
        assert built(*options) == str(number)
    assert built(sources=("main.cpp", "late/b.o")) == "2"
    compiled(tmp_path / "late", "b", "int b() { return 4; }\n", "libb.a")
    assert built(sources=("main.cpp", "late/b.o")) == "4"


@pytest.mark.parametrize("text", ["__DATE__ __TIME__", "PASTE(__TI, ME__)", "PASTE(__, TIME__)"])
def test_the_time_is_that_of_the_build(built: Callable[..., str], text: str) -> None:
    Path("paste.h").write_text("#define PASTE_(a, b) a##b\n#define PASTE(a, b) PASTE_(a, b)\n")
    Path("main.cpp").write_text(f'#include "paste.h"\n{HOST}int main() {{ puts({text}); }}\n')
    first = built()
    time.sleep(1.1)
    assert built() != first


def test_a_replacement_is_linked_only_if_it_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    replaced: list[Path] = []
    monkeypatch.setattr(nvcc, "_replacement", lambda _, file, __: replaced.append(file) or b"")
    source = tmp_path / "main.cu"
    source.write_text('// cublasCreate()\nint main() { return "cublasCreate("[0]; }\n')
    nvcc.build([source], arch=90)
    assert not replaced


def test_the_message_about_a_missing_header_is_short(tmp_path: Path) -> None:
    source = tmp_path / "main.cu"
    source.write_text("#include <cstdio>\n#include <no/such/header.hpp>\nint main() {}\n")
    with pytest.raises(CompileError, match=r"header\.hpp: No such file") as raised:
        nvcc.build([source], arch=90)
    assert len(str(raised.value)) < 1000


# What a name of a file does to a shell or to nvcc.
@pytest.mark.parametrize(
    "name",
    [
        *(
            "$(touch made)",
            "`touch made`",
            "a;touch made;",
            "a/$(touch made)/c",
            "a b",
            "a,b",
            "a=b",
        ),
        *("q'q", "#", ">", "é", "-c", "a\\b", "\x1b[1m", 'q"q'),
    ],
)
def test_a_name_of_a_file_is_only_a_name(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    source = Path(name + ".cu")
    source.parent.mkdir(parents=True, exist_ok=True)
    source.write_text(
        '#include "own.h"\n__global__ void k(int *x) { x[99999999] = 1; }\n'
        "int main() {\n    int *x;\n    cudaMalloc(&x, N);\n    k<<<1, 1>>>(x);\n"
        "    return cudaDeviceSynchronize();\n}\n"
    )
    (source.parent / "own.h").write_text("#define N 4\n")
    before = {*tmp_path.rglob("*")}
    done = coalesce("run", f"./{source}")
    assert done.returncode == 700 % 256, done.stderr
    assert {*tmp_path.rglob("*")} == before
    assert ("line 2" in done.stderr) == ('"' not in name)  # ptxas cannot read a name with "


def test_a_name_that_no_include_can_have_is_refused(tmp_path: Path) -> None:
    source = tmp_path / "a\nb.cu"
    source.write_text("int main() {}\n")
    done = coalesce("run", source)
    assert done.returncode == 1
    assert "the path of a program must not have a line break" in done.stderr


CHANGED = r"""
#define OK(call) do { if (int e_ = call) { printf("%s: %d\n", #call, e_); exit(9); } } while (0)
int main() {
    cudaDeviceProp p; int *x; float ms;
    OK(cudaGetDeviceProperties_v2(&p, 0)); OK(cudaThreadSynchronize());
    OK(cudaMallocManaged(&x, 512)); *x = p.clockRate;
    cudaMemLocation here = {cudaMemLocationTypeDevice, 0};
    OK(cudaMemAdvise_v2(x, 512, cudaMemAdviseSetPreferredLocation, here));
    OK(cudaMemAdvise(x, 512, cudaMemAdviseSetReadMostly, 0));
    OK(cudaMemPrefetchAsync_v2(x, 512, here, 0, 0)); OK(cudaMemPrefetchAsync(x, 512, 0));
    cudaPointerAttributes a; OK(cudaPointerGetAttributes(&a, x));
    OK(a.memoryType != cudaMemoryTypeDevice || !a.isManaged || a.type != cudaMemoryTypeManaged);
    OK(cudaDeviceSetSharedMemConfig(cudaSharedMemBankSizeEightByte));
    cudaSharedMemConfig banks; OK(cudaDeviceGetSharedMemConfig(&banks));
    OK(banks != cudaSharedMemBankSizeFourByte);
    cudaEvent_t e; OK(cudaEventCreate(&e)); OK(cudaEventRecord(e));
    OK(cudaEventElapsedTime_v2(&ms, e, e));
    cudaGraph_t g; cudaGraphNode_t n[2], from[2], to[2]; size_t count = 2;
    OK(cudaGraphCreate(&g, 0));
    for (auto &node : n) OK(cudaGraphAddEmptyNode(&node, g, nullptr, 0));
    OK(cudaGraphAddDependencies(g, &n[0], &n[1], 1));
    OK(cudaGraphGetEdges(g, from, to, &count)); OK(count != 1 || from[0] != n[0] || to[0] != n[1]);
    OK(cudaGraphNodeGetDependencies(n[1], from, &count)); OK(count != 1);
    OK(cudaGraphNodeGetDependentNodes(n[0], to, &count)); OK(count != 1);
    OK(cudaGraphGetEdges(g, nullptr, to, &count) != cudaErrorInvalidValue);
    OK(cudaGraphGetEdges(g, from, nullptr, &count) != cudaErrorInvalidValue);
    OK(cudaGraphAddDependencies(g, nullptr, &n[1], 1) != cudaErrorInvalidValue);
    OK(cudaGraphRemoveDependencies(g, &n[0], nullptr, 1) != cudaErrorInvalidValue);
    OK(cudaGraphAddDependencies(g, nullptr, nullptr, 0));
    OK(cudaGraphRemoveDependencies(g, &n[0], &n[1], 1));
    cudaStream_t s; OK(cudaStreamCreate(&s)); cudaStreamCaptureStatus c;
    OK(cudaStreamGetCaptureInfo_v2(s, &c)); OK(c != cudaStreamCaptureStatusNone);
    cudaLaunchParams l = {}; (void)l;
    OK(cudaLaunchCooperativeKernelMultiDevice(nullptr, 2) != cudaErrorInvalidValue);
    puts("right");
}
"""
DRIVER = r"""
#include <cuda.h>
#define OK(call) do { if (int e_ = call) { printf("%s: %d\n", #call, e_); exit(9); } } while (0)
int main() {
    CUdevice d; CUcontext c; CUdeviceptr p; CUgraph g; size_t n = 0;
    OK(cuInit(0)); OK(cuDeviceGet(&d, 0)); OK(cuCtxCreate(&c, 0, d));
    OK(cuMemAllocManaged(&p, 64, CU_MEM_ATTACH_GLOBAL));
    OK(cuMemAdvise(p, 64, CU_MEM_ADVISE_SET_READ_MOSTLY, d));
    OK(cuMemPrefetchAsync(p, 64, d, 0));
    OK(cuCtxSetSharedMemConfig(CU_SHARED_MEM_CONFIG_DEFAULT_BANK_SIZE));
    OK(cuGraphCreate(&g, 0)); OK(cuGraphGetEdges(g, nullptr, nullptr, &n));
    puts("right");
}
"""
C = """
#include <stdio.h>
#include <cuda_runtime.h>
int main(void) {
    if (cudaThreadSynchronize() == cudaSuccess && cudaThreadExit() == cudaSuccess) puts("right");
    return 0;
}
"""
IN_C = 'extern "C" {\n#include <cuda_runtime_api.h>\n}\n#include <cstdio>\n#include <cstdlib>\n'


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("main.cu", HEAD + CHANGED),
        ("main.cpp", HEAD + CHANGED),
        ("main.cc", IN_C + CHANGED.replace("(&x, 512)", "((void **)&x, 512)")),
        ("main.c", C),
        ("driver.cpp", HEAD + DRIVER),
        ("driver.cu", DRIVER.replace("#include", HEAD + "#include", 1)),
        ("other.cpp", HOST + 'struct float4 {}; struct dim3 {}; int main() { puts("right"); }'),
    ],
)
def test_names_of_older_versions(name: str, text: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(text)
    done = coalesce("run", tmp_path / name)
    assert done.stdout == "right\n", done.stderr


@pytest.mark.parametrize(
    "text",
    [
        """
        #include <thrust/device_vector.h>
        #include <thrust/functional.h>
        #include <thrust/transform_reduce.h>
        struct square : thrust::unary_function<int, int> {
            __host__ __device__ int operator()(int x) const { return x * x; }
        };
        struct add : public thrust::binary_function<int, int, int> {
            __host__ __device__ int operator()(int x, int y) const { return x + y; }
        };
        int main() {
            thrust::device_vector<int> v(4, 2);
            return thrust::transform_reduce(v.begin(), v.end(), square(), 0, add()) != 16;
        }
        """,
        """
        #include <cub/cub.cuh>
        struct square { __host__ __device__ int operator()(int x) const { return x * x; } };
        __global__ void k(int *y) {
            using Reduce = cub::BlockReduce<int, 32>;
            __shared__ typename Reduce::TempStorage t;
            cub::TransformInputIterator<int, square, cub::CountingInputIterator<int>> x(
                cub::CountingInputIterator<int>(1), square());
            const int most = Reduce(t).Reduce(x[threadIdx.x], cub::Max());
            __syncthreads();
            const int least = Reduce(t).Reduce(x[threadIdx.x], cub::Min());
            __syncthreads();
            const int sum = Reduce(t).Reduce(cub::ConstantInputIterator<int>(3)[7], cub::Sum());
            if (threadIdx.x == 0) *y = most == 1024 && least == 1 && sum == 96;
        }
        int main() {
            int *y;
            cudaMallocManaged(&y, 4);
            k<<<1, 32>>>(y);
            return cudaDeviceSynchronize() || *y != 1;
        }
        """,
    ],
    ids=["thrust", "cub"],
)
def test_names_of_older_libraries(text: str, tmp_path: Path) -> None:
    (tmp_path / "main.cu").write_text(text)
    done = coalesce("run", tmp_path / "main.cu")
    assert done.returncode == 0, done.stderr


def test_host_code_is_not_optimised(tmp_path: Path) -> None:
    (tmp_path / "main.cu").write_text(
        HEAD + '#ifdef __OPTIMIZE__\nconst char *host = "optimised";\n#else\n'
        'const char *host = "not optimised";\n#endif\nint main() { puts(host); }\n'
    )
    assert coalesce("run", tmp_path / "main.cu").stdout == "not optimised\n"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("int main() { cublasHandle_t h; }", 'identifier "cublasHandle_t" is undefined'),
        ("int main() { return nppts; }", 'identifier "nppts" is undefined'),
        ("__global__ void k() { k<<<1, 1>>>(); }\nint main() {}", "(dynamic parallelism), which"),
        (
            "__device__ int f(int);\n__global__ void k(int *x) { *x = f(*x); }\nint main() {}",
            "main.cu needs separate compilation",
        ),
        (
            "int n = 3;\n__global__ void k(int *x) { x[0] = n; }\nint main() {}",
            "`n` is a variable of the host",
        ),
        (
            "__global__ void k(int n) { __shared__ int s[n]; s[n - 1] = 1; }\nint main() {}",
            "declare `extern __shared__ float s[];`",
        ),
    ],
)
def test_a_refusal_gives_the_reason(text: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "main.cu").write_text(text)
    done = coalesce("run", tmp_path / "main.cu")
    assert done.returncode == 1
    assert said in done.stderr
    assert "-rdc=true." not in done.stderr  # no advice that leads to the next refusal


def test_errors_of_the_linker_are_short(tmp_path: Path) -> None:
    (tmp_path / "main.cu").write_text("void missing(float *);\nint main() { missing(nullptr); }")
    done = coalesce("run", tmp_path / "main.cu")
    assert done.returncode == 1
    assert "undefined reference to `missing(float*)'" in done.stderr
    assert len(done.stderr.splitlines()) < 8


@pytest.mark.parametrize("option", ["-rdc=true", "--relocatable-device-code=true", "-dc"])
def test_separate_compilation_is_refused(option: str, tmp_path: Path) -> None:
    (tmp_path / "main.cu").write_text("__global__ void k() {}\nint main() {}\n")
    done = coalesce("run", tmp_path / "main.cu", "--option", option)
    assert done.returncode == 1
    assert "main.cu needs separate compilation (nvcc -rdc=true)" in done.stderr


@pytest.mark.parametrize("option", ["-rdc=true", "-gencode=arch=compute_90,code=sm_90"])
def test_an_executable_without_ptx_fails(option: str, tmp_path: Path) -> None:
    source, made = tmp_path / "main.cu", tmp_path / "main"
    source.write_text("__global__ void k() {}\nint main() { k<<<1, 1>>>(); }\n")
    command = [nvcc.nvcc(), "-cudart", "shared", option, f"-L{tmp_path}", "-o", made, source]
    link_libraries(tmp_path)
    subprocess.run(command, check=True)
    done = coalesce("exec", made)
    assert done.returncode == 1
    assert (
        done.stderr.count("has no PTX, only machine code. If nvcc was called with -rdc=true") == 1
    )


def test_a_name_that_the_replacement_lacks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    header = tmp_path / "cublas_v2.h"
    header.write_bytes(nvcc._CUBLAS.read_bytes())
    monkeypatch.setattr(nvcc, "_CUBLAS", header)
    (tmp_path / "main.cpp").write_text("#include <cublas_v2.h>\nint main() { cublasNew_v2(); }\n")
    with pytest.raises(LookupError, match=r"cublasNew\(\) of cuBLAS, which coalesce's replacement"):
        nvcc.build([tmp_path / "main.cpp"], [f"-I{tmp_path}"], arch=90)
