"""Record texture fetches and surface accesses on a GPU, bit by bit.

    python tools/record_textures.py [--output FILE]

Needs a GPU. `texture_cases.py` has the cases. The results are in tests/data/textures_<gpu>.npz,
with the names of the GPU and of the driver, and with checksums of the inputs.
tests/python/instructions/test_recorded_textures.py compares them with the simulator.
"""

from __future__ import annotations

import argparse
import functools
import json
import multiprocessing
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

import numpy as np
import texture_cases

import coalesce

FILE = Path(__file__).parents[1] / "tests" / "data" / "textures_h100.npz"


@functools.cache
def _cases() -> list[texture_cases.Case]:
    return list(texture_cases.cases())


def _outcome(number: int) -> Any:
    """Return what a case computed on the GPU, or the message of its error."""
    try:
        return _cases()[number].run("cuda")
    except (coalesce.CoalesceError, RuntimeError, ValueError) as error:
        return f"{type(error).__name__}: {error}"


def _outcomes(device: str) -> list[Any]:
    """Run all cases; those that failed once more, each in its own process.

    A fault spoils the GPU for the rest of the process.
    """
    spawn = multiprocessing.get_context("spawn")
    numbers = list(range(len(_cases())))
    if device == "sim":
        return [case.run("sim") for case in _cases()]
    with spawn.Pool(4) as pool:
        outcomes = pool.map(_outcome, numbers, chunksize=16)
    failed = [n for n in numbers if isinstance(outcomes[n], str)]
    with spawn.Pool(4, maxtasksperchild=1) as pool:
        again = pool.map(_outcome, failed[:40], chunksize=1)
    for number, outcome in zip(failed, again, strict=False):
        outcomes[number] = outcome
    return outcomes


def main() -> None:
    """Run every case, and write the results."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=FILE)
    parser.add_argument("--device", choices=("cuda", "sim"), default="cuda", help="sim: for a test")
    options = parser.parse_args()
    if options.device == "cuda" and not (status := coalesce.gpu_status()):
        sys.exit(f"no GPU: {status}")
    started = time.perf_counter()
    outcomes = _outcomes(options.device)
    results, sums, failures = {}, {}, {}
    for case, outcome in zip(_cases(), outcomes, strict=True):
        if isinstance(outcome, str):
            failures[case.name] = outcome
            print(f"{case.name}: {outcome.splitlines()[0][:300]}")
        else:
            results[case.name] = texture_cases.shuffled(outcome)
            sums[case.name] = texture_cases.checksum(case)
    name = next(d.description for d in coalesce.devices() if d.kind == options.device)
    about = {"gpu": name, "checksums": sums, "failures": failures}
    if options.device == "cuda":
        about["driver"] = ".".join(map(str, coalesce._core.cuda.driver_status()["version"]))
    np.savez_compressed(
        options.output, about=np.frombuffer(json.dumps(about).encode(), np.uint8), **results
    )
    seconds = time.perf_counter() - started
    size = options.output.stat().st_size
    print(f"{len(results)} of {len(outcomes)} cases, {size} bytes, {seconds:.1f} s")


if __name__ == "__main__":
    main()
