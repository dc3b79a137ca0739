"""Checks a lesson in JupyterLab: ``python tools/browser_jupyterlab.py``.

JupyterLab does not trust a notebook from another machine, and cleans its output before it shows
it. This script opens the stored notebooks in JupyterLab, in Chromium. Every prediction must show
its question and hide its answer until a click, and every picture must be visible.
"""

import asyncio
import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from browser import Page, browser, opened

NOTEBOOKS = Path(__file__).parents[1] / "notebooks"
# Without this setting, JupyterLab only makes the cells that are on the screen.
SETTINGS = "@jupyterlab/notebook-extension/tracker.jupyterlab-settings"
ASKED = "document.querySelectorAll('.jp-OutputArea .coalesce-predict').length"
FAULTS = """(() => {
  const wrong = [];
  for (const one of document.querySelectorAll(".jp-OutputArea .coalesce-predict")) {
    const name = one.dataset.name || one.textContent.slice(0, 60);
    const said = one.firstElementChild.getBoundingClientRect();
    if (said.width < 200 || said.height < 10) wrong.push(`${name}: the question is not shown`);
    const answer = one.querySelector("details");
    if (!answer) { wrong.push(`${name}: there is no answer`); continue; }
    const line = answer.querySelector("summary").getBoundingClientRect().height;
    if (answer.open || answer.getBoundingClientRect().height > line + 1)
      wrong.push(`${name}: the answer is shown at once`);
    answer.querySelector("summary").click();
    if (answer.getBoundingClientRect().height < 2 * line)
      wrong.push(`${name}: a click does not show the answer`);
  }
  for (const picture of document.querySelectorAll(".jp-OutputArea .coalesce-predict img")) {
    const {width, height} = picture.getBoundingClientRect();
    if (width < 40 || height < 30) wrong.push(`a picture has ${width} x ${height} pixels`);
  }
  return wrong;
})()"""


@contextlib.contextmanager
def jupyterlab(folder: Path) -> Iterator[str]:
    """Start JupyterLab on copies of the notebooks; yield its address."""
    for notebook in NOTEBOOKS.glob("*.ipynb"):
        shutil.copy(notebook, folder)
    settings = folder / "settings" / SETTINGS
    settings.parent.mkdir(parents=True)
    settings.write_text(json.dumps({"windowingMode": "none"}), encoding="utf-8")
    places = {"JUPYTERLAB_SETTINGS_DIR": str(folder / "settings"), "HOME": str(folder)}
    options = ["--no-browser", "--allow-root", "--ServerApp.port=0", "--IdentityProvider.token="]
    started = subprocess.Popen(
        [sys.executable, "-m", "jupyterlab", *options, f"--ServerApp.root_dir={folder}"],
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **places},
    )
    try:
        assert started.stderr is not None
        for line in started.stderr:
            if "http://" in line and line.rstrip().endswith("/lab"):
                yield line.split()[-1].removesuffix("/lab")
                break
        else:
            raise SystemExit("JupyterLab did not start")
    finally:
        started.terminate()
        started.wait(20)


def predictions(notebook: Path) -> int:
    """Return how many predictions the stored outputs of a notebook have."""
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    outputs = [output for cell in cells for output in cell.get("outputs", ())]
    shown = ["".join(output.get("data", {}).get("text/html", "")) for output in outputs]
    return sum('class="coalesce-predict"' in text for text in shown)


async def until(page: Page, script: str, wanted: int) -> int:
    """Wait at most 60 seconds until a script returns a number; return what it returns."""
    value = 0
    for _ in range(120):
        value = await page.value(script)
        if value == wanted:
            break
        await asyncio.sleep(0.5)
    return value


async def look(address: str, debugger: str) -> list[str]:
    """Return what is wrong with the notebooks."""
    page = await opened(debugger)
    wrong = []
    for notebook in sorted(NOTEBOOKS.glob("0*.ipynb")):
        await page.open(f"{address}/doc/tree/{notebook.name}?reset", 1280)
        wanted = predictions(notebook)
        count = await until(page, ASKED, wanted)
        if count != wanted:
            wrong.append(f"{notebook.name}: {count} of {wanted} predictions are shown")
        wrong += [f"{notebook.name}, {fault}" for fault in await page.value(FAULTS)]
        print(f"{notebook.name}: {count} predictions", flush=True)
    return wrong


def main() -> None:
    """Check all lessons; exit with status 1 if something is wrong."""
    with (
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder,
        jupyterlab(Path(folder)) as address,
        browser() as debugger,
    ):
        wrong = asyncio.run(look(address, debugger))
    print(f"{len(wrong)} faults", *wrong, sep="\n")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
