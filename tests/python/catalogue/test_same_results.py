"""Every test kernel leaves the same arrays, bit by bit, however it is executed.

Plain runs, checks and traces execute the PTX; profiles execute the machine code. Only the first
blocks of a large grid run. One host thread runs them, so that atomics have an order.
"""

from functools import cache
from typing import Any

import counter_cases
import numpy as np
import pytest
import unseen_cases
from both_ways import bound
from unseen_cases import Launch

import coalesce
from coalesce.arrays import devices
from coalesce.launch.run import run
from coalesce.launch.simulated import simulate
from coalesce.tracing import run as tracer

pytestmark = [
    pytest.mark.usefixtures("machine_code"),
    pytest.mark.filterwarnings("ignore::RuntimeWarning"),
]

MODES = ("run", "profile", "check", "trace")

MOST_BLOCKS = 6

# In these kernels warps race, or the values they read depend on timing.
IN_ANY_ORDER = {
    "append": "each warp takes the next place",
    "shared_append": "each warp takes the next place",
    "gather_scatter": "several lanes write one element",
}

# In these kernels, the bits of a NaN depend on the assembler, so all NaNs count as equal. There are
# two reasons. The payload of a sum of two NaNs depends on the order of the operands, which the
# assembler and the host's compiler may exchange. And the assembler can change a sign in two ways:
# an addition of 0 changes the bits of a NaN, but a modifier of the next instruction keeps them.
ANY_NAN = {"hypotenuse_float"}


def few(grid: Any) -> tuple[int, ...]:
    """Return a grid of only the first blocks."""
    extents = list(grid) if isinstance(grid, tuple) else [grid]
    left = MOST_BLOCKS
    for axis, extent in enumerate(extents):
        extents[axis] = min(int(extent), max(left, 1))
        left //= extents[axis]
    return tuple(extents)


def launches() -> dict[str, Launch]:
    """Return every launch of a test kernel, each with a unique name."""
    by_name: dict[str, Launch] = {}

    def add(launch: Launch) -> None:
        again = sum(name.split(" #")[0] == launch.entry for name in by_name)
        by_name[f"{launch.entry} #{again + 1}" if again else launch.entry] = launch

    for file, rows in {
        "together.cu": counter_cases.together.launches(),
        "slow_paths.cu": counter_cases.slow_paths.launches(),
        "awkward.cu": counter_cases.awkward.launches(),
        "programs.cu": counter_cases.programs.launches(),
        "tensor_cores.cu": counter_cases.tensor_cores.launches(),
        "patterns.cu": counter_cases.patterns.launches(),
    }.items():
        for row in rows:
            add(Launch(file, *row))
    for launch in unseen_cases.launches().values():
        add(Launch(*launch))
    return by_name


LAUNCHES = launches()


def results(kernel: Any, launch: Launch) -> dict[str, list[np.ndarray]]:
    """Return the results of each mode: the arrays and the bytes of the module's variables."""
    program = kernel.module.program(devices.resolve("sim"))
    assert not program.why_ptx(kernel.entry)
    variables = [v[0] for v in program.variables()]
    before = [program.read_variable(name) for name in variables]
    by_mode = {}
    for mode in MODES:
        for name, value in zip(variables, before, strict=True):
            program.write_variable(name, value)
        given = [a.copy() if isinstance(a, np.ndarray) else a for a in launch.arguments]
        prepared = bound(kernel, few(launch.grid), launch.block, given, launch.shared_bytes)
        how: dict[str, Any] = {
            "run": {},
            "profile": {"counts": True},
            "check": {"check": {}},
            "trace": {"record": tracer.recording(prepared, tracer.Selection(limit=1000))},
        }[mode]
        simulate(prepared, workers=1, **how)
        prepared.finish()
        by_mode[mode] = [a for a in given if isinstance(a, np.ndarray)]
        by_mode[mode] += [np.frombuffer(program.read_variable(name), "u1") for name in variables]
    return by_mode


def assert_the_same(by_mode: dict[str, list[np.ndarray]]) -> None:
    for mode in MODES[1:]:
        for plain, other in zip(by_mode["run"], by_mode[mode], strict=True):
            np.testing.assert_array_equal(plain.view("u1"), other.view("u1"), mode)


@cache
def compiled(file: str, entry: str, *options: str) -> coalesce.Kernel:
    return counter_cases.case.kernel_of(file, entry, "sim", options)


@pytest.mark.parametrize("name", [n for n in LAUNCHES if LAUNCHES[n].entry not in IN_ANY_ORDER])
def test_every_mode_gives_the_same_results(name):
    launch = LAUNCHES[name]
    by_mode = results(compiled(launch.file, launch.entry), launch)
    if launch.entry in ANY_NAN:
        for array in (a for arrays in by_mode.values() for a in arrays if a.dtype.kind == "f"):
            array[np.isnan(array)] = np.nan
    assert_the_same(by_mode)


def shipped() -> dict[str, counter_cases.Case]:
    """Return every kernel of the catalogue by name, at a size that is not a multiple of a tile."""
    cases = [
        *counter_cases.shipped.of_size(45, 38, 70, "float32", tiles=(8, 32)),
        *counter_cases.shipped.of_size(45, 38, 70, "float64"),
    ]
    return {case.name: case for case in cases}


SHIPPED = shipped()


@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_kernels_give_the_same_results_in_every_mode(name):
    launched = []

    def launcher(of, _variant):
        arguments = tuple(of.passed)
        launch = Launch("", of.kernel.entry, of.grid, of.block, arguments, of.shared_bytes)
        launched.append(results(of.kernel, launch))
        return run(of)

    SHIPPED[name].run("sim", launcher=launcher)
    assert launched
    for by_mode in launched:
        assert_the_same(by_mode)
