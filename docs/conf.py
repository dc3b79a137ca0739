"""How the site is built: `sphinx-build -W docs build/docs`, after `pip install . --group docs`."""

from __future__ import annotations

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
# `lessons` is a link to ../notebooks.
exclude_patterns = ["measured/*", "**.ipynb_checkpoints"]

# The notebooks carry their outputs; tests/python/test_notebooks.py executes them.
nb_execution_mode = "off"
myst_enable_extensions = ["colon_fence", "dollarmath", "attrs_block"]
myst_heading_anchors = 3

autodoc_typehints = "none"  # the docstrings say the types in words
numpydoc_show_class_members = False
numpydoc_xref_param_type = False

html_theme = "furo"
html_title = "coalesce"
html_theme_options = {"navigation_with_keys": True}

# A broken reference is an error (-W).
nitpicky = False
suppress_warnings = ["mystnb.unknown_mime_type"]
