"""`coalesce bench` prints a table of an operation's variants; `coalesce report` writes a page.

The page has the same table, and bars of times and sectors. For each variant it has the profile,
line by line, and a comparison with the previous variant. It is one file without scripts.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from markupsafe import Markup

from coalesce import catalogue
from coalesce.arrays import devices
from coalesce.benchmarking import Benchmark, run_calls
from coalesce.benchmarking import html as benchmark_html
from coalesce.benchmarking import run as benchmark_run
from coalesce.benchmarking.calls import WHOLE_CALLS
from coalesce.benchmarking.clock import L2, Repeats
from coalesce.benchmarking.names import RowRequest, row_request
from coalesce.benchmarking.rounds import Runs
from coalesce.catalogue.table import OPERATIONS
from coalesce.cli import demo, explain
from coalesce.common.options import option
from coalesce.plots.axes import matplotlib
from coalesce.profiling import Profile, profile
from coalesce.profiling.comparison import compare
from coalesce.profiling.report import comparison_html
from coalesce.profiling.report import html as profile_html
from coalesce.render import markup
from coalesce.render.markup import FAINT, folded, image_of, joined, tag

_LENGTH = {"cuda": 1 << 24, "sim": 1 << 16}  # the default length of vectors
_SIDE = 512  # the default rows and columns of matrices; a report simulates every block


def bench(
    operation: str,
    variants: Sequence[str] | None,
    option_texts: Sequence[str],
    *,
    size: int | None,
    dtype: str,
    device: str | None,
    shape: Sequence[int] | None = None,
    runs: Runs = "auto",
    l2: L2 = "kept",
    repeats: Repeats = 1,
    whole_calls: bool = False,
) -> Benchmark:
    """Measure the times of the variants of an operation, on arrays of random numbers.

    `option_texts` are the options of the operation, such as ``["tile=16"]``. `shape` has three
    numbers for a product (M, N, K), and two for one matrix (rows, columns). Without `shape`,
    matrices are `size` x `size`. `runs`, `l2`, `repeats` and `whole_calls` have the same meaning as
    in `coalesce.benchmark`.
    """
    settings = benchmark_run.BenchmarkSettings(runs, l2=l2, repeats=repeats)
    names = variants or None
    options = dict(option(text) for text in option_texts)
    if operation in WHOLE_CALLS:
        vectors = _vectors(operation, size, shape, dtype)
        return run_calls.benchmark(operation, vectors, names, device, options, settings)
    catalogue.check_operation(operation, WHOLE_CALLS)
    if size is None:
        kind = devices.resolve(device).kind
        size = _LENGTH[kind] if operation == "access" else demo.DEFAULT_SIZE[kind]
    if variants and "gather" in variants:
        explain.operands(operation, "gather", size, np.dtype(dtype), options)
    if shape is not None:
        matrices = _matrices(operation, shape, dtype)

    @cache
    def arrays(layout: str) -> tuple[Any, ...]:  # all variants of a layout share their arrays
        if shape is not None:
            return matrices
        return explain.operands(operation, layout, size, np.dtype(dtype), {})

    if whole_calls:
        return run_calls.benchmark(
            operation, arrays(""), variants or None, device, options, settings
        )
    return benchmark_run.benchmark(
        operation,
        lambda name: arrays(name if name in ("aos", "soa") else ""),
        variants or None,
        device,
        options,
        settings,
    )


def _vectors(
    operation: str, size: int | None, shape: Sequence[int] | None, dtype: str
) -> tuple[Any, ...]:
    """Return the array of the benchmark of copies. The benchmark of launches has none."""
    if operation == "launch":
        if size is not None or shape is not None:
            raise ValueError("the benchmark `launch` has no arrays; leave out --size and --shape")
        return ()
    if shape is not None:
        raise ValueError("the benchmark `copies` takes a vector; write --size instead of --shape")
    return (np.random.default_rng(2024).random(size or _LENGTH["cuda"], np.dtype(dtype)),)


def _matrices(operation: str, shape: Sequence[int], dtype: str) -> tuple[Any, ...]:
    """Return the random operands of a product of M, N and K, or one matrix of rows and columns."""
    wanted = {"matmul": ("M, N and K", 3), "access": ("", 0)}
    parts, count = wanted.get(operation, ("rows and columns", 2))
    if len(shape) != count:
        raise ValueError(
            f"--shape needs {parts}, joined with x; got {'x'.join(map(str, shape))}"
            if count
            else f"the benchmark `{operation}` takes vectors; write --size instead of --shape"
        )
    shapes = [shape] if count == 2 else [(shape[0], shape[2]), (shape[2], shape[1])]
    random = np.random.default_rng(2024)
    return tuple(random.random(each, np.dtype(dtype)) * 2 - 1 for each in shapes)


def check_plot(path: str) -> None:
    """Check that a plot can be written to a file. This is called before the variants run."""
    if Path(path).suffix not in (".png", ".svg"):
        raise ValueError(f"--plot needs a file that ends in .png or .svg; got {path}")
    _check_folder(path)
    matplotlib()


def write_plot(timed: Benchmark, path: str) -> None:
    """Plot the times of the benchmark `timed` as bars, and write the plot to a file."""
    axes = timed.plot()
    figure: Any = axes.figure
    figure.savefig(path)
    matplotlib().close(figure)


def _check_folder(path: str | Path) -> None:
    if not Path(path).parent.is_dir():  # fail now, not after minutes of simulation
        raise ValueError(
            f"there is no folder {Path(path).parent}, so {Path(path).name} cannot be written"
        )


def report(
    operation: str,
    variants: Sequence[str] | None,
    option_texts: Sequence[str],
    path: str | Path,
    *,
    size: int | None,
    dtype: str,
    device: str | None,
) -> Benchmark:
    """Write a page about an operation to `path`. Return the benchmark that the page shows.

    The parameters are the same as for `bench`.
    """
    _check_folder(path)
    if size is None:
        size = _LENGTH["sim"] if operation == "access" else _SIDE
    timed = bench(operation, variants, option_texts, size=size, dtype=dtype, device=device)
    profiles = {}
    for name in timed.names:
        one = row_request(name)
        if one.variant in catalogue.variants(operation).names:
            arrays = explain.operands(operation, one.variant, size, np.dtype(dtype), {})
            profiles[name] = _profile(operation, one, arrays, timed)
    title = f"{operation}: {len(timed)} variant{'s' * (len(timed) > 1)}"
    markup.write(title, page(title, timed, profiles), path)
    return timed


def _profile(operation: str, one: RowRequest, arrays: Sequence[Any], timed: Benchmark) -> Profile:
    definition = OPERATIONS[operation]
    options = {k: v for k, v in timed.options.items() if definition.takes(one.variant, k)}
    options |= {definition.choice: one.variant, **one.options}
    return profile(operation, *arrays, device=timed.device, **options)


def page(title: str, timed: Benchmark, profiles: Mapping[str, Profile]) -> Markup:
    """Return the body of the HTML page: the benchmark, the profiles and their comparisons.

    `title` is the heading of the page. `timed` is the benchmark, and `profiles` is a dict from the
    names of the variants to their profiles.
    """
    parts = [tag("h1", title), benchmark_html.report(timed)]
    links = [tag("a", name, href=f"#{name}") for name in profiles]
    if len(links) > 1:
        parts.append(tag("p", ["Line by line: ", joined(links, ", ")]))
    parts += _ladders(timed, profiles)
    before: str | None = None
    for name, result in profiles.items():
        parts.append(tag("h2", name, "margin-top:3rem", id=name))
        variant = row_request(name).variant
        parts.append(tag("p", catalogue.variants(timed.operation)[variant].sentence))
        parts.append(profile_html.report(result))
        if before is not None:
            changes = comparison_html.report(compare(profiles[before], result))
            parts.append(folded(tag("b", f"What changed from {before}"), changes))
        before = name
    return joined(parts, "\n")


def _ladders(timed: Benchmark, profiles: Mapping[str, Profile]) -> Iterator[Markup]:
    """Yield the bars of times and of sectors, or a note if matplotlib is missing."""
    try:
        import matplotlib.pyplot as plt
    except ImportError:
        note = "The bars need matplotlib, which is not installed."
        yield tag("p", note, FAINT)
        return
    from coalesce import plots

    drawn = []
    if timed.comparable:
        drawn.append((timed.plot(theme="transparent"), "Milliseconds of each variant"))
    if profiles:
        axes = plots.ladder(profiles, of="sectors", theme="transparent")
        drawn.append((axes, "Sectors per request of each variant's loads of global memory"))
    for axes, words in drawn:
        file = io.StringIO()
        figure: Any = axes.figure
        figure.savefig(file, format="svg")
        plt.close(figure)
        yield image_of(file.getvalue(), words, "max-width:100%;display:block")
