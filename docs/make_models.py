"""Write docs/models.md: the models, the GPUs that they describe, and their errors.

``python docs/make_models.py`` takes half a minute. docs/model_accuracy.py runs the launches of the
shipped kernels and stores the results in docs/measured/models_h200.json. This script itself runs
the launches of other kernels, which are short.
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

Requests, sectors and wavefronts follow from the addresses and are exact. Three things are not
published by NVIDIA: what the caches keep, what DRAM transfers, and how long this takes. These
figures come from models. They are labelled as modelled wherever they appear. [The
glossary](../notebooks/glossary.md) explains the terms.

- **L1.** The accesses of a block are replayed through a model of the cache, one request of each
  warp in turn. A line has 128 bytes in four sectors. The cache has the block's share of the memory
  that shared memory leaves free. A store goes to L2. The store also takes a line in L1, but L1 does
  not keep its data. Warps without barriers between them do not advance together. The model delays
  the start of each warp by a random number of requests, at most 64.
- **L2: which blocks run.** The blocks of the grid run as on the GPU. Registers, shared memory,
  warps and the limit on blocks decide how many run at once. When a block ends, the next one
  starts. On a multiprocessor, older blocks are ahead of younger ones. Blocks with the same work
  drift apart at random (a random walk). The drift was fitted to the tiled matrix products.
- **L2: merged reads.** From compute capability 9.0 on, several multiprocessors can share one read.
  If a multiprocessor reads a sector while a neighbour still waits for the same sector, the two
  reads are merged. Neighbours are the 16 or so multiprocessors of one GPU processing cluster (GPC).
  A unit merges the reads; its name in Nsight Compute is L2 Request Coalescer (LRC). In the model a
  read waits 200 cycles if L2 has the sector, and 600 cycles if DRAM has it. Both figures were
  fitted to `gather`, whose reads coincide only by chance.
- **L2: partitions.** L2 has one or two partitions. A multiprocessor reads from the nearer
  partition. This partition keeps copies of data from the other partition. If all multiprocessors
  read the same data, the data therefore take twice their size in L2.
- **DRAM** is read in half lines of 64 bytes. A line is written when L2 evicts it.
- **Time** is the time of the slowest resource of the busiest multiprocessor. The resources are:
  issue of instructions, the arithmetic pipes, the tensor cores, the load-store unit, the data stage
  of L1, constants, L2, the atomics of L2, DRAM, and latency.
- **Tensor cores.** A product of a warp (`mma.sync`) occupies one of the four tensor cores of a
  multiprocessor for as many cycles as an H200's counter says
  (`tests/data/mma_counters_h200.json`). No recorded time tests this part of the model. The clock
  is that of the table below, but a GPU that multiplies for long lowers its clock.
- **Latency** is the time that blocks wait if there are too few warps to hide it. The model follows
  one warp through the machine code. The machine code says after how many cycles each instruction
  can follow the one before, and for which results it waits. The replay of the caches says how
  often L1, L2 and DRAM answer an access. A block lasts as long as its slowest warp.
- **The data stage of L1** serves up to four lines in one cycle, if each is in a different one of
  its four sets. It serves one word of each bank in one cycle. The set of each line was derived from
  the counters of single loads. The result explains all of these counters
  (`tests/data/tag_sets_h200.json`).
- **Atomics** on the same sector are executed one after another in L2. An H200 needs 0.7 ns for
  each request to the same sector, and 1.7 ns if the request adds floats
  (`docs/measured/atomics_h200.txt`).

If the replay of a grid would take long, only its first blocks are replayed: at least twice as many
as the GPU holds at once. These blocks represent the others. Caches are empty at the start. A
profile with a sample or an executor models neither caches nor time.

**No time is modelled for kernels with bulk copies (`cp.async.bulk`, tensor maps) or with products
of warpgroups (`wgmma`).** What they cost is not known to the model. Tables then show "-" instead of
a time, `Timing.no_time` and `Profile.not_modelled` say why, and `Timing.kernel_ms` is NaN. The same
holds for products of matrices in a kernel that is counted on its PTX.

## The GPUs

Code is compiled for the architecture of the simulated GPU. CUDA 13 no longer supports 7.0; the
oldest supported architecture is used instead. Modelled times use the figures below and constants
that were recorded on the H200. **Only the H200 was checked against hardware.**"""

ACCURACY = """
## How far off

The table compares the models with the counters of an {gpu} (driver {driver}, Nsight Compute {ncu},
cold caches, {date}). It has {launches} launches: every shipped kernel in several sizes. `python
docs/model_accuracy.py` computes the figures, and `tests/python/test_models.py` checks the small
launches. *Order* compares pairs of variants of one operation whose measured times differ by more
than 10 %. It says for how many of these pairs the model puts the faster variant first.

The columns "recorded counts" test the time model alone. For these columns, the time model gets the
instructions and wavefronts that the GPU counted, instead of the simulator's counts. If these errors
are much smaller than those of "time", the simulator executed other instructions than the GPU. This
happens if the simulator executes the PTX instead of the machine code, because the assembler merges
or removes some shared loads of the PTX.

Known errors:

- `coalesced` is slower than `naive_2d` at 512, and `untiled` is slower than `coalesced` at 4096,
  both by more than 10 %. The reason is not known. The model has both pairs in the wrong order.
- It is not known which multiprocessors share a read. In the model, successive blocks run on
  neighbouring multiprocessors. If two blocks have only one sector in common, at their border
  (`offset`), the GPU merges none of their reads, but the model merges many.
- Warps without barriers between them drift further apart in longer kernels. In the model the
  distance is always the same, so the model merges too many reads of `naive_2d` and `untiled`.
- Some stores go to a line that other warps stored to. The GPU counts these as L1 hits less often
  than the model does (`naive_read`).
- L1 merges some partial writes of a warp to a sector. The rule is not known; the model merges 70
  %.
- In products of 4096, the blocks of some kernels stay together and share what they read. The
  blocks of other kernels drift apart. The model assumes for all kernels that they drift apart.
- DRAM answers random reads more slowly than the model (`gather` from more data than L2 holds).

Median errors, with the largest in brackets:
"""

OTHERS = """
## Kernels that are not in the catalogue

The models were fitted to the shipped kernels only. Two further sets test them:

- `programs` are the whole kernels of `tests/kernels/programs.cu`. They were written as a test, and
  their errors were examined later.
- `unseen` are the kernels of `tests/kernels/unseen_*.cu`. They were written and recorded ({date})
  before anybody had seen what the models predict for them. Since then the errors of every second
  kernel were examined. The models of atomics and of partial writes were made from the examined
  kernels.

Median errors, with the largest in brackets:
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
        "Warps, blocks, shared memory, and fp32 and fp64 operations are given per multiprocessor. "
        "Limits are from the CUDA C++ Programming Guide, Technical Specifications per Compute "
        "Capability. The other figures are from:"
    )
    yield ""
    for gpu in listed:
        yield f"- {gpu['title']}: {gpu['source']}"


def accuracy() -> Iterator[str]:
    """Yield the part of the page about errors."""
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
    """Return a name, the number of launches, and their median and largest errors."""
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
