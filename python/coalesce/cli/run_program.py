"""`coalesce run PROGRAM.cu` and `coalesce exec PROGRAM`: run a whole program on the simulator."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

from coalesce import programs

# The exit statuses if the program itself succeeded, but its kernels could not run or --check has
# findings.
_UNUSABLE, _FAILED = 1, 3


def run_program(options: argparse.Namespace, arguments: Sequence[str]) -> int:
    """Run a program, print on stderr what its kernels cost, and return its exit status.

    A .cu file is compiled first. If SIGTERM or SIGHUP ends the program, for example because of the
    command ``timeout``, the costs of the launches until then are printed.
    """
    settings = programs.Settings(
        gpu=_gpu(options.device),
        check=options.check,
        strict=options.strict,
        launches=options.launch or ("first" if options.profile else ""),
        instruction_limit=options.instruction_limit or 0,
    )
    try:
        with _passed_on_signals():
            if options.command == "exec":
                outcome = programs.execute(options.file[0], arguments, settings)
            else:
                outcome = programs.run(options.file, arguments, settings, options.option)
    except LookupError as error:  # no compiler, or a library that cannot be simulated
        raise ValueError(str(error)) from None
    except programs.Stopped as stopped:
        return 128 + stopped.number
    from coalesce.check import ci
    from coalesce.programs import report

    if outcome.signal:
        print(f"The program was ended by {outcome.signal}.", file=sys.stderr)
    print("\n" + report.as_text(outcome), file=sys.stderr)
    if options.html:
        report.write_html(outcome, Path(options.file[0]).name, options.html)
    if options.json:
        Path(options.json).write_text(json.dumps(report.as_dict(outcome), indent=1))
    if outcome.report is None:
        return outcome.status
    found = 0
    if options.check:
        found = ci.report(report.problems(outcome.report), options, _FAILED)
    unusable = _UNUSABLE if outcome.report["unusable"] else 0
    return outcome.status or unusable or found


@contextlib.contextmanager
def _passed_on_signals() -> Iterator[None]:
    """Pass signals that would end only this process on to the program."""
    ending = (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
    numbers = [number for number in ending if signal.getsignal(number) == signal.SIG_DFL]
    if threading.current_thread() is not threading.main_thread():
        numbers = []  # only the main thread may change how signals are handled
    for number in numbers:
        signal.signal(number, programs.pass_on)
    try:
        yield
    finally:
        for number in numbers:
            signal.signal(number, signal.SIG_DFL)


def _gpu(device: str | None) -> str:
    name = (device or "sim").removeprefix("sim:")
    if name == "sim" and not os.environ.get("COALESCE_DEVICE"):
        return "h200"
    if name in programs.ARCHITECTURES:
        return name
    from coalesce.arrays import devices

    wanted = device or "sim"
    if devices.is_gpu(wanted):
        raise ValueError(
            f"coalesce runs whole programs only on the simulator; got --device {wanted}. To use a "
            "GPU, start the program without coalesce"
        )
    return devices.modelled_gpu(devices.resolve(wanted))
