"""Every lesson runs from top to bottom and gives the counts that its stored notebook shows."""

import csv
import html
import importlib.util
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from coalesce import lessons
from coalesce.lessons._answers import ANSWERS

pytest.importorskip("jupytext", reason="needs the group `notebooks`")
pytest.importorskip("nbclient", reason="needs the group `notebooks`")
nbformat = pytest.importorskip("nbformat", reason="needs the group `notebooks`")

NOTEBOOKS = Path(__file__).parents[3] / "notebooks"


def _script(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"{name}_notebooks", NOTEBOOKS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


make = _script("make")


def _predictions(cell: Any) -> list[tuple[str, str]]:
    """Return the names of a cell's predictions, each with the measured value."""
    shown = (o.get("data", {}).get("text/html", "") for o in cell.outputs)
    return [prediction for text in shown for prediction in _PREDICTION.findall(text)]


_PREDICTION = re.compile(r'data-name="([^"]*)" data-measured="([^"]*)"')


def _printed(cell: Any) -> str:
    printed = [o.get("text", "") for o in cell.outputs if o.output_type == "stream"]
    return "".join(printed + [f"{name}: {value}" for name, value in _predictions(cell)])


def _recorded(notebook: Any) -> list[str]:
    """Return the captions of recorded times in the outputs, with the tables that are text."""
    outputs = [o.get("data", {}) for cell in notebook.cells for o in cell.get("outputs", [])]
    return [
        table
        for data in outputs
        for kind in ("text/plain", "text/html")
        for table in _RECORDED.findall(data.get(kind, ""))
    ]


_RECORDED = re.compile(r"recorded \d{4}-\d\d-\d\d[^<]*")


@pytest.mark.usefixtures("on_simulator")
@pytest.mark.filterwarnings("ignore")  # Jupyter's own libraries warn
@pytest.mark.parametrize("lesson", make.lessons(), ids=lambda lesson: lesson.stem)
def test_lesson(lesson: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")  # the stored outputs were made on the simulator
    stored = nbformat.read(lesson.with_suffix(".ipynb"), as_version=4)
    ran = make.run(lesson)
    assert [c.source for c in ran.cells] == [c.source for c in stored.cells], (
        f"the notebook is older than {lesson.name}; run: python notebooks/make.py {lesson.stem}"
    )
    for cell in (c for c in stored.cells if "install" in c.metadata.get("tags", [])):
        assert not cell.outputs, "it would name folders of this machine"
    assert _recorded(ran) == _recorded(stored), "the stored times are not those of h200.json"
    counting = [n for n, c in enumerate(ran.cells) if "counts" in c.metadata.get("tags", [])]
    assert counting, "a lesson counts something"
    for n in counting:
        assert _printed(ran.cells[n]), f"cell {n} is tagged `counts` and prints nothing"
        assert _printed(ran.cells[n]) == _printed(stored.cells[n])


def test_predictions_and_their_explanations_belong_together() -> None:
    """Each question is asked once and explained, and no listed mistake is the right answer."""
    measured: dict[str, str] = {}
    for lesson in make.lessons():
        for cell in nbformat.read(lesson.with_suffix(".ipynb"), as_version=4).cells:
            if cell.cell_type == "code":
                for name, value in _predictions(cell):
                    assert name not in measured, f"two questions are named {name!r}"
                    measured[name] = value
    assert measured.keys() == ANSWERS.keys()
    for name, answer in ANSWERS.items():
        assert answer.why, name
        for guess in answer.mistakes:
            right = measured[name].replace(",", "")
            same = right == guess
            if isinstance(guess, (int, float)):
                same = abs(float(right) - guess) <= 0.02 * abs(float(right))
            assert not same, f"{name}: {guess} is the right answer"


def test_answers_are_folded_away() -> None:
    """A stored prediction contains its answer only inside a closed element."""
    for lesson in make.lessons():
        for cell in nbformat.read(lesson.with_suffix(".ipynb"), as_version=4).cells:
            if cell.cell_type != "code" or not _predictions(cell):
                continue
            # the cell shows the prediction and nothing else, such as a plot
            (output,) = cell.outputs
            before, _, after = output.data["text/html"].partition("<details>")
            assert "Measured:" in after
            assert "Measured:" not in before
            assert "Measured:" not in output.data["text/plain"]


def test_no_cell_gives_its_answer_away() -> None:
    """The right choice, or a number of several digits, is not in the code of its question."""
    for lesson in make.lessons():
        for cell in nbformat.read(lesson.with_suffix(".ipynb"), as_version=4).cells:
            if cell.cell_type != "code" or not _predictions(cell):
                continue
            ((name, measured),) = _predictions(cell)
            (output,) = cell.outputs
            choices = re.findall("<li>(.*?)</li>", output.data["text/html"].split("<details>")[0])
            code = re.sub(r"choices=\[.*?\],", "", cell.source, flags=re.DOTALL)
            code = re.sub(r'"[^"\n]*\?"', "", code)  # the question
            if choices:
                named = [text for text in map(_bare, choices) if len(text) > 2 and text in code]
                alone = html.unescape(measured) in named and len(named) < len(choices)
                assert not alone, f"{name}: the answer is in the cell"
            else:
                # a short number may be in the code, such as a size, but not in a picture's headline
                texts = [code] if len(measured) > 2 else re.findall(r'headline=f?"(.*)"', code)
                for text in texts:
                    assert not re.search(rf"(?<![\w.]){re.escape(measured)}(?![\w.])", text), name


def _bare(text: str) -> str:
    return html.unescape(re.sub("<[^>]+>", "", text))


def test_assignments_for_nbgrader(tmp_path: Path) -> None:
    """Each exercise has a cell to solve and a locked test, and the instructor's version passes."""
    make.write_assignments(tmp_path)
    assert "code_stub" in (tmp_path / "nbgrader_config.py").read_text(encoding="utf-8")
    graded = {}
    files = tmp_path.glob("source/lesson_*/lesson_*.ipynb")
    for file in sorted(files, key=lambda path: int(path.stem.removeprefix("lesson_"))):
        notebook = nbformat.read(file, as_version=4)
        nbformat.validate(notebook)
        marked = [cell for cell in notebook.cells if "nbgrader" in cell.metadata]
        for answer, test in zip(marked[::2], marked[1::2], strict=True):
            name = answer.metadata["nbgrader"]["grade_id"]
            assert answer.metadata["nbgrader"]["solution"]
            assert test.metadata["nbgrader"]["locked"]
            assert f"exercise({name!r}).check({name})" in test.source
            graded[name] = answer.source.partition("\n")[2]
    assert list(graded) == [one.name for one in lessons.exercises()]
    assert lessons.exercise("gram").check(graded["gram"])


def test_one_click() -> None:
    """With the address of a repository, lessons have links to Colab and Binder, and install it."""
    lesson = NOTEBOOKS / "01_one_warp_one_load.py"
    path = "notebooks/01_one_warp_one_load.ipynb"
    title, install = make.read(lesson, "https://github.com/someone/some.repo.git").cells[:2]
    for target in (
        f"https://colab.research.google.com/github/someone/some.repo/blob/main/{path}",
        f"https://mybinder.org/v2/gh/someone/some.repo/main?labpath={path.replace('/', '%2F')}",
    ):
        assert f"]({target})" in title.source
    assert title.source.startswith("# 1.")
    assert len(install.source.splitlines()) == 1
    assert "'coalesce-gpu[plots] @ git+https://github.com/someone/some.repo.git'" in install.source
    requirements = (NOTEBOOKS.parent / ".binder" / "requirements.txt").read_text(encoding="utf-8")
    assert requirements == ".[plots]\n"


def test_pages_and_slides_for_teachers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A page has all questions and exercises of its lesson, and slides need no network."""
    pytest.importorskip("nbconvert", reason="needs the group `notebooks`")
    monkeypatch.setattr(sys, "argv", ["for_teachers.py", str(tmp_path)])
    _script("for_teachers").main()
    pages = {f.stem: f.read_text(encoding="utf-8") for f in tmp_path.glob("lesson_*.md")}
    assert len(pages) == len(make.lessons()) - 1
    text = "".join(pages.values())
    for name, answer in ANSWERS.items():
        assert f"### {name}\n" in text
        assert all(reply in text for reply in answer.mistakes.values())
    for one in lessons.exercises():
        assert one.solution.rstrip() in pages[f"lesson_{one.lesson}"]
    for name in pages:
        slides = (tmp_path / f"{name}.slides.html").read_text(encoding="utf-8")
        assert slides.count("<section>") > 5
        assert "<script" not in slides
        assert " src=" not in slides.replace(' src="data:', "")
        assert "To remember" in slides
    by_question = {
        name: section
        for section in slides_of(tmp_path, 6)
        for name in re.findall('data-name="([^"]*)"', section)
    }
    assert "triangle" in by_question["a loop for each lane"], "its kernel is on the slide"
    assert "reconverge" not in by_question["both sides"], "the text after a question answers it"


def slides_of(folder: Path, lesson: int) -> list[str]:
    return (folder / f"lesson_{lesson}.slides.html").read_text(encoding="utf-8").split("<section>")


@pytest.mark.skipif(shutil.which("nbgrader") is None, reason="needs nbgrader")
def test_nbgrader_grades_the_assignments(tmp_path: Path) -> None:
    """The solutions of lesson 1 get every point, and the starting points get none."""

    def nbgrader(*command: str) -> None:
        environment = {**os.environ, "COALESCE_DEVICE": "sim"}
        done = subprocess.run(
            ["nbgrader", *command], cwd=tmp_path, env=environment, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr

    make.write_assignments(tmp_path)
    nbgrader("generate_assignment", "lesson_1")
    sources = {
        "solver": {one.name: one.solution for one in lessons.exercises()},
        "starter": {one.name: one.source for one in lessons.exercises()},
    }
    for student, source in sources.items():
        released = tmp_path / "release" / "lesson_1" / "lesson_1.ipynb"
        notebook = nbformat.read(released, as_version=4)
        for cell in notebook.cells:
            if cell.metadata.get("nbgrader", {}).get("solution"):
                assert "Your kernel" in cell.source
                cell.source = f"%%cuda\n{source[cell.metadata['nbgrader']['grade_id']]}"
        submitted = tmp_path / "submitted" / student / "lesson_1"
        submitted.mkdir(parents=True)
        nbformat.write(notebook, submitted / "lesson_1.ipynb")
    nbgrader("autograde", "lesson_1")
    nbgrader("export")
    with (tmp_path / "grades.csv").open(encoding="utf-8") as file:
        scores = {row["student_id"]: float(row["score"]) for row in csv.DictReader(file)}
    count = sum(one.lesson == 1 for one in lessons.exercises())
    assert scores == {"solver": count, "starter": 0}


@pytest.mark.usefixtures("on_simulator")
@pytest.mark.filterwarnings("ignore")  # Jupyter's own libraries warn
def test_a_reader_who_guesses(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a guess in each cell, the lesson runs, compares the guesses and shows the score."""
    from nbclient import NotebookClient

    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    lesson = NOTEBOOKS / "00_threads_blocks_warps.py"
    notebook = make.read(lesson)
    last = next(n for n, c in enumerate(notebook.cells) if "## Exercises" in c.source)
    del notebook.cells[last:]
    for cell in notebook.cells:
        cell.source = cell.source.replace("guess=...", "guess=2")  # a number, or the second choice
    NotebookClient(notebook, timeout=300, resources={"metadata": {"path": lesson.parent}}).execute()
    shown = [
        o.get("data", {}).get("text/plain", "")
        for c in notebook.cells
        for o in c.get("outputs", [])
    ]
    compared = [text for text in shown if text.startswith("Predict:")]
    assert len(compared) == 7
    assert all("Your guess: " in text and "Measured: " in text for text in compared)
    assert "You let y change fastest." in compared[1]
    assert "Right." in compared[2]
    assert "Score: 2 of 7 predictions right at the first guess" in compared[-1]


@pytest.mark.parametrize(
    "lesson", sorted(NOTEBOOKS.glob("[0-9][0-9]_*.py")), ids=lambda path: path.stem
)
def test_a_lesson_states_its_time_and_leads_to_the_glossary(lesson: Path) -> None:
    text = lesson.read_text(encoding="utf-8")
    for stated in ("**Time:**", "**You need:**", "[glossary](glossary.md)", "**To remember**"):
        assert stated in text
