"""Defines `Trace`: the memory instructions that warps executed, in order, as NumPy arrays."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import partial
from typing import Any, NamedTuple, overload

import numpy as np

from coalesce._core import sim
from coalesce.common import require
from coalesce.common.forks import cached_property
from coalesce.common.words import plural
from coalesce.render import tables
from coalesce.simulate import wavefronts

Array = np.ndarray[Any, Any]
# Returns the instructions of a kernel, as `Counts.table()` does.
Table = Callable[[], Mapping[str, Array]]

WARP_SIZE = 32

# The dtype of a variable whose element type is not known. Its shape is the number of bytes.
BYTES = "V1"


class TraceArray(NamedTuple):
    """An array that a kernel accesses: an argument, or a variable such as a `__shared__` array.

    Attributes
    ----------
    name : str
        The name of the parameter or variable.
    shape : tuple of int
        The extents of the array. For a `__shared__` variable, they are read from its declaration in
        the source. For other variables, the shape is the number of elements.
    dtype : str
        NumPy's name of the element type, such as "float32". For vectors such as float4, it is "V16"
        (16 bytes). For variables whose declaration is not known, the dtype is an unsigned integer
        with the size of the smallest recorded access.
    space : {"global", "constant", "shared"}
        The kind of memory.
    address : int
        The address of the first byte. In shared memory, addresses count from the start of the
        block's shared memory.
    parameter : int
        The index of the kernel's parameter. -1 for a variable.

    Examples
    --------
    >>> array = coalesce.trace("matmul", a, b, variant="naive").arrays[0]
    >>> array.element(array.address + 4 * 17)  # the rows have 8 elements
    'a[2, 1]'
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    space: str = "global"
    address: int = 0
    parameter: int = -1

    @property
    def nbytes(self) -> int:
        """The size of the array in bytes."""
        return int(np.prod(self.shape, dtype=np.int64)) * np.dtype(self.dtype).itemsize

    def element(self, address: int) -> str:
        """Return the name of the element at an address.

        Parameters
        ----------
        address : int
            An address inside the array.

        Returns
        -------
        str
            A name such as ``"a[3, 17]"``. An element of a `__shared__` variable has a name in C++
            notation, such as ``"tile[3][17]"``. If the address is not the first byte of an element,
            the name also has the offset: ``"a[3, 17] + 2 bytes"``.
        """
        itemsize = np.dtype(self.dtype).itemsize
        offset = address - self.address
        text = self.name
        if self.shape:
            variable = self.space == "shared"
            text = sim.element_name(self.name, self.shape, itemsize, offset, variable)
        byte = offset % itemsize
        return f"{text} + {byte} bytes" if byte else text


@dataclass(frozen=True, eq=False)
class TraceEvent:
    """One event of a `Trace`: one execution of a memory instruction by a warp.

    `Trace` describes the fields. In the arrays with an item for each lane, inactive lanes have
    address 0 and index -1.

    Examples
    --------
    >>> event = coalesce.trace("matmul", a, b, variant="naive")[0]
    >>> event.kind, event.space, event.width, bin(event.mask)
    ('load', 'global', 4, '0b11111111')
    """

    block: tuple[int, int, int]
    warp: int
    step: int
    execution: int
    instruction: int
    line: int
    opcode: str
    kind: str
    space: str
    width: int
    mask: int
    addresses: Array
    array: int
    index: Array


COLUMNS = tuple(field.name for field in fields(TraceEvent))


class Trace:
    """The memory instructions that warps executed.

    Each execution of a memory instruction by a warp is an event. The attributes are arrays with a
    row for each of the n events. Events are sorted by block, then by warp, then by time.

    ``trace[i]`` is event i. ``trace[2:5]`` and ``trace[trace.width == 4]`` are traces of some of
    the events. `select` returns the events of a line, an array or a warp.

    Attributes
    ----------
    block : ndarray of shape (n, 3), int32
        The block: blockIdx.x, blockIdx.y and blockIdx.z.
    warp : ndarray of shape (n,), int32
        The index of the warp in its block.
    step : ndarray of shape (n,), int64
        How many memory instructions the warp executed before this event. -1 if this is not known,
        as for some events that a profile keeps as examples.
    execution : ndarray of shape (n,), int64
        How often the warp executed the same instruction before this event. In a loop, this is the
        index of the iteration.
    instruction : ndarray of shape (n,), int32
        The index of the PTX instruction: the index of its row in ``Counts.table()``.
    line : ndarray of shape (n,), int32
        The line of the CUDA source. 0 if it is not known.
    opcode : ndarray of shape (n,), str
        The PTX instruction's name, such as ``"ld.global.f32"``.
    kind : ndarray of shape (n,), str
        ``"load"``, ``"store"``, ``"atomic"``, ``"reduction"`` or ``"async_copy"``. An asynchronous
        copy has two events, one in global and one in shared memory.
    space : ndarray of shape (n,), str
        ``"global"``, ``"shared"``, ``"local"`` or ``"constant"``.
    width : ndarray of shape (n,), int32
        How many bytes each lane accesses.
    mask : ndarray of shape (n,), uint32
        The active lanes: bit i is set if lane i is active.
    addresses : ndarray of shape (n, 32), uint64
        The address of each lane. 0 for inactive lanes. In shared memory, addresses count from the
        start of the block's shared memory. In local memory, they count from the start of the
        thread's local memory.
    array : ndarray of shape (n,), int32
        The index in `arrays` of the array that the first active lane accesses. -1 if this lane
        accesses memory outside of these arrays.
    index : ndarray of shape (n, 32), int64
        The index of the element that each lane accesses in the array of the event. Elements are
        numbered in C order. -1 for inactive lanes, and for lanes that access other memory.
    active : ndarray of shape (n, 32), bool
        Whether each lane is active. (This is `mask` as an array.)
    thread : ndarray of shape (n, 32, 3), int32
        The threadIdx (x, y, z) of each lane, also of inactive lanes.
    arrays : list of TraceArray
        The arrays and variables that the kernel may access.
    kernel : str
        The name of the kernel.
    grid, block_shape : tuple of int
        The number of blocks in the grid and of threads in a block, as (x, y, z).
    omitted : int
        How many events were left out, because a trace keeps at most `limit` events (see
        `coalesce.trace`).

    Examples
    --------
    >>> trace = coalesce.trace("matmul", a, b, variant="naive")
    >>> len(trace.select(kind="store"))  # one store of each of the 8 warps
    8
    """

    def __init__(
        self,
        columns: dict[str, Any],
        table: Table,
        *,
        kernel: str,
        grid: tuple[int, int, int],
        block_shape: tuple[int, int, int],
        arrays: Iterable[TraceArray] = (),
        omitted: int = 0,
    ) -> None:
        """Take the events: `columns` has an array for each of their attributes.

        `table` returns the instructions of the kernel, as ``Counts.table()`` does. It is called
        when they are needed.
        """
        self.kernel = kernel
        self.grid = grid
        self.block_shape = block_shape
        self._memory = list(arrays)
        self.omitted = omitted
        self._columns = columns
        self._table = table
        self.block: Array = columns["block"]
        self.warp: Array = columns["warp"]
        self.step: Array = columns["step"]
        self.execution: Array = columns["execution"]
        self.instruction: Array = columns["instruction"]
        self.width: Array = columns["width"]
        self.mask: Array = columns["mask"]
        self.addresses: Array = columns["addresses"]

    @cached_property
    def _instructions(self) -> dict[str, Array]:
        table = self._table()
        return {name: table[name] for name in ("line", "opcode", "parameter")}

    def __getstate__(self) -> dict[str, Any]:
        instructions = self._instructions  # `_table` may be a function that cannot be pickled
        return {**self.__dict__, "_table": partial(dict, instructions)}

    @cached_property
    def line(self) -> Array:
        """For each event, the line of the CUDA source. 0 if it is not known."""
        return self._instructions["line"][self.instruction]

    @cached_property
    def opcode(self) -> Array:
        """For each event, the name of the PTX instruction, such as "ld.global.f32"."""
        return self._instructions["opcode"][self.instruction]

    @cached_property
    def kind(self) -> Array:
        """For each event, its kind, such as "load" or "store"."""
        kinds: Array = np.array(sim.KINDS)[self._columns["kind"]]
        return kinds

    @cached_property
    def space(self) -> Array:
        """For each event, the memory: "global", "shared", "local" or "constant"."""
        spaces: Array = np.array(sim.SPACES)[self._columns["space"]]
        return spaces

    @cached_property
    def active(self) -> Array:
        """For each event, which of the 32 lanes are active: a bool for each lane."""
        return lanes_of(self.mask)

    @cached_property
    def thread(self) -> Array:
        """For each event, the threadIdx (x, y, z) of each of the 32 lanes."""
        linear = self.warp[:, None] * np.int32(WARP_SIZE) + np.arange(WARP_SIZE, dtype=np.int32)
        x, y, _ = self.block_shape
        return np.stack([linear % x, linear // x % y, linear // (x * y)], axis=-1)

    @cached_property
    def arrays(self) -> list[TraceArray]:
        """The arrays and variables that the kernel may access.

        If the element type of a variable is not known, its elements are unsigned integers of the
        size of the accesses.
        """
        arrays = list(self._memory)
        for number, array in enumerate(arrays):
            if array.parameter >= 0 or array.dtype != BYTES:
                continue
            (bytes_,) = array.shape
            widths = self.width[self.array == number]
            size = min(int(widths.min()), 8) if widths.size else 1
            while bytes_ % size:
                size //= 2
            arrays[number] = array._replace(dtype=f"uint{8 * size}", shape=(bytes_ // size,))
        return arrays

    @cached_property
    def array(self) -> Array:
        """For each event, the index in `arrays` of the array that the first active lane accesses.

        The index is -1 if this lane accesses memory outside of these arrays.
        """
        first = np.argmax(self.active, axis=1)
        return np.take_along_axis(self._array_of_lanes, first[:, None], axis=1)[:, 0]

    @cached_property
    def index(self) -> Array:
        """For each event, the index of the element that each of the 32 lanes accesses.

        Elements are numbered in C order: in an array of shape (4, 8), element [1, 2] has the
        index 10. The index is -1 for inactive lanes, and for lanes that do not access the array of
        the event.
        """
        index = np.full(self.addresses.shape, -1, np.int64)
        for number in np.unique(self.array[self.array >= 0]):
            accessed = self.arrays[number]
            there = (self.array == number)[:, None] & (self._array_of_lanes == number)
            offset = (self.addresses[there] - np.uint64(accessed.address)).astype(np.int64)
            index[there] = offset // np.dtype(accessed.dtype).itemsize
        return index

    @cached_property
    def _array_of_lanes(self) -> Array:
        """The array that each lane of each event accesses, -1 for none."""
        result = np.full(self.addresses.shape, -1, np.int32)
        shared = self.space == "shared"
        for of_shared in (False, True):
            rows = self.active & (shared == of_shared)[:, None]
            rows &= (self.space != "local")[:, None]
            addresses = self.addresses[rows]
            if addresses.size == 0:
                continue
            numbers = np.full(addresses.shape, -1, np.int32)
            parameter = np.broadcast_to(
                self._instructions["parameter"][self.instruction][:, None], rows.shape
            )[rows]
            # If arrays overlap, take the argument from which the address was computed. If this
            # argument is not known, take the first of the arrays.
            for number, array in reversed(list(enumerate(self._memory))):
                if (array.space == "shared") == of_shared:
                    # For addresses below the array, the offset wraps around to a large number.
                    offset = addresses - np.uint64(array.address)
                    numbers[offset < np.uint64(array.nbytes)] = number
            for number, array in enumerate(self._memory):
                if array.parameter >= 0 and not of_shared:
                    offset = addresses - np.uint64(array.address)
                    numbers[(offset < np.uint64(array.nbytes)) & (parameter == array.parameter)] = (
                        number
                    )
            result[rows] = numbers
        return result

    def element(self, event: int, lane: int) -> str:
        """Return the name of the element that a lane accesses.

        Parameters
        ----------
        event : int
            The index of the event in the trace.
        lane : int
            The lane, from 0 to 31.

        Returns
        -------
        str
            A name such as ``"a[3, 17]"``, or ``"tile[3][17]"`` for a `__shared__` variable. For an
            address outside of all arrays, a text such as ``"global address 0x7f1200"``.

        Raises
        ------
        ValueError
            The lane is inactive in this event.
        """
        event = require.whole("event", event, -len(self), len(self) - 1)
        lane = require.whole("lane", lane, 0, WARP_SIZE - 1)
        if not self.active[event, lane]:
            raise ValueError(f"lane {lane} is not active in event {event}")
        address = int(self.addresses[event, lane])
        number = int(self[event : event + 1]._array_of_lanes[0, lane])
        if number >= 0:
            array: TraceArray = self.arrays[number]
            return array.element(address)
        return f"{self.space[event]} address {address:#x}"

    def select(
        self,
        *,
        line: int | Sequence[int] | None = None,
        kind: str | Sequence[str] | None = None,
        space: str | Sequence[str] | None = None,
        array: str | Sequence[str] | None = None,
        instruction: int | Sequence[int] | None = None,
        warp: int | Sequence[int] | None = None,
        block: tuple[int, ...] | None = None,
        execution: int | Sequence[int] | None = None,
    ) -> Trace:
        """Return some of the events, for example all loads of one warp.

        An event is returned if it matches all arguments that you pass.

        Parameters
        ----------
        line, kind, space, instruction, warp, execution
            The wanted value of the attribute with the same name, or a sequence of wanted values.
        array : str or sequence of str
            The name of an array, or several names.
        block : tuple of int
            The blockIdx of a block: one to three coordinates.

        Returns
        -------
        Trace
            A trace with copies of the events, in the same order. It may be empty.

        Raises
        ------
        ValueError
            There is no array with this name.

        Examples
        --------
        >>> trace.select(kind="load", array="a", warp=0).index[0, :4]
        array([ 0,  8, 16, 24])
        """
        keep = np.ones(len(self), bool)
        columns: list[tuple[str, Any, Callable[[str, Any], Any]]] = [
            ("line", line, require.integer),
            ("kind", kind, partial(require.choice, choices=sim.KINDS)),
            ("space", space, partial(require.choice, choices=sim.SPACES)),
            ("instruction", instruction, require.integer),
            ("warp", warp, require.integer),
            ("execution", execution, require.integer),
        ]
        for name, value, checked in columns:
            if value is not None:
                wanted = [checked(name, one) for one in require.one_or_several(name, value)]
                keep &= np.isin(getattr(self, name), wanted)
        if array is not None:
            names = [require.text("array", n) for n in require.one_or_several("array", array)]
            known = [a.name for a in self.arrays]
            for name in names:
                if name not in known:
                    raise ValueError(
                        f"no array is named {name!r}; the arrays are {', '.join(known)}"
                    )
            keep &= np.isin(self.array, [i for i, name in enumerate(known) if name in names])
        if block is not None:
            index = [require.integer("block", n) for n in require.one_or_several("block", block)]
            if not 1 <= len(index) <= 3:
                raise ValueError(f"`block` must have one to three coordinates; got {block!r}")
            keep &= np.all(self.block.astype(object) == (*index, 0, 0)[:3], axis=1)
        return self[keep]

    def wavefronts(self, lanes: int = 64, line_bytes: int = 64) -> wavefronts.Wavefronts:
        """Estimate how many cache lines the kernel would access on an AMD GPU.

        On AMD GPUs, a group of lanes that execute together is called a wavefront. Most wavefronts
        have 64 lanes. By default, two neighbouring warps are treated as one wavefront. For each
        instruction that accesses global memory, the result has the number of accessed cache lines
        (of AMD's vector L1 cache). This is an estimate: the kernel was compiled for an NVIDIA GPU,
        and the result was not compared with an AMD GPU.

        Parameters
        ----------
        lanes : {64, 32}
            The number of lanes of a wavefront. It is 64 on CDNA, and usually 32 on RDNA.
        line_bytes : {64, 128, 32, 256}
            The size of a cache line. It is 64 on MI200 (CDNA 2), and 128 on MI300 (CDNA 3).

        Returns
        -------
        Wavefronts
            A sequence with a `WavefrontAccess` for each instruction. If you print it, it is a
            table.

        Raises
        ------
        ValueError
            `lanes` or `line_bytes` is not one of the values above.

        Examples
        --------
        >>> trace.wavefronts(line_bytes=128)[0].lines_per_request
        1.0
        """
        some = self[self.space == "global"]
        columns = {name: getattr(some, name) for name in wavefronts.COLUMNS}
        names = [array.name for array in self.arrays]
        return wavefronts.group_into_wavefronts(columns, names, self.omitted, lanes, line_bytes)

    def __len__(self) -> int:
        return len(self.warp)

    @overload
    def __getitem__(self, key: int) -> TraceEvent: ...
    @overload
    def __getitem__(self, key: slice | Array | Sequence[int]) -> Trace: ...
    def __getitem__(self, key: int | slice | Array | Sequence[int]) -> TraceEvent | Trace:
        if isinstance(key, int | np.integer):
            return self._event(int(key))
        return self._like({name: column[key] for name, column in self._columns.items()})

    def __iter__(self) -> Iterator[TraceEvent]:
        return (self._event(i) for i in range(len(self)))

    def _event(self, i: int) -> TraceEvent:
        if not -len(self) <= i < len(self):
            raise IndexError(f"there is no event {i}; the trace has {plural(len(self), 'event')}")
        x, y, z = self.block[i].tolist()
        values = {name: getattr(self, name)[i] for name in COLUMNS}
        plain = {k: v.item() for k, v in values.items() if v.ndim == 0}
        return TraceEvent(**{**values, **plain, "block": (x, y, z)})

    def _like(self, columns: dict[str, Any], omitted: int | None = None) -> Trace:
        """Return other events of the same launch."""
        return Trace(
            columns,
            partial(dict, self._instructions),
            kernel=self.kernel,
            grid=self.grid,
            block_shape=self.block_shape,
            arrays=self.arrays,
            omitted=self.omitted if omitted is None else omitted,
        )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Trace):
            return NotImplemented
        mine, its = ((t.kernel, t.grid, t.block_shape, t.arrays, t.omitted) for t in (self, other))
        return mine == its and all(
            np.array_equal(column, other._columns[name]) for name, column in self._columns.items()
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        warps = len(np.unique(np.column_stack([self.block, self.warp]), axis=0)) if len(self) else 0
        blocks = len(np.unique(self.block, axis=0)) if len(self) else 0
        text = f"<Trace of {self.kernel}: {plural(len(self), 'event')}"
        if warps:
            text += f" of {plural(warps, 'warp')} in {plural(blocks, 'block')}"
        return f"{text}; {self.omitted:,} more omitted>" if self.omitted else f"{text}>"

    def __str__(self) -> str:
        heads = ("block", "warp", "step", "line", "instruction", "lanes", "accesses")
        shown = min(len(self), 20)
        table = tables.as_text(heads, [self._row(i) for i in range(shown)], wrap=("accesses",))
        left = len(self) - shown
        more = [f"... and {plural(left, 'event')} more"] if left else []
        return "\n".join([repr(self)[1:-1], table, *more])

    def _row(self, i: int) -> tuple[str, ...]:
        lanes = np.flatnonzero(self.active[i])
        first, last = (self.element(i, lane) for lane in (lanes[0], lanes[-1]))
        return (
            str(tuple(self.block[i].tolist())),
            str(self.warp[i]),
            str(self.step[i]) if self.step[i] >= 0 else "?",
            str(self.line[i]) if self.line[i] else "?",
            str(self.opcode[i]),
            str(len(lanes)),
            first if first == last else f"{first} ... {last}",
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the trace as a dict that `json.dump` can write.

        Returns
        -------
        dict
            It has the keys ``kernel``, ``grid``, ``block_shape``, ``omitted``, ``arrays`` (a list
            of dicts) and ``events``. ``events`` is a dict of lists. Each list has an item for each
            event.
        """
        return {
            "kernel": self.kernel,
            "grid": list(self.grid),
            "block_shape": list(self.block_shape),
            "omitted": self.omitted,
            "arrays": [{**a._asdict(), "shape": list(a.shape)} for a in self.arrays],
            "events": {name: getattr(self, name).tolist() for name in COLUMNS},
        }

    def to_dataframe(self, *, lanes: bool = False) -> Any:
        """Return the trace as a pandas DataFrame.

        Parameters
        ----------
        lanes : bool
            False: the table has a row for each event. True: it has a row for each active lane of
            each event, with additional columns for the lane, thread, address and index.

        Returns
        -------
        pandas.DataFrame

        Raises
        ------
        ImportError
            pandas is not installed.
        """
        require.flag("lanes", lanes)
        try:
            import pandas as pd
        except ImportError:
            raise ImportError(
                "to_dataframe() needs pandas, which is not installed: pip install pandas"
            ) from None
        names = np.array([*(a.name for a in self.arrays), ""], dtype=object)
        columns: dict[str, Any] = {
            **{f"block_{axis}": self.block[:, d] for d, axis in enumerate("xyz")},
            **{n: getattr(self, n) for n in ("warp", "step", "execution", "instruction", "line")},
            **{n: getattr(self, n) for n in ("opcode", "kind", "space", "width", "mask")},
            "array": names[self.array],
        }
        if not lanes:
            return pd.DataFrame(columns)
        event, lane = np.nonzero(self.active)
        frame = pd.DataFrame({name: column[event] for name, column in columns.items()})
        frame.insert(0, "event", event)
        frame["lane"] = lane
        for d, axis in enumerate("xyz"):
            frame[f"thread_{axis}"] = self.thread[event, lane, d]
        frame["address"] = self.addresses[event, lane]
        frame["index"] = self.index[event, lane]
        return frame


def lanes_of(mask: Any) -> Array:
    """Convert a mask of lanes to 32 booleans. Boolean i is True if bit i of the mask is set.

    For an array of masks, the result is an array with one more axis, of length 32.
    """
    bits = np.asarray(mask, np.uint32)[..., None] >> np.arange(WARP_SIZE, dtype=np.uint32)
    return (bits & 1).astype(bool)
