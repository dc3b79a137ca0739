"""A type checker knows what an operation returns with `return_timing` and with `check`."""

import re

import pytest

api = pytest.importorskip("mypy.api", reason="needs the group `lint`")

ARRAY, TIMED, CHECKED = (
    "Any",
    "tuple[Any, coalesce.common.timing.Timing]",
    "tuple[Any, coalesce.check.Findings]",
)


def test_results(tmp_path):
    calls = {
        "matmul": "coalesce.matmul(a, a, variant='tiled', tile=16{})",
        "transpose": "coalesce.transpose(a, out=a{})",
        "row_sums": "coalesce.row_sums(a, shared='dynamic'{})",
        "column_sums": "coalesce.column_sums(a, device='sim'{})",
        "access": "coalesce.access(a, pattern='stride', stride=2{})",
    }
    options = {"": ARRAY, ", return_timing=True": TIMED, ", check=True": CHECKED}
    lines = [f"reveal_type({call.format(option)})" for call in calls.values() for option in options]
    lines.append("def either(flag: bool) -> None: coalesce.transpose(a, return_timing=flag)")
    lines += [call.format(", colour=1") for call in calls.values()]  # an option that does not exist
    file = tmp_path / "calls.py"
    file.write_text("import coalesce\nimport numpy as np\na = np.ones((8, 8))\n" + "\n".join(lines))
    out, err, _ = api.run([str(file), "--strict", "--hide-error-context"])
    assert err == ""
    revealed = [t.replace("builtins.", "") for t in re.findall(r'Revealed type is "(.*)"', out)]
    assert revealed == list(options.values()) * len(calls)
    first_wrong = 4 + len(revealed) + 1
    wrong = sorted({int(line) for line in re.findall(r"calls\.py:(\d+): error:", out)})
    assert wrong == list(range(first_wrong, first_wrong + len(calls)))
