"""Cache hints, prefetch sizes, scopes and prefetches; tests/kernels/hints.cu."""

import re
from collections.abc import Iterator

import numpy as np

from counter_cases.case import KERNELS, Case, launch, whole_numbers


def cases() -> Iterator[Case]:
    """Yield the cases of this set."""
    source = (KERNELS / "hints.cu").read_text()
    threads = 256
    forms = r"^(?:LOAD|STORE|ATOMIC|REDUCTION|PREFETCH)\((\w+)"
    for entry in re.findall(forms, source, re.MULTILINE):
        for stride in (1, 3):
            given = whole_numbers(51, threads * 3, 1000, "uint32")
            arguments = given, np.zeros(threads * 3, np.uint32), stride
            name = f"{entry} stride {stride}"
            yield launch(name, "hints.cu", entry, 2, threads // 2, arguments)
