"""Long runs show a progress bar and the elapsed time, and can be stopped."""

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import coalesce
from coalesce.arrays import waiting
from coalesce.common import progress
from coalesce.compile import nvrtc
from coalesce.compile.worker import Compiler

Capture = pytest.CaptureFixture[str]
DOUBLING = "#define M0 1\n" + "".join(f"#define M{i} M{i - 1}+M{i - 1}\n" for i in range(1, 50))
ENDLESS = DOUBLING + "__global__ void k(int *x) { x[0] = M49; }"
FOREVER = 'extern "C" __global__ void forever(volatile int *x) { while (x[0] == 0) {} }'


class Clock:
    """A clock that advances only when the test says so."""

    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(progress, "time", made)
    return made


def test_a_log_gets_one_line_after_ten_seconds(clock: Clock, capsys: Capture) -> None:
    with progress.reporter(None, "k") as report:
        assert report is not None
        report(1, 4)
        assert capsys.readouterr().err == ""
        clock.now += 10
        report(2, 4)
        report(3, 4)
    assert capsys.readouterr().err == "coalesce: simulating k: 2 of 4 blocks; Ctrl-C stops it\n"


def test_work_without_a_count_shows_its_time(clock: Clock, capsys: Capture) -> None:
    with progress.reporter(None, "k") as report:
        assert report is not None
        clock.now += 75
        report(0, 1)
    assert capsys.readouterr().err == "coalesce: simulating k: for 1:15; Ctrl-C stops it\n"


def test_a_bar_inside_another_is_not_shown(clock: Clock, capsys: Capture) -> None:
    with progress.reporter(None, "outer") as outer, progress.reporter(None, "inner") as inner:
        assert outer is not None
        assert inner is not None
        clock.now += 20
        outer(0, 2)
        inner(0, 2)
        outer(1, 2)
    assert capsys.readouterr().err.count("coalesce: ") == 1
    with progress.reporter(None, "next") as report:
        assert report is not None
        clock.now += 20
        report(0, 2)
    assert "simulating next" in capsys.readouterr().err


def test_other_threads_show_nothing() -> None:
    reports: list[object] = []

    def report_from_thread() -> None:
        with progress.reporter(None, "k") as report:
            reports.append(report)

    thread = threading.Thread(target=report_from_thread)
    thread.start()
    thread.join()
    assert reports == [None]


@pytest.mark.parametrize("terminal", [True, False])
def test_the_bar_of_a_terminal(
    clock: Clock, capsys: Capture, monkeypatch: pytest.MonkeyPatch, terminal: bool
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: terminal)
    with progress.reporter(None, "k") as report:
        assert report is not None
        clock.now += 3
        report(1, 4)
        shown = capsys.readouterr().err
        clock.now += 20
        report(2, 4)
    assert ("simulating k" in shown) == terminal
    assert "2 of 4 blocks; Ctrl-C stops it" in capsys.readouterr().err


def test_a_long_compilation_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []

    class Bar(progress._TerminalLine):
        def show(self, done: int, total: int) -> None:
            said.append(f"{self.what}: {self.counted(done, total)}")

    monkeypatch.setattr(progress, "_TerminalLine", Bar)
    monkeypatch.setattr(progress, "NOTICE_SECONDS", 0.0)
    monkeypatch.setenv("COALESCE_COMPILE_SECONDS", "4")
    with pytest.raises(coalesce.CompileError, match="did not end within 4 s"):
        coalesce.Kernel(ENDLESS, device="sim")
    assert said
    assert said[-1].startswith("compiling kernel.cu: ")
    assert said[-1].endswith(" of at most 4 seconds; Ctrl-C stops it")


def test_an_endless_launch_names_the_kernel_and_ends_with_ctrl_c() -> None:
    code = (
        "import numpy as np, coalesce\n"
        "from coalesce.common import progress\n"
        "progress.NOTICE_SECONDS = 0.5\n"
        f"k = coalesce.Kernel({FOREVER!r}, device='sim')\n"
        "k[1, 32](np.zeros(1, np.int32))\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as child:
        assert child.stderr is not None
        line = child.stderr.readline()
        assert line.startswith("coalesce: simulating forever: for 0:0"), line
        assert line.endswith("; Ctrl-C stops it\n")
        child.send_signal(signal.SIGINT)
        assert "KeyboardInterrupt" in child.stderr.read()


class BusyGpu:
    """A GPU whose kernel is still running for a given number of queries."""

    ordinal = 1
    last_kernel = "forever"

    def __init__(self, looks: int, at_look: Callable[[], object] = lambda: None) -> None:
        self.looks, self.at_look = looks, at_look

    def finishes_within(self, milliseconds: int, *_: Any) -> bool:
        assert milliseconds < 1000  # a longer wait would delay Ctrl-C
        self.looks -= 1
        self.at_look()
        return self.looks < 0


def test_a_long_gpu_kernel_is_named_with_the_effect_of_ctrl_c(
    clock: Clock, capsys: Capture
) -> None:
    def pass_time() -> None:
        clock.now += 4

    waiting.until_done(BusyGpu(5, pass_time))
    assert capsys.readouterr().err == (
        "coalesce: running kernel `forever` on cuda:1: for 0:12; Ctrl-C stops the wait, and only "
        "the end of this process stops the kernel\n"
    )
    waiting.until_done(BusyGpu(1, pass_time))
    assert capsys.readouterr().err == ""


def test_ctrl_c_ends_the_wait_for_a_gpu() -> None:
    gpu = BusyGpu(1000, lambda: signal.raise_signal(signal.SIGINT))
    with pytest.raises(KeyboardInterrupt):
        waiting.until_done(gpu)
    assert gpu.looks == 999


def test_an_endless_kernel_on_a_gpu_ends_with_its_process(device: str) -> None:
    if device == "sim":
        pytest.skip("needs a GPU")
    code = (
        "import numpy as np, coalesce\n"
        "from coalesce.common import progress\n"
        "progress.NOTICE_SECONDS = 0.5\n"
        f"k = coalesce.Kernel({FOREVER!r}, device={device!r})\n"
        "k[1, 32](np.zeros(1, np.int32))\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as child:
        assert child.stderr is not None
        line = child.stderr.readline()
        assert line.startswith("coalesce: running kernel `forever` on cuda:0: for 0:0"), line
        child.send_signal(signal.SIGINT)
        assert "KeyboardInterrupt" in child.communicate(timeout=60)[1]


def test_a_killed_compiler_is_not_reported_as_out_of_memory() -> None:
    compiler = Compiler(nvrtc.nvrtc()._path)
    child = compiler._take()
    assert child is not None
    child.process.kill()
    with pytest.raises(coalesce.CompileError, match=r"k.cu: the compiler was killed \(SIGKILL\)"):
        child.ask(("", "k.cu", [], [], []), 10)
    compiler._close()


_SHORT_OF_MEMORY = """
import resource, sys
import numpy as np, coalesce
k = coalesce.Kernel('extern "C" __global__ void k(int *x) { x[blockIdx.x] = 1; }', device="sim")
x = np.zeros(64, np.int32)
pages = int(open("/proc/self/statm").read().split()[0])
limit = pages * resource.getpagesize() + int(sys.argv[1])
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
try:
    k[64, 32](x)
    print("ran", x.sum())
except (coalesce.LaunchError, MemoryError) as error:
    print(type(error).__name__, error)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc and limits memory as Linux does")
@pytest.mark.parametrize("room", [1 << 16, 1 << 20, 9 << 20, 12 << 20, 40 << 20, 200 << 20])
def test_too_little_memory_for_threads(room: int) -> None:
    """With too little memory, fewer threads run, or an error says what is missing."""
    done = subprocess.run(
        [sys.executable, "-c", _SHORT_OF_MEMORY, str(room)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    expected = ("ran 64", "LaunchError the system", "MemoryError out of memory: this process")
    assert done.stdout.startswith(expected), done.stdout


def test_only_a_long_launch_is_shown(capfd: pytest.CaptureFixture[str]) -> None:
    started = time.monotonic()
    k = coalesce.Kernel('extern "C" __global__ void k(int *x) { x[0] = 1; }', device="sim")
    k[1, 1](np.zeros(1, np.int32))
    if time.monotonic() - started < progress.NOTICE_SECONDS:
        assert capfd.readouterr().err == ""
