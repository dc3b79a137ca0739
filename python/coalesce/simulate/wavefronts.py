"""Estimates how many L1 cache lines a kernel would access on an AMD GPU.

AMD GPUs execute an instruction for a wavefront, a group of usually 64 lanes. The simulated kernel
was compiled for an NVIDIA GPU, and ran in warps of 32 lanes. Here, two neighbouring warps of a
block are treated as one wavefront. If these warps execute an instruction several times, their first
executions are treated as the first execution of the wavefront. Their second executions are treated
as the second execution of the wavefront, and so on.

A cache line counts once for each instruction of a wavefront, even if many active lanes access
this line. AMD's tools count in the same way (ROCm Compute Profiler, "Vector L1 cache"). An AMD GPU
may split an instruction into several accesses. This is not modelled. Nothing here was compared with
an AMD GPU.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from coalesce.common import require
from coalesce.render import tables

_WARP = 32

# The columns of a trace that wavefronts are derived from.
COLUMNS = (
    "instruction",
    "block",
    "warp",
    "execution",
    "active",
    "width",
    "addresses",
    "line",
    "kind",
    "array",
)


@dataclass(frozen=True)
class WavefrontAccess:
    """How one instruction would access global memory on an AMD GPU, in groups of 64 lanes.

    AMD calls such a group a wavefront.

    Attributes
    ----------
    line : int
        The line of the CUDA source. 0 if it is not known.
    kind : str
        ``"load"``, ``"store"``, ``"atomic"``, ``"reduction"`` or ``"async_copy"``.
    array : str
        The name of the array of the first access. Empty if the memory has no name.
    requests : int
        How often the instruction would be executed, summed over all wavefronts.
    cache_lines : int
        The number of accessed cache lines, summed over the requests.
    needed : int
        The smallest number of cache lines that can hold the accessed bytes, summed over the
        requests.

    Examples
    --------
    >>> rows = coalesce.trace("matmul", a, b, variant="naive").wavefronts()
    >>> rows[0].kind, rows[0].array, rows[0].lines_per_request
    ('load', 'b', 1.0)
    """

    line: int
    kind: str
    array: str
    requests: int
    cache_lines: int
    needed: int

    @property
    def lines_per_request(self) -> float:
        """The average number of cache lines per request."""
        return self.cache_lines / self.requests


class Wavefronts(Sequence[WavefrontAccess]):
    """A sequence of `WavefrontAccess` objects: the result of `Trace.wavefronts`.

    It estimates how a kernel would access global memory on an AMD GPU, where 64 lanes execute
    together. AMD calls such a group of lanes a wavefront.

    Attributes
    ----------
    lanes : int
        The number of lanes of a wavefront.
    line_bytes : int
        The size of a cache line in bytes.
    omitted : int
        The number of events that were not recorded because of the trace's limit.

    Examples
    --------
    >>> rows = coalesce.trace("matmul", a, b, variant="naive").wavefronts()
    >>> rows.lanes, rows.line_bytes
    (64, 64)
    """

    def __init__(
        self, rows: Sequence[WavefrontAccess], lanes: int, line_bytes: int, omitted: int
    ) -> None:
        self._rows = tuple(rows)
        self.lanes = lanes
        self.line_bytes = line_bytes
        self.omitted = omitted

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, key: Any) -> Any:
        return self._rows[key]

    def __repr__(self) -> str:
        heads = ("line", "access", "requests", "cache lines", "per request", "needed")
        rows = [
            (
                str(r.line or "?"),
                f"{r.kind} {r.array}".strip(),
                f"{r.requests:,}",
                f"{r.cache_lines:,}",
                f"{r.lines_per_request:.2f}",
                f"{r.needed / r.requests:.2f}",
            )
            for r in self._rows
        ]
        note = (
            f"Derived for wavefronts of {self.lanes} lanes and cache lines of {self.line_bytes} "
            "bytes, from the accesses of warps of 32 lanes; not measured, not exact."
        )
        if self.omitted:
            note += f" The trace left out {self.omitted:,} events."
        return f"{tables.as_text(heads, rows)}\n{note}"


def group_into_wavefronts(
    events: Mapping[str, Any], arrays: Sequence[str], omitted: int, lanes: int, line_bytes: int
) -> Wavefronts:
    """Group the accesses of warps to global memory into wavefronts. See `Trace.wavefronts`.

    Parameters
    ----------
    events : dict
        The columns of a trace. Their names are in `COLUMNS`.
    arrays : sequence of str
        The names of the arrays. The column ``array`` has indices into this sequence.
    omitted : int
        The number of events that were not recorded.
    lanes : int
        The number of lanes of a wavefront.
    line_bytes : int
        The size of a cache line in bytes.
    """
    if require.integer("lanes", lanes) not in (32, 64):
        raise ValueError(f"`lanes` must be 32 or 64; got {lanes!r}")
    if require.integer("line_bytes", line_bytes) not in (32, 64, 128, 256):
        raise ValueError(f"`line_bytes` must be 32, 64, 128 or 256; got {line_bytes!r}")
    rows = list(_rows(events, arrays, lanes, line_bytes))
    return Wavefronts(rows, lanes, line_bytes, omitted)


def _rows(
    events: Mapping[str, Any], arrays: Sequence[str], lanes: int, line_bytes: int
) -> Iterator[WavefrontAccess]:
    instruction, addresses = events["instruction"], events["addresses"]
    if not len(instruction):
        return
    wavefront = events["warp"] // (lanes // _WARP)
    key = np.column_stack([instruction, events["block"], wavefront, events["execution"]])
    requests, request = np.unique(key, axis=0, return_inverse=True)
    request = request.reshape(-1)
    active, width = events["active"], events["width"].astype(np.uint64)
    last = addresses + np.maximum(width, np.uint64(1))[:, None] - np.uint64(1)
    # An access that crosses the end of a line counts in both lines.
    ends = [x // np.uint64(line_bytes) for x in (addresses, last)]
    of_lane = np.broadcast_to(request[:, None], active.shape)[active].astype(np.uint64)
    pairs = np.concatenate([np.column_stack([of_lane, end[active]]) for end in ends])
    of_request = np.bincount(np.unique(pairs, axis=0)[:, 0].astype(np.int64))
    needed = np.zeros(len(requests), np.int64)
    starts = np.column_stack([of_lane, addresses[active]])
    different, first = np.unique(starts, axis=0, return_index=True)
    widths = np.broadcast_to(events["width"][:, None], active.shape)[active][first]
    np.add.at(needed, different[:, 0].astype(np.int64), widths)
    needed = -(-needed // line_bytes)
    for number in np.unique(requests[:, 0]):
        of = requests[:, 0] == number
        event = int(np.argmax(instruction == number))
        array = int(events["array"][event])
        yield WavefrontAccess(
            line=int(events["line"][event]),
            kind=str(events["kind"][event]),
            array=arrays[array] if array >= 0 else "",
            requests=int(of.sum()),
            cache_lines=int(of_request[of].sum()),
            needed=int(needed[of].sum()),
        )
