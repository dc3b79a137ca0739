"""Benchmarks of whole calls: operations on NumPy arrays with all copies, copies, and launches."""

import importlib
import json
import os
import re
import subprocess
import sys
import types
import weakref
from pathlib import Path

import numpy as np
import pytest

import coalesce
from coalesce import cli
from coalesce.benchmarking import Benchmark, BenchmarkRow, calls, clock, peers, rounds
from coalesce.benchmarking.gpu import GpuState
from coalesce.cli import parser
from coalesce.compile import runtime_library
from coalesce.timing import Timing

ROOT = Path(__file__).parents[3]
DRIVER = runtime_library.library()
A, B = np.ones((8, 5), np.float32), np.ones((5, 7), np.float32)

# Stand-ins for CuPy and PyTorch: they have only what the rows need.
LIBRARIES = """
import contextlib, sys, types
import numpy as np
import coalesce
from coalesce.array import to_device


class Array:  # a CuPy array, or a tensor in the host's memory or on the GPU
    def __init__(self, memory):
        self.memory = memory

    shape = property(lambda self: self.memory.shape)
    T = property(lambda self: Array(to_device(self.host().T)))
    contiguous = cuda = lambda self: Array(to_device(self.host()))
    pin_memory = lambda self: Array(self.memory.copy())
    cpu = lambda self: Array(self.host())
    numpy = lambda self: self.memory
    zero_ = lambda self: self.fill(0)

    def host(self):
        return self.memory if isinstance(self.memory, np.ndarray) else self.memory.get()

    def set(self, host):
        if isinstance(self.memory, np.ndarray):
            self.memory[...] = host
        else:
            self.memory.set(host)

    def get(self, out=None):
        return self.memory.get(out)

    def fill(self, value):
        self.set(np.full(self.shape, value, self.memory.dtype))

    def copy_(self, other):
        self.set(other.host())

    def sum(self, axis=None, dim=None):
        return Array(to_device(self.host().sum(axis if dim is None else dim)))

    def __getattr__(self, name):
        if name != "__cuda_array_interface__" or isinstance(self.memory, np.ndarray):
            raise AttributeError(name)
        return self.memory.__cuda_array_interface__


class RawKernel:
    def __init__(self, source, name):
        self.kernel = coalesce.Kernel(source, name, device="cuda")

    def __call__(self, grid, block, arguments):
        self.kernel[grid, block](*arguments)


class Device(contextlib.nullcontext):
    synchronize = lambda self: coalesce._core.cuda.Device(0).synchronize()


def matmul(a, b):
    assert not torch.backends.cuda.matmul.allow_tf32
    return Array(to_device(a.host() @ b.host()))


stream = types.SimpleNamespace(null=contextlib.nullcontext())
cupy = types.SimpleNamespace(
    asarray=lambda host: Array(to_device(host)),
    asnumpy=lambda array: array.get(),
    ascontiguousarray=lambda array: array.contiguous(),
    matmul=lambda a, b: Array(to_device(a.host() @ b.host())),
    RawKernel=RawKernel,
    cuda=types.SimpleNamespace(Device=Device, Stream=stream),
)
torch = types.SimpleNamespace(
    from_numpy=Array,
    matmul=matmul,
    cuda=types.SimpleNamespace(
        is_available=lambda: True,
        device=contextlib.nullcontext,
        stream=contextlib.nullcontext,
        default_stream=lambda _: None,
        synchronize=lambda: None,
    ),
    backends=types.SimpleNamespace(
        cuda=types.SimpleNamespace(matmul=types.SimpleNamespace(allow_tf32=True))
    ),
)
sys.modules["cupy"], sys.modules["torch"] = cupy, torch
"""
ON_THE_DRIVER = (
    LIBRARIES
    + """
import json
from coalesce.benchmarking import calls
from coalesce.launch import module

module._image = lambda compiled, _: compiled.ptx.encode()  # this driver loads only PTX
calls.LAUNCHES = 200
a, b = np.random.default_rng(0).random((2, 48, 64), np.float32)
operations = {"matmul": (a, b.T), "transpose": (a,), "row_sums": (a,), "column_sums": (a,)}
found = {
    name: coalesce.benchmark(name, *arrays, whole_calls=True, runs=3)
    for name, arrays in operations.items()
}
found["copies"] = coalesce.benchmark("copies", a.astype(np.float64), runs=3)
found["launch"] = coalesce.benchmark("launch", runs=2)
some = ["graph", "numpy", "kernels"]
found["some"] = coalesce.benchmark("matmul", a, b.T, whole_calls=True, variants=some[1:], runs=3)
found["graph"] = coalesce.benchmark("launch", variants=some[:1], runs=2)
copied = coalesce.array.DeviceArray.set
coalesce.array.DeviceArray.set = lambda self, values: copied(self, np.zeros_like(values))
found["wrong"] = coalesce.benchmark("copies", a, runs=1, variants=["to", "pinned_to"])
coalesce.array.DeviceArray.set = copied
print(json.dumps({name: [one.to_dict(), str(one)] for name, one in found.items()}))
assert torch.backends.cuda.matmul.allow_tf32  # the setting is restored
"""
)


@pytest.fixture(scope="module")
def found():
    """Benchmarks on the driver that simulates whole programs."""
    environment = {**os.environ, "COALESCE_CUDA_DRIVER": str(DRIVER), "COLUMNS": "100"}
    command = [sys.executable, "-c", ON_THE_DRIVER]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("name", [*peers.OPERATIONS, "copies", "launch"])
def test_all_rows_are_right(found, name):
    data, text = found[name]
    assert [row["variant"] for row in data["rows"]] == [x for x in calls.ROWS[name] if x != "numpy"]
    assert all(row["correct"] for row in data["rows"]), text
    assert all(row["timing"]["kernel_ms"] > 0 for row in data["rows"])
    assert {row["timing"]["source"] for row in data["rows"]} == {"measured"}
    assert data["whole_calls"]
    assert data["processor"]
    assert data["peaks"] is data["l2"] is None
    assert max(map(len, text.splitlines())) <= 100
    words = " ".join(text.split())
    assert "runs by the host's clock" in words
    assert "the order of each round is random" in words
    for row in data["rows"]:
        assert f"{row['variant']}: {calls.ROWS[name][row['variant']]}" in words
    for note in ("events", "L2", "Peaks", "coalesce explain"):
        assert note not in words


def test_rates_of_whole_calls(found):
    data, _ = found["matmul"]
    rows = {row["variant"]: row["timing"] for row in data["rows"]}
    moved = 4 * (48 * 64 + 64 * 48 + 48 * 48)
    for name, timing in rows.items():
        flops = 0 if name == "copies" else 2 * 48 * 48 * 64
        assert timing["gflops"] == pytest.approx(1e-6 * flops / timing["kernel_ms"])
        assert timing["gbps"] == pytest.approx(1e-6 * moved / timing["kernel_ms"])
    for row in found["copies"][0]["rows"]:
        timing = row["timing"]
        assert timing["gbps"] == pytest.approx(1e-6 * 8 * 48 * 64 / timing["kernel_ms"])


def test_launches_are_timed_in_microseconds(found):
    data, text = found["launch"]
    assert {row["repeats"] for row in data["rows"]} == {200}
    head, *rows = [line.split() for line in text.splitlines()[2:10]]
    assert head == ["variant", "us", "source", "spread", "speedup", "max.", "error"]
    shown = {row[0]: float(row[1].replace(",", "")) for row in rows if row}
    for row in data["rows"]:
        assert shown[row["variant"]] == pytest.approx(1e3 * row["timing"]["kernel_ms"], rel=0.02)
    assert "each run makes 200 launches" in " ".join(text.split())


def test_some_rows(found):
    data, text = found["some"]
    assert [row["variant"] for row in data["rows"]] == ["numpy", "kernels"]
    assert [row["timing"]["device"] for row in data["rows"]] == ["cpu", "cuda:0"]
    assert "NumPy runs alone, after the others." in " ".join(text.split())
    (row,) = found["graph"][0]["rows"]  # its arrays are not freed with those of the other rows
    assert row["correct"]


def test_a_copy_of_something_else_is_wrong(found):
    data, text = found["wrong"]
    assert [row["correct"] for row in data["rows"]] == [False, False]
    assert "WRONG RESULT: to, pinned_to" in text


def test_goals_read_whole_calls(found, monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "docs"))
    goals = importlib.import_module("make_goals")
    figures = {name: found[name][0] for name in ("matmul", "launch", "copies", "transpose")}
    rows = {row["variant"]: row["timing"]["kernel_ms"] for row in figures["matmul"]["rows"]}
    assert goals.of_calls(figures, "matmul") == {(48, name): ms for name, ms in rows.items()}
    assert {"device_array", "cupy", "from_cpp"} <= {
        name for _, name in goals.of_calls(figures, "launch")
    }


def test_the_recorded_cases_are_commands(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    for case in importlib.import_module("record_gpu").CASES:
        options = parser.parse(["bench", *case.split()])
        assert not options.argument
        assert options.whole_calls == (options.operation == "matmul")


def test_a_recording_is_continued(monkeypatch, tmp_path):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    record_gpu = importlib.import_module("record_gpu")
    header = {"commit": "c0ffee", "date": "2026-01-01"}
    header["gpu"] = {"name": "NVIDIA H200", "driver_version": "580"}
    ran = []

    def run(words, **_):
        case = " ".join(words[4:-2])
        if case == record_gpu.CASES[2] and len(ran) == 2:
            raise KeyboardInterrupt
        ran.append(case)
        Path(words[-1]).write_text(json.dumps({"case": case}), "utf-8")
        return types.SimpleNamespace(stdout=f"table of {case}\n")

    monkeypatch.setattr(record_gpu.recording, "header", lambda *_: header)
    monkeypatch.setattr(record_gpu, "subprocess", types.SimpleNamespace(run=run, PIPE=-1))
    words = ["record_gpu.py", "--out", str(tmp_path / "gpu.txt")]
    monkeypatch.setattr(sys, "argv", words)
    with pytest.raises(KeyboardInterrupt):
        record_gpu.main()
    ran.append("stopped")
    monkeypatch.setattr(sys, "argv", [*words, "--continue"])
    record_gpu.main()
    cases = list(record_gpu.CASES)
    assert ran == [*cases[:2], "stopped", *cases[2:]]
    text = (tmp_path / "gpu.txt").read_text("utf-8")
    assert text.startswith("commit c0ffee, NVIDIA H200, driver 580, 2026-01-01\n\n$ coalesce bench")
    assert re.findall(r"^table of (.*)$", text, re.MULTILINE) == cases
    figures = json.loads((tmp_path / "gpu.json").read_text("utf-8"))["figures"]
    assert figures == {f"coalesce bench {case}": {"case": case} for case in cases}
    header["commit"] = "other"
    with pytest.raises(SystemExit, match="begins with another line than: commit other"):
        record_gpu.main()


def test_on_a_gpu(device):
    if device != "cuda":
        pytest.skip("needs a GPU")
    a = np.random.default_rng(0).random((200, 200), np.float32)
    found = [
        coalesce.benchmark("copies", a, runs=2),
        coalesce.benchmark("launch", runs=2),
        coalesce.benchmark("matmul", a, a, whole_calls=True, runs=2),
        coalesce.benchmark("transpose", a, whole_calls=True, runs=2),
        coalesce.benchmark("row_sums", a, whole_calls=True, runs=2),
        coalesce.benchmark("column_sums", a, whole_calls=True, runs=2),
    ]
    for timed in found:
        assert timed.correct, timed
        assert timed.gpu_state is not None


class TestHostClock:
    """The calls of these tests advance the clock."""

    @pytest.fixture
    def now(self, monkeypatch):
        now = types.SimpleNamespace(seconds=0.0, log=[])
        own = types.SimpleNamespace(perf_counter=lambda: now.seconds)
        monkeypatch.setattr(clock, "time", own)  # only for this module: pytest measures time, too
        return now

    def test_time_of_one_call(self, now):
        def call():
            now.seconds += 1
            now.log.append("call")

        def synchronize():
            now.seconds += 50
            now.log.append("synchronize")

        assert clock.host_runs(call, 2) == [(1000.0,)] * 2
        now.log.clear()
        assert clock.host_runs(call, 1, 3, synchronize) == [(1000.0,)]
        assert now.log == ["call", "synchronize", "call", "call", "call", "synchronize"]

    def test_freeing_a_result(self, now):
        class Result:
            pass

        def free():
            now.seconds += 100

        def call():
            now.seconds += 1
            result = Result()
            weakref.finalize(result, free)
            return result

        assert clock.host_runs(call, 2) == [(1000.0,)] * 2  # the result is freed afterwards
        assert calls._freed(call).batch(2) == [(101_000.0,)] * 2

    def test_several_launches_in_one_call(self, now, monkeypatch):
        def call():
            now.seconds += 1

        monkeypatch.setattr(calls, "LAUNCHES", 500)
        timed = calls.TimedCall(call, lambda: None, launches=100, synchronize=lambda: None)
        assert timed.batch(1) == [(10.0,)]  # milliseconds of one launch
        assert timed.repeats == 500


def test_rounds_in_random_order():
    log = []

    def batch(name):
        return lambda n: log.append(f"{name}{n}") or [(1.0,)] * n

    times = rounds.interleaved({name: batch(name) for name in "abc"}, 60, shuffled=True)
    assert {name: len(ms) for name, ms in times.items()} == dict.fromkeys("abc", 60)
    orders = ["".join(log[first : first + 3]) for first in range(3, len(log), 3)]
    assert {"".join(sorted(order)) for order in orders} == {"111abc"}
    assert len(set(orders)) == 6


def test_libraries_that_are_missing(monkeypatch):
    monkeypatch.setitem(sys.modules, "cupy", None)
    torch = types.SimpleNamespace(cuda=types.SimpleNamespace(is_available=lambda: False))
    monkeypatch.setitem(sys.modules, "torch", torch)
    assert calls.default_rows("copies") == ("to", "back", "new", "pinned_to", "pinned_back")
    assert calls.default_rows("matmul") == ("new", "out", "pinned", "copies", "kernels")
    monkeypatch.setitem(sys.modules, "cupy", types.SimpleNamespace())
    assert [x for x in calls.default_rows("launch") if "cupy" in x] == ["cupy_arrays", "cupy"]


@pytest.mark.parametrize(
    ("error", "text", "operation", "arrays", "options"),
    [
        (ValueError, "'naive'; .* may contain only new, out, pinned", "matmul", [A, B], ["naive"]),
        (ValueError, "'to' twice", "copies", [A], ["to", "to"]),
        (TypeError, r"Write \['to'\]", "copies", [A], "to"),
        (
            ValueError,
            "`whole_calls` is for .*; got the operation 'access'",
            "access",
            [A],
            {},
        ),
        (TypeError, "has no options; got `tile`", "matmul", [A, B], {"tile": 16}),
        (ValueError, "`l2` and `repeats` are for kernels", "copies", [A], {"l2": "flushed"}),
        (ValueError, "`l2` and `repeats` are for kernels", "launch", [], {"repeats": "auto"}),
        (ValueError, "`runs` must be a positive int", "launch", [], {"runs": 0}),
        (TypeError, "copies takes 1 array; got 0", "copies", [], {}),
        (TypeError, "launch takes no arrays; got 1", "launch", [A], {}),
        (TypeError, "takes 2 arrays, `a` and `b`; got 1", "matmul", [A], {}),
        (TypeError, "`array` has dtype int64", "copies", [A.astype(int)], {}),
        (TypeError, r"not empty; .* shape \(0, 5\)", "copies", [A[:0]], {}),
        (TypeError, "`array` must be", "copies", [[1.0, 2.0]], {}),
        (ValueError, "did you mean 'launch'", "lunch", [], {"whole_calls": False}),
        (coalesce.DeviceUnavailable, "can only be timed on a GPU, but ", "launch", [], {}),
        (coalesce.DeviceUnavailable, r"\(matmul\) can only be timed on", "matmul", [A, B], {}),
    ],
)
def test_mistakes(error, text, operation, arrays, options):
    options = options if isinstance(options, dict) else {"variants": options}
    with pytest.raises(error, match=text):
        coalesce.benchmark(operation, *arrays, **{"device": "sim", "whole_calls": True, **options})


def test_arrays_on_the_gpu_are_refused():
    array = coalesce.asarray(A, device="sim")
    with pytest.raises(TypeError, match="NumPy arrays; the operand `array` is a DeviceArray"):
        coalesce.benchmark("copies", array)


def test_the_state_of_the_gpu_is_shown(check_html):
    timing = Timing(0.00417, 0.01, 9, 0, 0, 0, 0, "cuda:0", "measured")
    timed = Benchmark(
        operation="launch",
        arrays=[],
        device=coalesce.devices()[-1],
        rows=[BenchmarkRow("device_array", timing)],
        peaks=None,
        options={},
        gpu_state=GpuState(1980.0, 120.0, ()),
        processor="16 x CPU",
    )
    text = " ".join(timed.to_text().split())
    assert "device_array 4.17 measured" in text
    assert "SM clock 1980 MHz, power 120 W, throttle reasons: none." in text
    assert "Host: 16 x CPU." in text
    check_html(timed._repr_html_())
    assert "4.17" in timed._repr_html_()


class TestCommandLine:
    @pytest.mark.parametrize(
        ("words", "message"),
        [
            ("launch --size 8", "`launch` has no arrays; leave out --size and --shape"),
            ("copies --shape 8x8", "`copies` takes a vector; write --size instead of --shape"),
            ("matmul -n 8 --device sim --whole-calls", "whole calls (matmul) can only be timed"),
        ],
    )
    def test_refusals(self, capsys, words, message):
        assert cli.main(["bench", *words.split()]) == 1
        assert message in capsys.readouterr().err
