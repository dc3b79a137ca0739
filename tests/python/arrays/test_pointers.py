"""coalesce.pointer: an argument that points into an array, like `d_x + r` in a CUDA program."""

import numpy as np
import pytest

import coalesce

NEIGHBOURS = """__global__ void neighbours(const float *x, float *y, int n) {
    int i = int(blockIdx.x * blockDim.x + threadIdx.x);
    if (i < n) y[i] = x[i - 1] + x[i + 1];
}"""


def test_an_element_of_a_matrix(device):
    x = np.arange(60, dtype=np.float32).reshape(6, 10)
    y = np.zeros(8, np.float32)
    coalesce.Kernel(NEIGHBOURS, device=device)[1, 32](coalesce.pointer(x, 2, 1), y, 8)
    np.testing.assert_array_equal(y, x[2, :8] + x[2, 2:])


def test_outside_the_array_is_still_an_error():
    x = np.arange(98, dtype=np.float32)
    kernel = coalesce.Kernel(NEIGHBOURS, device="sim")
    with pytest.raises(coalesce.MemoryFault, match=r"before the start of `x`.*x\[-1\]|`x`"):
        kernel[1, 128](coalesce.pointer(x, 0), np.zeros(98, np.float32), 98)


def test_pickled_pointers_point_to_the_same_element():
    import pickle

    again = pickle.loads(pickle.dumps(coalesce.pointer(np.arange(5.0), 3)))
    assert again.offset == 3
    np.testing.assert_array_equal(again.array, np.arange(5.0))


X = np.zeros((4, 5), np.float32)


@pytest.mark.parametrize(
    ("array", "index", "error", "message"),
    [
        ([1.0], (0,), TypeError, "`array` must be a NumPy array; got list"),
        (X[:, 1:], (0,), ValueError, r"`array` is not C-contiguous \(strides \(20, 4\)\)"),
        (X, (), IndexError, r"one integer, or 2 integers: one for each axis .* \(4, 5\); got 0"),
        (X, (1, 2, 3), IndexError, "one integer, or 2 integers.*; got 3"),
        (X, (21,), IndexError, r"index 21 is outside the array of shape \(4, 5\)"),
        (X, (-1,), IndexError, "index -1 is outside"),
        (X, (1, 5), IndexError, "index 1, 5 is outside"),
        (X, (1.0,), TypeError, "`index` must consist of integers; got float 1.0"),
        (X, (True,), TypeError, "`index` must consist of integers; got bool True"),
    ],
)
def test_wrong_pointers_are_named(array, index, error, message):
    with pytest.raises(error, match=message):
        coalesce.pointer(array, *index)


def test_the_end_of_an_array_is_a_pointer():
    assert coalesce.pointer(X, 20).offset == 20


def test_the_arrays_dtype_is_checked():
    with pytest.raises(TypeError, match=r"argument `x` .* needs an array of float32"):
        coalesce.Kernel(NEIGHBOURS, device="sim")[1, 32](
            coalesce.pointer(np.zeros(4), 1), np.zeros(4, np.float32), 1
        )
