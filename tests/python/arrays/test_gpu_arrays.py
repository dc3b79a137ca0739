"""Operations on arrays in GPU memory: all layouts, and arrays of other libraries."""

import ctypes
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

import coalesce
from coalesce.arrays import borrowed, foreign
from coalesce.arrays.device_array import DeviceArray
from coalesce.catalogue.reference import operand_rounding


class Strided:
    """A view of a DeviceArray in another layout, as CuPy or PyTorch would make it."""

    def __init__(self, base, first, shape, strides):
        self.base, self.first, self.shape, self.strides = base, first, shape, strides

    @property
    def __cuda_array_interface__(self):
        item = self.base.dtype.itemsize
        interface = self.base.__cuda_array_interface__
        return {
            **interface,
            "shape": self.shape,
            "data": (interface["data"][0] + self.first * item, False),
            "strides": tuple(step * item for step in self.strides),
        }


class Pretended:
    """An array interface without memory. A test fails if its memory is accessed."""

    def __init__(self, shape, typestr="<f4", strides=None, pointer=4096):
        self.__cuda_array_interface__ = {
            "shape": shape,
            "typestr": typestr,
            "data": (pointer, False),
            "strides": strides,
            "version": 3,
        }


@pytest.fixture
def gpu(device):
    if device != "cuda":
        pytest.skip("needs --device cuda")
    return device


# ---- descriptions of arrays, which need no GPU ----


def test_an_array_in_c_order():
    view = foreign.require_gpu_array(Pretended((2, 3), "<f8"))
    assert view.strides == (24, 8)
    assert view.contiguous
    assert not view.T.contiguous
    assert view.T.T.contiguous
    assert view.span() == (4096, 4096 + 48)


def test_an_array_with_a_negative_stride():
    view = foreign.require_gpu_array(Pretended((3, 2), strides=(-16, 4), pointer=4096 + 32))
    assert view.span() == (4096, 4096 + 40)
    memory = view.whole()
    assert (memory.address, memory.shape) == (4096, (10,))


def test_a_value_that_is_not_on_a_gpu_is_no_gpu_array():
    for value in (np.ones(3), [1, 2], 3.0, None, "text", object):
        assert foreign.find_gpu_array(value) is None


def test_a_slice_of_a_device_array_is_adopted_as_a_slice(monkeypatch):
    memory = SimpleNamespace(address=4096, ordinal=0, lost=False)
    whole = DeviceArray(memory, (4, 8), np.dtype(np.float32), 0)
    array = foreign.require_gpu_array(whole)
    monkeypatch.setattr(borrowed.cuda, "Device", lambda _: SimpleNamespace(generation=0))
    assert borrowed.as_device_array(array) is whole
    part = borrowed.as_device_array(array.flat(np.dtype(np.uint32)))
    assert (part.shape, part.dtype) == ((32,), np.uint32)
    first = borrowed.as_device_array(replace(array, shape=(2, 8)))
    assert first.shape == (2, 8)


def test_gpu_arrays_are_checked_like_others():
    good = Pretended((2, 3))
    cases = [
        ((Pretended((2, 3), "<i4"), good), TypeError, "`a` has dtype int32"),
        (
            (good, Pretended((3, 2), "<f8")),
            TypeError,
            "`a` has dtype float32 and `b` has dtype float64",
        ),
        ((good, good), ValueError, r"`a` has shape \(2, 3\) and `b` has shape \(2, 3\)"),
        ((Pretended((3,)), good), ValueError, "`a` must have 2 dimensions"),
        (
            (good, Pretended((3, 2))),
            ValueError,
            "but the call runs on 'sim:h200'",
        ),
    ]
    for arguments, error, message in cases:
        with pytest.raises(error, match=message):
            coalesce.matmul(*arguments, device="sim")


# ---- running ----


def on_gpu(values):
    return coalesce.to_device(values)


@pytest.mark.parametrize("variant", coalesce.variants("matmul").names)
@pytest.mark.usefixtures("gpu")
def test_matmul_stays_on_the_gpu(variant, random, dtype):
    if coalesce.variants("matmul")[variant].dtype not in ("", np.dtype(dtype).name):
        pytest.skip(f"{variant} does not take {np.dtype(dtype).name}")
    rounding = operand_rounding(variant)
    a = random.normal(size=(40, 60)).astype(dtype)
    b = random.normal(size=(60, 50)).astype(dtype)
    for left, right in ((on_gpu(a), on_gpu(b)), (on_gpu(a), b), (a, on_gpu(b))):
        result = coalesce.matmul(left, right, variant=variant)
        assert isinstance(result, coalesce.DeviceArray)
        bound = 1e-4 + 1e-3 * np.abs(a @ b) + rounding * (np.abs(a) @ np.abs(b))
        assert (np.abs(result.get() - a @ b) <= bound).all()


@pytest.mark.parametrize("variant", ["naive", "tiled", "corner_turned_padded"])
@pytest.mark.usefixtures("gpu")
def test_any_layout_on_the_gpu(variant, random):
    a = random.normal(size=(40, 60)).astype(np.float32)
    base, turned = on_gpu(a), on_gpu(np.ascontiguousarray(a.T))
    views = {
        "every second row": (Strided(base, 0, (20, 60), (120, 1)), a[::2]),
        "backwards": (Strided(base, 59, (40, 60), (60, -1)), a[:, ::-1]),
        "turned": (Strided(turned, 0, (40, 60), (1, 40)), a),
        "broadcast": (Strided(base, 0, (40, 60), (0, 1)), np.broadcast_to(a[0], (40, 60))),
    }
    for name, (view, values) in views.items():
        result = coalesce.matmul(view, a.T.copy(), variant=variant)
        np.testing.assert_allclose(result.get(), values @ a.T, atol=1e-3, err_msg=name)


@pytest.mark.usefixtures("gpu")
def test_out_on_the_gpu(random):
    a = random.normal(size=(33, 33)).astype(np.float32)
    b, c = on_gpu(a), on_gpu(a)
    out = coalesce.DeviceArray.empty((33, 33), np.float32)
    assert coalesce.matmul(b, b, out=out) is out
    np.testing.assert_allclose(out.get(), a @ a, atol=1e-4)
    assert coalesce.matmul(b, b, alpha=2, beta=0.5, c=c, out=c) is c
    np.testing.assert_allclose(c.get(), 2 * a @ a + 0.5 * a, atol=1e-4)
    host = np.zeros((33, 33), np.float32)
    assert coalesce.matmul(b, b, out=host) is host
    np.testing.assert_allclose(host, a @ a, atol=1e-4)
    with pytest.raises(ValueError, match="`out` must be C-contiguous"):
        coalesce.matmul(b, b, out=Strided(out, 0, (33, 33), (1, 33)))


@pytest.mark.usefixtures("gpu")
def test_other_operations_stay_on_the_gpu(random):
    a = random.normal(size=(70, 50)).astype(np.float32)
    on = on_gpu(a)
    np.testing.assert_array_equal(coalesce.transpose(on).get(), a.T)
    np.testing.assert_allclose(coalesce.row_sums(on).get(), a.sum(1), atol=1e-4)
    np.testing.assert_allclose(coalesce.column_sums(on).get(), a.sum(0), atol=1e-4)
    x = on_gpu(a.reshape(-1))
    result = coalesce.access(x, pattern="stride", stride=3)
    np.testing.assert_array_equal(result.get(), a.reshape(-1)[::3])
    # 4 bytes away from a multiple of 16, which a 16-byte load needs
    misaligned = Strided(x, 1, (3400,), (1,))
    result = coalesce.access(misaligned, pattern="vector", width=16)
    np.testing.assert_array_equal(result.get(), a.reshape(-1)[1:3401])


@pytest.mark.parametrize("library", ["cupy", "torch"])
@pytest.mark.usefixtures("gpu")
def test_results_belong_to_the_library_of_the_operands(library, random):
    module = pytest.importorskip(library)
    if library == "torch" and not module.cuda.is_available():
        pytest.skip("torch sees no GPU")
    a = random.normal(size=(40, 60)).astype(np.float32)
    there = module.asarray(a) if library == "cupy" else module.from_numpy(a).cuda()
    result = coalesce.matmul(there, there.T)
    assert type(result) is type(there)
    back = result.get() if library == "cupy" else result.cpu().numpy()
    np.testing.assert_allclose(back, a @ a.T, atol=1e-4)
    out = module.empty(
        (40, 40), dtype=there.dtype, **({"device": "cuda"} if library == "torch" else {})
    )
    assert coalesce.matmul(there, there.T, out=out) is out


@pytest.mark.usefixtures("gpu")
def test_timing_of_gpu_arrays_has_no_copies():
    a = on_gpu(np.ones((256, 256), np.float32))
    result, timing = coalesce.matmul(a, a, return_timing=True)
    assert (result.get() == 256).all()
    assert timing.source == "measured"
    assert timing.h2d_ms == timing.d2h_ms == 0


def test_memory_that_another_stream_uses_is_not_reused(gpu):
    """Another library may still use an exported array after it was deleted here."""
    driver = ctypes.CDLL("libcuda.so.1")
    size, not_ready, non_blocking = 1 << 30, 600, 1
    x = coalesce.zeros(size, np.uint8, device=gpu)
    stream = ctypes.c_void_p()
    assert driver.cuStreamCreate(ctypes.byref(stream), non_blocking) == 0
    try:
        capsule = x.__dlpack__(stream=stream.value)
        address = x.__cuda_array_interface__["data"][0]
        for _ in range(2000):  # about one second of work
            target = ctypes.c_uint64(address)
            assert driver.cuMemsetD8Async(target, 7, ctypes.c_size_t(size), stream) == 0
        del x, capsule
        y = coalesce.zeros(size, np.uint8, device=gpu)
        assert driver.cuStreamQuery(stream) == not_ready
        assert y.__cuda_array_interface__["data"][0] != address
        assert driver.cuStreamSynchronize(stream) == 0
        again = [coalesce.zeros(size, np.uint8, device=gpu) for _ in range(2)]
        assert address in [z.__cuda_array_interface__["data"][0] for z in again]
        assert not y.get().any()
    finally:
        driver.cuStreamDestroy_v2(stream)
