"""Shows CUDA C++ in the lessons: highlighted, and with the line numbers of its file."""

from __future__ import annotations

import re
from collections.abc import Collection
from difflib import SequenceMatcher

from markupsafe import Markup

from coalesce.render.markup import FAINT, GOOD, MONO, folded, joined, tag

_WORDS = (
    "__global__|__shared__|__restrict__|__device__|__syncthreads|extern|const|void|int|float|double"
    "|unsigned|size_t|for|if|else|while|return|threadIdx|blockIdx|blockDim|gridDim|warpSize"
)
_TOKEN = re.compile(rf'(?P<comment>//.*)|(?P<string>"[^"]*")|(?P<word>\b(?:{_WORDS})\b)')
_STYLES = {"comment": FAINT, "string": "color:#8a6d00", "word": f"color:{GOOD};font-weight:600"}
# The background of a marked line; text on it is readable on any page.
_NEW = "background-color:rgba(47,134,201,0.18)"


class Code(str):
    """CUDA C++ source, a string. Notebooks show it with line numbers.

    Attributes
    ----------
    first : int
        If the string begins at line 12 of its file, this is 12. Reports use the line numbers of
        the file.
    marked : frozenset of int
        The numbers of the lines that are shown with a plus and a colour.
    whole : Code or None
        The whole file if the string is only a part of it; otherwise None. Below the part, notebooks
        have a line on which the reader can click to see the whole file.
    """

    first: int
    marked: frozenset[int]
    whole: Code | None

    def __new__(  # noqa: PYI034
        cls,
        text: str,
        first: int = 1,
        marked: Collection[int] = (),
        whole: Code | None = None,
    ) -> Code:
        made = super().__new__(cls, text.rstrip("\n"))
        made.first, made.marked, made.whole = first, frozenset(marked), whole
        return made

    def __repr__(self) -> str:
        return "\n".join(
            f"{number:4}{self._sign(number)} {line}" for number, line in self._numbered()
        )

    def _repr_html_(self) -> str:
        return str(self._html())

    def _html(self) -> Markup:
        lines = joined((self._line(number, line) for number, line in self._numbered()), "\n")
        shown = tag("div", tag("pre", lines, f"{MONO};font-size:13px"), **{"class": "cell_code"})
        if self.whole is None:
            return shown
        count = len(self.whole.split("\n"))
        summary = f"The whole file, without its first comment ({count} lines)"
        return shown + folded(summary, self.whole._html())

    def _line(self, number: int, line: str) -> Markup:
        gutter = tag("span", f"{number:4}", FAINT) + f"{self._sign(number)} "
        code = gutter + _highlighted(line)
        return tag("span", code, _NEW) if number in self.marked else code

    def _sign(self, number: int) -> str:
        return "+" if number in self.marked else " "

    def _numbered(self) -> list[tuple[int, str]]:
        return list(enumerate(self.split("\n"), self.first))

    def part(self, begin: str, end: str) -> Code:
        """Return a part of the source.

        Parameters
        ----------
        begin : str
            The part begins at the first line that contains this text.
        end : str
            The part ends at the first line that contains this text. The search starts at the line
            with `begin`. If this line also contains `end`, the part has only one line.

        Returns
        -------
        Code
            The part. Its attribute `whole` is the source that it was taken from.

        Raises
        ------
        ValueError
            No line contains `begin`, or no later line contains `end`.
        """
        lines = self.split("\n")
        starts = [i for i, line in enumerate(lines) if begin in line]
        if not starts:
            raise ValueError(f"`begin`: no line of the source contains {begin!r}")
        ends = [i for i, line in enumerate(lines) if i >= starts[0] and end in line]
        if not ends:
            raise ValueError(
                f"`end`: {end!r} is not on the first line with {begin!r}, and not on a later line"
            )
        chosen = "\n".join(lines[starts[0] : ends[0] + 1])
        return Code(chosen, self.first + starts[0], self.marked, self)


def new_lines(text: str, other: str) -> set[int]:
    """Return the numbers of the lines that are in `text` but not in `other`.

    The first line of `text` has the number 1. Differences of indentation are ignored. Empty lines
    and lines with only a brace never count as new.
    """
    ours, theirs = ([" ".join(line.split()) for line in t.split("\n")] for t in (text, other))
    matcher = SequenceMatcher(None, theirs, ours, autojunk=False)
    numbers: set[int] = set()
    for what, _, _, begin, end in matcher.get_opcodes():
        if what != "equal":
            numbers |= {at + 1 for at in range(begin, end) if ours[at].strip("{} ;")}
    return numbers


def _highlighted(line: str) -> Markup:
    made: list[str] = []
    last = 0
    for token in _TOKEN.finditer(line):
        assert token.lastgroup is not None
        made.append(line[last : token.start()])
        made.append(tag("span", token[0], _STYLES[token.lastgroup]))
        last = token.end()
    return joined([*made, line[last:]])
