"""Draw docs/demo.svg, the README's picture: what `coalesce demo` prints where there is no GPU.

Run it in an environment that has coalesce installed: ``python docs/make_demo_picture.py``.
"""

from __future__ import annotations

import io
from pathlib import Path

from rich.console import Console

from coalesce import _demo

PICTURE = Path(__file__).with_name("demo.svg")

console = Console(record=True, width=100, file=io.StringIO(), force_terminal=True, highlight=False)
console.print("[bold]$ coalesce demo[/bold]")
if not _demo.run_demo(console, device="sim"):
    raise SystemExit("a result was wrong; no picture was drawn")
console.save_svg(str(PICTURE), title="coalesce")
