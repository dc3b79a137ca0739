"""Links between the README, the documentation and the lessons lead to files that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
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
