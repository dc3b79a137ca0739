"""Write docs/models.md: the models, the GPUs that they describe, and their errors.

``python docs/make_models.py`` takes half a minute. docs/model_accuracy.py runs the launches of the
shipped kernels and stores the results in docs/measured/models_h200.json. This script itself runs
the launches of other kernels, which are short.
"""

from __future__ import annotations

import argparse
import textwrap
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import model_accuracy
from model_accuracy import Row

from coalesce import _core

DOCS = Path(__file__).parent

HEAD = """\
# Caches and time, modelled

*Written by `docs/make_models.py`; do not edit.*

The addresses of a kernel's accesses determine its requests, sectors and wavefronts. These counts
are exact. Other figures also depend on details of the GPU that NVIDIA does not publish: which data
the caches keep, how much data DRAM (the memory of the GPU) transfers, and how long this takes.
Therefore these figures come from models, and are labelled as modelled.

This page describes the models, the simulated GPUs, and the errors of the models. [The
glossary](../notebooks/glossary.md) explains the terms.

## The model of L1

L1 is the cache of one multiprocessor. A line of the cache has 128 bytes, in four sectors.

The simulator executes a block and records its accesses. Then it replays the accesses: it looks up
each of them in the modelled cache. The replay has rounds. In each round, each warp makes one
request. On a GPU, some warps are ahead of others, unless barriers keep them together. Therefore, if
a kernel has no barriers, each warp of the model starts after a random number of rounds (fewer than
64).

Often, the requests of many blocks of a grid differ only in their addresses. The model replays at
most eight of these blocks, and chooses new random numbers for each. Every other block gets the
result of a replayed block: the one whose number has the same remainder after division by eight.

L1 and shared memory are two parts of the same memory. L1 gets the part that shared memory does not
use. If several blocks run on a multiprocessor, each of them gets an equal part of L1.

A store writes its data to L2. L1 does not keep the data, but it reserves a line for the data. To
make room, L1 may evict another line.

## The models of L2 and DRAM

L2 is the cache that all multiprocessors share. The order of the accesses of all blocks decides
which data L2 holds.

**Which blocks run.** A multiprocessor holds a limited number of blocks at once. When a block ends,
the next one starts. The model does the same. On a GPU, one block is soon ahead of another, even if
both start together and have the same work. In the model, each block starts after a random
delay, so some blocks get ahead. The largest possible delay was fitted to recordings of tiled matrix
products on an H200.

**Merged reads.** On GPUs of compute capability 9.0 and newer, multiprocessors are in groups of
about 16, called GPCs. If one multiprocessor waits for a sector, and another multiprocessor of its
group reads the same sector, the *L2 Request Coalescer* (LRC) merges the two reads into one. In the
model, a multiprocessor waits 200 cycles for a sector that L2 has, and 600 cycles for a sector that
L2 must read from DRAM. Both figures were fitted to the merged reads of the variant `gather`.

**Partitions.** On some GPUs, L2 consists of two halves, called partitions. A multiprocessor reads
from the nearer partition. If all multiprocessors read the same data, both partitions hold a copy.

**Sample.** If a launch sends very many requests to L2, the model replays only a sample of them, to
save time. L2 is divided into sets of lines. The model chooses some of the sets (at least 1 / 32 of
all), and leaves out the requests to all other sets. From the sample, it estimates the hit rates,
the merged reads, and the bytes that DRAM transfers because L2 has evicted lines.

**DRAM.** L2 reads from DRAM in pieces of 64 bytes, half a line. If a kernel has changed a line, L2
writes the line to DRAM when L2 needs the space for other data.

## The model of time

Each resource of the GPU needs a certain time for its part of the work. The model computes these
times for the busiest multiprocessor. The longest of these times is the modelled time. If several
are nearly as long, the time is longer, because units delay each other. The resources are:

| resource | what it does |
|---|---|
| issue | starts instructions |
| arithmetic pipes | compute |
| tensor cores | multiply small matrices |
| load-store unit | executes memory instructions, one request after another |
| data stage of L1 | reads lines of the cache and words of shared memory |
| constants | reads from constant memory |
| L2 | serves what misses in L1 |
| atomics of L2 | execute atomics on global memory |
| DRAM | serves what misses in L2 |
| latency | the time in which all warps wait, or in which blocks start: at most one per cycle |

**Latency.** If a multiprocessor has too few warps, at times all of them wait, and the kernel takes
longer. To estimate this, the model follows one warp through the machine code. The machine code says
how many cycles pass from each instruction to the next. It also says which instructions must wait
for the results of earlier instructions. The model of the caches says how often L1, L2 and DRAM
serve an access. From all this, the model computes the time of an average warp. But a block lasts as
long as its slowest warp. So the model increases the time if some warps execute more instructions
than the average warp. If the latency and the work of the units take about equally long, the time is
1.4 times as long: the warps often wait, or compute, at the same time.

**The data stage of L1** reads the data. In one cycle, each of the 32 banks delivers one word of
shared memory or of the cache. L1 must also look up where the lines are. It divides the lines into
sets. In one cycle, it can look up at most four lines, each in a different set. The rule
that assigns addresses to sets was derived from the counters of single loads, and predicts these
counters exactly (`tests/data/tag_sets_h200.json`).

**Tensor cores.** A multiprocessor has four tensor cores. A matrix product of a warp (`mma.sync`)
keeps one tensor core busy for a certain number of cycles, which was recorded on an H200
(`tests/data/mma_counters_h200.json`). The modelled times of tensor cores were not compared with
measured times. A GPU that multiplies for a long time lowers its clock, and is then slower than the
model says.

**Atomics.** L2 executes atomics on the same sector one after another. For each atomic, an H200
needs 0.7 ns, or 1.7 ns if the atomic adds floats (`docs/measured/atomics_h200.txt`).

## Limits of the models

- Caches are empty at the start.
- If a grid is large, the models use only its first blocks. The number of these blocks is at least
  twice the number of blocks that the GPU runs at the same time. The models assume that the other
  blocks behave in the same way.
- A profile with `executor=` models no caches and no time.
- If a kernel has bulk copies (`cp.async.bulk`, tensor maps) or products of warpgroups (`wgmma`),
  its time is not modelled. The cost of these instructions is not known.
- If threads wait for other blocks in a loop (locks, barriers of the grid, compare-and-swap loops on
  global memory), or if a kernel uses the device heap (`malloc`, `new`), its time is not modelled.
  Loops that pass the value on through shared memory or a function are not recognised.
- Sometimes the simulator cannot read the machine code of a kernel, and uses its PTX instead. If
  such a kernel uses tensor cores, its time is not modelled.
- If no time is modelled, tables show "-" instead of a time, and `Timing.kernel_ms` is NaN.
  `Timing.no_time` and `Profile.not_modelled` give the reason.

## The GPUs

A kernel is compiled for the architecture of the simulated GPU. CUDA 13 no longer supports the
compute capability 7.0 of the V100. So kernels for `sim:v100` are compiled for the oldest
architecture that CUDA 13 supports.

The models use the figures of this table. They also use constants that were recorded on an H200, and
are the same for every simulated GPU. **Only the H200 was compared with hardware.**"""

ACCURACY = """
## How far off

The models were compared with the counters of an {gpu} (driver {driver}, Nsight Compute {ncu},
{date}). There are {launches} launches: every shipped kernel that makes no bulk copies, in several
sizes. `python docs/model_accuracy.py` computes the figures.

Two kinds of columns need an explanation:

- **Order.** A pair has two variants of the same operation and size, whose measured times differ by
  more than 10 %. "n of m" means: for n of m pairs, the model says correctly which variant is
  faster.
- **Recorded counts.** These columns test only the model of time. For these columns, the model of
  time gets the numbers of instructions and wavefronts that the GPU counted, not the numbers that
  the simulator counted.

These errors are known:

- **Wrong order:** these pairs of variants. In the model, the first variant of a pair is faster. On
  the GPU, the first variant takes more than 10 % longer than the second. The reason is not known.
{wrong_order}
- **Too many merged reads:** `offset`. In this kernel, two successive blocks both read the sector at
  the border between their elements. The model merges many of these reads, and the GPU merges none
  of them. Only reads by multiprocessors of the same GPC are merged (see *Merged reads* above).
  NVIDIA does not publish which multiprocessors a GPC has. The model assumes that multiprocessors
  with neighbouring numbers are in the same GPC.
- **Too many merged reads:** `naive_2d`, `untiled`. In these kernels, no barrier keeps the warps
  together. On a GPU, some warps get further and further ahead of others, so they read the same data
  at different times. In the model, the warps stay closer together.
- **Too many L1 hits:** `naive_read`. The warps of this kernel store to cache lines to which other
  warps have stored before. The model counts more of these stores as hits than the GPU does.
- **Stores to parts of a sector.** If a warp stores to several parts of a sector, one after the
  other, L1 merges some of these stores. The rule is not known. The model merges 70 % of these
  stores.
- **Too many bytes of DRAM:** `naive_2d` and `untiled` at 4096. On the GPU, the blocks of these
  kernels advance at the same speed, so a block finds in L2 the data that another
  block has just read. In the model, some blocks are far ahead of others.
- **Too many bytes of DRAM:** `blocktiled_1d`, `blocktiled_2d`, `vectorized` and `warptiled` at
  4096. The reason is not known.
- **Modelled time too long:** `split_k`, which has many asynchronous copies. The model counts more
  cycles for the data stage of L1 than the GPU (at 1024: 134,000 and 113,000).
- **Modelled time too short:** `gather`, if its data do not fit into L2. For random reads, DRAM is
  slower than the model assumes.

This table has a row for each group of launches. A cell has the median error, and then the largest
error in brackets. Errors of hit rates are in percentage points:
"""

OTHERS = """
## Kernels that are not in the catalogue

Some constants of the models were fitted to the shipped kernels. Therefore the models were also
tested with two sets of other kernels:

- `programs` are the kernels of `tests/kernels/programs.cu`.
- `unseen` are the kernels of `tests/kernels/unseen_*.cu`. They were recorded ({date}) before
  anybody knew what the models predict for them. But half of these kernels were later used to
  improve two models: the model of atomics, and the model of stores to parts of a sector.

This table has a row for each set. A cell has the median error, and then the largest error in
brackets. Errors of hit rates are in percentage points:
"""


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> Iterator[str]:
    """Yield the lines of a Markdown table; its first column is left-aligned."""
    head = list(head)
    yield "| " + " | ".join(head) + " |"
    yield "|---" + "|---:" * (len(head) - 1) + "|"
    for row in rows:
        yield "| " + " | ".join(row) + " |"


def gpus() -> Iterator[str]:
    """Yield the table of GPUs and the sources of its figures."""
    columns = {
        "multiprocessors": "multiprocessors",
        "GHz": "clock_ghz",
        "fp32 / cycle": "fp32_lanes",
        "fp64 / cycle": "fp64_lanes",
        "warps": "warps",
        "blocks": "blocks",
        "shared KB": "shared_kb",
        "L1 + shared KB": "l1_kb",
        "L2 MB": "l2_mb",
        "GB/s": "dram_gbps",
    }
    listed = _core.model.gpus()
    rows = []
    for gpu in listed:
        major, minor = gpu["compute_capability"]
        figures = [f"{gpu[key]:g}" for key in columns.values()]
        rows.append([f"`sim:{gpu['name']}`", f"{major}.{minor}", *figures])
    yield from table(["device", "compute capability", *columns], rows)
    yield ""
    yield (
        "The columns *warps*, *blocks*, *shared KB*, *fp32 / cycle* and *fp64 / cycle* are for one "
        "multiprocessor. The limits of warps, blocks and shared memory are from the CUDA C++ "
        "Programming Guide (Technical Specifications per Compute Capability). The other figures "
        "are from these sources:"
    )
    yield ""
    for gpu in listed:
        yield f"- {gpu['title']}: {gpu['source']}"


def accuracy() -> Iterator[str]:
    """Yield the part of the page about errors."""
    rows = model_accuracy.load()
    recording = model_accuracy.counter_cases.load(model_accuracy.RECORDING)
    wrong = "\n".join(wrong_order(rows))
    yield ACCURACY.format(**{**recording, "launches": len(rows), "wrong_order": wrong})
    groups: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        groups[row.case.partition("/")[0]].append(row)
    names = list(rows[0].errors)
    summary = []
    for name, members in {**groups, "all": rows}.items():
        orders = [
            "{} of {}".format(*model_accuracy.in_order(members, recorded))
            for recorded in (False, True)
        ]
        summary.append([*errors_of(name, members), *orders])
    yield from table(["", "launches", *names, "order", "order, recorded counts"], summary)
    yield from each(rows)


def wrong_order(rows: Sequence[Row]) -> Iterator[str]:
    """Yield a list of the pairs whose order is predicted wrong: a line for each operation."""
    found: dict[str, dict[tuple[str, str], list[str]]] = defaultdict(lambda: defaultdict(list))
    for group, a, b in model_accuracy.pairs(rows):
        if model_accuracy.in_order([a, b])[0]:
            continue
        operation, size, *others = group.replace(" float32", "").split()
        faster, slower = sorted((a, b), key=lambda row: row.us[0])
        names = [row.case.partition(" ")[0].partition("/")[2] for row in (faster, slower)]
        found[operation][names[0], names[1]].append(" ".join([size.split("x")[0], *others]))
    for operation, named in found.items():
        pairs = [f"`{a}` and `{b}` at {' and '.join(sizes)}" for (a, b), sizes in named.items()]
        text = f"  - `{operation}`: {'; '.join(pairs)}."
        yield textwrap.fill(text, 100, subsequent_indent="    ")


def errors_of(name: str, rows: Sequence[Row]) -> list[str]:
    """Return a name, the number of launches, and their median and largest errors."""
    median = model_accuracy.medians(rows)
    worst = {n: max(abs(row.errors[n]) for row in rows) for n in median}
    cells = [f"{error(n, median[n])} ({error(n, worst[n])})" for n in median]
    return [name, f"{len(rows)}", *cells]


def each(rows: Iterable[Row]) -> Iterator[str]:
    """Yield a table of launches."""
    yield ""
    yield "The next table has the figures of each launch, in the form prediction / measurement:"
    yield ""
    head = ["launch", "L1 hit rate %", "L2 sectors", "DRAM MB", "time us", "error"]
    yield from table([*head, "on recorded counts", "bound by"], map(launch, rows))


def others() -> Iterator[str]:
    """Yield the errors for kernels that the package does not ship."""
    sets = {name: list(model_accuracy.rows("", name=name)) for name in ("programs", "unseen")}
    path = model_accuracy.RECORDING.with_name("unseen_h200.json")
    yield OTHERS.format(**model_accuracy.counter_cases.load(path))
    names = list(sets["unseen"][0].errors)
    yield from table(["", "launches", *names], (errors_of(*rows) for rows in sets.items()))
    yield from each([row for rows in sets.values() for row in rows])


def error(name: str, value: float) -> str:
    """Return the size of an error: percentage points for a rate, else percent."""
    return f"{value:.2f}" if "rate" in name else f"{value:.1%}"


def launch(row: Row) -> list[str]:
    """Return the cells of a launch."""

    def both(pair: tuple[float, float], form: str, scale: float = 1) -> str:
        return " / ".join(f"{value * scale:{form}}" for value in pair)

    replayed = "" if row.share == 1 else f" ({row.share:.0%} of the blocks)"
    return [
        row.case.replace("<", "\\<") + replayed,  # "<" must not begin an HTML tag
        both(row.hit_rate, ".2f"),
        both(row.l2_sectors, ",.0f"),
        both(row.dram_bytes, ",.2f", 1e-6),
        both(row.us, ",.1f"),
        f"{row.errors['time']:+.0%}",
        f"{row.errors['time, recorded counts']:+.0%}",
        row.bound,
    ]


def main() -> None:
    """Write the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=DOCS / "models.md")
    options = parser.parse_args()
    options.output.write_text("\n".join([HEAD, "", *gpus(), *accuracy(), *others()]) + "\n")
    print(options.output)


if __name__ == "__main__":
    main()
