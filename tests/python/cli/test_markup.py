"""Reports escape every text of a user (names, sources and titles), so none becomes HTML."""

import html.parser
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from markupsafe import Markup

import coalesce
from coalesce import lessons
from coalesce.profiling.hardware.counters import MeasuredCounters
from coalesce.programs import report as program_report
from coalesce.render import markup

HOSTILE = """<hostile a="1">'&"""
SOURCE = """
template <typename T> __global__ void scale(T *x) {
    __shared__ T tile[32];
    x[threadIdx.x] += tile[threadIdx.x];  // <hostile a="1">'&
}"""


class _Text(html.parser.HTMLParser):
    def __init__(self, page: str) -> None:
        super().__init__()
        self.text = ""
        self.tags: set[str] = set()
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, _: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)

    def handle_data(self, data: str) -> None:
        self.text += data


def profiled(title: str = "") -> coalesce.Profile:
    kernel = coalesce.Kernel(SOURCE, "scale<float>", device="sim", filename="<hostile>.cu")
    profile = kernel.profile(4, 32, np.zeros(32, np.float32))
    profile.title = title or profile.title
    return profile


def check() -> coalesce.Findings:
    kernel = coalesce.Kernel(SOURCE, "scale<float>", device="sim", filename="<hostile>.cu")
    return kernel.check(4, 32, np.zeros(32, np.float32))


def predicted() -> lessons.Prediction:
    return lessons.predict(
        HOSTILE, HOSTILE, guess=3, measured=lambda: 2, unit=HOSTILE, show=lambda: HOSTILE
    )


def program(folder: Path) -> str:
    path = folder / "page.html"
    outcome = SimpleNamespace(report=None, profiles=[])
    program_report.write_html(outcome, HOSTILE, str(path))
    return path.read_text(encoding="utf-8")


REPORTS = {
    "profile": lambda _: profiled()._repr_html_(),
    "title": lambda _: profiled(HOSTILE).to_html(),
    "comparison": lambda _: coalesce.compare(profiled(HOSTILE), profiled()).to_html(),
    "findings": lambda _: check()._repr_html_(),
    "picture": lambda _: coalesce.draw.warp_access([0], 4, title=HOSTILE, array=HOSTILE).svg,
    "prediction": lambda _: predicted()._repr_html_(),
    "code": lambda _: lessons.Code(HOSTILE)._repr_html_(),
    "counters": lambda _: MeasuredCounters({HOSTILE: 1.0}, {}, {}, HOSTILE)._repr_html_(),
    "program": program,
}


@pytest.mark.parametrize("report", REPORTS.values(), ids=REPORTS)
def test_a_text_stays_text(report, tmp_path):
    page = report(tmp_path)
    assert type(page) is str  # a Markup object would escape the text that a caller appends
    read = _Text(page)
    assert "hostile" not in read.tags
    assert HOSTILE in read.text


def test_pieces_of_html():
    bold = markup.tag("b", HOSTILE)
    assert bold == "<b>&lt;hostile a=&#34;1&#34;&gt;&#39;&amp;</b>"
    assert markup.tag("p", ["<", bold], id='"') == f'<p id="&#34;">&lt;{bold}</p>'
    assert markup.joined([bold, "&"], "\n") == f"{bold}\n&amp;"
    assert markup.cell(Markup("<br>")).count("<br>") == 1
    assert markup.write("<", markup.joined(["&", bold]), None).count(bold) == 1
