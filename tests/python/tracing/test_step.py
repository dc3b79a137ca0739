"""Stepping through a block: steps, lines, barriers, registers, variables, shared memory."""

import _thread
import gc
import threading
import time
import weakref

import numpy as np
import pytest

import coalesce
from coalesce import draw

pytestmark = pytest.mark.usefixtures("on_simulator")

SCALE = """extern "C" __global__ void scale(const float *a, float *out, float factor, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        float x = a[i];
        out[i] = x * factor;
    }
}"""

REVERSE = """extern "C" __global__ void reverse(const int *x, int *out) {
    __shared__ int s[64];
    int i = threadIdx.x;
    s[i] = x[i];
    __syncthreads();
    out[i] = s[63 - i];
}"""


def scale(n=40, block=32, **options):
    a = np.arange(100, dtype=np.float32)
    out = np.zeros(100, np.float32)
    return coalesce.Kernel(SCALE).step(4, block, a, out, 3.0, n, **options), a, out


def reverse(block=64, x=None):
    x = np.arange(1, 65, dtype=np.int32) if x is None else x
    return coalesce.Kernel(REVERSE).step(1, block, x, np.zeros(64, np.int32))


def tiled(n, tile, block, alpha=1.0):
    """Return a stepper for a block of the shipped tiled product."""
    random = np.random.default_rng(5)
    a, b = random.integers(-9, 10, (2, n, n)).astype(np.float32)
    out = np.zeros((n, n), np.float32)
    kernel = coalesce.Kernel(
        coalesce.source("matmul", "tiled"), "tiled", options=[f"-DTILE={tile}"]
    )
    blocks = -(-n // tile)
    sizes = (np.int32(n),) * 3
    arguments = (a, b, a[:1, 0], out, *sizes, np.float32(alpha), np.float32(0))
    return kernel.step((blocks, blocks), (tile, tile), *arguments, of_block=block), a, b


def test_steps_report_the_executed_instructions():
    stepper, a, out = scale(of_block=1, optimized=True)
    steps = list(stepper)
    assert stepper.done
    assert [s.number for s in steps] == list(range(len(steps)))
    assert {s.warp for s in steps} == {0}
    loads = [s for s in steps if s.opcode.startswith("ld.global")]
    assert [s.line for s in loads] == [4]
    assert loads[0].text == "        float x = a[i];"
    assert loads[0].instruction.startswith(loads[0].opcode)
    # Only threads 32 to 39 of block 1 have an element, as there are 40.
    np.testing.assert_array_equal(loads[0].active, np.arange(32) < 8)
    assert steps[0].active.all()
    np.testing.assert_array_equal(stepper.arrays["out"][32:40], 3 * a[32:40])
    assert not stepper.arrays["out"][:32].any()
    assert not stepper.arrays["out"][40:].any()
    assert not out.any()  # the caller's array is unchanged
    assert stepper.step() is None


def test_stepping_gives_the_result_of_a_launch(monkeypatch):
    """The stepper executes all instructions and reports all events, in the order of a trace."""
    monkeypatch.setenv("COALESCE_COUNT_PTX", "1")  # steps execute the PTX
    x = np.arange(64, dtype=np.int32)
    kernel = coalesce.Kernel(REVERSE)
    trace = kernel.trace(1, 64, x, np.zeros(64, np.int32))
    stepper = kernel.step(1, 64, x, np.zeros(64, np.int32), optimized=True)
    count = kernel.launch(1, 64, x, np.zeros(64, np.int32), counts=True, device="sim").counts
    steps = 0
    events = []
    for step in stepper:
        steps += 1
        events += [
            (e.warp, e.step, e.line, e.kind, e.mask, e.addresses.tolist()) for e in step.events
        ]
    want = [(e.warp, e.step, e.line, e.kind, e.mask, e.addresses.tolist()) for e in trace]
    assert sorted(events) == sorted(want)
    assert stepper.steps == steps == count.table()["executed"].sum()
    np.testing.assert_array_equal(stepper.arrays["out"], x[::-1])


def test_registers():
    stepper, a, _ = scale(of_block=1, optimized=True)
    for step in stepper:
        if step.opcode.startswith("ld.global"):
            (name,) = [
                n
                for n, v in step.registers.items()
                if v.dtype == np.float32 and np.array_equal(v.compressed(), a[32:40])
            ]
            assert name.startswith("%")
            np.testing.assert_array_equal(
                np.ma.getmaskarray(step.registers[name]), np.arange(32) >= 8
            )
        if step.opcode.startswith("setp"):
            predicates = [v for v in step.registers.values() if v.dtype == bool]
            assert len(predicates) == 1
            assert predicates[0].sum() in (8, 24)  # the compiler may test the opposite condition
    assert stepper.registers == {}


def test_variables():
    stepper, a, _ = scale(of_block=1)
    assert stepper.run_to(5)
    variables = stepper.variables
    assert (variables["n"] == 40).all()
    assert (variables["factor"] == 3).all()
    np.testing.assert_array_equal(variables["i"].compressed(), np.arange(32, 40))
    np.testing.assert_array_equal(variables["x"].compressed(), a[32:40])
    assert variables["x"].dtype == np.float32
    assert variables["x"].count() == 8
    assert "out" not in variables


@pytest.mark.parametrize(
    ("body", "shown"),
    [
        ("float m[2][2] = {{1, 2}, {3, float(n)}}; m[0][1] += 1;", {"m": [[1, 3], [3, 3]]}),
        ("Pair pair = {1, 2.0f}; int x = pair.first; double d = pair.second;", {"x": 1, "d": 2}),
    ],
)
def test_variables_have_the_values_of_the_source(body, shown):
    """All statements of `body` are done when the stepper comes to the next line.

    test_stepped_kernels.py has the other statements.
    """
    source = f"""struct Pair {{ int first; float second; }};
    __global__ void k(int *a, int *b, int n) {{
        int i = threadIdx.x;
        {body}
        a[i] = 1;
    }}"""
    a, b = np.arange(32, dtype=np.int32) + 100, np.arange(32, dtype=np.int32) + 900
    with coalesce.Kernel(source, "k", device="sim").step(1, 32, a, b, 3) as stepper:
        assert stepper.run_to(source[: source.index("a[i] = 1")].count("\n") + 1)
        variables = stepper.variables
    for name, value in {"n": 3, "i": 5, **shown}.items():
        assert variables[name][5].tolist() == value, name


def test_optimized_instructions_have_no_variables():
    stepper, _, _ = scale(optimized=True)
    assert any(step.opcode == "ld.global.f32" for step in stepper)
    stepper, _, _ = scale(optimized=True)
    assert all(step.variables == {} for step in stepper)


def test_registers_of_inactive_lanes_are_masked():
    source = """extern "C" __global__ void k(const int *x, int *out, int odd_or_even) {
        int i = threadIdx.x;
        if (i % 2) {
            int odd = x[i] * 7;
            atomicAdd(out + odd, 1);
        } else {
            int even = x[i] * 5;
            atomicMax(out + even, odd_or_even);
        }
    }"""
    x = np.arange(32, dtype=np.int32)
    stepper = coalesce.Kernel(source).step(1, 32, x, np.zeros(7 * 32, np.int32), 2)
    seen = {}
    for step in stepper:
        for name in ("odd", "even"):
            if name in step.variables:
                seen[name] = step.variables[name]
    odd, even = seen["odd"], seen["even"]
    np.testing.assert_array_equal(odd.compressed(), 7 * x[1::2])
    np.testing.assert_array_equal(even.compressed(), 5 * x[::2])
    np.testing.assert_array_equal(np.ma.getmaskarray(odd), ~np.ma.getmaskarray(even))


@pytest.mark.parametrize("block", [(0, 0), (1, 0), (2, 1)])
def test_tile_phases(block):
    """After each phase the shared tiles equal those of a and b."""
    n, tile = 12, 4
    stepper, a, b = tiled(n, tile, block)
    rows = slice(block[1] * tile, (block[1] + 1) * tile)
    cols = slice(block[0] * tile, (block[0] + 1) * tile)
    frames = {}
    for phase in range(n // tile):
        assert not stepper.done
        assert stepper.next_barrier()  # the tiles are loaded
        inner = slice(phase * tile, (phase + 1) * tile)
        shared = stepper.shared
        assert shared["a_tile"].count() == tile * tile
        np.testing.assert_array_equal(shared["a_tile"], a[rows, inner])
        np.testing.assert_array_equal(shared["b_tile"], b[inner, cols])
        assert shared["a_tile"].dtype == np.float32
        loads = stepper.events.select(space="global")
        a_loaded = loads.select(array="a").index
        want = {r * n + c for r in range(n)[rows] for c in range(n)[inner]}
        assert set(a_loaded[a_loaded >= 0].tolist()) == want
        cells = [(r, c) for r in range(tile) for c in range(tile)]
        frames[f"phase {phase}"] = [
            draw.Matrix(
                name, (tile, tile), cells, [f"{v:g}" for v in shared[name].flat], memory="shared"
            )
            for name in ("a_tile", "b_tile")
        ]
        assert stepper.next_barrier()  # the tiles were used
        assert stepper.barriers == 2 * (phase + 1)
    assert not stepper.next_barrier()
    assert stepper.done
    np.testing.assert_array_equal(stepper.arrays["out"][rows, cols], (a @ b)[rows, cols])
    picture = draw.matrices(frames, title="tiles")
    assert all(f"phase {p}" in picture.svg for p in range(3))


def test_unwritten_shared_memory_is_masked():
    stepper = reverse()
    assert stepper.shared["s"].count() == 0
    assert stepper.shared["s"].shape == (64,)
    counts = [step.shared["s"].count() for step in stepper if step.events.select(space="shared")]
    assert counts[:3] == [32, 64, 64]


def test_dynamic_shared_memory_and_other_types():
    source = """extern "C" __global__ void k(float *x) {
        extern __shared__ double sums[];
        __shared__ float2 pairs[3][4];
        __shared__ unsigned char flags[8];
        int i = threadIdx.x;
        sums[i] = x[i];
        if (i < 12) pairs[i / 4][i % 4] = make_float2(i, -i);
        if (i < 4) flags[i] = 200 + i;
        __syncthreads();
        x[i] = sums[31 - i] + pairs[1][i % 4].y + flags[i % 4];
    }"""
    x = np.arange(32, dtype=np.float32)
    stepper = coalesce.Kernel(source).step(1, 32, x, shared_bytes=8 * 32)
    assert stepper.next_barrier()
    shared = stepper.shared
    np.testing.assert_array_equal(shared["sums"], x.astype(float))
    assert shared["sums"].dtype == float
    assert shared["pairs"].shape == (3, 4, 2)
    np.testing.assert_array_equal(shared["pairs"][..., 1], -np.arange(12).reshape(3, 4))
    assert shared["flags"].dtype == np.uint8
    assert shared["flags"].tolist() == [200, 201, 202, 203, None, None, None, None]


def test_asynchronous_copies_arrive_when_they_are_waited_for():
    source = """#include <cuda_pipeline.h>
    extern "C" __global__ void k(const int *x, int *out) {
        __shared__ int s[32];
        __pipeline_memcpy_async(&s[threadIdx.x], &x[threadIdx.x], 4);
        __pipeline_commit();
        out[0] = 1;
        __pipeline_wait_prior(0);
        out[threadIdx.x] = s[31 - threadIdx.x];
    }"""
    x = np.arange(5, 37, dtype=np.int32)
    stepper = coalesce.Kernel(source).step(1, 32, x, np.zeros(32, np.int32))
    assert stepper.run_to(6)
    assert stepper.shared["s"].count() == 0
    stepper.finish()
    np.testing.assert_array_equal(stepper.shared["s"], x)


def test_run_to_a_line_and_over_it():
    stepper = reverse()
    assert stepper.run_to(6)  # it is warp 1, because warp 0 waits for it at the barrier
    assert (stepper.warp, stepper.line, stepper.barriers) == (1, 6, 1)
    assert stepper.text == "    out[i] = s[63 - i];"
    assert stepper.step_line()
    assert stepper.warps[1].state in ("ready", "ended")
    assert stepper.run_to(6, warp=0) or stepper.done
    assert stepper.warp == 0
    assert stepper.arrays["out"][32:].all()
    assert not stepper.arrays["out"][:32].any()
    stepper.finish()
    assert stepper.done
    assert not stepper.run_to(6)
    assert not stepper.step_line()


def test_several_breakpoints():
    stepper = reverse(32 * 2)
    lines = []
    while stepper.run_to([4, 6]):
        lines.append((stepper.warp, stepper.line))
    assert lines[0] == (0, 4)
    assert {(0, 6), (1, 6), (1, 4)} <= set(lines)
    assert len(lines) < 12


def test_a_breakpoint_in_a_loop():
    """The stepper stops in each iteration, even if the loop is on one line."""
    source = """extern "C" __global__ void k(float *x, int n) {
        float v = x[threadIdx.x];
        #pragma unroll 1
        for (int j = 0; j < n; ++j) v = v * v + 1;
        x[threadIdx.x] = v;
    }"""
    stepper = coalesce.Kernel(source).step(1, 32, np.zeros(32, np.float32), 5)
    rounds = 0
    while stepper.run_to(4):
        rounds += 1
    assert 5 <= rounds <= 7
    assert stepper.done


def test_a_chosen_warp():
    stepper = reverse()
    assert [p.state for p in stepper.warps] == ["ready", "ready"]
    step = stepper.step(warp=1)
    assert step.warp == stepper.warp == 1
    stepper.warp = 0
    assert all(stepper.step().warp == 0 for _ in range(3))
    while stepper.step(warp=0) is not None:
        pass
    assert stepper.warps[0].state == "barrier"
    assert "bar" in stepper.warps[0].instruction
    assert stepper.warps[0].line == 5
    assert stepper.step().warp == 1  # the other warp continues
    np.testing.assert_array_equal(stepper.thread[:, 0], np.arange(32, 64))
    stepper.finish()
    assert [p.state for p in stepper.warps] == ["ended", "ended"]


def test_only_the_last_step_has_registers():
    stepper, *_ = scale()
    first = stepper.step()
    assert isinstance(first.registers, dict)
    second = stepper.step()
    with pytest.raises(LookupError, match="has continued after step 0"):
        first.registers  # noqa: B018
    assert isinstance(second.registers, dict)


def test_a_fault_leaves_the_stepper_at_its_line():
    stepper, *_ = scale(n=200, of_block=3)
    with pytest.raises(coalesce.MemoryFault, match="past the end of `a`"):
        stepper.finish()
    assert stepper.line == 4
    assert not stepper.done
    assert (stepper.variables["n"] == 200).all()
    with pytest.raises(coalesce.MemoryFault):
        stepper.step()


def test_only_the_block_runs():
    source = """__device__ int total = 5;
    extern "C" __global__ void k(int *x) { x[blockIdx.x] = atomicAdd(&total, 1); }"""
    kernel = coalesce.Kernel(source)
    x = np.zeros(8, np.int32)
    stepper = kernel.step(8, 1, x, of_block=3)
    stepper.finish()
    assert stepper.arrays["x"].tolist() == [0, 0, 0, 5, 0, 0, 0, 0]
    assert kernel.globals["total"] == 5  # the kernel's variables keep their values, too
    assert not x.any()


def test_a_block_that_waits_for_another():
    source = """extern "C" __global__ void k(volatile int *flag) {
        if (blockIdx.x == 0) flag[0] = 1;
        else while (flag[0] == 0) {}
    }"""
    kernel = coalesce.Kernel(source, instruction_limit=100_000)
    stepper = kernel.step(2, 32, np.zeros(1, np.int32), of_block=1)
    with pytest.raises(coalesce.LaunchError, match="stopped after the limit"):
        stepper.finish()


def test_printf(capfd):
    source = """#include <cstdio>
    extern "C" __global__ void k(int *x) { if (threadIdx.x == 3) printf("%d\\n", x[3]); }"""
    coalesce.Kernel(source).step(1, 32, np.arange(32, dtype=np.int32)).finish()
    assert capfd.readouterr().out == "3\n"


def test_ptx_text():
    ptx = coalesce.Kernel(SCALE, device="sim").ptx
    a, out = np.arange(32, dtype=np.float32), np.zeros(32, np.float32)
    stepper = coalesce.Kernel(ptx, "scale").step(1, 32, a, out, np.float32(2), np.int32(32))
    stepper.finish()
    assert stepper.done


def test_an_empty_kernel():
    stepper = coalesce.Kernel(".version 8.0\n.target sm_90\n.entry k { }", "k").step(2, 40)
    assert stepper.done
    assert stepper.step() is None
    assert "ended" in repr(stepper)


def test_a_closed_stepper_frees_its_memory():
    """Closing works half-way through: with and without `with`, after an exception, after break."""
    with reverse() as stepper:
        stepper.step()
    with pytest.raises(ValueError, match="closed"):
        stepper.step()
    assert "closed" in repr(stepper)
    threads = threading.active_count()
    x = np.arange(64, dtype=np.int32)
    for step in reverse(x=x):
        if step.number == 5:
            break
    session = weakref.ref(step._stepper)
    del step
    gc.collect()
    assert session() is None
    assert threading.active_count() == threads


def test_interrupt():
    """Ctrl-C ends an endless command, and the stepper is still usable."""
    source = (
        """extern "C" __global__ void forever(volatile int *a) { while (a[0] == 0); a[1] = 1; }"""
    )
    kernel = coalesce.Kernel(source, instruction_limit=10**15)
    stepper = kernel.step(1, 64, np.zeros(2, np.int32))
    timer = threading.Timer(0.3, _thread.interrupt_main)
    timer.start()
    start = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        stepper.finish()
    assert time.monotonic() - start < 30
    timer.join()
    assert stepper.step().text.startswith("extern")


def test_two_threads_do_not_step_at_once():
    source = """extern "C" __global__ void k(volatile int *a) {
        for (int i = 0; i < 300000; ++i) a[1] = i;
    }"""
    stepper = coalesce.Kernel(source).step(1, 32, np.zeros(2, np.int32))
    errors = []

    def run():
        try:
            stepper.finish()
        except coalesce.LaunchError as error:
            errors.append(str(error))

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert stepper.done
    assert all("another thread" in e for e in errors)


def test_events_are_capped():
    stepper, *_ = scale(limit=1, optimized=True)
    stepper.finish()
    assert len(stepper.events) == 1
    assert stepper.events.omitted == 1
    assert "1 more omitted" in repr(stepper.events)


def test_mistakes():
    a, out = np.zeros((2, 8), np.float32)
    kernel = coalesce.Kernel(SCALE)
    with pytest.raises(ValueError, match=r"there is no block \(4, 0, 0\) in a grid of 4"):
        kernel.step(4, 32, a, out, 1.0, 8, of_block=(4,))
    with pytest.raises(TypeError, match="4 arguments"):
        kernel.step(4, 32, a)
    with pytest.raises(coalesce.LaunchError, match="1024"):
        kernel.step(1, 2048, a, out, 1.0, 8)
    stepper = kernel.step(1, 32, a, out, 1.0, 8)
    with pytest.raises(ValueError, match=r"line 77 has no instructions of scale; .*4, 5"):
        stepper.run_to(77)
    with pytest.raises(
        ValueError, match="there is no warp 1; the block's only warp has the number 0"
    ):
        stepper.step(warp=1)
    with pytest.raises(TypeError, match="`line` must be an int"):
        stepper.run_to("4")
    assert "line" in repr(stepper)


TURNED = """
extern "C" __global__ void reverse(const float* x, float* out) {
    __shared__ float tile[64];
    int t = threadIdx.x;
    tile[t] = x[t];BARRIER
    out[t] = tile[63 - t];
}"""


@pytest.mark.parametrize(("barrier", "wrong"), [("", 1), (" __syncthreads();", 0)])
def test_a_block_plays(barrier, wrong):
    x, out = np.arange(64, dtype=np.float32), np.zeros(64, np.float32)
    kernel = coalesce.Kernel(TURNED.replace("BARRIER", barrier))
    frames = kernel.step(1, 64, x, out).play().frames
    assert len(frames) == 4  # a store and a load of each warp
    assert sum("loaded, but not stored yet" in f.text for f in frames.values()) == wrong
    first = frames["1"].text
    assert first.startswith("warp 0, line 5\ntile[t] = x[t];")
    titles = sorted(f.text.partition("\n")[0] for f in frames.values())
    assert titles == [f"warp {warp}, line {line}" for warp in (0, 1) for line in (5, 6)]
    assert "|" + 32 * "+" + "|\n  |" + 32 * "?" + "|" in first
    assert len(kernel.step(1, 64, x, out).play(2).frames) == 2
    with pytest.raises(ValueError, match="did not access shared memory"):
        coalesce.Kernel(SCALE).step(1, 32, x, out, 1.0, 8).play()
