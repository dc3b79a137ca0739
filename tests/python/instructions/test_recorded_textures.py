"""Texture fetches and surface accesses, bit by bit against an H100 (tools/record_results.py).

Launches execute the PTX, and profiles the machine code.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import texture_cases

import coalesce

FILE = Path(__file__).parents[2] / "data" / "textures_h100.npz"
# How many results of a case may differ from the recording, and by how much at most.
NEARLY_EQUAL = {
    # The sum of two slices of float32 texels whose sizes differ by up to 2**24.
    "sum 3D wide": (5, 1e-6),
    # A direction on a cube map is multiplied by an approximate reciprocal.
    "cube of 64 linear": (2, 1.0),
}
# The level that belongs to derivatives: less than 2/256 of a level (docs/textures.md). The inputs
# are powers, whose last bit depends on the version of NumPy.
GRADIENT = 2 / 256
ROUNDED = 2  # so many levels that are rounded to integers may be rounded to the next one


def recorded() -> Iterator[tuple[texture_cases.Case, Any, bool]]:
    """Yield each case, its recorded words, and whether its inputs are those of the recording."""
    with np.load(FILE) as file:
        about = json.loads(file["about"].tobytes())
        for case in texture_cases.cases():
            if case.name in file:
                same = about["checksums"][case.name] == texture_cases.checksum(case)
                yield case, texture_cases.unshuffled(file[case.name]), same


def families() -> list[str]:
    """Return the first words of the cases' names."""
    return sorted({case.name.split()[0] for case in texture_cases.cases()} - {"query"})


@pytest.mark.usefixtures("machine_code")
@pytest.mark.parametrize("how", ["launch", "profile"])
@pytest.mark.parametrize("family", families())
def test_results_are_those_of_the_gpu(family: str, how: str) -> None:
    compared = 0
    for case, wanted, same_inputs in recorded():
        if case.name.split()[0] != family or case.name == "shape tex2D of a slice":
            continue
        compared += 1
        result = case.run("sim", how).ravel()
        if family == "grad":
            apart = np.abs(result.view(np.float32) - wanted.view(np.float32))
            assert np.sum(apart > GRADIENT) <= ROUNDED * (" point " in case.name), case.name
            continue
        assert same_inputs, case.name
        different = np.flatnonzero(result != wanted)
        most, by = NEARLY_EQUAL.get(case.name, (0, 0.0))
        assert different.size <= most, f"{case.name}: {different.size} results differ"
        a, b = result[different].view(np.float32), wanted[different].view(np.float32)
        np.testing.assert_allclose(a, b, rtol=by, err_msg=case.name)
    assert compared >= 2


def test_a_slice_of_three_dimensions_is_not_a_picture() -> None:
    # The GPU returned zeros for every point.
    (case, wanted, _) = next(r for r in recorded() if r[0].name == "shape tex2D of a slice")
    assert not wanted.any()
    with pytest.raises(coalesce.LaunchError, match="array of 3 dimensions"):
        case.run("sim")
