"""Reports without colour are laid out without rich. They look as rich would print them."""

import io

import pytest
from rich.console import Console
from rich.table import Table
from rich.text import Text

from coalesce.render import plain

CELLS = ("", "a", "12,345", "日本", "two words", "▒▒ é", "[b", "a\tb", "end ", "x" * 40)


def table(cells, collapse):
    result = Table(box=None, pad_edge=False, header_style="bold")
    result.collapse_padding = collapse
    result.add_column("name")
    result.add_column("number", justify="right", no_wrap=True)
    result.add_column("")
    for n, cell in enumerate(cells):
        result.add_row(cell if "[" in cell else Text(cell), str(n), Text(cells[-1 - n]))
    return result


@pytest.mark.parametrize("collapse", [False, True])
@pytest.mark.parametrize("cells", [CELLS[:6], *((cell,) for cell in CELLS), CELLS, ()])
def test_tables_look_as_rich_prints_them(cells, collapse):
    console = Console(file=io.StringIO(), width=80, highlight=False)
    item = table(cells, collapse)
    ours = [line.rstrip() for line in plain.lines(item, console)]
    assert ours == [line.rstrip() for line in plain.printed(item, console)]


def test_usual_tables_are_laid_out_without_rich(monkeypatch):
    monkeypatch.setattr(plain, "printed", None)
    console = Console(file=io.StringIO(), width=80)
    assert len(list(plain.lines(table(CELLS[:6], False), console))) == 7


@pytest.mark.parametrize("text", ["", "one", "two\nlines", "a\tb", "spaces  ", "x" * 200])
def test_texts_look_as_rich_prints_them(text):
    console = Console(file=io.StringIO(), width=80, highlight=False)
    ours = [line.rstrip() for line in plain.lines(Text(text), console)]
    assert ours == [line.rstrip() for line in plain.printed(Text(text), console)]
