"""`predict`: the reader guesses a number, then sees the measurement and an explanation.

Each cell that calls `predict` has three dots at first, in place of a guess: ``guess=...``. If the
reader replaces the dots by a guess, the answer is shown beside the guess. Until then, the answer is
hidden in a ``<details>`` element, which the reader can open. This element needs no script, so it
works in Jupyter, Colab, VS Code, on GitHub and on the site.
"""

from __future__ import annotations

import contextlib
import io
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import EllipsisType
from typing import Any

from markupsafe import Markup, escape

from coalesce.common import errors, require
from coalesce.lessons._answers import ANSWERS, Answer
from coalesce.render import console, markup
from coalesce.render.markup import BAD, FAINT, GOOD, joined, tag

Value = float | str
Guess = float | str | EllipsisType

_score: dict[str, bool] = {}  # for each question: was the first guess right?


@dataclass(frozen=True, repr=False)
class Prediction:
    """A question, the reader's guess, and the measured answer. Notebooks show all three.

    Attributes
    ----------
    name : str
        The name of the question.
    question : str
        The text of the question.
    guess : float or str or None
        The guess. None if there is no guess yet.
    measured : float or str
        The right answer, which the cell computed.
    right : bool or None
        Whether the guess is near enough to the answer. None if there is no guess.
    """

    name: str
    question: str
    choices: tuple[str, ...]
    guess: Value | None
    measured: Value
    right: bool | None
    unit: str
    within: float
    why: str
    mistakes: Mapping[Value, str]
    _shown: tuple[Any, ...] = field(repr=False, default=())

    def __repr__(self) -> str:
        lines = [f"Predict: {_plain(self.question)}"]
        lines += [f"  {number}. {choice}" for number, choice in enumerate(self.choices, 1)]
        if self.guess is None:
            lines.append(_INVITATION)
            return console.wrapped(lines)
        lines += [f"Your guess: {self._with_unit(self.guess)}", *self._verdict()]
        lines += _plain(self.why).split("\n\n")
        return "\n".join(
            [console.wrapped(lines), *filter(None, map(_text, self._shown)), f"Score: {score()}"]
        )

    def _repr_html_(self) -> str:
        parts = [tag("div", [tag("b", "Predict:"), " ", _inline(self.question)])]
        if self.choices:
            listed = [tag("li", _inline(choice)) for choice in self.choices]
            parts.append(tag("ol", listed, "margin:4px 0 4px 8px"))
        why = joined(tag("p", _inline(part), "margin:6px 0") for part in self.why.split("\n\n"))
        answer = tag("p", [tag("b", "Measured:"), " ", self._with_unit(self.measured)])
        shown = joined(map(_html, self._shown))
        if self.guess is None:
            invitation = {"class": "coalesce-invitation"}
            parts.append(tag("div", _INVITATION, FAINT, **invitation))
            parts.append(markup.folded("Show the answer", answer + why + shown))
        else:
            color = GOOD if self.right else BAD
            parts.append(tag("p", [tag("b", "Your guess:"), " ", self._with_unit(self.guess)]))
            parts += [
                tag("p", _inline(line), f"color:{color};margin:6px 0") for line in self._verdict()
            ]
            parts += [why, shown, tag("div", f"Score: {score()}", FAINT)]
        style = "border-left:3px solid rgba(47,134,201,0.8);padding:2px 0 2px 12px"
        marks = {"class": "coalesce-predict", "data-name": self.name}
        marks |= {"data-measured": _number(self.measured), "data-within": str(self.within)}
        if self.guess is None:  # the site compares guesses by itself
            marks["data-mistakes"] = json.dumps(
                {str(k): _plain(m) for k, m in self.mistakes.items()}
            )
        return str(tag("div", parts, style, **marks))

    def _verdict(self) -> list[str]:
        measurement = f"Measured: {self._with_unit(self.measured)}."
        if self.right:
            return [f"{measurement} Right."]
        return [f"{measurement} Not what you expected.", self.mistake]

    @property
    def mistake(self) -> str:
        """The sentence about the reader's wrong guess. Empty if nothing is known about it."""
        if self.right is not False:
            return ""
        found = (m for value, m in self.mistakes.items() if _same(self.guess, value, self.within))
        return next(found, "")

    def _with_unit(self, value: Value) -> str:
        return f"{_number(value)} {self.unit}".rstrip()


_INVITATION = "Put your guess in the place of the three dots (guess=...) and run the cell."


@dataclass(frozen=True, repr=False)
class Score:
    """The score of a reader: how many questions were answered, and how many guesses were right.

    Only the first guess at a question counts.
    """

    right: int
    answered: int

    def __repr__(self) -> str:
        noun = "prediction" if self.answered == 1 else "predictions"
        return f"{self.right} of {self.answered} {noun} right at the first guess"


def score() -> Score:
    """Return how many questions were answered in this session, and how many guesses were right.

    If a question was answered several times, only the first guess counts.

    Returns
    -------
    Score

    Examples
    --------
    >>> coalesce.lessons.score().answered >= 0
    True
    """
    return Score(sum(_score.values()), len(_score))


def predict(
    name: str,
    question: str,
    *,
    guess: Guess,
    measured: Callable[[], Any] | None = None,
    choices: Sequence[str] = (),
    unit: str = "",
    within: float = 0.02,
    show: Callable[[], Any] | None = None,
) -> Prediction:
    """Compare a guess with a measurement.

    Parameters
    ----------
    name : str
        The name of the question. The explanation of the answer is stored under this name.
    question : str
        The text of the question.
    guess : float, str or ...
        The guess: a number, one of `choices`, or the position of a choice, counted from 1. ``...``
        means that there is no guess yet.
    measured : callable, optional
        A function that measures the right answer. It returns a number, or one of `choices`, or
        something from which the stored explanation follows. Text that the function prints is shown
        with the answer. Without it, the answer is stored with the explanation.
    choices : sequence of str
        The possible answers. Empty if the answer is a number.
    unit : str
        The unit of the answer.
    within : float
        A guess counts as right if its relative error is at most `within`.
    show : callable, optional
        A function that returns something to show with the answer: a picture, a profile, a table, or
        a list of these. Text that the function prints is shown, too.

    Returns
    -------
    Prediction

    Raises
    ------
    ValueError, TypeError
        `guess` is neither a finite number, nor one of `choices`, nor ``...``.

    Examples
    --------
    >>> p = coalesce.lessons.predict("sum", "What is 2 + 2?", guess=4, measured=lambda: 2 + 2)
    >>> p.right
    True
    """
    answer = ANSWERS.get(require.text("name", name), Answer())
    require.text("question", question)
    require.text("unit", unit)
    options = tuple(require.texts("choices", choices))
    with errors.short():
        guessed = _read(guess, options)
        if require.finite("within", within) < 0:
            raise ValueError(f"`within` must be at least 0; got {within}")
    measure = answer.measure if measured is None else require.function("measured", measured)
    if measure is None:
        raise ValueError(f"`measured` is needed: no answer is stored for the question {name!r}")
    if show is not None:
        require.function("show", show)
    printed, result = _run(measure)
    if answer.choose is not None:
        result = answer.choose(result)
    if not isinstance(result, str):
        result = require.finite("the result of `measured`", result)
    right = None
    if guessed is not None:
        right = _same(guessed, result, within)
        _score.setdefault(name, right)
    shown = printed
    if show is not None:
        printed, returned = _run(show)
        several = returned if isinstance(returned, list | tuple) else [returned]
        shown += printed + tuple(thing for thing in several if thing is not None)
    return Prediction(
        name,
        question,
        options,
        guessed,
        result,
        right,
        unit,
        within,
        answer.why,
        answer.mistakes,
        shown,
    )


def _read(guess: Guess, choices: tuple[str, ...]) -> Value | None:
    """Return the guess as a number or as one of the choices; None if there is none."""
    if guess is ...:
        return None
    if not choices:
        if isinstance(guess, str):
            raise TypeError(
                "`guess` must be a number, or `...` (Ellipsis) for no guess; got "
                f"{require.shown(guess)}"
            )
        return require.finite("guess", guess)
    if isinstance(guess, str) and guess in choices:
        return guess
    if isinstance(guess, str):
        listed = "; ".join(f"{number}: {choice}" for number, choice in enumerate(choices, 1))
        raise ValueError(
            f"`guess` must be the number of a choice or its text ({listed}); got {guess!r}"
        )
    return choices[require.whole("guess", guess, 1, len(choices)) - 1]


def _same(guess: Value | None, value: Value, within: float) -> bool:
    if isinstance(guess, str) or isinstance(value, str) or guess is None:
        return guess == value
    return abs(guess - value) <= within * abs(value)


def _run(function: Callable[[], Any]) -> tuple[tuple[str, ...], Any]:
    """Return what a function printed, if anything, and what it returned."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        returned = function()
    text = printed.getvalue().rstrip()
    return (text,) if text else (), returned


def _number(value: Value) -> str:
    if isinstance(value, str):
        return value
    return f"{value:,.0f}" if value == int(value) or abs(value) >= 1000 else f"{value:.3g}"


def _html(thing: Any) -> Markup:
    if hasattr(thing, "svg"):
        return tag("div", markup.image(thing))
    if hasattr(thing, "get_figure"):  # `thing` is matplotlib axes
        return tag("div", _plot(thing))
    if hasattr(thing, "_repr_html_"):
        return Markup(thing._repr_html_())
    # Lines that are too long scroll: notebooks would break them, also inside words.
    return tag("pre", str(thing), "white-space:pre;overflow-x:auto;font-size:13px")


def _plot(axes: Any) -> Markup:
    """Return a matplotlib plot as an image, and close it, so that it is not shown a second time."""
    import matplotlib.pyplot as plt

    figure = axes.get_figure()
    file = io.StringIO()
    # With these settings, the SVG is the same in each run.
    with plt.rc_context({"svg.hashsalt": "coalesce", "svg.fonttype": "none"}):
        figure.savefig(file, format="svg", bbox_inches="tight", metadata={"Date": None})
    plt.close(figure)
    return markup.image_of(file.getvalue(), "plot")


def _text(thing: Any) -> str:
    return "" if hasattr(thing, "get_figure") else str(thing)


# A word or phrase between single asterisks. A product such as 2*n*n does not match.
_EMPHASIS = re.compile(r"(?<![\w*])\*([^*\s](?:[^*]*[^*\s])?)\*(?![\w*])")


def _inline(text: str) -> Markup:
    """Return text with `code`, **bold** and *emphasis* as HTML."""
    made = re.sub(r"`([^`]+)`", r"<code>\1</code>", str(escape(text)))
    made = re.sub(r"\*\*([^*]+)\*\*", r"<b>\1</b>", made)
    return Markup(_EMPHASIS.sub(r"<em>\1</em>", made))


def _plain(text: str) -> str:
    return _EMPHASIS.sub(r"\1", text.replace("**", ""))
