"""Runs cuBLAS, or the copy function of the CUDA driver, on the GPU arrays of a benchmark.

A benchmark can compare the variants of this package with cuBLAS and with the copy function. Both
are called peers.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

from coalesce._core import cuda
from coalesce.arrays import foreign
from coalesce.benchmarking.clock import Call
from coalesce.common.dtypes import code_of, dtype_name
from coalesce.common.errors import DeviceUnavailable
from coalesce.compile.pathfinder import pathfinder

NAMES = ("cublas", "cublas_tf32", "memcpy")


@cache
def cublas_path() -> str:
    """Return the path of cuBLAS. If it is not installed, raise DeviceUnavailable."""
    try:
        return str(pathfinder().load_nvidia_dynamic_lib("cublas").abs_path)
    except Exception as error:
        reason = str(error).partition("\n")[0]
        raise DeviceUnavailable(
            "variants 'cublas' and 'cublas_tf32' need cuBLAS, which was not found: "
            f"pip install nvidia-cublas ({reason})"
        ) from None


@cache
def cublas(ordinal: int) -> Any:
    """Return an object that calls cuBLAS on a GPU.

    The object has the attribute `version` and the method `multiply`.
    """
    return cuda.Cublas(cublas_path(), ordinal)


def call_of(name: str, arrays: Sequence[Any], out: Any, ordinal: int) -> Call:
    """Return a function that starts cuBLAS or a copy on a stream: ``function(stream)``.

    `name` is one of `NAMES`, such as "cublas" or "memcpy" (a copy by the CUDA driver). The function
    reads `arrays` and writes `out`, which are all in the memory of GPU number `ordinal`.
    """
    sources = [foreign.require_gpu_array(array) for array in arrays]
    target = foreign.require_gpu_array(out)
    if name == "memcpy":
        gpu, source = cuda.Device(ordinal), sources[0]
        return lambda stream: gpu.copy(target.address, source.address, source.bytes, stream)
    a, b = sources
    extents = (a.shape[0], b.shape[1], a.shape[1])
    kinds = [dtype_name(code_of(x.dtype)) for x in (a, target)]
    addresses = (a.address, b.address, target.address)
    product, in_tf32 = cublas(ordinal).multiply, name == "cublas_tf32"
    owners = (arrays, out)  # the function holds them, so the memory is not freed
    return lambda stream: (product(extents, addresses, *kinds, in_tf32, stream), owners)
