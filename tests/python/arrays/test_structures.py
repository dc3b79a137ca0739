"""Structures as arguments: tuples, dicts and NumPy scalars, with arrays behind their pointers."""

import pickle
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import coalesce
from coalesce.compile import nvrtc
from coalesce.compile.binaries import layouts
from coalesce.cxx.signature import Parameter

SOURCE = r"""
#include <cuda_fp16.h>
namespace shapes {
template <class T> struct Grid { T *cells; int extents[2]; };
}
struct Base { int base; };
struct Task : Base {
    float scale;
    shapes::Grid<float> grid;
    const double *weights;
    union { int count; float ratio; };
    bool on;
    unsigned low : 3;
    int high : 5;
    half h;
    float4 v;
    enum Color { red, green } color;
    size_t total;
};
__global__ void tell(const Task task, double *out) {
    int i = 0;
    out[i++] = task.base;
    out[i++] = task.scale;
    out[i++] = task.grid.extents[0];
    out[i++] = task.grid.extents[1];
    out[i++] = task.weights ? task.weights[1] : -1;
    out[i++] = task.count;
    out[i++] = task.on;
    out[i++] = task.low;
    out[i++] = task.high;
    out[i++] = float(task.h);
    out[i++] = task.v.w;
    out[i++] = task.color;
    out[i++] = task.total;
    task.grid.cells[2] = task.scale;
}
"""
# The compiler reads the array by different instructions for different architectures.
INDEXED = r"""
struct S { int a[64]; };
__global__ void indexed(S s, int *out) {
    int i = threadIdx.x * 4;
    out[threadIdx.x] = i < 64 ? s.a[i] : 7;
    const int *p = s.a, *end = s.a + threadIdx.x;
    while (p != end) out[threadIdx.x] += *p++;
}
"""
V = (1.0, 2.0, 3.0, 4.0)
WANTED = [7, 1.5, 3, 4, 20, 9, 1, 5, -3, 0.25, 4, 1, 1 << 40]


def task(cells: Any, behind: Any, /, **changed: Any) -> dict[str, Any]:
    members = {
        "base": 7,
        "scale": 1.5,
        "grid": {"cells": cells, "extents": [3, 4]},
        "weights": behind,
        "count": 9,
        "on": True,
        "low": 5,
        "high": -3,
        "h": 0.25,
        "v": V,
        "color": 1,
        "total": 1 << 40,
    }
    return {**members, **changed}


@pytest.fixture(scope="module")
def kernel(device: str) -> coalesce.Kernel:
    return coalesce.Kernel(SOURCE, device=device)


@pytest.fixture
def arrays() -> tuple[Any, Any, Any]:
    return np.zeros(4, np.float32), np.array([10.0, 20.0]), np.zeros(len(WANTED))


def test_a_dict(kernel: coalesce.Kernel, arrays: tuple[Any, Any, Any]) -> None:
    cells, weights, out = arrays
    kernel[1, 1](task(cells, weights), out)
    assert out.tolist() == WANTED
    assert cells.tolist() == [0, 0, 1.5, 0]


def test_a_tuple(kernel: coalesce.Kernel, arrays: tuple[Any, Any, Any]) -> None:
    cells, weights, out = arrays
    given = (7, 1.5, (cells, (3, 4)), weights, {"count": 9}, True, 5, -3, 0.25, V, 1, 1 << 40)
    kernel[1, 1](given, out)
    assert out.tolist() == WANTED
    assert cells[2] == 1.5


def test_numpy_scalars_inside(kernel: coalesce.Kernel, arrays: tuple[Any, Any, Any]) -> None:
    cells, _, out = arrays
    v = np.array(V, [(name, "f4") for name in "xyzw"])[()]
    changed = {"scale": np.float32(2), "v": v, "count": np.int8(-1)}
    kernel[1, 1](task(cells, None, **changed), out)
    assert out[[1, 4, 5, 10]].tolist() == [2, -1, -1, 4]


def test_a_structured_scalar_by_name(device: str) -> None:
    kernel = coalesce.Kernel(
        "struct S { char a; double b; }; __global__ void k(S s, double *x) { x[0] = s.a + s.b; }",
        device=device,
    )
    x = np.zeros(1)
    packed = np.array((1, 2.5), [("a", "i1"), ("b", "f8")])  # 9 bytes; the structure has 16
    kernel[1, 1](packed[()], x)
    assert x[0] == 3.5
    kernel[1, 1](packed, x)
    assert x[0] == 3.5
    aligned = np.array((3, 2.5), np.dtype([("a", "i1"), ("b", "f8")], align=True))
    kernel[1, 1](aligned[()], x)
    assert x[0] == 5.5


def test_one_array_twice(device: str) -> None:
    kernel = coalesce.Kernel(
        "struct S { float *a; float *b; };"
        "__global__ void k(S s, float *c) { s.a[0] = 1; s.b[1] = s.a[0] + c[2]; }",
        device=device,
    )
    x = np.array([0, 0, 5, 0], np.float32)
    kernel[1, 1]((x, x), x)
    assert x.tolist() == [1, 6, 5, 0]
    columns = np.zeros((3, 2), np.float32)  # a copy is made, and written back
    kernel[1, 1]({"a": columns[:, 0], "b": columns[:, 0]}, x)
    assert columns[:, 0].tolist() == [1, 6, 0]
    kernel[1, 1]((x, coalesce.pointer(x, 1)), x)
    assert x[2] == 6


def test_an_array_of_pointers(device: str) -> None:
    kernel = coalesce.Kernel(
        "struct S { int *rows[3]; };__global__ void k(S s) { s.rows[blockIdx.x][0] = blockIdx.x; }",
        device=device,
    )
    rows = [np.full(1, 9, np.int32) for _ in range(3)]
    kernel[3, 1]((rows,))
    assert [row[0] for row in rows] == [0, 1, 2]


def test_a_template_and_two_structures(device: str) -> None:
    kernel = coalesce.Kernel(
        "namespace { template <class T> struct P { T *p; int n; }; }"
        "template <class T> __global__ void add(P<T> a, int by, P<const T> b) {"
        "  if (threadIdx.x < a.n) a.p[threadIdx.x] += by * b.p[threadIdx.x % b.n]; }",
        "add<double>",
        device=device,
    )
    a, b = np.ones(5), np.array([1.0, 2.0])
    b.flags.writeable = False  # the member is a pointer to const
    kernel[1, 32]((a, 5), 10, (b, 2))
    assert a.tolist() == [11, 21, 11, 21, 11]


def test_a_small_structure(device: str) -> None:
    kernel = coalesce.Kernel(
        'struct S { bool on; }; extern "C" __global__ void k(S s, int *x) { x[0] = s.on; }',
        device=device,
    )
    x = np.zeros(1, np.int32)
    kernel[1, 1]({"on": True}, x)
    assert x[0] == 1


def test_device_arrays(kernel: coalesce.Kernel, device: str) -> None:
    cells, weights = (coalesce.asarray(a, device=device) for a in (np.zeros(4, "f4"), np.ones(2)))
    out = coalesce.asarray(np.zeros(len(WANTED)), device=device)
    kernel[1, 1](task(cells, weights), out)
    assert cells.get()[2] == 1.5
    assert out.get()[4] == 1


def test_runs_and_write_only(kernel: coalesce.Kernel, arrays: tuple[Any, Any, Any]) -> None:
    cells, weights, out = arrays
    record = kernel.launch(1, 1, task(cells, weights), out, runs=3, write_only=["out"])
    assert record.kernel_ms > 0
    assert out.tolist() == WANTED
    with pytest.raises(ValueError, match="`write_only` contains"):
        kernel.launch(1, 1, task(cells, weights), out, write_only=["task.grid"])


def test_the_analyses(arrays: tuple[Any, Any, Any]) -> None:
    kernel = coalesce.Kernel(SOURCE, device="sim")
    cells, weights, out = arrays
    given = task(cells, weights), out
    profile = kernel.profile(1, 1, *given)
    assert [a.name for a in profile.arrays] == ["out", "task.grid.cells", "task.weights"]
    assert out.tolist() == WANTED
    assert not kernel.check(1, 1, *given)
    trace = kernel.trace(1, 1, *given)
    accessed = {trace.arrays[number].name for number in trace.array}
    assert {"task.grid.cells", "task.weights"} <= accessed
    step = kernel.step(1, 1, *given)
    assert set(step.arrays) == {"out", "task.grid.cells", "task.weights"}
    findings = kernel.check(1, 1, *given, undefined=["task.weights"])
    assert "task.weights" in str(findings)


def test_a_fault_names_the_member(arrays: tuple[Any, Any, Any]) -> None:
    kernel = coalesce.Kernel(SOURCE, device="sim")
    with pytest.raises(coalesce.MemoryFault, match=r"`task\.grid\.cells`"):
        kernel[1, 1](task(arrays[0][:2].copy(), arrays[1]), arrays[2])


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"other": 1}, "`task` .Task. has no member 'other'; its members are base, scale"),
        (
            {"ratio": 1.0},
            r"`task` \(.*\) is a union; pass exactly one of its members \(count, ratio\)",
        ),
        ({"scale": "a"}, r"`task\.scale` \(float\) needs float32; got"),
        ({"grid": 3}, r"`task\.grid` \(.*Grid<float>\) must be a structure of 16 bytes; pass one"),
        ({"grid": (None,)}, r"has 2 members \(cells, extents\); got a tuple of 1"),
        ({"grid": {"cells": None}}, r"no value was passed for the members extents"),
        ({"weights": np.zeros(2, "f4")}, r"`task\.weights` \(const double \*\) needs an array of"),
        ({"v": (1, 2, 3)}, r"`task\.v` \(float4\) has 4 members"),
        ({"base": 1.5}, r"`task\.base` \(int\) needs int32"),
    ],
)
def test_wrong_values(changed: dict[str, Any], message: str) -> None:
    kernel = coalesce.Kernel(SOURCE, device="sim")
    with pytest.raises(TypeError, match=message):
        kernel[1, 1](task(None, None, **changed), np.zeros(20))


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"low": 8}, r"`task\.low` is 8, which does not fit a bit field of 3 bits \(0 to 7\)"),
        ({"high": 16}, r"5 bits \(-16 to 15\)"),
        ({"grid": (None, [1, 2, 3])}, r"`task\.grid\.extents` is an array of 2 elements; got 3"),
        ({"base": 1 << 31}, "does not fit int32"),
    ],
)
def test_values_out_of_range(changed: dict[str, Any], message: str) -> None:
    kernel = coalesce.Kernel(SOURCE, device="sim")
    with pytest.raises(ValueError, match=message):
        kernel[1, 1](task(None, None, **changed), np.zeros(20))


def test_a_missing_member_is_named() -> None:
    kernel = coalesce.Kernel(SOURCE, device="sim")
    given = task(None, None)
    del given["count"], given["h"]
    with pytest.raises(TypeError, match="no value was passed for the members count, ratio, h"):
        kernel[1, 1](given, np.zeros(20))


def test_ptx_has_no_members() -> None:
    kernel = coalesce.Kernel(coalesce.Kernel(SOURCE, device="sim").ptx, device="sim")
    with pytest.raises(TypeError, match="whose members are not known; pass a NumPy structured"):
        kernel[1, 1]((1, 2), np.zeros(20))


def test_pickling(arrays: tuple[Any, Any, Any]) -> None:
    kernel = pickle.loads(pickle.dumps(coalesce.Kernel(SOURCE, device="sim")))
    kernel[1, 1](task(*arrays[:2]), arrays[2])
    assert arrays[2].tolist() == WANTED


def test_the_layout_of_a_structured_scalar_is_compared(device: str) -> None:
    kernel = coalesce.Kernel(
        "struct V { float x, y; }; struct S { int n; V v; float m[2]; bool on; unsigned : 4, b : 4;"
        " union { int i; float f; }; double *p; };"
        "__global__ void k(S s, double *x) { x[0] = s.n; x[1] = s.v.y; x[2] = s.m[1];"
        " x[3] = s.i; }",
        device=device,
    )
    x = np.zeros(4)
    fields = [("n", "i4"), ("v", [("x", "f4"), ("y", "f4")]), ("m", "f4", 2), ("on", "?")]
    fields += [("bits", "u1"), ("i", "u4"), ("p", "u8")]

    def layout(changed: dict[int, Any]) -> np.dtype[Any]:
        return np.dtype([changed.get(n, field) for n, field in enumerate(fields)], align=True)

    for changed in ({}, {0: ("n", "u4")}, {0: ("other", "i4")}, {1: ("v", "f4", 2)}):
        given = np.array((3, (1, 2.5), (4, 5), True, 0, 7, 0), layout(changed))
        kernel[1, 1](given[()], x)
        assert x.tolist() == [3, 2.5, 5, 7]
    for changed, said in (
        ({0: ("n", "f4")}, r"field `n` \(float of 4 bytes at byte 0\) is the member `n` \(integer"),
        ({0: ("other", "f4")}, r"field `other` .* is no member; at this byte is `n`"),
        ({1: ("v", [("y", "f4"), ("x", "f4")])}, r"field `v.y` .*at byte 4\) is the member `v.y`"),
        ({2: ("m", "f8")}, r"field `m` .* is no member"),
        ({5: ("f", "i4")}, "field `f` .integer of 4 bytes at byte 24. is the member `f` .float"),
    ):
        given = np.zeros((), layout(changed))
        assert given.itemsize == 40
        with pytest.raises(TypeError, match=f"does not have the layout of the structure.*{said}"):
            kernel[1, 1](given[()], x)


def test_a_nested_structured_scalar_is_compared_too(device: str) -> None:
    kernel = coalesce.Kernel(
        "struct V { float x; int n; }; struct S { V v; float *p; };"
        "__global__ void k(S s) { s.p[0] = s.v.x + s.v.n; }",
        device=device,
    )
    p = np.zeros(1, np.float32)
    kernel[1, 1]((np.array((1.5, 2), [("x", "f4"), ("n", "i4")])[()], p))
    assert p[0] == 3.5
    with pytest.raises(TypeError, match=r"`s.v` \(V\).*the field `n`"):
        kernel[1, 1]((np.array((2, 1.5), [("n", "i4"), ("x", "f4")])[()], p))


def test_gaps_must_not_hide_a_member(device: str) -> None:
    kernel = coalesce.Kernel(
        "struct S { int a, b; }; __global__ void k(S s, int *x) { *x = s.a + s.b; }", device=device
    )
    gap = np.dtype({"names": ["a"], "formats": ["i4"], "offsets": [0], "itemsize": 8})
    with pytest.raises(TypeError, match=r"no field for the member `b` \(integer of 4 bytes"):
        kernel[1, 1](np.zeros((), gap)[()], np.zeros(1, np.int32))


@pytest.mark.parametrize(
    "fields", [[("n", ">i4"), ("v", "f4", 2)], [("n", "i4"), ("v", ">f4", 2)]], ids=str
)
def test_fields_in_another_byte_order_are_refused(fields: list[Any], device: str) -> None:
    """A field that is an array counts, too: NumPy's `isnative` overlooks it."""
    kernel = coalesce.Kernel(
        "struct S { int n; float v[2]; };"
        "__global__ void k(S s, const S *p, float *x) { *x = s.n + s.v[1] + p->n + p->v[1]; }",
        device=device,
    )
    native, other = (np.ones(1, dtype) for dtype in ([("n", "i4"), ("v", "f4", 2)], fields))
    x = np.zeros(1, np.float32)
    kernel[1, 1](native[0], native, x)
    assert x[0] == 4
    with pytest.raises(
        TypeError, match=r"`s` \(S\) has dtype .*does not have this machine's byte order"
    ):
        kernel[1, 1](other[0], native, x)
    with pytest.raises(TypeError, match=r"`p` .*does not have this machine's byte order"):
        kernel[1, 1](native[0], other, x)
    kernel[1, 1](other[0].astype(other.dtype.newbyteorder("=")), native, x)
    assert x[0] == 4


def test_members_of_bases_that_are_described_as_members(monkeypatch):
    """NVRTC 13.0 describes a base class as a member; its members are still found by name."""
    base = layouts.Structure(
        "Base", "structure", 8, (layouts.Member("n", 4, Parameter("", "scalar", 4), None),)
    )

    def entry(name, offset):
        attributes = {
            "DW_AT_name": SimpleNamespace(value=name.encode()),
            "DW_AT_data_member_location": SimpleNamespace(value=offset),
        }
        return SimpleNamespace(tag="DW_TAG_member", attributes=attributes)

    children = [entry("__b_N1a4BaseE", 16), entry("own", 24)]
    derived = SimpleNamespace(iter_children=lambda: children)
    reader = layouts.TypeReader()
    types = {id(children[0]): base, id(children[1]): Parameter("", "scalar", 4)}
    monkeypatch.setattr(reader, "type", lambda die: types[id(die)])
    members = [(m.name, m.offset) for m in reader._members(derived)]
    assert members == [("n", 20), ("own", 24)]


def test_a_structured_array_needs_elements_of_the_right_size(on_simulator):
    source = """struct P { int n; float x; };
    __global__ void k(P *p) { p[threadIdx.x].x = p[threadIdx.x].n; }"""
    kernel = coalesce.Kernel(source, device=on_simulator)
    right = np.zeros(3, [("n", np.int32), ("x", np.float32)])
    right["n"] = 1, 2, 3
    kernel[1, 3](right)
    assert right["x"].tolist() == [1, 2, 3]
    with pytest.raises(TypeError, match=r"needs elements of 8 bytes; an element .* has 12 bytes"):
        kernel[1, 3](np.zeros(3, [("n", int), ("x", np.float32)]))


@pytest.mark.parametrize("arch", ["sm_75", "sm_80", "sm_90", "sm_100", "sm_120"])
def test_an_index_in_an_array_member(arch):
    kernel = coalesce.Kernel(INDEXED, "indexed", options=[f"-arch={arch}"], device="sim")
    out = np.zeros(32, np.int32)
    kernel[1, 32]({"a": np.arange(64, dtype=np.int32)}, out)
    n = np.arange(32)
    wanted = np.where(n < 16, 4 * n, 7) + n * (n - 1) // 2
    np.testing.assert_array_equal(out, wanted)
    assert not kernel.check(1, 32, {"a": np.arange(64, dtype=np.int32)}, out)


def test_code_that_the_compiler_refuses_with_debug_information(monkeypatch):
    # NVRTC 13.5 with -G ends with "unsupported operation" for some long kernels.
    compiled = nvrtc.compile_cuda

    def refusing(source, **given):
        if "-G" in given["options"] and "refused" in source:
            raise coalesce.CompileError("unsupported operation")
        return compiled(source, **given)

    monkeypatch.setattr(nvrtc, "compile_cuda", refusing)
    source = """struct P { int n; };
    __global__ void neighbour(P p, int *x) { int refused = 1; *x = refused + p.n; }
    __global__ void k(P p, int *x) { *x = p.n; }"""
    x = np.zeros(1, np.int32)
    coalesce.Kernel(source, "k", device="sim")[1, 1]({"n": 3}, x)
    coalesce.Kernel(source, "neighbour", device="sim")[1, 1]({"n": 4}, x)
    assert x[0] == 5


def test_structures_beside_host_code_and_unmarked_functions():
    source = """#include <vector>
    struct P { int n; float x; };
    constexpr int twice(int x) { return 2 * x; }
    __device__ int both(P p) { return twice(p.n); }
    __global__ void k(P p, float *x) { *x = both(p); }
    int main() { k<<<1, 1>>>(P(), nullptr); }"""
    x = np.zeros(1, np.float32)
    coalesce.Kernel(source, device="sim")[1, 1]({"n": 3, "x": 1.0}, x)
    assert x[0] == 6
