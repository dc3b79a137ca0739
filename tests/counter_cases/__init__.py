"""The launches whose counters are recorded on a GPU and predicted by the simulator.

A `Case` is a name and a function that runs it on a device. `record_counters.py` runs a set of cases
under Nsight Compute. The tests and docs/make_accuracy.py run the same cases on the simulator. Seeds
determine all data, so both use the same addresses. `SETS` lists the sets. Each set that was
recorded has a file in tests/data; `public` has the table that docs/counters.md describes.
"""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from counter_cases import (
    awkward,
    cooperative,
    hints,
    holdout,
    hopper,
    many_lines,
    patterns,
    programs,
    public,
    shipped,
    slow_paths,
    tensor_cores,
    textures,
    together,
    unseen,
)
from counter_cases.case import Case

SETS: dict[str, Callable[[], Iterator[Case]]] = {
    "shipped": shipped.cases,
    "models": shipped.model_cases,
    "bulk_copies": shipped.bulk_copy_cases,
    "awkward": awkward.cases,
    "programs": programs.cases,
    "unseen": unseen.cases,
    "patterns": patterns.cases,
    "tag_sets": many_lines.cases,
    "together": together.cases,
    "slow_paths": slow_paths.cases,
    "cooperative": cooperative.cases,
    "hints": hints.cases,
    "textures": textures.cases,
    "matrices": tensor_cores.accesses,
    "tensor_cores": tensor_cores.cases,
    "mma_counters": tensor_cores.products,
    "hopper": hopper.cases,
    "copies": hopper.copies,
    "warpgroups": hopper.products,
    "holdout": holdout.cases,
    "public": public.cases,
}


def path_of(name: str) -> Path:
    """Return the file with the recording of a set, made on an H200 or an H100."""
    (path,) = (Path(__file__).parents[1] / "data").glob(f"{name}_h?00.json")
    return path


def load(path: Path) -> dict[str, Any]:
    """Read a recording; each launch gets "metrics", a dict by the names of Nsight Compute."""
    recording: dict[str, Any] = json.loads(path.read_text())
    for launch in recording["launches"]:
        values = zip(recording["metrics"], launch.pop("values"), strict=True)
        launch["metrics"] = {name: value for name, value in values if value is not None}
    return recording
