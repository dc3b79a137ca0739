"""Accesses grouped into wavefronts of 64 lanes."""

from pathlib import Path

import numpy as np
import pytest

import coalesce
from coalesce.cli import main

SOURCE = """
#include <hip/hip_runtime.h>
__global__ void k(const float* x, float* y, volatile double* z, int stride) {
    __shared__ float s[128];
    int i = hipBlockIdx_x * hipBlockDim_x + hipThreadIdx_x;
    s[hipThreadIdx_x] = x[i * stride];
    __syncthreads();
    if (hipThreadIdx_x < 40) y[i] = s[hipThreadIdx_x];
    #pragma unroll 1
    for (int n = 0; n < hipThreadIdx_x / 32 + 1; ++n) z[0] = n;
}
"""


def trace(stride: int = 1, **options: object) -> coalesce.Trace:
    x, y, z = np.zeros(256 * stride, np.float32), np.zeros(256, np.float32), np.zeros(1)
    return coalesce.Kernel(SOURCE).trace(2, 128, x, y, z, stride, **options)


def by_array(wavefronts: coalesce.Wavefronts) -> dict[str, coalesce.WavefrontAccess]:
    return {row.array: row for row in wavefronts}


@pytest.mark.parametrize(("stride", "bytes_", "lines"), [
    (1, 64, 4), (1, 128, 2), (2, 64, 8), (4, 128, 8), (64, 64, 64), (64, 128, 64),
])  # fmt: skip
def test_cache_lines_of_a_wavefront(stride: int, bytes_: int, lines: int) -> None:
    row = by_array(trace(stride).wavefronts(line_bytes=bytes_))["x"]
    assert (row.kind, row.requests, row.lines_per_request) == ("load", 4, lines)
    assert row.needed == 4 * 256 // bytes_


def test_inactive_lanes_and_loops() -> None:
    rows = by_array(trace().wavefronts())
    # 40 of 64 lanes store 160 bytes: three lines. The other wavefront of a block stores nothing.
    assert (rows["y"].requests, rows["y"].cache_lines, rows["y"].needed) == (2, 6, 6)
    # The warps of a block have 1, 2, 3 and 4 iterations. So do its wavefronts: 2 and 4.
    assert (rows["z"].requests, rows["z"].cache_lines) == (2 * (2 + 4), 2 * (2 + 4))
    assert "s" not in rows  # shared memory
    # An oracle that looks at each event.
    events = trace().select(array="y")
    oracle = {
        (tuple(event.block), event.warp // 2, int(address) // 64)
        for event in events
        for lane, address in enumerate(event.addresses)
        if event.mask >> lane & 1
    }
    assert rows["y"].cache_lines == len(oracle)


def test_warps_of_32_lanes_equal_the_profile() -> None:
    """With 32 lanes and lines of 32 bytes, the counts are the sectors of a profile."""
    x, y, z = np.zeros(768, np.float32), np.zeros(256, np.float32), np.zeros(1)
    kernel = coalesce.Kernel(SOURCE)
    profile = kernel.profile(2, 128, x, y, z, 3)
    rows = kernel.trace(2, 128, x, y, z, 3).wavefronts(32, 32)
    loads = sum(row.cache_lines for row in rows if row.kind == "load")
    assert loads == profile.metrics()["l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum"]


def test_the_table_says_what_it_is() -> None:
    text = " ".join(repr(trace(limit=5).wavefronts(line_bytes=128)).split())
    assert "Derived for wavefronts of 64 lanes and cache lines of 128 bytes" in text
    assert "not measured, not exact" in text
    assert "The trace left out" in text


def test_sizes() -> None:
    with pytest.raises(ValueError, match="`lanes` must be 32 or 64; got 16"):
        trace().wavefronts(16)
    with pytest.raises(ValueError, match="`line_bytes` must be 32, 64, 128 or 256; got 48"):
        trace().wavefronts(line_bytes=48)


def test_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "k.hip.cu"
    file.write_text(SOURCE)
    launch = ["--grid", "2", "--block", "128", "f32:256", "f32:256", "zeros:1:f64", "1"]
    assert main(["explain", str(file), "--wavefront", "64", *launch]) == 0
    out = capsys.readouterr().out
    assert "load x" in out
    assert "Derived for wavefronts of 64 lanes" in out
    assert main(["explain", "matmul", "--wavefront", "64"]) != 0
    assert "--wavefront needs a kernel of a .cu or .ptx file" in capsys.readouterr().err
