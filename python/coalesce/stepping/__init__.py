"""Walking through one block of a kernel, instruction by instruction."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import numpy as np

from coalesce._core import sim
from coalesce.common import checks, geometry
from coalesce.common.errors import LaunchError
from coalesce.cxx import declarations, signature
from coalesce.launch.arguments import HostArray
from coalesce.simulate import counting, dependencies
from coalesce.simulate.events import WARP_SIZE, Trace, lanes_of
from coalesce.stepping import names as step_names
from coalesce.stepping import values as step_values

if TYPE_CHECKING:
    from types import TracebackType

    from coalesce.arrays.devices import Device
    from coalesce.launch.kernel import BaseKernel

Array = np.ndarray[Any, Any]
_T = TypeVar("_T")
State = Literal["ready", "barrier", "lanes", "ended"]

# Instructions after which a block that may wait for another, which does not run, is given up.
PATIENCE = 50_000_000


@dataclass(frozen=True)
class Place:
    """Where a warp is.

    Attributes
    ----------
    warp : int
        Of the block.
    state : {"ready", "barrier", "lanes", "ended"}
        Whether it can go on, waits at a barrier, waits for lanes of its own in a warp operation,
        or has ended.
    line : int
        The source line of the instruction that it executes next, or waits at; 0 where that is not
        known.
    text : str
        That line.
    instruction : str
        That PTX instruction; empty where the warp has ended.
    active : ndarray of shape (32,), bool
        The lanes that are there together. Others may be elsewhere.
    """

    warp: int
    state: State
    line: int
    text: str
    instruction: str
    active: Array


@dataclass(frozen=True, eq=False)
class Step:
    """An instruction that a warp has executed.

    Attributes
    ----------
    number : int
        How many instructions the block had executed before.
    warp : int
        Of the block.
    line : int
        Of the CUDA source; 0 where it is not known.
    text : str
        The source line.
    instruction, opcode : str
        The PTX instruction, ``"ld.global.f32 %f1, [%rd4];"``, and its first word.
    active : ndarray of shape (32,), bool
        The lanes that executed it together; the instruction's guard (``@%p1``) may leave some out.
    """

    number: int
    warp: int
    line: int
    text: str
    instruction: str
    opcode: str
    active: Array
    _stepper: Stepper = field(repr=False)

    def _now(self) -> Stepper:
        if self._stepper.steps != self.number + 1:
            raise LookupError(
                f"the block has gone on since step {self.number}: registers and memory are those "
                "of the last step; copy what is needed at each step"
            )
        return self._stepper

    @property
    def registers(self) -> dict[str, Array]:
        """As `Stepper.registers`, after this step; LookupError once the block has gone on."""
        return self._now()._registers_of(self.warp)

    @property
    def variables(self) -> dict[str, Array]:
        """As `Stepper.variables`, after this step; LookupError once the block has gone on."""
        return self._now()._variables_of(self.warp)

    @property
    def shared(self) -> dict[str, Array]:
        """As `Stepper.shared`, after this step; LookupError once the block has gone on."""
        return self._now().shared

    @property
    def arrays(self) -> dict[str, Array]:
        """As `Stepper.arrays`, after this step; LookupError once the block has gone on."""
        return self._now().arrays

    @property
    def events(self) -> Trace:
        """The memory accesses of this step: none, one, or two of an asynchronous copy."""
        return self._now().events


class Stepper:
    """One block of a launch, walked through by steps; `Kernel.step` makes it.

    ``for step in stepper`` executes an instruction at a time, of one warp until it waits or ends,
    then of the next. `step`, `step_line`, `run_to`, `next_barrier` and `finish` go further at once.
    The block stands still in between, and may be left at any place: nothing runs behind, and
    nothing needs to be closed, though ``with`` frees the memory at its end.

    Only this block runs, on copies of the arrays and of the source's variables: neither the other
    blocks of the grid before it nor those after it, and the caller's arrays stay as they are.

    Attributes
    ----------
    kernel : BaseKernel
    grid, block_shape, block : tuple of int
        The launch's extents (x, y, z), and blockIdx of the block.
    """

    def __init__(self, launch: counting.Prepared, number: int, limit: int | None = 100_000) -> None:
        self.kernel: BaseKernel = launch.kernel
        self.grid = launch.grid
        self.block_shape = launch.block
        x, y = number % self.grid[0], number // self.grid[0] % self.grid[1]
        self.block = (x, y, number // self.grid[0] // self.grid[1])
        patience = 0
        if not self.kernel.instruction_limit and dependencies.exchanges(launch):
            patience = PATIENCE
        self._waits_for_others = bool(patience)
        self._launch = launch.detached()
        self._session: sim.Stepping | None = self._launch.step(
            number,
            instruction_limit=self.kernel.instruction_limit or patience,
            most_events=2**62 if limit is None else limit,
        )
        rows = self._session.listing()
        self._listing = [step_names.Instruction(*r) for r in rows]
        self._file = self._session.source_file
        text = signature.ptx_source(self.kernel.source) if self.kernel.is_ptx else self.source
        self._lines = declarations.lines_of(text)
        self._names = step_names.variables_of(text, self.kernel.options, self._file, self._listing)
        self._events: Trace | None = None
        self._warp = 0
        self._chosen: int | None = None

    # -- where it is ---------------------------------------------------------------------------

    @property
    def source(self) -> str:
        """The kernel's source."""
        return self.kernel.source

    @property
    def steps(self) -> int:
        """How many instructions were executed, of all warps."""
        return self._open().steps

    @property
    def barriers(self) -> int:
        """How many barriers of the block have opened (``__syncthreads()`` that all reached)."""
        return self._open().barriers

    @property
    def done(self) -> bool:
        """Whether all threads of the block have ended."""
        return self._open().ended

    @property
    def warp(self) -> int:
        """The warp that is looked at: the last one that went on.

        Setting it looks at another, and has that one go on as long as it can.
        """
        return self._warp

    @warp.setter
    def warp(self, number: int) -> None:
        self._warp = self._chosen = self._checked_warp(number)

    @property
    def warps(self) -> list[Place]:
        """Where each warp of the block is."""
        return [self._place(n) for n in range(self._open().warps)]

    @property
    def place(self) -> Place:
        """Where the warp is that is looked at."""
        return self._place(self._warp)

    @property
    def line(self) -> int:
        """The source line of the instruction that the warp executes next, or waits at; or 0."""
        return self.place.line

    @property
    def text(self) -> str:
        """That source line."""
        return self.place.text

    @property
    def instruction(self) -> str:
        """That PTX instruction; empty where the warp has ended."""
        return self.place.instruction

    @property
    def active(self) -> Array:
        """The lanes that execute it together: ndarray of shape (32,), bool."""
        return self.place.active

    @property
    def thread(self) -> Array:
        """The threadIdx of each lane of the warp: ndarray of shape (32, 3), int32."""
        linear = self._warp * WARP_SIZE + np.arange(WARP_SIZE, dtype=np.int32)
        x, y, _ = self.block_shape
        return np.stack([linear % x, linear // x % y, linear // (x * y)], axis=-1)

    # -- going on ------------------------------------------------------------------------------

    def step(self, warp: int | None = None) -> Step | None:
        """Execute one PTX instruction.

        Parameters
        ----------
        warp : int, optional
            Of this warp. By default of the one that was set as `warp`, else of the last one; where
            it waits or has ended, of the next that can go on.

        Returns
        -------
        Step or None
            None where all threads have ended, or where the warp that was named waits or has ended.

        Raises
        ------
        MemoryFault, LaunchError
            What the kernel does wrong, such as an access outside an array or a barrier that some
            threads never reach. The block stays where it is and may be looked at.
        """
        wanted = None if warp is None else self._checked_warp(warp)
        if wanted is None and self._chosen is not None:
            ready = self._open().position(self._chosen)[0] == "ready"
            wanted = self._chosen if ready else None
        done = self._go(lambda s: s.step(wanted))
        if done is None:
            return None
        self._warp, number, mask = done
        i = self._listing[number]
        return Step(
            number=self.steps - 1,
            warp=self._warp,
            line=i.line,
            text=self._text(i),
            instruction=i.text,
            opcode=i.opcode,
            active=lanes_of(mask),
            _stepper=self,
        )

    def __iter__(self) -> Iterator[Step]:
        while (step := self.step()) is not None:
            yield step

    def step_line(self, warp: int | None = None) -> bool:
        """Execute what is left of the source line that a warp is at.

        It stops where the warp comes to an instruction of another line, or waits at a barrier. As
        the compiler mixes the instructions of neighbouring lines, a line may be visited in parts.

        Parameters
        ----------
        warp : int, optional
            As of `step`.

        Returns
        -------
        bool
            False where all threads have ended.
        """
        wanted = self._checked_warp(warp if warp is not None else self._warp)
        session = self._open()
        if session.ended:
            return False
        if session.position(wanted)[0] != "ready":
            wanted = session.warp
            if session.position(wanted)[0] != "ready":
                self.step()  # says why nobody can go on
        here = self._listing[session.position(wanted)[1]]
        same = [
            n for n, i in enumerate(self._listing) if (i.file, i.line) == (here.file, here.line)
        ]
        self._warp = wanted
        return bool(self._go(lambda s: s.run(same, off_lines=wanted)))

    def run_to(self, line: int | Sequence[int], warp: int | None = None) -> bool:
        """Run all warps until one comes to a source line; it has not executed it yet.

        Parameters
        ----------
        line : int or sequence of int
            The line, or several: breakpoints.
        warp : int, optional
            Stop for this warp only.

        Returns
        -------
        bool
            False where the block ended first.

        Raises
        ------
        ValueError
            No instruction came from the line; the message lists those that have some.
        """
        lines = [checks.integer("line", n) for n in checks.one_or_several("line", line)]
        if not lines:
            raise ValueError("line is empty; name at least one")
        own = [(n, i) for n, i in enumerate(self._listing) if i.file == self._file and i.line]
        there = sorted({i.line for _, i in own})
        for n in lines:
            if n not in there:
                raise ValueError(
                    f"no instruction of {self.kernel.name} came from line {n}; those there are "
                    f"came from lines {', '.join(map(str, there)) or 'that the PTX does not name'}"
                )
        wanted = None if warp is None else self._checked_warp(warp)
        chosen = [n for n, i in own if i.line in lines]
        reached = self._go(lambda s: s.run(chosen, warp=wanted))
        self._warp = self._open().warp
        return bool(reached)

    def next_barrier(self) -> bool:
        """Run all warps until a barrier opens, as all threads have reached it.

        Returns
        -------
        bool
            False where the block ended without one.
        """
        reached = self._go(lambda s: s.run([], barrier=True))
        self._warp = self._open().warp
        return bool(reached)

    def finish(self) -> None:
        """Run the block to its end."""
        self._go(lambda s: s.run([]))

    # -- what it holds -------------------------------------------------------------------------

    @property
    def registers(self) -> dict[str, Array]:
        """The PTX registers of the warp that hold a value, by name.

        Each is a masked array of 32 lanes; masked are lanes that are elsewhere, or have not written
        the register. The type is that of the instructions that use it; where none tells, that of
        the array that it was loaded from, or an unsigned integer of its width. A predicate is bool.
        A register is there from the instruction that writes it to its last use.
        """
        return self._registers_of(self._warp)

    @property
    def variables(self) -> dict[str, Array]:
        """The variables of the source that are known, by name: masked arrays of 32 lanes.

        The kernel's parameters that are numbers, and each variable that a line assigns with
        ``x = ...;``, where the line's instructions compute exactly one value of its type. Others
        are left out: the compiler may have removed a variable, or compute it with another line.
        Where it merged two lines into one, the lanes of both are shown. Arguments that are arrays
        are in `arrays`.
        """
        return self._variables_of(self._warp)

    @property
    def shared(self) -> dict[str, Array]:
        """The block's shared variables by name, as masked copies; masked is what none has written.

        Shape and type are those of the declaration where the source tells; else a row of bytes.
        Dynamic shared memory goes by the names of its ``extern __shared__`` arrays.
        """
        return step_values.shared_arrays(self.kernel, self._open())

    @property
    def arrays(self) -> dict[str, Array]:
        """The arguments that are arrays, by parameter: read-only views of the block's copies."""
        found = {}
        for parameter, argument in zip(
            self.kernel.signature.parameters, self._launch.arguments, strict=True
        ):
            if isinstance(argument, HostArray):
                view = argument.array.view()
                view.flags.writeable = False
                found[parameter.name] = view
        return found

    @property
    def events(self) -> Trace:
        """The memory accesses since the last command (`step`, `run_to`, ...), as a `Trace`.

        ``coalesce.draw`` draws it. At most `limit` of them are kept; ``events.omitted`` tells how
        many more there were.
        """
        if self._events is None:
            columns, omitted = self._open().take_events()
            listing = self._listing
            table = {
                "line": np.array([i.line for i in listing], np.int32),
                "file": np.array([i.file for i in listing], np.int32),
                "opcode": np.array([i.opcode for i in listing]),
                "parameter": np.array([i.parameter for i in listing], np.int32),
            }
            self._events = self._launch.events(columns, table, self._open().memory, omitted)
        return self._events

    # -- the end -------------------------------------------------------------------------------

    def close(self) -> None:
        """Free the block; what is asked afterwards raises ValueError."""
        self._session = None

    def __enter__(self) -> Stepper:  # noqa: PYI034 (typing has Self from Python 3.11 on)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        name = f"<Stepper of {self.kernel.name}, block {self.block}"
        if self._session is None:
            return f"{name}: closed>"
        if self.done:
            return f"{name}: ended after {self.steps:,} instructions>"
        here = self.place
        where = f"line {here.line}: {here.text.strip()}" if here.line else here.instruction
        waits = {"barrier": " waits at", "lanes": " waits for lanes at"}.get(here.state, " at")
        return f"{name}: warp {here.warp}{waits} {where}>"

    # -- inside --------------------------------------------------------------------------------

    def _open(self) -> sim.Stepping:
        if self._session is None:
            raise ValueError("this stepper is closed")
        return self._session

    def _go(self, command: Callable[[sim.Stepping], _T]) -> _T:
        session = self._open()
        self._events = None
        try:
            return command(session)
        except LaunchError as error:
            if not self._waits_for_others or "stopped after the limit" not in str(error):
                raise
            raise LaunchError(
                f"{error}. Only the chosen block runs; it may wait for one that does not"
            ) from None
        finally:
            if said := session.take_output():
                print(said, end="", flush=True)

    def _checked_warp(self, warp: Any) -> int:
        number = checks.integer("warp", warp)
        warps = self._open().warps
        if not 0 <= number < warps:
            raise ValueError(
                f"there is no warp {number}; the block's {warps} warps have the numbers 0 to "
                f"{warps - 1}"
            )
        return number

    def _text(self, instruction: step_names.Instruction) -> str:
        known = instruction.file == self._file and 0 < instruction.line <= len(self._lines)
        return self._lines[instruction.line - 1] if known else ""

    def _place(self, warp: int) -> Place:
        state, number, mask = self._open().position(warp)
        if state == "ended":
            return Place(warp, "ended", 0, "", "", lanes_of(0))
        i = self._listing[number]
        return Place(warp, state, i.line, self._text(i), i.text, lanes_of(mask))

    def _registers_of(self, warp: int) -> dict[str, Array]:
        found: dict[str, Array] = {}
        for name, kind, mask, content in self._open().registers(warp):
            dtype = self._loaded_as(name) if step_values.is_bare(kind) else None
            found[name] = step_values.lanes(kind, mask, content, dtype)
        return found

    def _loaded_as(self, register: str) -> np.dtype[Any] | None:
        """Return the type of the array that a register is loaded from, if it fits."""
        for i in self._listing:
            if register in i.writes and i.parameter >= 0 and i.opcode.startswith("ld"):
                argument = self._launch.arguments[i.parameter]
                bits = i.opcode.rsplit(".", 1)[-1].lstrip("busf")
                if isinstance(argument, HostArray):
                    dtype: np.dtype[Any] = argument.array.dtype
                    if bits == str(8 * dtype.itemsize):
                        return dtype
        return None

    def _variables_of(self, warp: int) -> dict[str, Array]:
        found: dict[str, Array] = {}
        for parameter, argument in zip(
            self.kernel.signature.parameters, self._launch.arguments, strict=True
        ):
            if isinstance(argument, bytes) and parameter.accepted:
                value = np.frombuffer(argument, parameter.accepted[0])
                if value.size == 1:
                    found[parameter.name] = np.ma.array(np.repeat(value, WARP_SIZE), mask=False)
        registers = self._registers_of(warp)
        position = self._open().position(warp)[1]
        for name, candidates in self._names.items():
            alive = [r for r in candidates if r in registers]
            if not alive:
                continue
            # Of several the one that was computed last before this place of the text.
            at = {r: n for n, i in enumerate(self._listing) for r in i.writes if n < position}
            found[name] = registers[max(alive, key=lambda r: at.get(r, -1))]
        return found


def of_kernel(
    kernel: BaseKernel,
    grid: Any,
    block: Any,
    arguments: Sequence[Any],
    shared_bytes: Any,
    device: str | Device | None,
    of_block: Any,
    limit: int | None,
) -> Stepper:
    """Start walking; see `Kernel.step`."""
    launch = counting.prepare(kernel, grid, block, arguments, shared_bytes, device)
    limit = checks.limit("limit", limit, "events")
    if isinstance(of_block, list | np.ndarray | range):
        of_block = tuple(of_block)
    elif not isinstance(of_block, tuple):
        of_block = checks.integer("of_block", of_block)
    (number,) = geometry.block_numbers(of_block, launch.grid, "of_block").tolist()
    return Stepper(launch, number, limit)
