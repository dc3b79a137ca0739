"""Runs the commands of the command line, such as ``coalesce demo`` and ``coalesce explain``."""

from __future__ import annotations

import argparse
import difflib
import json
import shlex
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import coalesce
from coalesce._core import printable
from coalesce.cli import parser

if TYPE_CHECKING:
    from rich.console import Console


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status.

    `arguments` are the words of the command line, such as ``["demo", "--size", "256"]``. By
    default, they come from sys.argv.
    """
    words = list(sys.argv[1:] if arguments is None else arguments)
    program = _program(words)
    options = parser.parse(words) if program is None else parser.parse_program(program[0])
    if options.command is None:
        parser.build().print_help()
        return 2
    try:
        if program is not None:
            from coalesce.cli.run_program import run_program

            return run_program(options, program[1])
        return COMMANDS[options.command](options)
    except BrokenPipeError:  # the program that reads the pipe has ended
        sys.stderr.close()
        return 0
    except KeyboardInterrupt as interrupt:
        # A note says which line of a kernel was interrupted.
        print("interrupted", *getattr(interrupt, "__notes__", ()), sep="\n", file=sys.stderr)
        return 130
    except MemoryError as error:
        print(f"coalesce: not enough memory: {error}", file=sys.stderr)
        return 1
    except (ValueError, TypeError, OSError, ImportError, coalesce.CoalesceError) as error:
        print(printable(f"coalesce: {error}"), file=sys.stderr)
        return 1


def _program(words: Sequence[str]) -> tuple[list[str], list[str]] | None:
    """Return the words before and after ``--``, if the command runs a whole program; else None."""
    if words[:1] not in (["run"], ["exec"]) or {"-h", "--help"} & {*words}:
        return None
    end = words.index("--") if "--" in words else len(words)
    before, after = list(words[:end]), list(words[end + 1 :])
    options = {word.partition("=")[0] for word in before}
    if before[0] == "run" and (len(before) == 1 or options & {"--grid", "--block", "--entry"}):
        return None  # the command runs one kernel, not a whole program
    return before, after


def _demo(options: argparse.Namespace) -> int:
    from coalesce.cli.demo import run_demo

    right = run_demo(
        console(),
        size=options.size,
        device=options.device,
        variants=tuple(options.variants),
        dtype=options.dtype,
    )
    return 0 if right else 1


def _devices(options: argparse.Namespace) -> int:
    from coalesce.arrays.devices import gpu_status
    from coalesce.render import tables

    del options
    listed = coalesce.devices()
    rows = []
    for device in listed:
        major, minor = device.compute_capability
        memory = f"{device.memory / 2**30:.0f} GiB" if device.memory else ""
        checked = {None: "", True: "yes", False: "no"}[device.checked]
        rows.append((device.name, device.description, f"{major}.{minor}", memory, checked))
    heads = ("name", "device", "compute capability", "memory", "checked against a GPU")
    console().print(tables.table(heads, rows, wrap=heads[2:]))
    if listed[0].kind != "cuda":
        console().print(
            "Kernels run on the simulator. Its counts are the same as on a GPU. "
            f"Kernels cannot run on a GPU here: {gpu_status().message}"
        )
    return 0


def _doctor(options: argparse.Namespace) -> int:
    from coalesce.cli.doctor import run_doctor

    del options
    return 0 if run_doctor(console()) else 1


def _variants(options: argparse.Namespace) -> int:
    if options.source:
        if options.operation is None:
            raise ValueError(
                "--source needs an operation, for example: coalesce variants matmul --source tiled"
            )
        print(coalesce.source(options.operation, options.source), end="")
    else:
        print(coalesce.variants(options.operation))
    return 0


def _run(options: argparse.Namespace) -> int:
    from coalesce.cli.run_file import run_file

    run_file(
        console(),
        options.file,
        options.entry,
        options.argument,
        grid=options.grid,
        block=options.block,
        shared_bytes=options.shared,
        device=options.device,
        options=tuple(options.option),
        limit=options.instruction_limit,
    )
    return 0


def _bench(options: argparse.Namespace) -> int:
    from coalesce.cli.report import bench, check_plot, write_plot

    if options.operation == "shapes":
        return _bench_shapes(options)
    if options.plot:
        check_plot(options.plot)
    timed = bench(
        options.operation,
        options.variants,
        options.argument,
        size=options.size,
        dtype=options.dtype,
        device=options.device,
        shape=options.shape,
        runs=options.runs or "auto",
        l2=options.l2,
        repeats=options.repeats,
        whole_calls=options.whole_calls,
    )
    print(timed)
    _write(timed, options.html, options.json)
    if options.plot and timed.comparable:
        write_plot(timed, options.plot)
    return 0 if timed.correct else 1


def _bench_shapes(options: argparse.Namespace) -> int:
    from dataclasses import asdict

    from coalesce.benchmarking import shapes

    timed = shapes.measure(options.seed, options.count, options.device, options.l2)
    print(shapes.summary(timed))
    if options.json:
        rows = [asdict(row) for row in timed]
        Path(options.json).write_text(json.dumps(rows, indent=1), encoding="utf-8")
    return 0 if all(row.error < shapes.TOLERANCE for row in timed) else 1


def _explain(options: argparse.Namespace) -> int:
    from coalesce import catalogue

    if options.what in catalogue.operations() and not Path(options.what).is_file():
        return _explain_operation(options)
    if Path(options.what).is_file():
        return _explain_file(options)
    near = difflib.get_close_matches(options.what, catalogue.operations(), 1)
    raise ValueError(
        f"{options.what!r} is neither a file nor an operation; "
        f"the operations are {', '.join(catalogue.operations())}"
        + (f"; did you mean {near[0]}?" if near else "")
    )


# Options of `explain` that only kernels of files or only operations have, and their defaults.
_FOR_KERNELS: dict[str, Any] = {
    "entry": None,
    "grid": None,
    "block": None,
    "shared": 0,
    "instruction_limit": None,
    "option": [],
    "wavefront": None,
    "accel_sim": None,
    "sass": False,
}
_FOR_OPERATIONS: dict[str, Any] = {"variants": [], "size": None, "dtype": "float32"}


def _refuse(options: argparse.Namespace, names: dict[str, Any], needed: str) -> None:
    for name, default in names.items():
        if getattr(options, name) != default:
            raise ValueError(f"--{name.replace('_', '-')} needs {needed} {options.what}")


def _explain_operation(options: argparse.Namespace) -> int:
    from coalesce.cli.explain import of_operation

    _refuse(options, _FOR_KERNELS, "a kernel of a .cu or .ptx file; got the operation")
    explained = of_operation(
        options.what,
        options.variants,
        options.argument,
        n=options.size,
        dtype=options.dtype,
        device=options.device,
    )
    print(explained)
    _write(explained, options.html, options.json)
    return 0


def _explain_file(options: argparse.Namespace) -> int:
    from coalesce.cli.run_file import argument, kernel_of

    _refuse(options, _FOR_OPERATIONS, "an operation, such as matmul; got the file")
    if options.grid is None or options.block is None:
        raise ValueError(
            f"explain {options.what} needs a grid and a block: add --grid and --block, such as "
            f"--grid 4 --block 256; if the file has a main(), run all of it: coalesce run "
            f"{shlex.quote(options.what)}"
        )
    kernel, words = kernel_of(
        options.what,
        options.entry,
        options.argument,
        options.option,
        limit=options.instruction_limit,
    )
    launch = options.grid, options.block
    values = [argument(word) for word in words]
    explained = kernel.profile(
        *launch,
        *values,
        shared_bytes=options.shared,
        device=options.device,
    )
    print(explained)
    if options.sass:
        print(f"\n{explained.machine_code()}")
    if options.accel_sim is not None:
        values = [argument(word) for word in words]  # the profiled launch may have changed arrays
        written = kernel.write_trace(
            options.accel_sim, *launch, *values, shared_bytes=options.shared, device=options.device
        )
        print(f"\nThe trace for Accel-Sim is {written}")
    if options.wavefront is not None:
        values = [argument(word) for word in words]
        trace = kernel.trace(*launch, *values, shared_bytes=options.shared, device="sim")
        print(f"\n{trace.wavefronts(line_bytes=options.wavefront)}")
    _write(explained, options.html, options.json)
    return 0


def _compare(options: argparse.Namespace) -> int:
    from coalesce.cli.compare import compare

    return 0 if compare(options) else 1


def _check(options: argparse.Namespace) -> int:
    from coalesce.check import ci
    from coalesce.cli.run_file import argument, kernel_of

    kernel, words = kernel_of(
        options.file,
        options.entry,
        options.argument,
        options.option,
        limit=options.instruction_limit,
    )
    values = [argument(word) for word in words]
    findings = kernel.check(
        options.grid,
        options.block,
        *values,
        shared_bytes=options.shared,
        device=options.device,
        strict=options.strict,
    )
    print(findings)
    return ci.report(ci.of_findings((*findings, *findings.notes), options.file), options, 1)


def _grade(options: argparse.Namespace) -> int:
    from coalesce.cli.grade import run_grade

    return 0 if run_grade(console(), options) else 1


def _report(options: argparse.Namespace) -> int:
    from coalesce.cli.report import report

    path = Path(options.html or f"{options.operation}.html")
    timed = report(
        options.operation,
        options.variants,
        options.argument,
        path,
        size=options.size,
        dtype=options.dtype,
        device=options.device,
    )
    print(timed)
    print(f"The page is {path}")
    _write(timed, None, options.json)
    return 0 if timed.correct else 1


def _cache(options: argparse.Namespace) -> int:
    from coalesce.compile import cache_folder

    if options.clear:
        deleted = cache_folder.clear()
        entries = "1 entry" if deleted.entries == 1 else f"{deleted.entries} entries"
        print(f"deleted {entries}, {deleted.bytes / 2**20:.1f} MiB")
    usage = cache_folder.usage()
    print(f"folder   {usage.folder}")
    print(f"entries  {usage.entries}")
    print(f"size     {usage.bytes / 2**20:.1f} MiB")
    print(f"limit    {usage.limit / 2**20:.0f} MiB")
    return 0


COMMANDS: dict[str, Callable[[argparse.Namespace], int]] = {
    "demo": _demo,
    "devices": _devices,
    "doctor": _doctor,
    "variants": _variants,
    "run": _run,
    "bench": _bench,
    "explain": _explain,
    "compare": _compare,
    "check": _check,
    "grade": _grade,
    "report": _report,
    "cache": _cache,
}


def _write(result: Any, html: str | None, data: str | None) -> None:
    """Write a result as HTML to the file `html` and as JSON to the file `data`. None: no file."""
    if html:
        result.to_html(html)
    if data:
        Path(data).write_text(json.dumps(result.to_dict(), indent=1), encoding="utf-8")


def console() -> Console:
    """Return the console for the output. A pipe gets COLUMNS columns, or 100, and no colours."""
    from rich.console import Console

    from coalesce.render.console import columns

    if sys.stdout.isatty():
        return Console(highlight=False)
    return Console(width=columns(terminal=False), no_color=True, highlight=False)
