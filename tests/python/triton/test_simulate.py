"""Kernels of Triton on the simulator: results, analyses, the autotuner, wrong arguments."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest

import coalesce

pytest.importorskip("triton")
import triton
import triton_kernels as kernels

from coalesce.arrays import devices
from coalesce.triton import checked, simulate
from coalesce.triton.arguments import HostTensor

pytestmark = [
    pytest.mark.usefixtures("on_simulator"),
    pytest.mark.skipif(devices.resolve().kind != "sim", reason="Triton uses the GPU"),
    pytest.mark.filterwarnings("ignore"),
]
X = np.arange(1000, dtype=np.float32)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.int8, np.int64])
@pytest.mark.parametrize("n", [1, 255, 1000])
def test_arrays_of_numpy_are_arguments(dtype: type, n: int) -> None:
    x, out = X[:n].astype(dtype), np.zeros(n, dtype)
    simulate(kernels.add)[(4,)](x, x, out, n, BLOCK=256)
    np.testing.assert_array_equal(out, x + x)


def test_strides_are_arguments(random: np.random.Generator) -> None:
    a = random.random((70, 40), np.float32)
    for rows in (a, np.asfortranarray(a), a[::-1, ::2], a.T):
        out = np.zeros(rows.shape, np.float32)
        steps = [stride // 4 for stride in rows.strides]
        simulate(kernels.softmax)[rows.shape[0]](rows, out, *steps, rows.shape[1], BLOCK=128)
        powers = np.exp(rows - rows.max(axis=1, keepdims=True))
        np.testing.assert_allclose(out, powers / powers.sum(axis=1, keepdims=True), rtol=1e-5)


def test_matrix_products(random: np.random.Generator) -> None:
    a, b = random.random((2, 64, 64), np.float32).astype(np.float16)
    c = np.zeros((64, 64), np.float32)
    grid = lambda meta: (64 // meta["B"], 64 // meta["B"])  # noqa: E731
    simulate(kernels.matmul)[grid](a, b, c, 64)
    np.testing.assert_allclose(c, a.astype(np.float32) @ b.astype(np.float32), rtol=1e-2)
    assert kernels.matmul.best_config.kwargs["B"] in (16, 32)


def test_heuristics_choose_the_block() -> None:
    kernel = triton.heuristics({"BLOCK": lambda given: triton.next_power_of_2(given["n"])})(
        kernels.add
    )
    x, out = X[:700], np.zeros(700, np.float32)
    simulate(kernel)[lambda meta: (triton.cdiv(700, meta["BLOCK"]),)](x, x, out, 700)
    np.testing.assert_array_equal(out, x + x)


def test_a_check_and_a_fault_name_the_array() -> None:
    y = np.zeros(1000, np.float32)
    findings = simulate(kernels.double_all).check((4,), X, y, BLOCK=256)
    assert {(f.kind, f.array) for f in findings} == {("out_of_bounds", "x"), ("out_of_bounds", "y")}
    with pytest.raises(coalesce.MemoryFault, match="past the end of `x`") as caught:
        simulate(kernels.double_all)[(4,)](X, y, BLOCK=256)
    assert "kernel double_all" in str(caught.value)
    assert not simulate(kernels.add).check((4,), X, X, y, 1000, BLOCK=256)


def test_an_access_without_a_mask_has_its_own_line() -> None:
    """LLVM gives such a load the number of the next line, which is empty here."""
    x, out = np.zeros((4, 100), np.float32), np.zeros(4, np.float32)
    (finding,) = simulate(kernels.row_sums).check((4,), x, out, 100, BLOCK=128)
    assert "# WITHOUT A MASK" in str(finding)
    profile = simulate(kernels.row_sums).profile((4,), x[:, :64].copy(), out, 64, BLOCK=64)
    lines = inspect.getsourcelines(kernels.row_sums.fn)
    (number,) = [n for n, line in enumerate(lines[0], lines[1]) if "WITHOUT A MASK" in line]
    assert {a.line for a in profile.accesses() if a.name == "load x"} == {number}


def test_races_between_programs_are_found() -> None:
    out = np.zeros(1, np.float32)
    findings = simulate(kernels.wrong_sum).check((4,), X, out, 1000, BLOCK=256)
    assert {(f.kind, f.array) for f in findings} == {("race", "out")}
    with checked() as found:
        simulate(kernels.wrong_sum)[(4,)](X, out, 1000, BLOCK=256)
    assert len(found) == 1


def test_profiles_traces_and_steps_have_python_lines() -> None:
    out = np.zeros(1000, np.float32)
    profile = simulate(kernels.add).profile((4,), X, X, out, 1000, BLOCK=256)
    assert not [reason for reason in profile.inexact.values() if "PTX" in reason]
    assert "tl.store(out + i" in str(profile)
    trace = simulate(kernels.add).trace((4,), X, X, out, 1000, BLOCK=256)
    assert set(trace.select(array="out", kind="store").index.flat) - {-1} == set(range(1000))
    with simulate(kernels.add).step((4,), X, X, out, 1000, BLOCK=256) as stepper:
        texts = {step.text.strip() for step in stepper}
    assert any("tl.store(out + i" in text for text in texts)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: simulate(len), TypeError, "`kernel` must be a function with @triton.jit"),
        (lambda: simulate(kernels.add)[(4,)](X, X), TypeError, "missing"),
        (lambda: simulate(kernels.add)[(0,)](X, X, X, 5, BLOCK=256), Exception, "grid.x"),
    ],
)
def test_wrong_calls(call: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call()


class Tensor:
    """What Triton and coalesce use of a tensor of PyTorch on the CPU."""

    is_cpu = True

    def __init__(self, array: np.ndarray[Any, Any]) -> None:
        self.array, self.shape, self.dtype = array, array.shape, f"torch.{array.dtype}"

    def data_ptr(self) -> int:
        return int(self.array.ctypes.data)

    def element_size(self) -> int:
        return self.array.itemsize

    def stride(self) -> tuple[int, ...]:
        return tuple(n // self.array.itemsize for n in self.array.strides)


def test_tensors_need_no_call_of_simulate() -> None:
    out = np.zeros(1000, np.float32)
    kernels.add[(4,)](Tensor(X), Tensor(2 * X), Tensor(out), 1000, BLOCK=256)
    np.testing.assert_array_equal(out, 3 * X)
    on_gpu = Tensor(X)
    on_gpu.is_cpu = False
    with pytest.raises(ValueError, match=r"`x` is a tensor in the memory of a GPU.*x\.cpu\(\)"):
        kernels.add[(4,)](on_gpu, Tensor(X), Tensor(out), 1000, BLOCK=256)


def test_descriptors_are_arguments(random: np.random.Generator) -> None:
    """Outside of the array, a descriptor reads zeros."""
    from triton.tools.tensor_descriptor import TensorDescriptor

    for dtype in (np.float32, np.float16, np.int32):
        x = (100 * random.random((50, 72))).astype(dtype)
        expected = np.zeros((64, 64), dtype)
        expected[:50] = 2 * x[:, 8:]
        y = np.ones((64, 64), dtype)
        described = (TensorDescriptor.from_tensor(HostTensor(a), [32, 32]) for a in (x[:, 8:], y))
        simulate(kernels.double_described)[(2, 2)](*described, B=32)
        np.testing.assert_array_equal(y, expected)
        y = np.ones((64, 64), dtype)
        simulate(kernels.double_through_pointers)[(2, 2)](x[:, 8:], y, 50, 64, 72, B=32)
        np.testing.assert_array_equal(y, expected)
    narrow = HostTensor(np.ones((64, 16), np.float32))
    described = [TensorDescriptor(narrow, [64, 64], [16, 1], [32, 32]) for _ in "ab"]
    with pytest.raises(coalesce.MemoryFault, match=r"x\.base"):
        simulate(kernels.double_described)[(2, 2)](*described, B=32)


def test_properties_of_the_gpu_and_of_a_kernel() -> None:
    properties = triton.runtime.driver.active.utils.get_device_properties(0)
    assert (properties["multiprocessor_count"], properties["max_num_regs"]) == (132, 65536)
    made = kernels.add.warmup(*[HostTensor(X)] * 3, 1000, BLOCK=256, grid=(1,))
    made._init_handles()
    assert 0 < made.n_regs < 256


class TestTensorsOfTorch:
    """Tensors of PyTorch, if it is installed."""

    @pytest.fixture
    def torch(self) -> Any:
        return pytest.importorskip("torch")

    @pytest.mark.parametrize("name", ["float32", "float16", "bfloat16", "int64", "uint8"])
    def test_types(self, torch: Any, name: str) -> None:
        x = torch.arange(100).to(getattr(torch, name))
        out = torch.empty_like(x)
        kernels.add[(1,)](x, x, out, 100, BLOCK=128)
        assert torch.equal(out, x + x)

    def test_layouts_and_gradients(self, torch: Any) -> None:
        base = torch.rand(60, 40, requires_grad=True)
        for x in (base, base.t(), base[3:, ::2], base[0].expand(5, 40)):
            out = torch.zeros(x.shape)
            kernels.softmax[(x.shape[0],)](x, out, *x.stride(), x.shape[1], BLOCK=64)
            assert torch.allclose(out, x.softmax(1), rtol=1e-5)
        one, out = torch.tensor(3.0), torch.tensor(0.0)
        kernels.wrong_sum[(1,)](one, out, 1, BLOCK=16)
        assert out == 3

    def test_tables_of_addresses(self, torch: Any) -> None:
        parts = [torch.full((n,), float(n)) for n in (10, 300, 7)]
        table = torch.tensor([p.data_ptr() for p in parts])
        kernels.double_parts[(3,)](table, torch.tensor([10, 300, 7]), BLOCK=512)
        assert [p.unique().tolist() for p in parts] == [[20.0], [600.0], [14.0]]
        with pytest.raises(coalesce.MemoryFault, match=r"past the end of `table\[2\]`"):
            kernels.double_parts[(3,)](table, torch.tensor([10, 300, 700]), BLOCK=1024)
