"""Run the lessons and write the notebooks beside them: ``python notebooks/make.py [NAME ...]``.

``python notebooks/make.py --nbgrader FOLDER`` writes the exercises as assignments instead.

A lesson is written as ``NN_name.py`` (jupytext's percent format); that text is what is reviewed.
The ``NN_name.ipynb`` beside it carries the outputs, so that they show where it is only read.
Cells tagged ``counts`` print what must not change; tests/python/lessons/test_notebooks.py compares them.

A cell of CUDA C++ is written as comments, from its ``# %%cuda`` on, so that the text stays Python.
A cell ``lessons.exercise("name")`` tagged ``exercise`` stands for the cells of an exercise: its
task, the kernel to start from, and the check.
"""

from __future__ import annotations

import importlib.metadata
import re
import sys
import tempfile
from pathlib import Path

import jupytext
import nbformat
from nbclient import NotebookClient

HERE = Path(__file__).parent

EXERCISE = re.compile(r'lessons\.exercise\("(\w+)"\)')
# The page of the repository on GitHub, from [project.urls] in pyproject.toml. Empty: it has none yet.
ADDRESS = dict(
    entry.split(", ", 1)
    for entry in importlib.metadata.metadata("coalesce-gpu").get_all("Project-URL", [])
).get("Repository", "")


def install(address: str) -> str:
    """Return the first code cell of each lesson, one line, which the site hides.

    Where the package is missing, as on Colab, the line installs it. The last character keeps IPython
    from showing the value.
    """
    source = f"'coalesce-gpu[plots] @ git+{address}'" if address else "..[plots]"
    return (
        'import importlib.util; importlib.util.find_spec("coalesce") or '
        f'get_ipython().run_line_magic("pip", "install -q {source}");'
    )


def badges(address: str, lesson: str) -> str:
    """Return the links that open a lesson on Colab and on Binder."""
    place = address.removeprefix("https://github.com/").removesuffix(".git")
    colab, binder = "https://colab.research.google.com", "https://mybinder.org"
    return (
        f"[![Open in Colab]({colab}/assets/colab-badge.svg)]"
        f"({colab}/github/{place}/blob/main/notebooks/{lesson}.ipynb) "
        f"[![Open on Binder]({binder}/badge_logo.svg)]"
        f"({binder}/v2/gh/{place}/main?labpath=notebooks%2F{lesson}.ipynb)"
    )


def lessons() -> list[Path]:
    """Return the texts, in order: the lessons, and a page of the documentation."""
    numbered = "[0-9][0-9]_*.py"
    page = HERE.parent / "docs" / "first_profile.py"
    return [*sorted(HERE.glob(numbered)), page]


def read(lesson: Path, address: str = ADDRESS) -> nbformat.NotebookNode:
    """Return a lesson's text as a notebook that has not run."""
    notebook = jupytext.read(lesson)
    for cell in notebook.cells:
        head, *lines = cell.source.split("\n")
        if cell.cell_type == "code" and head.startswith("%%cuda"):
            bare = [line.removeprefix("#").removeprefix(" ") for line in lines]
            cell["source"] = "\n".join([head, *bare])
    if lesson.parent == HERE:
        first = next(n for n, cell in enumerate(notebook.cells) if cell.cell_type == "code")
        if address:
            title, _, rest = notebook.cells[0].source.partition("\n")
            notebook.cells[0]["source"] = f"{title}\n\n{badges(address, lesson.stem)}\n{rest}"
        cell = nbformat.v4.new_code_cell(install(address))
        cell.metadata["tags"] = ["install", "remove-cell"]
        notebook.cells.insert(first, cell)
        notebook.cells = [one for cell in notebook.cells for one in _exercise_cells(cell)]
    return notebook


def _exercise_cells(cell: nbformat.NotebookNode) -> list[nbformat.NotebookNode]:
    """Return the cells of the exercise that a cell stands for, or the cell itself."""
    if "exercise" not in cell.metadata.get("tags", []):
        return [cell]
    from coalesce import lessons as package

    v4 = nbformat.v4
    one = package.exercise(EXERCISE.fullmatch(cell.source)[1])
    numbers = [other.name for other in package.exercises() if other.lesson == one.lesson]
    check = f"print({cell.source}.check({one.name}))"
    return [
        v4.new_markdown_cell(f"### Exercise {one.lesson}.{numbers.index(one.name) + 1}"),
        v4.new_code_cell(cell.source),
        v4.new_code_cell(f"%%cuda\n{one.source.rstrip()}"),
        v4.new_code_cell(check, metadata={"tags": ["counts"]}),
    ]


def run(lesson: Path) -> nbformat.NotebookNode:
    """Execute a lesson's text, in an empty folder, and return it as a notebook with outputs."""
    notebook = read(lesson)
    notebook.metadata["kernelspec"] = {
        "name": "python3",
        "display_name": "Python 3",
        "language": "python",
    }
    for number, cell in enumerate(notebook.cells):
        cell["id"] = f"cell-{number}"  # the same in every run, so that differences are few
    with tempfile.TemporaryDirectory() as folder:
        resources = {"metadata": {"path": folder}}
        NotebookClient(notebook, timeout=600, coalesce_streams=True, resources=resources).execute()
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)  # when each cell ran
        if cell.cell_type == "code":
            cell.outputs = [o for o in cell.outputs if not _is_empty(o)]
    notebook.metadata.pop("language_info", None)
    return notebook


def _is_empty(output: nbformat.NotebookNode) -> bool:
    """Whether it is what a progress bar leaves where a slow machine showed one."""
    return output.output_type == "display_data" and output.data.get("text/html") == ""


def assignment(lesson: int) -> nbformat.NotebookNode:
    """Return the exercises of a lesson as a source notebook of nbgrader, with solutions."""
    from coalesce import lessons as package

    v4 = nbformat.v4
    cells = [v4.new_code_cell("from coalesce import lessons\n\n%load_ext coalesce")]
    for one in (one for one in package.exercises() if one.lesson == lesson):
        # nbgrader replaces what is between the marks; the starting point is a comment above them.
        start = "\n".join(f"// {line}" for line in one.source.rstrip().splitlines())
        solved = f"// ### BEGIN SOLUTION\n{one.solution.rstrip()}\n// ### END SOLUTION"
        marks = {"grade": False, "solution": True, "locked": False, "grade_id": one.name}
        tests = {"grade": True, "solution": False, "locked": True, "points": 1}
        tests["grade_id"] = f"test_{one.name}"
        cells += [
            v4.new_markdown_cell(f"### {one.name}\n\n```\n{one}\n```"),
            v4.new_code_cell(
                f"%%cuda\n{start}\n{solved}",
                metadata={"nbgrader": {"schema_version": 3, "task": False, **marks}},
            ),
            v4.new_code_cell(
                f"verdict = lessons.exercise({one.name!r}).check({one.name})\n"
                "assert verdict, str(verdict)",
                metadata={"nbgrader": {"schema_version": 3, "task": False, **tests}},
            ),
        ]
    for number, cell in enumerate(cells):
        cell["id"] = f"cell-{number}"
    return v4.new_notebook(cells=cells)


def write_assignments(folder: Path) -> None:
    """Write ``source/lesson_N/lesson_N.ipynb`` for each lesson with exercises, as nbgrader wants."""
    from coalesce import lessons as package

    folder.mkdir(parents=True, exist_ok=True)
    stub = 'c.ClearSolutions.code_stub = {"python": "// Your kernel"}\n'  # a cell of CUDA C++
    (folder / "nbgrader_config.py").write_text(f"c = get_config()\n{stub}", encoding="utf-8")
    for lesson in sorted({one.lesson for one in package.exercises()}):
        place = folder / "source" / f"lesson_{lesson}"
        place.mkdir(parents=True, exist_ok=True)
        nbformat.write(assignment(lesson), place / f"lesson_{lesson}.ipynb")


def main() -> None:
    """Write the notebooks of the lessons named, or of all."""
    wanted = sys.argv[1:]
    if wanted[:1] == ["--nbgrader"] and len(wanted) == 2:
        write_assignments(Path(wanted[1]))
        return
    for lesson in lessons():
        if wanted and not any(name in lesson.stem for name in wanted):
            continue
        print(lesson.stem, flush=True)
        nbformat.write(run(lesson), lesson.with_suffix(".ipynb"))


if __name__ == "__main__":
    main()
