"""Every kernel of the tests leaves the same arrays, bit by bit, however it is executed.

Plain runs, checks and traces execute the PTX, profiles the machine code. Of a large grid the first
blocks run, in one thread of the host, so that what atomics leave has an order.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import counter_cases
import numpy as np
import pytest
import unseen_cases

from coalesce.arrays import devices
from coalesce.simulate import counting
from coalesce.tracing import run as tracer

pytestmark = [
    pytest.mark.usefixtures("machine_code"),
    pytest.mark.filterwarnings("ignore::RuntimeWarning"),
]

MODES = ("run", "profile", "check", "trace")

MOST_BLOCKS = 6

# Where warps race for a place, or what they read depends on when they come.
IN_ANY_ORDER = {
    "append": "each warp takes the next place",
    "shared_append": "each warp takes the next place",
    "gather_scatter": "several lanes write one element",
}

# The assembler may contract a product and a sum of the PTX, and makes several instructions of an
# approximate function: the last bits differ, so results are compared as numbers.
LAST_BITS = {
    "fft_256",
    "complex_matmul",
    "solve_4x4",
    "cholesky_batched",
    "thomas",
    "cyclic_reduction",
    "face_normals",
    "lattice_boltzmann",
    "advect",
    "philox_normal",
    "binomial_put",
}


class Launch(NamedTuple):
    """A kernel's file and name, and how it is launched."""

    file: str
    entry: str
    grid: Any
    block: Any
    arguments: tuple[Any, ...]
    shared_bytes: int = 0


def few(grid: Any) -> tuple[int, ...]:
    """Return a grid of the first blocks."""
    extents = list(grid) if isinstance(grid, tuple) else [grid]
    left = MOST_BLOCKS
    for axis, extent in enumerate(extents):
        extents[axis] = min(int(extent), max(left, 1))
        left //= extents[axis]
    return tuple(extents)


def launches() -> dict[str, Launch]:
    """Return every launch of a test kernel by a name of its own."""
    found: dict[str, Launch] = {}

    def add(launch: Launch) -> None:
        again = sum(name.split(" #")[0] == launch.entry for name in found)
        found[f"{launch.entry} #{again + 1}" if again else launch.entry] = launch

    for row in counter_cases.launches_together():
        add(Launch("together.cu", *row))
    for row in counter_cases._awkward():
        add(Launch("awkward.cu", *row))
    for row in counter_cases.launches_of_programs():
        add(Launch("programs.cu", *row))
    for launch in unseen_cases.launches().values():
        add(Launch(*launch))
    return found


LAUNCHES = launches()


def results(launch: Launch) -> dict[str, list[np.ndarray]]:
    """Return the bytes that each mode leaves, of arrays and of the module's variables."""
    kernel = counter_cases._kernel(launch.file, launch.entry, "sim")
    program = kernel._program(devices.resolve("sim"))
    why = program.why_ptx(kernel.entry)
    assert not why
    variables = [v[0] for v in program.variables()]
    before = [program.read_variable(name) for name in variables]
    found = {}
    for mode in MODES:
        for name, value in zip(variables, before, strict=True):
            program.write_variable(name, value)
        given = [a.copy() if isinstance(a, np.ndarray) else a for a in launch.arguments]
        prepared = counting.prepare(
            kernel, few(launch.grid), launch.block, given, launch.shared_bytes
        )
        how: dict[str, Any] = {
            "run": {},
            "profile": {"counts": True},
            "check": {"check": {}},
            "trace": {"record": tracer.recording(prepared, tracer.Wanted(limit=1000))},
        }[mode]
        prepared.run(workers=1, **how)
        prepared.finish()
        found[mode] = [a for a in given if isinstance(a, np.ndarray)]
        found[mode] += [np.frombuffer(program.read_variable(name), "u1") for name in variables]
    return found


@pytest.mark.parametrize("name", [n for n in LAUNCHES if LAUNCHES[n].entry not in IN_ANY_ORDER])
def test_every_mode_leaves_the_same(name):
    found = results(LAUNCHES[name])
    for mode in MODES[1:]:
        for plain, other in zip(found["run"], found[mode], strict=True):
            if LAUNCHES[name].entry in LAST_BITS and plain.dtype.kind == "f":
                np.testing.assert_allclose(other, plain, 1e-4, 1e-5, err_msg=mode)
            else:
                np.testing.assert_array_equal(plain.view("u1"), other.view("u1"), mode)
