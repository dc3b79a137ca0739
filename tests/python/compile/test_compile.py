"""Compiling CUDA C++: results, messages and the disk cache. Needs NVRTC, no GPU."""

import re
import subprocess
import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import numpy as np
import pytest

import coalesce
from coalesce.catalogue import run as catalogue_run
from coalesce.compile import nvrtc, pathfinder
from coalesce.compile.binaries import disassembler
from coalesce.compile.device_headers import headers as stand_ins
from coalesce.compile.nvrtc import compile_cuda
from coalesce.compile.worker import Compiler
from coalesce.errors import CompileError

SCALE = """
extern "C" __global__ void scale(float *x, float factor, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] *= factor;
}
"""


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache on disk and in memory."""
    monkeypatch.setenv("COALESCE_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(nvrtc, "_remembered", {})
    return tmp_path / "cache"


@pytest.fixture
def compilations(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the list of sources that the compiler was really called with."""
    compiler, calls = nvrtc.nvrtc(), []

    class Watched:
        version = compiler.version
        architectures = compiler.architectures

        def compile(self, source: str, name: str, *rest: object) -> object:
            calls.append(name)
            return compiler.compile(source, name, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(nvrtc, "nvrtc", Watched)
    return calls


def test_one_compilation_yields_ptx_with_lines_and_a_cubin() -> None:
    compiled = compile_cuda(SCALE, arch="sm_90", name="scale.cu")
    assert ".target sm_90" in compiled.ptx
    assert ".entry scale" in compiled.ptx
    assert ".loc" in compiled.ptx
    assert '"scale.cu"' in compiled.ptx, (
        "the file is called as asked, without this process's folder"
    )
    assert compiled.cubin is not None
    assert compiled.cubin[:4] == b"\x7fELF"


def test_a_virtual_architecture_has_no_cubin() -> None:
    assert compile_cuda(SCALE, arch="compute_90").cubin is None


def test_options_reach_the_compiler_and_override_the_architecture() -> None:
    source = 'extern "C" __global__ void k(int *x) { x[0] = TILE; }'
    assert "17" in compile_cuda(source, options=["-DTILE=17"]).ptx
    assert ".target sm_80" in compile_cuda(SCALE, options=["-arch=sm_80"]).ptx
    assert compile_cuda(SCALE, options=["--gpu-architecture=sm_80"]).arch == "sm_80"
    compile_cuda(
        'template <class T> concept C = true; extern "C" __global__ void k() {}',
        options=["-std=c++20"],
    )


def test_templates_by_expression() -> None:
    source = "template <typename T, int N> __global__ void k(T *x) { x[0] = N; }"
    compiled = compile_cuda(source, expressions=["k<float, 3>"])
    assert compiled.lowered["k<float, 3>"] in compiled.ptx


def test_an_error_is_the_compilers_log_with_the_line() -> None:
    with pytest.raises(CompileError, match=r'wrong\.cu\(2\): error: identifier "b" is undefined'):
        compile_cuda("\n__global__ void k(float *a) { a[0] = b; }", name="wrong.cu")


@pytest.mark.parametrize(
    ("source", "options", "message"),
    [
        ("#include <nix.h>\n", [], r"headers=\{\"nix.h\""),
        ("", ["-nonsense"], "nonsense"),
        ("", ["-arch=sm_1"], "This NVRTC can compile for sm_"),
        ("__global__ void k(int *x) { x[0] = 1 }", [], "at the end of the line before"),
        ("__global__ void k(int *x) { switch (*x) { case 1 ... 4: ; } }", [], "1 ... 4:`.*nvcc"),
        ("__global__ void k(int *x) { x[0] = ({ int i = 2; i; }); }", [], "statements in"),
        ("__global__ void k(int *x) { x[0] = x[1] ?: 3; }", [], "without a second operand"),
        ("__global__ void k(int *x) { int größe = 1; }", [], "only ASCII letters"),
        (
            "__global__ void k(int i) { __shared__ volatile int s[20000]; s[i] = 1; }",
            [],
            "k has 80000 bytes of static shared memory; at most 49152 bytes are allowed. For more",
        ),
        (
            "__global__ void k(int i) { __shared__ volatile int s[1 << 16]; s[i] = 1; }",
            [],
            "Even with extern __shared__, a block has at most 232448",
        ),
        (
            "__constant__ float a[16384], b[2]; __global__ void k(float *x) { *x = a[int(*b)]; }",
            [],
            "variables of the source have 65544 bytes; at most 65536 bytes are allowed",
        ),
    ],
)
def test_errors_give_advice(source: str, options: list[str], message: str) -> None:
    with pytest.raises(CompileError, match=message):
        compile_cuda(source, options=options)


def test_options_must_be_strings() -> None:
    with pytest.raises(TypeError, match="the string '-DX'"):
        compile_cuda(SCALE, options="-DX")
    with pytest.raises(TypeError, match="int 3"):
        compile_cuda(SCALE, options=[3])  # type: ignore[list-item]


@pytest.mark.parametrize("header", sorted(stand_ins.STANDARD))
def test_host_headers_have_replacements(header: str) -> None:
    compile_cuda(f"#include <{header}>\n" + SCALE)


@pytest.mark.parametrize(
    "headers",
    [
        ["cooperative_groups.h"],
        ["cuda/std/limits"],
        ["climits", "cuda/atomic"],
        ["cuda/atomic", "limits.h", "cstdint"],
        ["cstdint", "cuda/atomic"],
        ["cuda.h", "cuda_runtime.h"],
        ["cuda/std/cmath"],
        ["cuda/std/complex", "cmath"],
    ],
)
def test_headers_give_no_warnings(headers: list[str]) -> None:
    """The declarations that precede every source must agree with CUDA's own headers."""
    if not nvrtc.include_folders():
        pytest.skip("CUDA's headers are not installed")
    limits = "x[0] = INT_MAX; x[1] = UINT_MAX; x[2] = LLONG_MAX; x[3] = ULLONG_MAX;"
    includes = "".join(f"#include <{header}>\n" for header in headers)
    source = includes + 'extern "C" __global__ void k(float *x) { ' + limits + " }"
    assert compile_cuda(source).log == ""


@pytest.mark.parametrize(
    ("header", "number"),
    [("complex", "std::complex"), ("thrust/complex.h", "thrust::complex")],
)
def test_complex_numbers(header: str, number: str) -> None:
    if not nvrtc.include_folders():
        pytest.skip("CUDA's headers are not installed")
    if header == "thrust/complex.h" and int(nvrtc.header_versions()["CCCL"]) < 3_002_000:
        pytest.skip("NVRTC cannot compile this header of CCCL before 3.2")
    source = f"#include <{header}>\n"
    source += f'extern "C" __global__ void k(float *x) {{ {number}<float> z(x[0], 2); z *= z; '
    source += "x[1] = z.real() < INFINITY ? z.imag() : NAN; }"
    assert compile_cuda(source).log == ""


def test_a_macro_that_is_defined_again_gives_a_warning() -> None:
    source = "#define N 3\n#define N 4\n" + SCALE
    assert "redefinition of macro" in compile_cuda(source).log


@pytest.mark.parametrize("first", ["", "#include <cuda/atomic>\n"])
def test_integer_constants_have_their_types(first: str) -> None:
    source = """
        #include <stdint.h>
        template <class A, class B> constexpr bool same = false;
        template <class A> constexpr bool same<A, A> = true;
        static_assert(same<decltype(INT8_C(-1)), int8_t> && INT8_C(-1) < 0, "");
        static_assert(same<decltype(UINT16_C(1)), uint16_t>, "");
        static_assert(UINT64_C(0xffffffffffffffff) == UINT64_MAX, "");
        static_assert(INT64_C(-9223372036854775807) - 1 == INT64_MIN, "");
        extern "C" __global__ void k(uint32_t *x, uint32_t n) { x[0] = n * UINT32_C(0x80000001); }
    """
    if first and not nvrtc.include_folders():
        pytest.skip("CUDA's headers are not installed")
    assert compile_cuda(first + source).log == ""


def test_own_headers() -> None:
    source = '#include "tile.h"\nextern "C" __global__ void k(int *x) { x[0] = TILE; }'
    assert "23" in compile_cuda(source, headers={"tile.h": "#define TILE 23"}).ptx
    assert "29" in compile_cuda(source, headers={"tile.h": "#define TILE 29"}).ptx


def test_the_second_compilation_comes_from_the_cache(cache: Path, compilations: list[str]) -> None:
    first = compile_cuda(SCALE)
    assert compile_cuda(SCALE) is first
    nvrtc._remembered.clear()
    assert compile_cuda(SCALE) == first
    assert len(compilations) == 1
    own = cache / "coalesce-kernels"
    assert len(list(own.glob("*.kernel"))) == 1
    assert not list(own.glob(".*")), "no temporary files stay behind"


@pytest.mark.parametrize(
    "other",
    [
        {"source": SCALE + " "},
        {"options": ["-DA"]},
        {"arch": "sm_80"},
        {"headers": {"a.h": ""}},
        {"name": "b.cu"},
        {"expressions": ["scale"]},
    ],
    ids=lambda other: next(iter(other)),
)
def test_everything_that_matters_is_in_the_key(
    other: dict[str, object], compilations: list[str]
) -> None:
    compile_cuda(SCALE)
    compile_cuda(**{"source": SCALE.replace('extern "C"', ""), **other})  # type: ignore[arg-type]
    assert len(compilations) == 2


def test_sources_that_read_files_are_not_cached(tmp_path: Path, compilations: list[str]) -> None:
    (tmp_path / "tile.h").write_text("#define TILE 5")
    source = '#include "tile.h"\nextern "C" __global__ void k(int *x) { x[0] = TILE; }'
    options = [f"-I{tmp_path}"]
    assert "5" in compile_cuda(source, options=options).ptx
    (tmp_path / "tile.h").write_text("#define TILE 12345")
    assert "12345" in compile_cuda(source, options=options).ptx
    assert len(compilations) == 2


@pytest.mark.parametrize(
    "include",
    [
        *(
            '#include "{}"',
            "#include <{}>",
            '#define TEXT "{}"\n#include TEXT',
            '#include "chain.h"',
        ),
        *('%:include "{}"', '#inc\\\nlude "{}"', '/* a\n */ # /**/ include /* b */ "{}"'),
        *(
            '#\vinclude\f"{}"',
            '#include_next "{}"',
            'constexpr int c = sizeof "/*";\n#include "{}"//*/',
        ),
    ],
)
def test_paths_of_files_are_not_cached(
    include: str, tmp_path: Path, compilations: list[str]
) -> None:
    path = tmp_path / "tile.h"
    source = include.format(path) + '\nextern "C" __global__ void k(int *x) { x[0] = TILE; }'
    headers = {"chain.h": f'#include "{path}"\n'}
    path.write_text("#define TILE 5")
    assert "5" in compile_cuda(source, headers=headers).ptx
    path.write_text("#define TILE 12345")
    assert "12345" in compile_cuda(source, headers=headers).ptx
    assert len(compilations) == 2


@pytest.mark.parametrize("include", ["", "#include <cuda_fp16.h>\n", '#include "half.h"\n'])
def test_other_versions_of_cudas_headers_compile_again(
    include: str, compilations: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    if not nvrtc.include_folders():
        pytest.skip("CUDA's headers are not installed")
    headers = {"half.h": "#include <cuda_fp16.h>\n"}
    assert nvrtc.header_versions().keys() >= {"CUDART", "CCCL"}
    compile_cuda(include + SCALE, headers=headers)
    monkeypatch.setattr(nvrtc, "header_versions", lambda: {"CUDART": "1", "CCCL": "2"})
    compile_cuda(include + SCALE, headers=headers)
    assert len(compilations) == (2 if include else 1)


def test_a_missing_compiler_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    from cuda import pathfinder

    def not_found(name: str) -> None:
        raise pathfinder.DynamicLibNotFoundError(f"no {name}")

    monkeypatch.setattr(pathfinder, "load_nvidia_dynamic_lib", not_found)
    nvrtc.nvrtc.cache_clear()
    try:
        with pytest.raises(CompileError, match="pip install nvidia-cuda-nvrtc"):
            compile_cuda(SCALE)
    finally:
        nvrtc.nvrtc.cache_clear()


@pytest.fixture
def packages(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, str | None]]:
    """Return package versions that tests can change; None stands for a package that is missing."""
    fake_versions: dict[str, str | None] = {}
    version = metadata.version

    def fake_version(package: str) -> str:
        installed = fake_versions[package] if package in fake_versions else version(package)
        if installed is None:
            raise metadata.PackageNotFoundError(package)
        return installed

    nvrtc.nvrtc(), nvrtc.include_folders()  # The next calls return what was found first.
    monkeypatch.setattr(metadata, "version", fake_version)
    for cached in (pathfinder.pathfinder, disassembler.nvdisasm):
        cached.cache_clear()
    yield fake_versions
    for cached in (pathfinder.pathfinder, disassembler.nvdisasm, nvrtc.nvrtc):
        cached.cache_clear()


@pytest.mark.parametrize("old", ["1.2.0", "1.3.3", "1.5.0"])
def test_an_old_pathfinder_is_named(packages: dict[str, str | None], old: str) -> None:
    kernel = coalesce.Kernel(SCALE, device="sim")
    packages["cuda-pathfinder"] = old
    advice = rf"cuda-pathfinder {old} is too old.*pip install -U 'cuda-pathfinder>=1.5.1'"
    x = np.zeros(32, np.float32)
    p = kernel.profile(1, 32, x, 2.0, 32)
    assert any(re.search(advice, why) for why in p.inexact.values()), p.inexact
    nvrtc.nvrtc.cache_clear()
    with pytest.raises(CompileError, match=advice):
        nvrtc.nvrtc()


def test_a_missing_disassembler_says_what_to_install(
    packages: dict[str, str | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    finder = pathfinder.pathfinder()
    monkeypatch.setattr(finder, "find_nvidia_binary_utility", lambda _: None)
    packages.clear()
    assert Path(disassembler.nvdisasm()).is_file(), "the package's own file is found"
    disassembler.nvdisasm.cache_clear()
    monkeypatch.setattr(metadata, "files", lambda _: [])
    packages["nvidia-cuda-nvdisasm"] = "13.2.51"
    with pytest.raises(LookupError, match=r"13\.2\.51 is installed, but .* --force-reinstall"):
        disassembler.nvdisasm()
    packages["nvidia-cuda-nvdisasm"] = None
    with pytest.raises(LookupError, match="is not installed: pip install nvidia-cuda-nvdisasm"):
        disassembler.nvdisasm()


def test_the_oldest_pathfinder_is_that_of_the_package() -> None:
    project = (Path(__file__).parents[3] / "pyproject.toml").read_text(encoding="utf-8")
    assert f'"cuda-pathfinder>={pathfinder.OLDEST}"' in project


def test_architectures_for_gpus() -> None:
    newest = nvrtc.nvrtc().architectures[-1]
    assert nvrtc.architecture((9, 0)) == "sm_90"
    assert nvrtc.architecture((99, 0)) == f"compute_{newest}"
    with pytest.raises(CompileError, match=r"compute capability"):
        nvrtc.architecture((2, 0))


def test_importing_looks_for_nothing() -> None:
    code = (
        "import sys, coalesce; "
        "print([m for m in ('cuda.pathfinder', 'subprocess', 'torch', 'cupy') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_simulated_gpu_is_compiled_for_once(monkeypatch):
    requests: list[tuple[object, ...]] = []
    compile_it = Compiler.compile

    def counted(self, *request):
        requests.append(request)
        return compile_it(self, *request)

    monkeypatch.setattr(Compiler, "compile", counted)
    catalogue_run.compiled.cache_clear()
    a = np.ones((8, 8), np.float32)
    for _ in range(2):
        coalesce.matmul(a, a, variant="tiled", device="sim:a100")
    assert len(requests) == 1
    assert "sm_80" in str(requests)
