"""Samples of blocks: the chosen blocks, the estimates, and the errors of the estimates."""

from __future__ import annotations

import json
import pickle

import numpy as np
import pytest

import coalesce
from coalesce.simulate import sampling

LOADS = "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum"

UNEVEN = """\
extern "C" __global__ void uneven(const float* x, float* y, int n) {
    float sum = 0;
    for (int k = 0; k < 1 + blockIdx.x * 7 % 13; ++k) sum += x[(threadIdx.x * (1 + k)) % n];
    y[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}
"""


def test_blocks_are_spread_over_the_grid_and_the_same_in_every_run():
    blocks, groups = sampling.choose(10_000, 0.05)
    again, _ = sampling.choose(10_000, 0.05)
    np.testing.assert_array_equal(blocks, again)
    assert len(blocks) == 500
    assert np.all(np.diff(blocks.astype(np.int64)) > 0)
    assert np.all(blocks // 20 == np.arange(500))  # one block of each interval
    assert set(groups) == set(range(16))
    assert len(sampling.choose(1000, 0.001)[0]) == 32  # enough blocks to estimate errors
    assert sampling.choose(32, 0.5) is None


@pytest.mark.parametrize("share", [0, 1, -0.1, 1.5, float("nan")])
def test_invalid_shares(share):
    with pytest.raises(ValueError, match="above 0 and below 1"):
        sampling.choose(100, share)
    with pytest.raises(TypeError, match="`sample` must be a real number"):
        sampling.choose(100, "5%")


@pytest.fixture(scope="module")
def uneven():
    kernel = coalesce.Kernel(UNEVEN, device="sim")

    def profile(**options):
        y = np.zeros(400 * 64, np.float32)
        return kernel.profile(400, 64, np.ones(4096, np.float32), y, 4096, **options), y

    return profile


def test_estimates_are_within_their_errors(uneven):
    exact, _ = uneven()
    p, y = uneven(sample=0.2)
    assert not y.any()  # the arrays are unchanged
    assert (p.estimate.blocks_run, p.estimate.blocks_total) == (80, 400)
    assert p.estimate.share == 0.2
    assert p.exact == frozenset()
    assert set(p.inexact.values()) == {"estimated from 20.0% of the blocks"}
    error = p.errors[LOADS]
    assert error > 0
    assert 0 < abs(p.metrics()[LOADS] - exact.metrics()[LOADS]) < 4 * error
    assert error < 0.2 * exact.metrics()[LOADS]
    assert p.errors["l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum"] == 0  # all blocks do the same
    store = "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum"
    assert p.metrics()[store] == exact.metrics()[store]
    assert p.totals()[0].error == pytest.approx(error)
    assert any(a.error for a in p.accesses())
    assert not any(a.error for a in exact.accesses())


def test_errors_are_honest():
    """The estimates of many samples scatter as much as the reported errors say."""
    random = np.random.default_rng(5)
    values = random.lognormal(size=2000) + np.linspace(0, 3, 2000)
    estimates, errors = [], []
    for start in range(60):
        count = 200
        edges = np.arange(count + 1) * 2000 // count
        blocks = np.random.default_rng(start).integers(edges[:-1], edges[1:])
        groups = [values[blocks[g::16]].sum() for g in range(16)]
        sizes = [len(blocks[g::16]) for g in range(16)]
        estimate = sampling.Estimate(count, 2000, groups, sizes)
        estimates.append(sum(groups) * estimate.scale)
        errors.append(estimate.error(lambda total: total))
    assert np.mean(estimates) == pytest.approx(values.sum(), rel=0.01)
    assert 0.6 < np.mean(errors) / np.std(estimates) < 1.6


def test_estimates_are_shown_as_estimates(uneven, check_html):
    p, _ = uneven(sample=0.2)
    for width in (80, 100):
        text = p.to_text(width)
        assert "Estimated from 80 of 400 blocks (20.0%); ± is one standard error." in text
        assert "counted and exact" not in text
        assert "±0.0%" in text
        assert text.count("±") >= 4
        assert max(map(len, text.splitlines())) <= width
    page = p._repr_html_()
    check_html(page)
    assert page.count("±") >= 3
    data = json.loads(json.dumps(p.to_dict()))
    assert data["estimate"]["blocks_run"] == 80
    assert data["estimate"]["errors"][LOADS] == p.errors[LOADS]


def test_an_estimate_can_be_pickled(uneven):
    p, _ = uneven(sample=0.2)
    text, page = p.to_text(), p.to_html()
    again = pickle.loads(pickle.dumps(p))
    assert (again.to_text(), again.to_html()) == (text, page)
    assert "Counts object" not in repr(again.estimate)


def test_preparations_are_not_sampled():
    a = np.ones((512, 512), np.float32)
    p = coalesce.profile("matmul", a, a, variant="corner_turned", sample=0.2)
    assert p.estimate is not None
    assert p.preparation[0].estimate is None


def test_a_small_grid_is_run_whole():
    p = coalesce.profile("transpose", np.ones((64, 64), np.float32), sample=0.1)
    assert p.estimate is None
    assert LOADS in p.exact


def test_from_the_command_line(capsys):
    from coalesce import cli

    assert cli.main(["explain", "transpose", "--variant", "tiled", "--sample", "0.3"]) == 0
    assert "Estimated from 77 of 256 blocks" in capsys.readouterr().out
    assert cli.main(["explain", "transpose", "--sample", "2"]) == 1
    assert "above 0 and below 1" in capsys.readouterr().err
