"""Record the results of `wgmma` and tensor maps on a GPU of compute capability 9.0, bit by bit.

    python tools/record_hopper.py

Needs a GPU; no counters are read. Writes tests/data/wgmma_<gpu>.npz and
tests/data/tensor_maps_<gpu>.npz. `wgmma_cases.py` and `tensor_map_cases.py` have the cases.
"""

from __future__ import annotations

import ctypes
import multiprocessing
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

import numpy as np
import tensor_map_cases
import wgmma_cases

import coalesce

DATA = Path(__file__).parents[1] / "tests" / "data"


def encoded(case: tensor_map_cases.Copy, array: Any) -> bytes:
    """Return the driver's tensor map for a case."""
    driver = ctypes.CDLL("libcuda.so.1")
    rank = len(case.box)
    memory = ctypes.create_string_buffer(192)
    at = (ctypes.addressof(memory) + 63) // 64 * 64
    code, _ = tensor_map_cases.ELEMENTS[case.element]
    status = driver.cuTensorMapEncodeTiled(
        ctypes.c_void_p(at), ctypes.c_int(code), ctypes.c_uint32(rank),
        ctypes.c_void_p(array.__cuda_array_interface__["data"][0]),
        (ctypes.c_uint64 * 5)(*case.extents), (ctypes.c_uint64 * 5)(*case.strides),
        (ctypes.c_uint32 * 5)(*case.box), (ctypes.c_uint32 * 5)(*(case.steps or (1,) * rank)),
        ctypes.c_int(0), ctypes.c_int(case.swizzle), ctypes.c_int(0), ctypes.c_int(case.nan),
    )  # fmt: skip
    if status:
        raise ValueError(f"cuTensorMapEncodeTiled returned {status} for {case.name}")
    return ctypes.string_at(at, 128)


def _outcome(task: tuple[str, int]) -> Any:
    """Return what a case computed on the GPU, or the message of its error."""
    module, number = task
    cases = {"tensor_maps": tensor_map_cases, "wgmma": wgmma_cases}[module]
    case = list(cases.cases())[number]
    more = (encoded,) if module == "tensor_maps" else ()
    try:
        return cases.run(case, number, "cuda", *more)
    except (coalesce.CoalesceError, RuntimeError, ValueError) as error:
        return str(error)


def _outcomes(tasks: list[tuple[str, int]]) -> list[Any]:
    """Run cases in several processes. Run those that fail once more, each in its own process.

    After a case that ends with an error of the GPU, the later cases of the same process fail, too.
    """
    spawn = multiprocessing.get_context("spawn")
    with spawn.Pool(8) as pool:
        outcomes = pool.map(_outcome, tasks, chunksize=4)
    failed = [i for i, outcome in enumerate(outcomes) if isinstance(outcome, str)]
    with spawn.Pool(4, maxtasksperchild=1) as pool:
        again = pool.map(_outcome, [tasks[i] for i in failed], chunksize=1)
    for i, outcome in zip(failed, again, strict=True):
        outcomes[i] = outcome
    return outcomes


def main() -> None:
    """Run every case on the GPU and write the results."""
    if not (status := coalesce.gpu_status()):
        sys.exit(f"no GPU: {status}")
    name = next(d.description for d in coalesce.devices() if d.kind == "cuda")
    suffix = name.lower().replace("nvidia ", "").split()[0]
    for module, cases in (("tensor_maps", tensor_map_cases), ("wgmma", wgmma_cases)):
        names = [case.name for case in cases.cases()]
        outcomes = dict(
            zip(names, _outcomes([(module, i) for i in range(len(names))]), strict=True)
        )
        for case, outcome in outcomes.items():
            if isinstance(outcome, str):
                print(f"{module}: {case}: {outcome}", flush=True)
        right = {case: o for case, o in outcomes.items() if not isinstance(o, str)}
        np.savez_compressed(DATA / f"{module}_{suffix}.npz", **right)
        print(f"{len(right)} of {len(outcomes)} cases of {module}", flush=True)


if __name__ == "__main__":
    main()
