"""PTX of other compilers: as bytes, with a signature, in a fat binary."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import coalesce

SOURCE = """
struct Vector { float *data; float *gradient; int shape[2]; int ndim; };
extern "C" __global__ void scale(float a, Vector x, Vector y) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < x.shape[0]) y.data[i] = a * x.data[i];
}
"""
VECTORS = SOURCE[: SOURCE.index("{\n    int i")]
PTX = coalesce.Kernel(SOURCE, device="sim").ptx
PLAIN = coalesce.Kernel(
    'extern "C" __global__ void k(const int *x, int *y, int n) { y[n] = x[n]; }', device="sim"
).ptx
X = np.arange(40, dtype=np.float32)


def vector(array: np.ndarray) -> dict[str, object]:
    return {"data": array, "gradient": None, "shape": (array.size, 0), "ndim": 1}


@pytest.mark.parametrize("text", [PTX, PTX.encode(), PTX.encode() + b"\0"])
def test_a_signature_gives_names_types_and_structures(text: str | bytes) -> None:
    y = np.zeros(40, np.float32)
    kernel = coalesce.Kernel(text, device="sim", signature=VECTORS)
    kernel[2, 32](2.0, vector(X), vector(y))
    np.testing.assert_array_equal(y, 2 * X)
    assert str(kernel.signature) == "scale(float a, Vector x, Vector y)"
    again = pickle.loads(pickle.dumps(kernel))
    with pytest.raises(coalesce.MemoryFault, match=r"past the end of `y\.data`"):
        again[2, 32](2.0, vector(X), vector(y[:30].copy()))
    assert not kernel.check(2, 32, 2.0, vector(X), vector(y))


def test_a_list_of_parameters_is_a_signature() -> None:
    x, y = np.arange(3, dtype=np.int32), np.zeros(3, np.int32)
    kernel = coalesce.Kernel(PLAIN, device="sim", signature="const int *in, int *out, int n")
    kernel[1, 1](x, y, 2)
    assert y.tolist() == [0, 0, 2]
    with pytest.raises(TypeError, match=r"`out` .*float32"):
        kernel[1, 1](x, X, 2)


@pytest.mark.parametrize(
    ("source", "signature", "error", "message"),
    [
        (PLAIN, "int *x, int *y", ValueError, r"have \[8, 8\] bytes; .* have \[8, 8, 4\] bytes"),
        (PLAIN, "int *x, int *y, wrong z", coalesce.CompileError, "wrong"),
        (PLAIN, 3, TypeError, r"`signature`"),
        (SOURCE, VECTORS, ValueError, "`signature` is for PTX"),
        (b"\x7fELF\x02\x01", None, ValueError, "machine code without PTX"),
        (b"\x50\xed\x55\xba\x01\x00", None, ValueError, "machine code without PTX"),
        (3, None, TypeError, "must be a string, bytes or a path"),
    ],
)
def test_wrong_sources_and_signatures(
    source: object, signature: object, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        coalesce.Kernel(source, device="sim", signature=signature)  # type: ignore[arg-type]
