"""Launches a kernel on a GPU: copies NumPy arrays to the GPU and back, and chooses the stream.

The copies and the kernel run on the stream that the caller passed. If the caller passed no stream,
the stream depends on where the GPU arrays come from:

- from one library, such as PyTorch: the current stream of the library;
- from libraries with different current streams: the default stream.

Arrays that share memory on the host also share memory on the GPU. Most calls with only GPU arrays
and scalars take a faster way (csrc/bindings/launcher.hpp).

If an argument is a view such as ``x[r:]``, the kernel may access all of `x`, so all of `x` is
copied to the GPU. After the kernel, the view is copied back. In the rest of `x`, only the bytes
that the kernel has changed are copied back. If all bytes were copied back, two threads that launch
kernels on different views of `x` would overwrite each other's results.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from coalesce._core import cuda
from coalesce.arrays.copies import byte_view
from coalesce.arrays.foreign import LEGACY_STREAM
from coalesce.arrays.gpu_array import GpuArray
from coalesce.arrays.waiting import until_done
from coalesce.common.errors import LaunchError
from coalesce.launch.arguments import Argument, HostArray
from coalesce.launch.gpu_textures import TextureObjects
from coalesce.launch.record import LaunchRecord
from coalesce.launch.structures import PackedStructure
from coalesce.launch.tensor_map import TensorMap

if TYPE_CHECKING:
    from typing_extensions import Self

    from coalesce.launch.launch import Launch

# For arrays of at least this number of bytes, the operating system provides the memory for the
# result while the kernel runs (`prefault`). For smaller arrays, this saves no time.
_PREFAULT_FROM = 8 << 20


def run(
    launch: Launch, runs: int | Literal["auto"] | None, write_only: Sequence[str]
) -> LaunchRecord:
    """Launch a kernel on a GPU, and return its times.

    If an argument is a NumPy array, this function waits for the kernel, and copies the results to
    the array. `runs` is the number of timed runs (None for an untimed launch). For `write_only`,
    see `coalesce.Kernel.launch`.
    """
    gpu = cuda.Device(launch.device.ordinal)
    _refuse_other_gpus(launch)
    function = admitted(launch)
    arguments, hosts = launch.arguments, launch.host_arrays
    if launch.stream is None:
        stream, foreign = _common_stream(gpu, arguments, bool(hosts))
    else:
        stream, foreign = launch.stream, False
        ours = _join(gpu, arguments, bool(hosts), stream)

    def wait() -> None:
        try:
            until_done(gpu, stream, f"kernel `{launch.kernel.name}`")
        except KeyboardInterrupt:  # the kernel still runs and uses its memory
            if launch.stream is not None and ours:
                gpu.order(stream, 0)
            raise

    if hosts:
        until_done(gpu, stream)  # the copy itself would wait, too, but would ignore Ctrl-C
    with _Staged(gpu, hosts) as staged:
        if runs is not None:
            gpu.prepare_staging()
        started = time.perf_counter()
        staged.send(set(write_only), stream)
        if runs is not None:
            gpu.synchronize(stream)
        h2d_ms = 1e3 * (time.perf_counter() - started)

        values = values_of(launch, staged)
        step = (function, launch, values, stream)
        kernel_ms, spread, done = 0.0, 0.0, 0
        cuda.launch(*step)
        staged.textures.read_back(stream)
        if runs is not None:
            # The first launch has computed the result. The kernel is now launched again to time it,
            # and this may change the arrays. So the result is saved here and restored afterwards.
            saved = _SavedArrays(gpu, launch, staged, stream)
            wait()
            kernel_ms, spread, done = cuda.time(*step, 0 if runs == "auto" else runs)
            saved.restore()

        written = [h for h in hosts if h.written and h.array.size]
        for host in written:
            if host.array.nbytes >= _PREFAULT_FROM:
                gpu.prefault(byte_view(host.array))
        if runs is not None or hosts:
            wait()
        started = time.perf_counter()
        staged.fetch(written, stream)
        for host in written:
            host.finish()
    d2h_ms = 1e3 * (time.perf_counter() - started)
    if foreign:
        gpu.synchronize(stream)
    if launch.stream is not None and ours:
        gpu.order(stream, 0)
    timed_copies = runs is not None and bool(hosts)
    return LaunchRecord(
        kernel_ms,
        spread,
        done,
        h2d_ms if timed_copies else 0.0,
        d2h_ms if timed_copies else 0.0,
        "measured",
        launch.device.name,
    )


def admitted(launch: Launch) -> Any:
    """Check that the GPU can run the launch. Return the kernel, loaded on the GPU.

    On a GPU, grid.sync() in an ordinary launch stops the kernel with an error (a trap). After a
    trap, all arrays on this GPU are lost.
    """
    kernel = launch.kernel
    if not launch.cooperative and kernel.module.waits_for_the_grid(launch.device, kernel.entry):
        raise LaunchError(
            f"{kernel.name}: grid.sync() needs a cooperative launch: "
            "kernel.launch(grid, block, ..., cooperative=True)"
        )
    function = launch.function
    cuda.admit(function, launch)
    return function


def _refuse_other_gpus(launch: Launch) -> None:
    """Raise ValueError for an array in the memory of another GPU."""
    device = launch.device
    for parameter, argument in zip(launch.parameters, launch.arguments, strict=True):
        if isinstance(argument, GpuArray) and argument.ordinal != device.ordinal:
            raise ValueError(
                f"argument {parameter} is on cuda:{argument.ordinal}, but the kernel runs on "
                f"{device.name}; copy the array to {device.name}, or pass "
                f'device="cuda:{argument.ordinal}"'
            )


def _common_stream(gpu: Any, arguments: Sequence[Argument], with_hosts: bool) -> tuple[int, bool]:
    """Return the stream to launch on, and whether to wait for it afterwards.

    For NumPy arrays and `DeviceArray`, this is the default stream. For an array of another library,
    it is that library's stream. If the arrays have different streams, the host waits here for all
    of them, and the kernel runs on the default stream.
    """
    arrays = [a for a in arguments if isinstance(a, GpuArray)]
    streams = {0 if a.stream == LEGACY_STREAM else a.stream for a in arrays if a.stream is not None}
    ours = with_hosts or any(type(a.owner).__name__ == "DeviceArray" for a in arrays)
    if ours:
        streams.add(0)
    if len(streams) <= 1:
        return (streams.pop() if streams else 0), False
    for stream in streams:
        until_done(gpu, stream)
    return 0, True


def _join(gpu: Any, arguments: Sequence[Argument], with_hosts: bool, stream: int) -> bool:
    """Make `stream` wait for the pending work on the arrays.

    Return whether the launch uses memory of this package. If it does, the default stream must wait
    for the launch, because later work on this memory runs on the default stream. For arrays of
    other libraries, the user must make later work wait, as these libraries require.
    """
    arrays = [a for a in arguments if isinstance(a, GpuArray)]
    ours = with_hosts or any(type(a.owner).__name__ == "DeviceArray" for a in arrays)
    pending = {0 if a.stream == LEGACY_STREAM else a.stream for a in arrays if a.stream}
    for other in (pending | {0} if ours else pending) - {stream}:
        gpu.order(other, stream)
    return ours


class _Staged:
    """Device memory for the NumPy arrays of a launch, and its texture and surface objects.

    Arrays that overlap on the host overlap in the same way in device memory. Use this class in a
    ``with`` statement: at its end, the texture and surface objects are destroyed.
    """

    def __init__(self, gpu: Any, hosts: Sequence[HostArray]) -> None:
        self._gpu = gpu
        self._addresses: dict[int, int] = {}
        self._groups: list[list[HostArray]] = []
        self._memories: list[Any] = []
        self._gaps = _gaps(hosts)
        rest = sorted(hosts, key=lambda host: _start(host.array))
        while rest:
            first, group = _start(rest[0].array), [rest.pop(0)]
            end = first + group[0].array.nbytes
            while rest and _start(rest[0].array) < end:
                end = max(end, _start(rest[0].array) + rest[0].array.nbytes)
                group.append(rest.pop(0))
            host = group[0]
            what = f"argument `{host.name}` of shape {host.original.shape}"
            if host.view_bytes is not None:
                what = f"argument `{host.name}`, a view of an array of shape {host.original.shape}"
            memory = gpu.allocate(end - first, what)
            self._memories.append(memory)
            self._groups.append(group)
            for host in group:
                self._addresses[id(host)] = memory.address + _start(host.array) - first
        # The objects must not refer to `self`: a cycle would keep the device memory.
        addresses = self._addresses
        self.textures = TextureObjects(gpu, self._groups, lambda host: addresses[id(host)])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.textures.finish(kind)

    def send(self, skip: set[str], stream: int) -> None:
        """Copy the arrays to the GPU.

        `skip` has the names of parameters. Their arrays are not copied, with two exceptions: an
        array that overlaps another array, and a view of a larger array that the kernel may access.
        """
        for group in self._groups:
            sent = 0  # everything before this address of the host has been copied
            for host in group:
                end = _start(host.array) + host.array.nbytes
                gaps = self._gaps.get(_memory(host), [])
                skipped = len(group) == 1 and host.name in skip and host.view_bytes is None
                needed = end > sent or any(gap.before.size == 0 for gap in gaps)
                if needed and host.array.size and not skipped:
                    for gap in gaps:
                        gap.before = byte_view(host.array)[gap.part].copy()
                        self._gpu.to_device(self.address(host) + gap.part.start, gap.before, stream)
                    for part in _between(gaps, host.array.nbytes):
                        source = byte_view(host.array)[part]
                        self._gpu.to_device(self.address(host) + part.start, source, stream)
                    sent = end
        self.textures.create(stream)

    def fetch(self, written: Sequence[HostArray], stream: int) -> None:
        """Copy the arrays that the kernel may have changed back to the host."""
        for host in {_memory(host): host for host in written}.values():
            array, address = byte_view(host.array), self.address(host)
            gaps = self._gaps.get(_memory(host), [])
            for part in _between(gaps, array.nbytes):
                self._gpu.to_host(array[part], address + part.start, stream)
            for gap in gaps:
                after = np.empty_like(gap.before)
                self._gpu.to_host(after, address + gap.part.start, stream)
                changed = after != gap.before
                if changed.any():
                    np.copyto(array[gap.part], after, where=changed)

    def address(self, host: HostArray) -> int:
        return self._addresses[id(host)]

    def value(self, host: HostArray) -> int:
        """Return the value of a parameter: an address, or the handle of an object."""
        if host.texture is not None:
            return self.textures.handle(host)
        return self.address(host) + host.offset


@dataclass
class _Gap:
    """A part of an array that the kernel may access, outside the views that it may write to."""

    part: slice
    before: np.ndarray[Any, Any]  # the bytes that were copied to the GPU


def _gaps(hosts: Sequence[HostArray]) -> dict[tuple[int, int], list[_Gap]]:
    """Return the gaps of each array that the kernel may write to, in the order of their bytes.

    The keys of the dict are the results of `_memory`.
    """
    gaps: dict[tuple[int, int], list[_Gap]] = {}
    nothing = np.empty(0, np.uint8)
    for memory in {_memory(host) for host in hosts if host.written}:
        views = [host.part for host in hosts if host.written and _memory(host) == memory]
        end, found = 0, []
        for view in sorted(views, key=lambda part: part.start):
            if view.start > end:
                found.append(_Gap(slice(end, view.start), nothing))
            end = max(end, view.stop)
        if memory[1] > end:
            found.append(_Gap(slice(end, memory[1]), nothing))
        gaps[memory] = found
    return gaps


def _between(gaps: Sequence[_Gap], size: int) -> list[slice]:
    """Return the parts of an array of `size` bytes that are in no gap."""
    starts = [0, *(gap.part.stop for gap in gaps)]
    ends = [*(gap.part.start for gap in gaps), size]
    return [slice(a, b) for a, b in zip(starts, ends, strict=True) if a < b]


class _SavedArrays:
    """Copies of the arrays that a kernel writes, taken now and restored later."""

    def __init__(self, gpu: Any, launch: Launch, staged: _Staged, stream: int) -> None:
        self._gpu, self._stream = gpu, stream
        self._copies = []
        for parameter, argument in zip(launch.parameters, launch.arguments, strict=True):
            if isinstance(argument, bytes | TensorMap | PackedStructure) or parameter.const:
                continue
            if isinstance(argument, HostArray):
                if argument.texture is not None:
                    continue  # the kernel does not write to the linear memory
                address, size = staged.address(argument), argument.array.nbytes
            else:
                address, size = argument.address, argument.bytes
            if size:
                memory = gpu.allocate(size, f"a copy of `{parameter.name}` while timing")
                gpu.copy(memory.address, address, size, stream)
                self._copies.append((memory, address, size))

    def restore(self) -> None:
        for memory, address, size in self._copies:
            self._gpu.copy(address, memory.address, size, self._stream)


def values_of(launch: Launch, staged: _Staged | None = None) -> list[bytes]:
    """Return the bytes that the kernel gets for each parameter.

    `staged` has the addresses on the GPU to which the NumPy arrays were copied. It may be None if
    no argument is a NumPy array.
    """
    # the arrays behind pointers in structures follow
    parameters = len(launch.kernel.signature.parameters)
    return [_value_of(argument, launch, staged) for argument in launch.arguments[:parameters]]


# This function is not nested in values_of(). A nested function that calls itself is in a cycle of
# references, which would keep the memory of `staged` until the garbage collector runs.
def _value_of(argument: Argument, launch: Launch, staged: _Staged | None) -> bytes:
    if isinstance(argument, bytes):
        return argument
    if isinstance(argument, TensorMap):
        names = [parameter.name for parameter in launch.kernel.signature.parameters]
        matrix = _value_of(launch.arguments[names.index(argument.of)], launch, staged)
        return argument.encoded(int.from_bytes(matrix, "little"))
    if isinstance(argument, PackedStructure):
        pointers = (n for _, n in argument.pointers)
        return argument.filled(
            {n: _value_of(launch.arguments[n], launch, staged) for n in pointers}
        )
    if isinstance(argument, HostArray):
        assert staged is not None
        return staged.value(argument).to_bytes(8, "little")
    return argument.address.to_bytes(8, "little")


def _memory(host: HostArray) -> tuple[int, int]:
    """Return the address and the size of the memory on the host that the kernel may access."""
    return _start(host.array), host.array.nbytes


def _start(array: np.ndarray[Any, Any]) -> int:
    return int(array.__array_interface__["data"][0])
