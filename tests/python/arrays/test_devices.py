"""The device on which a call runs, and the messages if there is none."""

import json
import os
import subprocess
import sys
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import coalesce
from coalesce import _core
from coalesce.arrays import devices
from coalesce.arrays.devices import resolve
from coalesce.catalogue import run
from coalesce.compile import nvrtc
from coalesce.errors import DeviceUnavailable, LaunchError


@pytest.fixture
def no_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COALESCE_DEVICE", raising=False)


def pretend(
    monkeypatch: pytest.MonkeyPatch, status: str, version: tuple[int, int] = (13, 0)
) -> None:
    """Pretend that the driver is in this state and that no GPU can be opened."""
    driver = {"status": status, "detail": "the detail", "version": version, "devices": 1}
    monkeypatch.setattr(_core.cuda, "driver_status", lambda: driver)
    devices._gpus.cache_clear()
    monkeypatch.setattr(devices, "_driver_release", lambda: "550.54.14")


@pytest.fixture(autouse=True)
def _forget() -> Any:
    yield
    devices._gpus.cache_clear()
    devices._warn_of_an_old_driver.cache_clear()


def test_the_simulator_is_always_there() -> None:
    assert "sim:h200" in [device.name for device in coalesce.devices()]
    assert resolve("sim") == resolve("sim:h200")
    assert resolve("sim").kind == "sim"
    assert resolve(resolve("sim")).name == "sim:h200"


@pytest.mark.usefixtures("no_variable")
def test_the_default_is_the_first_device() -> None:
    assert resolve(None) == coalesce.devices()[0]


def test_the_environment_names_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COALESCE_DEVICE", "sim")
    assert resolve(None).name == "sim:h200"
    monkeypatch.setenv("COALESCE_DEVICE", "abacus")
    with pytest.raises(ValueError, match="COALESCE_DEVICE 'abacus'"):
        resolve(None)


@pytest.mark.parametrize("name", ["gpu", "sim:abacus", "cuda:x", "", "CUDA"])
def test_unknown_names_list_the_valid_ones(name: str) -> None:
    with pytest.raises(ValueError, match=r"names are 'cuda', 'cuda:0', 'sim', 'sim:h200'"):
        resolve(name)


GPUS = ("h200", "h100", "a100", "v100", "t4", "l4", "rtx3090", "rtx4090")


def test_every_simulated_gpu_runs_and_counts_the_same() -> None:
    a = np.arange(96 * 64, dtype=np.float32).reshape(96, 64)
    listed = {device.name: device for device in coalesce.devices() if device.kind == "sim"}
    assert set(listed) == {f"sim:{name}" for name in GPUS}
    assert [name for name, device in listed.items() if device.checked] == ["sim:h200"]
    times = {}
    for name, device in listed.items():
        out, timing = coalesce.transpose(a, variant="padded", device=name, return_timing=True)
        np.testing.assert_array_equal(out, a.T)
        assert timing.device == name
        assert timing.source == "modelled"
        p = coalesce.profile("transpose", a, variant="padded", device=device)
        assert p.metrics()["l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum"] == a.nbytes / 32
        times[name] = p.modelled_ms
    assert times["sim:h200"] <= times["sim:t4"]


@pytest.mark.parametrize("name", GPUS)
def test_shared_memory_is_that_of_the_gpu(name: str) -> None:
    kilobytes = {"h200": 227, "h100": 227, "a100": 163, "v100": 96, "t4": 64}.get(name, 99)
    kernel = coalesce.Kernel(
        'extern "C" __global__ void f(float *x) { extern __shared__ float s[]; *x = s[0] = 1; }',
        "f",
        device=f"sim:{name}",
    )
    kernel.launch(1, 1, np.zeros(1, np.float32), shared_bytes=kilobytes * 1024)
    with pytest.raises(LaunchError, match="shared memory"):
        kernel.launch(1, 1, np.zeros(1, np.float32), shared_bytes=kilobytes * 1024 + 4)


def test_code_is_that_of_the_simulated_architecture() -> None:
    source = 'extern "C" __global__ void f(int *x) { *x = __CUDA_ARCH__; }'
    for name, arch in (("h200", 900), ("a100", 800), ("t4", 750), ("rtx4090", 890)):
        out = np.zeros(1, np.int32)
        coalesce.Kernel(source, "f", device=f"sim:{name}")[1, 1](out)
        assert out[0] == arch


@pytest.mark.parametrize(
    ("description", "capability", "gpu"),
    [
        ("NVIDIA H200", (9, 0), "h200"),
        ("NVIDIA H100 80GB HBM3", (9, 0), "h100"),
        ("NVIDIA GeForce RTX 3090", (8, 6), "rtx3090"),
        ("Tesla T4", (7, 5), "t4"),
        ("NVIDIA GeForce GTX 1080", (6, 1), "v100"),
        ("NVIDIA B200", (10, 0), "h200"),
    ],
)
def test_a_gpu_is_modelled_by_a_gpu_of_the_table(
    description: str, capability: tuple[int, int], gpu: str
) -> None:
    device = devices.Device("cuda:0", description, "cuda", capability)
    assert devices.modelled_gpu(device) == gpu


def test_a_device_is_named_by_a_string() -> None:
    with pytest.raises(TypeError, match="got int"):
        resolve(0)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("driver", "state", "advice"),
    [
        ("no driver", "no driver", "install the driver, release 5"),
        ("no device", "no device", "docker run --gpus all"),
        ("failed", "no device", "the detail"),
    ],
)
def test_why_there_is_no_gpu(
    monkeypatch: pytest.MonkeyPatch, driver: str, state: str, advice: str
) -> None:
    pretend(monkeypatch, driver)
    status = coalesce.gpu_status()
    assert not status
    assert status.state == state
    assert advice in status.message
    with pytest.raises(DeviceUnavailable, match=advice):
        resolve("cuda")
    assert {device.kind for device in coalesce.devices()} == {"sim"}
    assert coalesce.devices()[0].name == "sim:h200"


def test_a_driver_too_old_says_have_and_need(monkeypatch: pytest.MonkeyPatch) -> None:
    pretend(monkeypatch, "ok", (11, 4))
    monkeypatch.setattr(devices, "_nvrtc_major", lambda: 13)
    status = coalesce.gpu_status()
    assert status.state == "driver too old"
    assert "550.54.14 supports CUDA 11.4" in status.message
    assert "580 or newer" in status.message
    with pytest.raises(DeviceUnavailable, match="driver too old"):
        resolve("cuda:0")


@pytest.mark.usefixtures("no_variable")
@pytest.mark.parametrize(("cuda", "warned"), [((11, 4), 1), ((13, 0), 0)])
def test_an_old_driver_is_named_once(
    monkeypatch: pytest.MonkeyPatch, cuda: tuple[int, int], warned: int
) -> None:
    """Kernels run on the simulator, and one sentence says why. Without a GPU, none does."""
    pretend(monkeypatch, "ok" if warned else "no driver", cuda)
    devices._warn_of_an_old_driver.cache_clear()
    monkeypatch.setattr(devices, "_nvrtc_major", lambda: 13)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert [resolve(None).kind for _ in range(3)] == ["sim"] * 3
    assert len(caught) == warned
    for warning in caught:
        assert "run on the simulator, not on the GPU: " in str(warning.message)
        assert "Update the driver" in str(warning.message)


def test_a_gpu_number_that_is_not_there(device: str) -> None:
    if device != "cuda":
        pytest.skip("needs a GPU")
    with pytest.raises(DeviceUnavailable, match="cuda:99"):
        resolve("cuda:99")
    first = resolve("cuda")
    assert first.memory
    assert first.multiprocessors
    assert first.name == "cuda:0"


def test_importing_needs_no_driver() -> None:
    code = "import coalesce, json; s = coalesce.gpu_status(); print(json.dumps([s.state, str(s)]))"
    environment = {**os.environ, "COALESCE_CUDA_DRIVER": "/no/such/libcuda.so"}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    state, text = json.loads(done.stdout)
    assert state == "no driver"
    assert "/no/such/libcuda.so" in text


def test_an_operation_compiles_once_for_its_device(monkeypatch):
    """Choosing another device compiles no kernel for the default device."""
    compiled = []
    compile_cuda = nvrtc.compile_cuda

    def recorded(source, **options):
        compiled.append(options["arch"])
        return compile_cuda(source, **options)

    monkeypatch.setattr(nvrtc, "compile_cuda", recorded)
    run.compiled.cache_clear()
    a = np.ones((8, 8), np.float32)
    coalesce.matmul(a, a, variant="naive", device="sim:a100")
    assert compiled == ["sm_80"]


SCALE = """extern "C" __global__ void scale(float *x, float factor, int n) {
    if (threadIdx.x < n) x[threadIdx.x] *= factor;
}"""


CALLS: dict[str, Callable[[Any, Any, dict[str, Any]], Any]] = {
    "matmul": lambda _, a, where: coalesce.matmul(a, a, **where),
    "timed": lambda _, a, where: coalesce.matmul(a, a, return_timing=True, **where),
    "checked": lambda _, a, where: coalesce.matmul(a, a, check=True, **where),
    "profile": lambda _, a, where: coalesce.profile("matmul", a, a, **where),
    "trace": lambda _, a, where: coalesce.trace("matmul", a, a, **where),
    "Kernel.check": lambda kernel, a, where: kernel.check(1, 32, a, 2.0, 4, **where),
    "Kernel.profile": lambda kernel, a, where: kernel.profile(1, 32, a, 2.0, 4, **where),
    "Kernel.trace": lambda kernel, a, where: kernel.trace(1, 32, a, 2.0, 4, **where),
    "Kernel.launch": lambda kernel, a, where: kernel.launch(1, 32, a, 2.0, 4, **where),
}


@pytest.mark.parametrize("where", ["sim", "sim:a100"])
@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
@pytest.mark.usefixtures("on_simulator")
def test_a_call_resolves_its_device_once(
    call: Callable[[Any, Any, dict[str, Any]], Any], where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel, a = coalesce.Kernel(SCALE, device="sim"), np.ones((4, 4), np.float32)
    call(kernel, a, {"device": where})  # compiling a kernel resolves the kernel's device, too
    given = []

    def counted(*arguments: Any) -> Any:
        given.append(arguments)
        return resolve(*arguments)

    monkeypatch.setattr(devices, "resolve", counted)
    call(kernel, a, {"device": where})
    assert len(given) == 1
