"""A single warp without a kernel: the transactions of its addresses, its threads in a block."""

import doctest

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import coalesce
from coalesce.errors import LaunchError

LANES = np.arange(32)


@pytest.mark.parametrize(
    ("addresses", "itemsize", "sectors", "lines", "efficiency"),
    [
        (4 * LANES, 4, 4, 1, 1),
        (4 * LANES + 4, 4, 5, 2, 0.8),
        (8 * LANES, 4, 8, 2, 0.5),
        (4 * LANES[::-1], 4, 4, 1, 1),
        (np.full(32, 64), 4, 1, 1, 0.125),
        (16 * LANES, 16, 16, 4, 1),
        (2048 * LANES, 4, 32, 32, 0.125),
        (np.append(4 * LANES[:31], 1 << 40), 4, 5, 2, 0.8),
        (LANES, 1, 1, 1, 1),
    ],
)
def test_transactions(addresses, itemsize, sectors, lines, efficiency):
    access = coalesce.transactions(addresses, itemsize)
    assert (access.requests, access.sectors, access.lines) == (1, sectors, lines)
    assert access.efficiency == efficiency
    assert access.sectors_per_request == sectors
    assert access.bytes_moved == 32 * sectors


@given(
    st.lists(st.integers(0, 1 << 14), min_size=1, max_size=32),
    st.sampled_from([1, 2, 4, 8, 16]),
    st.integers(1, (1 << 32) - 1),
)
def test_a_kernel_counts_the_same(elements, itemsize, bits):
    """The simulator counts the same for a kernel with these addresses."""
    mask = bits % (1 << len(elements))
    access = coalesce.transactions([itemsize * e for e in elements], itemsize, mask)
    touched = {
        (itemsize * e + byte) // 32
        for lane, e in enumerate(elements)
        if mask >> lane & 1
        for byte in range(itemsize)
    }
    assert access.sectors == len(touched)
    assert access.lines == len({sector // 4 for sector in touched})
    assert access.requests == (mask != 0)


def test_as_the_simulator_counts(random):
    index = random.integers(0, 4096, 4096).astype(np.int32)
    x = np.zeros(4096, np.float32)
    p = coalesce.profile("access", x, pattern="gather", index=index)
    access = coalesce.transactions(4 * index.astype(np.int64))
    (load,) = [a for a in p.accesses() if a.name == "load x"]
    assert (access.requests, access.sectors) == (load.requests, load.sectors)
    assert access.ideal_sectors == load.ideal


def test_masks_warps_and_wavefronts():
    assert coalesce.transactions(4 * LANES, mask=0xFF).sectors == 1
    assert coalesce.transactions(4 * LANES, mask=LANES < 16).sectors == 2
    nothing = coalesce.transactions(4 * LANES, mask=0)
    assert (nothing.requests, nothing.sectors, nothing.efficiency) == (0, 0, 0)
    assert nothing.pattern is None
    several = coalesce.transactions(4 * np.arange(100))
    assert (several.requests, several.sectors) == (4, 13)
    wide = coalesce.transactions(4 * np.arange(64), warp_size=64)
    assert (wide.requests, wide.sectors, wide.lines) == (1, 8, 2)
    assert wide.picture().svg.startswith("<svg")


def test_text_and_headline():
    access = coalesce.transactions(2048 * LANES)
    assert access.pattern.kind == "stride"
    assert str(access).startswith("1 request, 32 sectors in 32 lines, 12.5% of the bytes used.")
    assert "32 lanes" in access.picture().headline


def test_threads():
    assert coalesce.thread_index(5, 64) == 5
    assert coalesce.thread_index((1, 2, 3), (4, 5, 6)) == 1 + 4 * (2 + 5 * 3)
    np.testing.assert_array_equal(coalesce.thread_index([[0, 1], [3, 2]], (4, 4)), [4, 11])
    assert coalesce.thread_index((1, 2, 3), np.array([4, 5, 6])) == 69
    assert coalesce.warp_of_thread((3, 5, 0), (16, 16)) == (2, 19)
    assert coalesce.warp_of_thread((3, 5), (16, 16), warp_size=64) == (1, 19)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: coalesce.transactions([0], mask=2), ValueError, "only for lanes 0 to 0"),
        (lambda: coalesce.transactions([0], mask=[1, 2]), ValueError, "1 bools"),
        (lambda: coalesce.transactions([0], warp_size=16), ValueError, "32 or 64"),
        (lambda: coalesce.thread_index((4, 0), (4, 4)), ValueError, "no thread"),
        (lambda: coalesce.thread_index((0, 0), (32, 33)), LaunchError, "32 x 33 = 1056 threads"),
        (lambda: coalesce.warp_of_thread(0, 4, warp_size=0), ValueError, "32 or 64"),
    ],
)
def test_mistakes(call, error, message):
    with pytest.raises(error, match=message):
        call()


@pytest.mark.parametrize("name", ["transactions", "thread_index", "warp_of_thread"])
def test_examples(name):
    names = {"coalesce": coalesce, "np": np}
    finder = doctest.DocTestFinder(recurse=False)
    (examples,) = finder.find(getattr(coalesce, name), name, globs=names)
    assert examples.examples
    assert doctest.DocTestRunner().run(examples).failed == 0


def test_a_broadcast_does_not_read_as_waste():
    text = str(coalesce.transactions([64] * 32, 4))
    assert text == "1 request, 1 sector in 1 line. All lanes access the same address: a broadcast."
