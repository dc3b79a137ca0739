"""Traces for Accel-Sim: every executed instruction, with the addresses that the kernel accesses.

`read` follows Accel-Sim's parser (gpu-simulator/trace-parser/trace_parser.cc of release 2.0).
"""

from pathlib import Path

import numpy as np
import pytest

import coalesce

SOURCE = r"""
#include <cuda_pipeline.h>
__global__ void copied(float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[n - 1 - i] = x[i];
}
__global__ void counted(float* x, float* y, int n) {
    __shared__ int s[8];
    if (threadIdx.x < 8) s[threadIdx.x] = 0;
    __syncthreads();
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) atomicAdd(&s[i * i % 8], 1);
    __syncthreads();
    if (threadIdx.x < 8) atomicAdd(&y[threadIdx.x], float(s[threadIdx.x]));
}
__global__ void indexed(float* x, float* y, int n) {
    float a[16];
    for (int i = 0; i < 16; ++i) a[i] = x[i];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = a[int(x[i]) & 15];
}
__global__ void fetched(float* x, float* y, int n) {
    __shared__ float4 s[64];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n / 4) __pipeline_memcpy_async(&s[threadIdx.x], (float4*)x + i, 16);
    __pipeline_commit();
    __pipeline_wait_prior(0);
    __syncthreads();
    if (i < n / 4) y[i] = s[threadIdx.x].z;
}
"""


def read(trace: str) -> list[tuple[str, int, list[int]]]:
    """Return the opcode, the mask and the addresses of each instruction of a .traceg file."""
    result = []
    announced = 0
    for line in trace.partition("#traces format")[2].splitlines()[1:]:
        words = line.split()
        if line.startswith("insts = "):
            announced += int(words[2])
        if len(words) < 5 or words[0] == "thread":
            continue
        mask, rest = int(words[1], 16), words[2:]
        rest = rest[1 + int(rest[0]) :]
        opcode, rest = rest[0], rest[1:]
        rest = rest[1 + int(rest[0]) :]
        width, rest = int(rest[0]), rest[1:]
        lanes = [lane for lane in range(32) if mask >> lane & 1]
        addresses = []
        if width and rest[0] == "1":
            first, stride = int(rest[1], 16), int(rest[2])
            assert lanes == list(range(lanes[0], lanes[-1] + 1))
            addresses = [first + stride * (lane - lanes[0]) for lane in lanes]
            rest = rest[3:]
        elif width:
            assert rest[0] == "0"
            addresses = [int(word, 16) for word in rest[1 : 1 + len(lanes)]]
            rest = rest[1 + len(lanes) :]
        assert len(rest) == 1  # the immediate
        result.append((opcode, mask, addresses))
    assert len(result) == announced
    return result


@pytest.mark.parametrize("entry", ["copied", "counted", "indexed", "fetched"])
def test_every_instruction_is_written(entry: str, tmp_path: Path) -> None:
    kernel = coalesce.Kernel(SOURCE, entry)
    arrays = np.arange(100, dtype=np.float32), np.zeros(100, np.float32)
    listed = kernel.write_trace(tmp_path / "trace", 2, 64, *arrays, 100)
    instructions = read((listed.parent / "kernel-1.traceg").read_text())
    profile = kernel.profile(2, 64, arrays[0], np.zeros(100, np.float32), 100)
    assert len(instructions) == profile.metrics()["smsp__inst_executed.sum"]
    assert arrays[1].any()  # the launch has run
    expected = [i for i in profile.instructions() if i.space not in ("", "constant")]
    accessed = sum(len(addresses) for _, _, addresses in instructions)
    # An asynchronous copy has a row for global and one for shared memory; its trace has one.
    rows = [i for i in expected if i.kind != "async_copy" or i.space == "global"]
    assert accessed == sum(i.accesses for i in rows)
    places = [line.split(",") for line in listed.read_text().splitlines()[:2]]
    base, size = (int(text, 0) for text in places[0][1:])
    loads = [a for opcode, _, found in instructions if opcode.startswith("LDG") for a in found]
    assert size == 400
    assert all(base <= address < base + size for address in loads)


def test_a_trace_is_not_overwritten(tmp_path: Path) -> None:
    kernel = coalesce.Kernel(SOURCE, "copied")
    x = np.zeros(4, np.float32)
    kernel.write_trace(tmp_path, 1, 32, x, x.copy(), 4)
    with pytest.raises(FileExistsError, match="`folder` already has a trace"):
        kernel.write_trace(str(tmp_path), 1, 32, x, x.copy(), 4)


def test_copies_by_the_copy_engine_are_refused(tmp_path: Path) -> None:
    kernel = coalesce.Kernel(r"""
    __global__ void stores(float* x) {
        __shared__ alignas(16) float s[32];
        unsigned from = __cvta_generic_to_shared(s);
        asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], 128;"
                     :: "l"(x), "r"(from) : "memory");
        asm volatile("cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;");
    }""")
    with pytest.raises(coalesce.LaunchError, match=r"copy engine \(TMA\), which stores executes"):
        kernel.write_trace(tmp_path, 1, 1, np.zeros(32, np.float32))


def test_code_that_is_executed_as_ptx_is_refused(tmp_path: Path) -> None:
    kernel = coalesce.Kernel(SOURCE, "copied")
    x = np.zeros(4, np.float32)
    with pytest.raises(coalesce.LaunchError, match=r"needs machine code: .*sm_80"):
        kernel.write_trace(tmp_path, 1, 32, x, x.copy(), 4, device="sim:a100")
    assert not list(tmp_path.iterdir())
