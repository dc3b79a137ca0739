"""Time the forms of `split_k`, and `tensor_map`, and fit the model of ``variant="best"``.

python benchmarks/best.py --times times.json        # times random shapes on a GPU, then fits
python benchmarks/best.py --fit times.json          # fits recorded times, without a GPU

Both write python/coalesce/catalogue/best.json. The constants minimise the squares of the logarithms
of predicted over measured times. Then the program prints how much time the choice loses, compared
with the fastest form.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
from gpu import need_gpu, state

from coalesce.arrays import devices
from coalesce.arrays.creation import to_device
from coalesce.benchmarking import gpu
from coalesce.benchmarking.clock import GpuClock
from coalesce.benchmarking.shapes import random_shapes
from coalesce.catalogue import best

OUT = Path(best.__file__).with_name("best.json")
TENSOR_MAP = ["start", "stage", "store", "store_unaligned", "copy", "copy_mb", "divided", "share"]
FITTED = ["start", "wave", "latency", "step", "store", "store_unaligned", "unaligned", "lone"]
LEAST_WORK = 5e7  # of the shapes from which the constants of `tensor_map` are fitted
Times = dict[str, float]  # in microseconds, by "tile/parts/slices" or "tensor_map"
Rows = list[tuple[tuple[int, int, int], Times]]


def measured(seed: int, count: int) -> Rows:
    """Time each form, with each number of slices, for random shapes."""
    device = devices.resolve("cuda")
    multiprocessors = device.multiprocessors or 132
    clock, random = GpuClock(device, "kept"), np.random.default_rng(seed)
    rows: Rows = []
    for shape in random_shapes(seed, count):
        m, n, k = shape
        a, b = (to_device(random.random(x, np.float32) * 2 - 1, device) for x in ((m, k), (k, n)))

        def time(options: dict[str, Any], a: Any = a, b: Any = b) -> float:
            launches = [call for _, call in gpu.launches("matmul", (a, b), options)]
            once = statistics.median(sum(times) for times in clock.runs(launches, 3))
            batch, _ = clock.batch(launches, max(1, min(40, round(0.5 / max(once, 1e-3)))))
            return 1e3 * statistics.median(map(sum, batch(5)))

        times = {"tensor_map": time({"variant": "tensor_map"})}
        for form in best.constants().forms:
            if form.time(m, n, k, 1, multiprocessors) > 4 * min(times.values()):
                continue
            for slices in best.possible_slices(m, n, k, form, multiprocessors):
                best.division = lambda *_, form=form, slices=slices: (form.parts, slices)
                name = f"{form.tile}/{form.parts}/{slices}"
                times[name] = time({"variant": "split_k", "tile": form.tile})
        rows.append((shape, {name: round(us, 2) for name, us in times.items()}))
        print(shape, rows[-1][1], flush=True)
    return rows


def fitted(
    start: Sequence[float],
    predict: Callable[[np.ndarray[Any, Any]], Sequence[float]],
    times: Sequence[float],
) -> tuple[list[float], float]:
    """Return the constants, and the standard deviation of predicted over measured times.

    This is the method of Levenberg and Marquardt, with the logarithms of the constants.
    """
    wanted = np.log(times)

    def residuals(logarithms: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        return np.log(predict(np.exp(logarithms))) - wanted

    at = np.log(np.maximum(start, 1e-4))
    now, damping = residuals(at), 1e-2
    for _ in range(100):
        steps = 1e-4 * np.eye(len(at))
        slopes = np.stack([(residuals(at + step) - now) / 1e-4 for step in steps], 1)
        change = np.linalg.solve(
            slopes.T @ slopes + damping * len(times) * 1e-2 * np.eye(len(at)), -slopes.T @ now
        )
        there = at + np.clip(change, -0.5, 0.5)
        then = residuals(there)
        if then @ then < now @ now:
            at, now, damping = there, then, max(damping / 3, 1e-6)
        else:
            damping *= 3
    constants = [float(f"{x:.3g}") for x in np.exp(at)]
    return constants, float(np.sqrt(now @ now / len(now)))


def fit(rows: Rows, multiprocessors: int) -> best.Constants:
    """Fit all constants, and print how exact the predictions are."""
    known = best.constants()
    timed = [
        (shape, (int(tile), int(parts)), int(slices), time)
        for shape, times in rows
        for name, time in times.items()
        if name.count("/") == 2
        for tile, parts, slices in [name.split("/")]
    ]
    for _ in range(2):  # the time of a form and the time to add up slices depend on each other
        forms = []
        for form in known.forms:
            own = [(*row[:1], *row[2:]) for row in timed if row[1] == (form.tile, form.parts)]

            def predict(
                x: np.ndarray[Any, Any],
                form: best.Form = form,
                own: Any = own,
                known: best.Constants = known,
            ) -> list[float]:
                changed = replace(form, **dict(zip(FITTED, x.tolist(), strict=True)))
                return [
                    changed.time(*shape, slices, multiprocessors)
                    + best.time_to_add(*shape[:2], slices, known)
                    for shape, slices, _ in own
                ]

            start = [getattr(form, name) for name in FITTED]
            values, spread = fitted(start, predict, [row[-1] for row in own])
            forms.append(replace(form, **dict(zip(FITTED, values, strict=True))))
            print(f"split_k tile={form.tile} parts={form.parts}: {len(own)} times, {spread:.1%}")
        by_name = {(form.tile, form.parts): form for form in forms}
        sliced = [row for row in timed if row[2] > 1 and row[1] in by_name]

        def with_slices(
            x: np.ndarray[Any, Any],
            by_name: Any = by_name,
            sliced: Any = sliced,
            known: best.Constants = known,
        ) -> list[float]:
            changed = replace(known, add=float(x[0]), add_mb=float(x[1]))
            return [
                by_name[form].time(*shape, slices, multiprocessors)
                + best.time_to_add(*shape[:2], slices, changed)
                for shape, form, slices, _ in sliced
            ]

        (add, add_mb), spread = fitted(
            [known.add, known.add_mb], with_slices, [row[-1] for row in sliced]
        )
        print(f"slices: {len(sliced)} times, {spread:.1%}")
        known = replace(known, forms=tuple(forms), add=add, add_mb=add_mb)

    large = [
        (shape, times["tensor_map"])
        for shape, times in rows
        if math.prod(shape) > LEAST_WORK and "tensor_map" in times
    ]

    def whole(x: np.ndarray[Any, Any]) -> list[float]:
        constants = dict(zip(TENSOR_MAP, x.tolist(), strict=True))
        return [best.time_of_tensor_map(*s, multiprocessors, constants) for s, _ in large]

    start = [known.tensor_map[name] for name in TENSOR_MAP]
    values, spread = fitted(start, whole, [time for _, time in large])
    print(f"tensor_map: {len(large)} shapes, {spread:.1%}")
    return replace(known, tensor_map=dict(zip(TENSOR_MAP, values, strict=True)))


def loss(rows: Rows, constants: best.Constants, multiprocessors: int) -> None:
    """Print how much time the choice loses, compared with the fastest form."""
    ratios = []
    for (m, n, k), times in rows:
        predicted = {
            "tensor_map": best.time_of_tensor_map(m, n, k, multiprocessors, constants.tensor_map)
        }
        for form in constants.forms:
            for slices in best.possible_slices(m, n, k, form, multiprocessors):
                name = f"{form.tile}/{form.parts}/{slices}"
                more = best.time_to_add(m, n, slices, constants)
                predicted[name] = form.time(m, n, k, slices, multiprocessors) + more
        # Forms without a time are far slower.
        chosen = min(predicted.keys() & times.keys(), key=lambda name: predicted[name])
        ratios.append(min(times.values()) / times[chosen])
    print(
        f"the choice takes {1 / statistics.geometric_mean(ratios) - 1:.2%} more time than the "
        f"fastest form; {sum(x < 0.9 for x in ratios)} of {len(ratios)} shapes lose more than a "
        f"tenth, the worst {1 - min(ratios):.0%}"
    )


def main() -> None:
    """Measure if wanted, fit, and write the file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--times", type=Path, help="time shapes, and write the times to this file")
    parser.add_argument("--fit", type=Path, nargs="*", default=[], help="files of recorded times")
    parser.add_argument("--out", type=Path, default=OUT)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=300)
    options = parser.parse_args()
    multiprocessors, name = 132, "NVIDIA H200"
    rows: Rows = []
    if options.times:
        need_gpu()
        multiprocessors = devices.resolve("cuda").multiprocessors or 132
        name = state().get("name", "")
        rows = measured(options.seed, options.count)
        options.times.write_text(json.dumps(rows), encoding="utf-8")
    for file in options.fit:
        rows += [(tuple(shape), times) for shape, times in json.loads(file.read_text())]
    half = rows[::2], rows[1::2]
    for fitting, other in (half, half[::-1]):  # how well a fit holds for other shapes
        print("on half of the shapes:")
        loss(other, fit(fitting, multiprocessors), multiprocessors)
    print("on all shapes:")
    constants = fit(rows, multiprocessors)
    loss(rows, constants, multiprocessors)
    text = json.dumps({"gpu": name, **asdict(constants)}, indent=1)
    options.out.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
