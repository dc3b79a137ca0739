"""Write docs/models.md: what is modelled, for which GPUs, and how far off it is.

``python docs/make_models.py`` takes half a minute: of the shipped kernels the launches were run by
docs/model_accuracy.py, which keeps what it found in docs/measured/models_h200.json; those of other
kernels are quick and run anew.
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

Requests, sectors and wavefronts follow from the addresses and are exact. What caches keep, what
DRAM moves and how long it takes are not published; these are models, labelled so wherever they
show.

- **L1.** What a block's warps access is replayed, a request of each warp in turn, through a cache
  of 128-byte lines with four sectors: the block's share of what shared memory leaves. Stores go
  on to L2, and give their line a place, but no data. Warps that no barrier holds back start up to
  64 requests after each other, at random.
- **L2.** The grid's blocks run as on the GPU: as many at once as registers, shared memory, warps
  and the limit on blocks allow, the next when one ends, the older ones of a multiprocessor ahead
  of the younger. Blocks that do the same drift apart, as in a random walk. From compute
  capability 9.0 on, a read of a sector that a neighbour (one of the 16 or so multiprocessors of a
  cluster, GPC) waits for is merged with the neighbour's: for 200 cycles where L2 answers, 600
  where DRAM does. The unit is Nsight Compute's L2 Request Coalescer (LRC); the times follow from
  `gather`, whose reads meet by chance alone, and the drift from the tiled matrix products. L2 has
  one or two partitions; a multiprocessor asks the nearer one, which keeps copies of what is at
  home in the other. Data that all multiprocessors read take twice their room.
- **DRAM** is read in halves of a line, 64 bytes, and written when a line has to leave L2.
- **Time** is that of the slowest resource of the busiest multiprocessor: issue, the arithmetic
  pipes, the load-store unit, the data stage of L1, constants, L2, its atomics, DRAM, or latency,
  which is what the blocks wait for when too few are there to hide it. For the latency a warp is
  taken through the machine code, which says after how many cycles each instruction follows and for
  which results it waits; an access is answered by L1, L2 or DRAM as often as the replay of the
  caches found its lines there. Blocks whose warps do unlike amounts of work last as long as the one
  that does most.
- **The data stage of L1** takes a cycle for four lines, if they are in different ones of four sets,
  and for a word of each bank. Which set a line is in was solved from the counters of single loads,
  all of which it explains (`tests/data/tag_sets_h200.json`).
- **Atomics** take their turns at their place in L2: an H200 needs 0.7 ns for each sector that is
  sent to one place, 1.7 ns for a sum of floats (`docs/measured/atomics_h200.txt`).

Of grids whose replay would take long, the first blocks stand for the rest: at least twice as many
as the GPU holds at once. Caches start cold. With a sample or an executor nothing is modelled.

## The GPUs

Code is compiled for the architecture of the GPU; where the compiler no longer knows it (7.0 with
CUDA 13), for the oldest that it knows. Times use the figures below and constants recorded on the
H200. **Only the H200 was checked against hardware.**"""

ACCURACY = """
## How far off

An {gpu}'s counters (driver {driver}, Nsight Compute {ncu}, cold caches, {date}) beside the
models, for {launches} launches of every shipped kernel; `python docs/model_accuracy.py` makes
them, and `tests/python/test_models.py` holds the small ones. *Order*: of the pairs of variants of
an operation whose measured times differ by more than a tenth, how many are predicted in the right
order.

"Recorded counts" gives the time model the instructions and wavefronts that the GPU counted. Where
that is much better than "time", the simulator executed other instructions: PTX, whose shared
loads the assembler merges and drops, where there is no machine code to execute.

Known errors: `coalesced` is slower than `naive_2d` at 512 and `untiled` than `coalesced` at 4096 by
more than a tenth, for a reason that is not known; the model has them in the other order. Which
multiprocessors' reads are merged is inferred, and blocks that follow each other are taken to be
neighbours; where two share only the sector between them (`offset`) the GPU merges none, the model
many. Warps that no barrier holds back drift apart further in a longer kernel, in the model always
as far, so that it merges too many of the reads of `naive_2d` and `untiled`. The GPU counts stores
to a line that others stored to as hits of L1 more seldom than the model (`naive_read`). Of what a
warp writes to a sector in parts, L1 sends some together; which is not known, and modelled as seven
of ten. In products of 4096 some kernels' blocks stay together and share what they read, others
drift apart, as the model assumes of all. DRAM answers reads at random (`gather` of more than L2
holds) more slowly than the model.

Median errors, and in brackets the largest:
"""

OTHERS = """
## Kernels that the models were not made from

The models were made from the shipped kernels. `programs` are the whole kernels of
`tests/kernels/programs.cu`, written as a check and since then looked at; `unseen` are those of
`tests/kernels/unseen_*.cu`, written and recorded ({date}) before anybody looked at what
the models say of them. Since then every second one of those was looked at: the models of atomics
and of partial writes come of it. Median errors, and in brackets the largest:
"""


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> Iterator[str]:
    """Yield the lines of a Markdown table, its first column to the left."""
    head = list(head)
    yield "| " + " | ".join(head) + " |"
    yield "|---" + "|---:" * (len(head) - 1) + "|"
    for row in rows:
        yield "| " + " | ".join(row) + " |"


def gpus() -> Iterator[str]:
    """Yield the table of GPUs and where its figures are from."""
    columns = {
        "multiprocessors": "multiprocessors",
        "GHz": "clock_ghz",
        "fp32 / cycle": "fp32_lanes",
        "fp64 / cycle": "fp64_lanes",
        "warps": "warps",
        "blocks": "blocks",
        "shared KB": "shared_kb",
        "L1 + shared KB": "first_level_kb",
        "L2 MB": "second_level_mb",
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
