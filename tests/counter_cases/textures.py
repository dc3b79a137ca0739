"""Texture fetches and surface accesses; tests/kernels/textures.cu."""

import re
from collections.abc import Iterator
from typing import Any

import numpy as np

import coalesce
from counter_cases.case import KERNELS, Case, launch, matrix


def cases() -> Iterator[Case]:
    """Yield the cases of this set."""
    source = (KERNELS / "textures.cu").read_text()
    image = matrix(41, 64, 256)
    line = matrix(42, 4096)
    textures: dict[str, Any] = {
        "between": coalesce.texture(image, filter="linear"),
        "vectors": coalesce.texture(matrix(43, 64, 256, 4), channels=4),
        "bytes": coalesce.texture((image * 255).astype(np.uint8)),
        "boxes": coalesce.texture(matrix(44, 4, 16, 64)),
        "line_vectors": coalesce.texture(matrix(45, 4096, 4), channels=4, linear_memory=True),
    }
    surfaces = {
        "bytes": coalesce.surface(np.zeros((64, 256), np.uint8)),
        "vectors": coalesce.surface(np.zeros((64, 256, 4), np.float32), channels=4),
    }
    plain = coalesce.texture(image), coalesce.texture(line, linear_memory=True)
    for entry in re.findall(r"^(?:KERNEL|WRITE)\((\w+)", source, re.MULTILINE):
        texture = textures.get(entry, plain["line" in entry])
        surface = surfaces.get(entry.rpartition("_")[2] if "_" in entry else "")
        if surface is None:
            surface = coalesce.surface(image.copy())
        yield launch(entry, "textures.cu", entry, (2, 4), (32, 4), (texture, surface, line))
