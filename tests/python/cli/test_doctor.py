"""`coalesce doctor` says what is installed, and what to do about what is not."""

import shutil

import pytest

from coalesce import cli
from coalesce.arrays import devices
from coalesce.arrays.devices import GpuStatus
from coalesce.common.errors import CompileError
from coalesce.compile import nvcc, nvrtc

pytestmark = pytest.mark.usefixtures("on_simulator")


@pytest.fixture
def doctor(capsys):
    """Run the command and return its exit status and its output."""

    def run():
        status = cli.main(["doctor"])
        return status, capsys.readouterr().out

    return run


def _raise(error):
    raise error


def test_a_machine_that_can_run_kernels(doctor):
    status, out = doctor()
    assert status == 0
    assert "simulator     ok        runs kernels" in out
    assert "Everything that kernels need is here." in out


@pytest.mark.parametrize(
    ("module", "name", "error", "status", "texts"),
    [
        (
            nvrtc,
            "nvrtc",
            CompileError("the CUDA compiler NVRTC is not installed: pip install nvidia-cuda-nvrtc"),
            1,
            [
                "compiler      missing",
                "compiler: pip install nvidia-cuda-nvrtc",
                "repaired: compiler",
            ],
        ),
        (
            nvcc,
            "nvcc",
            LookupError("CUDA's compiler nvcc is not on this machine: install it with pip"),
            0,
            ["nvcc          optional", "nvcc: Needed only for whole programs: install it with pip"],
        ),
    ],
)
def test_something_is_missing(doctor, monkeypatch, module, name, error, status, texts):
    monkeypatch.setattr(module, name, lambda: _raise(error))
    found, out = doctor()
    assert found == status
    for text in texts:
        assert text in out


@pytest.mark.parametrize(
    ("cuda", "age"),
    [((10, 2), "from before 2020"), ((12, 2), "of 2023"), ((13, 0), "of 2025 or later")],
)
def test_the_age_of_a_driver(doctor, monkeypatch, cuda, age):
    old = GpuStatus("driver too old", "Update the driver.", "535.1", cuda)
    monkeypatch.setattr(devices, "gpu_status", lambda: old)
    status, out = doctor()
    assert status == 0
    lines = " ".join(out.split())
    assert f"driver too old (driver 535.1 for CUDA {cuda[0]}.{cuda[1]}, {age})" in lines
    assert "Kernels run on the simulator. Update the driver." in lines


def test_no_host_compiler(doctor, monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda *_, **__: None)
    assert "g++: Needed only for whole programs: install g++" in doctor()[1]


def test_a_cache_that_cannot_be_written(doctor, monkeypatch, tmp_path):
    (tmp_path / "file").touch()
    monkeypatch.setenv("COALESCE_CACHE_DIR", str(tmp_path / "file" / "cache"))
    status, out = doctor()
    assert status == 0
    assert "cache         optional" in out
    assert "cache: Kernels are compiled again in each run. Set COALESCE_CACHE_DIR to" in out
