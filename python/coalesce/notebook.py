"""The `%%cuda` magic of IPython and Jupyter. It compiles and runs the CUDA C++ of a cell.

You can import this module without IPython, because the magic uses the objects of the running shell.
"""

from __future__ import annotations

import argparse
import re
import shlex
import sys
from typing import Any, NoReturn

from coalesce._core import cuda as _cuda
from coalesce.arrays.waiting import until_done
from coalesce.common import errors
from coalesce.common.timing import milliseconds
from coalesce.cxx.declarations import bare, kernel_bodies
from coalesce.kernel import Kernel
from coalesce.launch.record import LaunchRecord

_DESCRIPTION = """\
Compile the cell as CUDA C++. With --grid and --block, also run one of its kernels on variables of
the notebook. Each kernel becomes a Python variable of the same name, so that later cells can call
kernel[grid, block](...).
"""
_EXAMPLES = """\
EXPR is a Python expression with variables of the notebook. Put it in quotes if it has spaces or
parentheses. In messages, line 1 is the line of %%cuda.

examples:
  %%cuda
  %%cuda --grid "(n + 255) // 256" --block 256 x 2.0 n
  %%cuda --entry "tile<16>" --name tile16 --grid 4,4 --block 16,16 --profile a b out n
  %%cuda --check --grid 1 --block 256 --shared 4*256 x
"""


_GEOMETRY = ("grid", "block")


class UsageError(ValueError):
    """Raised if the first line of a `%%cuda` cell has a mistake."""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UsageError(f"%%cuda: {message}\n{self.format_usage().rstrip()}")


def _parser() -> _Parser:
    parser = _Parser(
        prog="%%cuda",
        description=_DESCRIPTION,
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        add_help=False,
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("argument", nargs="*", metavar="EXPR", help="the kernel's arguments in order")
    add(
        "-e",
        "--entry",
        metavar="NAME",
        help='the kernel, or "tile<16>"; not needed if the cell has only one',
    )
    add("-g", "--grid", metavar="EXPR", help="number of blocks: 64, or 4,2 for two dimensions")
    add("-b", "--block", metavar="EXPR", help="number of threads of a block")
    add("-s", "--shared", metavar="EXPR", default="0", help="bytes of dynamic shared memory")
    add("-d", "--device", metavar="NAME", help="cuda, cuda:1, sim, ... (default: GPU, else sim)")
    add("-n", "--name", metavar="NAME", help="the name of the Python variable for the kernel")
    add("-p", "--profile", action="store_true", help="show what the memory accesses cost")
    add("-c", "--check", action="store_true", help="run with checks and show the findings")
    add("-t", "--time", action="store_true", help="time the kernel and print the time")
    add("-D", dest="define", action="append", default=[], metavar="NAME=VALUE", help="a macro")
    add("--option", action="append", default=[], metavar="OPTION", help="a compiler option: -G")
    add("--arch", metavar="ARCH", help="the architecture to compile for: sm_80")
    add("-h", "--help", action="store_true", help="print this")
    return parser


def register(shell: Any) -> None:
    """Add the magic `%%cuda` to a shell, and the magic `%cuda`, which prints help."""

    def cuda(line: str, cell: str | None = None) -> Any:
        with errors.short():
            return _run(shell, line, cell)

    cuda.__doc__ = _parser().format_help()
    shell.register_magic_function(cuda, "line_cell", "cuda")


def unregister(shell: Any) -> None:
    """Remove the magics `%%cuda` and `%cuda` from a shell."""
    for kind in ("line", "cell"):
        shell.magics_manager.magics[kind].pop("cuda", None)


def _run(shell: Any, line: str, cell: str | None) -> Any:
    parser = _parser()
    options = parser.parse_intermixed_args(_words(line))
    if options.help or cell is None:
        print(parser.format_help(), end="")
        return None
    launches = options.grid is not None or options.block is not None
    if launches and (options.grid is None or options.block is None):
        parser.error("a launch needs both --grid and --block")
    wants = [f"--{n}" for n in ("profile", "check", "time") if getattr(options, n)]
    if not launches and (options.argument or wants):
        parser.error(f"{wants[0] if wants else 'arguments'} without --grid and --block")
    if options.name is not None and not options.name.isidentifier():
        parser.error(f"--name {options.name!r} is not a name")

    try:
        kernels = Kernel.all_of(
            "\n" * (_lines_before(shell, cell) + 1) + cell,
            options.entry,
            [f"-D{define}" for define in options.define] + options.option,
            options.arch,
            device=options.device,
            filename="cell",
        )
    except errors.CoalesceError:
        _forget(shell, cell, options.name)
        raise
    chosen = kernels[0] if options.entry is not None or len(kernels) == 1 else None
    if chosen is None and (launches or options.name is not None):
        names = ", ".join(kernel.name for kernel in kernels)
        parser.error(f"the cell has {len(kernels)} kernels; choose one with --entry: {names}")
    if kernels[0].log:
        print(kernels[0].log.rstrip(), file=sys.stderr)
    # Evaluate the arguments before the kernels get their names in the notebook. A kernel may have
    # the same name as a variable that is an argument.
    arguments = [_value(shell, "argument", text) for text in options.argument]
    grid, block = (launches and _value(shell, f"--{n}", getattr(options, n)) for n in _GEOMETRY)
    shared = _value(shell, "--shared", options.shared)
    _define_variables(shell, kernels, chosen, options.name, quiet=launches)
    if chosen is None or not launches:
        return None
    return _launch(chosen, grid, block, shared, arguments, options)


def _launch(
    kernel: Kernel,
    grid: Any,
    block: Any,
    shared: Any,
    arguments: list[Any],
    options: argparse.Namespace,
) -> Any:
    """Run the kernel according to the options and return the object that the cell shows."""
    from IPython import display

    results: list[Any] = []
    if options.check:
        results.append(kernel.check(grid, block, *arguments, shared_bytes=shared))
    if options.profile:
        device = kernel.device.name
        results.append(kernel.profile(grid, block, *arguments, shared_bytes=shared, device=device))
    if options.time:
        record = kernel.launch(grid, block, *arguments, shared_bytes=shared, runs="auto")
        print(_time(kernel, record))
    elif not results:
        kernel[grid, block, shared](*arguments)
        # Wait for the kernel, so that a fault is raised in this cell and not in a later one.
        if kernel.device.kind == "cuda":
            gpu = _cuda.Device(kernel.device.ordinal)
            until_done(gpu, what=f"kernel `{kernel.name}`")
    for result in results[:-1]:
        display.display(result)
    return results[-1] if results else None


def _define_variables(
    shell: Any, kernels: list[Kernel], chosen: Kernel | None, name: str | None, quiet: bool
) -> None:
    """Make a variable in the notebook for each kernel. Unless `quiet`, print a message."""
    taken: dict[str, Kernel] = {}
    plain = [_python_name(kernel.name) for kernel in kernels]
    for kernel in kernels:
        bound = name if name is not None and kernel is chosen else _python_name(kernel.name)
        if (
            bound != name and plain.count(bound) > 1
        ):  # several instantiations get names of their own: scale_float, scale_double
            bound = re.sub(r"\W+", "_", kernel.name).strip("_")
        known = shell.user_ns.get(bound)
        if name is None and known is not None and not callable(known):
            # Replace a function of this name, as `def` would do. Do not replace a variable, because
            # it may be an argument of the kernel.
            print(
                f"{bound} is a variable, so the kernel {bound} is not bound; give it another name "
                "with --name",
                file=sys.stderr,
            )
            continue
        taken[bound] = kernel
        if not quiet:
            bound_as = "" if bound == kernel.name else f"{bound} = "
            print(f"{bound_as}{kernel.signature}")
    shell.push(taken)


def _forget(shell: Any, cell: str, name: str | None) -> None:
    """Delete the kernels of an earlier version of a cell that does not compile now.

    Otherwise later cells would run, or grade, a kernel that is not the text on the screen.
    """
    names = dict.fromkeys([name or "", *(body[0] for body in kernel_bodies(bare(cell)))])
    old = [name for name in names if isinstance(shell.user_ns.get(name), Kernel)]
    for one in old:
        del shell.user_ns[one]
    if old:
        print(
            f"{', '.join(old)}: the kernel of the last version of this cell was deleted",
            file=sys.stderr,
        )


def _python_name(name: str) -> str:
    """Return the name of the Python variable for a kernel: "tile" for "tile<16>"."""
    return name.partition("<")[0].split("::")[-1]


def _value(shell: Any, what: str, text: str) -> Any:
    try:
        return shell.ev(text)
    except Exception as error:
        raise UsageError(f"%%cuda: {what} {text!r}: {type(error).__name__}: {error}") from None


def _words(line: str) -> list[str]:
    """Split the line as a shell does. The value of --option may start with a dash."""
    try:
        words = shlex.split(line)
    except ValueError as error:
        raise UsageError(f"%%cuda: {error}: {line}") from None
    joined: list[str] = []
    for word in words:
        if joined and joined[-1] == "--option":
            joined[-1] += f"={word}"
        else:
            joined.append(word)
    return joined


def _lines_before(shell: Any, cell: str) -> int:
    """Return the number of empty lines above the magic, which IPython drops."""
    history = getattr(shell, "history_manager", None)
    inputs = getattr(history, "input_hist_raw", None) or [""]
    raw = inputs[-1]
    if not raw.rstrip().endswith(cell.rstrip()):
        return 0  # nobody typed the cell: it comes from run_cell_magic or a script
    return len(raw[: raw.find("%%")].splitlines()) if "%%" in raw else 0


def _time(kernel: Kernel, record: LaunchRecord) -> str:
    if record.no_time:
        return f"{kernel.name}: no time is modelled, because {record.no_time}"
    text = f"{kernel.name}: {milliseconds(record.kernel_ms)}, {record.source} on {record.device}"
    if record.source == "measured":
        text += f", median of {record.runs} runs, spread {record.spread:.1%}"
    return text
