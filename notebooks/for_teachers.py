"""Write pages and slides for teachers: ``python notebooks/for_teachers.py FOLDER``.

For each lesson, ``lesson_N.md`` has the time, each question with its answer, what students believe
who guess wrong, and the exercises with their limits and hints. ``lesson_N.slides.html`` has the
lesson as slides. Both are made from the notebooks, so they agree with
them. Do not publish the pages: they contain all answers. The script needs nbconvert, a part of
Jupyter.
"""

from __future__ import annotations

import html
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import nbformat

from coalesce import lessons
from coalesce.lessons._answers import ANSWERS

HERE = Path(__file__).parent
_STYLE = """
html { scroll-snap-type: y mandatory; font: 1.5rem/1.4 sans-serif; }
body { margin: 0; }
section { box-sizing: border-box; height: 100vh; overflow: auto; padding: 3vh 8vw; scroll-snap-align: start;
    border-bottom: 1px solid #ccc; }
pre { font-size: 1rem; line-height: 1.3; overflow-x: auto; }
table { font-size: 1.1rem; border-spacing: 0; }
td, th { padding: 2px 12px; }
svg { max-width: 100%; height: auto; }
.anchor-link, .coalesce-invitation, .jp-InputPrompt, .jp-OutputPrompt { display: none; }
"""
_PREDICTION = re.compile(r'data-name="([^"]*)" data-measured="([^"]*)"')


def predictions(notebook: nbformat.NotebookNode) -> Iterator[tuple[str, str, str]]:
    """Yield the name, the text and the answer of each question of a lesson."""
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            for name, measured in _PREDICTION.findall(output.get("data", {}).get("text/html", "")):
                shown = output.data["text/plain"].rpartition("\n")[0]
                yield name, shown.removeprefix("Predict: "), html.unescape(measured)


def page(number: int, notebook: nbformat.NotebookNode) -> str:
    """Return the page of a lesson for teachers, as Markdown."""
    first = notebook.cells[0].source
    lines = [
        first.partition("\n")[0],
        "",
        re.search(r"\*\*Time:\*\*.*", first, re.DOTALL)[0],
        "",
        "## Questions",
    ]
    for name, question, measured in predictions(notebook):
        answer = ANSWERS[name]
        lines += ["", f"### {name}", "", question, "", f"**{measured}.** {answer.why}", ""]
        lines += [f"- *{guess}*: {reply}" for guess, reply in answer.mistakes.items()]
    lines += ["", "## Exercises"]
    for one in lessons.exercises():
        if one.lesson == number:
            lines += ["", f"### {one.name}", "", f"The kernel {one.task} Launch: {one.launch}.", ""]
            lines += [f"- limit: {demand}" for demand in one.demands]
            lines += [f"- hint: {hint}" for hint in one._hints]
            lines += ["", f"```cpp\n{one.solution.rstrip()}\n```"]
    return "\n".join(lines) + "\n"


def slides(notebook: nbformat.NotebookNode) -> str:
    """Return a lesson as slides: a page without scripts, which scrolls from slide to slide.

    Each heading and each question begins a slide. A slide shows kernels, but no Python code.
    """
    from nbconvert import HTMLExporter
    from pygments.formatters import HtmlFormatter
    from traitlets.config import Config

    hide = {"enabled": True, "remove_input_tags": {"hide"}}
    exporter = HTMLExporter(
        template_name="basic",
        exclude_input_prompt=True,
        exclude_output_prompt=True,
        config=Config({"TagRemovePreprocessor": hide}),
    )
    made: list[list[nbformat.NotebookNode]] = []
    for cell in notebook.cells:
        outputs = cell.get("outputs", [])
        kernel = cell.source.startswith("%%cuda")
        parts = [cell.source]
        if cell.cell_type == "markdown":
            parts = [
                part for part in re.split(r"^(?=#+ )", cell.source, flags=re.MULTILINE) if part
            ]
        elif not kernel and not outputs:
            continue
        if cell.source.startswith("## Exercises"):
            break
        for part in parts:
            if part.startswith("#") or any(_PREDICTION.search(str(output)) for output in outputs):
                made.append([])
            new = nbformat.from_dict({**cell, "source": part, "id": f"cell-{len(made[-1])}"})
            new.metadata["tags"] = ["hide"] if cell.cell_type == "code" and not kernel else []
            if kernel:
                new.outputs = []  # the name of the kernel
            made[-1].append(new)
    sections = []
    for cells in made:
        body, _ = exporter.from_notebook_node(nbformat.v4.new_notebook(cells=cells))
        sections.append(f"<section>{body}</section>")
    title = html.escape(notebook.cells[0].source.partition("\n")[0].lstrip("# "))
    style = _STYLE + HtmlFormatter().get_style_defs(".highlight")
    head = f'<!doctype html><meta charset="utf-8"><title>{title}</title><style>{style}</style>'
    return "\n".join([head, *sections])


def main() -> None:
    """Write the pages and slides of all lessons."""
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for file in sorted(HERE.glob("[0-9][0-9]_*.ipynb")):
        number = int(file.name[:2])
        notebook = nbformat.read(file, as_version=4)
        (folder / f"lesson_{number}.md").write_text(page(number, notebook), encoding="utf-8")
        (folder / f"lesson_{number}.slides.html").write_text(slides(notebook), encoding="utf-8")


if __name__ == "__main__":
    main()
