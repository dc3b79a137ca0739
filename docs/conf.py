"""How the site is built: `sphinx-build -W docs build/docs`, after `pip install . --group docs`."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from docutils import nodes

import coalesce

project = "coalesce"
author = "the coalesce authors"
project_copyright = "the coalesce authors"
release = coalesce.__version__

extensions = [
    "myst_nb",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.viewcode",
    "sphinx_copybutton",
]
exclude_patterns = ["measured/*", "**.ipynb_checkpoints"]

# The notebooks carry their outputs; tests/python/lessons/test_notebooks.py executes them.
nb_execution_mode = "off"
myst_enable_extensions = ["colon_fence", "attrs_block"]
myst_heading_anchors = 3

autodoc_typehints = "none"  # the docstrings describe the types
numpydoc_show_class_members = False
numpydoc_xref_param_type = False

html_theme = "furo"
html_static_path = ["_static"]
html_css_files = ["coalesce.css"]
html_js_files = ["coalesce.js"]
html_title = "coalesce"
html_theme_options = {"navigation_with_keys": True}

# A broken reference is an error (-W).
nitpicky = True
# attributes of Trace; its docstring describes them
nitpick_ignore = [("py:obj", "array"), ("py:obj", "index")]
suppress_warnings = [
    "mystnb.unknown_mime_type",
]

DOCS = Path(__file__).parent
LESSONS = DOCS / "lessons"  # copied from ../notebooks; git does not track this folder


def copy_lessons(*_: Any) -> None:
    """Copy the lessons into the documentation folder, where Sphinx looks for sources."""
    shutil.rmtree(LESSONS, ignore_errors=True)
    shutil.copytree(
        DOCS.parent / "notebooks",
        LESSONS,
        ignore=shutil.ignore_patterns("*.py", "__pycache__", ".ipynb_checkpoints"),
    )


def point_at_lessons(_app: Any, _page: str, source: list[str]) -> None:
    """Replace links to the notebooks on GitHub with links to their pages; also in the lessons."""
    source[0] = source[0].replace("(../notebooks/", "(lessons/").replace("(../docs/", "(../")


def highlight_cuda(_app: Any, document: nodes.document) -> None:
    """Highlight cells of CUDA C++ as CUDA C++, with line numbers as in reports."""
    for block in document.findall(nodes.literal_block):
        if block.astext().startswith("%%cuda"):
            block["language"] = "cuda"
            block["linenos"] = True


def setup(app: Any) -> None:
    """Add the steps above to the build."""
    app.connect("config-inited", copy_lessons)
    app.connect("source-read", point_at_lessons)
    app.connect("doctree-read", highlight_cuda)
