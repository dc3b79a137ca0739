"""Write pages and slides for teachers: ``python notebooks/for_teachers.py FOLDER``.

For each lesson, ``lesson_N.md`` has the time, each question with its answer, what students believe
who guess wrong, and the exercises with their limits and hints. ``lesson_N.slides.html`` has the
lesson as slides. Both are made from the notebooks, so they agree with
them. Do not publish the pages: they contain all answers. The script needs nbconvert, a part of
Jupyter.
"""

from __future__ import annotations

import ast
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
pre { font-size: 0.9rem; line-height: 1.3; overflow-x: auto; }
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
    asked = True  # what follows a question may answer it, so it is on the next slide
    for part in _parts(notebook):
        asks = any(_PREDICTION.search(str(output)) for output in part.get("outputs", []))
        # A kernel stays with the question about it.
        alone = asks and not made[-1][-1].source.startswith("```cuda")
        if asked or alone or part.source.startswith(("#", "**To remember**")):
            made.append([])
        asked = asks
        made[-1].append(nbformat.from_dict({**part, "id": f"cell-{len(made[-1])}"}))
    sections = []
    for cells in made:
        body, _ = exporter.from_notebook_node(nbformat.v4.new_notebook(cells=cells))
        sections.append(f"<section>{body}</section>")
    title = html.escape(notebook.cells[0].source.partition("\n")[0].lstrip("# "))
    style = _STYLE + HtmlFormatter().get_style_defs(".highlight")
    head = f'<!doctype html><meta charset="utf-8"><title>{title}</title><style>{style}</style>'
    return "\n".join([head, *sections])


def _parts(notebook: nbformat.NotebookNode) -> Iterator[nbformat.NotebookNode]:
    """Yield what the slides show: texts, kernels, and outputs without the code that made them."""
    v4 = nbformat.v4
    left_out = False  # the exercises are
    for cell in notebook.cells:
        tags = cell.metadata.get("tags", [])
        if cell.cell_type == "markdown":
            text = re.sub(r"\[([^]]+)\]\((?!http)[^)]*\)", r"\1", cell.source)  # links to files
            for part in re.split(r"^(?=#+ )", text, flags=re.MULTILINE):
                left_out |= part.startswith("## Exercises")
                if part and (not left_out or part.startswith("**To remember**")):
                    yield v4.new_markdown_cell(part)
        elif not left_out:
            kernels = [] if "hide-input" in tags else _kernels(cell.source)
            shown = v4.new_code_cell("", outputs=cell.outputs, metadata={"tags": ["hide"]})
            texts = [v4.new_markdown_cell(f"```cuda\n{kernel.strip()}\n```") for kernel in kernels]
            named = cell.source.startswith("%%cuda")  # the output is the name of the kernel
            yield from [*texts, shown] if cell.outputs and not named else texts


def _kernels(code: str) -> list[str]:
    """Return the kernels of a cell: its own text, or the strings of a cell of Python."""
    if code.startswith("%%cuda"):
        return [code.partition("\n")[2]]
    try:
        nodes = list(ast.walk(ast.parse(code)))
    except SyntaxError:  # a line of IPython
        return []
    texts = [node.value for node in nodes if isinstance(node, ast.Constant)]
    return [text for text in texts if isinstance(text, str) and "__global__" in text]


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
