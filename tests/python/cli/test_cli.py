"""The command line: its output, also when piped, and its error messages."""

import contextlib
import io
import json
import re
import subprocess
import sys

import pytest
from rich.console import Console

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


ODD = "\x1b[31m\x9b1m\u202e\u2066\x07"  # characters that change what a terminal shows of the rest


@pytest.mark.parametrize(
    "words",
    [
        *(["run", f"none{ODD}.cu"], ["exec", f"none{ODD}"], ["bench", f"mat{ODD}"], [f"--{ODD}"]),
        *(["run", "a.cu", f"--{ODD}"], ["run", "a.cu", "k", "--grid", f"1{ODD}"], [ODD]),
        # A GPU whose assert failed could not be used any more by the tests that follow.
        ["run", "a.cu", "k", "--grid", "1", "--block", "1", "0", "--device", "sim"],
    ],
)
def test_messages_change_no_other_text(capsys, tmp_path, monkeypatch, words):
    kernel = "__global__ void k(int x) { assert(x && " + f'"{ODD}"' + "); }"
    (tmp_path / "a.cu").write_text(f"#include <cassert>\n{kernel}\n")
    monkeypatch.chdir(tmp_path)
    with contextlib.suppress(SystemExit):
        assert cli.main(words) == 1
    out, err = capsys.readouterr()
    assert err
    assert not {c for c in out + err if c in ODD and not c.isprintable()}


def test_demo_checks_every_variant(capsys, device):
    status, out, err = run(capsys, "demo", "--size", "40", "--device", device)
    assert status == 0, err
    lines = out.splitlines()
    assert max(map(len, lines)) <= 100
    skipped = device == "sim"  # the simulator skips some variants for Hopper
    shown = [v for v in coalesce.variants("matmul") if v.dtype != "float64"]
    for name in (v.name for v in shown if not (v.hopper and skipped)):
        (line,) = [line for line in lines if line.split()[:1] == [name]]
        assert ("modelled" if device == "sim" else "measured") in line
    assert "WRONG" not in out
    assert "\x1b" not in out
    assert "notebooks/README.md" in lines[-1]  # The last line leads to the lessons.


def test_demo_shows_sectors_per_request(capsys, on_simulator):
    _, out, _ = run(capsys, "demo", "--size", "64", "--device", on_simulator)
    cells = {line.split()[0]: line.split() for line in out.splitlines() if line.strip()}
    assert cells["naive"][4] == "16.50"  # 32 sectors for a, 1 for b
    assert cells["naive_2d"][4] == "2.50"  # 1 sector for a, 4 for b
    assert cells["coalesced_swapped"][4] == "16.50"
    assert cells["tiled"][4] == "4.00"
    # cp.async makes 128 requests of 4 sectors and 64 requests of 8.
    assert cells["pipelined"][4] == "5.33"


def test_demo_shows_no_figures_that_leave_something_out(capsys, on_simulator):
    """No time is modelled for kernels with bulk copies or wgmma."""
    _, out, _ = run(capsys, "demo", "--size", "64", "--device", on_simulator)
    cells = {line.split()[0]: line.split() for line in out.splitlines() if line.strip()}
    for name in ("tma", "tf32"):
        assert cells[name][1:6] == ["-"] * 5
    assert "no time is modelled for tma, tensor_map, bf16, tf32, tf32x3" in " ".join(out.split())
    proposed = out.partition("--variants ")[2].split()[0].split(",")
    assert not set(proposed) & {"tma", "tensor_map", "bf16", "tf32", "tf32x3"}


def test_demo_fits_a_terminal_of_80_columns():
    from coalesce.cli import demo

    console = Console(width=80, file=io.StringIO(), highlight=False)
    longest = ("corner_turned_padded", "split_k", "tma")
    assert demo.run_demo(console, size=64, device="sim", variants=longest)
    out = console.file.getvalue()
    assert "…" not in out
    for heading in ("sectors/", "wavefronts/", "max.", "error"):
        assert heading in out
    assert max(map(len, out.splitlines())) <= 80


def test_demo_accepts_variants_and_a_dtype(capsys, device):
    options = ("--variant", "naive", "--variant", "tiled", "--dtype", "float64")
    status, out, err = run(capsys, "demo", "--size", "33", "--device", device, *options)
    assert status == 0, err
    assert "float64" in out
    assert "coalesced" not in out


def test_demo_reports_a_wrong_result(capsys, monkeypatch):
    from coalesce.catalogue.reference import Reference

    monkeypatch.setattr(Reference, "tolerance", lambda *_: -1.0)
    status, out, _ = run(capsys, "demo", "--size", "8", "--device", "sim", "--variant", "naive")
    assert status == 1
    assert "WRONG RESULT: naive" in out


def test_devices(capsys):
    status, out, _ = run(capsys, "devices")
    assert status == 0
    assert "sim:h200" in out


@pytest.mark.parametrize(("wanted", "width"), [("80", 80), ("", 100), ("0", 100), ("x", 100)])
def test_a_pipe_gets_the_columns_that_are_asked_for(capsys, monkeypatch, wanted, width):
    monkeypatch.setenv("COLUMNS", wanted)
    for words in (("devices",), ("explain", "transpose", "--size", "32")):
        _, out, _ = run(capsys, *words)
        assert width - 20 < max(map(len, out.splitlines())) <= width


def test_variants(capsys):
    _, out, _ = run(capsys, "variants", "transpose")
    first = tuple(line.split()[1] for line in out.splitlines()[1:] if line[:1].isdigit())
    assert first == coalesce.variants("transpose").names
    assert "32 x 8 threads" in out
    _, out, _ = run(capsys, "variants", "matmul", "--source", "tiled")
    assert out == coalesce.source("matmul", "tiled")


def test_run_a_file(capsys, tmp_path, device):
    file = tmp_path / "scale.cu"
    file.write_text(SCALE)
    launch = ("--grid", "1", "--block", "32", "--device", device)
    status, out, err = run(capsys, "run", str(file), "scale", "arange:5", "3", "5", *launch)
    assert status == 0, err
    assert "[ 0.  3.  6.  9. 12.]" in out
    assert ("sectors per request" if device == "sim" else "measured") in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("demo", "--variant", "tield"), "did you mean 'tiled'"),
        (("demo", "--device", "tpu"), "unknown device 'tpu'"),
        (("variants", "mat"), "unknown operation"),
        (("variants", "--source", "tiled"), "--source needs an operation"),
        (("run", "nowhere.cu", "k", "--grid", "1", "--block", "1"), "nowhere.cu"),
        (("explain", "matmull"), "did you mean matmul?"),
        (("explain", __file__), "coalesce run"),
        (("bench", "matmul", "--variants", "naive", "tiled"), "variants with commas"),
        (("explain", "matmul", "--variant", "tield"), "did you mean 'tiled'"),
        (("explain", "access", "--variant", "stride", "8"), "NAME=VALUE"),
        (("explain", "access", "--variant", "stride", "offset=8"), "has no option `offset`"),
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
    [
        ("zeros:axb", "zeros:64x64:float64"),
        ("f32:8x-4", "FILL:SHAPE"),
        ("abc", "it must be a number, a .npy file, or an array"),
        ("ones:3:flot", "FILL"),
    ],
)
def test_run_refuses_unreadable_arguments(capsys, tmp_path, argument, message):
    file = tmp_path / "scale.cu"
    file.write_text(SCALE)
    launch = ("--grid", "1", "--block", "32", "--device", "sim")
    status, _, err = run(capsys, "run", str(file), "scale", argument, "3", "5", *launch)
    assert status == 1
    assert message in err


@pytest.mark.parametrize("n", ["0", "-3", "many"])
def test_demo_refuses_a_size(capsys, n):
    with pytest.raises(SystemExit):
        cli.main(["demo", "--size", n])
    assert "must be an integer of at least 1" in capsys.readouterr().err


def test_no_command_prints_help(capsys):
    status, out, _ = run(capsys)
    assert status == 2
    assert "demo" in out


def test_arguments_after_the_options(tmp_path, capsys):
    """The README's command, with the kernel's arguments after the options."""
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


NEEDS_X = """\
#include "by.h"
extern "C" __global__ void add(float* x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] += X * BY;
}
"""


@pytest.mark.parametrize("options", ["-DX=3", "-D X=3", "--option -DX=3", "--option=-DX=3"])
def test_options_of_the_compiler(capsys, tmp_path, options):
    file = tmp_path / "add.cu"
    file.write_text(NEEDS_X)
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "by.h").write_text("#define BY 2\n")
    launch = ["--grid", "1", "--block", "32", "--device", "sim", f"-I{tmp_path}/elsewhere"]
    status, out, err = run(
        capsys, "run", str(file), "add", *options.split(), *launch, "zeros:5", "5"
    )
    assert (status, err) == (0, "")
    assert "[6. 6. 6. 6. 6.]" in out
    status, out, err = run(capsys, "explain", str(file), *launch, *options.split(), "f32:64", "64")
    assert (status, err) == (0, "")
    assert "x[i] += X * BY;" in out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("run FILE add zeros:5 5", 'add.cu(4): error: identifier "X" is undefined'),
        (
            "run FILE add zeros:5 5 -DX=1 --block 2000",
            "`block.x` is 2000; CUDA allows at most 1024",
        ),
        ("run FILE add zeros:5 -DX=1", "takes 2 arguments; got 1"),
        ("run FILE add zeros:5 2.5 -DX=1", "argument `n` (int) needs int32; got float 2.5"),
        ("run FILE sub zeros:5 5 -DX=1", "no kernel 'sub'; its kernel is add"),
        ("run FILE add zeros:5 9 -DX=1", "read of 4 bytes past the end of `x`"),
        ("run FILE add zeros:99999999999999 9 -DX=1", "not enough memory"),
        ("run FILE add zeros:5 5 -DX=1 --shared 999999", "the GPU has 232448"),
    ],
)
def test_mistakes_are_reported_in_a_few_lines(capsys, tmp_path, words, message):
    file = tmp_path / "add.cu"
    file.write_text(NEEDS_X)
    (tmp_path / "by.h").write_text("#define BY 2\n")
    launch = ["--grid", "1", "--block", "32", "--device", "sim"]
    status, out, err = run(
        capsys,
        *words.replace("FILE", str(file)).split()[:2],
        *launch,
        *words.replace("FILE", str(file)).split()[2:],
    )
    assert (status, out) == (1, "")
    assert err.startswith("coalesce: ")
    assert message in err
    assert "more lines" not in err


def test_a_program_without_main_is_explained(capsys, tmp_path):
    file = tmp_path / "add.cu"
    file.write_text("__global__ void add(float* x) { x[threadIdx.x] += 1; }")
    status, out, err = run(capsys, "run", str(file))
    assert (status, out) == (1, "")
    assert err.startswith("coalesce: add.cu has no main(), so it is not a whole program.")
    assert "coalesce run add.cu KERNEL --grid X --block X ARGUMENTS" in err


def test_an_unknown_option_is_named(capsys):
    with pytest.raises(SystemExit):
        cli.main(["run", "k.cu", "k", "--grid", "1", "--block", "1", "--optoin", "-DX=1", "2"])
    assert "unrecognized arguments: --optoin" in capsys.readouterr().err


def test_run_explains_both_of_its_forms(capsys):
    with pytest.raises(SystemExit):
        cli.main(["run", "--help"])
    out = capsys.readouterr().out
    assert "coalesce run PROGRAM.cu [OPTION]... [-- ARGUMENT...]" in out
    assert "coalesce run FILE [ENTRY] --grid" in out
    for option in ("--profile", "--launch N", "--check", "--html FILE", "--json FILE"):
        assert option in out.partition("options for a whole program:")[2]


@pytest.mark.parametrize("option", ["--profile", "--launch=2", "--check", "--html=x", "--json=x"])
def test_options_of_programs_are_refused_for_one_kernel(capsys, option):
    with pytest.raises(SystemExit):
        cli.main(["run", "k.cu", "k", "--grid", "1", "--block", "32", option])
    name = option.partition("=")[0]
    assert f"{name} is an option for a whole program" in capsys.readouterr().err


ADD = """\
#include "more.h"
extern "C" __global__ void other(float* x) { x[0] = 1; }
extern "C" __global__ void add(const float* x, const int* at, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] += x[2 * at[i]];
}
"""


def test_explain_a_file(capsys, tmp_path):
    file = tmp_path / "add.cu"
    file.write_text(ADD)
    (tmp_path / "more.h").write_text("// found beside the file\n")
    words = f"explain {file} --entry add --grid 4 --block 256 --device sim"
    # The prefix f32: means the same as random: with a dtype.
    words += " f32:2048 arange:1024:i32 zeros:1024"
    page, data = tmp_path / "add.html", tmp_path / "add.json"
    words += f" --html {page} --json {data} 1024"
    status, out, err = run(capsys, *words.split())
    assert (status, err) == (0, "")
    assert out.startswith("add\ngrid 4, block 256: 32 warps")
    assert "▲   5 │ if (i < n) y[i] += x[2 * at[i]];" in out
    assert re.search(r"load x +32 x 8 sectors +needs 4", out)
    assert "\x1b" not in out
    assert page.read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
    assert json.loads(data.read_text())["kernel"] == "add"


@pytest.mark.parametrize("command", ["run", "explain", "check"])
def test_commands_name_a_kernel_in_the_same_ways(capsys, tmp_path, command):
    file = tmp_path / "add.cu"
    file.write_text(ADD.replace('#include "more.h"', ""))
    words = ["--grid", "4", "--block", "256", "f32:2048", "arange:1024:i32", "zeros:1024", "1024"]
    words += ["--device", "sim"]
    _, named, _ = run(capsys, command, str(file), "--entry", "add", *words)
    status, out, err = run(capsys, command, str(file), "add", *words)
    assert (status, out, err) == (0, named, "")
    status, _, err = run(capsys, command, str(file), "addd", *words)
    assert (status, "no kernel 'addd'" in err) == (1, True)
    status, _, err = run(capsys, command, str(file), *words)
    assert (status, "other, add" in err) == (1, True)
    file.write_text("__global__ void only(float* x) { x[threadIdx.x] = 1; }")
    launch = ["--grid", "1", "--block", "32", "zeros:32", "--device", "sim"]
    status, _, err = run(capsys, command, str(file), *launch)
    assert (status, err) == (0, "")


def test_explain_needs_a_launch(capsys, tmp_path):
    file = tmp_path / "add.cu"
    file.write_text(ADD.replace('#include "more.h"', ""))
    status, _, err = run(capsys, "explain", str(file), "--entry", "add")
    assert status == 1
    assert "add --grid and --block" in err
    status, _, err = run(capsys, "explain", str(file), "--grid", "1", "--block", "32")
    assert status == 1
    assert "other, add" in err


def test_check_a_file(capsys, tmp_path):
    file = tmp_path / "add.cu"
    file.write_text(
        "#include <iostream>\n__global__ void add(float *x, int n) {\n"
        "    int i = threadIdx.x;\n    x[i] += 1;\n}\nint main() { add<<<1, 32>>>(0, 1); }\n"
    )
    launch = ["--grid", "1", "--block", "32"]
    status, out, err = run(capsys, "check", str(file), *launch, "zeros:32", "32")
    assert (status, out, err) == (0, "check of add: nothing found\n", "")
    status, out, _ = run(capsys, "check", str(file), "add", *launch, "zeros:31", "31")
    assert status == 1
    assert "line 4:   x[i] += 1;" in out


@pytest.mark.parametrize(
    ("options", "status"),
    [
        ((), 1),
        (("--fail-on", "error"), 0),
        (("--fail-on", "race,error"), 0),
        (("--fail-on", "lockstep"), 1),
        (("--fail-on", "error", "--strict"), 1),
        (("--fail-on", "error", "--strict", "--instruction-limit", "1"), 1),
    ],
)
def test_check_in_continuous_integration(capsys, tmp_path, options, status):
    file, sarif = tmp_path / "my k.cu", tmp_path / "k.sarif"
    file.write_text(
        "__global__ void k(int *x) {\n    __shared__ int s[32];\n    s[threadIdx.x] = 1;\n"
        "    x[threadIdx.x] = s[31 - threadIdx.x];\n}\n"
    )
    words = ("--grid", "1", "--block", "32", "zeros:32:int32", "--github", "--sarif", str(sarif))
    got, out, _ = run(capsys, "check", str(file), *words, *options)
    assert got == status
    level = "error" if "--strict" in options else "warning"
    result, *rest = json.loads(sarif.read_text())["runs"][0]["results"]
    assert [other["ruleId"] for other in rest] == ["stopped"] * ("--instruction-limit" in options)
    assert (result["ruleId"], result["level"]) == ("lockstep", level)
    (place,) = result["locations"]
    assert place["physicalLocation"]["artifactLocation"]["uri"] == file.as_posix().replace(
        " ", "%20"
    )
    assert place["physicalLocation"]["region"]["startLine"] in (3, 4)
    assert re.search(
        rf"^::{level} file={file},line=\d,title=.+::.+since compute", out, re.MULTILINE
    )


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ("check", "k.cu", "--grid", "1", "--block", "1", "--fail-on", "races"),
            "'races' is not one of error, warning, note",
        ),
        (("run", "k.cu", "--check", "--fail-on", ""), "must name a severity or a kind"),
        (("run", "k.cu", "--fail-on", "race"), "--fail-on has no effect without --check"),
        (("run", "k.cu", "--sarif", "k.json"), "--sarif has no effect without --check"),
        (("exec", "k", "--github"), "--github has no effect without --check"),
        (("exec", "k", "--strict"), "--strict has no effect without --check"),
    ],
)
def test_wrong_options_of_findings(words, message, capsys):
    with pytest.raises(SystemExit):
        run(capsys, *words)
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["matmul", "--sass"], "--sass needs a kernel of a .cu or .ptx file; got the operation"),
        (["matmul", "--grid", "4"], "--grid needs a kernel of a .cu or .ptx file"),
        (["matmul", "-DN=4"], "--option needs a kernel of a .cu or .ptx file"),
        (["k.cu", "k", "--size", "4"], "--size needs an operation, such as matmul; got the file"),
        (["k.cu", "k", "--variants", "naive"], "--variants needs an operation"),
    ],
)
def test_explain_refuses_options_without_effect(capsys, tmp_path, monkeypatch, words, message):
    (tmp_path / "k.cu").write_text("__global__ void k() {}")
    monkeypatch.chdir(tmp_path)
    code, _, err = run(capsys, "explain", *words)
    assert code == 1
    assert message in err


def test_explain_an_operation(capsys, tmp_path):
    status, out, _ = run(capsys, "explain", "transpose", "--variant", "tiled", "-n", "64")
    assert status == 0
    assert out.startswith("transpose, variant tiled\ngrid 2 x 2")
    _, out, _ = run(capsys, "explain", "access", "--variant", "stride", "stride=8", "-n", "512")
    assert re.search(r"load x +2 x 32 sectors", out)
    for pattern in coalesce.variants("access").names:
        assert run(capsys, "explain", "access", "--variant", pattern, "-n", "256")[0] == 0
    page = tmp_path / "both.html"
    two = ("--variant", "tiled", "--variant", "padded", "--html", str(page))
    status, out, _ = run(capsys, "explain", "transpose", *two, "-n", "64")
    assert status == 0
    assert re.search(r"bank conflicts +3,968 +0 +gone", out)
    assert "gone" in page.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ("float *x, double f, int n", "f32:1000 2.0 1000"),
        ("__nv_bfloat16 *x, half *y, bool b", "u16:1000 f16:1000 1"),
        ("const char *x, unsigned char c, long long n", "i8:1000 100 1000"),
        ("void *x, float2 *y, bool *z", "f32:1000 f32:1000 zeros:1000:bool"),
        ("float4 v, int n", None),
        ("cudaTextureObject_t t", None),
    ],
)
def test_the_suggested_arguments_are_accepted(capsys, tmp_path, parameters, words):
    file = tmp_path / "k.cu"
    file.write_text(
        f"#include <cuda_bf16.h>\n#include <cuda_fp16.h>\n__global__ void k({parameters}) {{}}"
    )
    launch = [str(file), "--grid", "1", "--block", "1"]
    status, _, err = run(capsys, "run", *launch)
    assert status == 1
    assert err.strip().endswith(f"such as {words}" if words else "after the name of the file")
    if words:
        status, _, err = run(capsys, "run", *launch, *words.split())
        assert status == 0, err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["lessons"], "there is no command lessons; the lessons are notebooks"),
        (["profile", "k.cu"], r"coalesce explain FILE.cu profiles a kernel"),
        (
            ["explain", "k.cu", "--grid", "4", "--block", "256"],
            r"takes 3 arguments; got 0\. .* such as f32:1000 2\.0 1000",
        ),
        (["run", "k.cu", "--grid", "4", "--block", "256", "ones:4", "2"], "3 arguments; got 2"),
    ],
)
def test_answers_to_wrong_calls(capsys, tmp_path, monkeypatch, words, message):
    (tmp_path / "k.cu").write_text(SCALE)
    monkeypatch.chdir(tmp_path)
    with contextlib.suppress(SystemExit):
        assert cli.main(words) == 1
    assert re.search(message, capsys.readouterr().err)


def test_explain_shows_machine_code(capsys, tmp_path):
    (tmp_path / "k.cu").write_text(SCALE)
    launch = ("--grid", "1", "--block", "32", "f32:32", "2.0", "32")
    trace = tmp_path / "trace"
    words = ("explain", str(tmp_path / "k.cu"), "--sass", "--accel-sim", str(trace), *launch)
    status, out, _ = run(capsys, *words)
    assert status == 0
    assert re.search(r"line 3: if \(i < n\) x\[i\] \*= factor;\n  [0-9a-f]{4}", out)
    assert str(trace / "kernelslist.g") in out
