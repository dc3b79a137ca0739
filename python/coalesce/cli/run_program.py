"""`coalesce run PROGRAM.cu` and `coalesce exec PROGRAM`: run a whole program on the simulator."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from coalesce import programs

_FAILED = 3  # the exit status if --check has findings but the program itself succeeded


def run_program(options: argparse.Namespace, arguments: Sequence[str]) -> int:
    """Run a program, print on stderr what its kernels cost, and return its exit status.

    A .cu file is compiled first.
    """
    gpu = _gpu(options.device)
    launches = None
    if options.launch is not None:
        launches = options.launch
    elif options.profile:
        launches = "first"
    settings = {"gpu": gpu, "check": options.check, "launches": launches}
    try:
        if options.command == "exec":
            outcome = programs.execute(options.file[0], arguments, **settings)
        else:
            outcome = programs.run(options.file, arguments, options=options.option, **settings)
    except LookupError as error:  # no compiler, or a library that cannot be simulated
        raise ValueError(str(error)) from None
    from coalesce.programs import report

    if outcome.signal:
        print(f"The program was ended by {outcome.signal}.", file=sys.stderr)
    print("\n" + report.as_text(outcome), file=sys.stderr)
    if options.html:
        report.write_html(outcome, Path(options.file[0]).name, options.html)
    if options.json:
        Path(options.json).write_text(json.dumps(report.as_dict(outcome), indent=1))
    wrong = options.check and outcome.report is not None and report.has_errors(outcome.report)
    return outcome.status or (_FAILED if wrong else 0)


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
