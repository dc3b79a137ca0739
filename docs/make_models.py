"""Write docs/models.md: what is modelled, for which GPUs, and how far off it is.

``python docs/make_models.py`` takes half a minute. docs/model_accuracy.py runs the launches of the
shipped kernels and keeps the results in docs/measured/models_h200.json. The launches of other
kernels are short; this script runs them.
"""

from __future__ import annotations

import argparse
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

Requests, sectors and wavefronts follow from the addresses and are exact. NVIDIA does not publish
what the caches keep, what DRAM moves and how long this takes. These figures come from models, and
are labelled as modelled wherever they appear.

- **L1.** The accesses of a block are replayed through a cache of 128-byte lines with four sectors,
  one request of each warp in turn. The cache has the block's share of the memory that shared memory
  leaves free. Stores go on to L2; in L1 they take a line, but store no data there. Warps that no
  barrier holds back start up to 64 requests after each other, at random.
- **L2.** The blocks of the grid run as on the GPU: as many at once as registers, shared memory,
  warps and the limit on blocks allow. When a block ends, the next one starts. On a multiprocessor,
  older blocks are ahead of younger ones. Blocks that do the same work drift apart, as in a random
  walk. From compute capability 9.0 on, a read of a sector is merged with a read of the same sector
  by a neighbour (one of the 16 or so multiprocessors of a cluster, GPC) that is still waiting. A
  read waits 200 cycles if L2 answers, and 600 if DRAM does. The unit is Nsight Compute's L2 Request
  Coalescer (LRC). The two times were fitted to `gather`, whose reads coincide only by chance. The
  drift was fitted to the tiled matrix products. L2 has one or two partitions. A multiprocessor asks
  the nearer one, which keeps copies of data from the other. Data that all multiprocessors read
  therefore take twice their size.
- **DRAM** is read in half lines of 64 bytes. A line is written when L2 evicts it.
- **Time** is that of the slowest resource of the busiest multiprocessor: issue, the arithmetic
  pipes, the load-store unit, the data stage of L1, constants, L2, its atomics, DRAM, or latency.
  Latency is the time that blocks wait if there are too few warps to hide it. To find it, a warp is
  taken through the machine code, which says after how many cycles each instruction follows and for
  which results it waits. An access is answered by L1, L2 or DRAM as often as the replay of the
  caches found its lines there. A block lasts as long as its slowest warp.
- **The data stage of L1** serves in one cycle up to four lines, if these are in different ones of
  its four sets, and one word of each bank. The set of each line was solved from the counters of
  single loads. The solution explains all of them (`tests/data/tag_sets_h200.json`).
- **Atomics** on the same sector are executed one after another in L2: an H200 needs 0.7 ns for each
  request to the same sector, 1.7 ns for a sum of floats (`docs/measured/atomics_h200.txt`).

If the replay of a grid would take long, only its first blocks are replayed, at least twice as many
as the GPU holds at once; they represent the others. Caches start empty. With a sample or an
executor, nothing is modelled.

## The GPUs

Code is compiled for the architecture of the GPU. If the compiler no longer supports it (7.0 with
CUDA 13), the oldest supported one is used. Times use the figures below, and constants that were
recorded on the H200. **Only the H200 was checked against hardware.**"""

ACCURACY = """
## How far off

The table compares the models with the counters of an {gpu} (driver {driver}, Nsight Compute {ncu},
cold caches, {date}), for {launches} launches of every shipped kernel. `python
docs/model_accuracy.py` makes the figures, and `tests/python/test_models.py` checks the small
launches. *Order* is about pairs of variants of an operation whose measured times differ by more
than 10 %: it says how many of them the model puts in the right order.

For "recorded counts", the time model gets the instructions and wavefronts that the GPU counted. If
this error is much smaller than that of "time", the simulator executed other instructions: without
machine code it executes the PTX, and the assembler merges and removes shared loads of the PTX.

Known errors:

- `coalesced` is slower than `naive_2d` at 512, and `untiled` is slower than `coalesced` at 4096,
  both by more than 10 %. The reason is not known. The model has them in the other order.
- It is not known which multiprocessors' reads are merged. The model takes successive blocks for
  neighbours. If two blocks share only the sector between them (`offset`), the GPU merges none of
  their reads, but the model merges many.
- Warps that no barrier holds back drift apart further in longer kernels. In the model the distance
  is always the same, so it merges too many reads of `naive_2d` and `untiled`.
- Stores to a line that other warps stored to are counted as L1 hits less often by the GPU than by
  the model (`naive_read`).
- L1 merges some partial writes of a warp to a sector. The rule is not known; the model merges 70 %.
- In products of 4096, the blocks of some kernels stay together and share what they read. Those of
  other kernels drift apart, as the model assumes for all.
- DRAM answers random reads (`gather` from more data than L2 holds) more slowly than the model.

Median errors, with the largest in brackets:
"""

OTHERS = """
## Kernels that the models were not made from

The models were made from the shipped kernels. `programs` are the whole kernels of
`tests/kernels/programs.cu`. They were written as a check, and their errors were examined later.
`unseen` are those of `tests/kernels/unseen_*.cu`. They were written and recorded ({date}) before
anybody looked at the models' results for them. Since then, every second one was examined: the
models of atomics and of partial writes come from these. Median errors, with the largest in
brackets:
"""


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> Iterator[str]:
    """Yield the lines of a Markdown table, its first column to the left."""
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
        "Warps, blocks, shared memory and fp32 and fp64 operations are those of a multiprocessor. "
        "Limits are from the CUDA C++ Programming Guide, Technical Specifications per Compute "
        "Capability; the rest:"
    )
    yield ""
    for gpu in listed:
        yield f"- {gpu['title']}: {gpu['source']}"


def accuracy() -> Iterator[str]:
    """Yield the errors."""
    rows = model_accuracy.load()
    recording = model_accuracy.counter_cases.load(model_accuracy.RECORDING)
    yield ACCURACY.format(**{**recording, "launches": len(rows)})
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


def errors_of(name: str, rows: Sequence[Row]) -> list[str]:
    """Return a name, how many launches it has, and their median and largest errors."""
    median = model_accuracy.medians(rows)
    worst = {n: max(abs(row.errors[n]) for row in rows) for n in median}
    cells = [f"{error(n, median[n])} ({error(n, worst[n])})" for n in median]
    return [name, f"{len(rows)}", *cells]


def each(rows: Iterable[Row]) -> Iterator[str]:
    """Yield a table of launches."""
    yield ""
    yield "Each launch, predicted / measured:"
    yield ""
    head = ["launch", "L1 hit rate %", "L2 sectors", "DRAM MB", "time us", "error"]
    yield from table([*head, "on recorded counts", "bound by"], map(launch, rows))


def others() -> Iterator[str]:
    """Yield the errors for kernels that are not shipped."""
    sets = {name: list(model_accuracy.rows("", name=name)) for name in ("programs", "unseen")}
    path = model_accuracy.RECORDING.with_name("unseen_h200.json")
    yield OTHERS.format(**model_accuracy.counter_cases.load(path))
    names = list(sets["unseen"][0].errors)
    yield from table(["", "launches", *names], (errors_of(*rows) for rows in sets.items()))
    yield from each([row for rows in sets.values() for row in rows])


def error(name: str, value: float) -> str:
    """Return an error's size: points of a rate, or percent."""
    return f"{value:.2f}" if "rate" in name else f"{value:.1%}"


def launch(row: Row) -> list[str]:
    """Return the cells of a launch."""

    def both(pair: tuple[float, float], form: str, scale: float = 1) -> str:
        return " / ".join(f"{value * scale:{form}}" for value in pair)

    replayed = "" if row.share == 1 else f" ({row.share:.0%} of the blocks)"
    return [
        row.case.replace("<", "\\<") + replayed,  # no tag of HTML
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
