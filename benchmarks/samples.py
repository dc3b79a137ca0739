"""NVIDIA's samples that print results without comparing them: what they must print.

`CHECKS` has a function for each. It gets the output, compares it with values that are computed
here, and returns a sentence. It raises MismatchError if they differ.
"""

from __future__ import annotations

import ctypes
import re

import numpy as np
from rodinia import MismatchError, compare


def _random(count: int) -> np.ndarray:
    """Return the first numbers of C's rand(), which starts with seed 1."""
    c = ctypes.CDLL(None)
    c.srand(1)
    return np.array([c.rand() for _ in range(count)])


def _printf(out: str) -> str:
    found = re.findall(r"\[(\d+), (\d+)\]:\t\tValue is:(\d+)", out)
    if sorted(found) != sorted((f"{b}", f"{t}", "10") for b in range(4) for t in range(8)):
        raise MismatchError(f"{len(found)} lines are printed, or not the expected ones")
    return "the lines of all 32 threads"


def _ranks(out: str) -> str:
    found = re.findall(r"is (\d+)\s+\(expected (\d+)\)", out)
    if len(found) != 5 or any(is_ != expected for is_, expected in found):
        raise MismatchError(f"sums and expected sums: {found}")
    return "the 5 printed sums are the expected ones"


def _odds(out: str) -> str:
    numbers = _random(1024 * 100) % 50
    odd = numbers % 2 == 1
    reference = [odd.sum(), numbers[odd].sum(), numbers[~odd].sum()]
    shown = re.search(r"Num of Odds = (\d+) Sum of Odds = (\d+) Sum of Evens (\d+)", out)
    return f"NumPy: {compare(np.array(shown.groups() if shown else [], float), reference, 0)}"


def _graphs(out: str) -> str:
    total = ((_random(1 << 24) & 255).astype(np.float32) / np.float32(2**31 - 1)).sum(dtype=float)
    shown = np.array(re.findall(r"final reduced sum = (\S+)", out), float)
    return f"NumPy: {compare(np.append(shown, 0), np.append(np.full(len(shown), total), 0), 1e-6)}"


def _option(out: str) -> str:
    # The program compares the two prices, but does not return the outcome.
    if "does not match" in out or "Performance" not in out:
        raise MismatchError("the computed price is not the expected one")
    return "the program's own comparison, with a tolerance of 0.1"


CHECKS = {
    "simplePrintf": _printf,
    "simpleCooperativeGroups": _ranks,
    "binaryPartitionCG": _odds,
    "simpleCudaGraphs": _graphs,
    "MC_SingleAsianOptionP": _option,
}
