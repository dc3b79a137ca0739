"""The sectors of the copy engine (TMA), which a profile counts.

`test_hardware_counters.py` compares them with recorded counters. Here, they are compared with a
second computation, also for forms of copies for which no counters were recorded. The counts of
these copies are not called exact.
"""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import tensor_map_cases
from counter_cases import hopper
from tensor_map_cases import ELEMENTS, Copy, simulated

import coalesce
from coalesce.profiling.hardware import exactness

pytestmark = pytest.mark.usefixtures("machine_code")

READ = "l1tex__m_xbar2l1tex_read_sectors_mem_global_op_tma_ld.sum"
WRITTEN = "l1tex__m_l1tex2xbar_write_sectors_mem_global_op_tma_st.sum"
PLAIN = Copy((64, 64), (256,), (32, 32), (32, 4))

COPIES = """
__device__ unsigned at(const void* p) { return unsigned(__cvta_generic_to_shared(p)); }
extern "C" __global__ void copies(const float* x, float* out, int first, int bytes) {
    __shared__ __align__(128) float s[1024];
    __shared__ unsigned long long full;
    const int t = threadIdx.x;
    if (t == 0) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(at(&full)) : "memory");
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(at(&full)),
                     "r"(bytes) : "memory");
        asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], "
                     "[%1], %2, [%3];" ::"r"(at(s)), "l"(x + first), "r"(bytes), "r"(at(&full))
                     : "memory");
    }
    __syncthreads();
    for (unsigned done = 0; !done;)
        asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], 0; "
                     "selp.u32 %0, 1, 0, p; }" : "=r"(done) : "r"(at(&full)) : "memory");
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    if (t == 0) {
        asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(
                     out + first), "r"(at(s)), "r"(bytes) : "memory");
        asm volatile("cp.async.bulk.commit_group;" ::: "memory");
        asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
    }
}
"""


@pytest.fixture
def kernel() -> coalesce.Kernel:
    return coalesce.Kernel(COPIES, "copies", device="sim", arch="sm_90a")


def profiled(kernel: coalesce.Kernel, first: int, size: int) -> Any:
    x = np.arange(1024, dtype=np.float32)
    out = np.zeros_like(x)
    p = kernel.profile(1, 32, x, out, first, size, caches=False)
    np.testing.assert_array_equal(out[first : first + size // 4], x[first : first + size // 4])
    return p


@pytest.mark.parametrize("of_ptx", [False, True])
@pytest.mark.parametrize(
    ("first", "size", "sectors", "lines"),
    [
        (0, 1024, 32, True),
        (32, 128, 4, True),
        (0, 32, 1, False),  # whole sectors, but not whole lines
        (8, 96, 3, False),
        (4, 16, 1, False),
        (4, 48, 2, False),  # the second half of a sector, and a whole one
        (4, 128, 5, False),
    ],
)
def test_bulk_copies_transfer_each_sector_that_they_touch(
    kernel: coalesce.Kernel, monkeypatch: pytest.MonkeyPatch, of_ptx: bool, first: int, size: int,
    sectors: int, lines: bool,
) -> None:  # fmt: skip
    if of_ptx:
        monkeypatch.setenv("COALESCE_COUNT_PTX", "1")
    p = profiled(kernel, first, size)
    m = p.metrics()
    assert m[READ] == m[WRITTEN] == sectors
    assert m[READ.replace("sectors", "bytes")] == 32 * sectors
    assert m["smsp__inst_executed_op_tma_ld.sum"] == 1
    assert m["l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum"] == 0
    load, store = (a for a in p.accesses() if a.kind.startswith("tma_"))
    assert of_ptx or len(p.accesses()) == 2  # machine instructions on mbarriers are not counted
    assert (load.name, store.name) == ("TMA load x", "TMA store out")
    assert [load.requests, load.sectors, load.ideal] == [1, sectors, -(-size // 32)]
    assert load.bytes_used == store.bytes_used == size
    if not of_ptx:
        assert READ in p.exact
        # Only copies of whole lines to global memory were recorded.
        assert (WRITTEN in p.exact) == lines
        assert p.inexact.get(WRITTEN, "") == ("" if lines else exactness.UNRECORDED_COPY)


def test_a_report_shows_copies_and_says_what_was_not_recorded(kernel: coalesce.Kernel) -> None:
    text = " ".join(str(profiled(kernel, 0, 1024)).split())
    assert "Global memory: 32 sectors per TMA copy, as few as possible." in text
    assert "global TMA load 1 32 sectors 32 32 100%" in text
    assert "TMA store out 1 x 32 sectors" in text
    assert "counted and exact." in text
    text = " ".join(str(profiled(kernel, 4, 128)).replace("│", "").split())
    assert "Global memory takes 1.2 times the sectors it needs" in text
    assert "of the excess comes from the TMA load of x in line" in text
    assert "A bulk copy, or a row of a box, begins or ends inside a 32-byte sector." in text
    assert f"A GPU may count copies by the TMA differently: {exactness.UNRECORDED_COPY}." in text


def rows(case: Copy) -> list[tuple[int, int, int, int]]:
    """Return four numbers for each row of a box.

    They are the first byte and the size of the part inside the array, and the sizes of the parts
    before and after it. If the whole row is outside, the size of the part inside is 0.
    """
    item = ELEMENTS[case.element][1]
    steps = (1, *(case.steps or (1,) * len(case.box))[1:])
    counts = [-(-b // s) for b, s in zip(case.box[1:], steps[1:], strict=True)]
    left, right = max(case.at[0], 0), min(case.at[0] + case.box[0], case.extents[0])
    before, size, after = left - case.at[0], right - left, case.at[0] + case.box[0] - right
    copies = []
    for index in np.ndindex(*counts[::-1]):
        x = [a + i * s for a, i, s in zip(case.at[1:], index[::-1], steps[1:], strict=True)]
        inside = all(0 <= v < e for v, e in zip(x, case.extents[1:], strict=True))
        if inside and size > 0:
            at = left * item + sum(v * s for v, s in zip(x, case.strides, strict=True))
            copies.append((at, size * item, before * item, after * item))
        else:
            copies.append((0, 0, case.box[0] * item, 0))
    return copies


BOXES = [
    (PLAIN, True),
    (replace(PLAIN, stores=True), True),
    (replace(PLAIN, at=(32, 50)), True),  # 18 rows are outside
    (replace(PLAIN, at=(36, 4)), True),  # rows begin inside a line, and end outside the array
    (replace(PLAIN, box=(16, 32)), True),  # rows of half a line
    (replace(PLAIN, swizzle=3), True),
    (replace(PLAIN, steps=(1, 2)), True),
    (Copy((40, 30), (160,), (16, 8), (4, 3)), True),
    (Copy((60, 20), (128,), (32, 6), (56, 16), "uint16", stores=True), True),
    (Copy((20, 9, 7), (80, 800), (8, 4, 3), (12, 7, -1)), True),
    (Copy((20, 9, 7), (80, 800), (8, 4, 3), (12, 7, 1), stores=True), False),
    (Copy((200,), (), (256,), (-32,), "uint8"), False),  # outside on both sides
]


@pytest.mark.parametrize(("case", "exact"), BOXES, ids=[case.name for case, _ in BOXES])
def test_boxes_transfer_each_sector_of_their_rows(case: Copy, exact: bool) -> None:
    _, record = tensor_map_cases.launched(case, 0, "sim", simulated, counts=True)
    metrics = record.counts.metrics()
    inexact = exactness.inexact(record.counts.table(), metrics)
    sectors = 0
    for at, size, before, after in rows(case):
        if size:
            sectors += (at + size - 1) // 32 - at // 32 + 1
        if not case.stores:  # zeros
            sectors += -(-before // 32) - (-after // 32)
    assert metrics[WRITTEN if case.stores else READ] == sectors
    assert metrics[READ if case.stores else WRITTEN] == 0
    assert ((WRITTEN if case.stores else READ) not in inexact) == exact


def test_a_multicast_delivers_the_sectors_to_each_block() -> None:
    (case,) = (case for case in hopper.cases() if case.name == "share_boxes")
    counts = case.run("sim", counts=True)[-1][1].counts
    metrics, table = counts.metrics(), counts.table()
    # Two clusters of two blocks. In each, one block requests 32 lines for both.
    assert metrics[READ.replace(".sum", "_dest_multicast.sum")] == 2 * 2 * 128
    assert metrics[READ.replace(".sum", "_dest_self.sum")] == 0
    requests = "l1tex__m_l1tex2xbar_read_requests_mem_global_op_tma_ld_dest_multicast.sum"
    assert metrics[requests] == 2 * 32
    assert table["bytes"][table["kind"] == "tma_load"].sum() == 2 * 2 * 4096


@pytest.mark.parametrize(
    "dependent", ["cp.async.bulk.global.shared::cta", "cp.async.bulk.commit_group"]
)
def test_the_number_of_copies_may_depend_on_a_wait(dependent: str) -> None:
    test = """
    unsigned ready;
    asm volatile("{ .reg .pred p; mbarrier.test_wait.parity.shared::cta.b64 p, [%1], 0; "
                 "selp.u32 %0, 1, 0, p; }" : "=r"(ready) : "r"(at(&full)) : "memory");
    if (t == 0"""
    before, after = COPIES.rsplit("if (t == 0", 1)
    source = f"{before}{test}{after}".replace(
        f'asm volatile("{dependent}', f'if (ready) asm volatile("{dependent}'
    )
    kernel = coalesce.Kernel(source, "copies", device="sim", arch="sm_90a")
    p = profiled(kernel, 0, 1024)
    assert p.inexact["sm__inst_executed_pipe_tma.sum"] == exactness.AFTER_WAITS
    assert p.inexact[WRITTEN] == exactness.AFTER_WAITS
