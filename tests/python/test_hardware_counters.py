"""Requests and sectors equal, to the last unit, what Nsight Compute read on an H200.

tests/data/h200_counters_512.json holds the counters of kernels that access global memory as ours
do.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from coalesce import operations

RECORDED = json.loads((Path(__file__).parents[1] / "data" / "h200_counters_512.json").read_text())


@pytest.mark.parametrize("kernel", sorted(RECORDED["counters"]))
def test_counts_equal_the_hardware(kernel, on_simulator, random):
    operation, variant = kernel.split("/")
    n = RECORDED["n"]
    arguments = random.random((2 if operation == "matmul" else 1, n, n), np.float32)
    options = {"variant": variant, "device": on_simulator, "counts": True}
    if operation == "matmul":
        _, run = operations.run_matmul(*arguments, **options)
    elif operation == "transpose":
        _, run = operations.run_transpose(arguments[0], **options)
    else:
        _, run = operations.run_sums(operation, arguments[0], **options)
    metrics = run.records[-1][1].counts.metrics()
    recorded = RECORDED["counters"][kernel]
    assert {name: metrics[name] for name in recorded} == recorded
