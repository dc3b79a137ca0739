"""Reads and writes reports of Nsight Compute as comma-separated values (CSV).

``ncu --csv`` writes one of two tables. With ``--page raw``, each launch has a row, each metric has
a column, and the second row has the units::

    "ID","Kernel Name","Block Size","Grid Size","smsp__inst_executed.sum"
    "","","","","inst"
    "0","scale(float *, int)","(256, 1, 1)","(4, 1, 1)","1,024"

Otherwise, each metric of each launch has a row::

    "ID","Kernel Name","Block Size","Grid Size","Metric Name","Metric Unit","Metric Value"
    "0","scale(float *, int)","(256, 1, 1)","(4, 1, 1)","smsp__inst_executed.sum","inst","1,024"

A report file (``.ncu-rep``) is converted by ncu itself, which needs no GPU for this.
"""

from __future__ import annotations

import csv
import io
import os
import re
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from coalesce.common import require
from coalesce.common.errors import LaunchError
from coalesce.common.geometry import Extent

if TYPE_CHECKING:
    from coalesce.profiling.data import ProfileData

RAW = ("--csv", "--page", "raw", "--print-units", "base", "--print-fp")
_HOW = f"write it with: ncu {' '.join(RAW)} --log-file report.csv PROGRAM"
_NUMBER = re.compile(r"-?[\d,]*\.?\d+(?:e[+-]?\d+)?", re.IGNORECASE)
_METRIC = re.compile(r"[a-z]\w+(?:\.\w+)*")  # other columns have names such as "Grid Size"
# Times are compared in nanoseconds. Other values with a prefix have lost digits: 1.02 Kbyte may be
# 1,024 bytes. They are left out.
_NANOSECONDS = {
    "nsecond": 1,
    "ns": 1,
    "usecond": 1e3,
    "us": 1e3,
    "msecond": 1e6,
    "ms": 1e6,
    "second": 1e9,
    "s": 1e9,
}
_ROUNDED = ("Kbyte", "Mbyte", "Gbyte", "Tbyte")


@dataclass(frozen=True)
class MeasuredLaunch:
    """A launch in a report: the kernel's name, the grid, the block, and the metrics."""

    kernel: str
    grid: Extent
    block: Extent
    metrics: Mapping[str, float]

    @property
    def description(self) -> str:
        """The launch as text."""
        return f"{self.kernel} with grid {self.grid} and block {self.block}"


def read(path: str | os.PathLike[str], program: str | None, timeout: float) -> list[MeasuredLaunch]:
    """Return the launches of a report.

    `program` is the path of ncu, or None for a CSV file. `timeout` is in seconds.
    """
    file = Path(path)
    if program is not None:
        words = [program, "--import", str(file), *RAW]
        try:
            done = subprocess.run(words, capture_output=True, text=True, timeout=timeout)
        except subprocess.TimeoutExpired:
            raise LaunchError(f"{program} took longer than {timeout:g} seconds") from None
        if done.returncode:
            last = "\n  ".join((done.stdout + done.stderr).strip().splitlines()[-4:])
            raise LaunchError(f"{program} cannot read {file}:\n  {last}")
        text = done.stdout
    else:
        text = file.read_text(encoding="utf-8", errors="replace")
    launches = parse(text)
    if not launches:
        raise ValueError(f"`report`: {file} has no table of Nsight Compute; {_HOW}")
    return launches


def parse(text: str) -> list[MeasuredLaunch]:
    """Read the output of ``ncu --csv``, with or without ``--page raw``."""
    lines = text.splitlines()
    start = next((i for i, line in enumerate(lines) if line.startswith('"ID"')), None)
    if start is None:
        return []
    rows = list(csv.DictReader(line for line in lines[start:] if line.startswith('"')))
    if not rows:
        return []
    if "Metric Name" in rows[0]:
        groups: dict[str, list[dict[str, str]]] = {}
        for row in rows:
            groups.setdefault(row["ID"], []).append(row)
        columns = ("Metric Name", "Metric Unit", "Metric Value")
        return [_launch(g[0], ([r[c] for c in columns] for r in g)) for g in groups.values()]
    units, *launches = rows
    return [_launch(row, ((n, units[n], value) for n, value in row.items())) for row in launches]


def _launch(row: Mapping[str, str], cells: Iterable[Sequence[str]]) -> MeasuredLaunch:
    metrics: dict[str, float] = {}
    for name, unit, value in cells:
        if not _METRIC.fullmatch(name) or not _NUMBER.fullmatch(value or "") or unit in _ROUNDED:
            continue
        number = float(value.replace(",", "")) * _NANOSECONDS.get(unit, 1)
        rounded = 0 < len(value.partition(".")[2]) < 6  # "32.00" may be 31.998
        metrics[name] = int(number) if number.is_integer() and not rounded else number
    grid, block = (_extent(row.get(name, "")) for name in ("Grid Size", "Block Size"))
    return MeasuredLaunch(row.get("Kernel Name", ""), grid, block, metrics)


def _extent(text: str) -> Extent:
    """Return (4, 1, 1) for ``(4, 1, 1)`` or ``4,1,1``. (0, 0, 0) means that it is not known."""
    numbers = [int(number) for number in re.findall(r"\d+", text)][:3]
    x, y, z = numbers if len(numbers) == 3 else (0, 0, 0)
    return x, y, z


def choose(
    launches: Sequence[MeasuredLaunch], profile: ProfileData, which: int, report: object
) -> MeasuredLaunch:
    """Return the launch of the profile's kernel, grid and block; `which` counts those, from 0."""
    named = [one for one in launches if _base(one.kernel) == _base(profile.kernel)]
    wanted = f"{profile.kernel} with grid {profile.grid} and block {profile.block}"
    extents = (profile.grid, profile.block)
    found = [one for one in named if (one.grid, one.block) == extents]
    _require(found, wanted, named or launches, report)
    return found[require.whole("launch", which, -len(found), len(found) - 1)]


def of_kernel(
    launches: Sequence[MeasuredLaunch], kernel: str, which: int, report: object
) -> MeasuredLaunch:
    """Return a launch of the kernel with this name; `which` counts its launches, from 1."""
    found = [one for one in launches if _base(one.kernel) == _base(kernel) and one.grid[0]]
    _require(found, kernel, launches, report)
    return found[require.whole("launch", which, 1, len(found)) - 1]


def _require(
    found: Sequence[MeasuredLaunch], wanted: str, there: Sequence[MeasuredLaunch], report: object
) -> None:
    if not found:
        listed = "\n  ".join(dict.fromkeys(one.description for one in there))
        raise ValueError(f"`report`: {report} has no launch of {wanted}; it has\n  {listed}")


def _base(kernel: str) -> str:
    """Return ``scale`` for ``void ns::scale<float, 4>(float *, int)``."""
    name = re.match(r"[^(<]*", kernel)
    return re.split(r"::|\s", name.group().strip() if name else "")[-1]


def as_csv(profile: ProfileData) -> str:
    """Return the counts of a profile as ``ncu --csv --page raw --print-units base`` prints them."""
    launch = {
        "ID": "0",
        "Process ID": "0",
        "Process Name": "coalesce",
        "Host Name": "",
        "Kernel Name": profile.kernel,
        "Context": "1",
        "Stream": "7",
        "Block Size": str(profile.block),
        "Grid Size": str(profile.grid),
        "Device": "0",
        "CC": ".".join(map(str, profile.device.compute_capability)),
    }
    known = profile.metrics()
    metrics = {**known, **known.launch}
    names = sorted(metrics)
    file = io.StringIO()
    table = csv.writer(file, quoting=csv.QUOTE_ALL, lineterminator="\n")
    table.writerow([*launch, *names])
    table.writerow([*[""] * len(launch), *map(_unit, names)])
    table.writerow([*launch.values(), *(_printed(metrics[name]) for name in names)])
    return file.getvalue()


def _unit(metric: str) -> str:
    """Return the unit that ncu prints for a metric."""
    if metric.endswith(".pct"):
        return "%"
    units = {
        "bytes": "byte",
        "time": "ns",
        "sectors": "sector",
        "requests": "request",
        "inst": "inst",
        "cycles": "cycle",
    }
    return next((unit for word, unit in units.items() if f"_{word}_" in f"{metric}_"), "")


def _printed(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:,.6f}"
