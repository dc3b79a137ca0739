"""Loads in which each lane of a warp reads its own cache line; tests/kernels/patterns.cu."""

from collections.abc import Iterator

import numpy as np

from counter_cases.case import LANE, Case, launch


def cases() -> Iterator[Case]:
    """Yield the cases: the distance between the lines varies."""
    for width in (4, 8, 16):
        for name, table in tables(width).items():
            data, out = np.zeros(DATA_BYTES, np.int8), np.zeros(32, np.uint32)
            yield launch(
                f"global_load<{width}> {name}",
                "patterns.cu",
                f"global_load<{width}>",
                1,
                32,
                (table[np.newaxis], data, out, 0),
            )


DATA_BYTES = 1 << 21


def tables(width: int) -> dict[str, np.ndarray]:
    """Return byte offsets of 32 lanes by name: each lane has its own 128-byte line and bank."""
    own_bank = LANE * width % 128
    lanes = {
        f"lines {step} apart": LANE * step for step in (*range(1, 37), 48, 63, 64, 65, 127, 128)
    }
    lanes |= {f"{n} lines": LANE % n for n in range(1, 32)}
    raw = iter(np.random.PCG64(300 + width).random_raw(4096).tolist())
    for bits in range(5, 15):
        for trial in range(4):
            lines = np.array([next(raw) % (1 << bits) for _ in LANE])
            lanes[f"random in {1 << bits} lines #{trial}"] = lines
    return {
        name: (lines * 128 + own_bank).astype(np.uint32)[:32]
        for name, lines in lanes.items()
        if lines.max() * 128 < DATA_BYTES
    }
