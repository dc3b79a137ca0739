"""Plans of calls on a GPU. every_shape.py compares the results of planned calls with NumPy's.

Without a GPU, the last test runs this file on the simulated driver.
"""

import gc
from collections import OrderedDict
from typing import Any

import numpy as np
import pytest
import simulated_driver

import coalesce
from coalesce.arrays import copies
from coalesce.catalogue import planned_calls
from coalesce.catalogue.products import run_matmul
from coalesce.catalogue.run import compiled


@pytest.fixture
def made(device: str, monkeypatch: pytest.MonkeyPatch) -> list[tuple[dict[str, bool], Any]]:
    """Return the list of plans that a test makes: their options and their steps."""
    if device != "cuda":
        pytest.skip("needs --device cuda")
    plans: list[tuple[dict[str, bool], Any]] = []
    call = planned_calls._Planner.call

    def watched(self: planned_calls._Planner, what: str, **options: bool) -> Any:
        plans.append((options, self._steps))
        return call(self, what, **options)

    monkeypatch.setattr(planned_calls._Planner, "call", watched)
    monkeypatch.setattr(planned_calls, "_plans", OrderedDict())
    planned_calls._gpu_calls.clear()
    return plans


def planned(*arrays: Any, **changed: Any) -> bool:
    """Whether a product is planned; this also executes it."""
    options = {"variant": "tiled", "tile": None, "out": None, **changed}
    return planned_calls.run("matmul", arrays, options, None)[0] is not None


class InColumns:
    """A GPU array in Fortran order."""

    def __init__(self, values: np.ndarray[Any, Any]) -> None:
        self.kept = coalesce.to_device(np.ascontiguousarray(values.T))
        item, rows = values.itemsize, len(values)
        self.__cuda_array_interface__ = {
            **self.kept.__cuda_array_interface__,
            "shape": values.shape,
            "strides": (item, rows * item),
        }


@pytest.mark.parametrize(
    ("shape", "transposes"),
    [((70, 90, 300), 1), ((33, 200, 65), 1), ((200, 300, 3), 2), ((1, 40, 50), 1), ((9, 9, 0), 0)],
)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("given_out", [True, False])
@pytest.mark.usefixtures("made")
def test_of_two_operands_in_columns_the_result_is_transposed(
    shape: tuple[int, int, int],
    transposes: int,
    dtype: Any,
    given_out: bool,
    random: np.random.Generator,
) -> None:
    """The transposes of the operands are multiplied, if the result is smaller than they are."""
    m, n, k = shape
    a, b = random.random((m, k)).astype(dtype), random.random((k, n)).astype(dtype)
    x, y = InColumns(a), InColumns(b)
    out = coalesce.to_device(np.full((m, n), np.nan, dtype)) if given_out else None
    got, run = run_matmul(x, y, variant="best", alpha=-0.5, out=out)
    np.testing.assert_allclose(got.get(), -0.5 * a @ b, 1e-4)
    assert [name for name, _ in run.records].count("vectorized") == transposes
    for _ in range(2):  # the second call is planned
        got = coalesce.matmul(x, y, variant="best", out=out)
        np.testing.assert_allclose(got.get(), a @ b, 1e-4)


@pytest.mark.parametrize("rows", [300, 384, 129, 1000])
@pytest.mark.parametrize("with_c", [False, True])
@pytest.mark.parametrize("order_b", ["C", "F"])
def test_slabs(
    rows: int,
    with_c: bool,
    order_b: str,
    made: Any,
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
    options, steps = made[0]
    assert options["overlap"]
    slabs = [step for kind, step in steps if kind == "to_host"]
    assert 1 < len(slabs) <= 3
    assert sum(size for _, _, _, size in slabs) == right.nbytes


@pytest.mark.parametrize("shape", [(300, 70, 260), (129, 33, 64), (200, 50, 36), (130, 20, 35)])
@pytest.mark.parametrize("beta", [0.0, 0.5])
@pytest.mark.parametrize("order_b", ["C", "F"])
def test_parts(
    shape: tuple[int, int, int],
    beta: float,
    order_b: str,
    made: Any,
    monkeypatch: pytest.MonkeyPatch,
    random: np.random.Generator,
) -> None:
    """K is divided: columns of `a` are multiplied by rows of `b`, one part after another."""
    monkeypatch.setattr(planned_calls, "_SLABS_FROM", 0)
    monkeypatch.setattr(planned_calls, "_PARTS_FROM", 0)
    monkeypatch.setattr(planned_calls.best, "of_matmul", lambda *_: ("tensor_map", 0))
    m, n, k = shape
    a = random.random((m, k), np.float32)
    b = np.asarray(random.random((k, n), np.float32), order=order_b)
    c = random.random((m, n), np.float32) if beta else None
    got = coalesce.matmul(a, b, variant="best", alpha=2.0, beta=beta, c=c)
    np.testing.assert_allclose(got, 2 * a @ b + (beta * c if c is not None else 0), 1e-4)
    _, steps = made[0]
    parts = [step for kind, step in steps if kind == "to_device" and step[0] == 1]
    assert sum(size for _, _, _, size in parts) == b.nbytes
    whole = order_b == "F" or k % 4 != 0  # then columns of `a` or rows of `b` cannot be used alone
    assert len(parts) == (1 if whole else {260: 3, 64: 2, 36: 1}[k])


def test_only_the_best_variant_has_slabs(
    made: Any, monkeypatch: pytest.MonkeyPatch, random: np.random.Generator
) -> None:
    monkeypatch.setattr(planned_calls, "_SLABS_FROM", 0)
    a = random.random((300, 30), np.float32)
    for _ in range(2):  # the second time with the same plans
        coalesce.matmul(a, a.T.copy(), variant="tiled")
        coalesce.matmul(np.asfortranarray(a), a.T.copy(), variant="best")
    assert [options["overlap"] for options, _ in made] == [False, False]


def test_the_result_may_overlap_an_operand(
    made: Any, monkeypatch: pytest.MonkeyPatch, random: np.random.Generator
) -> None:
    a = random.random((300, 300), np.float32)
    out = a.copy()
    assert coalesce.matmul(out, out, out=out) is out
    np.testing.assert_allclose(out, a @ a, 1e-5)
    assert len(made) == 1
    # In slabs, rows of the result are written before the last rows of `a` are read.
    monkeypatch.setattr(planned_calls, "_SLABS_FROM", 0)
    assert not planned(a, a, variant="best", out=a)


def test_the_best_variant_writes_small_results_to_pinned_memory(
    made: Any, random: np.random.Generator
) -> None:
    a = random.random((40, 30), np.float32)
    for variant in ("tiled", "best"):
        coalesce.matmul(a, a.T.copy(), variant=variant)
    coalesce.access(a.ravel(), pattern="offset", offset=1)
    assert [options["pinned_result"] for options, _ in made] == [False, True, False]


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
@pytest.mark.usefixtures("made")
def test_wrong_calls_have_the_messages_of_the_general_way(
    wrong: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    a = np.ones((4, 4), np.float32)
    messages = []
    for _ in range(2):
        call = {"a": a, "b": a, "variant": "best", **wrong}
        with pytest.raises((TypeError, ValueError)) as raised:
            coalesce.matmul(call.pop("a"), call.pop("b"), **call)
        messages.append(f"{raised.type.__name__}: {raised.value}")
        monkeypatch.setattr(planned_calls, "run", lambda *given: (None, given[-1]))
    assert messages[0] == messages[1]


@pytest.mark.parametrize("flag", [True, np.float32(2), 2])
def test_options_that_are_equal_do_not_share_a_plan(flag: Any, made: Any) -> None:
    a = np.eye(4, dtype=np.float32)
    np.testing.assert_array_equal(coalesce.matmul(a, a, variant="tiled", alpha=1.0), a)
    if type(flag) is int:
        np.testing.assert_array_equal(coalesce.matmul(a, a, variant="tiled", alpha=flag), 2 * a)
        return
    assert not planned(a, a, alpha=flag)
    assert len(made) == 1


@pytest.mark.usefixtures("made")
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


@pytest.mark.usefixtures("made")
def test_what_needs_the_general_way(random: np.random.Generator) -> None:
    a = random.random((8, 8), np.float32)
    assert planned(a, a)
    assert not planned(a, a[::2, ::2])
    assert not planned(a, a.astype(">f4"))
    assert not planned(a, np.ma.masked_array(a))
    assert not planned(a.astype(np.int32), a)
    assert not planned(a, a, out=np.empty((8, 8), np.float32, "F"))
    assert not planned(a, a[:, :0])
    on_gpu = coalesce.to_device(a)
    assert planned(on_gpu, on_gpu)
    assert not planned(on_gpu, a)
    assert not planned(on_gpu, on_gpu, out=a)


def test_gpu_arrays_with_each_alignment(made: Any, random: np.random.Generator) -> None:
    a = random.random((40, 40), np.float32)
    memory = coalesce.zeros(1700, device="cuda")
    for first in (0, 1, 2, 4):  # the last has the plan of the first
        x = memory[first : first + a.size].reshape(a.shape)
        x.set(a)
        product = coalesce.matmul(x, x, variant="tensor_map").get()
        np.testing.assert_allclose(product, a @ a, 1e-5)
    assert len(made) == 3


def test_a_plan_keeps_its_kernels(made: Any, random: np.random.Generator) -> None:
    """A plan works after every other reference to its kernels and their modules is gone."""
    a = random.random((33, 33), np.float32)
    x = coalesce.to_device(a)
    variants = ("tiled", "pipelined", "transposed_b")
    for _ in range(2):
        for variant in variants:
            for operand in (a, x):
                product = coalesce.matmul(operand, operand, variant=variant, device="cuda")
                product = product if operand is a else product.get()
                np.testing.assert_allclose(product, a @ a, 1e-5)
        compiled.cache_clear()
        gc.collect()
    assert len(made) == 2 * len(variants)  # each plan was used twice


@pytest.mark.usefixtures("made")
@pytest.mark.parametrize(
    ("m", "n", "how"),
    [
        (16, 2048, {"variant": "best"}),  # in slices, which a second launch adds up
        (200, 200, {"variant": "best"}),
        *((m, 96, {"variant": "split_k", "tile": tile}) for m, tile in ((33, 32), (65, 64))),
        *((m, 128, {"variant": "split_k", "tile": 128}) for m in (64, 3000)),
        *((m, 136, {"variant": name}) for m in (130, 3000) for name in ("bf16", "tf32")),
    ],
)
def test_launches_that_start_early_wait(
    m: int, n: int, how: dict[str, Any], random: np.random.Generator
) -> None:
    """Each launch reads what the one before it wrote, and writes what that one read."""
    values = random.integers(-100, 100, (m, n)).astype(np.float32)  # all variants keep them
    order = random.permutation(n)
    b = coalesce.to_device(np.eye(n, dtype=np.float32)[:, order])
    x, y = coalesce.to_device(values), coalesce.to_device(np.zeros_like(values))
    for _ in range(1 if simulated_driver.SIMULATED else 100):
        coalesce.matmul(x, b, out=y, **how)
        coalesce.matmul(y, b, out=x, **how)
        values = values[:, order][:, order]
    np.testing.assert_array_equal(x.get(), values)


@pytest.mark.usefixtures("on_simulator")
def test_on_the_simulated_driver() -> None:
    simulated_driver.run_tests(__file__)
