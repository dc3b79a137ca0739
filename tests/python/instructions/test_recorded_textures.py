"""Texture fetches and surface accesses, bit by bit against an H100 (tools/record_results.py).

Launches execute the PTX, and profiles the machine code.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import texture_cases

import coalesce

FILE = Path(__file__).parents[2] / "data" / "textures_h100.npz"


def recorded() -> Iterator[tuple[texture_cases.Case, Any, bool]]:
    """Yield each case, its recorded words, and whether its inputs are those of the recording."""
    with np.load(FILE) as file:
        about = json.loads(file["about"].tobytes())
        for case in texture_cases.cases():
            if case.name in file:
                same = about["checksums"][case.name] == texture_cases.checksum(case)
                yield case, texture_cases.unshuffled(file[case.name]), same


@pytest.mark.usefixtures("machine_code")
@pytest.mark.parametrize("how", ["launch", "profile"])
@pytest.mark.parametrize("family", texture_cases.families())
def test_results_are_those_of_the_gpu(family: str, how: str) -> None:
    compared = 0
    for case, wanted, same_inputs in recorded():
        if case.name.split()[0] != family or case.name == "shape tex2D of a slice":
            continue
        compared += 1
        assert same_inputs or family == "grad", case.name
        texture_cases.assert_same(case, case.run("sim", how), wanted)
    assert compared >= 2


def test_a_slice_of_three_dimensions_is_not_a_picture() -> None:
    # The GPU returned zeros for every point.
    (case, wanted, _) = next(r for r in recorded() if r[0].name == "shape tex2D of a slice")
    assert not wanted.any()
    with pytest.raises(coalesce.LaunchError, match="array of 3 dimensions"):
        case.run("sim")
