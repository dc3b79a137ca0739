"""Write docs/counters.md: the public table of counters, and the errors of the time model on it.

``python docs/make_counters.py`` makes the page from the tables. With ``--simulate``, it first runs
the launches on the simulator and writes docs/measured/counters_simulated.csv.gz. This takes some
minutes. tools/record_counters.py records the table of the GPU.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import io
import re
import statistics
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import counters
import model_accuracy
from make_accuracy import table
from model_accuracy import counter_cases

from coalesce.profiling.hardware import exactness

DOCS = Path(__file__).parent
TIME = "gpu__time_duration.sum"

HEAD = """\
# A public table of counters

*Written by `docs/make_counters.py`; do not edit.*

`docs/measured/counters_h200.csv.gz` has all metrics of Nsight Compute's full set, and those that we
predict, for {launches} launches of {kernels} kernels: {metrics:,} metrics. All kernels are in this
repository and have its permissive license. They were measured on an {gpu} (driver {driver}, Nsight
Compute {ncu}, NVRTC {nvrtc}, {date}). `docs/measured/counters_simulated.csv.gz` has our counts and
modelled times for the same launches, but for those that prepare the operand of another one.

`docs/counters.py` loads a table; so does pandas:

```python
import pandas as pd

measured = pd.read_csv("docs/measured/counters_h200.csv.gz").set_index("case")
ours = pd.read_csv("docs/measured/counters_simulated.csv.gz").set_index("case")
ratio = ours["gpu__time_duration.sum"] / measured["gpu__time_duration.sum"]
```

Each row is a launch. Its first columns are:

| column | what it says |
|---|---|
| `case` | the name of the launch in `tests/counter_cases/public.py`, which has its arguments |
| `kernel`, `file` | the kernel and its source; without a file, a kernel of `csrc/kernels` |
| `grid`, `block` | the launch configuration |
| `split` | `fitted` or `never fitted`, see below |
| `gpu`, `driver`, `nvrtc`, `ncu`, `date` | how it was measured |

The other columns are metrics, in base units (bytes, nanoseconds). The caches were flushed before
each pass (`--cache-control all`). The clocks were not fixed (`--clock-control none`). The columns
`sm__cycles_elapsed.avg.per_second`, `lts__…` and `dram__…` have the clocks of each launch.

**There is no table of an H100 yet.** `python tools/record_counters.py public` records one.

## The split

Launches are `never fitted` if no constant of a model was chosen to agree with them:

- `holdout`: {of_holdout} launches of the kernels of `tests/kernels/holdout.cu`. They were written
  and recorded after the models. Then they showed three faults of the time model (see below). The
  corrections have constants from other launches, except for three launches that are `fitted`.
- `size 513`, `size 1000`, `size 4097`: shipped kernels, at sizes at which no constant was fitted.
- `tensor_cores`, `cooperative`, `hopper`, `together`: kernels that were written to test counts.

Launches of `programs` and `unseen` are `fitted`: their times were used to choose exponents of the
time model.

## Our counts

This table has a row for each set: how many values are called exact, and how many of them equal the
GPU's.

"""

DIFFERENT = """
These metrics differ. With the full set, Nsight Compute estimates the sectors of L1: it reports
4,090 sectors for 4,097 stores of single floats. The counters that [another page](accuracy.md)
compares were recorded without the full set, and are equal. In `places_in_a_list`, the order of
atomics decides where a thread stores; `Profile.inexact` says so, but is not asked here.

"""

TIMES = """
## The time model

This table has a row for each set, with the errors of the modelled times.

"""

CAUSES = """
Before the three corrections, the errors of `holdout` were 7.8 % (median), 27.2 % (90 %) and -47 %
(worst). These causes of errors were found with this table:

- **The start of blocks.** A GPU starts at most one block per cycle, and in the recordings blocks of
  8 warps at most every 1.2 cycles. Launches of many short blocks (`sum_of_a_warp`, `one_lane`,
  `chain_of_doubles`) took up to 70 % longer than modelled. *Corrected.*
- **Few warps, and the fastest products.** The model assumed that a multiprocessor computes while
  other warps wait. But the warps of a multiprocessor often wait at the same time, most of all if
  there are few, or if barriers keep them together. The products from `blocktiled_1d` to `pipelined`
  were modelled 12 to 31 % too fast, and now 29 % at most (`warptiled` at 4097). *Corrected:* the
  latency and the work of the units are added as squares.
- **`split_k`** is 16 to 35 % too slow. Its loads are asynchronous copies, for which no warp waits,
  and a multiprocessor has several of its blocks. At 4097, an H200 takes 8.06 million cycles. The
  scheduler and the data stage of L1 alone would need 8.1 million, with the passes that the H200
  counted. The model also adds the latency of the warps (5.1 million) and L2 (7.4 million), which
  here overlap with them. And it counts the tag lookups of the copies as passes of the data stage:
  1,122 million passes, where the H200 counted 943 million. In `pipelined`, which copies in the same
  way but has one block on a multiprocessor, the latency does add up. *A rule for both is not
  known.*
- **Pipes with fewer lanes than a warp** delay the scheduler, also if they are busy for less time
  than the scheduler (`divided_integers`, `newton`). *Corrected.*
- **Wide products of integers** (`IMAD.WIDE`, `IMAD.HI`). In launches with many of them, the
  scheduler loses about two further cycles for each (`dispatch_stall`): `long_products`,
  `lanes_differ`, `random_lengths`. The division of integers uses them. *Not modelled yet.*
- **Branches to many targets** (`cases_of_a_switch`): 38 % of the waiting is `branch_resolving`.
  *Not modelled yet.*
- **Blocks that wait for each other, and the device heap** (`cooperative`) have no modelled time any
  more. The simulator repeats waiting loops more often than a GPU, and the time of `malloc` is not
  known. The modelled times were between -100 % and +13,307 % off.
- **Stores to local memory** (`array_in_local_memory`): L1 merges fewer stores to parts of a sector
  than modelled, so L2 gets twice as many sectors. *The rule is not known.*

The launches with the largest errors that were never fitted:

"""


def simulated(name: str) -> dict[str, Any]:
    """Return our counts and modelled time of a case.

    The largest products would take an hour. They have no counts, because only their first blocks
    are executed.
    """
    (case,) = (case for case in counter_cases.public.cases() if case.name == name)
    first: dict[str, Any] = {"launcher": model_accuracy.first_rounds(2)}
    large = name.startswith("size 4097: matmul")
    _, record = case.run("sim", timed=True, **(first if large else {"counts": True}))[-1]
    row: dict[str, Any] = {"case": name, "bound": "", "inexact": ""}
    if record.counts is not None:
        metrics = record.counts.metrics()
        inexact = exactness.inexact(record.counts.table(), metrics)
        row |= {"inexact": " ".join(sorted(inexact)), **metrics}
    if record.modelled is not None:
        row |= {"bound": record.modelled.bound, **record.modelled.metrics()}
    return row


def simulate() -> None:
    """Write the table of the simulator."""
    names = [row["case"] for row in counters.load() if "(prepared by" not in row["case"]]
    with ProcessPoolExecutor() as pool:
        rows = list(pool.map(simulated, names))
    text = io.StringIO()
    columns = dict.fromkeys(name for row in rows for name in row)
    writer = csv.DictWriter(text, list(columns), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    path = counters.MEASURED / "counters_simulated.csv.gz"
    path.write_bytes(gzip.compress(text.getvalue().encode(), mtime=0))


Pairs = list[tuple[dict[str, Any], dict[str, Any]]]


def sets(pairs: Pairs) -> dict[str, Pairs]:
    """Return the pairs of rows (ours, measured) by the name of their set."""
    by_name: dict[str, Pairs] = defaultdict(list)
    for ours, theirs in pairs:
        by_name[theirs["case"].partition(":")[0]].append((ours, theirs))
    by_name["never fitted"] = [pair for pair in pairs if pair[1]["split"] == "never fitted"]
    return by_name


def exact(pairs: Pairs) -> Iterator[tuple[str, bool]]:
    """Yield each metric of each launch that is called exact, and whether it is equal."""
    for ours, theirs in pairs:
        inexact = {*ours.get("inexact", "").split(), *MODELLED}
        for metric in ours.keys() & theirs.keys() - inexact:
            a, b = ours[metric], theirs[metric]
            if isinstance(a, int | float) and isinstance(b, int | float):
                # ncu prints ratios with two digits after the point.
                yield metric, abs(a - b) <= (0.0051 if metric.endswith((".pct", ".ratio")) else 0)


def exact_cells(pairs: Pairs) -> list[str]:
    """Return how many values are called exact, and how many of them are equal."""
    same = [equal for _, equal in exact(pairs)]
    return [f"{len(same):,}", f"{sum(same):,}"]


MODELLED = {
    TIME,
    "l1tex__t_sector_hit_rate.pct",
    "lts__t_sector_hit_rate.pct",
    "lts__t_sectors_srcunit_tex_op_read.sum",
    "lts__t_sectors_srcunit_tex_op_write.sum",
    "dram__bytes_read.sum",
    "dram__bytes_write.sum",
}


def errors(pairs: Pairs) -> list[float]:
    """Return the relative error of each modelled time."""
    return [ours[TIME] / theirs[TIME] - 1 for ours, theirs in pairs if ours.get(TIME, 0) > 0]


def error_cells(values: Sequence[float]) -> list[str]:
    """Return the number of launches, and the median, 90th percentile and largest error."""
    sizes = sorted(map(abs, values))
    worst = max(values, key=abs)
    return [
        f"{len(sizes)}",
        f"{statistics.median(sizes):.1%}",
        f"{sizes[int(0.9 * len(sizes))]:.1%}",
        f"{worst:+.0%}",
    ]


def page() -> Iterator[str]:
    """Yield the parts of the page."""
    measured = counters.load()
    ours = {row["case"]: row for row in counters.load("counters_simulated")}
    pairs = [(ours[row["case"]], row) for row in measured if row["case"] in ours]
    by_name = sets(pairs)
    first = measured[0]
    metrics = {name for row in measured for name in row if re.search("__|^memory_", name)}
    yield HEAD.format(
        **{key: first[key] for key in ("gpu", "driver", "ncu", "nvrtc", "date")},
        launches=len(measured),
        kernels=len({(row.get("file"), row["kernel"]) for row in measured}),
        metrics=len(metrics),
        of_holdout=len(by_name["holdout"]),
    )
    rows: Iterable[list[str]] = (
        [name, f"{len(members)}", *exact_cells(members)] for name, members in by_name.items()
    )
    yield "\n".join(table(["set", "launches", "exact values", "equal"], rows)) + "\n"
    yield DIFFERENT
    wrong = Counter(metric for metric, equal in exact(pairs) if not equal)
    ordered = sorted(wrong.items(), key=lambda item: (-item[1], item[0]))
    rows = ([f"`{metric}`", f"{launches}"] for metric, launches in ordered)
    yield "\n".join(table(["metric", "launches"], rows)) + "\n"
    yield TIMES
    rows = ([n, *error_cells(values)] for n, m in by_name.items() if (values := errors(m)))
    yield "\n".join(table(["set", "launches", "median", "90 %", "worst"], rows)) + "\n"
    yield CAUSES
    timed = [pair for pair in by_name["never fitted"] if pair[0].get(TIME, 0) > 0]
    worst = sorted(timed, key=lambda p: -abs(p[0][TIME] / p[1][TIME] - 1))[:20]
    rows = (
        [
            m["case"].replace("<", "\\<"),
            f"{p[TIME] / 1e3:.1f} / {m[TIME] / 1e3:.1f}",
            f"{p[TIME] / m[TIME] - 1:+.0%}",
            p["bound"],
        ]
        for p, m in worst
    )
    head = ["launch", "us, modelled / measured", "error", "bound by"]
    yield "\n".join(table(head, rows)) + "\n"


def main() -> None:
    """Write the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--simulate", action="store_true", help="run the launches first")
    if parser.parse_args().simulate:
        simulate()
    (DOCS / "counters.md").write_text("".join(page()), encoding="utf-8")


if __name__ == "__main__":
    main()
