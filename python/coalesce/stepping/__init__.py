"""Executes one block of a kernel, one instruction at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import numpy as np

from coalesce import draw
from coalesce._core import sim
from coalesce.common import geometry, require, words
from coalesce.common.errors import InstructionLimit, LaunchError
from coalesce.cxx import declarations
from coalesce.launch import simulated
from coalesce.launch.arguments import HostArray
from coalesce.simulate import dependencies
from coalesce.simulate.events import WARP_SIZE, Trace, lanes_of
from coalesce.simulate.recorded import events_of
from coalesce.stepping import debug_info, frames, in_registers, locations
from coalesce.stepping import values as step_values

if TYPE_CHECKING:
    from types import TracebackType

    from coalesce.launch.launch import Launch
    from coalesce.launch.loaded import LoadedKernel

Array = np.ndarray[Any, Any]
_T = TypeVar("_T")
State = Literal["ready", "barrier", "lanes", "ended"]

# Stepping runs a single block. If the block waits for another block, the wait never ends. Therefore
# the block is stopped after this number of warp instructions.
WAITING_LIMIT = 50_000_000


@dataclass(frozen=True)
class Place:
    """The place of a warp in the kernel: what it executes next, or what it waits for.

    Attributes
    ----------
    warp : int
        The number of the warp in its block.
    state : {"ready", "barrier", "lanes", "ended"}
        The state of the warp:

        - ``"ready"``: it can continue;
        - ``"barrier"``: it waits at a barrier;
        - ``"lanes"``: some of its lanes wait for the other lanes, in a warp operation;
        - ``"ended"``: all of its threads have ended.
    line : int
        The source line of `instruction`. It is 0 if the line is not known.
    text : str
        The text of the source line.
    instruction : str
        The PTX instruction that the warp executes next or waits at. It is empty if the warp has
        ended.
    active : ndarray of shape (32,), bool
        The lanes that are at this instruction. If the warp has diverged, the other lanes are at
        other instructions.
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
        The index of the step, from 0. The steps of all warps of the block are counted together.
    warp : int
        The number of the warp in its block.
    line : int
        The line of the CUDA source. It is 0 if the line is not known.
    text : str
        The text of the source line.
    instruction, opcode : str
        The PTX instruction, such as ``"ld.global.f32 %f1, [%rd4];"``, and its first word, here
        ``"ld.global.f32"``.
    active : ndarray of shape (32,), bool
        The lanes that executed the instruction together. If the instruction has a predicate, such
        as ``@%p1``, the instruction has no effect in the lanes where the predicate is false.
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
                f"the block has continued after step {self.number}, so the registers and memory of "
                "this step are lost; copy what you need before the next step"
            )
        return self._stepper

    @property
    def registers(self) -> dict[str, Array]:
        """The registers after this step: see `Stepper.registers`.

        They can be read until the next step. Later, reading them raises LookupError.
        """
        return self._now()._registers_of(self.warp)

    @property
    def variables(self) -> dict[str, Array]:
        """The variables after this step: see `Stepper.variables`.

        They can be read until the next step. Later, reading them raises LookupError.
        """
        return self._now()._variables_of(self.warp)

    @property
    def shared(self) -> dict[str, Array]:
        """The shared variables after this step: see `Stepper.shared`.

        They can be read until the next step. Later, reading them raises LookupError.
        """
        return self._now().shared

    @property
    def arrays(self) -> dict[str, Array]:
        """The array arguments after this step: see `Stepper.arrays`.

        They can be read until the next step. Later, reading them raises LookupError.
        """
        return self._now().arrays

    @property
    def events(self) -> Trace:
        """The memory accesses of this step.

        A step has no access or one access. Only an asynchronous copy has two: one access to global
        memory, and one to shared memory.

        The trace can be read until the next step. Later, reading it raises LookupError.
        """
        return self._now().events


class Stepper:
    """One block of a launch, which you execute instruction by instruction.

    `Kernel.step` returns a Stepper. ``for step in stepper`` executes one instruction per iteration.
    One warp runs until it waits or ends, then the next warp runs. The methods `step`, `step_line`,
    `run_to`, `next_barrier` and `finish` execute one instruction or more.

    Between these calls, the block does not run. You can stop at any instruction, and you need not
    close the stepper. In a ``with`` statement, as in the example below, the memory of
    the stepper is freed at the end of the statement.

    The other blocks of the grid do not run. There is one exception: in a cooperative launch, they
    run while this block waits for them. The block works on copies of the arrays and of the global
    variables, so the caller's arrays do not change.

    Attributes
    ----------
    kernel : LoadedKernel
        The kernel that is executed.
    grid, block_shape : tuple of int
        The extents of the grid and of a block, as (x, y, z).
    block : tuple of int
        The blockIdx of the block, as (x, y, z).

    Examples
    --------
    >>> kernel = coalesce.Kernel('''
    ... extern "C" __global__ void twice(float *x) {
    ...     int i = threadIdx.x;
    ...     x[i] *= 2;
    ... }''', device="sim")
    >>> with kernel.step(1, 32, np.arange(32, dtype=np.float32)) as stepper:
    ...     stepper.finish()
    ...     stepper.arrays["x"][:4]
    array([0., 2., 4., 6.], dtype=float32)
    """

    def __init__(
        self,
        launch: Launch,
        number: int,
        limit: int | None = 100_000,
        optimized: bool = False,
    ) -> None:
        self.kernel: LoadedKernel = launch.kernel
        self.grid = launch.grid
        self.block_shape = launch.block
        x, y = number % self.grid[0], number // self.grid[0] % self.grid[1]
        self.block = (x, y, number // self.grid[0] // self.grid[1])
        patience = 0
        alone = not launch.cooperative and dependencies.may_communicate(launch)
        if not self.kernel.instruction_limit and alone:
            patience = WAITING_LIMIT
        self._waits_for_others = bool(patience)
        self._launch = launch.detached()
        build = None if optimized else self.kernel.module.debug_build(launch.device)
        if build is not None:
            build.take_variables(launch.program)
        self._session: sim.Stepping | None = simulated.step(
            self._launch,
            number,
            None if build is None else build.program,
            "" if build is None else build.entries[self.kernel.entry],
            instruction_limit=self.kernel.instruction_limit or patience,
            most_events=2**62 if limit is None else limit,
        )
        rows = self._session.listing()
        listing = [locations.ListedInstruction(*r[:8], dict(r[8]), *r[9:]) for r in rows]
        self._listing = listing if build is None else locations.with_lines(listing)
        self._file = self._session.source_file
        text = self.kernel.module.shown_source
        self._lines = declarations.lines_of(text)
        self._ptx = "" if build is None else build.ptx
        self._variables: list[dict[str, debug_info.Variable]] | None = None
        self._in_registers = None if build is None else build.in_registers
        self._values: list[dict[str, in_registers.Found]] | None = None
        self._events: Trace | None = None
        self._warp = 0
        self._chosen: int | None = None

    # -- where the block is ---------------------------------------------------------------------

    @property
    def source(self) -> str:
        """The source text of the kernel."""
        return self.kernel.source

    @property
    def steps(self) -> int:
        """The number of instructions that the warps of the block have executed, all together."""
        return self._open().steps

    @property
    def barriers(self) -> int:
        """How often all threads of the block have passed a barrier, such as ``__syncthreads()``."""
        return self._open().barriers

    @property
    def done(self) -> bool:
        """Whether all threads of the block have ended."""
        return self._open().ended

    @property
    def warp(self) -> int:
        """The number of the selected warp. By default, the warp that executed the last instruction.

        Set this attribute to select another warp. The next steps are then executed by this warp,
        until it waits or ends.
        """
        return self._warp

    @warp.setter
    def warp(self, number: int) -> None:
        self._warp = self._chosen = self._checked_warp(number)

    @property
    def warps(self) -> list[Place]:
        """A list of `Place` objects: where each warp of the block is."""
        return [self._place(n) for n in range(self._open().warps)]

    @property
    def place(self) -> Place:
        """Where the selected warp is: its next instruction, or what it waits for."""
        return self._place(self._warp)

    @property
    def line(self) -> int:
        """The source line of the selected warp's next instruction. 0 if the line is not known."""
        return self.place.line

    @property
    def text(self) -> str:
        """The text of the source line with the number `line`."""
        return self.place.text

    @property
    def instruction(self) -> str:
        """The next PTX instruction of the selected warp. It is empty if the warp has ended."""
        return self.place.instruction

    @property
    def active(self) -> Array:
        """The lanes that execute the selected warp's next instruction: shape (32,), bool."""
        return self.place.active

    @property
    def thread(self) -> Array:
        """The threadIdx of each lane of the selected warp, as an array of shape (32, 3), int32."""
        linear = self._warp * WARP_SIZE + np.arange(WARP_SIZE, dtype=np.int32)
        x, y, _ = self.block_shape
        return np.stack([linear % x, linear // x % y, linear // (x * y)], axis=-1)

    # -- executing -----------------------------------------------------------------------------

    def step(self, warp: int | None = None) -> Step | None:
        """Execute one PTX instruction.

        Parameters
        ----------
        warp : int, optional
            The number of the warp that executes its next instruction. The default is the selected
            warp. If this warp waits or has ended, the default is the next warp that can continue.

        Returns
        -------
        Step or None
            The executed instruction. None if all threads have ended, or if the warp that you passed
            waits or has ended.

        Raises
        ------
        MemoryFault, LaunchError
            The kernel made a mistake, such as an access outside an array, or a barrier that some
            threads never reach. The block stays at the instruction that failed, and you can
            still inspect the block.
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
        """Execute the instructions of one warp until this warp comes to another source line.

        The warp also stops at a barrier. The compiler mixes the instructions of neighbouring lines.
        So a warp may come back to the same line several times.

        Parameters
        ----------
        warp : int, optional
            The number of the warp. See `step`.

        Returns
        -------
        bool
            False if all threads have ended, else True.
        """
        wanted = self._checked_warp(warp if warp is not None else self._warp)
        session = self._open()
        if session.ended:
            return False
        if session.position(wanted)[0] != "ready":
            wanted = session.warp
            if session.position(wanted)[0] != "ready":
                self.step()  # raises the reason why no warp can continue
        here = self._listing[session.position(wanted)[1]]
        same = [
            n for n, i in enumerate(self._listing) if (i.file, i.line) == (here.file, here.line)
        ]
        self._warp = wanted
        return bool(self._go(lambda s: s.run(same, off_lines=wanted)))

    def run_to(self, line: int | Sequence[int], warp: int | None = None) -> bool:
        """Run all warps until one of them reaches a source line, as with a breakpoint.

        The warp stops before it executes the line.

        Parameters
        ----------
        line : int or sequence of int
            The number of a source line, or several such numbers.
        warp : int, optional
            If you pass the number of a warp, the block stops only when this warp reaches a line.

        Returns
        -------
        bool
            True if a warp reached a line. False if the block ended first.

        Raises
        ------
        ValueError
            The line has no instructions. The message lists the lines with instructions.
        """
        lines = [require.integer("line", n) for n in require.one_or_several("line", line)]
        if not lines:
            raise ValueError("`line` is empty; pass at least one line number")
        own = [(n, i) for n, i in enumerate(self._listing) if i.file == self._file and i.line]
        there = sorted({i.line for _, i in own})
        for n in lines:
            if n not in there:
                known = f"only these lines have instructions: {', '.join(map(str, there))}"
                if not there:
                    known = "the PTX does not contain the source lines of its instructions"
                raise ValueError(f"line {n} has no instructions of {self.kernel.name}; {known}")
        wanted = None if warp is None else self._checked_warp(warp)
        chosen = [n for n, i in own if i.line in lines]
        reached = self._go(lambda s: s.run(chosen, warp=wanted))
        self._warp = self._open().warp
        return bool(reached)

    def next_barrier(self) -> bool:
        """Run all warps until all threads have reached the next barrier.

        Returns
        -------
        bool
            True if the threads have reached a barrier. False if the block ended first.
        """
        reached = self._go(lambda s: s.run([], barrier=True))
        self._warp = self._open().warp
        return bool(reached)

    def finish(self) -> None:
        """Run all warps until the block has ended."""
        self._go(lambda s: s.run([]))

    def play(self, most: int = 24) -> draw.Player:
        """Run all warps until the block has ended, and show what they do to shared memory.

        Each picture shows the shared arrays after one source line of one warp: the elements that
        the line stored and loaded, and those that were not stored yet.

        Parameters
        ----------
        most : int
            The largest number of pictures. The block stops after the last one.

        Returns
        -------
        coalesce.draw.Player

        Raises
        ------
        ValueError
            The block did not access shared memory.
        """
        shown = frames.frames_of(self, require.whole("most", most, 1))
        if not shown:
            raise ValueError("there is nothing to show: the block did not access shared memory")
        return draw.player(shown)

    # -- its contents --------------------------------------------------------------------------

    @property
    def registers(self) -> dict[str, Array]:
        """The PTX registers of the selected warp, as a dict from names to masked arrays.

        An array has a value for each of the 32 lanes. A lane is masked if it has not written the
        register, or if it has diverged from the active lanes.

        The dtype of a predicate register is bool. For other registers, the dtype comes from the
        instructions that use the register. If these instructions do not say the dtype, and the
        register was loaded from an array, the dtype is the dtype of the array. Otherwise, the dtype
        is an unsigned integer.

        The dict has only registers whose value is still needed: the register was written, and a
        later instruction reads it.
        """
        return self._registers_of(self._warp)

    @property
    def variables(self) -> dict[str, Array]:
        """The variables that the source can name here, as a dict from names to masked arrays.

        The first axis of an array has the 32 lanes. Lanes that have diverged from the active lanes
        are masked, and elements of arrays that were not written yet. The dict has numbers and
        arrays of numbers: variables that have a value already, and parameters. It does not have
        structures, pointers and references; array arguments are in `arrays`.

        The dict is empty if the source is PTX, or if you passed ``optimized=True`` to
        `Kernel.step`. A kernel of Numba has the numbers that a later instruction reads.
        """
        return self._variables_of(self._warp)

    @property
    def shared(self) -> dict[str, Array]:
        """The shared variables of the block, as a dict from names to masked arrays.

        The arrays are copies. Elements that were not written yet are masked. The shape and the
        dtype are those of the declaration. If the declaration is not known, the array is a
        one-dimensional array of bytes. Dynamic shared memory is in the dict under the names of its
        ``extern __shared__`` arrays.
        """
        return step_values.shared_arrays(self.kernel, self._open())

    @property
    def arrays(self) -> dict[str, Array]:
        """The array arguments, as a dict from the names of parameters to read-only arrays.

        They show the current contents. The block works on copies of the caller's arrays, and the
        returned arrays are views of these copies.
        """
        views = {}
        launch = self._launch
        for parameter, argument in zip(launch.parameters, launch.arguments, strict=True):
            if isinstance(argument, HostArray):
                view = argument.array.view()
                view.flags.writeable = False
                views[parameter.name] = view
        return views

    @property
    def events(self) -> Trace:
        """The memory accesses of the last call of `step`, `run_to` and so on, as a `Trace`.

        You can draw the trace with ``coalesce.draw``. The parameter `limit` of `Kernel.step` limits
        the number of accesses in the trace. ``events.omitted`` is the number of accesses that
        the trace leaves out.
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
            memory = self._open().memory
            self._events = events_of(self._launch, columns, lambda: table, memory, omitted)
        return self._events

    # -- the end -------------------------------------------------------------------------------

    def close(self) -> None:
        """Free the memory of the block. If you use the stepper again, ValueError is raised."""
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
            raise ValueError("this stepper is closed; call kernel.step() again")
        return self._session

    def _go(self, command: Callable[[sim.Stepping], _T]) -> _T:
        session = self._open()
        self._events = None
        try:
            return command(session)
        except InstructionLimit as error:
            if not self._waits_for_others:
                raise
            raise LaunchError(
                f"{error}. Perhaps the block waits for another block, but only the chosen block "
                "runs"
            ) from None
        finally:
            if output := session.take_output():
                print(output, end="", flush=True)

    def _checked_warp(self, warp: Any) -> int:
        number = require.integer("warp", warp)
        warps = self._open().warps
        if not 0 <= number < warps:
            known = words.numbers_of("the block's", "warp", warps)
            raise ValueError(f"there is no warp {number}; {known}")
        return number

    def _text(self, instruction: locations.ListedInstruction) -> str:
        known = instruction.file == self._file and 0 < instruction.line <= len(self._lines)
        return self._lines[instruction.line - 1] if known else ""

    def _place(self, warp: int) -> Place:
        state, number, mask = self._open().position(warp)
        if state == "ended":
            return Place(warp, "ended", 0, "", "", lanes_of(0))
        i = self._listing[number]
        return Place(warp, state, i.line, self._text(i), i.text, lanes_of(mask))

    def _registers_of(self, warp: int) -> dict[str, Array]:
        return step_values.registers(self._launch, self._open(), self._listing, warp)

    def _variables_of(self, warp: int) -> dict[str, Array]:
        session = self._open()
        state, number, mask = session.position(warp)
        if state == "ended":
            return {}
        if self._in_registers is not None:
            if self._values is None:
                info = debug_info.read(self._ptx)
                self._values = in_registers.known_values(self._listing, info, self._in_registers)
            return step_values.from_registers(session, self._values[number], warp, mask)
        if self._variables is None:
            info = debug_info.read(self._ptx)
            self._variables = locations.known_variables(
                self._listing, info, self._file, self.kernel.module.scopes
            )
        return step_values.variables_of(session, self._variables[number], warp, mask)


def of_launch(launch: Launch, of_block: Any, limit: int | None, optimized: bool) -> Stepper:
    """Return a stepper for one block of a launch. See `Kernel.step`."""
    limit = require.limit("limit", limit, "events")
    if isinstance(of_block, list | np.ndarray | range):
        of_block = tuple(of_block)
    elif not isinstance(of_block, tuple):
        of_block = require.integer("of_block", of_block)
    (number,) = geometry.block_numbers(of_block, launch.grid, "of_block").tolist()
    return Stepper(launch, number, limit, require.flag("optimized", optimized))
