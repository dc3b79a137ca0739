"""Makes wrong calls of the whole public API: each call has exactly one wrong argument.

Each call must soon raise a TypeError, a ValueError or a CoalesceError that names the argument. If
the message begins with the name, the name must be in backticks. A seed determines the calls, so
that a failure can be repeated:

    python tests/wrong_calls.py --calls 5000 --seed 1

The script prints a summary and every call that ended in another way. The exit status is 1 if there
was such a call. tests/python/kernel/test_wrong_calls.py runs a few hundred calls.
"""

import argparse
import functools
import re
import sys
import warnings
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import public_calls
import public_calls_shown
from public_calls import Call
from time_limit import TooLong, limited
from wrong_values import GpuLike

import coalesce

SECONDS = 10.0  # a call that takes longer counts as hanging


@functools.cache
def calls() -> tuple[Call, ...]:
    """Return every public function and method that takes arguments."""
    return (*public_calls.calls(), *public_calls_shown.calls())


@dataclass(frozen=True)
class Outcome:
    """The outcome of a wrong call; `fault` is "" if the call was refused correctly."""

    call: str
    argument: str
    value: str
    fault: str

    def __str__(self) -> str:
        return f"{self.call}({self.argument}={self.value}): {self.fault}"


def text_of(value: Any) -> str:
    """Return the text of any value."""
    if isinstance(value, GpuLike):
        return f"GpuLike({value.__cuda_array_interface__!r})"
    try:
        text = repr(value)
    except Exception:
        text = f"<{type(value).__name__}>"
    return text if len(text) < 100 else text[:97] + "..."


def run(call: Call, name: str, value: Any) -> Outcome:
    """Make a call with one wrong argument and judge its outcome."""
    given = {key: argument.good for key, argument in call.arguments.items()} | {name: value}
    by_place = [v for key, v in given.items() if key.startswith("*")]
    by_name = {key: v for key, v in given.items() if not key.startswith("*")}
    plain = name.lstrip("*")
    fault = "it was accepted"
    try:
        with limited(SECONDS), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            call.function(*by_place, **by_name)
    except (TypeError, ValueError, coalesce.CoalesceError) as error:
        try:
            message = str(error)
        except Exception as second:
            message = f"<no message: {second!r}>"
        fault = ""
        if not re.search(rf"(?<![\w.]){re.escape(plain)}(?!\w)", message):
            fault = f"{type(error).__name__} does not name it: {message[:300]}"
        elif re.match(
            rf"(?:the argument )?{re.escape(plain)} (?:must|is|has|contains|can)", message
        ):
            fault = f"the name has no backticks: {message[:300]}"
    except TooLong:
        fault = f"it took more than {SECONDS:g} s"
    except Exception as error:
        fault = f"{type(error).__name__}: {text_of(error)}"
    return Outcome(call.name, plain, text_of(value), fault)


def outcomes(count: int, seed: int) -> Iterator[Outcome]:
    """Make this many wrong calls: every argument in turn, with random wrong values."""
    random = np.random.default_rng(seed)
    wrong = [(call, name) for call in calls() for name in call.arguments]
    order: list[int] = []
    for _ in range(count):
        if not order:
            order = random.permutation(len(wrong)).tolist()
        call, name = wrong[order.pop()]
        values = call.arguments[name].wrong
        yield run(call, name, values[int(random.integers(len(values)))](random))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--calls", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    for call in calls():  # the right calls have what they need, and succeed
        run(call, next(iter(call.arguments)), None)
    faults = [outcome for outcome in outcomes(options.calls, options.seed) if outcome.fault]
    for outcome in sorted(set(map(str, faults))):
        print(outcome)
    kinds = Counter(outcome.call for outcome in faults)
    arguments = sum(len(call.arguments) for call in calls())
    print(
        f"{options.calls} wrong calls of {len(calls())} functions with {arguments} arguments, "
        f"seed {options.seed}: {len(faults)} not refused as they must be"
    )
    for name, number in kinds.most_common(40):
        print(f"  {number:5} {name}")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
