"""Predictions: the guess beside the measured value, a hidden answer, and a score."""

import math

import numpy as np
import pytest

from coalesce import draw, lessons
from coalesce.lessons import _answers, _predict


@pytest.fixture(autouse=True)
def no_score(monkeypatch):
    monkeypatch.setattr(_predict, "_score", {})


@pytest.fixture
def stride(monkeypatch):
    """A question with an explanation and one known mistake."""
    answer = _answers.Answer("Each lane has `one` sector.", {4: "You counted bytes."})
    monkeypatch.setitem(_answers.ANSWERS, "stride", answer)

    def ask(guess=..., **more):
        question = "How many sectors?"
        return lessons.predict("stride", question, guess=guess, measured=lambda: 32, **more)

    return ask


def test_without_a_guess_the_answer_is_folded_away(stride, check_html):
    p = stride(unit="sectors", show=lambda: print("lanes at 0, 32, 64"))
    assert p.right is None
    assert "32" not in repr(p)
    assert "guess=..." in repr(p)
    shown, _, hidden = p._repr_html_().partition("<details>")
    assert "How many sectors?" in shown
    assert "32 sectors" not in shown
    assert "32 sectors" in hidden
    assert "lanes at 0, 32, 64" in hidden
    check_html(p._repr_html_())
    assert lessons.score().answered == 0


def test_a_guess_is_shown_next_to_the_measurement(stride, check_html):
    p = stride(guess=4)
    assert p.right is False
    for text in (repr(p), p._repr_html_()):
        assert "Your guess" in text
        assert "Measured: 32." in text
        assert "You counted bytes." in text
        assert "0 of 1 prediction right" in text
        assert "<details>" not in text
    check_html(p._repr_html_())


@pytest.mark.parametrize(
    ("text", "html", "plain"),
    [
        ("a *word* and `a * b`", "a <em>word</em> and <code>a * b</code>", "a word and `a * b`"),
        ("**Wrong.** *Two words*", "<b>Wrong.</b> <em>Two words</em>", "Wrong. Two words"),
        ("2*n*n products, 3 * 4 * 5", "2*n*n products, 3 * 4 * 5", "2*n*n products, 3 * 4 * 5"),
        ("x*y and *(p + 1)", "x*y and *(p + 1)", "x*y and *(p + 1)"),
    ],
)
def test_marks_of_emphasis(text, html, plain):
    assert _predict._inline(text) == html
    assert _predict._plain(text) == plain


def test_text_fits_a_terminal_of_80_columns(monkeypatch):
    why = "A long explanation. " * 12 + "\n\nAnd one more."
    monkeypatch.setitem(_answers.ANSWERS, "x", _answers.Answer(why, {1: "A long reason. " * 9}))
    p = lessons.predict("x", "How many? " * 12, guess=1, measured=lambda: 2)
    assert max(map(len, repr(p).splitlines())) < 80
    assert "\nAnd one more.\n" in repr(p)


def test_the_answer_follows_from_what_was_measured(monkeypatch):
    answer = _answers.Answer(choose=lambda n: "many" if n > 3 else "few", measure=lambda: 2)
    monkeypatch.setitem(_answers.ANSWERS, "x", answer)
    ask = {"choices": ["few", "many"], "guess": "many"}
    assert lessons.predict("x", "How many?", measured=lambda: 7, **ask).measured == "many"
    assert lessons.predict("x", "How many?", **ask).measured == "few"
    with pytest.raises(ValueError, match="no answer is stored for the question 'y'"):
        lessons.predict("y", "How many?", **ask)


def test_an_unforeseen_wrong_guess_gets_no_invented_reason(stride):
    p = stride(guess=7)
    assert p.right is False
    assert p.mistake == ""
    assert "Each lane has `one` sector." in repr(p)
    assert "<code>one</code>" in p._repr_html_()


def test_numbers_near_the_measured_one_are_right(stride):
    assert stride(guess=32.5).right
    assert not stride(guess=34).right
    assert stride(guess=36, within=0.2).right


def test_the_first_guess_counts(stride):
    stride(guess=4)
    stride(guess=32)
    lessons.predict("other", "What is 1 + 1?", guess=2, measured=lambda: 2)
    assert repr(lessons.score()) == "1 of 2 predictions right at the first guess"


@pytest.mark.parametrize("guess", ["b", 2])
def test_choices_are_selected_by_text_or_number(guess):
    p = lessons.predict("x", "Which?", choices=["a", "b"], guess=guess, measured=lambda: "b")
    assert p.right
    assert "2. b" in repr(p)


def test_a_picture_is_shown_as_an_image(stride, check_html):
    p = stride(guess=32, show=lambda: [draw.thread_block((4, 4)), "and a text"])
    check_html(p._repr_html_())
    assert "<img" in p._repr_html_()
    assert "and a text" in p._repr_html_()


def test_an_invalid_guess_is_refused(stride):
    with pytest.raises(
        TypeError,
        match=r"`guess` must be a number, or `\.\.\.` \(Ellipsis\) for no guess; got str 'many'",
    ):
        stride(guess="many")
    ask = {"choices": ["a", "b"], "measured": lambda: "a"}
    with pytest.raises(ValueError, match=r"its text \(1: a; 2: b\); got 'c'"):
        lessons.predict("x", "Which?", guess="c", **ask)
    with pytest.raises(ValueError, match="`guess` must be from 1 to 2; got 3"):
        lessons.predict("x", "Which?", guess=3, **ask)


def _copy(_):
    x, out = lessons.random(64), np.full(64, np.nan, np.float32)
    return lessons.Case(1, 64, (x, out), out, x)


_X = np.ones(4, np.float32)
_CALLS = {
    "number": (
        lambda **given: lessons.predict("of a test", "?", measured=lambda: 4, **given),
        {"guess": 4, "unit": "", "within": 0.02, "show": lambda: None},
    ),
    "choice": (
        lambda **given: lessons.predict("of a test", "?", measured=lambda: "a", **given),
        {"guess": 1, "choices": ("a", "b")},
    ),
    "predict": (
        lessons.predict,
        {"name": "of a test", "question": "?", "guess": 4, "measured": lambda: 4},
    ),
    "times": (
        lessons.times,
        {"operation": "matmul", "variants": ["naive"], "n": 4096, "against": "naive"},
    ),
    "ratio": (lessons.Times("matmul", 4096, "", {}, {}).ratio, {"name": "a", "against": "b"}),
    "sweep": (lessons.sweep, {"pattern": "stride", "values": [1, 2]}),
    "source": (lessons.source, {"name": "repeats"}),
    "exercise": (lessons.exercise, {"name": "brighten"}),
    "hint": (lessons.exercise("brighten").hint, {"number": 1}),
    "task": (lessons.task, {"make": _copy, "limits": {}}),
    "case": (
        lessons.Case,
        {"grid": 1, "block": 4, "arguments": (_X,), "out": _X, "expected": _X, "elements": 0},
    ),
    "table": (lessons.Table, {"columns": ["a"], "rows": [["1"]], "caption": ""}),
}
_ODD = (
    *(math.inf, -math.inf, math.nan, np.float32("nan"), -1, 10**400, 1j, True, 2.5),
    *(None, ..., object(), b"x", np.array([1, 2]), [math.nan], [None], {1: "a"}),
)


@pytest.mark.parametrize(
    ("call", "argument"), [(call, name) for call, (_, given) in _CALLS.items() for name in given]
)
def test_an_error_about_an_argument_names_it(call, argument):
    """Whatever the value is, the call works, or says which argument is wrong."""
    function, given = _CALLS[call]
    repr(function(**given))
    for value in _ODD:
        message = _message(function, {**given, argument: value})
        assert message is None or f"`{argument}" in message, repr(value)


def _message(function, arguments):
    try:
        repr(function(**arguments))
    except (TypeError, ValueError) as error:
        return str(error)
    return None


@pytest.mark.parametrize("guess", [math.inf, -math.inf, math.nan])
def test_a_guess_must_be_finite(stride, guess):
    with pytest.raises(ValueError, match=r"`guess` must be a finite number; got -?(inf|nan)"):
        stride(guess=guess)
    assert stride(guess=-3).right is False
