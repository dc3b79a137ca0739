"""CUDA C++ as the lessons show it: highlighted, with the line numbers of its file."""

from __future__ import annotations

import re

from markupsafe import Markup

from coalesce.render.markup import FAINT, GOOD, MONO, joined, tag

_WORDS = (
    "__global__|__shared__|__restrict__|__device__|__syncthreads|extern|const|void|int|float|double"
    "|unsigned|size_t|for|if|else|while|return|threadIdx|blockIdx|blockDim|gridDim|warpSize"
)
_TOKEN = re.compile(rf'(?P<comment>//.*)|(?P<string>"[^"]*")|(?P<word>\b(?:{_WORDS})\b)')
_STYLES = {"comment": FAINT, "string": "color:#8a6d00", "word": f"color:{GOOD};font-weight:600"}


class Code(str):
    """CUDA C++ source that notebooks show with line numbers; a string for everything else.

    Attributes
    ----------
    first : int
        The number of its first line, as reports count the lines of the file.
    """

    first: int

    def __new__(cls, text: str, first: int = 1) -> Code:  # noqa: PYI034
        made = super().__new__(cls, text.rstrip("\n"))
        made.first = first
        return made

    def __repr__(self) -> str:
        return "\n".join(f"{number:4}  {line}" for number, line in self._numbered())

    def _repr_html_(self) -> str:
        lines = [
            tag("span", f"{number:4}", FAINT) + "  " + _highlighted(line)
            for number, line in self._numbered()
        ]
        shown = tag("pre", joined(lines, "\n"), f"{MONO};font-size:13px")
        return str(tag("div", shown, **{"class": "cell_code"}))

    def _numbered(self) -> list[tuple[int, str]]:
        return list(enumerate(self.split("\n"), self.first))


def _highlighted(line: str) -> Markup:
    made: list[str] = []
    last = 0
    for token in _TOKEN.finditer(line):
        assert token.lastgroup is not None
        made.append(line[last : token.start()])
        made.append(tag("span", token[0], _STYLES[token.lastgroup]))
        last = token.end()
    return joined([*made, line[last:]])
