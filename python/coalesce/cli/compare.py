"""`coalesce compare REPORT FILE [ENTRY] [ARGUMENT ...]`: a measured launch beside the counts."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from coalesce.cli.run_file import argument, kernel_of
from coalesce.profiling.hardware import ncu, ncu_report
from coalesce.profiling.hardware.counters import MeasuredCounters
from coalesce.profiling.result import Profile

_SECONDS = 600.0  # the longest time that ncu may take to read a report


def compare(options: argparse.Namespace) -> bool:
    """Print the comparison. Return whether all counts that are called exact are equal."""
    kernel, words = kernel_of(
        options.file,
        options.entry,
        options.argument,
        options.option,
        limit=options.instruction_limit,
    )
    program = ncu.find() if Path(options.report).suffix == ".ncu-rep" else None
    launches = ncu_report.read(options.report, program, _SECONDS)
    measured = ncu_report.of_kernel(launches, kernel.name, options.launch, options.report)
    profile = kernel.profile(
        measured.grid,
        measured.block,
        *[argument(word) for word in words],
        shared_bytes=options.shared,
        device=options.device,
    )
    counters = profile.compared(measured.metrics)
    print(f"{profile.title}: grid {measured.grid}, block {measured.block}\n\n{counters}")
    if counters.mismatches and options.defect:
        _write_defect(options, kernel.source, profile, counters)
        print(f"Please send {options.defect} with your report.")
    return not counters.mismatches


def _write_defect(
    options: argparse.Namespace, source: str, profile: Profile, counters: MeasuredCounters
) -> None:
    """Write the source, the arguments and all counts, so that the defect can be repeated."""
    found = {
        "command": vars(options),
        "source": source,
        "measured": dict(counters.measured),
        "mismatches": counters.mismatches,
        "profile": profile.to_dict(),
    }
    Path(options.defect).write_text(json.dumps(found, indent=1, default=str), encoding="utf-8")
