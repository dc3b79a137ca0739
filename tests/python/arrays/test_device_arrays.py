"""Arrays in device memory, on each device, and features that only simulated arrays have."""

import gc
import weakref
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import coalesce
from coalesce import DeviceArray
from coalesce.arrays import simulated_memory

SCALE = """
extern "C" __global__ void scale(float *x, float factor, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] *= factor;
}
"""
ADD = """
extern "C" __global__ void add(const float *a, const float *b, float *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = a[i] + b[i];
}
"""
POINTERS = """
__device__ float *kept;
extern "C" __global__ void keep(float *x) { kept = x; }
extern "C" __global__ void use(float *out) { *out = kept[2]; }
extern "C" __global__ void sum(float **rows, int n, float *out) {
    float s = 0;
    for (int r = 0; r < n; ++r) s += rows[r][threadIdx.x];
    out[threadIdx.x] = s;
}
"""


@pytest.fixture
def scale(device: str) -> coalesce.Kernel:
    return coalesce.Kernel(SCALE, device=device)


def test_makers(device: str) -> None:
    assert coalesce.zeros((2, 3), device=device).get().tolist() == [[0] * 3] * 2
    assert coalesce.ones(3, np.int64, device=device).get().tolist() == [1] * 3
    made = coalesce.empty((4, 5), np.float64, device)
    assert (made.shape, made.dtype, made.ndim, made.size, made.nbytes, len(made)) == (
        (4, 5), np.float64, 2, 20, 160, 4,
    )  # fmt: skip
    assert made.device.startswith(device)
    made.set(np.arange(20.0).reshape(4, 5))
    assert made.get()[3, 4] == 19
    for shape in ((), (0,), (3, 0)):
        assert coalesce.zeros(shape, device=device).get().shape == shape
    assert coalesce.asarray(np.float32(3), device=device).item() == 3


@pytest.mark.parametrize("dtype", ["b1", "i1", "u2", "f2", "i8", "f8", "c8", "c16"])
def test_copies_to_the_device_and_back(device: str, dtype: str) -> None:
    x = (np.arange(24) % 2).astype(dtype).reshape(2, 3, 4)
    for layout in (x, x.T, x[:, ::2], np.asfortranarray(x)):
        d = coalesce.to_device(layout, device)
        np.testing.assert_array_equal(d.get(), layout)
        np.testing.assert_array_equal(np.asarray(d), layout)
        np.testing.assert_array_equal(d.copy().get(), layout)


def test_asarray(device: str) -> None:
    x = coalesce.asarray([[1, 2], [3, 4]], np.float32, device)
    assert coalesce.asarray(x) is x
    assert coalesce.asarray(x, device=device) is x
    converted = coalesce.asarray(x, np.int32)
    assert converted.dtype == np.int32
    assert converted.device == x.device
    assert converted.get().tolist() == [[1, 2], [3, 4]]
    elsewhere = coalesce.asarray(x, device="sim")
    assert elsewhere.device == "sim:h200"
    assert elsewhere.get().tolist() == [[1, 2], [3, 4]]


def test_kernels_accept_device_arrays(scale: coalesce.Kernel, device: str) -> None:
    x = coalesce.ones(100, device=device)
    assert scale[1, 128](x, 3.0, 100) is None
    assert (x.get() == 3).all()
    scale[1, 128](x[10:20], 2.0, 10)
    assert x.get()[8:22].tolist() == [3, 3, *[6] * 10, 3, 3]
    # If a kernel has no device, the array decides where it runs.
    coalesce.Kernel(SCALE)[1, 128](x, 0.5, 100)
    assert x.get()[0] == 1.5


def test_operations_accept_and_return_device_arrays(device: str) -> None:
    a = np.random.default_rng(1).random((17, 33), np.float32)
    x = coalesce.asarray(a, device=device)
    c = coalesce.matmul(x, x.reshape(33, 17), variant="tiled")
    assert isinstance(c, DeviceArray)
    assert c.device == x.device
    np.testing.assert_allclose(c.get(), a @ a.reshape(33, 17), rtol=1e-5)
    out = coalesce.empty((33, 17), device=device)
    assert coalesce.transpose(x, out=out) is out
    np.testing.assert_array_equal(out.get(), a.T)


@pytest.mark.parametrize(
    "index",
    [1, -1, (1, 2), (1, 2, 3), np.s_[1:3], np.s_[1, :2], np.s_[...], np.s_[:], np.s_[1, ...],
     np.s_[2, 1, 1:], np.s_[1:1], None, np.s_[1:2, 1:2], np.s_[1, 1:2, 1:3], np.int64(1)],
    ids=str,
)  # fmt: skip
def test_parts(device: str, index: Any) -> None:
    values = np.arange(60, dtype=np.float32).reshape(3, 4, 5)
    x = coalesce.asarray(values, device=device)
    expected = values[index]
    part = x[index]
    assert isinstance(part, DeviceArray)
    assert part.shape == expected.shape
    np.testing.assert_array_equal(part.get(), expected)
    part.set(np.full(expected.shape, -1, np.float32))
    changed = values.copy()
    changed[index] = -1
    np.testing.assert_array_equal(x.get(), changed)
    x[index] = expected + 0.0
    np.testing.assert_array_equal(x.get(), values)


@given(st.data())
def test_slices_equal_those_of_numpy(data: st.DataObject) -> None:
    shape = data.draw(st.lists(st.integers(0, 4), max_size=4).map(tuple))
    values = np.arange(int(np.prod(shape)), dtype=np.int32).reshape(shape)
    x = coalesce.asarray(values, device="sim")
    part = st.integers(-5, 5) | st.slices(4) | st.just(Ellipsis) | st.none()
    index = data.draw(st.lists(part, max_size=4).map(tuple))
    try:
        expected = values[index]
    except IndexError:
        with pytest.raises(IndexError):
            x[index]
        return
    if not np.asarray(expected).flags.c_contiguous:
        with pytest.raises(IndexError, match="are not contiguous"):
            x[index]
        return
    np.testing.assert_array_equal(x[index].get(), expected)


@pytest.mark.parametrize(
    ("index", "error", "message"),
    [
        (np.s_[::2], IndexError, "are not contiguous"),
        (np.s_[:, 1], IndexError, "are not contiguous"),
        (7, IndexError, "out of bounds"),
        ((0, 0, 0), IndexError, "too many indices"),
        ([0, 1], TypeError, "must be integers or slices; got list"),
        (np.array([True, False]), TypeError, "got ndarray"),
        (True, TypeError, "got bool"),
        (1.0, TypeError, "got float"),
        ("a", TypeError, "got str"),
    ],
)
def test_invalid_parts(device: str, index: Any, error: type[Exception], message: str) -> None:
    x = coalesce.zeros((4, 4), device=device)
    with pytest.raises(error, match=message):
        x[index]


def test_assignments(device: str) -> None:
    x = coalesce.zeros((3, 4), np.int32, device)
    x[1] = [1, 2, 3, 4]
    x[2] = coalesce.asarray(np.full(4, 9, np.int32), device=device)
    x[0, 2:] = 5
    assert x.get().tolist() == [[0, 0, 5, 5], [1, 2, 3, 4], [9] * 4]
    assert [row.get()[0] for row in x] == [0, 1, 9]
    with pytest.raises(TypeError, match="dtype float64 to an array of dtype int32"):
        x[0] = np.zeros(4)
    with pytest.raises(ValueError, match=r"shape \(3,\); the selected elements have shape \(4,\)"):
        x[0] = [1, 2, 3]
    with pytest.raises(ValueError, match="`values` must have shape"):
        x.set(np.zeros(3, np.int32))


@pytest.mark.parametrize(
    ("shape", "dtype", "error", "message"),
    [
        (2**50, "f4", coalesce.LaunchError, "out of .*memory"),
        ((2**40, 2**40), "f4", coalesce.LaunchError, "out of .*memory"),
    ],
)
def test_invalid_arrays(
    device: str, shape: Any, dtype: str, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        coalesce.empty(shape, dtype, device)
    with pytest.raises(error, match="pinning|" + message):
        coalesce.pinned_empty(shape, dtype, device)


def test_pinned_arrays_are_numpy_arrays(device: str) -> None:
    random = np.random.default_rng(0)
    a, b, out = (coalesce.pinned_empty((1500, 700), device=device) for _ in range(3))
    a[:], b[:] = random.random(a.shape), random.random(b.shape)
    add = coalesce.Kernel(ADD, device=device)
    add[-(-a.size // 256), 256](a, b, out, a.size)
    view = out[700:, ::3]
    del out  # The view keeps the memory alive.
    gc.collect()
    np.testing.assert_array_equal(view, (a + b)[700:, ::3])
    assert (a.dtype, a.flags.c_contiguous, a.flags.writeable) == (np.float32, True, True)
    assert coalesce.pinned_empty((0, 3), np.int8, device).shape == (0, 3)
    assert coalesce.pinned_empty((), np.int8, device).shape == ()


def test_pointers_outlive_the_launch(device: str) -> None:
    x = coalesce.asarray(np.arange(4, dtype=np.float32), device=device)
    out = coalesce.zeros(1, device=device)
    keep = coalesce.Kernel(POINTERS, "keep", device=device)
    keep[1, 1](x)
    keep.get_function("use")[1, 1](out)
    assert out.item() == 2


def test_tables_of_pointers(device: str) -> None:
    rows = [coalesce.ones(8, device=device) for _ in range(5)]
    table = coalesce.asarray(np.array([row._address for row in rows], np.uint64), device=device)
    out = coalesce.zeros(8, device=device)
    coalesce.Kernel(POINTERS, "sum", device=device)[1, 8](table, 5, out)
    assert out.get().tolist() == [5] * 8


# --- arrays of the simulator ---


def test_a_pointer_into_a_freed_array_is_reported() -> None:
    x = coalesce.ones((2, 4), device="sim")
    out = np.zeros(1, np.float32)
    keep = coalesce.Kernel(POINTERS, "keep", device="sim")
    keep[1, 1](x)
    use = keep.get_function("use")
    use[1, 1](out)
    del x
    gc.collect()
    coalesce.ones((2, 4), device="sim")  # the new array does not reuse the freed memory
    with pytest.raises(coalesce.MemoryFault) as caught:
        use[1, 1](out)
    message = str(caught.value)
    assert message.startswith("read of 4 bytes in a freed array")
    assert "has shape (2, 4), float32 and was freed; the address is" in message
    assert "device array[0, 2]" in message
    assert "kept[2]" in message


def test_faults_name_the_argument() -> None:
    kernel = coalesce.Kernel(SCALE, device="sim")
    x = coalesce.zeros((2, 8), device="sim")
    with pytest.raises(coalesce.MemoryFault) as caught:
        kernel[1, 32](x, 1.0, 20)
    assert "past the end of `x`" in str(caught.value)
    assert "shape (2, 8), float32; the address is x[2, 0]" in str(caught.value)


def test_simulated_arrays_are_no_gpu_arrays() -> None:
    x = coalesce.zeros(4, device="sim")
    assert not hasattr(x, "__cuda_array_interface__")
    shared = np.from_dlpack(x)
    x[1] = 5
    assert shared.tolist() == [0, 5, 0, 0]


def test_the_device_must_be_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    x = coalesce.zeros((4, 4), device="sim")
    monkeypatch.setattr(x._memory, "device", "sim:other")
    kernel = coalesce.Kernel(SCALE, device="sim")
    with pytest.raises(ValueError, match=r"`x` .* is an array in the memory of sim:other, but"):
        kernel[1, 32](x, 1.0, 4)
    with pytest.raises(
        ValueError, match="`a` is an array in the memory of sim:other, but the call runs on"
    ):
        coalesce.transpose(x, device="sim")


def test_unwritten_elements_are_known() -> None:
    x = coalesce.empty((4, 8), device="sim")
    assert np.isnan(x.get()).all()
    mask = simulated_memory.undefined(x._host())
    assert mask is not None
    assert mask.all()
    assert mask.shape == (4 * 8 * 4,)
    x[1] = 3
    mask = simulated_memory.undefined(x._host())
    assert mask is not None
    assert (~mask).nonzero()[0].tolist() == list(range(32, 64))
    # A launch without a check may have written any element.
    coalesce.Kernel(SCALE, device="sim")[1, 32](x, 1.0, 32)
    assert simulated_memory.undefined(x._host()) is None
    for made in (coalesce.zeros(4, device="sim"), coalesce.asarray([1.0], device="sim")):
        assert simulated_memory.undefined(made._host()) is None


def test_elements_that_a_kernel_only_reads_stay_undefined() -> None:
    source = 'extern "C" __global__ void read(const float *x, float *out) { *out = x[1]; }'
    x, out = coalesce.empty(4, device="sim"), coalesce.empty(1, device="sim")
    coalesce.Kernel(source, device="sim")[1, 1](x, out)
    assert np.isnan(out.item())
    assert simulated_memory.undefined(x._host()) is not None
    assert simulated_memory.undefined(out._host()) is None


def test_memory_is_returned() -> None:
    kernel = coalesce.Kernel(SCALE, device="sim")
    memory = []
    for _ in range(20):
        array = coalesce.zeros(1 << 20, device="sim")
        kernel[1, 32](array, 2.0, 4)
        memory.append(weakref.ref(array._memory))
        assert memory[-1]() is not None
        del array
    assert all(reference() is None for reference in memory)
