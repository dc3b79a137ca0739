"""Record the results of a GPU, bit by bit: matrix products, tensor maps, textures and surfaces.

    python tools/record_results.py [mma] [wgmma] [tensor_maps] [textures]

Needs a GPU, and for wgmma and tensor_maps one of compute capability 9.0; no counters are read.
Writes tests/data/KIND_<gpu>.npz, with the names of the GPU and of the driver, checksums of the
inputs of textures, and the errors of cases that failed. `matrix_cases.py`, `wgmma_cases.py`,
`tensor_map_cases.py` and `texture_cases.py` have the cases; the tests of the same names compare the
results with the simulator's.
"""

import argparse
import ctypes
import functools
import json
import multiprocessing
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

import matrix_cases
import numpy as np
import tensor_map_cases
import texture_cases
import wgmma_cases

import coalesce

DATA = Path(__file__).parents[1] / "tests" / "data"
CASES = {
    "mma": matrix_cases.forms,
    "wgmma": wgmma_cases.cases,
    "tensor_maps": tensor_map_cases.cases,
    "textures": texture_cases.cases,
}


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


@functools.cache
def _cases(kind: str) -> list[Any]:
    return list(CASES[kind]())


def _run(kind: str, number: int, device: str) -> Any:
    case = _cases(kind)[number]
    if kind == "mma":
        d, a, b, c = matrix_cases.registers(case, number)
        matrix_cases.kernel_of(case, device)[len(d), 32](d, a, b, c)
        return matrix_cases.chosen(case, d)
    if kind == "wgmma":
        return wgmma_cases.run(case, number, device)
    if kind == "tensor_maps":
        encode = tensor_map_cases.simulated if device == "sim" else encoded
        return tensor_map_cases.run(case, number, device, encode)
    return texture_cases.shuffled(case.run(device))


def _outcome(task: tuple[str, int, str]) -> Any:
    """Return what a case computed, or the message of its error."""
    try:
        return _run(*task)
    except (coalesce.CoalesceError, RuntimeError, ValueError) as error:
        return f"{type(error).__name__}: {error}"


def _outcomes(tasks: list[tuple[str, int, str]]) -> list[Any]:
    """Run cases in several processes. Run those that fail once more, each in its own process.

    After a case that ends with an error of the GPU, the later cases of the same process fail, too.
    """
    spawn = multiprocessing.get_context("spawn")
    with spawn.Pool(4) as pool:
        outcomes = pool.map(_outcome, tasks, chunksize=16)
    failed = [n for n, outcome in enumerate(outcomes) if isinstance(outcome, str)]
    with spawn.Pool(4, maxtasksperchild=1) as pool:
        again = pool.map(_outcome, [tasks[n] for n in failed], chunksize=1)
    for n, outcome in zip(failed, again, strict=True):
        outcomes[n] = outcome
    return outcomes


def main() -> None:
    """Run every case of the kinds, and write the results."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("kinds", nargs="*", help=f"of {', '.join(CASES)} (all)")
    parser.add_argument("--device", choices=("cuda", "sim"), default="cuda", help="sim: for a test")
    parser.add_argument("--output", type=Path, default=DATA, help="the folder of the files")
    options = parser.parse_args()
    if options.device == "cuda" and not (status := coalesce.gpu_status()):
        sys.exit(f"no GPU: {status}")
    gpu = next(d.description for d in coalesce.devices() if d.kind == options.device)
    about: dict[str, Any] = {"gpu": gpu}
    if options.device == "cuda":
        about["driver"] = ".".join(map(str, coalesce._core.cuda.driver_status()["version"]))
    for kind in options.kinds or CASES:
        names = [getattr(case, "opcode" if kind == "mma" else "name") for case in _cases(kind)]
        outcomes = _outcomes([(kind, n, options.device) for n in range(len(names))])
        failures = {n: o for n, o in zip(names, outcomes, strict=True) if isinstance(o, str)}
        for name, message in failures.items():
            print(f"{kind}: {name}: {message.splitlines()[0][:300]}", flush=True)
        right = {n: o for n, o in zip(names, outcomes, strict=True) if n not in failures}
        said = {**about, "failures": failures}
        if kind == "textures":
            said["checksums"] = {case.name: texture_cases.checksum(case) for case in _cases(kind)}
        file = options.output / f"{kind}_{gpu.lower().replace('nvidia ', '').split()[0]}.npz"
        bits = np.frombuffer(json.dumps(said).encode(), np.uint8)
        np.savez_compressed(file, about=bits, **right)
        print(f"{file}: {len(right)} of {len(outcomes)} cases", flush=True)


if __name__ == "__main__":
    main()
