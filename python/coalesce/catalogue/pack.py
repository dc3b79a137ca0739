"""The operands of `tma`: a in transposed strips, rows of b at multiples of 16 bytes."""

from __future__ import annotations

from typing import Any

import numpy as np

from coalesce.catalogue.operands import Operand
from coalesce.catalogue.run import Run, overlap

_ROWS, _STAGE, _ZEROS = 128, 32, 256  # as csrc/kernels/layout/02_packed.cu has them
PARTIAL = 128 * 256  # sums that a block may leave to another


def packed(run: Run, a: Operand, b: Operand, blocks: int) -> dict[str, Any]:
    """Return the arguments of `tma` for a and b, for a launch of so many blocks."""
    (m, k), n = a.shape, b.shape[1]
    depth = -(-k // _STAGE) * _STAGE
    strips = run.scratch((-(-m // _ROWS) * _ROWS * depth + _ZEROS,), a.dtype)
    ready = run.scratch((blocks,), np.dtype(np.int32))
    values = {
        "x": run.ready(a),
        "out": strips,
        "ready": ready,
        "rows": np.int32(m),
        "cols": np.int32(k),
        "depth": np.int32(depth),
        "blocks": np.int32(blocks),
    }
    run.launch("layout", "packed", (m, k), values, item_size=4)
    return {
        "a": strips,
        "b": _aligned(run, a, b),
        "b_cols": np.int32(-(-n // 4) * 4),
        "partial": run.scratch((blocks * PARTIAL,), a.dtype),
        "ready": ready,
    }


def _aligned(run: Run, a: Operand, b: Operand) -> Any:
    """Return b with rows that begin at multiples of 16 bytes; b itself if its rows already do."""
    k, n = b.shape
    source = run.ready(b, alignment=16)
    if n % 4 == 0:
        # Arrays that share memory on the host lie at their distance on the GPU, too.
        return np.array(source) if not b.on_gpu and overlap(a, b) else source
    pitch = -(-n // 4) * 4
    result = run.scratch((k, pitch), b.dtype)
    values = {
        "x": source,
        "out": result,
        "n": np.uint64(k * pitch - (pitch - n)),  # what fills up a row is never used
        "cols": np.uint64(pitch),
        "first": np.int64(0),
        "row_stride": np.int64(n),
        "col_stride": np.int64(1),
    }
    extents = (k * pitch, 1)
    run.launch("layout", "contiguous", extents, values, item_size=4, defines=("ELEMENT=float",))
    return result
