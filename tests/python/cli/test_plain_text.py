"""Reports as plain text: rich lays them out, and interprets nothing in the texts of the user."""

import pytest
from rich.text import Text

from coalesce.programs import report
from coalesce.render import console, tables

TEXTS = ("a", "12,345", "日本", "two words", "▒▒ é", "[bold]", "a[b]", "[/b]", ":star:", "std::f")


@pytest.mark.parametrize("kind", [str, Text])
@pytest.mark.parametrize("cell", TEXTS)
def test_a_cell_is_printed_as_it_is(cell, kind):
    table = tables.table(["kernel", "launches"], [(kind(cell), "12")], right=["launches"])
    heads, row = console.render(table).splitlines()
    assert row.split("  ")[0] == cell
    assert row.endswith("      12")
    assert "kernel" in heads


@pytest.mark.parametrize("text", [*TEXTS, "", "two\nlines", "x" * 200])
def test_a_text_is_printed_as_it_is(text):
    assert console.render(Text(text)) == text


def test_lines_do_not_end_with_spaces():
    table = tables.table(["a", "b"], [("x", ""), ("", "y   ")])
    assert console.render(table) == "a  b\nx\n   y"


NAMES = ("scale", "void reduce<cuda::std::complex<float>, 256u, [lambda(float)#1]>(float*, int)")
KERNEL = {
    "launches": 1_234_567,
    "launches_counted": 1_234_567,
    "blocks": 98_765_432,
    "blocks_counted": 98_765_432,
    "machine_code": True,
    "load_sectors": 33.5,
    "load_requests": 1,
    "store_sectors": 0,
    "store_requests": 0,
    "modelled_ms": 12.5,
    "no_time": "",
}


@pytest.mark.parametrize("width", [80, 100])
def test_the_table_of_kernels_fits_and_shows_whole_names(width):
    kernels = [{**KERNEL, "name": name} for name in NAMES]
    text = report._kernels({"kernels": kernels, "gpu": "h200"}, width)
    lines = text.splitlines()
    assert max(map(len, lines)) <= width
    assert text.count("1,234,567  98,765,432         33.50              -") == 2
    first = min(line.index("1,234,567") for line in lines if "1,234,567" in line)
    names = "".join("".join(line[:first] for line in lines).split())
    assert names == "kernel" + "".join(NAMES).replace(" ", "")


@pytest.mark.parametrize(
    ("name", "short"),
    [
        ("cub::CUB_300001::detail::scan<cub::policy<int, {0}>::P1000, {0}>", "scan<…>"),
        ("void lib::(anonymous namespace)::go<{0}>(std::complex<{0}>*, int)", "go<…>"),
        ("void plain(std::pair<{0}, {0}>)", "plain"),
    ],
)
def test_very_long_names_of_kernels_are_shortened(name, short):
    long = name.format(f"std::tuple<{20 * 'bool, '}bool>")
    text = report._kernels({"kernels": [{**KERNEL, "name": long}], "gpu": "h200"}, 80)
    assert text.splitlines()[-1].startswith(f"{short} "), text


def test_a_long_name_need_not_be_valid():
    assert report._short("<" * 200) == "<…>"
