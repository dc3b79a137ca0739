"""`coalesce demo`: runs all variants of the matrix product, and prints a table of their costs."""

from __future__ import annotations

import textwrap
import warnings
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from coalesce import catalogue
from coalesce.arrays import devices
from coalesce.benchmarking import text as benchmark_text
from coalesce.catalogue.products import run_matmul
from coalesce.catalogue.reference import Reference, reference
from coalesce.common.timing import Timing, milliseconds

# A GPU multiplies in milliseconds what takes the simulator seconds.
DEFAULT_SIZE = {"cuda": 2048, "sim": 512}
COUNTED_SIZE = 128  # the size of the simulated run that counts sectors for a GPU's table

# Ordinary loads and asynchronous copies to shared memory (cp.async, in `pipelined`).
SECTORS_PER_REQUEST = "l1tex__average_t_sectors_per_request_pipe_lsu_mem_global_op_ld.ratio"


@dataclass(frozen=True)
class VariantRow:
    """A row of the table: the numbers that were measured, modelled or counted for one variant."""

    variant: str
    timing: Timing
    sectors_per_request: float | None
    wavefronts_per_request: float | None
    error: float
    passed: bool
    not_modelled: str = ""  # why there is no modelled time; empty if there is one


def run_demo(
    console: Console,
    *,
    size: int | None = None,
    device: str | None = None,
    variants: tuple[str, ...] = (),
    dtype: str = "float32",
) -> bool:
    """Run the variants of matmul, print the table, and return whether every result was right.

    The matrices have `size` rows and columns, by default 2048 on a GPU and 512 on the simulator.
    `variants` are the names of the variants, by default all that the device can run.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # an old driver: the lines before the table say it, too
        chosen = devices.resolve(device)
    n = size or DEFAULT_SIZE[chosen.kind]
    names = variants or catalogue.runnable("matmul", chosen, np.dtype(dtype))
    for name in names:
        catalogue.find("matmul", name)
    a, b = operands(n, np.dtype(dtype))
    exact = reference("matmul", names[0], [a, b], {})

    console.print(f"matmul {n} x {n} x {n}, {dtype}, on {chosen.name} ({chosen.description})")
    if chosen.kind == "sim" and device is None:
        console.print(
            "Simulated; counts are the same as on a GPU. "
            f"Kernels cannot run on a GPU here: {devices.gpu_status().message}",
            style="dim",
        )
    rows = []
    with Progress(
        TextColumn("{task.description:<22}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=console,
        transient=True,
        disable=console.record or not console.is_terminal,
    ) as progress:
        task = progress.add_task("", total=len(names))
        for name in names:
            progress.update(task, description=name)
            rows.append(measure(name, a, b, exact, chosen))
            progress.advance(task)
    console.print(table(rows))
    for note in footnotes(rows, chosen, n):
        lines = textwrap.wrap(note, console.width, subsequent_indent="  ", break_on_hyphens=False)
        for line in lines or [""]:
            console.print(line, style="dim")
    wrong = [row.variant for row in rows if not row.passed]
    if wrong:
        console.print(f"WRONG RESULT: {', '.join(wrong)}", style="bold red")
    return not wrong


def operands(n: int, dtype: np.dtype[Any]) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Return two n x n matrices of random numbers. The numbers are the same in every run."""
    random = np.random.default_rng(2024)
    a, b = (random.uniform(-1, 1, (n, n)).astype(dtype) for _ in range(2))
    return a, b


def measure(name: str, a: Any, b: Any, exact: Reference, device: devices.Device) -> VariantRow:
    """Run the variant `name` on `a` and `b`: time it, check the result, count the sectors."""
    simulated = device.kind == "sim"
    result, run = run_matmul(a, b, variant=name, device=device.name, timed=True, counts=simulated)
    error = exact.error(result)
    row = VariantRow(
        variant=name,
        timing=run.timing(),
        sectors_per_request=None,
        wavefronts_per_request=None,
        error=error,
        passed=error <= exact.tolerance(a.dtype, name),
    )
    counted = run
    if not simulated:
        if name not in catalogue.runnable("matmul", devices.resolve("sim"), a.dtype):
            return row
        small = [m[:COUNTED_SIZE, :COUNTED_SIZE] for m in (a, b)]
        _, counted = run_matmul(*small, variant=name, device="sim", counts=True)
    counts = counted.own.counts
    shared_requests = counts.shared_load_requests + counts.shared_store_requests
    wavefronts = counts.shared_load_wavefronts + counts.shared_store_wavefronts
    return replace(
        row,
        not_modelled=counts.not_modelled,
        sectors_per_request=counts.metrics().get(SECTORS_PER_REQUEST),
        wavefronts_per_request=wavefronts / shared_requests if shared_requests else None,
    )


def table(rows: list[VariantRow]) -> Table:
    """Return the rows as a table that is at most 80 columns wide."""
    result = Table(box=None, pad_edge=False, padding=(0, 1), header_style="bold")
    result.add_column("variant", no_wrap=True)
    for heading in (
        "ms",
        "source",
        "GFLOP/s",
        "sectors/\nrequest",
        "wavefronts/\nrequest",
        "max.\nerror",
    ):
        result.add_column(heading, justify="right", no_wrap=True)
    slowest = max((row.timing.kernel_ms for row in rows if not row.timing.no_time), default=0.0)
    for row in rows:
        timing = row.timing
        style = "green" if timing.kernel_ms * 4 < slowest else ""
        figures = (
            milliseconds(timing.kernel_ms).removesuffix(" ms"),
            timing.source,
            f"{timing.gflops:,.0f}" if timing.gflops >= 100 else f"{timing.gflops:.3g}",
        )
        result.add_row(
            row.variant,
            *(("-", "-", "-") if timing.no_time else figures),
            _ratio(None if row.not_modelled else row.sectors_per_request),
            _ratio(None if row.not_modelled else row.wavefronts_per_request),
            f"{row.error:.1e}" + ("" if row.passed else " WRONG"),
            style=style if row.passed else "red",
        )
    return result


def _ratio(value: float | None) -> str:
    """Return a ratio as text; "-" if it is None, because there were no requests."""
    return "-" if value is None else f"{value:.2f}"


def footnotes(rows: list[VariantRow], device: devices.Device, n: int) -> list[str]:
    """Return sentences that say what the columns mean and where the numbers come from.

    `rows` are the rows of the table. The matrices have `n` rows and columns.
    """
    notes = [
        "",
        (
            "sectors/request: 32-byte sectors of global memory that one load of a warp touches. "
            "32 neighbouring floats take 4. Asynchronous copies (cp.async) are counted, too."
        ),
        "wavefronts/request: passes that one access of a warp to shared memory takes; 1 is ideal.",
    ]
    if device.kind == "cuda":
        notes.append(f"Both are counted by the simulator, at N = {min(n, COUNTED_SIZE)}.")
    else:
        notes.append(f"ms: modelled on a {device.description}, an estimate; nothing was measured.")
    timed = [row for row in rows if not row.timing.no_time]
    prepared = [row.variant for row in timed if len(row.timing.parts) > 1]
    if prepared:
        notes.append(benchmark_text.note_on_launches(prepared))
    unmodelled = [row.variant for row in rows if row.not_modelled]
    if unmodelled:
        notes.append(
            f"-: no time is modelled for {', '.join(unmodelled)}, because they load their operands "
            "by bulk copies. These copies are not requests of warps, so the two ratios would mean "
            "little."
        )
    blocks = (-(-n // 128)) ** 2
    processors = device.multiprocessors or 0
    if blocks < processors and any(row.variant == "blocktiled_2d" for row in timed):
        notes.append(
            f"Large tiles make few blocks at this size: blocktiled_2d has {blocks} for "
            f"{processors} multiprocessors, so most of the GPU is idle. For large matrices, these "
            "kernels are the fastest (lesson 7)."
        )
    notes.append("Green: at least 4 times as fast as the slowest variant.")
    notes.append(benchmark_text.ERROR_OF_SUMS)
    by_time = sorted(
        (row for row in timed if not row.not_modelled), key=lambda r: -r.timing.kernel_ms
    )
    if by_time:
        names = dict.fromkeys(row.variant for row in (by_time[0], by_time[-1]))
        command = f"coalesce explain matmul --variants {','.join(names)}"
        # coalesce explain has the same default size. Much larger products take it minutes.
        if n < DEFAULT_SIZE["sim"]:
            command += f" --size {n}"
        notes.append(f"Why, line by line: {command}")
    notes.append("The lessons explain these numbers: see notebooks/README.md in the repository.")
    return notes
