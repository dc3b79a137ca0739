"""The functions, classes and methods that docs/api.md lists."""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

PAGE = Path(__file__).parents[1] / "docs" / "api.md"


def listed() -> dict[str, Any]:
    """Return the functions and classes of the page, by their full names."""
    found: dict[str, Any] = {}
    module = "coalesce"
    for kind, name in re.findall(r"^\.\. (currentmodule|auto\w+):: ([\w.]+)", text(), re.MULTILINE):
        if kind == "currentmodule":
            module = name
            continue
        full = name if name.startswith("coalesce.") else f"{module}.{name}"
        found[full] = _object(full)
    return found


def documented() -> dict[str, Any]:
    """Return what the page lists, and the methods and properties of the listed classes."""
    found: dict[str, Any] = {}
    for name, thing in listed().items():
        found[name] = thing
        for member, value in members(thing) if inspect.isclass(thing) else ():
            found[f"{name}.{member}"] = value
    return found


def members(cls: type) -> Iterator[tuple[str, Any]]:
    """Yield the public methods and properties that this package defines for a class."""
    for base in cls.__mro__:
        if base.__module__.startswith("coalesce"):
            for name, value in vars(base).items():
                function = getattr(value, "fget", None) or getattr(value, "func", value)
                function = getattr(function, "__func__", function)
                if not name.startswith("_") and inspect.isfunction(function):
                    yield name, function


def text() -> str:
    return PAGE.read_text(encoding="utf-8")


def _object(full: str) -> Any:
    parts = full.split(".")
    for end in range(len(parts), 0, -1):
        try:
            thing: Any = importlib.import_module(".".join(parts[:end]))
        except ImportError:
            continue
        for part in parts[end:]:
            thing = getattr(thing, part)
        return thing
    raise ImportError(full)
