"""Draws what the warps of a block do to shared memory, one picture for each source line."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from coalesce.draw import Grid, Picture, board

if TYPE_CHECKING:
    from coalesce.stepping import Stepper

Array = np.ndarray[Any, Any]

LEGEND = {
    "new": "stored now",
    "used": "loaded now",
    "held": "stored before",
    "unwritten": "not stored yet",
    "wrong": "loaded, but not stored yet",
}
_VALUES = 64  # arrays of at most this many elements show their values


def frames_of(stepper: Stepper, most: int) -> dict[str, Picture]:
    """Run a block to its end. Return a picture for each line that accessed shared memory.

    The keys say which warp executed which line. There are at most `most` pictures.
    """
    frames: dict[str, Picture] = {}
    before = stepper.shared
    more = True
    while more and len(frames) < most:
        places = stepper.warps
        more = stepper.step_line()  # another warp continues if the selected one has ended or waits
        place = places[stepper.warp]
        stored, loaded = (_elements(stepper, kind) for kind in ("store", "load"))
        after = stepper.shared
        if stored or loaded:
            where = f"warp {place.warp}, line {place.line}"
            text = place.text.strip()
            grids = [
                _grid(name, values, before[name], stored.get(name), loaded.get(name))
                for name, values in sorted(after.items())
            ]
            used = {state for grid in grids for state in grid.array.ravel()}
            legend = {state: word for state, word in LEGEND.items() if state in used}
            frames[f"{len(frames) + 1}"] = board(grids, legend, title=where, headline=text or where)
        before = after
    return frames


def _elements(stepper: Stepper, kind: str) -> dict[str, Array]:
    """Return the elements of shared arrays that the last line accessed, for each array."""
    chosen = stepper.events.select(kind=kind, space="shared")
    found: dict[str, Array] = {}
    for array, index, active in zip(chosen.array, chosen.index, chosen.active, strict=True):
        name = chosen.arrays[array].name
        found[name] = np.union1d(found.get(name, []), index[active]).astype(int)
    return found


def _grid(
    name: str, values: Array, before: Array, stored: Array | None, loaded: Array | None
) -> Grid:
    missing = np.ma.getmaskarray(values).ravel()
    states = np.where(missing, "unwritten", "held").astype(object)
    if loaded is not None:
        states[loaded] = np.where(np.ma.getmaskarray(before).ravel()[loaded], "wrong", "used")
    if stored is not None:
        states[stored] = "new"
    shape = (-1, min(values.size, 32)) if values.ndim == 1 else (-1, values.shape[-1])
    texts = None
    if values.size <= _VALUES:
        shown = zip(missing, np.ma.getdata(values).ravel().tolist(), strict=True)
        texts = np.array(["" if gone else f"{value:.3g}" for gone, value in shown], dtype=object)
        texts = texts.reshape(shape)
    return Grid(name, states.reshape(shape), texts)
