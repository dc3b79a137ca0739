"""The stubs of the extension module have exactly its names."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import coalesce
from coalesce import _core

STUBS = Path(coalesce.__file__).parent / "_core"


def names_of(body: list[ast.stmt]) -> dict[str, list[ast.stmt] | None]:
    """Return the names that a stub defines; a class has its body."""
    found: dict[str, list[ast.stmt] | None] = {}
    for node in body:
        if isinstance(node, ast.ClassDef):
            found[node.name] = node.body
        elif isinstance(node, ast.FunctionDef):
            found[node.name] = None
        elif isinstance(node, ast.AnnAssign):
            found[node.target.id] = None
    return found


def public(thing: object) -> set[str]:
    return {name for name in vars(thing) if not name.startswith("_")}


@pytest.mark.parametrize("area", ["sim", "cuda", "ops", "model"])
def test_stub_names(area):
    defined = names_of(ast.parse((STUBS / f"{area}.pyi").read_text()).body)
    stub = {name: body for name, body in defined.items() if not name.startswith("_")}
    module = getattr(_core, area)
    assert set(stub) == public(module)
    for name, body in stub.items():
        if body is not None:
            members = {m for m in names_of(body) if not m.startswith("_")}
            assert members == public(getattr(module, name)), name
