"""What a person sees of a profile: text that fits, HTML that survives sanitizers."""

from __future__ import annotations

import io
import re

import numpy as np
import pytest

import coalesce
from coalesce import _console

HOSTILE = """\
extern "C" __global__ void k(float* x) {  // <script>alert(1)</script> & "quotes"
    x[threadIdx.x * 4] = 1;  // <b>[bold]no[/bold]</b> <script>alert(2)</script>
}
"""


@pytest.fixture(scope="module")
def profiles():
    a, b = np.ones((2, 64, 64), np.float32)
    found = [
        coalesce.profile("matmul", a, b, variant=v) for v in ("naive", "tiled_transposed", "tiled")
    ]
    kernel = coalesce.Kernel(HOSTILE, "k", device="sim")
    found.append(kernel.profile(1, 32, np.zeros(128, np.float32)))
    empty = coalesce.Kernel('extern "C" __global__ void nothing() {}', device="sim")
    found.append(empty.profile((2, 3, 4), (8, 8)))
    return found


@pytest.mark.parametrize("width", [80, 100])
def test_text_fits(profiles, width):
    for p in profiles:
        lines = p.to_text(width).splitlines()
        assert max(map(len, lines)) <= width
        assert all(line == line.rstrip() for line in lines)
        assert "\x1b" not in p.to_text(width)


def test_text_of_naive(profiles):
    text = profiles[0].to_text()
    assert text.startswith("matmul, variant naive\ngrid 2 x 2, block 32 x 32: 128 warps")
    assert re.search(r"▲ +\d+ │ sum \+= a\[", text)
    assert re.search(r"█+.? +\d\d% +load.* 8,192 x 32 sectors +ideal 4", text)
    assert "modelled" in text


def test_text_keeps_what_looks_like_markup(profiles):
    assert "<b>[bold]no[/bold]</b>" in profiles[3].to_text()


def test_a_kernel_without_memory(profiles):
    text = profiles[4].to_text()
    assert "grid 2 x 3 x 4, block 8 x 8: 48 warps" in text
    assert "No access to global or shared memory." in text


def test_color_is_for_terminals(profiles, monkeypatch):
    p = profiles[0]
    assert "\x1b" in p.to_text(color=True)
    assert re.sub(r"\x1b\[[0-9;]*m", "", p.to_text(color=True)).split() == p.to_text().split()

    class Terminal(io.StringIO):
        encoding = "utf-8"

        def isatty(self):
            return True

    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "90")
    for name in ("NO_COLOR", "FORCE_COLOR", "JUPYTER_COLUMNS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("sys.stdout", Terminal())
    assert "\x1b" in repr(p)
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b" not in repr(p)
    assert max(map(len, repr(p).splitlines())) <= 90
    monkeypatch.setattr("sys.stdout", io.StringIO())
    assert str(p) == p.to_text()


def test_ascii_where_the_encoding_has_no_more(profiles, monkeypatch):
    class Latin(io.StringIO):
        encoding = "ascii"

    monkeypatch.setattr("sys.stdout", Latin())
    text = _console.shown(profiles[0])
    assert text.isascii()
    assert "?" not in text.replace(": beta == 0 ?", "").replace("== 0 ? alpha", "")
    assert "####" in text


def test_html_survives_sanitizers(profiles, check_html):
    for p in profiles:
        check_html(p._repr_html_())


def test_html_draws_what_wastes(profiles):
    naive, transposed, tiled = (p._repr_html_() for p in profiles[:3])
    assert naive.count("<details") == 2
    assert naive.count("<details open>") == 1
    assert 'alt="32 lanes, 4-byte loads → 32 sectors in 32 lines' in naive
    assert "a 32-way bank conflict" in transposed
    assert "<img" not in tiled


def test_html_escapes(profiles):
    page = profiles[3].to_html()
    assert "<script" not in page
    assert "&lt;script&gt;alert(2)" in page


def test_html_page_stands_alone(profiles, tmp_path):
    path = tmp_path / "page.html"
    assert profiles[0].to_html(path) is None
    page = path.read_text(encoding="utf-8")
    assert page == profiles[0].to_html()
    assert profiles[0]._repr_html_() in page
    assert "http" not in page
    assert "prefers-color-scheme: dark" in page
    assert page.lower().startswith("<!doctype html>")
