"""coalesce.pointer: an argument that points into an array, like `d_x + r` in a CUDA program."""

import numpy as np
import pytest

import coalesce

NEIGHBOURS = """__global__ void neighbours(const float *x, float *y, int n) {
    int i = int(blockIdx.x * blockDim.x + threadIdx.x);
    if (i < n) y[i] = x[i - 1] + x[i + 1];
}"""
SHIFT = """__global__ void shift(float *x) {
    float value = x[threadIdx.x];
    __syncthreads();
    x[int(threadIdx.x) - 1] = value;
}"""


def test_the_whole_array_may_be_read(device):
    x = np.arange(100, dtype=np.float32)
    y = np.zeros(98, np.float32)
    kernel = coalesce.Kernel(NEIGHBOURS, device=device)
    kernel[1, 128](coalesce.pointer(x, 1), coalesce.pointer(y, 0), 98)
    np.testing.assert_array_equal(y, x[:-2] + x[2:])


def test_the_whole_array_may_be_written(device):
    x = np.arange(66, dtype=np.float32)
    coalesce.Kernel(SHIFT, device=device)[1, 64](coalesce.pointer(x, 2))
    np.testing.assert_array_equal(x, [0, *range(2, 66), 65])


def test_an_element_of_a_matrix(device):
    x = np.arange(60, dtype=np.float32).reshape(6, 10)
    y = np.zeros(8, np.float32)
    coalesce.Kernel(NEIGHBOURS, device=device)[1, 32](coalesce.pointer(x, 2, 1), y, 8)
    np.testing.assert_array_equal(y, x[2, :8] + x[2, 2:])


def test_two_pointers_into_one_array(device):
    """Each kernel reads one half of a work array and writes the other half."""
    x = np.arange(20, dtype=np.float32)
    before = x.copy()
    kernel = coalesce.Kernel(NEIGHBOURS, device=device)
    kernel[1, 32](coalesce.pointer(x, 1), coalesce.pointer(x, 10), 8)
    np.testing.assert_array_equal(x[10:18], before[:8] + before[2:10])
    np.testing.assert_array_equal(x[:10], before[:10])


def test_a_timed_launch_keeps_the_result(device):
    x = np.arange(66, dtype=np.float32)
    record = coalesce.Kernel(SHIFT, device=device).launch(1, 64, coalesce.pointer(x, 2), runs=2)
    assert record.kernel_ms > 0
    np.testing.assert_array_equal(x, [0, *range(2, 66), 65])


def test_outside_the_array_is_still_an_error():
    x = np.arange(98, dtype=np.float32)
    kernel = coalesce.Kernel(NEIGHBOURS, device="sim")
    with pytest.raises(coalesce.MemoryFault, match=r"before the start of `x`.*x\[-1\]|`x`"):
        kernel[1, 128](coalesce.pointer(x, 0), np.zeros(98, np.float32), 98)


def test_a_profile_names_the_elements_of_the_array():
    x, y = np.arange(100, dtype=np.float32), np.zeros(98, np.float32)
    kernel = coalesce.Kernel(NEIGHBOURS, device="sim")
    profile = kernel.profile(1, 128, coalesce.pointer(x, 1), y, 98)
    assert profile.arrays[0].shape == (100,)
    np.testing.assert_array_equal(y, x[:-2] + x[2:])


def test_check_and_trace_know_the_whole_array():
    x, y = np.arange(100, dtype=np.float32), np.zeros(98, np.float32)
    kernel = coalesce.Kernel(NEIGHBOURS, device="sim")
    arguments = coalesce.pointer(x, 1), y, 98
    assert not kernel.check(1, 128, *arguments)
    inside = coalesce.pointer(x[1:99], 0)
    assert {finding.kind for finding in kernel.check(1, 128, inside, y, 98)} == {"out_of_bounds"}
    trace = kernel.trace(1, 128, *arguments)
    assert trace.arrays[0].shape == (100,)
    with kernel.step(1, 128, *arguments) as stepping:
        assert stepping.arrays["x"].shape == (100,)


def test_blocks_in_other_processes_get_the_pointer():
    from concurrent.futures import ThreadPoolExecutor

    x, y = np.arange(1000, dtype=np.float32), np.zeros(998, np.float32)
    kernel = coalesce.Kernel(NEIGHBOURS, device="sim")
    arguments = coalesce.pointer(x, 1), y, 998
    with ThreadPoolExecutor(2) as executor:
        shared = kernel.profile(8, 128, *arguments, executor=executor)
    assert shared.totals() == kernel.profile(8, 128, *arguments).totals()


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
