"""Measures how long calls take: with CUDA events on a GPU, or with the host's clock."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from typing import Any, Literal

from coalesce._core import cuda
from coalesce.arrays.devices import Device
from coalesce.benchmarking.rounds import Batch, Times

L2 = Literal["kept", "flushed"]
Repeats = int | Literal["auto"]
# Enqueues work on a stream of a GPU. The argument is the handle of the stream.
Call = Callable[[int], Any]

# The bytes that are written to flush L2. No GPU has so large an L2 yet.
FLUSHED_BYTES = 256 << 20
# With repeats="auto", a run takes about this time, but has at most this number of repeats.
RUN_MS, MOST_REPEATS = 10.0, 100


class GpuClock:
    """Measures how long calls take, with CUDA events on the default stream of a GPU."""

    def __init__(self, device: Device, l2: L2) -> None:
        self._l2 = l2
        self._ordinal = device.ordinal
        self._device = cuda.Device(device.ordinal)
        self._buffer = self._device.allocate(FLUSHED_BYTES, "the memory that flushes L2")

    def batch(
        self, calls: Sequence[Call], repeats: Repeats = 1, *, graph: bool = True
    ) -> tuple[Batch, int]:
        """Return a function that measures `calls`, and the number of repeats in each of its runs.

        For example, ``times, number = clock.batch(calls)`` returns the function `times`. Then
        ``times(10)`` makes 10 runs and returns their times. Each run repeats the calls `number`
        times, and the time of the run is divided by `number`. The argument `repeats` is the wanted
        number of repeats, or "auto".

        If `graph` is true, a CUDA graph repeats the calls. Otherwise, the host repeats them.
        """
        count = repeats if repeats != "auto" else self._repeats(calls)
        if count == 1:
            return partial(self.runs, calls), 1

        def every(stream: int) -> None:
            for _ in range(count):
                for call in calls:
                    call(stream)

        run = self._recorded(every) if graph else every
        return lambda runs: [(ms / count,) for (ms,) in self.runs([run], runs)], count

    def _repeats(self, calls: Sequence[Call]) -> int:
        """Measure the time of one call, and return how often a run must repeat `calls`."""
        (once,) = self.runs(calls, 1)
        return max(1, min(MOST_REPEATS, round(RUN_MS / max(sum(once), 1e-3))))

    def _recorded(self, call: Call) -> Call:
        """Return a function that launches a CUDA graph of the work of `call`."""
        graph = cuda.Graph(self._ordinal)
        call(graph.stream)
        graph.finish()

        def launch(stream: int) -> None:
            _ = call  # its arrays must live as long as the graph
            graph.launch(stream)

        return launch

    def runs(self, calls: Sequence[Call], count: int) -> list[Times]:
        """Make `count` runs of `calls`. Return the times of the calls in each run.

        The host first queues a write of a large buffer, which removes older data from L2. While the
        GPU writes this buffer, the host queues all runs. So the GPU does not wait for the host
        while it runs the calls. At the end, the host waits for all runs.
        """
        size = len(calls) + 1
        events = cuda.Events(self._ordinal, count * size)
        self._device.synchronize()
        if self._l2 == "kept":
            self._flush()
            self._flush()
            for call in calls:  # its reads and writes fill L2
                call(0)
        for first in range(0, count * size, size):
            if self._l2 == "flushed":
                self._flush()
            events.record(first)
            for event, call in enumerate(calls, first + 1):
                call(0)
                events.record(event)
        events.wait(count * size - 1)
        return [
            tuple(events.between(a, b) for a, b in pairwise(range(first, first + size)))
            for first in range(0, count * size, size)
        ]

    def _flush(self) -> None:
        self._device.fill(self._buffer.address, 0, FLUSHED_BYTES)


def host_runs(
    call: Callable[[], Any],
    count: int,
    calls: int = 1,
    synchronize: Callable[[], Any] | None = None,
) -> list[Times]:
    """Make `count` runs. Return the time per call for each run, measured with the host's clock.

    In each run, the function `call` is called `calls` times. The last result of a run is freed
    after the clock has stopped.

    If the calls only enqueue work on a GPU, `synchronize` is a function that waits for this work.
    Then each run first makes one more call and waits for it, before the clock starts. After the
    clock has stopped, the run waits for the timed calls. The time does not include this wait.
    """
    times: list[Times] = []
    for _ in range(count):
        if synchronize is not None:
            call()
            synchronize()
        start = time.perf_counter()
        for _ in range(calls):
            result = call()
        passed = time.perf_counter() - start
        del result
        if synchronize is not None:
            synchronize()
        times.append((1e3 * passed / calls,))
    return times
