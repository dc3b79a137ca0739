"""The stubs of the extension module have exactly its names."""

import ast
from pathlib import Path

import pytest

import coalesce
from coalesce import _core
from coalesce.launch.launch import Launch

STUBS = Path(coalesce.__file__).parent / "_core"


def names_of(body: list[ast.stmt]) -> dict[str, list[ast.stmt] | None]:
    """Return the names that a stub defines; a class has its body."""
    names: dict[str, list[ast.stmt] | None] = {}
    for node in body:
        if isinstance(node, ast.ClassDef):
            names[node.name] = node.body
        elif isinstance(node, ast.FunctionDef):
            names[node.name] = None
        elif isinstance(node, ast.AnnAssign):
            names[node.target.id] = None
    return names


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


def test_unknown_and_wrong_options_of_a_launch():
    text = ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry k()\n{\nret;\n}\n"
    launch = _core.sim.SimulatedModule(text).launch
    kernel = coalesce.Kernel(text, device="sim")
    geometry = ("k", Launch.of(kernel, 1, 32), [])
    launch(*geometry, workers=1)
    with pytest.raises(TypeError, match="unknown argument `nonsense`"):
        launch(*geometry, workers=1, nonsense=1)
    with pytest.raises(TypeError, match="`workers` has the wrong type"):
        launch(*geometry, workers="x")
