"""Reads an option of an operation from a text, such as "tile=16"."""

from __future__ import annotations

import contextlib
from typing import Any


def option(text: str) -> tuple[str, Any]:
    """Return the name and the value of an option: ``("tile", 16)`` for the text "tile=16"."""
    name, equals, value = text.partition("=")
    if not equals or not name.isidentifier():
        raise ValueError(
            f"{text!r}: write an argument of an operation as NAME=VALUE, for example stride=8; "
            "write several variants with commas, for example --variants naive,tiled"
        )
    if value.lstrip("-").replace(".", "", 1).isdigit():
        with contextlib.suppress(ValueError):
            return name, int(value)
        return name, float(value)
    return name, value
