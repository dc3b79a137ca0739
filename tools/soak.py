"""Runs for an hour: threads, forks, interrupts, compilations, profiles, checks and wrong calls.

    python tools/soak.py --minutes 60

Two figures must stay flat after the first fifth of the time, in which caches fill: resident memory,
and the memory that malloc and Python have allocated. Resident memory is larger and grows in rare
steps, because each arena of the C library keeps the memory that was freed in it. After the threads
end, the number of open files must be as before; only waiting compiler processes may have more. The
figures are printed every minute. If an action of the main thread takes ten minutes, the script
prints the stacks of all threads and ends. The exit status is 1 if something failed, hung or grew.
The script needs no GPU and runs on Linux.
"""

import argparse
import ctypes
import faulthandler
import gc
import os
import platform
import signal
import sys
import threading
import time
import traceback
from collections import Counter
from pathlib import Path
from random import Random
from types import FrameType
from typing import Any

import numpy as np

import coalesce

MOST_GROWTH = 64 << 20  # bytes per hour of resident memory
MOST_GROWTH_IN_USE = 4 << 20  # bytes per hour of memory that is in use
WAITING_COMPILERS = 2
WORKERS = 3
HANG_SECONDS = 600  # a longer action of the main thread is called a hang

SCALE = """
extern "C" __global__ void scale(float *x, float factor, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] *= factor;
}
"""
TILE = """
extern "C" __global__ void tile(const float *a, float *out, int n) {
    __shared__ float s[256];
    int i = blockIdx.x * 256 + threadIdx.x;
    s[threadIdx.x] = i < n ? a[i] : 0.f;
    __syncthreads();
    if (i < n) out[i] = s[255 - threadIdx.x] + 1.f;
}
"""
FOREVER = 'extern "C" __global__ void forever(volatile int *x) { while (x[0] == 0) {} }'
FAULT = 'extern "C" __global__ void fault(int *x) { x[1 << 20] = 1; }'

counts: Counter[str] = Counter()
failures: list[str] = []
dropped: list[str] = []  # the code that ran when Python dropped an interrupt's exception
_lock = threading.Lock()
_stop = threading.Event()
_go = threading.Event()  # cleared while memory is measured, so that no action runs
_go.set()
_waiting: set[int] = set()


def launch(random: Random) -> None:
    n = random.randrange(1, 20_000)
    x = np.arange(n, dtype=np.float32)
    coalesce.Kernel(SCALE, device="sim")[-(-n // 256), 256](x, 2.0, n)
    assert (x == 2 * np.arange(n, dtype=np.float32)).all()


def device_arrays(random: Random) -> None:
    n = random.randrange(1, 20_000)
    x = coalesce.asarray(np.ones(n, np.float32), device="sim")
    coalesce.Kernel(SCALE, device="sim")[-(-n // 256), 256](x, 3.0, n)
    assert (x.get() == 3).all()


def operation(random: Random) -> None:
    m, k, n = (random.randrange(1, 65) for _ in range(3))
    a, b = np.ones((m, k), np.float32), np.ones((k, n), np.float32)
    variant = random.choice(["naive", "coalesced", "tiled"])
    assert (coalesce.matmul(a, b, variant=variant, device="sim") == k).all()


def profile(random: Random) -> None:
    a = np.ones((random.randrange(1, 100), random.randrange(1, 100)), np.float32)
    p = coalesce.profile("transpose", a, variant=random.choice(["tiled", "padded"]))
    assert p.metrics()
    assert p.to_html()
    assert str(p)


def check(random: Random) -> None:
    n = random.randrange(1, 5000)
    a, out = np.ones(n, np.float32), np.zeros(n, np.float32)
    memory = coalesce.Kernel(TILE, device="sim").check(-(-n // 256), 256, a, out, n)
    assert not memory.errors, memory


def trace(random: Random) -> None:
    n = random.randrange(1, 3000)
    recorded = coalesce.Kernel(SCALE, device="sim").trace(
        -(-n // 256), 256, np.ones(n, np.float32), 2.0, n
    )
    assert len(recorded)
    with coalesce.Kernel(SCALE, device="sim").step(1, 64, np.ones(64, np.float32), 2.0, 64) as s:
        s.finish()


def compile_anew(random: Random) -> None:
    """Compile a source that is in no cache; the caches in memory and on disk are limited."""
    kernel = coalesce.Kernel(SCALE, device="sim", options=[f"-DSEED={random.getrandbits(60)}"])
    assert kernel.name == "scale"


def fault(random: Random) -> None:
    del random
    try:
        coalesce.Kernel(FAULT, device="sim")[1, 32](np.zeros(8, np.int32))
    except coalesce.MemoryFault as error:
        assert "`x`" in str(error)  # noqa: PT017
    else:
        raise AssertionError("no MemoryFault")


def wrong_call(random: Random) -> None:
    wrong: Any = random.choice([None, "x", 2**70, float("nan"), object(), [None]])
    try:
        coalesce.Kernel(SCALE, device="sim")[1, 32](np.ones(4, np.float32), 2.0, wrong)
    except (TypeError, ValueError) as error:
        assert "`n`" in str(error)  # noqa: PT017
    else:
        raise AssertionError(f"n={wrong!r} was accepted")


def fork(random: Random) -> None:
    """A child process uses kernels that other threads of its parent are using."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            signal.setitimer(signal.ITIMER_REAL, 0)
            for action in (launch, operation):
                action(random)
            status = 0
        finally:
            os._exit(status)
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            assert status == 0, f"a forked child ended with {status}"
            return
        time.sleep(0.01)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    raise AssertionError("a forked child did not end within 60 s")


class _InterruptError(Exception):
    pass


def interrupt(random: Random) -> None:
    """A signal ends an endless launch with any kind of observer.

    Python drops an exception that a handler raises while a finalizer or a weak reference's callback
    runs, and reports it to `sys.unraisablehook`. Therefore the signal comes again. An exception
    that anything else drops is a failure.
    """
    over = False
    places: list[str] = []  # the places at which signals arrived
    reported = len(dropped)

    def raise_it(_: int, frame: FrameType | None) -> None:
        if not over:
            places.append("".join(traceback.format_stack(frame, 8)))
            raise _InterruptError

    before = signal.signal(signal.SIGALRM, raise_it)
    kernel = coalesce.Kernel(FOREVER, device="sim")
    x = np.zeros(1, np.int32)
    calls = [kernel[1, 32], lambda a: kernel.profile(1, 32, a), lambda a: kernel.check(1, 32, a)]
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.05 + 0.2 * random.random(), 20.0)
        random.choice(calls)(x)
        raise AssertionError("an endless kernel ended")
    except _InterruptError:
        pass
    finally:
        over = True
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert len(places) - 1 <= len(dropped) - reported, f"dropped at\n{places[0]}"


def note_dropped(unraisable: Any) -> None:
    if isinstance(unraisable.exc_value, _InterruptError):
        dropped.append(repr(unraisable.object))
    else:
        sys.__unraisablehook__(unraisable)


EVERYWHERE = [
    launch,
    device_arrays,
    operation,
    profile,
    check,
    trace,
    compile_anew,
    fault,
    wrong_call,
]
MAIN_ONLY = [fork, interrupt]


def act(action: Any, random: Random) -> None:
    try:
        action(random)
    except Exception:
        with _lock:
            failures.append(f"{action.__name__}: {traceback.format_exc()}")
    with _lock:
        counts[action.__name__] += 1


def worker(seed: int) -> None:
    mine = Random(seed)
    while not _stop.is_set():
        if not _go.is_set():
            _waiting.add(seed)
            _go.wait()
            _waiting.discard(seed)
        act(mine.choice(EVERYWHERE), mine)


def measure() -> tuple[int, int]:
    """Return resident memory and allocated memory, measured while no thread works."""
    _go.clear()
    deadline = time.monotonic() + 60
    while len(_waiting) < WORKERS and time.monotonic() < deadline:
        time.sleep(0.001)
    gc.collect()
    sizes = resident(), in_use()
    _go.set()
    return sizes


def resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


class _Mallinfo(ctypes.Structure):
    """The structure that mallinfo2(3) returns."""

    _fields_ = [
        (name, ctypes.c_size_t)
        for name in (
            "arena", "ordblks", "smblks", "hblks", "hblkhd",
            "usmblks", "fsmblks", "uordblks", "fordblks", "keepcost",
        )
    ]  # fmt: skip


def in_use() -> int:
    """Return the bytes that malloc and Python's own allocator have allocated and not freed."""
    mallinfo = ctypes.CDLL(None).mallinfo2
    mallinfo.restype = _Mallinfo
    info = mallinfo()
    # Blocks of Python's allocator have at most 512 bytes. Their mean size is taken to be 100 bytes.
    return int(info.uordblks + info.hblkhd + 100 * sys.getallocatedblocks())


def open_files() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def threads() -> int:
    return sum(1 for _ in Path("/proc/self/task").iterdir())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    sys.unraisablehook = note_dropped
    mine = Random(options.seed)
    # First run every action once, so that objects made only once exist.
    for action in [*EVERYWHERE, *MAIN_ONLY]:
        act(action, mine)

    files_before = open_files()
    started, seconds = time.monotonic(), 60 * options.minutes
    workers = [
        threading.Thread(target=worker, args=(options.seed + n,), daemon=True)
        for n in range(1, WORKERS + 1)
    ]
    for thread in workers:
        thread.start()
    samples: list[tuple[float, int, int]] = []
    next_sample = next_report = 0.0
    while (passed := time.monotonic() - started) < seconds:
        faulthandler.dump_traceback_later(HANG_SECONDS, exit=True)
        act(mine.choice(EVERYWHERE + 2 * MAIN_ONLY), mine)
        if passed >= next_sample:
            samples.append((passed, *measure()))
            next_sample = passed + seconds / 200
        if passed >= next_report:
            report(passed, samples)
            next_report = passed + 60
    faulthandler.cancel_dump_traceback_later()
    _stop.set()
    for thread in workers:
        thread.join(60)
    stuck = [thread for thread in workers if thread.is_alive()]

    settled = [sample for sample in samples if sample[0] >= seconds / 5]
    growth, growth_in_use = 0.0, 0.0
    if len(settled) > 2:  # bytes per second, by least squares
        times, *memories = zip(*settled, strict=True)
        growth, growth_in_use = (float(np.polyfit(times, m, 1)[0]) for m in memories)
    report(time.monotonic() - started, samples)
    gc.collect()
    files_left = open_files() - files_before
    print(f"machine: {platform.machine()}, {os.cpu_count()} cores, Python {sys.version.split()[0]}")
    print(f"actions: {sum(counts.values()):,}: {dict(counts.most_common())}")
    for what, grown, most in (
        ("resident memory", growth, MOST_GROWTH),
        ("memory in use", growth_in_use, MOST_GROWTH_IN_USE),
    ):
        print(f"{what} grows by {grown * 3600 / 2**20:+.1f} MiB an hour (limit {most >> 20})")
    print(
        f"failures: {len(failures)}; threads that did not end: {len(stuck)}; files: {files_left:+}"
    )
    print(f"interrupts that Python dropped, so that they came again: {len(dropped)} {dropped[:3]}")
    for failure in failures[:5]:
        print(failure)
    # A short soak cannot measure a slope: a noise of some MiB is a large value per hour.
    allowed = max(MOST_GROWTH * seconds / 3600, 16 << 20)
    allowed_in_use = max(MOST_GROWTH_IN_USE * seconds / 3600, 4 << 20)
    flat = growth * 0.8 * seconds <= allowed and growth_in_use * 0.8 * seconds <= allowed_in_use
    return 0 if flat and files_left <= WAITING_COMPILERS and not failures and not stuck else 1


def report(passed: float, samples: list[tuple[float, int, int]]) -> None:
    print(
        f"{passed / 60:6.1f} min: {sum(counts.values()):8,} actions, {len(failures)} failures, "
        f"{samples[-1][1] / 2**20:.0f} MiB resident, {samples[-1][2] / 2**20:.1f} MiB in use, "
        f"{threads()} threads, {open_files()} files",
        flush=True,
    )


if __name__ == "__main__":
    sys.exit(main())
