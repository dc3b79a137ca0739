"""Load the public tables of counters (docs/counters.md). Needs no other package.

    import counters
    for row in counters.load():
        print(row["case"], row["gpu__time_duration.sum"])

``pandas.read_csv("docs/measured/counters_h200.csv.gz")`` reads the same table.
"""

import csv
import gzip
from pathlib import Path
from typing import Any

MEASURED = Path(__file__).parent / "measured"


def load(name: str = "counters_h200") -> list[dict[str, Any]]:
    """Return the rows of a table: text or numbers by column. A missing value is left out.

    "counters_h200" has what the GPU counted. "counters_simulated" has what the simulator counted,
    and the modelled time in nanoseconds, for the same cases.
    """
    with gzip.open(MEASURED / f"{name}.csv.gz", "rt", encoding="utf-8", newline="") as file:
        return [
            {key: _value(text) for key, text in row.items() if text} for row in csv.DictReader(file)
        ]


def _value(text: str) -> Any:
    try:
        return int(text)
    except ValueError:
        pass
    try:
        return float(text)
    except ValueError:
        return text
