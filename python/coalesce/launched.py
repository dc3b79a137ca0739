"""Analyses of launches that another package makes: Numba or Triton.

Such a package compiles a kernel and prepares the arguments of a launch itself. At the end of a
launch it calls `run`, which normally runs the launch. The functions of this module call a function
that makes launches, and analyse them instead.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, TypeVar

from coalesce.arrays import devices
from coalesce.common.errors import DeviceUnavailable
from coalesce.launch.launch import Launch
from coalesce.launch.run import run as run_launch

if TYPE_CHECKING:
    from coalesce.check import Findings
    from coalesce.profiling import Profile
    from coalesce.simulate.events import Trace
    from coalesce.stepping import Stepper

_T = TypeVar("_T")
_runner: ContextVar[Callable[[Launch], object]] = ContextVar("_runner", default=run_launch)


def run(launch: Launch) -> None:
    """Run a launch. Within a function of this module, analyse the launch instead."""
    _runner.get()(launch)


@contextmanager
def running_with(runner: Callable[[Launch], object]) -> Iterator[None]:
    """Pass the launches of a ``with`` block to `runner`."""
    if (device := devices.resolve()).kind != "sim":
        raise DeviceUnavailable(
            f"the kernels run on {device.name}, and only the simulator can analyse launches of "
            "Numba and Triton. Set the environment variable COALESCE_DEVICE=sim before the program "
            "starts"
        )
    token = _runner.set(runner)
    try:
        yield
    finally:
        _runner.reset(token)


def analysed(call: Callable[[], object], analysis: Callable[[Launch], _T]) -> _T:
    """Call a function that makes a launch, and return the result of `analysis` for the launch.

    If there are several launches, the last one counts.
    """
    results: list[_T] = []
    with running_with(lambda launch: results.append(analysis(launch))):
        call()
    if not results:
        raise ValueError("nothing was launched, so there is nothing to analyse")
    return results[-1]


def check(
    call: Callable[[], object],
    undefined: str | Sequence[str] = (),
    strict: bool = False,
    instruction_limit: int | None = None,
) -> Findings:
    """Report the mistakes of a launch. See `coalesce.Kernel.check`."""
    from coalesce.check import run as check_run

    return analysed(
        call,
        lambda launch: _without_compilers_own(
            check_run.of_launch(launch, undefined, strict, instruction_limit)
        ),
    )


def profile(
    call: Callable[[], object], executor: Any = None, progress: Any = None, caches: bool = True
) -> Profile:
    """Count what the accesses of a launch cost. See `coalesce.Kernel.profile`."""
    from coalesce.profiling import run as profiling_run

    settings = profiling_run.ProfileSettings(executor, progress, caches)
    return analysed(call, lambda launch: profiling_run.of_launch(launch, settings)[0])


def trace(
    call: Callable[[], object],
    blocks: Any = None,
    warps: int | Sequence[int] | None = None,
    lines: int | Sequence[int] | None = None,
    limit: int | None = 100_000,
    progress: Any = None,
) -> Trace:
    """Record the accesses of a launch. See `coalesce.Kernel.trace`."""
    from coalesce.tracing import run as tracing_run

    wanted = tracing_run.Selection(blocks, warps, lines, limit, progress)
    return analysed(call, lambda launch: tracing_run.of_launch(launch, wanted))


def step(
    call: Callable[[], object],
    of_block: int | tuple[int, ...] = (0, 0, 0),
    limit: int | None = 100_000,
    optimized: bool = False,
) -> Stepper:
    """Execute one block, instruction by instruction. See `coalesce.Kernel.step`."""
    from coalesce import stepping

    # The block works on copies of the arrays.
    return analysed(
        call, lambda launch: stepping.of_launch(launch.detached(), of_block, limit, optimized)
    )


@contextmanager
def checked(strict: bool = False) -> Iterator[list[Findings]]:
    """Check all launches in a ``with`` block.

    The result is a list that gets the findings of each launch with mistakes. Launches that Numba
    makes itself, such as those of ``cuda.reduce``, are checked, too.

    Examples
    --------
    >>> with coalesce.numba.checked() as findings:
    ...     scale[1, 32](x, 2.0)
    >>> findings
    []
    """
    from coalesce.check import run as check_run

    found: list[Findings] = []

    def runner(launch: Launch) -> None:
        findings = _without_compilers_own(check_run.of_launch(launch, (), strict))
        if findings:
            found.append(findings)

    with running_with(runner):
        yield found


def _without_compilers_own(findings: Findings) -> Findings:
    """Leave out the warnings about the shared memory that Triton's compiler uses for itself.

    In a reduction, for example, several threads store the same value there.
    """
    from coalesce.check import Findings

    kept = [f for f in findings if f.kind != "same_value" or f.array != "global_smem"]
    return Findings(findings.kernel, [*kept, *findings.notes], findings.left_out)
