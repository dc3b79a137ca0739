"""The examples in the docstrings and in the README print what they say."""

import doctest
import re
from pathlib import Path

import api_page
import numpy as np
import pytest

import coalesce

README = Path(__file__).parents[3] / "README.md"
KERNEL = """extern "C" __global__ void scale(float *x, float factor, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] *= factor;
}"""
# Everything that the page of the API documents, if it has an example.
EXPLAINED = {
    name: thing for name, thing in api_page.documented().items() if ">>>" in (thing.__doc__ or "")
}


@pytest.fixture(autouse=True)
def simulated(monkeypatch):
    """Use the simulator, because the output of an example depends on the device."""
    monkeypatch.setenv("COALESCE_DEVICE", "sim")
    monkeypatch.setenv("MPLBACKEND", "Agg")


@pytest.mark.parametrize("name", EXPLAINED)
def test_docstring(name):
    a = np.ones((8, 8), np.float32)
    names = {"coalesce": coalesce, "np": np, "a": a, "b": a, "x": np.arange(5, dtype=np.float32)}
    text = EXPLAINED[name].__doc__
    if re.search(r">>> .*\bkernel\b", text):
        names["kernel"] = coalesce.Kernel(KERNEL)
    if re.search(r">>> .*\bp\.", text):
        names["p"] = coalesce.profile("matmul", a, a, variant="naive")
    if re.search(r">>> .*\btrace\.", text):
        names["trace"] = coalesce.trace("matmul", a, a, variant="naive")
    examples = doctest.DocTestFinder(recurse=False).find(EXPLAINED[name], name, globs=names)
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
