"""Kernels between random declarations of the host compile and run (random_files.py)."""

import pytest
import random_files


@pytest.mark.parametrize("seed", range(20))
def test_every_kernel_of_a_file_is_found(seed: int) -> None:
    assert random_files.difference(seed) == ""
