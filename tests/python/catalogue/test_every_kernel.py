"""tests/every_kernel.py runs every shipped kernel, and says how to get a tool that is missing."""

import importlib
import json
import subprocess
import sys
from pathlib import Path

import pytest

import coalesce

SCRIPT = Path(__file__).parents[2] / "every_kernel.py"


@pytest.fixture
def script(monkeypatch):
    monkeypatch.syspath_prepend(str(SCRIPT.parent))
    return importlib.import_module("every_kernel")


def test_every_variant_is_in_a_group(script, monkeypatch):
    ran = set()

    def call(operation, choice, name, *arrays, tile=0, **_):
        assert choice == ("pattern" if operation == "access" else "variant")
        ran.add((operation, name, str(arrays[0].dtype), tile))
        return 1

    monkeypatch.setattr(script, "call", call)
    assert all(run() for run in script.groups().values())
    wanted = {
        (operation, variant.name, dtype, tile)
        for operation in ("matmul", "transpose", "row_sums", "column_sums", "access")
        for variant in coalesce.variants(operation)
        for dtype in script.DTYPES
        if operation == "access" or variant.dtype in ("", dtype)
        for tile in ((variant.tiles or (0,)) if getattr(variant, "hopper", False) else (0,))
    }
    assert ran == wanted


def test_the_calls_are_right(script, monkeypatch, on_simulator):
    """The simulator stands in for the GPU."""
    for operation in ("transpose", "access"):
        function = getattr(coalesce, operation)

        def run(*arrays, device, function=function, **options):
            assert device == "cuda"
            return function(*arrays, device=on_simulator, **options)

        monkeypatch.setattr(coalesce, operation, run)
        assert script.groups()[operation]() == 2 * len(coalesce.variants(operation))


def test_without_compute_sanitizer(monkeypatch):
    monkeypatch.setenv("PATH", "")
    ended = subprocess.run([sys.executable, SCRIPT], capture_output=True, text=True, check=False)
    assert ended.returncode == 1
    assert "it comes with the CUDA toolkit" in ended.stderr


@pytest.mark.parametrize(("errors", "status"), [(0, 0), (3, 1)])
def test_the_file(script, monkeypatch, tmp_path, errors, status):
    """A function stands in for compute-sanitizer."""
    faults = script.sanitize_faults
    environment = {"gpu": "NVIDIA H200", "compute-sanitizer": "2025.3"}
    monkeypatch.setattr(faults, "require_tool", lambda: None)
    monkeypatch.setattr(faults, "sanitized", lambda *_, **__: {"errors": errors, "first": ""})
    monkeypatch.setattr(faults.record_counters, "environment", lambda _: environment)
    monkeypatch.setattr(script, "compiled", lambda _: 2)
    monkeypatch.setattr(sys, "argv", ["every_kernel.py", "--output", str(tmp_path)])
    with pytest.raises(SystemExit) as ended:
        script.main()
    assert ended.value.code == status
    record = json.loads((tmp_path / "sanitizer_variants_h200.json").read_text("utf-8"))
    assert record["compute-sanitizer"] == "2025.3"
    assert record["rows"]["transpose"]["kernels"] == 2
    assert record["rows"]["transpose"]["racecheck"]["errors"] == errors
    assert set(record["rows"]) == set(script.groups())
