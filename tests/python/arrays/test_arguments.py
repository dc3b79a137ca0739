"""How arguments are checked and packed: signatures, scalars, arrays. Runs nothing."""

import contextlib
import itertools
import struct
import types

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import coalesce
from coalesce.common import geometry, require
from coalesce.common.memory import elements_overlap
from coalesce.cxx import declarations
from coalesce.cxx.signature import (
    Parameter,
    PtxParameter,
    Signature,
    element_types,
    find_entry,
    is_ptx,
    ptx_entries,
    signature_of,
)
from coalesce.errors import LaunchError
from coalesce.launch.arguments import HostArray, prepare

POINTER = PtxParameter("u64", 8, 8, False)
INT = PtxParameter("u32", 4, 4, False)


def test_a_plain_integer_is_accepted_without_further_checks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An exception of a signal handler must not be reported as an error in the argument."""

    def interrupted(_: object) -> int:
        raise RuntimeError("of a signal handler")

    # Only for this module: pytest and its plugins use operator.index(), too.
    monkeypatch.setattr(require, "operator", types.SimpleNamespace(index=interrupted))
    assert require.integer("n", 3) == 3
    with pytest.raises(TypeError, match="`n` must be an integer"):
        require.integer("n", np.int32(3))


@pytest.mark.parametrize(
    ("name", "begin"),
    [
        ("n", r"`n` must"),
        ("grid.x", r"`grid\.x` must"),
        ("the array", r"the array must"),
        ("argument `x` (float *)", r"argument `x` \(float \*\) must"),
    ],
)
def test_a_name_is_in_backticks_and_a_phrase_is_not(name: str, begin: str) -> None:
    with pytest.raises(TypeError, match=rf"^{begin} be an integer"):
        require.integer(name, "3")


def pointer(name: str = "x", *accepted: str, const: bool = False, item: int = 4) -> Parameter:
    return Parameter(name, "pointer", 8, accepted, const, "float *", item)


def scalar(*accepted: str) -> Parameter:
    return Parameter("n", "scalar", int(accepted[0][1:]), accepted, spelled="number")


def pack(parameter: Parameter, value: object) -> object:
    return prepare(Signature("k", "k", (parameter,)), [value])[0]


# --- declarations ---------------------------------------------------------------------------------


@given(st.text(alphabet="__global__ void k(int*<>,){}=[]&\n#define", max_size=80))
def test_no_source_breaks_the_reader(text: str) -> None:
    declarations.parameters_of("__global__ void k(" + text, "k", 1)


# --- signatures -----------------------------------------------------------------------------------


def test_ptx_entries() -> None:
    ptx = """
        .version 9.0 // .entry decoy()
        .visible .entry _Z1kPf1S(
            .param .u64 .ptr .global .align 4 _Z1kPf1S_param_0,
            .param .align 16 .b8 _Z1kPf1S_param_1[48], .param .f32 p2
        ) .maxntid 32 { ret; }
        .entry none { ret; }
        .entry empty() { ret; }
    """
    assert ptx_entries(ptx) == {
        "_Z1kPf1S": (
            PtxParameter("u64", 8, 8, True),
            PtxParameter("b8", 48, 16, False),
            PtxParameter("f32", 4, 4, False),
        ),
        "none": (),
        "empty": (),
    }
    assert is_ptx("// comment\n/* more */ .version 9.0")
    assert not is_ptx("__global__ void k() {}")


def test_types_of_the_source_are_used_only_if_the_ptx_agrees() -> None:
    source = "__global__ void k(float *x, int n, long m) {}"
    signature = signature_of("k", [POINTER, INT, INT], source)
    assert [p.kind for p in signature.parameters] == ["pointer", "scalar", "scalar"]
    assert signature.parameters[0].accepted == ("f4",)
    assert signature.parameters[2].accepted == ("i4", "u4"), "a long of 4 bytes is not believed"
    unknown = signature_of("k", [POINTER, INT], source)
    assert [p.name for p in unknown.parameters] == ["arg0", "arg1"]


def test_an_unknown_entry_lists_the_existing_entries() -> None:
    entries = ["scale", "_Z3addPf"]
    assert find_entry(entries, "add") == "_Z3addPf"
    assert find_entry(["only"], None) == "only"
    with pytest.raises(ValueError, match=r"scale, add \(as _Z3addPf\).*extern \"C\""):
        find_entry(entries, "nope")
    with pytest.raises(ValueError, match="2 kernels; choose one"):
        find_entry(entries, None)
    with pytest.raises(ValueError, match="no kernel"):
        find_entry([], "k")
    with pytest.raises(ValueError, match=r'is a template.*entry="k<float>"'):
        find_entry(["other"], "k", "template <class T> __global__ void k(T *x) {}")
    with pytest.raises(ValueError, match="the name of several kernels"):
        find_entry(["_Z1kPf", "_Z1kPd"], "k")


# --- scalars --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "value", "packed"),
    [
        ("i4", 7, struct.pack("<i", 7)),
        ("i4", -1, b"\xff" * 4),
        ("i4", True, struct.pack("<i", 1)),
        ("u1", 255, b"\xff"),
        ("u8", 2**64 - 1, b"\xff" * 8),
        ("i8", np.int64(-2), struct.pack("<q", -2)),
        ("f4", 1.5, struct.pack("<f", 1.5)),
        ("f4", 3, struct.pack("<f", 3)),
        ("f4", float("inf"), struct.pack("<f", float("inf"))),
        ("f8", np.float64(2.5), struct.pack("<d", 2.5)),
        ("f8", 2, struct.pack("<d", 2)),
        ("f2", 0.5, struct.pack("<e", 0.5)),
        ("V2", 1.0, b"\x80\x3f"),
        ("b1", True, b"\x01"),
        ("b1", np.bool_(False), b"\x00"),
        ("c8", 1 + 2j, struct.pack("<ff", 1, 2)),
        ("i4", np.int64(3), struct.pack("<i", 3)),
        ("u4", np.int64(2**32 - 1), b"\xff" * 4),
        ("i8", np.uint8(3), struct.pack("<q", 3)),
        ("i4", np.bool_(True), struct.pack("<i", 1)),
        ("b1", np.int64(1), b"\x01"),
        ("f8", np.float32(0.1), struct.pack("<d", np.float32(0.1))),
        ("f4", np.float16(0.5), struct.pack("<f", 0.5)),
        ("f4", np.int64(2**24), struct.pack("<f", 2**24)),
        ("f4", 2**100, struct.pack("<f", 2.0**100)),
        ("f8", -(2**53), struct.pack("<d", -(2**53))),
        ("c16", np.float64(1), struct.pack("<dd", 1, 0)),
        ("c16", np.complex64(1j), struct.pack("<dd", 0, 1)),
        ("V2", 256, b"\x80\x43"),
    ],
)
def test_scalars_are_packed(code: str, value: object, packed: bytes) -> None:
    assert pack(scalar(code), value) == packed


@pytest.mark.parametrize(
    ("code", "value", "message"),
    [
        ("i4", 3.0, r"needs int32; got float 3.0; pass int\(n\) to drop the fraction"),
        ("i4", np.float32(3), r"needs int32; got numpy.float32; pass int\(n\)"),
        ("f4", np.float64(3), r"needs float32; got numpy.float64; pass numpy.float32\(n\) to"),
        ("f2", np.float32(3), "needs float16; got numpy.float32"),
        ("f4", True, "needs float32; got bool True; pass 0.0 or 1.0"),
        ("f8", np.bool_(True), "needs float64; got numpy.bool"),
        ("f4", np.complex64(1), "needs float32; got numpy.complex64"),
        ("i4", np.datetime64(3, "s"), "needs int32; got numpy.datetime64"),
        ("f4", "3", "needs float32; got str"),
        ("i4", None, "needs int32; got NoneType"),
        ("i4", np.array(3), r"got a NumPy array of shape \(\); pass its element: x.item\(\)"),
        ("i4", np.zeros(3), r"must be a scalar of 4 bytes; got a NumPy array of shape \(3,\)"),
        ("f4", 1j, "needs float32; got complex"),
    ],
)
def test_scalars_of_another_type(code: str, value: object, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        pack(scalar(code), value)


@pytest.mark.parametrize(
    ("code", "value"),
    [
        ("i4", 2**31),
        ("i4", -(2**31) - 1),
        ("i4", np.int64(2**31)),
        ("u1", -1),
        ("u4", np.int8(-1)),
        ("u8", 2**64),
        ("f4", 2**24 + 1),
        ("f4", np.int64(2**24 + 1)),
        ("f8", 2**53 + 1),
        ("f4", 2**128),
        ("f8", 2**2000),
        ("f2", 65536),
        ("V2", 257),
        ("V2", 3.4e38),
        ("f4", 1e39),
        ("f2", 1e6),
        ("b1", 2),
    ],
)
def test_scalars_that_do_not_fit(code: str, value: object) -> None:
    with pytest.raises(ValueError, match="does not fit"):
        pack(scalar(code), value)


@given(st.integers(-(2**31), 2**31 - 1))
def test_integers_survive(value: int) -> None:
    assert pack(scalar("i4"), value) == pack(scalar("i4"), np.int32(value))


@given(st.floats(width=32, allow_nan=False))
def test_floats_survive(value: float) -> None:
    assert pack(scalar("f4"), value) == np.float32(value).tobytes()


def test_structures() -> None:
    point = np.array((1, 2.5), dtype=[("i", "i4"), ("x", "f4")])[()]
    parameter = Parameter("p", "struct", 8, spelled="Point")
    assert pack(parameter, point) == struct.pack("<if", 1, 2.5)
    assert pack(parameter, b"12345678") == b"12345678"
    with pytest.raises(
        TypeError, match="structure of 8 bytes; got an object of type bytes with 3 bytes"
    ):
        pack(parameter, b"123")
    with pytest.raises(TypeError, match="structured scalar, or bytes; got int"):
        pack(parameter, 8)


# --- arrays ---------------------------------------------------------------------------------------


def test_a_copy_that_does_not_fit_in_the_memory_names_the_array() -> None:
    with contextlib.suppress(MemoryError):
        np.empty(2**42, np.int8)
        pytest.skip("this machine grants memory that it does not have")
    one = np.ones(1, np.float32)
    with pytest.raises(MemoryError, match=r"`x` .* has shape .* copy of 4,398,046,511,104 bytes"):
        pack(pointer("x", "f4", const=True), np.broadcast_to(one, 2**40))
    with pytest.raises(MemoryError, match=r"`a` has shape .* needs a copy"):
        coalesce.row_sums(np.broadcast_to(one, (2**20, 2**20)), device="sim")
    many = np.broadcast_to(np.int64(0), 2**40)
    for call in (
        lambda: coalesce.access(one, pattern="gather", index=many),
        lambda: coalesce.transactions(many),
    ):
        with pytest.raises(MemoryError):
            call()
    for call, name in (
        (lambda: coalesce.access(one, pattern="permuted", order=many), "order"),
        (lambda: coalesce.draw.warp_access(many, 4), "addresses"),
        (lambda: coalesce.draw.bank_board(many, 4), "addresses"),
        (lambda: coalesce.draw.warp_access(itertools.count(), 4), "addresses"),
    ):
        with pytest.raises(ValueError, match=f"`{name}`"):
            call()
    writable = np.lib.stride_tricks.as_strided(one, (2**20, 2**20), (0, 0))
    with pytest.raises(ValueError, match=r"`x` .* elements share memory"):
        pack(pointer("x", "f4"), writable)


def test_read_only_arrays_are_refused_where_the_kernel_may_write() -> None:
    x = np.arange(6, dtype=np.float32)
    x.flags.writeable = False
    with pytest.raises(ValueError, match=r"`x` \(float \*\) is a read-only array, but the kernel"):
        pack(pointer("x", "f4"), x)
    with pytest.raises(ValueError, match=r"as `const float \*x`.*x.copy\(\)"):
        pack(pointer("x", "f4"), np.broadcast_to(np.float32(1), (6,)))
    assert not pack(pointer("x", "f4", const=True), x).written  # type: ignore[attr-defined]
    unknown = Parameter("x", "pointer", 8)  # Parameters of PTX have no const.
    assert not pack(unknown, x).written  # type: ignore[attr-defined]


def test_arrays_whose_elements_overlap_are_refused_where_the_kernel_may_write() -> None:
    memory, strided = np.zeros(64, np.float32), np.lib.stride_tricks.as_strided
    for shape, strides in (((4,), (0,)), ((3, 2), (4, 4)), ((3, 5), (16, 4)), ((2, 2), (-4, 4))):
        x = strided(memory[8:], shape, strides)
        with pytest.raises(ValueError, match=r"`x` .* elements share memory"):
            pack(pointer("x", "f4"), x)
        pack(pointer("x", "f4", const=True), x)
        assert elements_overlap(x)
    for x in (
        strided(memory, (2, 3), (8, 20)),  # not nested, but no two elements are the same
        memory[::-2].reshape(4, 8).T,
        memory.reshape(4, 4, 4)[:, ::-1, :1],
        strided(memory, (1, 3), (0, 4)),
    ):
        assert not elements_overlap(x)
        pack(pointer("x", "f4"), x)


def test_a_null_pointer() -> None:
    assert pack(pointer(), None) == bytes(8)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ([1.0, 2.0], r"got list \[1.0, 2.0\]; make one: numpy.array\(x, dtype=numpy.float32\)"),
        (3, "got int 3; for a single value make an array"),
        (np.float32(3), "for a single value"),
        (np.zeros(3), r"needs an array of float32; got dtype float64. Convert it: x.astype"),
        (np.zeros(3, object), "dtype object, which a kernel cannot read"),
        (np.zeros(3, "U4"), "which a kernel cannot read"),
        (np.zeros(3, "M8[s]"), "which a kernel cannot read"),
        (np.zeros(3, ">f4"), "does not have this machine's byte order"),
        (np.ma.zeros(3, np.float32), "masked array"),
        ("x", "needs an array of float32; got str"),
    ],
)
def test_values_that_are_no_arrays(value: object, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        pack(pointer("x", "f4"), value)


def test_a_pointer_to_bytes_suggests_a_view() -> None:
    with pytest.raises(TypeError, match=r"pass x.view\(numpy.uint8\)"):
        pack(Parameter("x", "pointer", 8, ("u1",), item_bytes=1), np.zeros(3, np.float32))


def test_a_pointer_to_pointers_needs_addresses() -> None:
    source = 'extern "C" __global__ void k(float **rows) { rows[0][0] = 1; }'
    kernel = coalesce.Kernel(source, device="sim")
    with pytest.raises(TypeError, match=r"got dtype float32. Its elements must be addresses"):
        kernel[1, 1](np.zeros((2, 2), np.float32))
    with pytest.raises(coalesce.MemoryFault):
        kernel[1, 1](np.zeros(2, np.uint64))


def test_a_pointer_of_unknown_type_accepts_every_dtype() -> None:
    for dtype in ("f4", "i8", "c16", "b1", "f2", [("a", "i4"), ("b", "f8")]):
        pack(Parameter("x", "pointer", 8), np.zeros(3, dtype))


def test_vectors_take_their_elements_and_structures() -> None:
    accepted, item = element_types("float4")
    assert (accepted, item) == (("f4",), 16)
    parameter = Parameter("v", "pointer", 8, accepted, item_bytes=item)
    pack(parameter, np.zeros((3, 4), np.float32))
    pack(parameter, np.zeros(3, [("x", "f4"), ("y", "f4"), ("z", "f4"), ("w", "f4")]))
    for dtype in (
        [("x", "f4")],
        [("x", "i4", 4)],
        "V16",
    ):  # other sizes, other elements, no elements
        with pytest.raises(TypeError):
            pack(parameter, np.zeros(3, dtype))
    with pytest.raises(TypeError, match=r"got dtype \|V4. If .* pass x.view\(numpy.float32\)"):
        pack(pointer("x", "f4"), np.zeros(3, "V4"))
    with pytest.raises(TypeError, match=r"Pass one of its members: .*\(x\['a'\]\)"):
        pack(pointer("x", "f4"), np.zeros(3, [("a", "f4"), ("b", "i2")]))


def test_vectors_accept_the_dtypes_of_their_elements() -> None:
    accepted, item = element_types("__nv_bfloat162")
    parameter = Parameter("v", "pointer", 8, accepted, item_bytes=item)
    pack(parameter, np.zeros(4, np.uint16))  # NumPy has no bfloat16, so the array holds the bits.
    with pytest.raises(TypeError, match=r"v\.astype\(ml_dtypes\.bfloat16\)"):
        pack(parameter, np.zeros(4, np.float32))
    assert "u1" in element_types("char4")[0]


def test_an_array_passed_twice_shares_memory() -> None:
    signature = Signature("k", "k", (pointer("a", "f4", const=True), pointer("b", "f4")))
    x = np.zeros((4, 6), np.float32)
    a, b = prepare(signature, [x.T, x.T])
    assert isinstance(a, HostArray)
    assert isinstance(b, HostArray)
    assert a.array is b.array
    a.array[...] = 1
    a.finish()
    b.finish()
    assert x.all(), "what is written through one of the names arrives"


def test_overlapping_views_that_cannot_share() -> None:
    signature = Signature("k", "k", (pointer("a", "f4"), pointer("b", "f4")))
    x = np.zeros((4, 6), np.float32)
    # The views are interleaved, but they share no element.
    prepare(signature, [x[:, 0::2], x[:, 1::2]])
    with pytest.raises(ValueError, match=r"`a` and `b` share memory, and `a` is not C-contiguous"):
        prepare(signature, [x[:, ::2], x])
    read = Signature("k", "k", (pointer("a", "f4", const=True), pointer("b", "f4", const=True)))
    prepare(read, [x[:, ::2], x])  # The kernel writes to neither view.


# --- geometry -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        ((1, 32), ((1, 1, 1), (32, 1, 1), 0, None)),
        (((2, 3), (4, 5, 6)), ((2, 3, 1), (4, 5, 6), 0, None)),
        ((np.int32(7), [8], 100), ((7, 1, 1), (8, 1, 1), 100, None)),
        ((2**31 - 1, 1024), ((2**31 - 1, 1, 1), (1024, 1, 1), 0, None)),
        ((1, 32, 0, None), ((1, 1, 1), (32, 1, 1), 0, None)),
        ((1, 32, 0, 1), ((1, 1, 1), (32, 1, 1), 0, 0)),
        ((1, 32, 0, np.uint64(2**63)), ((1, 1, 1), (32, 1, 1), 0, 2**63)),
    ],
)
def test_geometry(key: object, expected: object) -> None:
    assert geometry.launch_of(key) == expected


@pytest.mark.parametrize(
    ("key", "error", "message"),
    [
        (1, TypeError, r"kernel\[grid, block\]"),
        ((1, 2, 3, 4, 5), TypeError, r"kernel\[grid, block, shared_bytes, stream\]"),
        ((1, 2, 3, "s"), TypeError, "`stream` must be a stream of CuPy.*got str 's'"),
        ((1, 2, 3, True), TypeError, "`stream` must be"),
        ((1, 2, 3, -1), ValueError, "`stream` is -1"),
        ((1.0, 1), TypeError, "`grid.x` must be an integer; got float 1.0"),
        ((1, True), TypeError, "`block.x` must be an integer"),
        (((1, 2, 3, 4), 1), TypeError, "one to three extents"),
        ((0, 1), LaunchError, "`grid.x` is 0; it must be at least 1"),
        ((1, -4), LaunchError, "`block.x` is -4"),
        (((1, 65536), 1), LaunchError, "`grid.y` is 65536; CUDA allows at most 65535"),
        ((1, (1, 1, 65)), LaunchError, "`block.z` is 65; CUDA allows at most 64"),
        ((1, (32, 33)), LaunchError, "32 x 33 = 1056 threads are too many"),
        ((1, 1, -1), LaunchError, "must not be negative"),
    ],
)
def test_geometry_that_no_gpu_supports(key: object, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        geometry.launch_of(key)
