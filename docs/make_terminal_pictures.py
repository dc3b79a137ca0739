"""Draw docs/demo.svg and docs/explain.svg, the README's pictures of a terminal.

Run ``python docs/make_terminal_pictures.py`` in an environment in which coalesce is installed.
"""

from __future__ import annotations

import io
from pathlib import Path

from rich.console import Console

from coalesce.cli.demo import run_demo
from coalesce.cli.explain import of_operation

FOLDER = Path(__file__).parent


def console(command: str) -> Console:
    """Return a terminal of 100 columns that shows a typed command."""
    made = Console(record=True, width=100, file=io.StringIO(), force_terminal=True, highlight=False)
    made.print(f"[bold]$ {command}[/bold]")
    return made


def main() -> None:
    """Draw the pictures; raise an error if a result is wrong."""
    demo = console("coalesce demo")
    if not run_demo(demo, device="sim"):
        raise SystemExit("a result was wrong; no picture was drawn")
    demo.save_svg(str(FOLDER / "demo.svg"), title="coalesce")

    explain = console("coalesce explain matmul --variants naive")
    explain.print(of_operation("matmul", ["naive"], [], n=None, dtype="float32"))
    explain.save_svg(str(FOLDER / "explain.svg"), title="coalesce")


if __name__ == "__main__":
    main()
