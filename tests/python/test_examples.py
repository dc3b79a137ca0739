"""The examples in the docstrings and in the README print what they say."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

import numpy as np
import pytest

import coalesce
from coalesce import profiling
from coalesce.arrays.devices import GpuStatus
from coalesce.arrays.peaks import Peaks
from coalesce.launch.globals import Globals
from coalesce.launch.record import LaunchRecord
from coalesce.stepping import Stepper

README = Path(__file__).parents[2] / "README.md"
EXPLAINED = [
    coalesce.matmul,
    coalesce.transpose,
    coalesce.row_sums,
    coalesce.column_sums,
    coalesce.access,
    coalesce.variants,
    coalesce.source,
    coalesce.Timing,
    coalesce.Kernel,
    coalesce.draw.Picture,
    coalesce.draw.warp_access,
    coalesce.draw.bank_board,
    coalesce.draw.matrix_cells,
    coalesce.draw.matrices,
    coalesce.draw.thread_block,
    coalesce.draw.event,
    coalesce.draw.steps,
    coalesce.Kernel.get_function,
    coalesce.DeviceArray,
    coalesce.empty,
    coalesce.zeros,
    coalesce.ones,
    coalesce.asarray,
    coalesce.to_device,
    Globals,
    coalesce.lessons.code,
    coalesce.lessons.exercise,
    coalesce.lessons.Exercise.check,
    coalesce.lessons.recording,
    coalesce.lessons.source,
    coalesce.lessons.Table,
    coalesce.lessons.sweep,
    coalesce.lessons.times,
    coalesce.plots.sweep,
    coalesce.plots.Sweep.run,
    coalesce.plots.bars,
    coalesce.plots.ladder,
    coalesce.plots.roofline,
    coalesce.Comparison,
    coalesce.gpu_status,
    profiling.ArrayInfo,
    profiling.Example,
    profiling.Modelled,
    profiling.Pattern,
    profiling.Total,
    Peaks,
    coalesce.lessons.Recording,
    GpuStatus,
    LaunchRecord,
    Stepper,
    coalesce.Benchmark,
    coalesce.BenchmarkRow,
    coalesce.Device,
    coalesce.Finding,
    coalesce.Pointer,
    coalesce.Profile,
    coalesce.Texture,
    coalesce.Trace,
    coalesce.TraceArray,
    coalesce.TraceEvent,
    coalesce.Transactions,
    coalesce.Variant,
    coalesce.VariantTable,
    coalesce.WavefrontAccess,
    coalesce.Wavefronts,
    coalesce.draw.Matrix,
    coalesce.plots.Sweep,
    coalesce.plots.Work,
    coalesce.lessons.Exercise,
    coalesce.lessons.Times,
    coalesce.lessons.Verdict,
    coalesce.lessons.exercises,
]


@pytest.fixture(autouse=True)
def simulated(monkeypatch):
    """Use the simulator, because the output of an example depends on the device."""
    monkeypatch.setenv("COALESCE_DEVICE", "sim")
    monkeypatch.setenv("MPLBACKEND", "Agg")


@pytest.mark.parametrize("thing", EXPLAINED, ids=lambda thing: thing.__name__)
def test_docstring(thing):
    a = np.ones((8, 8), np.float32)
    names = {"coalesce": coalesce, "np": np, "a": a, "b": a}
    examples = doctest.DocTestFinder(recurse=False).find(thing, globs=names)
    assert sum(len(example.examples) for example in examples) > 0
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    for example in examples:
        runner.run(example)
    assert runner.failures == 0


@pytest.mark.skipif(not README.exists(), reason="the README is not here")
def test_readme(capsys):
    names = {}
    blocks = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    assert len(blocks) >= 2
    for block in blocks:
        exec(compile(block, "README.md", "exec"), names)
    np.testing.assert_allclose(names["c"], names["a"] @ names["b"], rtol=1e-4)
    np.testing.assert_array_equal(names["x"], 3 * np.arange(1000))
    assert "modelled" in capsys.readouterr().out


@pytest.mark.skipif(not README.exists(), reason="the README is not here")
def test_readme_lists_every_variant():
    text = README.read_text(encoding="utf-8")
    for operation in ("matmul", "transpose", "row_sums", "column_sums", "access"):
        (row,) = re.findall(rf"^\| `{operation}` \| (.*) \|$", text, re.MULTILINE)
        assert tuple(re.findall(r"`(\w+)`", row)) == coalesce.variants(operation).names
