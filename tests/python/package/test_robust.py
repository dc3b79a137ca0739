"""Any input gives a result or an exception: no crash, no hang, no unlimited memory."""

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import coalesce
from coalesce.compile import nvrtc
from coalesce.compile.worker import Compiler
from coalesce.errors import CompileError, LaunchError

FOREVER = 'extern "C" __global__ void forever(volatile int *x) { while (x[0] == 0) {} }'
SCALE = """
extern "C" __global__ void scale(float *x, float factor, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] *= factor;
}
"""
DOUBLING = "#define M0 1\n" + "".join(f"#define M{i} M{i - 1}+M{i - 1}\n" for i in range(1, 50))
ENDLESS = DOUBLING + "__global__ void k(int *x) { x[0] = M49; }"

# --- sources --------------------------------------------------------------------------------------


def nested(opening: str, inside: str, closing: str, times: int) -> str:
    return f"__global__ void k(int *x) {{ {opening * times}{inside}{closing * times} }}"


@pytest.mark.parametrize(
    "source",
    [
        pytest.param("__global__ void k(int *x) { x[0] = " + "(" * 20_000 + "1", id="truncated"),
        pytest.param("__global__ void k(int *x) { x[0] = 1 }", id="no semicolon"),
        pytest.param("/*" * 3000, id="comments"),
        pytest.param('"' * 100_001, id="quotes"),
        pytest.param('#include "self.h"\n', id="include loop"),
        pytest.param(
            "template <int N> struct T { static const int v = T<N + 1>::v; };\n"
            "__global__ void k(int *x) { x[0] = T<0>::v; }",
            id="template recursion",
        ),
        pytest.param("constexpr int f(int n) { return f(n + 1); }\n"
                     "__device__ int a[f(0)];", id="constant recursion"),
        pytest.param("\x01\x02\x7f" * 100, id="control characters"),
        pytest.param("__global__ void k() { asm(\"nonsense %0;\" :: \"r\"(1)); }", id="assembly"),
        pytest.param("#if 1\n" * 300, id="conditions"),
    ],
)  # fmt: skip
def test_malformed_sources_are_errors(source: str) -> None:
    with pytest.raises((CompileError, ValueError)):
        coalesce.Kernel(source, device="sim", headers={"self.h": '#include "self.h"\n'})


def test_deep_sources_compile() -> None:
    x = np.zeros(1, np.int32)
    for source in (
        nested("{", "x[0] = 7;", "}", 5000),
        "__global__ void k(int *x) { x[0] = " + "(" * 5000 + "7" + ")" * 5000 + "; }",
        "__global__ void k(int *x) { x[0] = 0" + "+7" * 1000 + "; x[0] /= 1000; }",
    ):
        coalesce.Kernel(source, device="sim")[1, 1](x)
        assert x[0] == 7


def test_an_endless_compilation_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COALESCE_COMPILE_SECONDS", "0.5")
    started = time.monotonic()
    with pytest.raises(CompileError, match=r"did not end within 0.5 s.*COALESCE_COMPILE_SECONDS"):
        coalesce.Kernel(ENDLESS, device="sim")
    assert time.monotonic() - started < 20
    assert coalesce.Kernel(SCALE, device="sim", options=["-DAGAIN"]).name == "scale"


def test_a_crash_of_the_compiler_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    compiler = Compiler(nvrtc.nvrtc()._path)
    child = compiler._take()
    assert child is not None
    os.kill(child.process.pid, signal.SIGSEGV)
    with pytest.raises(CompileError, match=r"k.cu: the compiler crashed \(SIGSEGV\)"):
        child.ask(("", "k.cu", [], [], []), 10)
    assert compiler.compile("", "k.cu", ["-arch=sm_90"], [], [])[0].startswith("//")
    # An idle compiler process that died is replaced.
    compiler._idle[0].process.kill()
    compiler._idle[0].process.wait()
    assert compiler.compile("", "k.cu", ["-arch=sm_90"], [], [])[0].startswith("//")
    compiler._close()
    # If no compiler process can be started, this process compiles.
    monkeypatch.setattr(sys, "executable", "/nonexistent/python")
    assert compiler.compile("", "k.cu", ["-arch=sm_90"], [], [])[0].startswith("//")
    assert compiler._childless


def test_a_child_ends_with_its_parent() -> None:
    code = (
        "import os, signal\n"
        "from coalesce.compile import nvrtc\n"
        "child = nvrtc.nvrtc()._take()\n"
        "print(child.process.pid, flush=True)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    pid = int(done.stdout)
    for _ in range(200):
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return
        if not _running(pid):
            return
        time.sleep(0.05)
    pytest.fail("the child goes on")


def _running(pid: int) -> bool:
    """Return whether a process runs. A zombie that nobody waits for counts as ended."""
    try:
        with open(f"/proc/{pid}/stat") as file:  # noqa: PTH123
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


# --- kernels and launches -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (
            ".shared .b8 s[60000];\nmov.u32 r, s;",
            "60000 bytes of static shared memory; at most 49152",
        ),
        (".local .b8 s[600000];\nmov.u32 r, s;", "600000 bytes of local memory per thread"),
    ],
)
def test_more_memory_than_any_gpu_has(body: str, message: str) -> None:
    text = f".version 8.0\n.target sm_90\n.entry k {{ .reg .b32 r; {body} ret; }}"
    kernel = coalesce.Kernel(text, device="sim")
    with pytest.raises(LaunchError, match=message):
        kernel[1, 1]()


def test_gigantic_variables() -> None:
    text = ".version 8.0\n.target sm_90\n.global .b8 g[{}];\n.entry k {{ ret; }}"
    with pytest.raises(LaunchError, match="with `g`, they take 4096 MiB"):
        coalesce.Kernel(text.format(1 << 32), device="sim")
    with pytest.raises(coalesce.PtxError):
        coalesce.Kernel(text.format(1 << 60), device="sim")


@pytest.mark.parametrize("text", [".version 8.0\n" + ".entry k {" * 1000, ".version 8.0\n(((((("])
def test_malformed_ptx(text: str) -> None:
    with pytest.raises(coalesce.PtxError, match="line"):
        coalesce.Kernel(text, device="sim")


ABSURD = st.integers(-(2**70), 0) | st.integers(2**31, 2**70)


@given(ABSURD, st.integers(1, 1024), st.integers(0, 1000), st.permutations([0, 1, 2]))
def test_absurd_launches_are_refused(absurd: int, usual: int, small: int, order: list[int]) -> None:
    kernel = coalesce.Kernel(SCALE, device="sim")
    key = [(absurd, usual, small)[i] for i in order]
    if key[2] == absurd == 0:  # a request for no shared memory is not absurd
        return
    with pytest.raises(LaunchError, match=r"at most|at least|negative|shared memory"):
        kernel[tuple(key)](np.zeros(1, np.float32), 1.0, 0)


def test_an_instruction_limit_holds_for_many_short_blocks() -> None:
    kernel = coalesce.Kernel(SCALE, device="sim", instruction_limit=10_000)
    with pytest.raises(LaunchError, match="limit of 10000 warp instructions"):
        kernel[2**20, 32](np.zeros(1, np.float32), 1.0, 0)


@pytest.mark.parametrize(
    "code",
    [
        "add.u32 r, r, r;",
        "bar.sync 0;",
        "setp.eq.u32 p, r, #; @p bra L#; add.u32 r, r, r; L#:",
        "mbarrier.test_wait.shared::cta.b64 p, [s], 0; mov.b64 {r, r}, d;",
    ],
)
def test_an_instruction_limit_counts_instructions_and_not_their_parts(code: str) -> None:
    """Barriers and the ends of branches are several operations of the simulator."""
    some = "".join(code.replace("#", str(i)) + "\n" for i in range(1, 31))
    text = f""".version 8.5
.target sm_90
.address_size 64
.entry k {{
    .reg .b32 r; .reg .b64 d; .reg .pred p; .shared .align 8 .b64 s;
    mov.u32 r, 0; mbarrier.init.shared::cta.b64 [s], 1;
    {some} ret;
}}"""
    warps = 3
    needed = warps * (2 + 30 * code.count(";") + 1)
    coalesce.Kernel(text, device="sim", instruction_limit=needed)[1, 32 * warps]()
    with pytest.raises(LaunchError, match=f"limit of {needed - 1} warp instructions"):
        coalesce.Kernel(text, device="sim", instruction_limit=needed - 1)[1, 32 * warps]()


def test_an_instruction_limit_counts_as_a_profile_does() -> None:
    """A warp that diverges executes some instructions several times."""
    code = "\n".join(
        f"setp.eq.u32 p, r, {i}; @p bra L{i}; add.u32 s, r, r; L{i}:" for i in range(32)
    )
    text = f""".version 8.5
.target sm_90
.address_size 64
.entry k {{ .reg .b32 r, s; .reg .pred p; mov.u32 r, %tid.x; {code} ret; }}"""
    metrics = coalesce.Kernel(text, device="sim").profile(1, 32).metrics()
    executed = int(metrics["smsp__inst_executed.sum"])
    coalesce.Kernel(text, device="sim", instruction_limit=executed)[1, 32]()
    with pytest.raises(LaunchError, match="stopped after the limit"):
        coalesce.Kernel(text, device="sim", instruction_limit=executed - 1)[1, 32]()


VALUES = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.complex_numbers() | st.text()
    | st.binary() | st.lists(st.floats(), max_size=3)
    | st.sampled_from([np.float32(1), np.int64(-1), np.bool_(True), np.float16("nan"), object(),
                       np.datetime64("2020"), np.zeros((2, 0)), np.zeros(3, ">f4"), np.array(3),
                       np.zeros(40, np.float32), np.zeros((4, 4), np.float32).T, np.str_("x"),
                       np.ma.zeros(3), np.zeros(2, [("a", "f4")]), range(3), {}, np.dtype("f4")])
)  # fmt: skip


# Kernels have parameters of every kind and access every array that they receive.
SIGNATURES = {
    "arrays and numbers": SCALE,
    "every number": """extern "C" __global__ void k(bool b, char c, unsigned short s, long long l,
        double d) { if (b && c && s && l && d != 0) __threadfence(); }""",
    "structures and vectors": """struct P { float x; int n[3]; };
        extern "C" __global__ void k(P p, float4 v, const P *ps, double2 *w) {
            if (ps && w && p.n[0]) w[threadIdx.x].x += ps[threadIdx.x].x + v.x; }""",
    "half precision": """#include <cuda_fp16.h>
        extern "C" __global__ void k(__half *h, __half by) {
            if (h) h[threadIdx.x] = __hmul(h[threadIdx.x], by); }""",
    "bytes and pointers to pointers": """extern "C" __global__ void k(unsigned char *b, float **p,
        const void *v, size_t n) { if (b && p && v && n) b[n] = p[0] == v; }""",
}


@pytest.mark.parametrize("signature", SIGNATURES)
@settings(max_examples=60)
@given(data=st.data())
def test_any_arguments(signature: str, data: st.DataObject) -> None:
    kernel = coalesce.Kernel(SIGNATURES[signature], device="sim", instruction_limit=100_000)
    count = len(kernel.signature.parameters)
    values = data.draw(
        st.lists(VALUES, min_size=count, max_size=count) | st.lists(VALUES, max_size=5)
    )
    with contextlib.suppress(TypeError, ValueError, LaunchError, coalesce.MemoryFault):
        kernel[1, 32](*values)
    with contextlib.suppress(TypeError, ValueError, LaunchError, coalesce.MemoryFault):
        kernel.check(1, 32, *values)
    with contextlib.suppress(TypeError, ValueError, LaunchError, coalesce.MemoryFault):
        kernel.step(1, 32, *values).finish()


# --- Ctrl-C ---------------------------------------------------------------------------------------

_INTERRUPTED = """
import os, signal, sys, threading, time
import numpy as np, coalesce
{prepare}
def interrupt():
    time.sleep(0.7)
    os.kill(os.getpid(), signal.SIGINT)
threading.Thread(target=interrupt).start()
started = time.monotonic()
try:
    {call}
except KeyboardInterrupt:
    print("interrupted", time.monotonic() - started < 10)
os._exit(0)  # a thread of the last case runs on
"""
_KERNEL = f"x = np.zeros(1, np.int32); k = coalesce.Kernel({FOREVER!r}, device='sim')"


@pytest.mark.parametrize(
    ("prepare", "call"),
    [
        (_KERNEL, "k[1, 32](x)"),
        (_KERNEL, "k[(2**31 - 1, 65535), 1024](np.ones(1, np.int32))"),
        (_KERNEL, "k.launch(1, 32, x, counts=True)"),
        (_KERNEL, "k.profile(1, 32, x)"),
        (_KERNEL, "k.check(1, 32, x)"),
        (_KERNEL, "k.trace(1, 32, x)"),
        (_KERNEL, "k.observe(1, 32, x, callback=len)"),
        (_KERNEL, "k.step(1, 32, x).finish()"),
        (_KERNEL, "for _ in k.step(1, 32, x): pass"),
        ("", f"coalesce.Kernel({ENDLESS!r}, device='sim')"),
        (
            _KERNEL + "\nthreading.Thread(target=k[1, 32], args=(x,), daemon=True).start()\n"
            "time.sleep(0.2)",
            "k[1, 32](x)",
        ),
    ],
    ids=[
        "launch",
        "grid",
        "counted",
        "profile",
        "check",
        "trace",
        "observe",
        "step",
        "steps",
        "compile",
        "while another thread runs it",
    ],
)
def test_ctrl_c(prepare: str, call: str) -> None:
    code = _INTERRUPTED.format(prepare=prepare, call=call)
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.stdout == "interrupted True\n", done.stderr


# --- threads --------------------------------------------------------------------------------------


def test_many_threads_launch_at_once(device: str) -> None:
    shared = coalesce.Kernel(SCALE, device=device)

    def work(seed: int) -> bool:
        mine = shared
        if seed % 3 == 0:  # several threads compile this kernel at once
            mine = coalesce.Kernel(SCALE, device=device, options=[f"-DSEED={seed % 2}"])
        x = np.arange(5000, dtype=np.float32) + seed
        expected = x.copy()
        for _ in range(5):
            mine[20, 256](x, 2.0, x.size)
            expected *= 2
        return bool((x == expected).all())

    with ThreadPoolExecutor(16) as pool:
        assert all(pool.map(work, range(64)))


def test_threads_share_a_modules_variables(device: str) -> None:
    source = """
    __device__ int calls;
    extern "C" __global__ void count() { atomicAdd(&calls, 1); }
    """
    kernel = coalesce.Kernel(source, device=device)
    barrier = threading.Barrier(8)

    def work(_: int) -> None:
        barrier.wait()
        for _ in range(20):
            kernel[1, 32]()

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))
    assert kernel.globals["calls"] == 8 * 20 * 32
