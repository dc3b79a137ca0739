"""Plans of calls on a GPU, executed step by step on the simulator."""

from __future__ import annotations

import types
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import pytest

import coalesce
from coalesce.arrays import copies, foreign
from coalesce.arrays.devices import SIMULATED, Device
from coalesce.arrays.gpu_array import GpuArray
from coalesce.catalogue import planned_calls
from coalesce.catalogue import run as catalogue_run
from coalesce.catalogue.reference import reference
from coalesce.launch.kernel import BaseKernel
from coalesce.launch.launch import Launch

pytestmark = pytest.mark.usefixtures("on_simulator")

GPU = Device("cuda:0", "a GPU without Hopper's instructions", "cuda", (8, 0), 1 << 34, 108)


class SimulatedCall:
    """Does what `cuda.PlannedCall` does: host memory is the workspace, kernels are simulated."""

    made: ClassVar[list[SimulatedCall]] = []

    def __init__(
        self,
        _ordinal: int,
        workspace: int,
        _what: str,
        *,
        overlap: bool = False,
        pinned_result: bool = False,
    ) -> None:
        self.memory = np.full(workspace, 0xFF, np.uint8)  # NaN: nothing may be read before a copy
        self.steps: list[tuple[Any, ...]] = []
        self.overlap, self.pinned_result = overlap, pinned_result
        self.made.append(self)

    def to_device(self, *step: int) -> None:
        self.steps.append(("to_device", *step))

    def to_host(self, *step: int) -> None:
        self.steps.append(("to_host", *step))

    def launch(self, *step: Any) -> None:
        self.steps.append(("launch", *step))

    def run(self, arrays: tuple[np.ndarray, ...], _waiting: Any) -> None:
        for kind, *step in self.steps:
            if kind == "launch":
                self._launch(*step)
                continue
            number, at, place, size = step
            host = arrays[number].ravel(order="K").view(np.uint8)[at : at + size]
            assert np.shares_memory(host, arrays[number])
            device = self.memory[place : place + size]
            if kind == "to_device":
                device[:] = host
            else:
                host[:] = device

    def enqueue(self, addresses: list[int]) -> None:
        self.memory[:] = 0xFF
        for kind, *step in self.steps:
            assert kind == "launch"
            self._launch(*step, [FakeGpuArray.at[address].memory for address in addresses])

    def _launch(
        self,
        kernel: BaseKernel,
        launch: Launch,
        arguments: list[Any],
        arrays: Sequence[np.ndarray] = (),
    ) -> None:
        values = []
        for parameter, given in zip(kernel.signature.parameters, arguments, strict=True):
            if isinstance(given, bytes):
                values.append(np.frombuffer(given, parameter.accepted[0])[0])
            else:
                number, at = given if isinstance(given, tuple) else (None, given)
                memory = self.memory if number is None else arrays[number]
                dtype = np.dtype(parameter.accepted[0])
                end = (memory.size - at) // dtype.itemsize * dtype.itemsize
                values.append(memory[at : at + end].view(dtype))
        launch.bind(values, SIMULATED["sim:a100"]).run()


class FakeGpuArray:
    """A GPU array whose memory is a NumPy array."""

    at: ClassVar[dict[int, FakeGpuArray]] = {}  # by address

    def __init__(
        self,
        values: np.ndarray,
        stream: int | None = None,
        shift: int = 0,
        strides: tuple[int, ...] | None = None,
    ) -> None:
        self.memory = np.zeros(4 * values.nbytes + 256, np.uint8)  # at the begin of the array
        self.shape, self.dtype = values.shape, values.dtype
        self.address = (1 << 50 | (1 + len(self.at)) << 20) + shift
        strides = strides or values.strides
        code = values.dtype.str[1:]
        self.seen = GpuArray(self.address, self.shape, strides, code, 0, stream, False, self)
        self.at[self.address] = self
        self.numpy()[...] = values

    def numpy(self) -> np.ndarray:
        return np.ndarray(self.shape, self.dtype, self.memory, strides=self.seen.strides)

    @property
    def _address(self) -> int:
        return self.address

    @classmethod
    def maker(cls, shape: tuple[int, ...], dtype: Any, device: Any) -> Any:
        assert device is GPU
        return lambda: cls(np.full(shape, np.nan, dtype))


@pytest.fixture(autouse=True)
def planned_for_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let calls be planned for a GPU that is not there."""
    compiled = catalogue_run.compiled

    def on_simulator(entry: Any, defines: tuple[str, ...], _device: str) -> BaseKernel:
        return compiled(entry, defines, "sim:a100")

    cuda = types.SimpleNamespace(PlannedCall=SimulatedCall)
    devices = types.SimpleNamespace(resolve=lambda *_: GPU)
    SimulatedCall.made = []
    monkeypatch.setattr(planned_calls, "cuda", cuda)
    monkeypatch.setattr(planned_calls.gpu, "admitted", lambda launch: launch.kernel)
    monkeypatch.setattr(planned_calls, "devices", devices)
    monkeypatch.setattr(catalogue_run, "devices", devices)
    monkeypatch.setattr(catalogue_run, "compiled", on_simulator)
    monkeypatch.setattr(planned_calls, "_plans", type(planned_calls._plans)())
    calls = planned_calls._gpu_calls
    made = type(calls)(planned_calls._gpu_plan, planned_calls._described)
    monkeypatch.setattr(planned_calls, "_gpu_calls", made)
    find = foreign.find_gpu_array
    monkeypatch.setattr(FakeGpuArray, "at", {})
    monkeypatch.setattr(planned_calls, "DeviceArray", FakeGpuArray)
    monkeypatch.setattr(
        foreign,
        "find_gpu_array",
        lambda x, *name: x.seen if type(x) is FakeGpuArray else find(x, *name),
    )


@pytest.fixture(params=["host", "gpu"])
def placed(request: pytest.FixtureRequest) -> Callable[[np.ndarray], Any]:
    """Return a function that places an array in the host's memory or on the GPU."""
    return FakeGpuArray if request.param == "gpu" else lambda a: a


def on_host(a: Any) -> np.ndarray:
    return a.numpy() if isinstance(a, FakeGpuArray) else a


@pytest.mark.parametrize("order_a", ["C", "F"])
@pytest.mark.parametrize("order_b", ["C", "F"])
@pytest.mark.parametrize("variant", ["best", "tiled", "transposed_b"])
def test_products(
    variant: str, order_a: str, order_b: str, placed: Any, dtype: Any, random: np.random.Generator
) -> None:
    for _ in range(2):  # other arrays, the same plan
        a = np.asarray(random.random((70, 33)), dtype, order=order_a)
        b = np.asarray(random.random((33, 45)), dtype, order=order_b)
        c = coalesce.matmul(placed(a), placed(b), variant=variant)
        np.testing.assert_allclose(on_host(c), a @ b, 1e-5)
        assert c.dtype == dtype
    assert len(SimulatedCall.made) == 1
    assert on_host(c).flags.c_contiguous


def test_the_result_may_go_to_out_and_c_may_be_added(random: np.random.Generator) -> None:
    a, b, c = (random.random((40, 40), np.float32) for _ in range(3))
    out = np.empty_like(c)
    assert coalesce.matmul(a, b, alpha=2.0, beta=-1.0, c=c, out=out) is out
    np.testing.assert_allclose(out, 2 * a @ b - c, 1e-4)
    assert len(SimulatedCall.made) == 1


@pytest.mark.parametrize("rows", [300, 384, 129, 1000])
@pytest.mark.parametrize("with_c", [False, True])
@pytest.mark.parametrize("order_b", ["C", "F"])
def test_slabs(
    rows: int,
    with_c: bool,
    order_b: str,
    monkeypatch: pytest.MonkeyPatch,
    random: np.random.Generator,
) -> None:
    monkeypatch.setattr(planned_calls, "_SLABS_FROM", 0)
    monkeypatch.setattr(planned_calls, "_MOST_SLABS", 3)
    a = random.random((rows, 35), np.float32)
    b = np.asarray(random.random((35, 50), np.float32), order=order_b)
    c = random.random((rows, 50), np.float32) if with_c else None
    beta = 0.5 if with_c else 0.0
    right = a @ b + (beta * c if with_c else 0)
    out = np.empty((rows, 50), np.float32)
    for given in (None, out):
        got = coalesce.matmul(a, b, variant="best", beta=beta, c=c, out=given)
        np.testing.assert_allclose(got, right, 1e-5)
    call = SimulatedCall.made[0]
    assert call.overlap
    slabs = [step[1:] for step in call.steps if step[0] == "to_host"]
    assert 1 < len(slabs) <= 3
    assert sum(size for _, _, _, size in slabs) == right.nbytes


def test_only_the_best_variant_has_slabs(
    monkeypatch: pytest.MonkeyPatch, random: np.random.Generator
) -> None:
    monkeypatch.setattr(planned_calls, "_SLABS_FROM", 0)
    a = random.random((300, 30), np.float32)
    coalesce.matmul(a, a.T.copy(), variant="tiled")
    coalesce.matmul(np.asfortranarray(a), a.T.copy(), variant="best")
    assert not any(call.overlap for call in SimulatedCall.made)


def test_the_result_may_overlap_an_operand(
    monkeypatch: pytest.MonkeyPatch, random: np.random.Generator
) -> None:
    a = random.random((300, 300), np.float32)
    out = a.copy()
    assert coalesce.matmul(out, out, out=out) is out
    np.testing.assert_allclose(out, a @ a, 1e-5)
    assert len(SimulatedCall.made) == 1
    # In slabs, rows of the result are written before the last rows of `a` are read.
    monkeypatch.setattr(planned_calls, "_SLABS_FROM", 0)
    options = {"variant": "best", "tile": None, "out": a}
    assert planned_calls.run("matmul", (a, a), options, None)[0] is None


def test_the_best_variant_writes_small_results_to_pinned_memory(
    random: np.random.Generator,
) -> None:
    a = random.random((40, 30), np.float32)
    for variant in ("tiled", "best"):
        coalesce.matmul(a, a.T.copy(), variant=variant)
        assert SimulatedCall.made[-1].pinned_result == (variant == "best")
    coalesce.access(a.ravel(), pattern="offset", offset=1)
    assert not SimulatedCall.made[-1].pinned_result


@pytest.mark.parametrize("operation", ["transpose", "row_sums", "column_sums"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_operations_on_one_matrix(
    operation: str, order: str, placed: Any, dtype: Any, random: np.random.Generator
) -> None:
    for shape in ((70, 33), (1500, 20)):
        a = np.asarray(random.random(shape), dtype, order=order)
        right = {"transpose": a.T, "row_sums": a.sum(1), "column_sums": a.sum(0)}[operation]
        for variant in coalesce.variants(operation).names:
            got = getattr(coalesce, operation)(placed(a), variant=variant)
            np.testing.assert_allclose(on_host(got), a if variant == "copy" else right, 1e-4)
    assert SimulatedCall.made


@pytest.mark.parametrize(
    "wrong",
    [
        {"b": np.ones((5, 4), np.float32)},
        {"b": np.ones((4, 4), np.float64)},
        {"variant": "bets"},
        {"variant": "best", "tile": 8},
        {"beta": 1.0},
        {"beta": 1.0, "c": np.ones((3, 3), np.float32)},
        {"out": np.ones((3, 3), np.float32)},
        {"out": np.ones((4, 4), np.float64)},
        {"alpha": "1"},
    ],
)
def test_wrong_calls_have_the_messages_of_the_general_way(
    wrong: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    a = np.ones((4, 4), np.float32)
    call = {"a": a, "b": a, "variant": "best", **wrong}
    messages = []
    for _ in range(2):
        with pytest.raises((TypeError, ValueError)) as raised:
            coalesce.matmul(call.pop("a"), call.pop("b"), **call)
        messages.append(f"{raised.type.__name__}: {raised.value}")
        call = {"a": a, "b": a, "variant": "best", **wrong}
        monkeypatch.setattr(planned_calls, "run", lambda *given: (None, given[-1]))
        monkeypatch.setattr(catalogue_run, "devices", planned_calls.devices)
    assert messages[0] == messages[1]


@pytest.mark.parametrize("flag", [True, np.float32(2), 2])
def test_options_that_are_equal_do_not_share_a_plan(flag: Any) -> None:
    a = np.eye(4, dtype=np.float32)
    np.testing.assert_array_equal(coalesce.matmul(a, a, variant="tiled", alpha=1.0), a)
    if type(flag) is int:
        np.testing.assert_array_equal(coalesce.matmul(a, a, variant="tiled", alpha=flag), 2 * a)
        return
    made = len(SimulatedCall.made)
    options = {"variant": "tiled", "alpha": flag, "out": None}
    assert planned_calls.run("matmul", (a, a), options, None) == (None, None)
    assert len(SimulatedCall.made) == made


def test_large_results_reuse_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(copies, "_REUSED_FROM", 0)
    a = np.eye(7, dtype=np.float32)
    first = coalesce.matmul(a, a)
    place = first.__array_interface__["data"][0]
    second, part = coalesce.matmul(a, a), first[2:]
    assert second.__array_interface__["data"][0] != place
    del first
    third = coalesce.matmul(2 * a, a)  # a view of the first result still exists
    assert third.__array_interface__["data"][0] != place
    np.testing.assert_array_equal(part, a[2:])
    del part
    fourth = coalesce.matmul(3 * a, a)
    assert fourth.__array_interface__["data"][0] == place
    for result, factor in ((second, 1), (third, 2), (fourth, 3)):
        np.testing.assert_array_equal(result, factor * a)
        assert result.shape == (7, 7)
        assert result.flags.writeable


def test_what_needs_the_general_way(random: np.random.Generator) -> None:
    def planned(*arrays: Any, out: Any = None) -> bool:
        options = {"variant": "tiled", "tile": None, "out": out}
        return planned_calls.run("matmul", arrays, options, None)[0] is not None

    a = random.random((8, 8), np.float32)
    assert planned(a, a)
    assert not planned(a, a[::2, ::2])
    assert not planned(a, a.astype(">f4"))
    assert not planned(a, np.ma.masked_array(a))
    assert not planned(a.astype(np.int32), a)
    assert not planned(a, a, out=np.empty((8, 8), np.float32, "F"))
    assert not planned(a, a[:, :0])


def test_gpu_arrays_as_out_and_c(random: np.random.Generator) -> None:
    a, b, c = (random.random((40, 40), np.float32) for _ in range(3))
    out = FakeGpuArray(c)
    given = [FakeGpuArray(x) for x in (a, b, c)]
    assert coalesce.matmul(*given[:2], alpha=2.0, beta=-1.0, c=given[2], out=out) is out
    np.testing.assert_allclose(out.numpy(), 2 * a @ b - c, 1e-4)
    np.testing.assert_array_equal(given[2].numpy(), c)
    square = coalesce.matmul(given[0], given[0])
    np.testing.assert_allclose(square.numpy(), a @ a, 1e-5)


@pytest.mark.parametrize("shift", [0, 4, 8])
@pytest.mark.parametrize("strides", [None, (160, 4), (4, 200), (320, 8)])
def test_gpu_arrays_with_gaps_or_unaligned(
    shift: int, strides: tuple[int, int] | None, random: np.random.Generator
) -> None:
    a, b = (random.random((40, 40), np.float32) for _ in range(2))
    left = FakeGpuArray(a, shift=shift, strides=strides)
    out = FakeGpuArray(np.zeros_like(a), shift=shift)
    for right in (FakeGpuArray(b), FakeGpuArray(b, shift=12)):
        assert coalesce.matmul(left, right, variant="tiled", out=out) is out
        np.testing.assert_allclose(out.numpy(), a @ b, 1e-5)
        got = coalesce.transpose(left, variant="vectorized")
        np.testing.assert_array_equal(got.numpy(), a.T)
    assert len(SimulatedCall.made) == 3  # one for each alignment of `right`, and one transpose


def test_gpu_arrays_that_need_the_general_way(random: np.random.Generator) -> None:
    def planned(*arrays: Any, out: Any = None) -> bool:
        options = {"variant": "tiled", "tile": None, "out": out}
        return planned_calls.run("matmul", arrays, options, None)[0] is not None

    x = random.random((8, 8), np.float32)
    a = FakeGpuArray(x)
    assert planned(a, a)
    assert planned(a, a, out=FakeGpuArray(x))
    assert not planned(a, x)
    assert not planned(a, a, out=x)
    assert not planned(a, FakeGpuArray(x.astype(np.int32)))
    assert not planned(a, a, out=a)
    on_stream = FakeGpuArray(x, stream=77)
    assert not planned(a, on_stream)
    assert not planned(on_stream, on_stream)
    assert planned(on_stream, on_stream, out=FakeGpuArray(x, stream=77))
    for changed in ({"ordinal": 1}, {"strides": (-32, 4)}):
        b = FakeGpuArray(x)
        b.seen = replace(b.seen, **changed)
        assert not planned(a, b)
    out = FakeGpuArray(x)
    out.seen = replace(out.seen, read_only=True)
    assert not planned(a, a, out=out)
    assert not planned(a, a, out=FakeGpuArray(np.asfortranarray(x)))


@pytest.mark.parametrize(
    "options",
    [
        {"pattern": "offset", "offset": 3},
        {"pattern": "stride", "stride": 3},
        {"pattern": "permuted"},
        {"pattern": "vector", "width": 16},
        {"pattern": "broadcast"},
        {"pattern": "far_lane", "distance": 64},
        {"pattern": "aos", "field": 1},
        {"pattern": "soa", "field": 1},
    ],
)
def test_access_patterns(options: dict[str, Any], random: np.random.Generator) -> None:
    shape = {"aos": (240, 4), "soa": (4, 240)}.get(options["pattern"], (960,))
    x = random.random(shape, np.float32)
    right = reference("access", options["pattern"], (x,), options)
    assert right.error(coalesce.access(x, **options)) == 0
    assert right.error(coalesce.access(FakeGpuArray(x), **options).numpy()) == 0
    assert len(SimulatedCall.made) == 2
