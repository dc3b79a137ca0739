"""Write docs/accuracy.md: the simulator's predictions beside a GPU's counters.

Run ``python docs/make_accuracy.py`` in an environment in which coalesce is installed. On the
simulator, the script repeats the launches that tools/record_counters.py recorded in tests/data.
"""

from __future__ import annotations

import argparse
import sys
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parent
TESTS = DOCS.parent / "tests"
DATA = TESTS / "data"
sys.path.insert(0, str(TESTS))

import counter_cases  # noqa: E402

from coalesce.profiling.hardware import exactness  # noqa: E402

Metrics = Mapping[str, Any]

SETS = ("shipped", "awkward", "programs", "unseen", "patterns")

HEAD = """\
# Predicted beside measured

*Written by `docs/make_accuracy.py` from the recordings in `tests/data`; do not edit.*

The simulator predicts what the hardware counters of a GPU will show. This page compares the
predictions with measurements. Each of {compared:,} launches ran twice: on the simulator, and on a
GPU under Nsight Compute, NVIDIA's profiler.

If a cell of a table has one figure, prediction and measurement are exactly equal. If they differ,
the cell has two figures: the prediction in bold, and then the measurement. [The
glossary](../notebooks/glossary.md) explains the terms.

The launches are in five sets, which the sections below describe. The sets were recorded by
`python tools/record_counters.py shipped awkward programs unseen patterns`. This table says on which
GPU each set was recorded, and when.

"""

EXPLANATION = """
Shared memory serves a request in one or more passes. Each pass is called a wavefront. Two metrics
count wavefronts:

- `memory_l1_wavefronts_shared` counts the wavefronts that result from the addresses of the
  accesses.
- `l1tex__data_pipe_lsu_wavefronts_mem_shared_op_*` also counts wavefronts that the hardware adds
  when several warps want to use L1 at the same time. The number of these additional wavefronts
  differs from run to run, so it cannot be predicted.

In kernels with only one warp, the hardware adds no wavefronts. The last section of this page
compares both metrics for such kernels.

On a GPU, some other counts differ from run to run, too. This happens in three cases. The names in
parentheses are kernels from the tables below:

- The lanes of a warp diverge, and no barrier reconverges them (`first_match`).
- Warps repeat a compare-and-swap on the same word (`shared_counters`).
- The addresses of an atomic are scattered over many cache lines, but some lanes access the same
  sector (`scatter_add`).

A profile of such a launch names these counts in `p.inexact`.
"""

# Columns of the tables: title and metric.
COLUMNS = {
    "ld req": "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum",
    "ld sectors": "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum",
    "st req": "l1tex__t_requests_pipe_lsu_mem_global_op_st.sum",
    "st sectors": "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum",
    "tags": "memory_l1_tag_requests_global",
    "ideal": "memory_l2_theoretical_sectors_global_ideal",
    "ld bytes/sector %": "smsp__sass_average_data_bytes_per_sector_mem_global_op_ld.pct",
    "LDG": "smsp__inst_executed_op_global_ld.sum",
    "LDS": "smsp__inst_executed_op_shared_ld.sum",
    "STS": "smsp__inst_executed_op_shared_st.sum",
    "wavefronts": "memory_l1_wavefronts_shared",
    "ideal wavefronts": "memory_l1_wavefronts_shared_ideal",
}
ATOMIC_COLUMNS = {
    "red req": "l1tex__t_requests_pipe_lsu_mem_global_op_red.sum",
    "red sectors": "l1tex__t_sectors_pipe_lsu_mem_global_op_red.sum",
    "atom req": "l1tex__t_requests_pipe_lsu_mem_global_op_atom.sum",
    "atom sectors": "l1tex__t_sectors_pipe_lsu_mem_global_op_atom.sum",
    "ATOMS": "smsp__inst_executed_op_shared_atom.sum",
    "atomic wavefronts": "smsp__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared_op_atom.sum",
}


def figure(value: float) -> str:
    """Return a number in a readable form: 1,048,576 or 27.27."""
    return f"{value:,.2f}" if value != int(value) else f"{int(value):,}"


def equal(metric: str, ours: float, theirs: float) -> bool:
    """Compare exactly; Nsight Compute prints ratios with two digits after the point."""
    return abs(ours - theirs) <= (0.0051 if metric.endswith(".pct") else 0)


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> Iterator[str]:
    """Yield the lines of a Markdown table; its first column is left-aligned."""
    head = list(head)
    yield "| " + " | ".join(head) + " |"
    yield "|---" + "|---:" * (len(head) - 1) + "|"
    for row in rows:
        yield "| " + " | ".join(row) + " |"


class Comparison:
    """The predicted and measured metrics of a set of launches."""

    def __init__(self, name: str) -> None:
        self.recording = counter_cases.load(counter_cases.path_of(name))
        measured = {launch["case"]: launch["metrics"] for launch in self.recording["launches"]}
        self.launches: dict[str, tuple[Metrics, Metrics]] = {}
        self.inexact: dict[str, Collection[str]] = {}  # metrics that may differ
        for case in counter_cases.SETS[name]():
            counts = case.run("sim", counts=True)[-1][1].counts
            self.launches[case.name] = counts.metrics(), measured[case.name]
            self.inexact[case.name] = exactness.inexact(counts.table(), counts.metrics())

    def wrong(self) -> Iterator[str]:
        """Yield each exact metric that differs: the launch, the metric and both values."""
        for name, (ours, theirs) in self.launches.items():
            for metric in sorted(ours.keys() & theirs.keys() - set(self.inexact[name])):
                if not equal(metric, ours[metric], theirs[metric]):
                    both = f"{figure(ours[metric])} for {figure(theirs[metric])}"
                    yield f"`{metric}` of {name} ({both})"

    def metrics(self) -> list[str]:
        """Return the metrics that were both predicted and measured."""
        ours, theirs = next(iter(self.launches.values()))
        return sorted(set(ours) & set(theirs))

    def summary(self, metric: str, only: Callable[[str], bool] = lambda _: True) -> list[str]:
        """Return in how many launches a metric is not 0, in how many it is equal, and its error."""
        pairs = [
            (ours[metric], theirs[metric])
            for name, (ours, theirs) in self.launches.items()
            if only(name) and (ours[metric] or theirs[metric])
        ]
        same = sum(equal(metric, *pair) for pair in pairs)
        off = [abs(a - b) / b if b else 1.0 for a, b in pairs]
        worst = f"{max(off):.1%}" if same < len(pairs) else ""
        return [f"{len(pairs):,}", f"{same:,}", worst]

    def table(self, columns: Mapping[str, str], split: str = " ") -> Iterator[str]:
        """Yield a table of the launches; omit columns that are always 0."""
        used = {
            title: metric
            for title, metric in columns.items()
            if any(o[metric] or t[metric] for o, t in self.launches.values())
        }
        rows = []
        for name, (ours, theirs) in self.launches.items():
            shown = name.replace("<", "\\<")  # "<" must not begin an HTML tag
            cells = [shown.partition(split)[0] + " " + shown.partition(split)[2]]
            for metric in used.values():
                a, b = ours[metric], theirs[metric]
                both = figure(b) if equal(metric, a, b) else f"**{figure(a)}** {figure(b)}"
                cells.append(both if a or b else "")
            rows.append(cells)
        yield from table(["launch", *used], rows)


def counted() -> Iterator[str]:
    """Yield the part of the page about counts."""
    sets = {name: Comparison(name) for name in SETS}
    compared = sum(len(each.launches) for each in sets.values())
    yield HEAD.format(compared=compared).rstrip()
    yield ""
    where = {
        "GPU": "gpu",
        "driver": "driver",
        "NVRTC": "nvrtc",
        "Nsight Compute": "ncu",
        "date": "date",
    }
    yield from table(
        ["set", "launches", *where],
        (
            [
                f"`{name}`",
                f"{len(each.launches):,}",
                *(each.recording[key] for key in where.values()),
            ]
            for name, each in sets.items()
        ),
    )
    yield ""
    yield "## All metrics"
    yield ""
    yield "In this table, each set has three columns:"
    yield ""
    yield "- The first column counts the launches in which the metric is not 0."
    yield "- *equal* says for how many of these launches the prediction equals the measurement."
    yield "- *off by* is the largest difference, in percent of the measurement."
    yield ""
    metrics = sorted({metric for each in sets.values() for metric in each.metrics()})
    rows = []
    for metric in metrics:
        cells = [f"`{metric}`"]
        for each in sets.values():
            cells += each.summary(metric) if metric in each.metrics() else ["", "", ""]
        if any(cells[1::3]) and any(cell not in ("", "0") for cell in cells[1:]):
            rows.append(cells)
    head = ["metric"]
    for name in sets:
        head += [name, "equal", "off by"]
    yield from table(head, rows)
    yield EXPLANATION
    yield "The tables below have these columns:"
    yield ""
    columns = {**COLUMNS, **ATOMIC_COLUMNS}
    yield from table(["column", "metric"], ([title, f"`{columns[title]}`"] for title in columns))
    yield ""
    yield "## Every shipped kernel"
    yield ""
    yield from sets["shipped"].table(COLUMNS)
    yield ""
    yield "## Awkward kernels"
    yield ""
    yield "These kernels are in `tests/kernels/awkward.cu` and `awkward_templates.cu`."
    yield "They were written because their counts are easy to get wrong."
    yield "In the table, `#2` marks a kernel's second launch."
    yield ""
    yield from sets["awkward"].table({**COLUMNS, **ATOMIC_COLUMNS})
    yield ""
    yield "## Whole programs"
    yield ""
    yield (
        "These kernels are in `tests/kernels/programs.cu`. They were written when the "
        "simulator's rules of counting were already final. The counts of the GPU were recorded on "
        "{date}.".format(**sets["programs"].recording)
    )
    yield ""
    yield from sets["programs"].table({**COLUMNS, **ATOMIC_COLUMNS})
    yield ""
    yield "## Programs that were not used to make the rules"
    yield ""
    yield (
        "These kernels are in `tests/kernels/unseen_*.cu`. The counts of the GPU were recorded on "
        "{date}. Until then, no rule of counting had been changed for these kernels. Where a "
        "prediction is wrong, the profile should say so: `p.inexact` names the metric and the "
        "reason. "
        "{wrong}".format(**sets["unseen"].recording, wrong=unexplained(sets["unseen"].wrong()))
    )
    yield ""
    yield from sets["unseen"].table({**COLUMNS, **ATOMIC_COLUMNS})
    yield ""
    yield "## One access of one warp"
    yield ""
    yield (
        "Each kernel of `tests/kernels/patterns.cu` executes one access in one warp, and "
        "ran with many patterns. A pattern is a combination of addresses (at a stride, permuted, "
        "equal or scattered) and active lanes (all or some). The column *all equal* has the number "
        "of patterns in which all predictions are right. For the other patterns, the column "
        "*differ* names the metrics whose predictions are wrong."
    )
    yield ""
    yield from table(["kernel", "patterns", "all equal", "differ"], pattern_rows(sets["patterns"]))


def unexplained(wrong: Iterable[str]) -> str:
    """Return the sentence about the wrong metrics that `p.inexact` does not name."""
    listed = ", ".join(wrong)
    if not listed:
        return "For these kernels, `p.inexact` names all wrong metrics."
    return f"These metrics are wrong, but `p.inexact` does not name them: {listed}."


def pattern_rows(patterns: Comparison) -> Iterator[list[str]]:
    """Yield a row for each kernel of patterns.cu."""
    by_kernel: dict[str, list[list[str]]] = defaultdict(list)
    for name, (ours, theirs) in patterns.launches.items():
        differ = [
            metric
            for metric in patterns.metrics()
            if not metric.startswith("smsp__inst_executed")
            and not equal(metric, ours[metric], theirs[metric])
        ]
        by_kernel[name.partition(" ")[0]].append(differ)
    for kernel, differences in by_kernel.items():
        names = sorted({metric for differ in differences for metric in differ})
        shown = ", ".join(f"`{metric}`" for metric in names)
        same = sum(not differ for differ in differences)
        yield [f"`{kernel}`", f"{len(differences):,}", f"{same:,}", shown]


def main() -> None:
    """Write the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=DOCS / "accuracy.md")
    options = parser.parse_args()
    options.output.write_text("\n".join(counted()) + "\n")
    print(options.output)


if __name__ == "__main__":
    main()
