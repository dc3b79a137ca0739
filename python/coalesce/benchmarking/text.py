"""Shows a benchmark as text: the table, then notes that explain the numbers."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from rich.text import Text

from coalesce.benchmarking import calls
from coalesce.benchmarking.clock import FLUSHED_BYTES
from coalesce.benchmarking.rounds import RUNS_PER_ROUND
from coalesce.common.timing import milliseconds
from coalesce.launch.modelled import of_bytes
from coalesce.render import tables

if TYPE_CHECKING:
    from rich.table import Table

    from coalesce.benchmarking.data import BenchmarkData, BenchmarkRow

ERROR_OF_SUMS = (
    "max. error: difference from NumPy in float64, as a share of the sum of the magnitudes of the "
    "terms, or of an upper bound of this sum."
)

_BAD, _GOOD, _FAINT, _BOLD = "red", "cyan", "dim", "bold"


def report(benchmark: BenchmarkData, width: int) -> Iterator[Text | Table]:
    """Yield the parts of the report: the title, the table and the notes."""
    for part in textwrap.wrap(benchmark.title, width):
        yield Text(part, _BOLD)
    yield Text()
    yield _table(benchmark)
    yield Text()
    for note in notes(benchmark):
        for part in textwrap.wrap(note, width, subsequent_indent="  ", break_on_hyphens=False):
            yield Text(part, _FAINT)
    wrong = [row.variant for row in benchmark if row.correct is False]
    if wrong:
        yield Text(f"WRONG RESULT: {', '.join(wrong)}", f"bold {_BAD}")


def columns(benchmark: BenchmarkData) -> list[str]:
    """Return the names of the columns to show. Columns without values are left out."""
    rows = benchmark.rows
    shown = ["variant", _unit(benchmark), "source"]
    if any(row.timing.source == "measured" for row in rows):
        shown.append("spread")
    if len(rows) > 1:
        shown.append("speedup")
    if any(row.timing.gflops for row in rows):
        shown.append("GFLOP/s")
        if any(row.gflops_share is not None for row in rows):
            shown.append("of peak")
    if any(row.timing.gbps for row in rows):
        shown.append("GB/s")
    if any(row.gbps_share is not None for row in rows):
        shown.append("of DRAM")
    if any(row.error is not None for row in rows):
        shown.append("max. error")
    return shown


def _unit(benchmark: BenchmarkData) -> str:
    """Return the unit of the times: milliseconds, or microseconds for launches."""
    return "us" if benchmark.operation == "launch" else "ms"


def cell(row: BenchmarkRow, column: str) -> str:
    """Return the text of one cell of the table: the value of a row for a column."""
    timing = row.timing
    if column == "variant":
        return row.variant
    if column == "source":
        return "-" if timing.no_time else timing.source
    if column == "max. error":
        return _error(row)
    if row.correct is False or timing.no_time:  # a wrong result has no meaningful time
        return "-"
    if column == "ms":
        return milliseconds(timing.kernel_ms).removesuffix(" ms")
    if column == "us":
        return number(1e3 * timing.kernel_ms)
    if column == "spread":
        return f"{timing.spread:.1%}" if timing.source == "measured" else "-"
    if column == "speedup":
        return "-" if row.speedup is None else f"{number(row.speedup)}x"
    if column == "GFLOP/s":
        return number(timing.gflops) if timing.gflops else "-"
    if column == "GB/s":
        return number(timing.gbps)
    share = row.gflops_share if column == "of peak" else row.gbps_share
    if share is None:
        return "-"
    return f"{share:.1%}" if share >= 0.001 else "<0.1%"


def number(value: float) -> str:
    """Return a number as text with three significant digits, such as ``"12.3"``.

    Numbers of 100 or more are rounded to an integer: ``"1,234"``.
    """
    if value >= 100 or not math.isfinite(value):
        return f"{value:,.0f}"
    return f"{value:.3g}"


def _error(row: BenchmarkRow) -> str:
    if row.error is None:
        return "-"
    if row.correct is False:
        return "WRONG" if math.isinf(row.error) else f"{row.error:.1e} WRONG"
    return "0" if row.error == 0 else f"{row.error:.1e}"


def fastest(benchmark: BenchmarkData) -> BenchmarkRow | None:
    """Return the fastest row, or None if fewer than two rows can be compared.

    Rows with a wrong result or without a time are not compared. If the time of the first row was
    measured, only measured times are compared. If it was modelled, only modelled times are
    compared.
    """
    first = benchmark.rows[0].timing.source
    rows = [
        r
        for r in benchmark
        if r.timing.source == first and r.correct is not False and not r.timing.no_time
    ]
    return min(rows, key=lambda r: r.timing.kernel_ms) if len(rows) > 1 else None


def _table(benchmark: BenchmarkData) -> Table:
    names = columns(benchmark)
    table = tables.table(names, right=names[1:])
    best = fastest(benchmark)
    for row in benchmark:
        style = _BAD if row.correct is False else _GOOD if row is best else ""
        table.add_row(*(cell(row, name) for name in names), style=style)
    return table


def note_on_launches(variants: Sequence[str]) -> str:
    """Return a note for variants that launch several kernels. It says what their times include."""
    return (
        f"ms of {', '.join(variants)}: the times include all kernels of the call, also those that "
        "prepare operands or add up partial results."
    )


def note_on_missing_times(variants: Sequence[str], why: str) -> str:
    """Return a sentence that says why variants have no time."""
    return f"- for {', '.join(variants)}: no time is modelled, because {why}."


def notes(benchmark: BenchmarkData) -> list[str]:
    """Return sentences that say what the numbers mean and where they come from."""
    shown = columns(benchmark)
    lines = [*_of_times(benchmark)]
    without = [row for row in benchmark if row.timing.no_time]
    if without:
        lines.append(
            note_on_missing_times([row.variant for row in without], without[0].timing.no_time)
        )
    timed = [row for row in benchmark if not row.timing.no_time]
    prepared = [row.variant for row in timed if len(row.timing.parts) > 1]
    if prepared:
        lines.append(note_on_launches(prepared))
    if "speedup" in shown:
        lines.append(f"speedup: over {benchmark.names[0]}.")
    lines += _of_peaks(benchmark)
    if "max. error" in shown:
        moves = benchmark.operation in ("transpose", "access", "copies", "launch")
        lines.append("max. error: 0 if every element equals NumPy's." if moves else ERROR_OF_SUMS)
    catalogued = [r for r in timed if r.bound is not None or r.timing.parts]
    if catalogued:
        by_time = sorted(catalogued, key=lambda r: -r.timing.kernel_ms)
        ends = (by_time[0].variant, by_time[-1].variant)
        names = dict.fromkeys(name.split()[0] for name in ends)
        words = [benchmark.operation, f"--variants {','.join(names)}"]
        words += _options_of_arrays(benchmark)
        lines.append(f"Why, line by line: coalesce explain {' '.join(words)}")
    return lines


def _options_of_arrays(benchmark: BenchmarkData) -> Iterator[str]:
    """Yield the command-line options that make the same arrays, if there are any."""
    array = benchmark.arrays[0]
    if len({n for a in benchmark.arrays for n in a.shape}) == 1:
        yield f"--size {array.shape[0]}"
    if array.dtype == "float64":
        yield "--dtype float64"
    for name, value in benchmark.short_options.items():
        if name != "out":
            yield f"{name}={value}"


def _of_times(benchmark: BenchmarkData) -> Iterator[str]:
    sources = {row.timing.source for row in benchmark}
    measured = [row for row in benchmark if row.timing.source == "measured"]
    if "modelled" in sources:
        gpu = benchmark.device.description.removeprefix("simulated ")
        only = "nothing was measured" if not measured else "only NumPy was measured, on this CPU"
        yield f"ms: modelled for an {gpu}, an estimate; {only}."
    if measured:
        fewest, most = (f(r.timing.runs for r in measured) for f in (min, max))
        runs = f"{fewest}" if fewest == most else f"{fewest} to {most}"
        clocks = [
            "CUDA events" if any(r.timing.device != "cpu" for r in measured) else "",
            "the host's clock" if any(r.timing.device == "cpu" for r in measured) else "",
        ]
        if benchmark.whole_calls:
            clocks = ["the host's clock"]
        by = " or ".join(filter(None, clocks))
        text = f"{_unit(benchmark)} measured: the median of {runs} runs by {by}"
        if clocks[0] and not benchmark.whole_calls:
            text += ", without copies to and from the GPU"
        yield f"{text}. spread: (80th - 20th percentile) / median."
    if benchmark.whole_calls:
        yield from _whole_call_notes(benchmark)
    elif benchmark.ignores_l2:
        yield "L2 flushed: no effect, because no time was measured on a GPU."
    elif benchmark.l2 is not None:
        yield from _gpu_notes(benchmark)
    yield from _state_notes(benchmark)


def _whole_call_notes(benchmark: BenchmarkData) -> Iterator[str]:
    """Yield what the rows time, and how."""
    rows = calls.ROWS[benchmark.operation]
    yield f"{'. '.join(f'{name}: {rows[name]}' for name in benchmark.names)}."
    if benchmark.operation == "launch":
        yield (
            f"Launches: each run makes {benchmark.rows[0].repeats:,} launches and does not wait "
            "for the GPU between them. us is the time of the host for one launch."
        )
    yield (
        "Rounds: after a warm-up, the rows take turns. Each makes 1 run in a round, and the order "
        "of each round is random. NumPy runs alone, after the others."
        if "numpy" in benchmark.names
        else "Rounds: after a warm-up, the rows take turns. Each makes 1 run in a round, and the "
        "order of each round is random."
    )
    if benchmark.processor:
        yield f"Host: {benchmark.processor}."


def _gpu_notes(benchmark: BenchmarkData) -> Iterator[str]:
    """Yield how runs on a GPU were timed."""
    yield (
        "Rounds: after a warm-up, the variants on the GPU take turns. Each makes "
        f"{RUNS_PER_ROUND} runs in a round, and the order is reversed in every second round."
    )
    yield (
        "L2 kept: each run finds in L2 what the variant's previous run left there."
        if benchmark.l2 == "kept"
        else f"L2 flushed: before each run, {of_bytes(FLUSHED_BYTES)} are written, so that L2 "
        "holds none of the arrays."
    )
    repeats = [row.repeats for row in benchmark if row.timing.device != "cpu"]
    if max(repeats) > 1:
        most = (
            f"{min(repeats)} to {max(repeats)} times"
            if min(repeats) < max(repeats)
            else (f"{max(repeats)} times")
        )
        by_host = [row.variant for row in benchmark if row.variant in ("cupy", "torch")]
        yield (
            f"Repeats: each run is a CUDA graph that repeats the call {most}, with all kernels of "
            "the call"
            + (f" (the host repeats calls of {' and '.join(by_host)})" if by_host else "")
            + ". ms is the time of one call."
        )


def _state_notes(benchmark: BenchmarkData) -> Iterator[str]:
    """Yield the state of the GPU, if nvidia-smi reported it."""
    state = benchmark.gpu_state
    if state is None:
        return
    parts = [
        f"SM clock {state.sm_mhz:.0f} MHz" if state.sm_mhz is not None else "",
        f"power {state.power_watts:.0f} W" if state.power_watts is not None else "",
        f"throttle reasons: {', '.join(state.throttle_reasons) or 'none'}"
        if state.throttle_reasons is not None
        else "",
    ]
    if any(parts):
        yield (
            "GPU state, from nvidia-smi while the variants ran again after the timed runs: "
            f"{', '.join(filter(None, parts))}."
        )


def _of_peaks(benchmark: BenchmarkData) -> Iterator[str]:
    peaks = benchmark.peaks
    meaning = {
        "access": "the bytes of the result count once as read and once as written, nothing else",
        "copies": "the bytes of the array count once",
    }
    if benchmark.operation != "launch":
        rates = "each operand counts once as read and each result once as written"
        yield f"GB/s: {meaning.get(benchmark.operation, rates)}."
    if peaks is None:
        if benchmark.device.kind == "cuda" and not benchmark.whole_calls:
            yield (
                f"Shares of peak: none, because the peaks of {benchmark.device.description} are "
                "not known."
            )
        return
    shown = columns(benchmark)
    parts = []
    if "of peak" in shown and peaks.gflops is not None:
        dtype = benchmark.arrays[0].dtype
        parts.append(f"{number(peaks.gflops)} GFLOP/s of {dtype} without tensor cores")
    if "of DRAM" in shown:
        parts.append(f"{number(peaks.gbps)} GB/s of DRAM")
    if parts:
        yield f"Peaks of an {peaks.gpu}: {' and '.join(parts)} ({peaks.source})."
    moved = [r.timing.gbps * r.timing.kernel_ms * 1e6 for r in benchmark if r.gbps_share]
    if benchmark.l2 != "flushed" and moved and max(moved) < peaks.cache_bytes:
        yield (
            f"The arrays, {of_bytes(max(moved))}, fit into the L2 cache, "
            f"{of_bytes(peaks.cache_bytes)}: the GPU can read them from L2, "
            "so GB/s may be higher than the peak of DRAM."
        )
