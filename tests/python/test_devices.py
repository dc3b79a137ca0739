"""Which device a call runs on, and what is said where there is none."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest

import coalesce
from coalesce import _core, _devices
from coalesce._devices import resolve
from coalesce.errors import DeviceUnavailable


@pytest.fixture
def no_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COALESCE_DEVICE", raising=False)


def pretend(
    monkeypatch: pytest.MonkeyPatch, status: str, version: tuple[int, int] = (13, 0)
) -> None:
    """Let the driver be in this state, with no GPU to open."""
    found = {"status": status, "detail": "the detail", "version": version, "devices": 1}
    monkeypatch.setattr(_core.cuda, "driver_status", lambda: found)
    _devices._gpus.cache_clear()
    monkeypatch.setattr(_devices, "_driver_release", lambda: "550.54.14")


@pytest.fixture(autouse=True)
def _forget() -> Any:
    yield
    _devices._gpus.cache_clear()


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
    with pytest.raises(ValueError, match=r"there are 'cuda', 'cuda:0', 'sim', 'sim:h200'"):
        resolve(name)


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
    assert [device.kind for device in coalesce.devices()] == ["sim"]


def test_a_driver_too_old_says_have_and_need(monkeypatch: pytest.MonkeyPatch) -> None:
    pretend(monkeypatch, "ok", (11, 4))
    monkeypatch.setattr(_devices, "_nvrtc_major", lambda: 13)
    status = coalesce.gpu_status()
    assert status.state == "driver too old"
    assert "550.54.14 supports CUDA 11.4" in status.message
    assert "580 or newer" in status.message
    with pytest.raises(DeviceUnavailable, match="driver too old"):
        resolve("cuda:0")


def test_a_gpu_number_that_is_not_there(device: str) -> None:
    if device != "cuda":
        pytest.skip("needs a GPU")
    with pytest.raises(DeviceUnavailable, match="cuda:99"):
        resolve("cuda:99")
    first = resolve("cuda")
    assert first.memory
    assert first.multiprocessors
    assert first.name == "cuda:0"


def test_importing_never_fails_for_want_of_a_driver() -> None:
    code = "import coalesce, json; s = coalesce.gpu_status(); print(json.dumps([s.state, str(s)]))"
    environment = {**os.environ, "COALESCE_CUDA_DRIVER": "/no/such/libcuda.so"}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    state, text = json.loads(done.stdout)
    assert state == "no driver"
    assert "/no/such/libcuda.so" in text
