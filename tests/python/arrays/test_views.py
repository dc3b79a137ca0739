"""Views of NumPy arrays as arguments: `x[r:]` is passed like `d_x + r` in a CUDA program.

Without a GPU, the last test runs this file on the simulated driver.
"""

import pickle
import threading

import numpy as np
import pytest
import simulated_driver

import coalesce
from coalesce.arrays.pointer import whole_of

NEIGHBOURS = """__global__ void neighbours(const float *x, float *y, int n) {
    int i = int(blockIdx.x * blockDim.x + threadIdx.x);
    if (i < n) y[i] = x[i - 1] + x[i + 1];
}"""
SHIFT = """__global__ void shift(float *x) {
    float value = x[threadIdx.x];
    __syncthreads();
    x[int(threadIdx.x) - 1] = value;
}"""
# Reads and writes one element each, at distances from the two pointers.
COPY = "__global__ void copy(const float *x, float *y, int from, int to) { y[to] = x[from]; }"
SET = "__global__ void set(float *x, int at) { x[at] = 7; }"


def kernel(source, device="sim"):
    return coalesce.Kernel(source, device=device)


def refused(source, *arguments):
    with pytest.raises(coalesce.MemoryFault) as error:
        kernel(source)[1, 1](*arguments)
    return str(error.value)


@pytest.fixture(params=[lambda x, at: x[at:], coalesce.pointer], ids=["view", "pointer"])
def part(request):
    """Return a function that makes an argument that points to an element of an array."""
    return request.param


def test_the_base_of_a_view_may_be_read(part, device):
    x, y = np.arange(100, dtype=np.float32), np.zeros(98, np.float32)
    kernel(NEIGHBOURS, device)[1, 128](part(x, 1), part(y, 0), 98)
    np.testing.assert_array_equal(y, x[:-2] + x[2:])


def test_the_base_of_a_view_may_be_written(part, device):
    x = np.arange(66, dtype=np.float32)
    kernel(SHIFT, device)[1, 64](part(x, 2))
    np.testing.assert_array_equal(x, [0, *range(2, 66), 65])


def test_a_timed_launch_keeps_the_result(part, device):
    x = np.arange(66, dtype=np.float32)
    record = kernel(SHIFT, device).launch(1, 64, part(x, 2), runs=2)
    assert record.kernel_ms > 0
    np.testing.assert_array_equal(x, [0, *range(2, 66), 65])


def test_two_views_of_one_array(part, device):
    """Each kernel reads one half of a work array and writes the other half."""
    x = np.arange(20, dtype=np.float32)
    before = x.copy()
    kernel(NEIGHBOURS, device)[1, 32](part(x, 1), part(x, 10), 8)
    np.testing.assert_array_equal(x[10:18], before[:8] + before[2:10])
    np.testing.assert_array_equal(x[[*range(10), 18, 19]], before[[*range(10), 18, 19]])


def test_two_overlapping_views_are_one_memory(device):
    source = """__global__ void both(float *x, float *y) {
        x[threadIdx.x] += 1;
        __syncthreads();
        y[threadIdx.x] *= 2;
        __syncthreads();
        if (threadIdx.x == 0) x[-1] = y[-3];
    }"""
    x = np.arange(40, dtype=np.float32)
    expected = x.copy()
    expected[4:36] += 1
    expected[8:40] *= 2
    expected[3] = expected[5]
    kernel(source, device)[1, 32](x[4:36], x[8:])
    np.testing.assert_array_equal(x, expected)


@pytest.mark.parametrize("order", [0, 1])
def test_a_view_and_its_base(device, order):
    x = np.arange(40, dtype=np.float32)
    source = """__global__ void k(float *x, float *y) { x[0] = 50; y[-1] = 60; x[2] = y[2]; }"""
    other = """__global__ void k(float *y, float *x) { x[0] = 50; y[-1] = 60; x[2] = y[2]; }"""
    arguments = (x[20:], x) if order else (x, x[20:])
    kernel(other if order else source, device)[1, 1](*arguments)
    assert x[[0, 1, 2, 19, 20]].tolist() == [50, 1, 22, 60, 20]


def test_views_in_structures_are_pointers_into_their_base(device):
    source = """struct Pair { const float *x; float *y; };
    __global__ void k(Pair p) { p.y[1] = p.x[-1]; }"""
    x, y = np.arange(10, dtype=np.float32), np.zeros(4, np.float32)
    kernel(source, device)[1, 1]((x[5:], y[2:3]))
    assert y.tolist() == [0, 0, 0, 4]


def test_outside_the_base_is_an_error_that_counts_in_the_base():
    x = np.arange(100, dtype=np.float32)
    text = refused(SET, x[10:20], 90)
    assert "write of 4 bytes past the end of `x`" in text
    assert "`x` is a view of an array of shape (100,), float32; the address is x[100]" in text
    assert "before the start of `x`" in refused(SET, x[10:20], -11)
    assert "coalesce.pointer" not in text


def test_reports_name_the_argument_whose_view_is_near():
    x = np.arange(100, dtype=np.float32)
    text = refused(COPY, x[:50], x[50:], 0, 50)
    assert "past the end of `y`" in text
    assert "the address is y[100]" in text
    assert "before the start of `x`" in refused(COPY, x[:50], x[50:], -1, 0)


def test_a_reshaped_array_counts_in_the_shape_that_was_passed():
    x = np.arange(2048, dtype=np.float32).reshape(64, 32)
    text = refused(SET, x, 64 * 32 + 3)
    assert "`x` has shape (64, 32), float32; the address is x[64, 3]" in text
    source = """__global__ void race(float *x) { x[3 * 32 + 17] = threadIdx.x; }"""
    assert kernel(source).check(1, 64, x)[0].index == (3, 17)


@pytest.mark.parametrize(
    ("make", "element"),
    [
        (lambda: np.zeros((8, 10), np.float32)[2:], "x[0, 3]"),
        (lambda: np.zeros((8, 10), np.float32)[2], "x[0, 3]"),
        (lambda: np.zeros(80, np.float32).reshape(8, 10)[2:], "x[0, 3]"),
        (lambda: np.zeros(80, np.float32).reshape(8, 10)[2], "x[3]"),
        (lambda: np.zeros((8, 10), np.float32).reshape(20, 4)[5:], "x[0, 3]"),
        (lambda: np.zeros((8, 10), np.float32).reshape(-1)[20:28].reshape(2, 4), "x[0, 3]"),
        (lambda: np.zeros(83, np.float32)[20:28].reshape(2, 4), "x[3]"),
        (lambda: np.zeros((10, 8), np.float32).T.copy(order="C")[2:], "x[0, 3]"),
        (lambda: np.zeros((10, 8), np.float32, order="F").T[2:], "x[0, 3]"),
        (lambda: np.zeros(320, np.uint8)[80:].view(np.float32), "x[3]"),
        (lambda: np.zeros((8, 10), np.float64)[1:].view(np.float32), "x[0, 3]"),
        (lambda: np.zeros(80, np.float32)[20, ...], "x[3]"),
        (lambda: np.zeros(83, "f4,f4")[10:].view(np.float32), "x[3]"),
    ],
)
def test_elements_outside_the_view_have_the_index_of_the_base(make, element):
    source = "__global__ void race(float *x) { x[-17] = float(threadIdx.x); }"
    (finding,) = [f for f in kernel(source).check(1, 64, make()) if f.kind == "race"]
    assert element in finding.title


def test_other_dtypes_of_the_base(device):
    """A kernel gets bytes of an array of ints, and reads the byte before its view."""
    source = """__global__ void k(unsigned char *x) { x[0] = x[-1]; x[-4] = 5; }"""
    x = np.array([0x01020304, 0x05060708, 0x090A0B0C], np.uint32)
    kernel(source, device)[1, 1](x.view(np.uint8)[4:])
    assert [hex(value) for value in x] == ["0x1020305", "0x5060701", "0x90a0b0c"]


def test_bytes_that_are_no_whole_element_are_left_out():
    raw = np.zeros(11, np.uint8)
    whole, offset = whole_of(raw[4:8].view(np.float32))
    assert (whole.size, offset) == (2, 4)
    x = np.zeros(10, "u1,f4")["f1"]
    assert not x.flags.c_contiguous


def test_structured_arrays(device):
    source = """struct Pair { float a; int b; };
    __global__ void k(Pair *x) { x[-1].b = x[1].b; }"""
    x = np.zeros(8, [("a", "f4"), ("b", "i4")])
    x["b"] = np.arange(8)
    kernel(source, device)[1, 1](x[4:])
    assert x["b"].tolist() == [0, 1, 2, 5, 4, 5, 6, 7]


def test_an_array_without_dimensions(device):
    x = np.arange(4, dtype=np.float32)
    kernel(SET, device)[1, 1](x[2, ...], -1)
    assert x.tolist() == [0, 7, 2, 3]


def test_an_empty_view_has_no_position():
    """NumPy does not keep where an empty view begins: the address of `x[4:]` is that of `x`."""
    x = np.zeros(4, np.float32)
    assert "outside" in refused(SET, x[4:], -1) or "start" in refused(SET, x[4:], -1)


def test_transposed_arrays():
    """An array in Fortran order has its elements in the same memory as its transpose."""
    x = np.zeros((4, 8), np.float32, order="F")
    kernel(SET)[1, 1](x.T[2:], -1)
    assert x.T[1].tolist() == [0, 0, 0, 7]
    # This view is not C-contiguous. The kernel works on a copy, and the view gets the results.
    y = np.zeros((4, 8), np.float32)
    kernel(SET)[1, 1](y.T[2:], 1)
    assert y.T[2].tolist() == [0, 7, 0, 0]
    assert "before the start" in refused(SET, y.T[2:], -1)


def test_a_read_only_view_of_a_writable_array():
    x, y = np.arange(8, dtype=np.float32), np.zeros(1, np.float32)
    view = x[4:]
    view.flags.writeable = False
    kernel(COPY)[1, 1](view, y, -1, 0)
    assert y[0] == 3
    with pytest.raises(ValueError, match=r"argument `x`.* is a read-only array"):
        kernel(SET)[1, 1](view, 0)
    ptx = kernel(SET).ptx  # does not say whether the kernel writes
    with pytest.raises(coalesce.MemoryFault, match="which is read-only"):
        coalesce.Kernel(ptx, device="sim")[1, 1](view, np.int32(0))


def test_a_read_only_base():
    x, y = np.arange(8, dtype=np.float32), np.zeros(1, np.float32)
    view = x[4:]
    x.flags.writeable = False
    kernel(COPY)[1, 1](x[4:], y, -1, 0)
    assert y[0] == 3
    # This view is writable, but the rest of its base must not be written to.
    kernel(SET)[1, 1](view, 1)
    assert x[5] == 7
    assert "before the start" in refused(SET, view, -1)


def separate():
    file = np.memmap
    yield "the memory of bytes", lambda _: np.frombuffer(bytearray(32), np.float32)
    yield "a strided view", lambda _: np.zeros((4, 4), np.float32)[1:, ::2]
    yield "a view that is not aligned", lambda _: np.zeros(33, np.uint8)[9:25].view(np.float32)
    yield "a mapped file", lambda p: file(p / "x", np.float32, "w+", shape=64)[8:]
    yield "an array in a mapped file", lambda p: np.asarray(file(p / "x", "f4", "w+", shape=64))[8:]
    yield "a pointer", lambda _: coalesce.pointer(np.zeros(64, np.float32)[8:], 0)


@pytest.mark.parametrize(("name", "make"), list(separate()))
def test_only_the_array_itself(name, make, tmp_path):
    assert "before the start of `x`" in refused(SET, make(tmp_path), -1), name


def test_a_broadcast_view_is_not_a_pointer():
    x, y = np.float32([1, 2, 3]), np.zeros(1, np.float32)
    assert "past the end" in refused(COPY, np.broadcast_to(x[1:2], (4, 1)), y, 5, 0)


def test_views_of_arrays_over_other_memory():
    """The base is the outermost NumPy array, whoever owns its memory."""
    memory = bytearray(32)
    x = np.frombuffer(memory, np.float32)
    kernel(SET)[1, 1](x[4:], -1)
    assert x[3] == 7
    large = np.zeros(64, np.float32).view(type("Own", (np.ndarray,), {}))
    kernel(SET)[1, 1](large[4:], -1)
    assert large[3] == 7


def test_arrays_of_other_libraries_stay_separate():
    torch = pytest.importorskip("torch")
    x = torch.zeros(8)
    assert "before the start" in refused(SET, x[4:], -1)


def test_masked_arrays_are_still_refused():
    with pytest.raises(TypeError, match="is a masked array"):
        kernel(SET)[1, 1](np.ma.zeros(8, np.float32)[2:], 0)


def test_the_message_for_a_forbidden_access_says_how_to_allow_it():
    x, y = np.arange(100, dtype=np.float32), np.zeros(98, np.float32)
    with pytest.raises(
        coalesce.MemoryFault, match=r"`x` is a view .*pass the view itself, not coalesce\.pointer"
    ):
        kernel(NEIGHBOURS)[1, 128](coalesce.pointer(x[1:99], 0), y, 98)
    # the address is outside even of the whole array
    with pytest.raises(coalesce.MemoryFault) as error:
        kernel(NEIGHBOURS)[1, 128](coalesce.pointer(x[:98], 0), y, 98)
    assert "is a view" not in str(error.value)


def test_profile_trace_and_step_know_the_base():
    x, y = np.arange(100, dtype=np.float32), np.zeros(98, np.float32)
    k = kernel(NEIGHBOURS)
    arguments = x[1:99], y, 98
    profile = k.profile(1, 128, *arguments)
    assert profile.arrays[0].shape == (100,)
    np.testing.assert_array_equal(y, x[:-2] + x[2:])
    assert profile.totals() == k.profile(1, 128, coalesce.pointer(x, 1), y, 98).totals()
    trace = k.trace(1, 128, *arguments)
    assert trace.arrays[0].shape == (100,)
    reads = {trace.element(event, 0) for event in range(len(trace)) if trace.kind[event] == "load"}
    assert reads == {"x[0]", "x[2]"} | {f"x[{i + 32 * w}]" for w in (1, 2, 3) for i in (0, 2)}
    with k.step(1, 128, *arguments) as stepping:
        assert stepping.arrays["x"].shape == (100,)


def test_traces_distinguish_two_views_of_one_array():
    x = np.zeros(128, np.float32)
    source = "__global__ void k(const float *x, float *y) { y[threadIdx.x] = x[threadIdx.x]; }"
    trace = kernel(source).trace(1, 64, x[:64], x[64:])
    assert [trace.element(event, 0) for event in range(2)] == ["x[0]", "y[64]"]


def test_blocks_in_other_processes_get_the_base(part):
    from concurrent.futures import ThreadPoolExecutor

    x, y = np.arange(1000, dtype=np.float32), np.zeros(998, np.float32)
    k = kernel(NEIGHBOURS)
    with ThreadPoolExecutor(2) as executor:
        shared = k.profile(8, 128, part(x, 1), y, 998, executor=executor)
    assert shared.totals() == k.profile(8, 128, part(x, 1), y, 998).totals()


def test_parts_of_device_arrays_are_written_in_place():
    x = coalesce.asarray(np.arange(8, dtype=np.float32), device="sim")
    kernel(SET)[1, 1](x[4:], -1)
    assert x.get().tolist() == [0, 1, 2, 7, 4, 5, 6, 7]


def test_operations_do_not_use_the_base():
    """The counts of matrix operations do not depend on where a view begins."""
    a = np.zeros((33, 33), np.float32)
    part = a.reshape(-1)[1:1025].reshape(32, 32)
    own = coalesce.profile("transpose", part.copy(), variant="naive_read", device="sim")
    view = coalesce.profile("transpose", part, variant="naive_read", device="sim")
    assert view.totals() == own.totals()


def test_a_write_only_view_keeps_the_other_elements(device):
    x = np.arange(16, dtype=np.float32)
    kernel(SET, device).launch(1, 1, x[1:], 6, write_only=["x"])
    np.testing.assert_array_equal(x, np.arange(16))


def test_launches_in_two_threads_on_two_views(device):
    x = np.zeros(1 << 16, np.float32)
    source = "__global__ void k(float *x) { x[blockIdx.x * 256 + threadIdx.x] += 1; }"
    k = kernel(source, device)

    def work(view):
        for _ in range(4):
            k[128, 256](view)

    threads = [threading.Thread(target=work, args=(half,)) for half in np.split(x, 2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (x == 4).all()


def test_pickled_pointers_stay_separate():
    pointer = coalesce.pointer(np.zeros(64, np.float32)[8:], 0)
    assert "before the start of `x`" in refused(SET, pickle.loads(pickle.dumps(pointer)), -1)


def test_a_texture_and_a_written_view_of_one_array(device):
    """On a GPU, the texels are in memory of their own. So they must not be written."""
    source = """__global__ void k(cudaTextureObject_t t, float *y) {
        y[threadIdx.x] = tex1D<float>(t, threadIdx.x + 0.5f);
    }"""
    x = np.arange(64, dtype=np.float32)
    kernel(source, device)[1, 32](coalesce.texture(x[:32]), x[32:])
    np.testing.assert_array_equal(x, [*range(32), *range(32)])
    if device == "cuda":
        with pytest.raises(ValueError, match="is a texture whose array shares memory"):
            kernel(source, device)[1, 32](coalesce.texture(x[:32]), x[16:])


# --- notes of a check ----------------------------------------------------------------------------


def test_a_check_notes_accesses_outside_a_view():
    x, y = np.arange(100, dtype=np.float32), np.zeros(98, np.float32)
    found = kernel(NEIGHBOURS).check(1, 128, x[1:99], y, 98)
    assert not found
    assert list(found) == []
    found.raise_if_any()
    (note,) = found.notes
    assert (note.kind, note.severity, note.array, note.index) == ("outside_view", "note", "x", (0,))
    assert note.count == 2
    assert note.first.line == 3
    text = str(found)
    assert text.startswith(
        "check of neighbours: nothing found\nnote: read of x[0], which is outside"
    )
    assert "`x` is a view of an array of shape (100,), float32" in text
    assert "pass coalesce.pointer(view, 0)" in text
    assert "note: read of x[0]" in found._repr_html_()
    assert [n["kind"] for n in found.to_dict()["notes"]] == ["outside_view"]


def test_accesses_inside_the_views_have_no_note():
    x = np.arange(100, dtype=np.float32)
    k = kernel(NEIGHBOURS)
    # Each of these kernels stays inside the union of the views, or gets the whole array
    assert k.check(1, 32, x[1:50], x[50:], 0).notes == ()
    assert k.check(1, 32, x[1:], x, 32).notes == ()
    assert k.check(1, 32, coalesce.pointer(x, 1), np.zeros(32, np.float32), 32).notes == ()
    assert kernel(COPY).check(1, 1, x[10:20], x[20:30], 10, -10).notes == ()


def test_a_pointer_to_a_view_makes_the_access_an_error():
    x, y = np.arange(100, dtype=np.float32), np.zeros(98, np.float32)
    found = kernel(NEIGHBOURS).check(1, 128, coalesce.pointer(x[1:99], 0), y, 98)
    assert {f.kind for f in found} == {"out_of_bounds"}
    assert found.notes == ()


def test_undefined_elements_of_a_view():
    x = np.arange(100, dtype=np.float32)
    source = "__global__ void k(const float *x, float *y) { y[0] = y[1] + x[0] + x[90]; }"
    found = kernel(source).check(1, 1, x[:50], x[50:60], undefined="y")
    assert [(f.kind, f.array, f.index) for f in found] == [("uninitialized", "y", (51,))]
    # The other argument has values, and both arguments are the same elements.
    assert not kernel(source).check(1, 1, x, x[:2], undefined="y")


@pytest.mark.usefixtures("on_simulator")
def test_on_the_simulated_driver():
    simulated_driver.run_tests(__file__)
