"""Checks, profiles, traces and steps of Numba's kernels: they name the lines of the Python code."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import coalesce

pytest.importorskip("numba_cuda")
import numba_kernels as kernels
from numba_kernels import line_of

from coalesce.numba import checked, cuda, simulated

pytestmark = [
    pytest.mark.usefixtures("on_simulator"),
    pytest.mark.skipif(not simulated, reason="Numba uses the GPU of this machine"),
    pytest.mark.filterwarnings("ignore::numba.cuda.core.errors.NumbaPerformanceWarning"),
]


def zeros(*shape: int) -> np.ndarray[Any, Any]:
    return np.zeros(shape, np.float32)


@pytest.mark.parametrize(
    ("kernel", "count", "mark", "kind"),
    [
        ("reversed_without_barrier", 1, "RACE", "race"),
        ("past_the_end", 2, "OUTSIDE", "out_of_bounds"),
        ("barrier_in_a_branch", 1, "BARRIER", "barrier"),
    ],
)
@pytest.mark.parametrize("on_device", [False, True])
def test_a_check_names_the_python_line(
    kernel: str, count: int, mark: str, kind: str, on_device: bool
) -> None:
    arguments = [zeros(64) for _ in range(count)]
    passed = map(cuda.to_device, arguments) if on_device else arguments
    findings = getattr(kernels, kernel).check(1, 64, *passed)
    assert [f.kind for f in findings] == [kind]
    places = [findings[0].first, findings[0].second]
    assert line_of(mark) in [p.line for p in places if p is not None]
    assert f"# {mark}" in str(findings)
    if kind == "out_of_bounds":
        assert findings[0].array == "x"
        assert findings[0].first is not None
        assert findings[0].first.thread == (63, 0, 0)


def test_an_access_outside_an_array_is_an_exception_and_the_next_launch_works() -> None:
    x, y = zeros(64), zeros(64)
    with pytest.raises(coalesce.MemoryFault, match="past the end of `x`") as caught:
        kernels.past_the_end[1, 64](x, y)
    assert "# OUTSIDE" in str(caught.value)
    assert f"line {line_of('OUTSIDE')}" in str(caught.value)
    kernels.saxpy[1, 64](64, 1.0, x + 1, y)
    np.testing.assert_array_equal(y, np.ones(64))


def test_messages_have_the_shape_and_the_type_of_an_array() -> None:
    with pytest.raises(coalesce.MemoryFault) as caught:
        kernels.past_the_end[1, 64](zeros(64), zeros(64))
    assert "`x` has shape (64,), float32; the address is x[64]" in str(caught.value)
    a, c = zeros(32, 32), zeros(32, 48)
    trace = kernels.matmul.trace((3, 2), (16, 16), a, zeros(32, 48), c)
    stores = trace.select(array="c", kind="store")
    assert stores.index.min() >= 0
    findings = kernels.set_one.check(1, 2, zeros(4, 8), zeros(4, 8))
    assert [(f.array, f.index) for f in findings] == [("x", (2, 3))]


def test_a_check_finds_reads_of_memory_that_was_never_written() -> None:
    x, y = cuda.device_array(64, np.float32), cuda.device_array(64, np.float32)
    findings = kernels.saxpy.check(1, 64, 64, 1.0, cuda.to_device(zeros(64)), y)
    assert [(f.kind, f.array) for f in findings] == [("uninitialized", "y")]
    x.copy_to_device(zeros(64))
    y.copy_to_device(x)
    assert not kernels.saxpy.check(1, 64, 64, 1.0, x, y)


def test_the_launches_of_a_block_are_checked() -> None:
    with checked() as found:
        kernels.saxpy[1, 64](64, 1.0, zeros(64), zeros(64))
        kernels.reversed_without_barrier[1, 64](zeros(64))
        kernels.saxpy.forall(64)(64, 1.0, zeros(64), zeros(64))
    assert [findings[0].kind for findings in found] == ["race"]
    kernels.reversed_without_barrier[1, 64](zeros(64))


def test_a_profile_counts_the_machine_code_on_python_lines() -> None:
    a, c = zeros(64, 64) + 1, zeros(64, 64)
    profile = kernels.matmul.profile((4, 4), (16, 16), a, a, c)
    np.testing.assert_array_equal(c, a @ a)
    assert not [reason for reason in profile.inexact.values() if "PTX" in reason]
    assert profile.sectors_per_request["load"] == 4
    assert "sa[ty, k] * sb[k, tx]" in str(profile)


def test_a_trace_has_the_indices_of_each_warp() -> None:
    trace = kernels.saxpy.trace(1, 64, 64, 1.0, zeros(64), zeros(64))
    loads = trace.select(array="x", kind="load")
    np.testing.assert_array_equal(loads.index, np.arange(64).reshape(2, 32))


def test_steps_follow_the_python_lines() -> None:
    with kernels.saxpy.step(1, 32, 5, 1.0, zeros(5), zeros(5)) as stepper:
        lines = [step.line for step in stepper]
    assert line_of("SAXPY") in lines


def test_the_arguments_of_an_analysis_are_those_of_a_launch() -> None:
    with pytest.raises(TypeError, match="5 "):
        kernels.saxpy.check(1, 64, 1, 2, 3, 4, 5)
    with pytest.raises(coalesce.LaunchError, match=r"`grid\.x` is 0"):
        kernels.saxpy.check(0, 64, 64, 1.0, zeros(64), zeros(64))


def test_shared_arrays_have_their_python_names() -> None:
    findings = kernels.reversed_without_barrier.check(1, 64, zeros(64))
    assert [f.array for f in findings] == ["s"]
    assert "data race on s + 128 bytes" in str(findings)
    with kernels.matmul.step((1, 1), (16, 16), *[zeros(16, 16)] * 3) as stepper:
        assert stepper.shared.keys() == {"sa", "sb"}
    (own,) = kernels.own_tiles.check(1, 32, zeros(32))
    assert own.array == "inner"


def test_steps_show_variables() -> None:
    """A loop, both sides of a branch, and a device function."""
    x, out = np.arange(32), np.zeros(32, np.int64)
    seen: dict[str, set[tuple[int, ...]]] = {}
    with kernels.sums.step(1, 32, x, out) as stepper:
        for step in stepper:
            for name, values in step.variables.items():
                seen.setdefault(name, set()).add(tuple(values[[3, 7]].tolist()))
        np.testing.assert_array_equal(stepper.arrays["out"], 5 * x)
    assert seen == {
        "i": {(3, 7)},
        "n": {(0, 0), (1, 1), (2, 2), (3, 3)},
        "total": {(0, 0), (6, 14), (9, 21), (15, 35)},
        "factor": {(1, 1), (2, 2)},
    }
    with kernels.sums.step(1, 32, x, out, optimized=True) as stepper:
        assert not any(step.variables for step in stepper)


def test_variables_of_inactive_lanes_are_masked() -> None:
    with kernels.saxpy.step(1, 32, 5, 1.0, zeros(32), zeros(32)) as stepper:
        masks = [step.variables["i"].mask.sum() for step in stepper if "i" in step.variables]
    assert {0, 27} <= set(masks)


def test_a_kernel_from_the_cache_has_variables(tmp_path: Path) -> None:
    """Numba's cache keeps no function. `%` adds a variable of Numba's own."""
    file = tmp_path / "kernels.py"
    file.write_text(
        "from numba import cuda\n\n@cuda.jit(cache=True)\ndef remainders(x):\n"
        "    i = cuda.grid(1)\n    r = i % 5\n    x[i] = r\n"
    )
    for _ in range(2):
        remainders = runpy.run_path(str(file))["remainders"]
        with remainders.step(1, 32, zeros(32)) as stepper:
            assert {name for step in stepper for name in step.variables} == {"i", "r"}
        remainders[1, 32](zeros(32))
