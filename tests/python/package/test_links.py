"""Links of pages, and paths in comments, lead to files that exist."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PAGES = sorted(
    page
    for pattern in ("*.md", "docs/*.md", "docs/*.py", "notebooks/*.md", "notebooks/**/[0-9]*.py")
    for page in ROOT.glob(pattern)
)
LINK = re.compile(r"\]\(([^()\s]+)\)")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    if page.suffix == ".py":  # In a notebook only the text cells have links; a script has none.
        text = "\n".join(line for line in text.splitlines() if line.startswith("# "))
    text = re.sub(r"```.*?```|`[^`\n]*`", "", text, flags=re.DOTALL)
    for target in LINK.findall(text):
        if re.match(r"[a-z]+:|#", target):
            continue  # a link to another site, or within the page
        path = page.parent / target.partition("#")[0]
        assert path.exists(), f"{page.relative_to(ROOT)} links to {target}, which does not exist"


def test_paths_in_comments_exist() -> None:
    """A path with the folder that it begins with, such as csrc/model/gpu.cpp, names a file."""
    path = re.compile(
        r"(?<![\w/.-])(?:csrc|python/coalesce|tests|tools|docs|benchmarks)/[\w/.-]+"
        r"\.(?:[ch]pp|inc|cuh?|h|py|md|npz|json|cmake|sh)\b"
    )
    sources = ("*.[ch]pp", "*.inc", "*.cu", "*.cuh", "*.py", "*.sh", "CMakeLists.txt")
    pages = ("README.md", "docs/architecture.md", "docs/adding_an_instruction.md", "docs/goals.md")
    files = [ROOT / page for page in pages]
    for folder in ("csrc", "python", "tests", "tools", "docs", "benchmarks"):
        files += [file for pattern in sources for file in (ROOT / folder).rglob(pattern)]
    absent = {
        f"{file.relative_to(ROOT)}: {name}"
        for file in files
        for name in path.findall(file.read_text(encoding="utf-8"))
        if not (ROOT / name).exists()
    }
    assert len(files) > 500
    assert not absent


def test_files_in_comments_of_cpp_exist() -> None:
    """A comment may name a file without its folders, or with the last of them."""
    paths = [f for folder in ("csrc", "tests") for f in (ROOT / folder).rglob("*.*")]
    files = {f"/{f.relative_to(ROOT)}" for f in paths}
    ends = {end for f in files for end in (f[i:] for i, c in enumerate(f) if c == "/")}
    name = re.compile(r"(?<![\w/.<>*\"-])(?:\w+/)*\w+\.(?:[ch]pp|inc|cuh)\b")
    absent = {
        f"{f.relative_to(ROOT)}: {named}"
        for f in paths
        if f.suffix in (".cpp", ".hpp", ".inc")
        for comment in re.findall(r"//(.*)", f.read_text(encoding="utf-8"))
        for named in name.findall(comment)
        if f"/{named}" not in ends
    }
    assert not absent


def test_files_and_folders_on_pages_exist() -> None:
    """A page may leave out the first folders of a path, as in sim/decode/decode.cpp."""
    code = ("csrc", "python", "tests", "tools", "docs", "benchmarks", "notebooks")
    files = {f"/{f.relative_to(ROOT)}" for folder in code for f in (ROOT / folder).rglob("*.*")}
    end = r"\.(?:[ch]pp|inc|cuh?|py)\b"
    path = re.compile(rf"(?<![\w/.<>-])(?:\w+/)+\w+{end}|(?<=`)\w+\.(?:[ch]pp|inc)(?=`)")
    folder = re.compile(r"(?<![\w/.-])csrc(?:/\w+)+(?![\w/.*<\[])")
    absent = set()
    for name in ("architecture", "compiled_kernels", "adding_an_instruction", "releasing"):
        page = ROOT / "docs" / f"{name}.md"
        text = page.read_text(encoding="utf-8")
        named = set(path.findall(text))
        absent |= {
            f"{page.name}: {n}" for n in named if not any(f.endswith(f"/{n}") for f in files)
        }
        absent |= {f"{page.name}: {n}" for n in folder.findall(text) if not (ROOT / n).is_dir()}
    assert not absent


def test_every_picture_is_shown_somewhere() -> None:
    text = "".join(page.read_text(encoding="utf-8") for page in PAGES if page.suffix == ".md")
    for picture in sorted((ROOT / "docs" / "pictures").glob("*.svg")):
        assert f"pictures/{picture.name})" in text, picture.name


def test_every_lesson_has_a_place() -> None:
    order = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    index = (ROOT / "notebooks" / "README.md").read_text(encoding="utf-8")
    for lesson in sorted((ROOT / "notebooks").glob("[0-9]*.ipynb")):
        assert f"lessons/{lesson.stem}\n" in order
        assert f"({lesson.name})" in index
