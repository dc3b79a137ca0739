"""coalesce.variants and coalesce.source list the shipped kernels and show their sources."""

import inspect
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import api_page
import pytest

import coalesce
from coalesce import _core, draw, lessons, plots

README = (Path(__file__).parents[3] / "README.md").read_text(encoding="utf-8")
# The variants of each operation, from the table of the README: the table has exactly the variants
# of the catalogue, in the same order.
OPERATIONS = {
    operation: tuple(re.findall(r"`(\w+)`", names))
    for operation, names in re.findall(r"^\| `(\w+)` \| (`.*`) \|$", README, re.MULTILINE)
}


@pytest.mark.parametrize(("operation", "names"), OPERATIONS.items())
def test_variants_of_an_operation(operation, names):
    assert coalesce.variants(operation).names == names


def test_all_variants_are_those_of_all_operations():
    everything = coalesce.variants()
    assert everything.names == sum(OPERATIONS.values(), ())
    assert {v.operation for v in everything} == set(OPERATIONS)


def test_a_variant_describes_itself():
    tiled = coalesce.variants("matmul")["tiled"]
    assert (tiled.rung, tiled.file, tiled.tiles) == (7, "matmul/07_tiled.cu", (8, 16, 32))
    assert "8192 B shared" in tiled.needs
    for variant in coalesce.variants():
        assert variant.sentence.endswith(".")
        assert variant.topic
        assert "threads" in variant.needs


def test_table_is_a_sequence():
    table = coalesce.variants("transpose")
    assert len(table) == len(OPERATIONS["transpose"])
    assert table[0].name == "copy"
    assert table[4:6].names == ("padded", "swizzled")
    with pytest.raises(KeyError):
        table["naive"]


def test_table_prints_within_100_columns():
    for operation in (None, *OPERATIONS):
        lines = repr(coalesce.variants(operation)).splitlines()
        assert max(map(len, lines)) <= 100
        assert lines == [line.rstrip() for line in lines]
    text = " ".join(repr(coalesce.variants("matmul")).split())
    assert "The load of a is a broadcast" in text


def test_table_in_a_notebook():
    markup = coalesce.variants("matmul")._repr_html_()
    assert markup.count("<tr>") == 1 + len(OPERATIONS["matmul"])
    assert "corner_turned_padded" in markup


def test_source_is_the_text_of_the_kernel():
    text = coalesce.source("matmul", "tiled")
    assert text.startswith("// ")
    assert "__shared__ REAL a_tile[TILE][TILE];" in text
    assert text == coalesce.variants("matmul")["tiled"].source


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: coalesce.variants("matmull"), ValueError, "'matmull'; did you mean 'matmul'"),
        (lambda: coalesce.variants("layout"), ValueError, "unknown operation"),
        (lambda: coalesce.source("matmul", "tile"), ValueError, "did you mean 'tiled'"),
        (lambda: coalesce.source("mul", "tiled"), ValueError, "unknown operation: 'mul'"),
    ],
)
def test_refused(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_matmul_variants_share_signature_and_epilogue():
    """All matmul variants of a family have exactly the same signature and epilogue."""
    bodies = [v.source for v in coalesce.variants("matmul") if not v.hopper]
    signatures = {re.search(r"__global__ .*?\(\n(.*?)\{", body, re.DOTALL)[1] for body in bodies}
    assert len(signatures) == 1
    for start in ("    const INDEX i = ", "            if (r >= M || s >= N) continue;"):
        matching = [body for body in bodies if start in body]
        assert len(matching) >= 4
        assert len({body[body.index(start) :] for body in matching}) == 1


def test_stub_has_the_names_of_the_extension_module():
    names = {name for name in dir(_core.ops.Variant) if not name.startswith("_")}
    assert names == {
        "arguments",
        "dtype",
        "entry",
        "file",
        "hopper",
        "launch",
        "name",
        "operation",
        "preparation",
        "rung",
        "sentence",
        "starts_early",
        "static_shared_bytes",
        "tensor_maps",
        "tiles",
        "topic",
    }


def test_public_modules_are_attributes():
    code = (
        "import coalesce\n"
        "coalesce.check.Findings, coalesce.errors.CoalesceError, coalesce.stepping.Stepper\n"
        "coalesce.draw.steps, coalesce.plots.sweep, coalesce.lessons.exercise\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_every_public_name_is_there():
    assert dir(coalesce) == sorted(coalesce.__all__)
    for name in coalesce.__all__:
        assert getattr(coalesce, name) is not None
    assert coalesce.__version__


def test_every_public_name_is_on_the_page_of_the_api():
    listed = {name.rpartition(".")[2] for name in api_page.listed()}
    public = [*coalesce.__all__, *draw.__all__, *plots.__all__, *lessons.__all__]
    named = {name for name in public if not name.startswith("_") and not ismodule(name)}
    assert named <= listed, named - listed


def test_classes_of_results_are_on_the_page_of_the_api():
    """The page lists the classes that its functions, methods and attributes return."""
    listed = set(filter(inspect.isclass, api_page.listed().values()))
    missing = []
    for name, thing in api_page.documented().items():
        attributes = (
            api_page.attributes(thing) if inspect.isclass(thing) else api_page.returned(thing)
        )
        missing += [(name, cls) for cls in attributes if cls not in listed]
    assert not missing


def ismodule(name):
    return isinstance(getattr(coalesce, name, None), ModuleType)


def test_import_is_light_and_loads_no_array_library():
    code = (
        "import sys, coalesce\n"
        "heavy = {'numpy', 'rich', 'cupy', 'torch', 'coalesce._core'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
        "assert 'matmul' in dir(coalesce) and not hasattr(coalesce, 'nothing')\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
