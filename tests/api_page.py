"""The functions, classes and methods that docs/api.md lists."""

import importlib
import inspect
import pkgutil
import re
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import coalesce

PAGE = Path(__file__).parents[1] / "docs" / "api.md"


def listed() -> dict[str, Any]:
    """Return the functions and classes of the page, by their full names."""
    objects: dict[str, Any] = {}
    module = "coalesce"
    for kind, name in re.findall(r"^\.\. (currentmodule|auto\w+):: ([\w.]+)", text(), re.MULTILINE):
        if kind == "currentmodule":
            module = name
            continue
        full = name if name.startswith("coalesce.") else f"{module}.{name}"
        objects[full] = _object(full)
    return objects


def documented() -> dict[str, Any]:
    """Return what the page lists, and the methods and properties of the listed classes."""
    objects: dict[str, Any] = {}
    for name, thing in listed().items():
        objects[name] = thing
        for member, value in members(thing) if inspect.isclass(thing) else ():
            objects[f"{name}.{member}"] = value
    return objects


def members(cls: type) -> Iterator[tuple[str, Any]]:
    """Yield the public methods and properties that this package defines for a class."""
    for base in cls.__mro__:
        if base.__module__.startswith("coalesce"):
            for name, value in vars(base).items():
                function = getattr(value, "fget", None) or getattr(value, "func", value)
                function = getattr(function, "__func__", function)
                if not name.startswith("_") and inspect.isfunction(function):
                    yield name, function


def returned(function: Callable[..., Any]) -> Iterator[type]:
    """Yield the classes of this package in the annotation of what a function returns."""
    function = inspect.unwrap(function)
    yield from _named(function.__annotations__.get("return", ""), function.__globals__)


def attributes(cls: type) -> Iterator[type]:
    """Yield the classes of this package in the annotations of a class's public attributes."""
    for name, annotation in vars(cls).get("__annotations__", {}).items():
        if not name.startswith("_"):
            yield from _named(annotation, vars(sys.modules[cls.__module__]))


def _named(annotation: str, known: Mapping[str, Any]) -> Iterator[type]:
    """Yield the classes of this package that an annotation names. `known` are the module's names.

    Names that a module imports only for type checkers are looked up in the whole package.
    """
    for name in re.findall(r"[A-Za-z_]\w*", str(annotation)):
        for value in [known[name]] if name in known else _classes().get(name, ()):
            if inspect.isclass(value) and value.__module__.startswith("coalesce."):
                yield value


@cache
def _classes() -> dict[str, list[type]]:
    """Return the classes of the package by name, without those of private modules."""
    classes: dict[str, list[type]] = {}
    for module in pkgutil.walk_packages(coalesce.__path__, "coalesce."):
        if module.name.rpartition(".")[2].startswith(("_core", "lib", "__main__")):
            continue
        try:
            with warnings.catch_warnings():  # Numba may warn about NumPy
                warnings.simplefilter("ignore")
                names = vars(importlib.import_module(module.name))
        except ModuleNotFoundError as error:
            if (error.name or "").partition(".")[0] in ("numba_cuda", "numba", "triton"):
                continue  # coalesce.numba and coalesce.triton need these packages
            raise
        except AttributeError as error:
            if error.obj is np:
                continue  # the installed Numba does not fit the installed NumPy
            raise
        for name, value in names.items():
            if inspect.isclass(value) and value.__module__ == module.name:
                classes.setdefault(name, []).append(value)
    return classes


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
