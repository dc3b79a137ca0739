"""Checks predictions inside the frames of notebooks: ``python tools/browser_frames.py``.

Colab, VS Code and GitHub show the HTML output of a cell in a frame of another origin. This script
puts all stored predictions, and new ones with a guess, into such frames in Chromium. In each frame
the question must be readable and the answer hidden until a click. The console must have no error.
"""

import asyncio
import html
import json
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from browser import Page, browser, opened, served

from coalesce import draw, lessons

NOTEBOOKS = Path(__file__).parents[1] / "notebooks"

# Without this option a frame without an origin has a process, and so an inspector, of its own.
ONE_PROCESS = "--disable-features=IsolateSandboxedIframes"
# What stands before the output in the frame, and the frame's `sandbox`.
THEMES = """<meta charset="utf-8"><style>
:root { color-scheme: light dark }
body { font: 14px sans-serif; margin: 8px }
</style>"""
POLICY = (
    "default-src 'none'; script-src 'nonce-of-the-notebook'; object-src 'none'; "
    "img-src data:; style-src 'unsafe-inline'"
)
NO_STORAGE = """<script>
if (self.origin !== "null") throw Error("the frame has an origin");
try { localStorage.length; throw Error("the frame has storage"); }
catch (error) { if (error.name !== "SecurityError") throw error; }
</script>"""
FRAMES = {
    "scripts, no origin (Colab)": ("allow-scripts", NO_STORAGE),
    "no scripts (GitHub, nbviewer)": ("", ""),
    "a policy without inline scripts (VS Code)": (
        "allow-scripts",
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">',
    ),
}


def stored() -> Iterator[tuple[str, str]]:
    """Yield the name and the HTML of every prediction of the stored notebooks."""
    for notebook in sorted(NOTEBOOKS.glob("0*.ipynb")):
        for cell in json.loads(notebook.read_text(encoding="utf-8"))["cells"]:
            for output in cell.get("outputs", ()):
                text = "".join(output.get("data", {}).get("text/html", ""))
                if 'class="coalesce-predict"' in text:
                    yield f"{notebook.name}, {output_name(text)}", text


def output_name(text: str) -> str:
    return html.unescape(text.partition('data-name="')[2].partition('"')[0])


def guessed() -> Iterator[tuple[str, str]]:
    """Yield predictions with a right and a wrong guess."""
    for guess in (32, 4):
        shown = lessons.predict(
            "reversed",
            "How many sectors do 32 lanes touch?",
            guess=guess,
            measured=lambda: 4,
            show=lambda: [print("printed"), draw.thread_block((4, 4))],
        )
        yield f"guess {guess}", shown._repr_html_()


def page_of(output: str, sandbox: str, head: str) -> str:
    """Return a page with the output in a frame."""
    inside = html.escape(f"<!DOCTYPE html>{THEMES}{head}{output}")
    frame = f'<iframe sandbox="{sandbox}" srcdoc="{inside}" style="width:800px;height:4000px">'
    return f"<!DOCTYPE html><title>frame</title>{frame}</iframe>"


class Frame:
    """The document inside the frame, as the browser's inspector sees it. It needs no script."""

    def __init__(self, page: Page) -> None:
        self._page = page
        self._root = 0

    async def read(self) -> None:
        """Read the document again."""
        document = await self._page.call("DOM.getDocument", depth=-1, pierce=True)
        (frame,) = nodes_that(document["root"], lambda node: node["nodeName"] == "IFRAME")
        self._root = frame["contentDocument"]["nodeId"]

    async def all(self, selector: str) -> list[int]:
        given = {"nodeId": self._root, "selector": selector}
        answer = await self._page.call("DOM.querySelectorAll", **given)
        nodes: list[int] = answer["nodeIds"]
        return nodes

    async def size(self, node: int) -> tuple[float, float, float, float]:
        """Return left, top, width and height; four zeros if the node is not shown."""
        try:
            box = (await self._page.call("DOM.getBoxModel", nodeId=node))["model"]
        except AssertionError:  # "Could not compute box model."
            return 0, 0, 0, 0
        return box["content"][0], box["content"][1], box["width"], box["height"]

    async def click(self, node: int) -> None:
        await self._page.call("DOM.scrollIntoViewIfNeeded", nodeId=node)
        left, top, width, height = await self.size(node)
        where = {"x": left + min(width, 60) / 2, "y": top + height / 2}
        for kind in ("mousePressed", "mouseReleased"):
            given = {"type": kind, "button": "left", "clickCount": 1, **where}
            await self._page.call("Input.dispatchMouseEvent", **given)


def nodes_that(node: dict[str, Any], test: Any) -> list[dict[str, Any]]:
    below = [*node.get("children", ()), *filter(None, [node.get("contentDocument")])]
    return [node] * bool(test(node)) + [hit for child in below for hit in nodes_that(child, test)]


async def faults(frame: Frame, guessed: bool) -> list[str]:
    """Return what is wrong with the prediction in the frame."""
    wrong = []
    (question,) = await frame.all(".coalesce-predict > div:first-child")
    _, _, width, height = await frame.size(question)
    if width < 200 or height < 10:
        wrong.append("the question is not shown")
    folded = await frame.all(".coalesce-predict > details")
    if len(folded) != (not guessed):
        wrong.append(f"{len(folded)} answers are folded")
    for node in folded:
        (summary,) = await frame.all(".coalesce-predict > details > summary")
        line = (await frame.size(summary))[3]
        if (await frame.size(node))[3] != line or not line:
            wrong.append("the answer is shown at once")
        await frame.click(summary)
        if (await frame.size(node))[3] < 2 * line:
            wrong.append("a click does not show the answer")
    for picture in await frame.all(".coalesce-predict > details > div > img"):
        _, _, width, height = await frame.size(picture)
        if width < 40 or height < 30:
            wrong.append(f"a picture has {width} x {height} pixels")
    return wrong


async def look(address: str, debugger: str, names: dict[str, str]) -> list[str]:
    """Return what is wrong. `names` has the name of the prediction of each page."""
    wrong = []
    page = await opened(debugger)
    await page.call("DOM.enable")
    for file, name in names.items():
        await page.open(f"{address}/{file}", 1280)
        frame = Frame(page)
        await frame.read()
        wrong += [f"{name}: {fault}" for fault in await faults(frame, "guess" in name)]
        wrong += [f"{name}: the console says: {error}" for error in dict.fromkeys(page.errors)]
        page.errors.clear()
    return wrong


def main() -> None:
    """Check all predictions in all frames; exit with status 1 if something is wrong."""
    with tempfile.TemporaryDirectory() as folder:
        names = {}
        for output_of, output in [*stored(), *guessed()]:
            for frame, (sandbox, head) in FRAMES.items():
                file = f"{len(names)}.html"
                names[file] = f"{frame}, {output_of}"
                Path(folder, file).write_text(page_of(output, sandbox, head), encoding="utf-8")
        with served(Path(folder)) as address, browser(ONE_PROCESS) as debugger:
            wrong = asyncio.run(look(address, debugger, names))
    print(f"{len(names)} frames, {len(wrong)} faults", *wrong, sep="\n")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
