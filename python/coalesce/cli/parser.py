"""The parsers of the command line, made with argparse.

If several commands have the same option, one function adds this option to all of them. So the name,
the values and the help of the option are the same everywhere.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any, Literal, NoReturn

import coalesce
from coalesce._core import printable

SIMULATED = "sim, sim:a100, ..."
OPERATION_ARGUMENT = "an argument of the operation, for example tile=16"
KERNEL_ARGUMENTS = (
    "the name of the kernel, if the file has several; then the kernel's arguments in order"
)


def parse(words: Sequence[str]) -> argparse.Namespace:
    """Return the options of the command line `words`. For a mistake, print a message and exit."""
    parser = build()
    if words and words[0] in _INSTEAD:
        parser.error(f"there is no command {words[0]}; {_INSTEAD[words[0]]}")
    # argparse does not know the arguments of the kernel, which may follow the options. It returns
    # them as unknown arguments.
    options, rest = parser.parse_known_args(_join_option_values(words))
    if rest and (getattr(options, "argument", None) is None or any(a[:2] == "--" for a in rest)):
        unknown = [word for word in rest if word.startswith("-")] or rest
        parser.error(f"unrecognized arguments: {' '.join(unknown)}")
    if rest:
        options.argument += rest
    if options.command == "run":
        for name in ("profile", "launch", "check", "strict", "github", "sarif", "html", "json"):
            if vars(options)[name]:
                parser.error(
                    f"--{name} is an option for a whole program. To run a whole program, leave out "
                    "--grid, --block and the kernel's name. To profile or check one kernel, use "
                    "coalesce explain or coalesce check"
                )
    return options


def _join_option_values(words: Sequence[str]) -> list[str]:
    """Join ``--option -DX=1`` into one word, ``--option=-DX=1``.

    Otherwise argparse would take the value for an option, because it starts with a dash.
    """
    joined: list[str] = []
    for word in words:
        if joined and joined[-1] == "--option" and word.startswith("-"):
            joined[-1] += f"={word}"
        else:
            joined.append(word)
    return joined


def parse_program(words: Sequence[str]) -> argparse.Namespace:
    """Return the options of `coalesce run PROGRAM.cu` or `coalesce exec PROGRAM`.

    `words` has the words before ``--``. The words after ``--`` belong to the program.
    """
    command = words[0]
    parser = _Program(
        prog=f"coalesce {command}", description=PROGRAM[command], formatter_class=_Help
    )
    if command == "run":
        parser.add_argument("file", nargs="+", help="CUDA C++ and C++, the main file first")
    else:
        parser.add_argument("file", nargs=1, help="an executable")
    _add_program(parser)
    _add_device(parser, "sim", names=SIMULATED)
    _add_compiler(parser)
    options = parser.parse_args(_join_option_values(words[1:]))
    options.command = command
    given = [name for name in ("strict", "github", "sarif") if vars(options)[name]]
    if options.fail_on is not _FAILS:
        given.append("fail-on")
    if given and not options.check:
        parser.error(f"--{given[0]} has no effect without --check")
    return options


# The severities of findings that change the exit status, unless --fail-on names others.
_FAILS = ("error", "warning")

# Words that are not commands, but that users try, and what does the same.
_INSTEAD = {
    "profile": "coalesce explain FILE.cu profiles a kernel",
    "step": "Kernel.step() runs a kernel in steps, in Python",
    "trace": "Kernel.trace() records the memory instructions, in Python",
    "lessons": "the lessons are notebooks, in the folder notebooks of the repository",
}


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        super().error(printable(message))


class _Program(_Parser):
    """A parser whose error for an unknown word says how to write the program's arguments."""

    def error(self, message: str) -> NoReturn:
        hint = "; arguments of the program follow --" if "unrecognized" in message else ""
        super().error(message + hint)


PROGRAM = {
    "run": "Compile a CUDA program with its host code, and run it on the simulator. Then print "
    "what its kernels cost. The program's arguments follow --.",
    "exec": "Run an executable on the simulator. It must be a CUDA program that was built with "
    "nvcc -cudart shared, or that uses only the driver API. The program's arguments follow --.",
}


def _add_program(parser: Any) -> None:
    """Add the options for whole programs, except --device and the compiler's options."""
    parser.add_argument("--profile", action="store_true", help="profile each kernel's first launch")
    parser.add_argument(
        "--launch",
        type=_launch,
        metavar="N",
        help="profile launch N of each kernel; all: every launch",
    )
    parser.add_argument(
        "--check",
        action="store_true",
        help="look for mistakes in the kernels and in the host code; exit with 3 if there are any",
    )
    _add_check_options(parser)
    _add_limit(parser)
    _add_files(parser)


def _add_limit(parser: Any) -> None:
    parser.add_argument(
        "--instruction-limit",
        type=_positive,
        metavar="N",
        help="end a launch after N warp instructions (default: no limit)",
    )


def _add_check_options(parser: Any) -> None:
    """Add the options that say how a check works, and how its findings are reported."""
    parser.add_argument(
        "--strict",
        action="store_true",
        help="check by stricter rules: `volatile` protects no access, and warnings about races are "
        "errors",
    )
    parser.add_argument(
        "--fail-on",
        type=_wanted,
        default=_FAILS,
        metavar="KINDS",
        help="the severities or kinds of findings that change the exit status, such as race,error "
        "(default: error,warning). A leak counts only if it is named",
    )
    parser.add_argument(
        "--github", action="store_true", help="also print the findings as annotations of GitHub"
    )
    parser.add_argument(
        "--sarif", metavar="FILE", help="also write the findings to a file, in the format SARIF"
    )


def _wanted(text: str) -> tuple[str, ...]:
    from coalesce.check import ci

    try:
        return ci.wanted(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def build() -> argparse.ArgumentParser:
    """Return the parser of all commands. It stores the command's name in `options.command`."""
    parser = _Parser(
        prog="coalesce",
        description="Run CUDA kernels on a GPU or on a simulator, and count what their memory "
        "accesses cost.",
        epilog="coalesce COMMAND --help describes a command.",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"coalesce {coalesce.__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", dest="command")

    demo = _command(
        commands,
        "demo",
        "multiply two matrices with every variant and compare the costs",
        "Multiply two matrices of random numbers with every variant. Each result is compared with "
        "NumPy's.",
        "coalesce demo --size 256",
    )
    _add_variants(demo, "all that the device can run")
    _add_arrays(demo, "2048 on a GPU, 512 on the simulator", vectors=False)
    _add_device(demo)

    _command(
        commands,
        "devices",
        "list the GPUs and the simulated GPUs",
        "List the devices that kernels can run on. If there is no GPU, say why.",
    )

    _command(
        commands,
        "doctor",
        "say what is installed here, and what to do about the rest",
        "Look for the compiler, the disassembler, a GPU and its driver, nvcc and g++. Run a kernel "
        "on the simulator. The exit status is 1 if kernels cannot run.",
    )

    variants = _command(
        commands,
        "variants",
        "list the operations and their variants",
        "List the variants of an operation, or print the CUDA C++ source of one of them.",
        "coalesce variants matmul --source tiled",
    )
    variants.add_argument("operation", nargs="?", help="matmul, transpose, ... (default: all)")
    variants.add_argument(
        "--source", metavar="NAME", help="print the CUDA C++ source of this variant"
    )

    _add_run(commands)
    _add_exec(commands)
    _add_bench(commands)
    _add_explain(commands)
    _add_compare(commands)
    _add_check(commands)
    _add_grade(commands)
    _add_report(commands)

    cache = _command(
        commands,
        "cache",
        "show or clear the compiled kernels on disk",
        "Show the folder of the compiled kernels, its size on disk, and the limit of this size.",
    )
    cache.add_argument("--clear", action="store_true", help="delete the compiled kernels")
    return parser


def _add_run(commands: Any) -> None:
    run = _command(
        commands,
        "run",
        "run a CUDA program, or a kernel of a .cu or .ptx file",
        "Without --grid and --block: compile and run a whole CUDA program on the simulator, with "
        "its host code, and print what its kernels cost. With --grid and --block: run one kernel, "
        "and print its arrays and what the run cost. An argument of the kernel is a number, a .npy "
        "file or an array. A number is converted to the type that the kernel declares. An array is "
        "written as FILL:SHAPE or FILL:SHAPE:DTYPE. FILL is zeros, ones, arange or random. DTYPE "
        "is float32 by default. f32:1024 is short for random:1024:float32.",
        "coalesce run PROGRAM.cu -- 1000",
        "coalesce run PROGRAM.cu --check",
        "coalesce run FILE.cu ENTRY --grid 4 --block 256 random:1000 2.0 1000",
        usage="coalesce run PROGRAM.cu [OPTION]... [-- ARGUMENT...]\n"
        "       coalesce run FILE [ENTRY] --grid X[,Y[,Z]] --block X[,Y[,Z]]\n"
        "                    [OPTION]... [ARGUMENT]...",
    )
    run.add_argument("file", help="CUDA C++ or PTX")
    run.add_argument("argument", nargs="*", metavar="[ENTRY] ARGUMENT", help=KERNEL_ARGUMENTS)
    _add_device(run, words="for a program: sim; for a kernel: the first GPU, or else the simulator")
    _add_compiler(run)
    _add_program(run.add_argument_group("options for a whole program"))
    _add_kernel(run.add_argument_group("options for a kernel"), required=True)


def _add_exec(commands: Any) -> None:
    program = _command(
        commands,
        "exec",
        "run a CUDA program that is already built",
        PROGRAM["exec"],
        "coalesce exec ./a.out -- 1000",
    )
    program.add_argument("file", help="an executable")
    _add_program(program)
    _add_device(program, "sim", names=SIMULATED)
    _add_compiler(program)


def _add_bench(commands: Any) -> None:
    bench = _command(
        commands,
        "bench",
        "time the variants of an operation",
        "Time variants of an operation on arrays of random numbers and print a table. Times are "
        "measured on a GPU and modelled on the simulator. Each result is compared with NumPy's. "
        "You can also time other libraries: numpy, and on a GPU cublas, cublas_tf32, cupy and "
        "torch. With transpose, you can also time two plain copies: memcpy and cupy_copy. Options "
        "of one variant follow its name: --variants 'split_k tile=32,split_k tile=64'. On a GPU, "
        "--whole-calls, copies and launch time what these times leave out: the copies between "
        "host and GPU, and the work of the host for each launch. shapes times products of random "
        "shapes beside cuBLAS and CuPy, and prints the shapes with the lowest ratios.",
        "coalesce bench matmul --variants naive,tiled,numpy --size 256",
        "coalesce bench matmul --size 4096 --whole-calls",
        "coalesce bench copies --size 16777216",
        "coalesce bench launch",
        "coalesce bench shapes --seed 1 --count 100",
    )
    bench.add_argument(
        "operation",
        help="matmul, transpose, row_sums, column_sums, access, copies, launch or shapes",
    )
    bench.add_argument("argument", nargs="*", metavar="NAME=VALUE", help=OPERATION_ARGUMENT)
    _add_variants(bench, "all variants")
    _add_arrays(bench, "512, vectors 65536; on a GPU 2048, vectors 16777216")
    _add_device(bench)
    bench.add_argument(
        "--shape",
        type=_shape,
        metavar="MxNxK",
        help="the shape of a product, or ROWSxCOLUMNS of one matrix, instead of --size",
    )
    bench.add_argument(
        "--repeats",
        type=_repeats,
        default=1,
        metavar="N",
        help="repeat the call N times in each run, in a CUDA graph; auto: so often that a run "
        "takes 10 ms (default: 1)",
    )
    bench.add_argument(
        "--runs",
        type=_positive,
        metavar="N",
        help="the number of timed runs (default: runs are added until the median is stable)",
    )
    bench.add_argument(
        "--l2",
        choices=("kept", "flushed"),
        default="kept",
        help="before each run on a GPU, keep what the variant's previous run left in L2, or flush "
        "L2 (default: kept)",
    )
    bench.add_argument(
        "--whole-calls",
        action="store_true",
        help="time whole calls with NumPy arrays and all copies, by the host's clock; needs a GPU",
    )
    bench.add_argument(
        "--seed", type=_positive, default=1, metavar="N", help="for shapes: the seed (default: 1)"
    )
    bench.add_argument(
        "--count",
        type=_positive,
        default=100,
        metavar="N",
        help="for shapes: the number of shapes (default: 100)",
    )
    _add_files(bench)
    bench.add_argument(
        "--plot", metavar="FILE", help="also write a plot of the times; FILE ends in .png or .svg"
    )


def _add_compare(commands: Any) -> None:
    compare = _command(
        commands,
        "compare",
        "put a report of Nsight Compute beside the counts",
        "Profile the kernel of a report of Nsight Compute, with the grid and block of the report, "
        "and compare: which counts are equal, and why the others may differ. Write the kernel's "
        "arguments as for coalesce run, with the sizes of the measured launch. The exit status is "
        "1 if a count that is called exact differs.",
        "coalesce compare report.csv FILE.cu ENTRY random:1000 2.0 1000",
        usage="coalesce compare REPORT FILE [ENTRY] [OPTION]... [ARGUMENT]...",
    )
    compare.add_argument(
        "report",
        help="the output of ncu --csv --page raw --print-units base, or a .ncu-rep file (which "
        "needs the program ncu)",
    )
    compare.add_argument("file", help="CUDA C++ or PTX")
    compare.add_argument("argument", nargs="*", metavar="[ENTRY] ARGUMENT", help=KERNEL_ARGUMENTS)
    compare.add_argument(
        "--launch",
        type=_positive,
        default=1,
        metavar="N",
        help="take the N-th launch of this kernel in the report (default: 1)",
    )
    compare.add_argument("--entry", metavar="NAME", help="the name of the kernel")
    compare.add_argument(
        "--shared", type=int, default=0, metavar="BYTES", help="the dynamic shared memory per block"
    )
    compare.add_argument(
        "--defect",
        metavar="FILE",
        help="if an exact count differs, write all that a defect report needs to a JSON file",
    )
    _add_limit(compare)
    _add_compiler(compare)
    _add_device(compare, "sim", names=SIMULATED)


def _add_check(commands: Any) -> None:
    check = _command(
        commands,
        "check",
        "look for mistakes in a kernel of a .cu or .ptx file",
        "Run a kernel on the simulator and report its mistakes: accesses outside arrays, reads of "
        "memory that was never written, data races, barriers that only some threads reach. Write "
        "the kernel's arguments as for coalesce run. The exit status is 1 if there are findings.",
        "coalesce check FILE.cu ENTRY --grid 4 --block 256 random:1000 2.0 1000",
        usage="coalesce check FILE [ENTRY] --grid X[,Y[,Z]] --block X[,Y[,Z]]\n"
        "                      [OPTION]... [ARGUMENT]...",
    )
    check.add_argument("file", help="CUDA C++ or PTX")
    check.add_argument("argument", nargs="*", metavar="[ENTRY] ARGUMENT", help=KERNEL_ARGUMENTS)
    _add_kernel(check, required=True)
    _add_limit(check)
    _add_check_options(check)
    _add_compiler(check)
    _add_device(check, "sim", names=SIMULATED)


def _add_grade(commands: Any) -> None:
    grade = _command(
        commands,
        "grade",
        "for teachers: check the exercises in files of students",
        "Check the kernels in files of students: .cu files, or notebooks with %%cuda cells. Each "
        "exercise of the lessons has a kernel of its own name. Python code in a file is not "
        "executed. Each kernel runs in a process of its own, with random numbers that differ from "
        "run to run. The exit status is 1 if something is not solved.",
        "coalesce grade anna.ipynb ben.ipynb --lesson 3 --json grades.json",
        "coalesce grade anna.cu --tasks my_tasks.py",
    )
    grade.add_argument("file", nargs="+", help="a .cu file, or a notebook")
    grade.add_argument(
        "--exercises",
        action="extend",
        type=_names,
        default=[],
        metavar="NAME[,NAME...]",
        help="the exercises to check (default: all whose kernels the file has)",
    )
    grade.add_argument("--lesson", type=int, metavar="N", help="check all exercises of a lesson")
    grade.add_argument(
        "--tasks", metavar="FILE.py", help="check your own tasks, which this file defines"
    )
    grade.add_argument(
        "--seconds",
        type=_positive,
        default=3,
        metavar="N",
        help="processor time that one exercise may take (default: 3)",
    )
    grade.add_argument(
        "--seed", type=int, metavar="N", help="the seed of the random numbers (default: a new one)"
    )
    grade.add_argument("--json", metavar="FILE", help="also write the results as JSON")


def _add_report(commands: Any) -> None:
    report = _command(
        commands,
        "report",
        "write an HTML page about an operation: times and profiles of its variants",
        "Write an HTML page about an operation. The page has the table of coalesce bench, bars of "
        "times and sectors, the profile of each variant, and what changed from one variant to the "
        "next. It is one file without scripts.",
        "coalesce report matmul --variants naive,tiled --size 64 --html page.html",
    )
    report.add_argument(
        "operation",
        nargs="?",
        default="matmul",
        help="matmul (default), transpose, row_sums, column_sums or access",
    )
    report.add_argument("argument", nargs="*", metavar="NAME=VALUE", help=OPERATION_ARGUMENT)
    _add_variants(report, "all variants")
    _add_arrays(report, "512, vectors 65536")
    _add_device(report)
    _add_files(report, html="the page (default: OPERATION.html)")


def _add_explain(commands: Any) -> None:
    explain = _command(
        commands,
        "explain",
        "show what the memory accesses of a kernel cost, line by line",
        "Profile a kernel of a .cu or .ptx file, or variants of an operation. Several variants "
        "are compared. Write the kernel's arguments as for coalesce run.",
        "coalesce explain FILE.cu ENTRY --grid 4 --block 256 f32:1000 2.0 1000",
        "coalesce explain matmul --variants naive,tiled --size 128",
        "coalesce explain access stride=8 --variants stride",
        usage="coalesce explain FILE [ENTRY] --grid X[,Y[,Z]] --block X[,Y[,Z]]\n"
        "                        [OPTION]... [ARGUMENT]...\n"
        "       coalesce explain OPERATION [OPTION]... [NAME=VALUE]...",
    )
    explain.add_argument("what", metavar="FILE|OPERATION", help="kernel.cu, or matmul, access, ...")
    explain.add_argument(
        "argument",
        nargs="*",
        metavar="[ENTRY] ARGUMENT",
        help=f"{KERNEL_ARGUMENTS}; for an operation, NAME=VALUE",
    )
    _add_device(explain, "sim")
    _add_files(explain)
    kernel = explain.add_argument_group("options for a kernel")
    kernel.add_argument(
        "--wavefront",
        type=int,
        metavar="BYTES",
        help="also estimate how many cache lines of BYTES bytes an AMD GPU would access, in "
        "wavefronts of 64 lanes; BYTES is 64 for an MI200 and 128 for an MI300",
    )
    _add_kernel(kernel, required=False)
    _add_limit(kernel)
    _add_compiler(kernel)
    kernel.add_argument(
        "--accel-sim",
        metavar="FOLDER",
        help="also write a trace of the launch to a new folder, for the simulator Accel-Sim",
    )
    kernel.add_argument(
        "--sass",
        action="store_true",
        help="also print the machine code beside the source, with decoded control words",
    )
    operation = explain.add_argument_group("options for an operation")
    _add_variants(operation, "the first one")
    _add_arrays(operation, "512, vectors 65536")


def _command(
    commands: Any, name: str, summary: str, description: str, *examples: str, **settings: Any
) -> argparse.ArgumentParser:
    """Add a command. Its help ends with the examples."""
    if examples:
        settings["epilog"] = "\n  ".join(["examples:" if examples[1:] else "example:", *examples])
    parser: argparse.ArgumentParser = commands.add_parser(
        name,
        help=summary,
        description=description,
        formatter_class=_Help,
        allow_abbrev=False,  # or --n could mean another option after a new one is added
        **settings,
    )
    return parser


class _Help(argparse.HelpFormatter):
    """A formatter that wraps all text except the examples, each of which has its own line."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        if text.startswith("example"):
            return text
        return super()._fill_text(text, width, indent)


def _add_kernel(parser: Any, *, required: bool) -> None:
    """Add the options for a kernel of a file: its name and its launch."""
    parser.add_argument(
        "--entry", metavar="NAME", help="the name of the kernel; or write it after the file"
    )
    extents: dict[str, Any] = {"type": _extents, "required": required, "metavar": "X[,Y[,Z]]"}
    parser.add_argument("--grid", help="number of blocks in the grid", **extents)
    parser.add_argument("--block", help="number of threads in a block", **extents)
    parser.add_argument(
        "--shared", type=int, default=0, metavar="BYTES", help="dynamic shared memory of a block"
    )


def _add_compiler(parser: Any) -> None:
    # These options go to the compiler, in the order in which they are written.
    parser.add_argument(
        "--option",
        action="append",
        default=[],
        metavar="TEXT",
        help="an option of the compiler: --option --use_fast_math",
    )
    for letter, metavar, what in (
        ("D", "NAME[=VALUE]", "define a macro"),
        ("I", "FOLDER", "search this folder for #include"),
    ):
        parser.add_argument(
            f"-{letter}",
            dest="option",
            action="append",
            type=f"-{letter}{{}}".format,
            metavar=metavar,
            help=what,
        )


def _add_variants(parser: Any, default: str) -> None:
    parser.add_argument(
        "--variants",
        "--variant",
        action="extend",
        type=_names,
        default=[],
        metavar="NAME[,NAME...]",
        help=f"the variants to run; can be repeated (default: {default})",
    )


def _add_arrays(parser: Any, default: str, *, vectors: bool = True) -> None:
    what = "N x N matrices" + ", or vectors of N elements" * vectors
    parser.add_argument(
        "--size",
        "-n",
        type=_positive,
        metavar="N",
        help=f"use {what} (default: {default})",
    )
    parser.add_argument(
        "--dtype",
        choices=("float32", "float64"),
        default="float32",
        help="type of the elements (default: float32)",
    )


def _add_device(
    parser: Any,
    default: str | None = None,
    words: str = "",
    names: str = f"cuda, cuda:1, {SIMULATED}",
) -> None:
    """Add --device. In the help, `words` describe the default, and `names` are the devices."""
    words = words or default or "the first GPU, or else the simulator"
    parser.add_argument("--device", default=default, help=f"{names} (default: {words})")


def _add_files(parser: Any, html: str = "also write an HTML page") -> None:
    parser.add_argument("--html", metavar="FILE", help=html)
    parser.add_argument("--json", metavar="FILE", help="also write the results as JSON")


def _shape(text: str) -> tuple[int, ...]:
    return tuple(_positive(extent) for extent in text.split("x"))


def _repeats(text: str) -> int | Literal["auto"]:
    return "auto" if text == "auto" else _positive(text)


def _positive(text: str) -> int:
    try:
        value = int(text)
    except ValueError:
        value = 0
    if value < 1:
        raise argparse.ArgumentTypeError(f"must be an integer of at least 1; got {text!r}")
    return value


def _launch(text: str) -> str:
    return text if text == "all" else str(_positive(text))


def _names(text: str) -> list[str]:
    names = [name.strip() for name in text.split(",")]
    if not all(names):
        raise argparse.ArgumentTypeError(f"must be names, separated by commas; got {text!r}")
    return names


def _extents(text: str) -> tuple[int, ...]:
    try:
        extents = tuple(int(part) for part in text.replace("x", ",").split(","))
    except ValueError:
        extents = ()
    if not 1 <= len(extents) <= 3 or min(extents) < 1:
        raise argparse.ArgumentTypeError(
            "must be one to three positive integers, separated by commas, such as 4 or 16,16; got "
            f"{text!r}"
        )
    return extents
