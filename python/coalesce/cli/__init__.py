"""The command line: ``coalesce demo | devices | variants | run | bench | explain | ...``."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import coalesce

if TYPE_CHECKING:
    from rich.console import Console


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return its exit status."""
    parser = _parser()
    # A kernel's arguments may follow the options: argparse leaves those it met too late.
    words = _joined(sys.argv[1:] if arguments is None else arguments)
    options, late = parser.parse_known_args(words)
    if late and (getattr(options, "argument", None) is None or any(a[:2] == "--" for a in late)):
        unknown = [word for word in late if word.startswith("-")] or late
        parser.error(f"unrecognized arguments: {' '.join(unknown)}")
    if late:
        options.argument += late
    if options.command is None:
        _parser().print_help()
        return 2
    try:
        status: int = options.command(options)
        return status
    except BrokenPipeError:  # the reader of a pipe has seen enough
        sys.stderr.close()
        return 0
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    except MemoryError as error:
        print(f"coalesce: not enough memory: {error}", file=sys.stderr)
        return 1
    except (ValueError, TypeError, OSError, coalesce.CoalesceError) as error:
        print(f"coalesce: {error}", file=sys.stderr)
        return 1


def _joined(words: Sequence[str]) -> list[str]:
    """Return ``--option -DX=1`` as one word; what follows --option may start with a dash."""
    joined: list[str] = []
    for word in words:
        if joined and joined[-1] == "--option" and word.startswith("-"):
            joined[-1] += f"={word}"
        else:
            joined.append(word)
    return joined


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="coalesce",
        description="Run CUDA kernels on a GPU or on a warp-level simulator, and count what "
        "their memory accesses cost.",
    )
    parser.add_argument("--version", action="version", version=f"coalesce {coalesce.__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")
    parser.set_defaults(command=None)

    demo = commands.add_parser("demo", help="multiply two matrices with every variant")
    demo.add_argument("--n", type=_positive, help="rows and columns of the matrices")
    demo.add_argument("--device", help="cuda, cuda:1, sim, ... (default: the best there is)")
    demo.add_argument("--variant", action="append", help="only this variant; may be repeated")
    demo.add_argument("--dtype", choices=("float32", "float64"), default="float32")
    demo.set_defaults(command=_demo)

    devices = commands.add_parser("devices", help="list what kernels can run on")
    devices.set_defaults(command=_devices)

    variants = commands.add_parser("variants", help="list the operations and their variants")
    variants.add_argument("operation", nargs="?", help="matmul, transpose, ... (default: all)")
    variants.add_argument("--source", metavar="VARIANT", help="print this variant's CUDA text")
    variants.set_defaults(command=_variants)

    run = commands.add_parser(
        "run",
        help="run a kernel of a .cu or .ptx file",
        description="Run a kernel. Arguments are numbers, typed as the kernel declares them, or "
        "arrays: zeros:SHAPE, ones:SHAPE, arange:SHAPE or random:SHAPE with a dtype after a "
        "second colon (float32 by default), as in random:64x64:float64; or a .npy file. Prints "
        "what the arrays hold afterwards and what the run cost.",
    )
    run.add_argument("file", help="CUDA C++ or PTX")
    run.add_argument("entry", help="the kernel's name")
    run.add_argument("argument", nargs="*", help="the kernel's arguments in order")
    _add_launch(run, required=True)
    run.add_argument("--device", help="cuda, cuda:1, sim, ... (default: the best there is)")
    run.set_defaults(command=_run)
    _add_bench(commands)
    _add_explain(commands)
    _add_report(commands)

    cache = commands.add_parser(
        "cache",
        help="show or clear the compiled kernels on disk",
        description="Show where compiled kernels are kept, how much space they take and the limit.",
    )
    cache.add_argument("--clear", action="store_true", help="delete them")
    cache.set_defaults(command=_cache)
    return parser


def _add_launch(parser: argparse.ArgumentParser, *, required: bool) -> None:
    extents: dict[str, Any] = {"type": _extents, "required": required, "metavar": "X[,Y[,Z]]"}
    parser.add_argument("--grid", help="blocks", **extents)
    parser.add_argument("--block", help="threads", **extents)
    parser.add_argument(
        "--shared", type=int, default=0, metavar="BYTES", help="dynamic shared memory"
    )
    # All are options of the compiler, in the order they were given.
    parser.add_argument(
        "--option", action="append", default=[], help="for the compiler: --option -DTILE=16"
    )
    for letter, metavar, what in (("D", "NAME[=VALUE]", "a macro"), ("I", "DIR", "for #include")):
        parser.add_argument(
            f"-{letter}",
            dest="option",
            action="append",
            type=f"-{letter}{{}}".format,
            metavar=metavar,
            help=what,
        )


def _add_explain(commands: Any) -> None:
    explain = commands.add_parser(
        "explain",
        help="say what the memory accesses of a kernel cost, line by line",
        usage="coalesce explain FILE [--entry NAME] --grid X[,Y[,Z]] --block X[,Y[,Z]] "
        "[--arg ARGUMENT]...\n       coalesce explain OPERATION [--variant NAME]... [-n N] "
        "[NAME=VALUE]...",
        description="Profile a kernel of a .cu or .ptx file, with arguments as for run (f32:1024 "
        "is short for random:1024:float32), or variants of an operation; several are compared.",
    )
    explain.add_argument("what", metavar="FILE|OPERATION", help="kernel.cu, or matmul, access, ...")
    explain.add_argument(
        "argument", nargs="*", help="as --entry, then --arg; of an operation NAME=VALUE"
    )
    kernel = explain.add_argument_group("a kernel")
    kernel.add_argument("--entry", help="its name, where the file has several kernels")
    kernel.add_argument(
        "--arg", action="append", default=[], metavar="ARGUMENT", help="its arguments in order"
    )
    _add_launch(kernel, required=False)
    operation = explain.add_argument_group("an operation")
    operation.add_argument("--variant", action="append", default=[], help="may be repeated")
    operation.add_argument("-n", type=_positive, help="rows and columns (default: 512)")
    operation.add_argument("--dtype", choices=("float32", "float64"), default="float32")
    explain.add_argument("--device", default="sim", help="sim (default), cuda, cuda:1, ...")
    explain.add_argument(
        "--sample", type=float, metavar="SHARE", help="simulate this share of the blocks: 0.05"
    )
    explain.add_argument("--html", metavar="PATH", help="write the report as a page, too")
    explain.add_argument("--json", metavar="PATH", help="write everything as JSON, too")
    explain.set_defaults(command=_explain)


def _add_bench(commands: Any) -> None:
    bench = commands.add_parser(
        "bench",
        help="time variants of an operation: a table",
        description="Time variants of an operation on arrays of random numbers, each checked "
        "against NumPy: measured on a GPU, modelled on the simulator. Beside the variants there "
        "are peers: numpy, and on a GPU cublas, cupy and torch.",
    )
    bench.add_argument("operation", help="matmul, transpose, row_sums, column_sums or access")
    _add_table(bench)
    bench.add_argument(
        "--runs", type=_positive, help="timed runs (default: until the median is steady)"
    )
    bench.add_argument("--json", metavar="FILE", help="write everything as JSON, too")
    bench.set_defaults(command=_bench)


def _add_report(commands: Any) -> None:
    report = commands.add_parser(
        "report",
        help="write a page on an operation: table, ladder, every variant line by line",
        description="Write a page on an operation: the table of coalesce bench, the ladder, each "
        "variant's profile and what changed from the one before. One file, without scripts.",
    )
    report.add_argument(
        "operation",
        nargs="?",
        default="matmul",
        help="matmul (default), transpose, row_sums, column_sums or access",
    )
    _add_table(report)
    report.add_argument("--html", metavar="FILE", help="the page (default: OPERATION.html)")
    report.set_defaults(command=_report)


def _add_table(parser: argparse.ArgumentParser) -> None:
    """Add the arguments that `bench` and `report` share."""
    parser.add_argument("argument", nargs="*", help="of the operation, as NAME=VALUE: tile=16")
    parser.add_argument(
        "--variants", type=_listed, metavar="NAME[,NAME...]", help="default: all of the operation"
    )
    parser.add_argument(
        "--size", "-n", type=_positive, help="rows and columns; elements of a vector"
    )
    parser.add_argument("--dtype", choices=("float32", "float64"), default="float32")
    parser.add_argument("--device", help="cuda, cuda:1, sim, ... (default: the best there is)")


def _bench(options: argparse.Namespace) -> int:
    from coalesce.cli.report import bench

    timed = bench(
        options.operation,
        options.variants,
        options.argument,
        size=options.size,
        dtype=options.dtype,
        device=options.device,
        runs=options.runs or "auto",
    )
    print(timed)
    if options.json:
        Path(options.json).write_text(json.dumps(timed.to_dict(), indent=1), encoding="utf-8")
    return 0 if timed.correct else 1


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
    return 0 if timed.correct else 1


def _demo(options: argparse.Namespace) -> int:
    from coalesce.cli.demo import run_demo

    right = run_demo(
        console(),
        size=options.n,
        device=options.device,
        variants=tuple(options.variant or ()),
        dtype=options.dtype,
    )
    return 0 if right else 1


def _devices(options: argparse.Namespace) -> int:
    from coalesce.arrays.devices import gpu_status

    del options
    listed = coalesce.devices()
    width = max(len(device.name) for device in listed)
    for device in listed:
        major, minor = device.compute_capability
        memory = f", {device.memory / 2**30:.0f} GiB" if device.memory else ""
        line = f"{device.name:<{width}}  {device.description}, compute capability {major}.{minor}"
        checked = {None: "", True: ", checked against hardware", False: ", not checked"}
        console().print(line + memory + checked[device.checked], soft_wrap=True)
    if listed[0].kind != "cuda":
        console().print(f"No GPU: {gpu_status().message}", soft_wrap=True)
    return 0


def _variants(options: argparse.Namespace) -> int:
    if options.source:
        if options.operation is None:
            raise ValueError("--source needs an operation: coalesce variants matmul --source tiled")
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
    )
    return 0


def _explain(options: argparse.Namespace) -> int:
    from coalesce import catalogue
    from coalesce.cli.explain import of_file, of_operation, split_entry

    settings = {"device": options.device, "sample": options.sample}
    if options.what in catalogue.operations() and not Path(options.what).is_file():
        found: Any = of_operation(
            options.what,
            options.variant,
            [*options.arg, *options.argument],
            n=options.n,
            dtype=options.dtype,
            **settings,
        )
    else:
        if not Path(options.what).is_file():
            raise ValueError(
                f"there is neither a file nor an operation {options.what!r}; "
                f"the operations are {', '.join(catalogue.operations())}"
            )
        if options.grid is None or options.block is None:
            raise ValueError(f"explain {options.what} needs --grid and --block")
        entry, words = split_entry(options.entry, options.argument)
        found = of_file(
            options.what,
            entry,
            [*options.arg, *words],
            grid=options.grid,
            block=options.block,
            shared_bytes=options.shared,
            options=options.option,
            **settings,
        )
    print(found)
    if options.html:
        found.to_html(options.html)
    if options.json:
        Path(options.json).write_text(json.dumps(found.to_dict(), indent=1), encoding="utf-8")
    return 0


def _cache(options: argparse.Namespace) -> int:
    from coalesce.compile import cache_folder

    if options.clear:
        deleted = cache_folder.clear()
        print(f"deleted {deleted.entries} entries, {deleted.bytes / 2**20:.1f} MiB")
    found = cache_folder.usage()
    print(f"folder   {found.folder}")
    print(f"entries  {found.entries}")
    print(f"size     {found.bytes / 2**20:.1f} MiB")
    print(f"limit    {found.limit / 2**20:.0f} MiB")
    return 0


def console() -> Console:
    """Return where output goes: the terminal, or 100 columns without colour."""
    from rich.console import Console

    if sys.stdout.isatty():
        return Console(highlight=False)
    return Console(width=100, no_color=True, highlight=False)


def _positive(text: str) -> int:
    try:
        value = int(text)
    except ValueError:
        value = 0
    if value < 1:
        raise argparse.ArgumentTypeError(f"must be an integer of at least 1, not {text!r}")
    return value


def _listed(text: str) -> tuple[str, ...]:
    names = tuple(name.strip() for name in text.split(","))
    if not all(names):
        raise argparse.ArgumentTypeError(f"must be names with commas between them, not {text!r}")
    return names


def _extents(text: str) -> tuple[int, ...]:
    try:
        extents = tuple(int(part) for part in text.replace("x", ",").split(","))
    except ValueError:
        extents = ()
    if not 1 <= len(extents) <= 3 or min(extents) < 1:
        raise argparse.ArgumentTypeError(f"must be 1 to 3 positive integers, not {text!r}")
    return extents


if __name__ == "__main__":
    sys.exit(main())
