"""The command line: what it prints, also into a pipe, and how it fails."""

from __future__ import annotations

import subprocess
import sys

import pytest

import coalesce
from coalesce import cli

SCALE = """\
extern "C" __global__ void scale(float* x, float factor, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] *= factor;
}
"""


def run(capsys, *arguments):
    status = cli.main(arguments)
    captured = capsys.readouterr()
    return status, captured.out, captured.err


def test_version_of_the_installed_command():
    done = subprocess.run(
        [sys.executable, "-m", "coalesce", "--version"], capture_output=True, text=True, check=True
    )
    assert done.stdout == f"coalesce {coalesce.__version__}\n"


def test_demo_checks_every_variant(capsys, device):
    status, out, _ = run(capsys, "demo", "--n", "40", "--device", device)
    assert status == 0
    lines = out.splitlines()
    assert max(map(len, lines)) <= 100
    for name in coalesce.variants("matmul").names:
        (line,) = [line for line in lines if line.split()[:1] == [name]]
        assert ("modelled" if device == "sim" else "measured") in line
    assert "WRONG" not in out
    assert "\x1b" not in out


def test_demo_shows_sectors_per_request(capsys, on_simulator):
    _, out, _ = run(capsys, "demo", "--n", "64", "--device", on_simulator)
    cells = {line.split()[0]: line.split() for line in out.splitlines() if line.strip()}
    assert cells["naive"][4] == "16.50"  # 32 of a and 1 of b
    assert cells["naive_2d"][4] == "2.50"  # 1 of a and 4 of b
    assert cells["coalesced_swapped"][4] == "16.50"
    assert cells["tiled"][4] == "4.00"


def test_demo_takes_a_choice_of_variants_and_dtype(capsys, device):
    options = ("--variant", "naive", "--variant", "tiled", "--dtype", "float64")
    status, out, _ = run(capsys, "demo", "--n", "33", "--device", device, *options)
    assert status == 0
    assert "float64" in out
    assert "coalesced" not in out


def test_demo_reports_a_wrong_result(capsys, monkeypatch):
    from coalesce import _demo

    monkeypatch.setattr(_demo, "tolerance", lambda _: -1.0)
    status, out, _ = run(capsys, "demo", "--n", "8", "--device", "sim", "--variant", "naive")
    assert status == 1
    assert "WRONG RESULT: naive" in out


def test_devices(capsys):
    status, out, _ = run(capsys, "devices")
    assert status == 0
    assert "sim:h200" in out


def test_variants(capsys):
    assert run(capsys, "variants", "transpose")[1].count("32 x 8 threads") == 6
    _, out, _ = run(capsys, "variants", "matmul", "--source", "tiled")
    assert out == coalesce.source("matmul", "tiled")


def test_run_a_file(capsys, tmp_path, device):
    file = tmp_path / "scale.cu"
    file.write_text(SCALE)
    launch = ("--grid", "1", "--block", "32", "--device", device)
    status, out, _ = run(capsys, "run", str(file), "scale", "arange:5", "3", "5", *launch)
    assert status == 0
    assert "[ 0.  3.  6.  9. 12.]" in out
    assert ("sectors each" if device == "sim" else "measured") in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("demo", "--variant", "tield"), "did you mean 'tiled'"),
        (("demo", "--device", "tpu"), "unknown device 'tpu'"),
        (("variants", "mat"), "unknown operation"),
        (("variants", "--source", "tiled"), "--source needs an operation"),
        (("run", "nowhere.cu", "k", "--grid", "1", "--block", "1"), "nowhere.cu"),
    ],
)
def test_errors_go_to_stderr(capsys, arguments, message):
    status, out, err = run(capsys, *arguments)
    assert status == 1
    assert out == ""
    assert message in err
    assert err.startswith("coalesce: ")


@pytest.mark.parametrize(
    ("argument", "message"),
    [("zeros:axb", "zeros:64x64:float64"), ("abc", "neither a number"), ("ones:3:flot", "FILL")],
)
def test_run_refuses_arguments_it_cannot_read(capsys, tmp_path, argument, message):
    file = tmp_path / "scale.cu"
    file.write_text(SCALE)
    launch = ("--grid", "1", "--block", "32", "--device", "sim")
    status, _, err = run(capsys, "run", str(file), "scale", argument, "3", "5", *launch)
    assert status == 1
    assert message in err


@pytest.mark.parametrize("n", ["0", "-3", "many"])
def test_demo_refuses_a_size(capsys, n):
    with pytest.raises(SystemExit):
        cli.main(["demo", "--n", n])
    assert "must be an integer of at least 1" in capsys.readouterr().err


def test_no_command_prints_help(capsys):
    status, out, _ = run(capsys)
    assert status == 2
    assert "demo" in out


def test_arguments_after_the_options(tmp_path, capsys):
    """The README's line: a kernel's arguments last."""
    file = tmp_path / "scale.cu"
    file.write_text(
        "__global__ void scale(float *x, float by, int n) {\n"
        "    int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
        "    if (i < n) x[i] *= by;\n}"
    )
    words = f"run {file} scale --grid 4 --block 256 --device sim ones:1000 2.0 1000"
    assert cli.main(words.split()) == 0
    assert "2" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        cli.main([*words.split(), "--grod", "4"])
