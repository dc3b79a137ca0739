"""The launches of the public table of counters (docs/counters.md): kernels of all kinds and sizes.

The name of a case begins with its set. The constants of the models were fitted to launches of
`FITTED`; all other launches are new to the models.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace

from counter_cases import (
    cooperative,
    holdout,
    hopper,
    programs,
    shipped,
    tensor_cores,
    together,
    unseen,
)
from counter_cases.case import Case

FITTED = ("programs", "unseen")
# The rate at which small blocks start was fitted to these launches of "holdout".
START_OF_BLOCKS = ("chain_of_doubles", "one_lane", "sum_of_a_warp")
# At the larger sizes, the slower products take too long in the simulator.
SLOW = (
    *("naive", "naive_2d", "coalesced", "coalesced_swapped", "transposed_b", "untiled"),
    *("tiled", "tiled_transposed", "corner_turned", "corner_turned_padded"),
)


def cases() -> Iterator[Case]:
    """Yield the cases of all sets."""
    sets = {
        "holdout": holdout.cases(),
        "programs": programs.cases(),
        "size 513": shipped.of_size(513, 513, 513),
        "unseen": unseen.cases(),
        "size 4097": _quick(shipped.of_size(4097, 4097, 4097)),
        "size 1000": _quick(shipped.of_size(1000, 1000, 1000)),
        "tensor_cores": tensor_cores.cases(),
        "hopper": hopper.cases(),
        "cooperative": cooperative.cases(),
        "together": together.cases(),
    }
    for name, members in sets.items():
        for case in members:
            yield replace(case, name=f"{name}: {case.name}")


def _quick(cases: Iterable[Case]) -> Iterator[Case]:
    for case in cases:
        if case.name.split()[0].removeprefix("matmul/") not in SLOW:
            yield case


def split(name: str) -> str:
    """Return to which part of the table a case belongs."""
    name, _, launch = name.partition(": ")
    many = launch.partition(" ")[0] in START_OF_BLOCKS and launch.endswith(
        f"n={holdout.SIZES[-1][0]}"
    )
    return "fitted" if name in FITTED or many else "never fitted"
