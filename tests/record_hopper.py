"""Record the results of `wgmma` and tensor maps on a GPU of compute capability 9.0, bit by bit.

    python tests/record_hopper.py

Needs a GPU; no counters are read. Writes tests/data/wgmma_<gpu>.npz and
tests/data/tensor_maps_<gpu>.npz. `wgmma_cases.py` and `tensor_map_cases.py` have the cases.
"""

from __future__ import annotations

import ctypes
import sys
from pathlib import Path
from typing import Any

import numpy as np
import tensor_map_cases
import wgmma_cases

import coalesce

DATA = Path(__file__).parent / "data"


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


def main() -> None:
    """Run every case on the GPU and write the results."""
    if not (status := coalesce.gpu_status()):
        sys.exit(f"no GPU: {status}")
    name = next(d.description for d in coalesce.devices() if d.kind == "cuda")
    suffix = name.lower().replace("nvidia ", "").replace(" ", "_")
    found = {
        copy.name: tensor_map_cases.run(copy, seed, "cuda", encoded)
        for seed, copy in enumerate(tensor_map_cases.cases())
    }
    np.savez_compressed(DATA / f"tensor_maps_{suffix}.npz", **found)
    print(f"{len(found)} copies", flush=True)
    found = {
        case.name: wgmma_cases.run(case, seed, "cuda")
        for seed, case in enumerate(wgmma_cases.cases())
    }
    np.savez_compressed(DATA / f"wgmma_{suffix}.npz", **found)
    print(f"{len(found)} products", flush=True)


if __name__ == "__main__":
    main()
