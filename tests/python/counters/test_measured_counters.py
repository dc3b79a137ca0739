"""Measured counters beside predictions: parsing the output of ncu, and its error messages."""

import csv
import json
import pickle
import stat
import sys
import textwrap

import numpy as np
import pytest

import coalesce
from coalesce import cli
from coalesce.arrays import devices
from coalesce.arrays.devices import GpuStatus
from coalesce.launch.run import run
from coalesce.profiling.hardware import ncu as profiling_ncu
from coalesce.profiling.hardware import ncu_report

LOADS = "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum"
TIME = "gpu__time_duration.sum"

OUTPUT = """\
==PROF== Connected to process 4711 (/usr/bin/python3.11)
==PROF== Profiling "naive": 0%....50%....100% - 9 passes
"ID","Process ID","Kernel Name","Grid Size","a__a.sum","b__b.pct","c__c.sum","d__d.ratio"
"","","","","sector","%","ns","n/a"
"0","4711","naive","(2, 2, 1)","1,234,567","12.500000","2656.000000","n/a"
==PROF== Disconnected
"""


@pytest.fixture
def a_gpu(monkeypatch):
    """Pretend that there is a GPU."""
    monkeypatch.setattr(devices, "gpu_status", lambda: GpuStatus("ok", "1 GPU"))


@pytest.fixture
def p():
    a = np.ones((64, 64), np.float32)
    return coalesce.profile("matmul", a, a, variant="naive")


def fake_ncu(tmp_path, body):
    """Write a program that replaces ncu; `body` can use `metrics`, `log` and `rest`."""
    program = tmp_path / "ncu"
    text = f"""\
        #!{sys.executable}
        import pickle, subprocess, sys
        at = sys.argv.index
        metrics = sys.argv[at("--metrics") + 1].split(",")
        log = open(sys.argv[at("--log-file") + 1], "w")
        rest = sys.argv[at("--metrics") + 2:]
        def table(values):
            print("==PROF== Profiling", file=log)
            for row in (["ID", *values], [""] * (1 + len(values)), ["0", *values.values()]):
                print(",".join('"%s"' % cell for cell in row), file=log)
        """
    program.write_text(textwrap.dedent(text) + textwrap.dedent(body))
    program.chmod(program.stat().st_mode | stat.S_IEXEC)
    return program


SCALE = "void ns::scale<float>(float *, int)"
_LAUNCH = f'"0","1","a.out","{SCALE}","(32, 1, 1)","(4, 1, 1)","Command line"'
DETAILS = f"""\
"ID","Process ID","Process Name","Kernel Name","Block Size","Grid Size","Section Name",\
"Metric Name","Metric Unit","Metric Value"
{_LAUNCH},"a__b.sum","inst","1,024"
{_LAUNCH},"gpu__time_duration.sum","us","2.5"
{_LAUNCH},"c__bytes.sum","Kbyte","1.02"
"1","1","a.out","other(int)","(32, 1, 1)","(1, 1, 1)","Speed","Duration","us","2.5"
"""


def test_both_tables_are_read():
    [raw] = ncu_report.parse(OUTPUT)
    assert (raw.kernel, raw.grid) == ("naive", (2, 2, 1))
    assert raw.metrics == {"a__a.sum": 1234567, "b__b.pct": 12.5, "c__c.sum": 2656}
    first, other = ncu_report.parse(DETAILS)
    assert first.description == f"{SCALE} with grid (4, 1, 1) and block (32, 1, 1)"
    # 1.02 Kbyte is rounded, so it cannot be compared.
    assert first.metrics == {"a__b.sum": 1024, "gpu__time_duration.sum": 2500}
    assert (other.kernel, other.metrics) == ("other(int)", {})
    assert ncu_report.parse("==ERROR== nothing") == ncu_report.parse('"ID"') == []


def test_a_report_that_we_write_is_read(p, tmp_path):
    """All exact metrics of the profile are in the table, with their values and units."""
    file = tmp_path / "report.csv"
    assert p.to_csv(file) is None
    assert file.read_text() == p.to_csv(style="ncu")
    names, units, values = csv.reader(file.read_text().splitlines())
    assert dict(zip(names, units, strict=True))[LOADS] == "sector"
    assert dict(zip(names, values, strict=True))[LOADS] == f"{p.metrics()[LOADS]:,}"
    counters = p.measured_counters(report=file)
    assert (dict(counters).keys(), counters.mismatches) == (p.metrics().keys(), {})
    assert f"All {len(p.exact)} exact predictions equal" in str(counters)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda text: text.replace("(2, 2, 1)", "(3, 2, 1)"), r"no launch of naive with grid"),
        (lambda text: text.replace('"naive"', '"tiled(int)"'), r"it has\n  tiled\(int\) with grid"),
        (
            lambda text: text[:0],
            "has no table of Nsight Compute; write it with: ncu --csv --page raw",
        ),
    ],
)
def test_a_report_of_something_else(p, tmp_path, change, message):
    file = tmp_path / "report.csv"
    file.write_text(change(p.to_csv().replace(f'"{p.kernel}"', '"naive"')))
    with pytest.raises(ValueError, match=f"`report`.* {message}"):
        p.measured_counters(report=file)


def test_a_report_is_a_path(p):
    with pytest.raises(TypeError, match=r"`report` .*int"):
        p.measured_counters(report=5)


def test_a_launch_of_several(p, tmp_path):
    head, units, values = p.to_csv().splitlines()
    file = tmp_path / "report.csv"
    sectors = f"{p.metrics()[LOADS]:,}"
    file.write_text("\n".join([head, units, values.replace(f'"{sectors}"', '"7"'), values]))
    assert p.measured_counters(report=file).mismatches == {LOADS: (p.metrics()[LOADS], 7)}
    assert p.measured_counters(report=file, launch=1).mismatches == {}
    with pytest.raises(ValueError, match="`launch`"):
        p.measured_counters(report=file, launch=2)


@pytest.mark.parametrize("variant", ["naive", "tiled", "coalesced"])
def test_a_report_with_two_decimals(tmp_path, variant):
    """Without --print-fp, ncu rounds ratios and percentages; that is no difference."""
    a, b = np.ones((37, 51), np.float32), np.ones((51, 43), np.float32)
    p = coalesce.profile("matmul", a, b, variant=variant)
    head, units, values = csv.reader(p.to_csv().splitlines())
    metrics = p.metrics()
    values = [
        f"{metrics[n]:.2f}" if isinstance(metrics.get(n), float) else v
        for n, v in zip(head, values, strict=True)
    ]
    file = tmp_path / "report.csv"
    rows = [",".join(f'"{cell}"' for cell in row) for row in (head, units, values)]
    file.write_text("\n".join(rows))
    assert p.measured_counters(report=file).mismatches == {}
    at = head.index("smsp__thread_inst_executed_per_inst_executed.ratio")
    changed = [*values[:at], f"{metrics[head[at]] + 0.02:.2f}", *values[at + 1 :]]
    file.write_text("\n".join([*rows[:2], ",".join(f'"{cell}"' for cell in changed)]))
    assert len(p.measured_counters(report=file).mismatches) == 1


def test_a_report_file_is_converted_by_ncu(p, tmp_path):
    table = tmp_path / "table"
    p.to_csv(table)
    ncu = tmp_path / "ncu"
    ncu.write_text(f"#!/bin/sh\n[ $1 = --import ] && cat {table}\n")
    ncu.chmod(0o755)
    assert len(p.measured_counters(report=tmp_path / "a.ncu-rep", ncu=ncu)) == len(p.metrics())
    ncu.write_text("#!/bin/sh\necho bad file; exit 1\n")
    with pytest.raises(coalesce.LaunchError, match=r"cannot read .*a.ncu-rep:\n  bad file"):
        p.measured_counters(report=tmp_path / "a.ncu-rep", ncu=ncu)


@pytest.mark.usefixtures("a_gpu")
def test_counters_beside_predictions(p, tmp_path):
    ncu = fake_ncu(
        tmp_path,
        f"""\
        launch = pickle.load(open(rest[-1] + "/launch.pickle", "rb"))
        assert rest[1:3] == ["-m", "coalesce.profiling.hardware.ncu"]
        assert (launch.grid, launch.block) == ((2, 2, 1), (32, 32, 1))
        assert launch.passed[0].shape == (64, 64)
        values = {{name: "{p.metrics()[LOADS]}" for name in metrics if name == "{LOADS}"}}
        table(values | {{"{TIME}": "4000.000000"}})
        """,
    )
    counters = p.measured_counters(ncu=ncu)
    assert dict(counters) == {LOADS: p.metrics()[LOADS], TIME: 4000}
    assert counters.mismatches == {}
    assert counters.predicted == p.metrics()
    text = repr(counters)
    assert "NVIDIA H200" in text
    assert "All 1 exact predictions equal the hardware's counters." in text
    assert text.count("[1]") == 2  # a note below the table gives the reason
    assert f"[1] {p.inexact[TIME]}" in text
    assert max(map(len, text.splitlines())) <= 100


@pytest.mark.usefixtures("a_gpu")
def test_a_difference_shows(p, tmp_path, check_html):
    ncu = fake_ncu(tmp_path, f"table({{'{LOADS}': '1'}})\n")
    counters = p.measured_counters(ncu=ncu)
    assert counters.mismatches == {LOADS: (p.metrics()[LOADS], 1)}
    assert "1 of 1 exact predictions differ" in repr(counters)
    check_html(counters._repr_html_())


@pytest.mark.usefixtures("a_gpu")
def test_metrics_the_gpu_does_not_have_are_left_out(p, tmp_path):
    ncu = fake_ncu(
        tmp_path,
        f"""\
        if "{TIME}" in metrics:
            sys.exit("==ERROR== Failed to find metric {TIME}")
        table({{"{LOADS}": "7"}})
        """,
    )
    assert dict(p.measured_counters(ncu=ncu)) == {LOADS: 7}


@pytest.mark.usefixtures("a_gpu")
def test_no_permission(p, tmp_path):
    ncu = fake_ncu(
        tmp_path,
        """\
        print("==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access NVIDIA GPU "
              "Performance Counters on the target device 0.", file=log)
        sys.exit(1)
        """,
    )
    with pytest.raises(coalesce.DeviceUnavailable, match="NVreg_RestrictProfilingToAdminUsers=0"):
        p.measured_counters(ncu=ncu)


@pytest.mark.usefixtures("a_gpu")
def test_other_failures_show_the_message_of_ncu(p, tmp_path):
    ncu = fake_ncu(tmp_path, 'sys.exit("==ERROR== The application returned an error code (9).")\n')
    with pytest.raises(coalesce.LaunchError, match=r"status 1(.|\n)*error code \(9\)"):
        p.measured_counters(ncu=ncu)
    with pytest.raises(coalesce.DeviceUnavailable, match="does not exist"):
        p.measured_counters(ncu=tmp_path / "nothing")


@pytest.mark.usefixtures("a_gpu")
def test_no_ncu(p, monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(profiling_ncu, "_PLACES", (str(tmp_path / "*/ncu"),))
    with pytest.raises(coalesce.DeviceUnavailable, match=r"not found on the PATH(.|\n)*no GPU"):
        p.measured_counters()
    (tmp_path / "2025.3").mkdir()
    assert profiling_ncu.find(fake_ncu(tmp_path / "2025.3", ""))
    assert profiling_ncu.find() == str(tmp_path / "2025.3" / "ncu")


def test_without_a_gpu_nothing_is_kept_for_another_launch(monkeypatch):
    monkeypatch.setattr(devices, "gpu_status", lambda: GpuStatus("no driver", "there is none"))
    x = np.ones(32, np.float32)
    source = 'extern "C" __global__ void twice(float* x) { x[threadIdx.x] *= 2; }'
    assert coalesce.Kernel(source, device="sim").profile(1, 32, x)._launch is None


def test_no_gpu(p, monkeypatch):
    monkeypatch.setattr(devices, "gpu_status", lambda: GpuStatus("no driver", "there is none"))
    with pytest.raises(coalesce.DeviceUnavailable, match=r"no driver(.|\n)*counts of the profile"):
        p.measured_counters()


@pytest.mark.usefixtures("a_gpu")
def test_the_launch_can_be_repeated_elsewhere():
    source = '#include "by.h"\ntemplate <int n> __global__ void add(float* x, float by) {\n'
    source += "    if (threadIdx.x < n) x[threadIdx.x] += TIMES * by;\n}"
    headers, options = {"by.h": "#define TIMES N"}, ["-DN=3"]
    x = np.zeros(32, np.float32)
    kernel = coalesce.Kernel(source, "add<16>", options, headers=headers, device="sim")
    p = kernel.profile(1, 32, x, 2.0)
    again = pickle.loads(pickle.dumps(p._launch))
    assert not again.passed[0].any()  # the array is unchanged
    run(again.bind(again.passed))
    np.testing.assert_array_equal(again.passed[0], x)
    assert x.sum() == 16 * 6


@pytest.mark.usefixtures("a_gpu")
def test_only_arrays_that_are_read_and_written_are_kept_for_another_launch():
    source = """extern "C" __global__ void step(float* sum, const float* x, float* out) {
        sum[threadIdx.x] += x[threadIdx.x];
        out[threadIdx.x] = 2 * x[threadIdx.x];
    }"""
    arrays = [np.full(32, value, np.float32) for value in (1, 2, 3)]
    p = coalesce.Kernel(source, device="sim").profile(1, 32, *arrays)
    shared = [np.shares_memory(*pair) for pair in zip(p._launch.passed, arrays, strict=True)]
    assert shared == [False, True, True]
    np.testing.assert_array_equal(p._launch.passed[0], 1)
    np.testing.assert_array_equal(arrays[0], 3)


@pytest.mark.usefixtures("a_gpu")
def test_ncu_that_does_not_end(p, tmp_path):
    ncu = fake_ncu(tmp_path, "import time; time.sleep(60)\n")
    with pytest.raises(coalesce.LaunchError, match=r"longer than 0\.5 seconds"):
        p.measured_counters(ncu=ncu, timeout=0.5)


def test_on_a_gpu(device):
    if device != "cuda":
        pytest.skip("needs --device cuda")
    a = np.ones((256, 256), np.float32)
    p = coalesce.profile("transpose", a, variant="tiled", device=device)
    assert p.measured_ms > 0
    assert p.modelled_ms > 0
    try:
        counters = p.measured_counters()
    except coalesce.DeviceUnavailable as missing:
        pytest.skip(str(missing))
    assert counters[LOADS] == p.metrics()[LOADS]
    assert not counters.mismatches


@pytest.mark.parametrize("wrong", [False, True])
def test_compare_takes_the_launch_from_the_report(tmp_path, capsys, wrong):
    source = "__global__ void scale(float* x, float a) { x[blockIdx.x * 64 + threadIdx.x] *= a; }"
    (tmp_path / "k.cu").write_text(source)
    x = np.ones(128, np.float32)
    table = coalesce.Kernel(source).profile(2, 64, x, 2.0).to_csv()
    file, defect = tmp_path / "report.csv", tmp_path / "defect.json"
    file.write_text(table.replace('"16"', '"17"') if wrong else table)
    words = ["compare", str(file), str(tmp_path / "k.cu"), "--defect", str(defect)]
    status = cli.main([*words, "ones:128", "2.0"])
    out = capsys.readouterr().out
    assert (status, defect.exists()) == (int(wrong), wrong)
    assert "grid (2, 1, 1), block (64, 1, 1)" in out
    assert ("exact predictions equal" in out) is not wrong
    if wrong:
        found = json.loads(defect.read_text())
        assert found["source"] == source
        assert found["mismatches"][LOADS] == [16, 17]
    assert cli.main([*words, "--launch", "2", "ones:128", "2.0"]) == 1
    assert "`launch` must be 1; got 2" in capsys.readouterr().err
