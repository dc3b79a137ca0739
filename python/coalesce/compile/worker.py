"""Runs the compiler NVRTC in a child process, so that no source can hang or crash this process.

NVRTC is a library, and a library call cannot be interrupted. But a short source, such as macros
that expand each other, can keep NVRTC busy for days or make it use all memory. In a child process,
a compilation ends at Ctrl-C or after a time limit. The memory of the child is limited. If the child
crashes, the user gets an error message.

A child compiles several sources, one after the other. It ends after a minute without a compilation,
or when its parent ends. In some Python environments, such as an embedded interpreter, no child can
be started. Then NVRTC runs in this process.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, Any

from coalesce.common.errors import CompileError
from coalesce.common.progress import PATIENCE_SECONDS, SECONDS, reporter

if TYPE_CHECKING:
    from coalesce._core import cuda as _cuda

_IDLE_SECONDS = 60.0
_MOST_BYTES = 8 << 30
_MOST_IDLE = 2  # the largest number of idle child processes


class Compiler:
    """The compiler NVRTC, which runs in a child process."""

    def __init__(self, path: str) -> None:
        from coalesce._core import cuda

        self._path = path
        self._here: _cuda.Nvrtc = cuda.Nvrtc(path)
        self._idle: list[_Child] = []
        self._childless = not sys.executable
        atexit.register(self._close)
        os.register_at_fork(after_in_child=self._forget)

    @property
    def version(self) -> Any:
        """The version of NVRTC, such as (13, 0) for CUDA 13.0."""
        return self._here.version

    @property
    def architectures(self) -> list[int]:
        """The compute capabilities that NVRTC can compile for, such as 90, in ascending order."""
        return self._here.architectures

    def compile(
        self,
        source: str,
        name: str,
        options: Sequence[str],
        headers: Sequence[tuple[str, str]],
        expressions: Sequence[str],
    ) -> tuple[str, bytes, str, Any]:
        """Compile a source. Return its PTX, its cubin, the log, and a dict of mangled names.

        `headers` are (name, text) pairs. `expressions` are template instantiations, such as
        ``["scale<4>"]``. The dict maps each expression to its mangled name in the PTX. If the
        source does not compile, raise a CompileError that contains the log.
        """
        request = (source, name, list(options), list(headers), list(expressions))
        child = self._take()
        if child is None:
            return self._here.compile(*request)
        try:
            answer = child.ask(request, _seconds())
        except BaseException:
            child.kill()
            raise
        # Several threads may give back child processes at the same time. No lock is needed, because
        # each step is one atomic operation of the list.
        self._idle.append(child)
        with contextlib.suppress(IndexError):
            while len(self._idle) > _MOST_IDLE:
                self._idle.pop(0).kill()
        if isinstance(answer, str):
            raise CompileError(answer)
        made: tuple[str, bytes, str, Any] = answer
        return made

    def _take(self) -> _Child | None:
        """Return an idle child or a new child, or None if no child can be started."""
        while not self._childless:
            try:
                child = self._idle.pop()  # `pop` never gives two threads the same child
            except IndexError:
                try:
                    return _Child(self._path)
                except (OSError, EOFError):
                    self._childless = True
                    return None
            if child.alive():
                return child
            child.kill()
        return None

    def _close(self) -> None:
        while self._idle:
            self._idle.pop().kill()

    def _forget(self) -> None:
        """Forget the compiler processes after a fork, because they belong to the parent process."""
        for child in self._idle:
            child.process.returncode = 0
        self._idle = []


class _Child:
    """A process with the compiler and the connection to it."""

    def __init__(self, path: str) -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            code = (
                f"import sys; sys.path[:] = {sys.path!r}\n"
                "from coalesce.compile.worker import serve\n"
                f"serve({theirs.fileno()}, {path!r})"
            )
            self._connection = Connection(ours.detach())
            self.process = subprocess.Popen(
                [sys.executable, "-c", code],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=(theirs.fileno(),),
                start_new_session=True,  # so that only the parent gets Ctrl-C from a terminal
            )
        try:
            self._connection.recv()  # the child sends a message when it is ready
        except BaseException:
            self.kill()
            raise

    def alive(self) -> bool:
        """Whether the child still waits for a request."""
        return self.process.poll() is None and not self._connection.poll()

    def ask(self, request: Any, seconds: float) -> Any:
        """Return the result of the compiler. If the compilation fails, return the log, a string."""
        try:
            self._connection.send(request)
            if not self._wait_for_answer(request[1], seconds):
                raise CompileError(
                    f"{request[1]}: the compiler did not end within {seconds:g} s. To allow more "
                    "time, set the environment variable COALESCE_COMPILE_SECONDS"
                )
            return self._connection.recv()
        except (EOFError, ConnectionError):
            raise CompileError(f"{request[1]}: {self._exit_reason()}") from None

    def _wait_for_answer(self, name: str, seconds: float) -> bool:
        """Wait for an answer, and show progress. Return whether the answer came in time."""
        if self._connection.poll(min(seconds, PATIENCE_SECONDS)):
            return True
        started = time.monotonic() - PATIENCE_SECONDS
        with reporter(None, f"compiling {name}", SECONDS) as report:
            while (passed := time.monotonic() - started) < seconds:
                if report is not None:
                    report(int(passed), int(seconds))
                if self._connection.poll(min(0.5, seconds - passed)):
                    return True
        return False

    def kill(self) -> None:
        """End the child now."""
        with contextlib.suppress(OSError):
            self.process.kill()
        self.process.wait()
        self._connection.close()

    def _exit_reason(self) -> str:
        status = self.process.wait()
        if status == -signal.SIGKILL:  # the system does not tell who sent the signal
            return (
                "the compiler was killed (SIGKILL), by another program or by the system for want "
                "of memory; run it again, or with more memory"
            )
        if status in (-signal.SIGABRT, -signal.SIGBUS):
            return f"the compiler ran out of memory (it may take {_MOST_BYTES >> 30} GiB)"
        number = -status if status < 0 else None
        reason = signal.Signals(number).name if number else f"exit status {status}"
        return f"the compiler crashed ({reason}); the source may nest too deeply"


def _seconds() -> float:
    """Return the time limit of a compilation in seconds."""
    try:
        return float(os.environ.get("COALESCE_COMPILE_SECONDS", "600"))
    except ValueError:
        return 600.0


def serve(descriptor: int, path: str) -> None:
    """Run the main program of the child: compile the sources that the parent sends.

    `descriptor` is the file descriptor of the connection to the parent. `path` is the path of
    NVRTC.
    """
    import resource

    from coalesce._core import cuda

    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
    resource.setrlimit(resource.RLIMIT_AS, (_MOST_BYTES, _MOST_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    connection = Connection(descriptor)
    compiler = cuda.Nvrtc(path)
    connection.send("ready")
    answer: Any
    while connection.poll(_IDLE_SECONDS):
        try:
            request = connection.recv()
        except EOFError:
            break
        try:
            answer = compiler.compile(*request)
        except CompileError as error:
            answer = str(error)
        except MemoryError:
            answer = "the compiler ran out of memory"
        with contextlib.suppress(OSError):
            connection.send(answer)
