"""Benchmarks check the results they time, mark modelled times, and print complete tables."""

import builtins
import contextlib
import json
import math
import re
import sys
import types
from dataclasses import replace

import numpy as np
import pytest
import simulated_driver

import coalesce
from coalesce import cli
from coalesce.arrays import devices
from coalesce.arrays.peaks import peaks_of
from coalesce.benchmarking import Benchmark, clock, gpu_peers, rounds
from coalesce.benchmarking import gpu as benchmark_gpu
from coalesce.benchmarking import run as benchmark_run
from coalesce.catalogue import reference
from coalesce.common.dtypes import from_bfloat16, to_bfloat16
from coalesce.timing import Timing


@pytest.fixture
def matrices(random):
    return [random.uniform(-1, 1, shape).astype(np.float32) for shape in ((48, 40), (40, 56))]


@pytest.fixture(scope="module")
def products():
    """Two variants and NumPy, on the simulator."""
    random = np.random.default_rng(5)
    a, b = (random.random((64, 64), np.float32) for _ in range(2))
    names = ["naive", "tiled", "numpy"]
    return coalesce.benchmark("matmul", a, b, variants=names, device="sim", runs=3)


def test_rows_are_in_the_requested_order(products):
    assert products.names == ("naive", "tiled", "numpy")
    assert len(products) == 3
    assert products["tiled"] is products[1]
    assert [row.correct for row in products] == [True] * 3
    assert products.correct
    assert products["naive"].speedup == 1
    with pytest.raises(KeyError, match="the rows are naive, tiled, numpy"):
        products["tile"]


def test_modelled_times_are_labelled_and_compared_with_modelled_times(products):
    assert [row.timing.source for row in products] == ["modelled", "modelled", "measured"]
    assert products["numpy"].timing.device == "cpu"
    assert products["numpy"].timing.runs == 3
    assert products["numpy"].speedup is None
    assert products["numpy"].gflops_share is None
    assert products["tiled"].bound.startswith("bound by ")
    lines = products.to_text().splitlines()
    assert max(map(len, lines)) <= 100
    (naive,) = [line.split() for line in lines if line.startswith("naive ")]
    (numpy,) = [line.split() for line in lines if line.startswith("numpy ")]
    assert (naive[2], numpy[2]) == ("modelled", "measured")
    assert naive[3] == "-"  # A modelled time has no spread.
    assert "only NumPy was measured, on this CPU" in products.to_text()


def test_the_times_equal_those_of_the_operation(matrices):
    timed = coalesce.benchmark("matmul", *matrices, variants=["tiled"], tile=16, device="sim")
    _, timing = coalesce.matmul(
        *matrices, variant="tiled", tile=16, device="sim", return_timing=True
    )
    assert timed["tiled"].timing == timing
    assert timed.options == {"tile": 16}
    assert "tile=16" in timed.title


def test_all_variants_by_default(device):
    a = np.ones((33, 20), np.float64)
    for operation in ("transpose", "row_sums", "column_sums"):
        timed = coalesce.benchmark(operation, a, device=device)
        assert timed.names == coalesce.variants(operation).names
        assert timed.correct
        wanted = "measured" if device == "cuda" else "modelled"
        assert {row.timing.source for row in timed} == {wanted}


def test_patterns(device):
    x = np.arange(1000, dtype=np.float32)
    timed = coalesce.benchmark("access", x, stride=3, device=device)
    assert "gather" not in timed.names
    assert timed.correct
    index = np.array([5, 999, 0, 5], np.int32)
    timed = coalesce.benchmark("access", x, variants=["gather", "stride"], index=index)
    assert timed.correct
    timed = coalesce.benchmark("access", x.reshape(250, 4), variants=["aos"], field=3)
    assert timed.correct
    assert "the bytes of the result" in timed.to_text()


@pytest.mark.parametrize("options", [{"alpha": 0.5}, {"beta": 2.0}, {"alpha": 0.0, "beta": 1.0}])
def test_scalars_of_products(matrices, options, device):
    if "beta" in options:
        options["c"] = np.ones((48, 56), np.float32)
    timed = coalesce.benchmark(
        "matmul", *matrices, variants=["naive", "transposed_b"], device=device, **options
    )
    assert timed.correct
    assert "c" not in timed.options


def test_arrays_in_any_layout_and_memory(matrices, device):
    a, b = matrices
    given = coalesce.asarray(a, device=device), coalesce.asarray(b, device=device)
    assert coalesce.benchmark("matmul", *given, variants=["tiled", "numpy"], runs=1).correct
    timed = coalesce.benchmark(
        "matmul", np.asfortranarray(a), b.astype(">f4"), variants=["tiled"], device=device
    )
    assert timed.correct
    assert coalesce.benchmark(
        "transpose", a.astype(">f4")[::-1], variants=["copy", "padded", "numpy"], runs=1
    ).correct


def test_a_wrong_result_is_reported_and_not_timed(matrices, monkeypatch, check_html):
    right = benchmark_run._run

    def wrong(operation, options, *rest):
        result, run = right(operation, options, *rest)
        if options["variant"] == "tiled":
            result[3, 4] += 0.01
        return result, run

    monkeypatch.setattr(benchmark_run, "_run", wrong)
    timed = coalesce.benchmark("matmul", *matrices, variants=["naive", "tiled"], device="sim")
    assert [row.correct for row in timed] == [True, False]
    assert not timed.correct
    text = timed.to_text()
    (line,) = [line for line in text.splitlines() if line.startswith("tiled ")]
    assert re.fullmatch(r"tiled( +-)+ +modelled( +-)+ +\d\.\de-0\d WRONG", line)
    assert "WRONG RESULT: tiled" in text
    check_html(timed._repr_html_())
    assert "Wrong result: tiled" in timed._repr_html_()
    assert coalesce.benchmark("matmul", *matrices, variants=["tiled"], verify=False).correct


def test_unverified(matrices):
    timed = coalesce.benchmark("matmul", *matrices, variants=["tiled"], verify=False, device="sim")
    assert timed[0].error is None
    assert timed[0].correct is None
    assert timed.correct
    assert "max. error" not in timed.to_text()


class TestReference:
    def test_a_lost_term_is_found(self, random):
        a, b = (random.uniform(0, 1, (512, 512)).astype(np.float32) for _ in range(2))
        exact = reference.reference("matmul", "tiled", [a, b], {})
        limit = exact.tolerance(a.dtype)
        assert exact.error(a @ b) <= limit
        assert exact.error(a[:, :-1] @ b[:-1]) > limit

    def test_variants_that_round_their_operands(self, random):
        a, b = (random.uniform(0, 1, (32, 32)).astype(np.float32) for _ in range(2))
        exact = reference.reference("matmul", "", [a, b], {})
        limits = [exact.tolerance(a.dtype, name) for name in ("tf32x3", "tf32", "bf16")]
        assert limits[0] == exact.tolerance(a.dtype)
        assert limits[1] - limits[0] == pytest.approx(2.0**-10, rel=1e-3)
        assert limits[2] - limits[0] == pytest.approx(2.0**-7, rel=1e-2)

    def test_repeated_values_are_not_an_error(self):
        # All rounding errors of this sum have the same sign, so they do not cancel. For a sum of K
        # elements, a tolerance of sqrt(K) eps would be too small.
        a = np.full((2, 100_000), 0.1, np.float32)
        total = np.float32(0)
        for value in a[0]:
            total += value
        exact = reference.reference("row_sums", "thread_per_row", [a], {})
        result = np.array([total, total])
        assert exact.error(result) > np.sqrt(1e5) * np.finfo(np.float32).eps
        assert exact.error(result) <= exact.tolerance(a.dtype)

    def test_infinities_and_nan(self):
        a = np.array([[np.inf, 1], [np.nan, 1], [3e38, 3e38], [1, 2]], np.float32)
        exact = reference.reference("row_sums", "", [a], {})
        with np.errstate(over="ignore"):
            result = a[:, 0] + a[:, 1]
        assert exact.error(result) == 0
        result[3] = np.nan
        assert exact.error(result) == math.inf

    def test_a_moved_nan_is_the_same(self):
        a = np.array([[np.nan, 1.0], [2.0, -0.0]])
        exact = reference.reference("transpose", "padded", [a], {})
        assert exact.error(np.ascontiguousarray(a.T)) == 0
        assert exact.error(np.abs(a.T)) == math.inf
        assert exact.error(a.T[:1]) == math.inf


class TestPeaks:
    def test_of_a_simulated_gpu(self):
        h200 = peaks_of(devices.resolve("sim:h200"), np.dtype(np.float32))
        assert h200.gflops == pytest.approx(132 * 128 * 2 * 1.98)
        assert h200.gbps == 4800
        assert "datasheet" in h200.source
        double = peaks_of(devices.resolve("sim:h200"), np.dtype(np.float64))
        assert double.gflops == h200.gflops / 2
        assert peaks_of(devices.resolve("sim:t4"), np.dtype(np.int32)).gflops is None

    def test_of_a_gpu(self):
        gpu = devices.Device("cuda:0", "NVIDIA H200", "cuda", (9, 0), 1, 132)
        assert peaks_of(gpu, np.dtype(np.float32)).gpu == "NVIDIA H200 SXM"
        pcie = replace(gpu, description="NVIDIA H100 PCIe", multiprocessors=114)
        assert peaks_of(pcie, np.dtype(np.float32)) is None
        other = replace(gpu, description="NVIDIA B200", multiprocessors=148)
        assert peaks_of(other, np.dtype(np.float32)) is None

    def test_shares(self, products):
        row = products["tiled"]
        assert row.gflops_share == pytest.approx(row.timing.gflops / products.peaks.gflops)
        assert row.gbps_share == pytest.approx(row.timing.gbps / 4800)
        assert products.peaks.source in " ".join(products.to_text().split())


A, B = np.ones((8, 5), np.float32), np.ones((5, 7), np.float32)


@pytest.mark.parametrize(
    ("error", "text", "operation", "arrays", "options"),
    [
        (ValueError, "'matmull'; did you mean", "matmull", [A, B], {}),
        (ValueError, "'naive'.* also allowed: numpy", "matmul", [A, B], ["naiv"]),
        (TypeError, r"Write \['naive'\]", "matmul", [A, B], "naive"),
        (ValueError, "at least one", "matmul", [A, B], []),
        (ValueError, "'naive' twice", "matmul", [A, B], ["naive", "naive"]),
        (TypeError, "takes 2 arrays, `a` and `b`; got 1", "matmul", [A], {}),
        (TypeError, "takes 1 array, `a`; got 2", "transpose", [A, B], {}),
        (ValueError, "`a` must have as many columns as `b` has rows", "matmul", [A, A], {}),
        (TypeError, r"`a` has dtype int64; matmul\(\) takes", "matmul", [A.astype(int), B], {}),
        (ValueError, r"nothing to time: .*\(0, 5\), \(5, 7\)", "matmul", [A[:0], B], {}),
        (
            TypeError,
            "no option `tiles`.* `alpha`, `beta`, `c`, `tile`",
            "matmul",
            [A, B],
            {"tiles": 16},
        ),
        (TypeError, "the options are `shared`", "row_sums", [A], {"tile": 16}),
        (TypeError, "it has no options", "column_sums", [A], {"tile": 16}),
        (ValueError, "launches no kernel", "access", [A[0][:0]], ["offset"]),
        (ValueError, "`runs` must be a positive int", "matmul", [A, B], {"runs": 0}),
        (ValueError, "cannot be timed for access", "access", [A[0]], ["numpy"]),
        (ValueError, "cannot be timed for transpose", "transpose", [A], ["cublas"]),
    ],
)
def test_mistakes(error, text, operation, arrays, options):
    options = options if isinstance(options, dict) else {"variants": options}
    with pytest.raises(error, match=text):
        coalesce.benchmark(operation, *arrays, **{"device": "sim", **options})


def test_options_of_variants_that_have_none():
    with pytest.raises(ValueError, match="none of the variants offset has the option `stride`"):
        coalesce.benchmark("access", A[0], variants=["offset"], stride=2)
    with pytest.raises(ValueError, match="leave out `alpha`"):
        coalesce.benchmark("matmul", A, B, variants=["naive", "numpy"], alpha=2.0)


def test_options_that_are_none_are_left_out(matrices):
    assert coalesce.benchmark("matmul", *matrices, variants=["naive_2d"], c=None).options == {}


def test_a_peer_without_a_gpu(matrices):
    for peer in ("cublas", "cupy", "torch"):
        with pytest.raises(coalesce.DeviceUnavailable, match=f"variant '{peer}'.* needs a GPU"):
            coalesce.benchmark("matmul", *matrices, variants=["naive", peer], device="sim")


GPU = devices.Device("cuda:0", "NVIDIA H200", "cuda", (9, 0), 1, 132)
SIM = devices.resolve("sim")


class FakeGpu:
    """A GPU without hardware. Calls advance its clock, and `log` has what was queued, in order.

    It stands in for the part of the core that `GpuClock` calls.
    """

    def __init__(self):
        self.now = 0.0
        self.log = []
        self.recording = None  # the log of a graph while it is recorded

    def call(self, name, ms, function=lambda: None):
        """Return a call that takes some milliseconds."""

        def call(*arguments, **options):
            if self.recording is not None:
                self.recording.append((name, ms))
                return None
            self.now += ms
            self.log.append(name)
            return function(*arguments, **options)

        return call

    def on_stream(self, name, ms):
        """Return a call that takes some milliseconds. Its argument is a stream."""
        call = self.call(name, ms)
        return lambda _: call()

    # The core's device.
    def Device(self, _):  # noqa: N802 - the core's name
        return self

    def allocate(self, *_):
        return types.SimpleNamespace(address=0)

    def attribute(self, number):
        return number

    def fill(self, *_):
        self.call("flush", 100.0)()

    def synchronize(self):
        pass

    def Events(self, ordinal, count):  # noqa: N802
        assert ordinal == 0
        at = [None] * count

        def record(event):
            at[event] = self.now

        return types.SimpleNamespace(
            record=record, wait=lambda _: None, between=lambda a, b: at[b] - at[a]
        )

    def Graph(self, ordinal):  # noqa: N802
        assert ordinal == 0
        recorded = self.recording = []

        def finish():
            self.recording = None

        def launch(stream):
            assert stream == 0
            for name, ms in recorded:
                self.call(name, ms)()

        return types.SimpleNamespace(stream=7, finish=finish, launch=launch)


@pytest.fixture
def fake_gpu(monkeypatch):
    """Replace the GPU by a fake, without nvidia-smi."""
    gpu = FakeGpu()
    monkeypatch.setattr(benchmark_gpu, "cuda", gpu)
    monkeypatch.setattr(clock, "cuda", gpu)
    monkeypatch.setattr(devices, "resolve", lambda *_: GPU)
    monkeypatch.setenv("PATH", "")
    return gpu


class TestRounds:
    def test_how_often_a_candidate_is_timed(self):
        def runs(batch, runs):
            return len(rounds.interleaved({"one": batch}, runs)["one"])

        assert runs(lambda n: [(1.0,)] * n, "auto") == 10
        assert runs(lambda n: [(60.0, 40.0)] * n, "auto") == 6
        noisy = iter(range(1, 100_000))
        assert runs(lambda n: [(next(noisy) * 1e-6,) for _ in range(n)], "auto") == 200
        assert runs(lambda n: [(1.0,)] * n, 7) == 7

    def test_candidates_take_turns_in_both_orders(self):
        log = []

        def batch(name):
            return lambda n: log.append(f"{name}{n}") or [(1.0,)] * n

        times = rounds.interleaved({name: batch(name) for name in "abc"}, 5)
        assert {name: len(ms) for name, ms in times.items()} == {"a": 5, "b": 5, "c": 5}
        assert " ".join(log) == "a1 b1 c1 a2 b2 c2 c2 b2 a2 a1 b1 c1"

    @pytest.mark.parametrize(
        ("l2", "queued"),
        [
            # The untimed run follows the flush, and fills L2.
            ("kept", ["flush", "flush", "pack", "multiply"] + ["pack", "multiply"] * 2),
            ("flushed", ["flush", "pack", "multiply"] * 2),
        ],
    )
    def test_runs_by_events(self, fake_gpu, l2, queued):
        calls = [fake_gpu.on_stream("pack", 0.25), fake_gpu.on_stream("multiply", 2.0)]
        assert clock.GpuClock(GPU, l2).runs(calls, 2) == [(0.25, 2.0)] * 2
        assert fake_gpu.log == queued

    def test_a_run_that_repeats_its_calls(self, fake_gpu):
        calls = [fake_gpu.on_stream("pack", 0.25), fake_gpu.on_stream("multiply", 2.0)]
        batch, repeats = clock.GpuClock(GPU, "kept").batch(calls, 3)
        assert repeats == 3
        assert fake_gpu.log == []  # The calls were recorded, and did not run.
        assert batch(2) == [(2.25,)] * 2
        assert fake_gpu.log == ["flush", "flush"] + ["pack", "multiply"] * 3 * 3

    @pytest.mark.parametrize(("ms", "repeats"), [(2.5, 4), (0.004, 100), (80.0, 1)])
    def test_repeats_are_chosen_by_time(self, fake_gpu, ms, repeats):
        call = fake_gpu.on_stream("multiply", ms)
        batch, chosen = clock.GpuClock(GPU, "kept").batch([call], "auto")
        assert chosen == repeats
        assert batch(1) == [(pytest.approx(ms),)]


@pytest.fixture
def variants_on_fake_gpu(fake_gpu, monkeypatch):
    """Variants run on the simulator; each launch takes 1 ms more than the launch before."""
    run = benchmark_run._run

    def on_simulator(operation, options, arrays, _, settings):
        result, ran = run(operation, options, arrays, SIM, settings)
        timing = replace(ran.timing(), source="measured", device="cuda:0")
        ran.timing = lambda: timing
        return result, ran

    def launches(_operation, _arrays, options):
        name = options["variant"]
        return [(f"{name}_kernel", fake_gpu.on_stream(name, {"naive": 4.0, "tiled": 2.0}[name]))]

    monkeypatch.setattr(benchmark_run, "_run", on_simulator)
    monkeypatch.setattr(benchmark_run, "launches", launches)
    monkeypatch.setattr(benchmark_run, "copy_to_gpu", lambda array, _: array)
    return fake_gpu


def test_variants_take_turns_on_a_gpu(variants_on_fake_gpu, matrices):
    timed = coalesce.benchmark("matmul", *matrices, variants=["naive", "tiled"], runs=3)
    turns = [name for name in variants_on_fake_gpu.log if name != "flush"]
    assert turns[4:] == ["naive"] * 3 + ["tiled"] * 5 + ["naive"] * 2  # 1 of each turn is untimed
    assert timed["naive"].timing.kernel_ms == 4
    assert timed["tiled"].timing.parts == (("tiled_kernel", 2.0),)
    assert timed["tiled"].timing.gflops == pytest.approx(2e-6 * 48 * 56 * 40 / 2)
    assert timed.correct
    assert timed["tiled"].speedup == 2


@pytest.mark.usefixtures("variants_on_fake_gpu")
def test_repeats_of_variants(matrices):
    timed = coalesce.benchmark("matmul", *matrices, variants=["naive", "tiled"], repeats="auto")
    assert [row.repeats for row in timed] == [2, 5]
    assert [row.timing.kernel_ms for row in timed] == [4, 2]
    assert timed["tiled"].timing.parts == (("tiled_kernel", 2.0),)
    assert timed.to_dict()["rows"][1]["repeats"] == 5
    text = " ".join(timed.to_text().split())
    assert "a CUDA graph that repeats the call 2 to 5 times, with all kernels of the call." in text


def test_a_row_with_options_of_its_own(matrices):
    names = ["tiled tile=8", "tiled tile=16", "naive"]
    timed = coalesce.benchmark("matmul", *matrices, variants=names, device="sim")
    assert timed.names == tuple(names)
    assert timed.correct
    times = [row.timing.kernel_ms for row in timed]
    assert len(set(times)) == 3
    alone = coalesce.benchmark("matmul", *matrices, variants=["tiled"], device="sim", tile=8)
    assert times[0] == alone["tiled"].timing.kernel_ms
    (hint,) = [line for line in timed.to_text().splitlines() if "coalesce explain" in line]
    assert "tile" not in hint.replace("tiled", "")
    for wrong, message in (
        ("tiled tile=7", "`tile` must be one of"),
        ("vectorized tile=8", "vectorized has the option `tile`"),
        ("tiled stride=8", "no option `stride`"),
        ("tiled 8", "NAME=VALUE"),
        ("numpy tile=8", "'numpy' has no options"),
    ):
        with pytest.raises(ValueError, match=message):
            coalesce.benchmark("matmul", *matrices, variants=[wrong], device="sim")


def test_the_error_of_the_whole_result(matrices):
    a, b = matrices
    row = coalesce.benchmark("matmul", a, b, variants=["tiled"], device="sim")["tiled"]
    exact = a.astype(float) @ b.astype(float)
    result = coalesce.matmul(a, b, variant="tiled", device="sim")
    expected = np.linalg.norm(result - exact) / np.linalg.norm(exact)
    assert row.norm_error == pytest.approx(expected)
    copies = coalesce.benchmark("transpose", a, variants=["padded"], device="sim")
    assert copies["padded"].norm_error is None


def test_results_in_an_array_of_the_caller(matrices):
    a, b = matrices
    out = np.zeros((len(a), b.shape[1]), np.float32)
    timed = coalesce.benchmark("matmul", a, b, variants=["tiled"], device="sim", out=out)
    assert timed.correct
    assert np.allclose(out, a @ b, atol=1e-4)
    assert timed.options == {"out": "float32"}
    with pytest.raises(ValueError, match="'numpy' has no option `out`"):
        coalesce.benchmark("matmul", a, b, variants=["numpy"], device="sim", out=out)


def test_bfloat16_is_rounded_and_read_back(random):
    x = random.normal(size=1000).astype(np.float32)
    y = from_bfloat16(to_bfloat16(x))
    assert np.abs(y - x).max() <= 2.0**-8 * np.abs(x).max()
    assert np.array_equal(from_bfloat16(to_bfloat16(y)), y)
    halfway = np.array([1 + 2.0**-8, 1 + 3 * 2.0**-8], np.float32)  # ties go to even
    assert from_bfloat16(to_bfloat16(halfway)).tolist() == [1, 1 + 2.0**-6]


ON_THE_DRIVER = """
import json
import numpy as np
import coalesce
from coalesce.benchmarking import clock, gpu_peers
from coalesce.common.dtypes import to_bfloat16

clock.FLUSHED_BYTES = 1 << 20
products = []


class Cublas:
    def multiply(self, extents, addresses, operands, result, tf32, stream=0):
        products.append((extents, operands, result, tf32))


gpu_peers.cublas_path = lambda: ""
gpu_peers.cublas = lambda _: Cublas()
a, b = np.random.default_rng(0).random((2, 128, 128), np.float32)
how = {"device": "cuda", "runs": 3}
found = [
    coalesce.benchmark("matmul", a, b, variants=["tiled", "naive", "numpy"], repeats=3, **how),
    coalesce.benchmark("transpose", a[:99], variants=["padded", "memcpy"], l2="flushed", **how),
    coalesce.benchmark("column_sums", a, variants=["vectorized"], repeats="auto", **how),
]
a, b, out = to_bfloat16(a), to_bfloat16(b), np.empty((128, 128), "V2")
found += [
    coalesce.benchmark("matmul", a, b, variants=["bf16", "cublas"], **how),
    coalesce.benchmark("matmul", a, b, variants=["bf16", "cublas"], out=out, **how),
]
print(json.dumps({"found": [one.to_dict() for one in found], "products": products}))
"""


def test_on_the_simulated_driver():
    """Events, graphs and copies run on the driver that simulates whole programs."""
    data = json.loads(simulated_driver.run(ON_THE_DRIVER))
    products, copies, sums, in_float32, in_bfloat16 = data["found"]
    rows = {row["variant"]: row for row in products["rows"]}
    assert {name: row["repeats"] for name, row in rows.items()} == {
        "tiled": 3,
        "naive": 3,
        "numpy": 1,
    }
    assert rows["naive"]["timing"]["kernel_ms"] > rows["tiled"]["timing"]["kernel_ms"] > 0
    assert sums["rows"][0]["repeats"] == 100
    for record in (products, copies, sums):
        assert all(row["correct"] for row in record["rows"])
    for record in (in_float32, in_bfloat16):
        # cuBLAS is a stand-in that computes nothing. An earlier result does not hide this.
        assert [row["correct"] for row in record["rows"]] == [True, False]
    assert in_float32["arrays"][0]["dtype"] == "bfloat16"
    assert in_bfloat16["options"] == {"out": "bfloat16"}
    assert in_float32["rows"][0]["norm_error"] < 1e-6 < in_bfloat16["rows"][0]["norm_error"] < 2**-8
    kinds = {(tuple(extents), *rest) for extents, *rest in data["products"]}
    shape = (128, 128, 128)
    assert kinds == {(shape, "bfloat16", kind, False) for kind in ("float32", "bfloat16")}


def test_wrong_repeats(matrices):
    for wrong, error in ((0, ValueError), (1.5, TypeError), ("many", ValueError)):
        with pytest.raises(error, match="`repeats` must be"):
            coalesce.benchmark("matmul", *matrices, variants=["tiled"], repeats=wrong)
    with pytest.raises(ValueError, match="leave out `repeats` or `l2`"):
        coalesce.benchmark("matmul", *matrices, variants=["tiled"], repeats=2, l2="flushed")


@pytest.mark.usefixtures("variants_on_fake_gpu")
@pytest.mark.parametrize("l2", ["kept", "flushed"])
def test_the_table_states_what_l2_holds(matrices, l2):
    timed = coalesce.benchmark("matmul", *matrices, variants=["tiled"], runs=1, l2=l2)
    text = " ".join(timed.to_text().split())
    assert f"L2 {l2}: " in text
    assert ("kept" if l2 == "flushed" else "flushed") not in text
    assert "fit into the L2 cache" in text or l2 == "flushed"
    assert "take turns" in text
    assert timed.l2 == timed.to_dict()["l2"] == l2
    assert f"L2 {l2}: " in timed._repr_html_()


def test_l2_accepts_only_kept_and_flushed(matrices):
    with pytest.raises(ValueError, match="`l2` must be one of 'kept', 'flushed'; got 'cold'"):
        coalesce.benchmark("matmul", *matrices, l2="cold")


def test_modelled_times_ignore_l2(matrices, products):
    timed = coalesce.benchmark("matmul", *matrices, variants=["tiled"], device="sim", l2="flushed")
    assert timed.l2 is None
    assert timed.gpu_state is None
    assert products.to_dict()["l2"] is None
    assert "L2 flushed: no effect, because no time was measured on a GPU." in timed.to_text()
    assert "L2 flushed" not in products.to_text()


class TestState:
    """A shell script stands in for nvidia-smi."""

    @pytest.fixture
    def answers(self, monkeypatch, tmp_path):
        def answers(body):
            script = tmp_path / "nvidia-smi"
            script.write_text(f"#!/bin/sh\n{body}\n", "utf-8")
            script.chmod(0o755)
            monkeypatch.setenv("PATH", str(tmp_path))

        return answers

    def test_clock_power_and_reasons(self, answers):
        answers('echo "1755 MHz, 697.31 W, 0x0000000000000044"')
        calls = []
        state = benchmark_gpu.read_state("0", lambda: calls.append(1))
        assert state == benchmark_gpu.GpuState(
            1755.0, 697.31, ("sw_power_cap", "hw_thermal_slowdown")
        )
        assert calls

    def test_a_field_that_is_missing(self, answers):
        answers('echo "1755 MHz, [N/A], 0x0000000000000000"')
        assert benchmark_gpu.read_state() == benchmark_gpu.GpuState(1755.0, None, ())

    def test_an_old_driver(self, answers):
        answers('case "$2" in *event*) exit 2;; esac; echo "900 MHz, 70.00 W, 0x0000000000000001"')
        assert benchmark_gpu.read_state().throttle_reasons == ("gpu_idle",)

    def test_without_nvidia_smi(self, monkeypatch, answers):
        answers("exit 9")
        assert benchmark_gpu.read_state() is None
        monkeypatch.setenv("PATH", "")
        assert benchmark_gpu.read_state() is None

    @pytest.mark.usefixtures("variants_on_fake_gpu")
    def test_in_the_table_and_in_json(self, matrices, answers):
        answers('echo "$1" >&2; echo "1755 MHz, 697.31 W, 0x0000000000000004"')
        timed = coalesce.benchmark("matmul", *matrices, variants=["tiled"], runs=1)
        text = " ".join(timed.to_text().split())
        assert "SM clock 1755 MHz, power 697 W, throttle reasons: sw_power_cap." in text
        assert json.loads(json.dumps(timed.to_dict()))["gpu_state"] == {
            "sm_mhz": 1755.0,
            "power_watts": 697.31,
            "throttle_reasons": ["sw_power_cap"],
        }

    @pytest.mark.usefixtures("variants_on_fake_gpu")
    def test_nothing_without_nvidia_smi(self, matrices):
        timed = coalesce.benchmark("matmul", *matrices, variants=["tiled"], runs=1)
        assert timed.gpu_state is None
        assert timed.to_dict()["gpu_state"] is None
        assert "nvidia-smi" not in timed.to_text()


def test_a_peer_without_its_library(matrices, monkeypatch):
    monkeypatch.setattr(devices, "resolve", lambda *_: GPU)
    monkeypatch.setitem(sys.modules, "cupy", None)
    torch = types.SimpleNamespace(cuda=types.SimpleNamespace(is_available=lambda: False))
    monkeypatch.setitem(sys.modules, "torch", torch)
    for peer, why in (("cupy", "cupy is not installed"), ("torch", "without CUDA")):
        with pytest.raises(coalesce.DeviceUnavailable, match=rf"{why}.* pip install {peer}"):
            coalesce.benchmark("matmul", *matrices, variants=[peer])

    def missing(_):
        raise RuntimeError("no such file")

    pathfinder = types.SimpleNamespace(load_nvidia_dynamic_lib=missing)
    monkeypatch.setattr(gpu_peers, "pathfinder", lambda: pathfinder)
    gpu_peers.cublas_path.cache_clear()
    with pytest.raises(coalesce.DeviceUnavailable, match="pip install nvidia-cublas"):
        coalesce.benchmark("matmul", *matrices, variants=["cublas"])


def test_peers_on_a_gpu(matrices, monkeypatch, fake_gpu):
    """NumPy stands in for CuPy."""
    cupy = types.SimpleNamespace(
        matmul=fake_gpu.call("cupy", 1.0, np.matmul),
        empty=np.empty,
        asarray=np.asarray,
        asnumpy=np.copy,
        ascontiguousarray=np.ascontiguousarray,
        cuda=types.SimpleNamespace(
            Device=contextlib.nullcontext,
            Stream=types.SimpleNamespace(null=contextlib.nullcontext()),
        ),
    )
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    timed = coalesce.benchmark("matmul", *matrices, variants=["cupy", "numpy"], runs=4)
    timing = timed["cupy"].timing
    assert (timing.kernel_ms, timing.spread, timing.runs) == (1.0, 0.0, 4)
    assert (timing.source, timing.device) == ("measured", "cuda:0")
    assert timing.gflops == pytest.approx(2e-6 * 48 * 56 * 40)
    assert timed["cupy"].gflops_share == pytest.approx(timing.gflops / timed.peaks.gflops)
    assert timed["cupy"].correct
    repeated = coalesce.benchmark("matmul", *matrices, variants=["cupy"], repeats=5)["cupy"]
    assert (repeated.timing.kernel_ms, repeated.repeats) == (1.0, 5)
    assert timed["numpy"].speedup is not None  # Both times were measured.
    text = timed.to_text()
    assert "CUDA events or the host's clock" in text
    assert "modelled" not in text


class FakeTensor(np.ndarray):
    """A stand-in for a PyTorch tensor: it has only what the peer needs."""

    cuda = cpu = lambda self: self

    def numpy(self):
        return self.view(np.ndarray)

    def new_empty(self, shape):
        return np.empty(shape, self.dtype).view(FakeTensor)

    def copy_(self, other):
        self[...] = other
        return self


@pytest.mark.usefixtures("fake_gpu")
@pytest.mark.parametrize("operation", ["matmul", "transpose", "row_sums", "column_sums"])
def test_pytorch_on_a_gpu(matrices, monkeypatch, operation):
    """NumPy stands in for PyTorch."""
    tf32 = types.SimpleNamespace(allow_tf32=True)

    def matmul(a, b, out):
        assert tf32.allow_tf32 is False
        return np.matmul(a, b, out=out)

    torch = types.SimpleNamespace(
        from_numpy=lambda array: array.view(FakeTensor),
        matmul=matmul,
        sum=lambda a, dim, out: a.sum(axis=dim, out=out),
        cuda=types.SimpleNamespace(
            is_available=lambda: True,
            device=contextlib.nullcontext,
            stream=contextlib.nullcontext,
            default_stream=lambda _: None,
        ),
        backends=types.SimpleNamespace(cuda=types.SimpleNamespace(matmul=tf32)),
    )
    monkeypatch.setitem(sys.modules, "torch", torch)
    arrays = matrices if operation == "matmul" else matrices[:1]
    timed = coalesce.benchmark(operation, *arrays, variants=["torch"], runs=2)
    assert timed.correct
    assert timed["torch"].timing.runs == 2
    assert tf32.allow_tf32 is True  # The setting is restored.


def test_a_peer_that_is_installed(matrices, device):
    if device != "cuda":
        pytest.skip("needs a GPU")
    if not any(map(_installed, ("cupy", "torch"))):
        pytest.skip("needs CuPy or PyTorch")
    timed = coalesce.benchmark("matmul", *matrices, variants=["tiled", "cublas"], device=device)
    assert timed.correct
    assert {row.timing.source for row in timed} == {"measured"}


def _installed(name):
    try:
        __import__(name)
    except ImportError:
        return False
    return True


def test_a_gpu_with_unknown_peaks(products):
    device = replace(GPU, description="NVIDIA B200")
    timing = replace(products[1].timing, source="measured", runs=10, device="cuda:0")
    row = replace(products[1], timing=timing, gflops_share=None, gbps_share=None, bound=None)
    timed = Benchmark(
        operation="matmul",
        arrays=products.arrays,
        device=device,
        rows=[row],
        peaks=None,
        options={},
    )
    text = timed.to_text()
    assert "the peaks of NVIDIA B200 are not known" in " ".join(text.split())
    assert "of peak" not in text.splitlines()[2]


def test_html(products, check_html, tmp_path):
    html = products._repr_html_()
    check_html(html)
    assert "modelled for an NVIDIA H200 SXM" in html
    assert "▒" in html  # Modelled bars are hatched; measured bars are solid.
    assert "█" in html or "▏" in html
    products.to_html(tmp_path / "page.html")
    assert (tmp_path / "page.html").read_text("utf-8").startswith("<!DOCTYPE html>")


def test_to_dict(products):
    data = json.loads(json.dumps(products.to_dict()))
    assert data["operation"] == "matmul"
    assert data["arrays"][0] == {"name": "a", "shape": [64, 64], "dtype": "float32"}
    assert data["rows"][0]["timing"]["source"] == "modelled"
    assert data["peaks"]["gbps"] == 4800


def test_to_dataframe(products, monkeypatch):
    pandas = pytest.importorskip("pandas")
    frame = products.to_dataframe()
    assert isinstance(frame, pandas.DataFrame)
    assert list(frame.index) == ["naive", "tiled", "numpy"]
    assert {"kernel_ms", "source", "gflops_share", "correct"} <= set(frame.columns)
    without_package(monkeypatch, "pandas")
    with pytest.raises(ImportError, match="pip install pandas"):
        products.to_dataframe()


def test_plot(products):
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    axes = products.plot()
    assert [text.get_text() for text in axes.get_yticklabels()] == list(products.names)
    assert [bool(patch.get_hatch()) for patch in axes.patches] == [True, True, False]
    assert products.plot("gflops").get_xlabel() == "GFLOP/s"
    plt.close("all")


def test_progress(matrices):
    seen = []
    coalesce.benchmark(
        "matmul",
        *matrices,
        variants=["naive", "tiled"],
        device="sim",
        progress=lambda done, total: seen.append((done, total)),
    )
    assert seen == [(0, 2), (1, 2), (2, 2)]


def test_a_single_row_is_compared_with_none(products):
    timing = Timing(1.0, 0.01, 9, 0.0, 0.0, 2.0, 3.0, "cuda:0", "measured")
    timed = Benchmark(
        operation="row_sums",
        arrays=products.arrays[:1],
        device=GPU,
        rows=[replace(products[0], variant="warp_per_row", timing=timing, speedup=1.0)],
        peaks=products.peaks,
        options={},
    )
    assert "speedup" not in timed.to_text()
    assert "the median of 9 runs by CUDA events, without copies" in timed.to_text()


class TestCommandLine:
    def run(self, capsys, *arguments):
        status = cli.main(arguments)
        captured = capsys.readouterr()
        return status, captured.out, captured.err

    def test_bench(self, capsys, tmp_path, device):
        path = tmp_path / "bench.json"
        status, out, _ = self.run(
            capsys, "bench", "matmul", "--size", "40", "--variants", "naive,tiled", "--device",
            device, "--dtype", "float64", "--json", str(path), "tile=8",
        )  # fmt: skip
        assert status == 0
        assert "a (40, 40) and b (40, 40), float64, tile=8" in out
        assert "\x1b" not in out
        assert max(map(len, out.splitlines())) <= 100
        data = json.loads(path.read_text("utf-8"))
        assert [row["variant"] for row in data["rows"]] == ["naive", "tiled"]
        (hint,) = [line for line in out.splitlines() if "coalesce explain" in line]
        status, _, _ = self.run(capsys, *hint.partition("coalesce ")[2].split())
        assert status == 0

    @pytest.mark.parametrize(("name", "begins"), [("a.png", b"\x89PNG"), ("a.svg", b"<?xml")])
    def test_plot(self, capsys, tmp_path, name, begins):
        pytest.importorskip("matplotlib")
        words = ["bench", "row_sums", "-n", "32", "--device", "sim", "--plot", str(tmp_path / name)]
        assert self.run(capsys, *words)[0] == 0
        content = (tmp_path / name).read_bytes()
        assert content.startswith(begins)

    def test_mistakes_of_plots(self, capsys, tmp_path, monkeypatch):
        def fails(file):
            status, out, err = self.run(
                capsys, "bench", "row_sums", "--device", "sim", "--plot", file
            )
            assert status == 1
            assert not out  # Nothing was run.
            return err

        assert "--plot needs a file that ends in .png or .svg; got a.jpg" in fails("a.jpg")
        assert "there is no folder" in fails(str(tmp_path / "no" / "a.png"))
        without_package(monkeypatch, "matplotlib")
        message = fails(str(tmp_path / "a.png"))
        assert message == (
            "coalesce: coalesce.plots needs matplotlib, which is not installed: "
            "pip install matplotlib\n"
        )

    @pytest.mark.usefixtures("variants_on_fake_gpu")
    def test_l2(self, capsys):
        status, out, _ = self.run(
            capsys, "bench", "matmul", "-n", "32", "--variants", "tiled", "--l2", "flushed"
        )
        assert status == 0
        assert "L2 flushed: before each run, 268 MB are written" in " ".join(out.split())

    def test_bench_of_patterns(self, capsys):
        status, out, _ = self.run(
            capsys,
            "bench",
            "access",
            "--variants",
            "aos,soa,gather",
            "-n",
            "100",
            "--device",
            "sim",
        )
        assert status == 0
        assert "x (100, 4)" in out

    def test_shapes_and_repeats(self, capsys):
        words = ("bench", "matmul", "--device", "sim", "--repeats", "auto", "--variants", "naive")
        status, out, _ = self.run(capsys, *words, "--shape", "20x30x40")
        assert status == 0
        assert "a (20, 40) and b (40, 30)" in out
        status, out, _ = self.run(capsys, "bench", "transpose", "--shape", "20x30", "--device=sim")
        assert status == 0
        assert "transpose of a (20, 30)" in out
        status, _, err = self.run(capsys, *words, "--shape", "20x30")
        assert status == 1
        assert "--shape needs M, N and K, joined with x; got 20x30" in err
        status, _, err = self.run(capsys, "bench", "access", "--shape", "20x30", "--device=sim")
        assert status == 1
        assert "write --size instead of --shape" in err

    def test_mistakes(self, capsys, tmp_path):
        status, _, err = self.run(capsys, "bench", "sort")
        assert status == 1
        assert "unknown operation: 'sort'" in err
        missing = str(tmp_path / "no" / "page.html")
        status, _, err = self.run(capsys, "report", "matmul", "--html", missing)
        assert status == 1
        assert "there is no folder" in err
        with pytest.raises(SystemExit):
            self.run(capsys, "bench", "matmul", "--variants", "naive,,tiled")
        assert "must be names, separated by commas" in capsys.readouterr().err

    def test_a_wrong_result_fails(self, capsys, monkeypatch):
        monkeypatch.setattr(reference.Reference, "tolerance", lambda *_, **__: -1.0)
        status, out, _ = self.run(capsys, "bench", "row_sums", "-n", "32", "--device", "sim")
        assert status == 1
        assert "WRONG RESULT: thread_per_row" in out

    def test_report(self, capsys, tmp_path, monkeypatch):
        path = tmp_path / "page.html"
        words = ("report", "transpose", "--size", "64", "--variants", "tiled,numpy,padded")
        status, out, _ = self.run(capsys, *words, "--device", "sim", "--html", str(path))
        assert status == 0
        assert f"The page is {path}" in out
        page = path.read_text("utf-8")
        assert "<script" not in page
        for name in ("tiled", "padded"):
            assert f'id="{name}"' in page
            assert f'href="#{name}"' in page
        assert 'id="numpy"' not in page
        assert "What changed from tiled" in page
        assert "32-way bank conflict" in page
        without_package(monkeypatch, "matplotlib")
        self.run(capsys, *words, "--device", "sim", "--html", str(path))
        assert "matplotlib, which is not installed" in path.read_text("utf-8")


def without_package(monkeypatch, package):
    """Make every import of a package fail."""
    real = builtins.__import__

    def refused(name, *rest, **more):
        if name.partition(".")[0] == package:
            raise ImportError(name)
        return real(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", refused)
