"""Checks the built site in a real browser: ``python tools/browser.py SITE [--pictures FOLDER]``.

SITE is the output folder of ``sphinx-build docs SITE``. The browser is Chromium without a window.
If it is missing, the script fails: unchecked pages must not pass. The script controls the browser
through its debugging protocol, with tornado's websocket client (a part of Jupyter).
"""

import argparse
import asyncio
import base64
import contextlib
import functools
import http.server
import itertools
import json
import shutil
import subprocess
import sys
import tempfile
import threading
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tornado.websocket import WebSocketClientConnection, websocket_connect

WIDTHS = (420, 1280)
LESSON = "lessons/01_one_warp_one_load.html"

# Elements that are wider than the page and not inside a scrolling element.
CLIPPED = """(() => {
  const wide = document.documentElement.clientWidth + 1;
  const kinds = ["auto", "scroll", "hidden"];
  const scrolls = (e) => e && e !== document.body &&
    (kinds.includes(getComputedStyle(e).overflowX) || scrolls(e.parentElement));
  return [...document.querySelectorAll("article *")]
    .filter((e) => e.getBoundingClientRect().right > wide && e.getClientRects().length)
    .filter((e) => !scrolls(e) && !e.closest(".headerlink"))
    .map((e) => e.tagName + "." + e.className + " " + e.textContent.slice(0, 60))
    .slice(0, 5);
})()"""
UNFOLD = "document.querySelectorAll('article details').forEach((d) => { d.open = true; })"
# How many pictures have less than 0.8 of their size, so that their labels are hard to read.
SMALL = """(() => [...document.querySelectorAll("svg.coalesce-picture")]
  .filter((e) => e.getClientRects().length)  // not a hidden frame of a player
  .filter((e) => e.getBoundingClientRect().width < 0.8 * e.viewBox.baseVal.width).length)()"""
# A player shows one picture: the first one, and after a click on a button the one of that button.
PLAYERS = """(() => {
  const wrong = [];
  for (const player of document.querySelectorAll(".coalesce-player")) {
    const frames = [...player.querySelector(".frames").children];
    const shown = () => frames.flatMap((e, i) => (e.getClientRects().length ? [i] : []));
    const labels = [...player.querySelectorAll("label")];
    for (const [number, label] of labels.entries()) {
      if (number) label.click();
      if (shown().join() !== String(number)) wrong.push(`${label.textContent}: ${shown()}`);
    }
  }
  return wrong;
})()"""
PAPER = """(() => {
  const paper = document.querySelector("svg.coalesce-picture rect");
  return paper ? getComputedStyle(paper).fill : "no picture in the page";
})()"""
GUESS = """(async () => {
  const asked = [...document.querySelectorAll(".coalesce-predict")];
  const said = [];
  for (const one of asked) {
    if (one.querySelector("details").open) return "an answer is open before a guess";
    const field = one.querySelector("form :is(input, select)");
    if (!field) return "a prediction does not ask for a guess";
    const right = one.dataset.measured.replaceAll(",", "");
    field.value = field.tagName === "SELECT" ? one.dataset.measured : right;
    one.querySelector("form button").click();
    said.push(one.querySelector("details").open && one.querySelector("[role=status]").textContent);
  }
  return said;
})()"""


NO_STORAGE = """Object.defineProperty(window, "localStorage", {
  get() { throw new DOMException("Access is denied for this document.", "SecurityError"); },
});"""


class Page:
    """A page of the browser."""

    def __init__(self, socket: WebSocketClientConnection) -> None:
        self._socket = socket
        self._numbers = itertools.count(1)
        self.errors: list[str] = []

    async def call(self, method: str, **parameters: Any) -> Any:
        """Call a method of the protocol; collect what the console says meanwhile."""
        number = next(self._numbers)
        await self._socket.write_message(
            json.dumps({"id": number, "method": method, "params": parameters})
        )
        while True:
            message = await self._next()
            if message.get("id") == number:
                assert "error" not in message, message
                return message["result"]

    async def until(self, event: str) -> None:
        while (await self._next()).get("method") != event:
            pass

    async def value(self, script: str) -> Any:
        """Return what a script evaluates to."""
        given = {"expression": script, "returnByValue": True, "awaitPromise": True}
        answer = await self.call("Runtime.evaluate", **given)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    async def open(self, address: str, width: int, scheme: str = "light") -> None:
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
        await self.call("Emulation.setDeviceMetricsOverride", **size)
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        await self.call("Emulation.setEmulatedMedia", features=features)
        await self.call("Page.navigate", url=address)
        await self.until("Page.loadEventFired")

    async def _next(self) -> dict[str, Any]:
        text = await asyncio.wait_for(self._socket.read_message(), 30)
        assert text is not None, "the browser ended"
        message: dict[str, Any] = json.loads(text)
        method, about = message.get("method"), message.get("params", {})
        if method == "Runtime.exceptionThrown":
            self.errors.append(str(about["exceptionDetails"]))
        if method == "Log.entryAdded" and about["entry"]["level"] == "error":
            url = about["entry"].get("url", "")
            if not url.endswith("favicon.ico"):
                self.errors.append(f"{about['entry']['text']} {url}")
        if method == "Runtime.consoleAPICalled" and about["type"] == "error":
            self.errors.append(str(about["args"]))
        return message


@contextlib.contextmanager
def served(site: Path) -> Iterator[str]:
    """Serve the site on a free port of this machine."""

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_: Any) -> None:
            pass

    handler = functools.partial(Quiet, directory=str(site))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@contextlib.contextmanager
def browser(*more: str) -> Iterator[str]:
    """Start Chromium, with more options; yield the address of its debugging protocol."""
    program = shutil.which("chromium") or shutil.which("google-chrome")
    if program is None:
        raise SystemExit("tools/browser.py needs Chromium: apt-get install chromium")
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        options = ["--headless=new", "--no-sandbox", "--disable-gpu", "--remote-debugging-port=0"]
        started = subprocess.Popen(
            [
                program,
                *options,
                *more,
                "--no-first-run",
                f"--user-data-dir={profile}",
                "about:blank",
            ],
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            assert started.stderr is not None
            for line in started.stderr:
                if line.startswith("DevTools listening on "):
                    yield line.split()[-1].replace("ws://", "http://").partition("/devtools")[0]
                    break
            else:
                raise SystemExit("Chromium did not start")
        finally:
            started.terminate()
            started.wait(20)


async def opened(debugger: str) -> Page:
    """Return the browser's page."""
    with urllib.request.urlopen(f"{debugger}/json/list") as answer:
        target = next(t for t in json.load(answer) if t["type"] == "page")
    socket = await websocket_connect(target["webSocketDebuggerUrl"], max_message_size=1 << 28)
    page = Page(socket)
    for domain in ("Page", "Runtime", "Log"):
        await page.call(f"{domain}.enable")
    return page


async def look(site: Path, address: str, debugger: str, pictures: Path | None) -> list[str]:
    """Return what is wrong with the pages."""
    page = await opened(debugger)
    wrong = []

    def demand(condition: bool, sentence: str) -> None:
        if not condition:
            wrong.append(sentence)

    files = [*site.glob("*.html"), *site.glob("lessons/*.html")]
    chosen = sorted(str(f.relative_to(site)) for f in files)
    for name in chosen:
        for width, scheme in itertools.product(WIDTHS, ("light", "dark")):
            if scheme == "dark" and not pictures:
                continue
            await page.open(f"{address}/{name}", width, scheme)
            await page.value(UNFOLD)
            clipped = await page.value(CLIPPED)
            demand(not clipped, f"{name}, {width} pixels: clipped are {clipped}")
            small = await page.value(SMALL)
            demand(not small, f"{name}, {width} pixels: {small} pictures are drawn too small")
            wrong_frames = await page.value(PLAYERS)
            demand(not wrong_frames, f"{name}, {width} pixels: a player shows {wrong_frames}")
            if pictures:
                shot = await page.call("Page.captureScreenshot", captureBeyondViewport=False)
                file = pictures / f"{Path(name).stem}_{width}_{scheme}.png"
                file.write_bytes(base64.b64decode(shot["data"]))

    # The page's theme switch overrides the system's theme, also in pictures.
    for scheme, other in (("light", "dark"), ("dark", "light")):
        await page.open(f"{address}/{LESSON}", 1280, scheme)
        await page.value(UNFOLD)
        await page.value(f"document.body.dataset.theme = '{scheme}'")
        first = await page.value(PAPER)
        await page.value(f"document.body.dataset.theme = '{other}'")
        demand(
            first != await page.value(PAPER), f"pictures stay {scheme} when the page gets {other}"
        )

    errors = list(page.errors)
    for storage in ("with storage", "without storage"):
        if storage == "without storage":
            await page.call("Page.addScriptToEvaluateOnNewDocument", source=NO_STORAGE)
        await page.open(f"{address}/{LESSON}", 1280)
        said = await page.value(GUESS)
        if not isinstance(said, list) or len(said) < 10:
            wrong.append(f"{storage}, predictions: {said}")
            continue
        for count, answer in enumerate(said, 1):
            demand("Right." in answer, f"{storage}, a right guess gets {answer!r}")
            score = f"Score: {count} of {count} right"
            demand(score in answer, f"{storage}, the score is not {score!r}: {answer!r}")
    # The theme's own scripts fail without storage.
    page.errors = errors + [error for error in page.errors if "coalesce.js" in error]

    # Without scripts, a click opens the answers.
    await page.call("Emulation.setScriptExecutionDisabled", value=True)
    await page.open(f"{address}/{LESSON}", 1280)
    hidden = "document.querySelectorAll('.coalesce-predict details:not([open])').length"
    demand(await page.value(hidden) >= 10, "without scripts no answer is folded")
    await page.call("Emulation.setScriptExecutionDisabled", value=False)
    wrong += [f"the console says: {error}" for error in dict.fromkeys(page.errors)]
    return wrong


def main() -> None:
    """Check the pages; exit with status 1 if something is wrong."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("site", type=Path)
    parser.add_argument("--pictures", type=Path, help="a folder for screenshots, also dark ones")
    options = parser.parse_args()
    if options.pictures:
        options.pictures.mkdir(parents=True, exist_ok=True)
    with served(options.site) as address, browser() as debugger:
        wrong = asyncio.run(look(options.site, address, debugger, options.pictures))
    for sentence in wrong:
        print(sentence)
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
