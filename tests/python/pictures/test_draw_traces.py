"""Pictures of traces show the events that the simulator recorded."""

import xml.etree.ElementTree as ET

import numpy as np
import pytest

import coalesce
from coalesce import draw

pytestmark = pytest.mark.usefixtures("on_simulator")


def touched(picture):
    """Return the (row, column) of the touched cells of each matrix, in the order drawn."""
    result = {}
    for element in ET.fromstring(picture.svg).iter():
        if "data-touched" in element.attrib:
            cell = int(element.get("data-row")), int(element.get("data-col"))
            result.setdefault(element.get("data-touched"), []).append(cell)
    return result


def matmul(variant, n=64, **options):
    a, b = (np.ones((n, n), np.float32) for _ in range(2))
    return coalesce.trace("matmul", a, b, variant=variant, blocks=0, warps=0, **options)


def test_the_steps_of_a_loop():
    picture = draw.steps(matmul("naive"), range(2), label="k = {}")
    assert touched(picture) == {
        "a": [(lane, k) for k in (0, 1) for lane in range(32)],
        "b": [(0, 0), (1, 0)],
        "out": [(lane, 0) for lane in range(32)],
    }
    assert picture.headline == "A warp at one step: 32 sectors of a, 1 sector of b"
    for label in ("k = 0", "k = 1", "afterwards", "naive"):
        assert f">{label}</text>" in picture.svg


def test_tiles_have_the_shapes_they_are_given():
    trace = matmul("tiled", tile=8)
    trace = trace[(trace.space == "global") | (trace.kind == "store")]
    picture = draw.steps(trace, [1], shapes={"a_tile": (8, 8), "b_tile": (8, 8)}, cells="thread")
    rows = [(y, x) for y in range(4) for x in range(8)]
    assert touched(picture) == {
        "a": [(y, 8 + x) for y, x in rows],
        "b": [(8 + y, x) for y, x in rows],
        "a_tile": rows,
        "b_tile": rows,
        "out": rows,
    }
    assert ">3,7</text>" in picture.svg


def test_an_access_outside_loops_makes_one_frame():
    x = np.ones(256, np.float32)
    trace = coalesce.trace("access", x, pattern="permuted", blocks=0, warps=0)
    picture = draw.steps(trace)
    assert touched(picture) == {
        "x": [(0, 31 - lane) for lane in range(32)],
        "out": [(0, lane) for lane in range(32)],
    }
    assert "step" not in picture.headline.replace("one step", "")


def test_a_wide_load_touches_several_cells():
    x = np.ones(1024, np.float32)
    trace = coalesce.trace("access", x, pattern="vector", width=16, blocks=0, warps=0)
    cells = touched(draw.steps(trace.select(kind="store")))
    assert cells["out"][:8] == [(0, col) for col in range(8)]


def test_inactive_lanes_touch_nothing():
    x = np.ones(40, np.float32)
    trace = coalesce.trace("access", x, pattern="offset", offset=0, blocks=0, warps=1)
    picture = draw.steps(trace.select(array="out"))
    assert touched(picture) == {"out": [(0, col) for col in range(32, 40)]}
    assert draw.event(trace).headline.startswith("8 of 32 lanes, 4-byte loads → 1 sector")


def test_an_event_of_global_memory():
    picture = draw.event(matmul("naive").select(array="a"), 5)
    assert picture.headline.startswith("32 lanes, 4-byte loads → 32 sectors in 32 lines")
    assert "naive, line 28: ld.global.nc.f32 of block (0, 0, 0), warp 0" in picture.svg
    assert ">a[0]</text>" in picture.svg


def test_an_event_of_shared_memory():
    a = np.ones((32, 32), np.float32)
    trace = coalesce.trace("transpose", a, variant="tiled", blocks=0, warps=0)
    store, load = (draw.event(trace.select(space="shared", kind=k)) for k in ("store", "load"))
    assert store.headline == "32 lanes, 4-byte stores → 1 wavefront, no bank conflict"
    assert load.headline == "32 lanes, 4-byte loads → 32 wavefronts, a 32-way bank conflict"


def test_atomics_are_labelled():
    source = """extern "C" __global__ void k(int* x) { atomicAdd(&x[threadIdx.x % 4], 1); }"""
    kernel = coalesce.Kernel(source, "k", device="sim")
    picture = draw.event(kernel.trace(1, 32, np.zeros(4, np.int32)))
    assert picture.headline == (
        "32 lanes, 4-byte atomics → 8 sectors in 1 line, because lanes access the same element"
    )


def test_local_memory_has_no_picture():
    source = """
    extern "C" __global__ void k(int* x, int n) {
        int mine[64];
        for (int i = 0; i < 64; ++i) mine[i ^ n] = x[i];
        x[threadIdx.x] = mine[threadIdx.x];
    }"""
    kernel = coalesce.Kernel(source, "k", device="sim")
    trace = kernel.trace(1, 32, np.zeros(64, np.int32), np.int32(1)).select(space="local")
    with pytest.raises(ValueError, match="event 0 accesses local memory"):
        draw.event(trace)
    with pytest.raises(ValueError, match="the arrays that its events access are not known"):
        draw.steps(trace)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"numbers": []}, "at least one step"),
        ({"numbers": [-1]}, "`numbers` must be at least 0; got -1"),
        ({"numbers": [64, 99]}, r"has the steps 0 to 63; .* got \[64, 99\]"),
        ({"cells": "row"}, "`cells` must be 'lane' or 'thread'; got 'row'"),
        ({"shapes": {"tile": (8, 8)}}, "`shapes` has the key 'tile', but the trace has no"),
        ({"shapes": {"a": (8, 9)}}, r"a shape of 72 elements, but the array a has 4,096"),
    ],
)
def test_bad_input_is_named(options, message):
    with pytest.raises(ValueError, match=message):
        draw.steps(matmul("naive"), **options)


def test_several_warps_are_too_many():
    a = np.ones((64, 64), np.float32)
    trace = coalesce.trace("matmul", a, a, variant="naive", blocks=0)
    with pytest.raises(ValueError, match=r"one warp; it has 32; select one: trace\.select"):
        draw.steps(trace)
    with pytest.raises(ValueError, match=r"one warp; it has 0$"):
        draw.steps(trace[:0])
    with pytest.raises(ValueError, match="no event"):
        draw.event(trace[:0])
    with pytest.raises(ValueError, match=r"`number` must be from -\d+ to \d+; got 100000"):
        draw.event(trace, 100_000)
