"""Counts the memory accesses of a launch in several processes.

The processes may be on other machines. The blocks are divided into jobs, and a
`concurrent.futures.Executor` starts the jobs in the processes. A job gets the PTX, the machine
code, the arguments, and the numbers of its blocks. The job simulates these blocks on copies of the
arrays, and returns the counts. Then the counts of all jobs are added. The sum is the same as if one
process counted all blocks, because each block is counted once.

A block does not see what the blocks of other jobs write. This is correct only if blocks do not
communicate. If they may communicate, the launch is refused (dependencies.py).
"""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, as_completed
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from coalesce._core import sim
from coalesce.common import require
from coalesce.common.memory import ArrayCopies
from coalesce.launch.arguments import HostArray
from coalesce.launch.kernel import CompiledKernel
from coalesce.launch.launch import Launch
from coalesce.launch.module import CompiledModule
from coalesce.launch.simulated import simulate

_JOBS_PER_WORKER = 4  # more than one, so that a fast worker can do more jobs than a slow one


class Shipped(NamedTuple):
    """A launch, in the form that is sent to other processes."""

    launch: Launch  # its kernel is compiled; its arrays are empty
    copies: ArrayCopies  # the arrays
    variables: tuple[tuple[str, bytes], ...]  # the values of the module's variables


@dataclass(frozen=True)
class Result:
    """The result of all jobs together. It has the same attributes as `sim.LaunchResult`."""

    counts: Any
    events: dict[str, np.ndarray[Any, Any]] | None
    omitted: int
    memory: list[tuple[str, str, int, int, int]]
    model: None = None


def check_executor(executor: Any) -> None:
    """Raise TypeError if the argument is not a `concurrent.futures.Executor` or similar."""
    with require.reading("executor", executor):
        submit = getattr(executor, "submit", None)
    if isinstance(executor, type) or not callable(submit):
        raise TypeError(
            "`executor` must be a concurrent.futures.Executor, such as a ProcessPoolExecutor or "
            f"dask's client.get_executor(); got {type(executor).__name__}"
        )


def ranges(blocks: int, executor: Executor) -> list[np.ndarray[Any, np.dtype[np.uint64]]]:
    """Divide the blocks of a grid into ranges, one for each job.

    There are up to four jobs for each worker of the executor. `blocks` is the number of blocks.
    """
    client: Any = getattr(executor, "_client", None)  # Dask's executor
    if hasattr(client, "nthreads"):
        workers = sum(client.nthreads().values()) or 1
    else:
        workers = getattr(executor, "_max_workers", None) or os.cpu_count() or 1
    jobs = min(blocks, _JOBS_PER_WORKER * int(workers))
    return list(np.array_split(np.arange(blocks, dtype=np.uint64), jobs))


def run(
    launch: Launch,
    executor: Executor,
    exemplars: int,
    progress: Callable[[int, int], object] | None,
) -> Result:
    """Simulate the blocks of a launch in jobs, which `executor` runs.

    `exemplars` says how many executions of each memory instruction are kept as examples.
    `progress` is called with two numbers: how many blocks are finished, and how many there are.
    """
    shipped = _shipped(launch)
    chosen = ranges(launch.blocks, executor)
    total, done = sum(map(len, chosen)), 0
    futures = {
        executor.submit(run_blocks, shipped, blocks, exemplars): number
        for number, blocks in enumerate(chosen)
    }
    results: dict[int, Any] = {}
    try:
        for future in as_completed(futures):
            number = futures[future]
            results[number] = future.result()
            done += len(chosen[number])
            if progress is not None:
                progress(done, total)
    finally:  # also if a job failed or the user interrupted
        for future in futures:
            future.cancel()
    parts = [results[number] for number in range(len(chosen))]
    counts = parts[0][0]
    for part in parts[1:]:
        counts = counts + part[0]
    events = _events([part[1] for part in parts], exemplars) if exemplars else None
    return Result(counts, events, 0, parts[0][2])


def run_blocks(
    shipped: Shipped, blocks: np.ndarray[Any, np.dtype[np.uint64]], exemplars: int
) -> tuple[Any, dict[str, np.ndarray[Any, Any]] | None, list[Any]]:
    """Simulate some blocks on one core of the CPU. This is the function that a job runs.

    `blocks` are the linear numbers of the blocks. `exemplars` says how many executions of each
    memory instruction are kept as examples. Return a tuple: the counts, the recorded events (or
    None), and a list of the arrays and variables.
    """
    program = _program(shipped.launch)
    for name, value in shipped.variables:
        program.write_variable(name, value)
    result = simulate(
        shipped.launch.with_arrays(shipped.copies.copy()),
        program=program,
        counts=True,
        workers=1,
        blocks=blocks,
        exemplars=exemplars,
    )
    assert result.counts is not None
    return result.counts, result.events, result.memory


def _shipped(launch: Launch) -> Shipped:
    module, program = launch.kernel.module, launch.program
    code = CompiledModule(
        module.source, module.filename, module.compiled(launch.device), None, _machine_code(launch)
    )
    kernel = launch.kernel
    compiled = CompiledKernel(code, kernel.signature, launch.device, kernel.instruction_limit)
    nothing = np.empty(0, np.uint8)
    arguments = [
        replace(a, array=nothing, original=nothing) if isinstance(a, HostArray) else a
        for a in launch.arguments
    ]
    return Shipped(
        # the blocks do not wait for each other
        replace(launch, kernel=compiled, cooperative=False, passed=None, arguments=arguments),
        launch.copies(),
        tuple((v[0], program.read_variable(v[0])) for v in program.variables()),
    )


def _machine_code(launch: Launch) -> str | None:
    """Return the machine code as text, so that all jobs count the same instructions.

    If there is none, return None.
    """
    make = launch.kernel.module.disassembly(launch.device)
    try:
        return None if make is None else make()
    except LookupError:
        return None


# A program can only run one launch at a time. So each thread has its own program.
_programs = threading.local()


def _program(launch: Launch) -> sim.SimulatedModule:
    """Return the program of a module, parsed once in each thread."""
    module = launch.kernel.module
    key = hashlib.sha256(module.compiled(launch.device).ptx.encode()).digest()
    if getattr(_programs, "key", None) != key:
        _programs.program = module.another_program(launch.device)
        _programs.key = key
    program: sim.SimulatedModule = _programs.program
    return program


def _events(
    parts: Sequence[dict[str, np.ndarray[Any, Any]]], exemplars: int
) -> dict[str, np.ndarray[Any, Any]]:
    """Join the events of all jobs. Keep at most `exemplars` events of each instruction."""
    # Take events from the first, the last and the middle job first, so that all parts of the grid
    # are represented. Then take events from the other jobs.
    order = [*dict.fromkeys([0, len(parts) - 1, len(parts) // 2, *range(len(parts))])]
    joined = {name: np.concatenate([parts[i][name] for i in order]) for name in parts[order[0]]}
    counts: dict[int, int] = {}
    rows = []
    for row, instruction in enumerate(joined["instruction"].tolist()):
        counts[instruction] = counts.get(instruction, 0) + 1
        if counts[instruction] <= exemplars:
            rows.append(row)
    return {name: column[rows] for name, column in joined.items()}
