"""A fork, and the end of the interpreter, while launches are running."""

import os
import subprocess
import sys
import textwrap

import pytest

# Launches a kernel again and again in a thread. Each launch is long enough to be interrupted.
PREPARE = """
import os, signal, sys, threading, time
import numpy as np, coalesce
SOURCE = '''extern "C" __global__ void k(float *x, int n) {
    float sum = 0;
    for (int i = 0; i < n; ++i) sum += sinf(sum + i);
    x[blockIdx.x * blockDim.x + threadIdx.x] = sum; }'''
k = coalesce.Kernel(SOURCE, device="sim")
x = np.zeros(128, np.float32)
CALLS = {
    "launch": lambda n=300: k[4, 32](x, np.int32(n)),
    "profile": lambda n=300: k.profile(4, 32, x, np.int32(n)),
    "check": lambda n=300: k.check(4, 32, x, np.int32(n)),
    "step": lambda n=3: k.step(4, 32, x, np.int32(n)).finish(),
    "compile": lambda n=1: coalesce.Kernel(SOURCE + f"// {time.monotonic_ns()}", device="sim")[
        1, 32](x, np.int32(n)),
}
call = CALLS[sys.argv[1]]
call(1)
def again():
    while True:
        call()
threading.Thread(target=again, daemon=True).start()
"""


def run(what: str, program: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", PREPARE + textwrap.dedent(program), what],
        capture_output=True,
        text=True,
        timeout=300,
    )


@pytest.mark.parametrize("what", ["launch", "profile", "check", "step", "compile"])
def test_the_interpreter_ends_quietly_with_a_daemon_thread(what: str) -> None:
    for delay in (0.0, 0.05, 0.13):
        done = run(what, f"time.sleep({delay}); print('done', flush=True)")
        assert (done.returncode, done.stdout, done.stderr) == (0, "done\n", "")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.parametrize("what", ["launch", "profile", "check", "step", "compile"])
def test_a_child_forked_during_a_launch_uses_the_same_kernel(what: str) -> None:
    program = """
        for attempt in range(4):
            time.sleep(0.03 * attempt)
            child = os.fork()
            if child == 0:
                signal.alarm(60)  # what deadlocks is killed
                for other in ("launch", "profile", "check", "step", "compile"):
                    CALLS[other](2)
                os._exit(0)
            _, status = os.waitpid(child, 0)
            print(os.waitstatus_to_exitcode(status), flush=True)
        os._exit(0)
    """
    done = run(what, program)
    assert done.stdout.split() == ["0"] * 4, done.stderr


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_forked_child_uses_device_arrays() -> None:
    program = """
        child = os.fork()
        if child == 0:
            signal.alarm(60)
            a = coalesce.asarray(np.ones(32, np.float32), device="sim")
            k[1, 32](a, np.int32(0))
            os._exit(int(a.get().any()))
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)
        os._exit(0)
    """
    assert run("launch", program).stdout.split() == ["0"]
