"""Runs a check: the simulator executes a kernel and watches all of its accesses."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from coalesce._core import ops
from coalesce.arrays import devices, simulated_memory
from coalesce.catalogue import table
from coalesce.catalogue.table import title_of
from coalesce.check import Findings, findings_of
from coalesce.common import require
from coalesce.common.progress import reporter
from coalesce.cxx.skipped_barriers import skipped_by_jumps
from coalesce.launch.arguments import HostArray
from coalesce.launch.launch import Launch
from coalesce.launch.record import LaunchRecord
from coalesce.launch.simulated import simulate
from coalesce.simulate.recorded import declared_shared


def of_launch(
    launch: Launch,
    undefined: str | Sequence[str],
    strict: bool = False,
    instruction_limit: int | None = None,
) -> Findings:
    """Check one launch. See `Kernel.check`."""
    names = [undefined] if isinstance(undefined, str) else require.texts("undefined", undefined)
    kernel = launch.kernel
    masks = _masks(launch, names)
    options: dict[str, Any] = {
        "check": declared_shared(kernel),
        "strict": require.flag("strict", strict),
        "restricted": {i: p.name for i, p in enumerate(launch.parameters) if p.restrict},
    }
    if instruction_limit is not None:
        options["instruction_limit"] = require.whole(
            "instruction_limit", instruction_limit, 0, 2**63 - 1
        )
    with reporter(None, f"checks of {kernel.name}") as report, _tested(launch) as tested:
        result = simulate(launch, masks, **tested, **options, progress=report)
    launch.finish(watched=True)
    assert result.findings is not None
    module = kernel.module
    soften(
        result.findings[0],
        lambda file: "\n".join(module.lines_of(file)) if file else module.shown_source,
    )
    return findings_of(kernel.name, result.findings)


def soften(findings: Sequence[dict[str, Any]], text_of: Callable[[str], str]) -> None:
    """Turn errors about barriers that threads skip into warnings if the threads end early.

    `text_of` returns the text of a source file. The main source of a kernel has the name "".
    """
    lines: dict[str, set[int]] = {}
    for finding in findings:
        if not finding["skipped"]:
            continue
        file, line = finding["first"]["file"], finding["first"]["line"]
        if file not in lines:
            lines[file] = skipped_by_jumps(text_of(file))
        if line in lines[file]:
            finding["severity"] = "warning"


@contextmanager
def _tested(launch: Launch) -> Iterator[dict[str, Any]]:
    """Provide the options of `simulate` that choose the program to check.

    If a parameter is a structure, this is usually a program that also tests the indices of members
    that are arrays. Before the check, the values of the module's variables are copied to this
    program. After the check, their new values are copied back.
    """
    kernel, untested = launch.kernel, launch.program
    names = [p.name for p in kernel.signature.parameters if p.kind == "struct"]
    tested = kernel.module.tested_program(launch.device, names) if names else None
    if tested is None:
        yield {}
        return
    for name, own in tested.variables.items():
        tested.program.write_variable(own, untested.read_variable(name))
    try:
        yield {"program": tested.program, "entry": tested.entries[kernel.entry]}
    finally:
        for name, own in tested.variables.items():
            untested.write_variable(name, tested.program.read_variable(own))


def _masks(
    launch: Launch, undefined: Sequence[str]
) -> dict[int, np.ndarray[Any, np.dtype[np.bool_]]]:
    """Return a mask of the undefined bytes for each argument that has such bytes.

    `undefined` has the names of parameters whose arrays count as completely undefined.
    """
    signature = launch.kernel.signature
    parameters = launch.parameters
    unknown = [name for name in undefined if name not in [p.name for p in parameters]]
    if unknown:
        raise ValueError(
            f"`undefined` contains the name {unknown[0]!r}, but {signature} has no such parameter"
        )
    masks = {}
    # Arguments in the same memory, such as two views of one array, have the same mask.
    of_memory: dict[tuple[int, int], np.ndarray[Any, np.dtype[np.bool_]]] = {}
    hosts = [
        (number, a, parameters[number].name in undefined)
        for number, a in enumerate(launch.arguments)
        if isinstance(a, HostArray) and simulated_memory.memory_of(a.array) is None
    ]
    for _, host, named in hosts:
        if named:
            shared = of_memory.setdefault(_memory(host), np.zeros(host.array.nbytes, np.bool_))
            shared[host.part] = True
    for number, host, named in hosts:
        if _memory(host) in of_memory:
            masks[number] = of_memory[_memory(host)]
            if not named:
                masks[number][host.part] = False
    for number, parameter in enumerate(parameters):
        argument = launch.arguments[number]
        named = parameter.name in undefined
        if not isinstance(argument, HostArray):
            if named:
                raise ValueError(
                    f"`undefined` contains {parameter}, which is not an array; `undefined` "
                    "may contain only names of NumPy arrays"
                )
        elif simulated_memory.memory_of(argument.array) is not None:
            if named:
                raise ValueError(
                    f"`undefined` contains {parameter}, which is a DeviceArray; `undefined` "
                    "may contain only names of NumPy arrays. If coalesce.empty made the array, "
                    "leave out its name: the check itself finds the elements that were never "
                    "written"
                )
            mask = simulated_memory.undefined(argument.array)
            if mask is not None:
                masks[number] = mask
    return masks


def _memory(argument: HostArray) -> tuple[int, int]:
    """Return the address and the size of the memory that the kernel may access."""
    return argument.array.__array_interface__["data"][0], argument.array.nbytes


def device_of(device: Any) -> Any:
    """Return the device of a check. Raise ValueError for a GPU: only the simulator can check."""
    if devices.is_gpu(device):
        name = getattr(device, "name", device)
        raise ValueError(
            f"a check runs on the simulator; got device={name!r}. Leave out `device`, or pass "
            'device="sim"'
        )
    return "sim" if device is None else device


def of_operation(
    operation: str, arrays: Sequence[Any], device: Any, options: Mapping[str, Any]
) -> tuple[Any, Findings]:
    """Run an operation on `arrays`, and check its launches. Return the result and the findings."""
    where = devices.resolve(device_of(device))
    title = operation
    checked: list[Findings] = []

    def launcher(launch: Launch, variant: ops.Variant) -> LaunchRecord:
        nonlocal title
        title = title_of(variant.operation, variant.name)
        # Memory of the simulator knows itself which of its bytes were never written.
        undefined = [
            p.name
            for p, a in zip(launch.parameters, launch.arguments, strict=True)
            if p.name in ("out", "sums")
            and isinstance(a, HostArray)
            and simulated_memory.memory_of(a.array) is None
        ]
        checked.append(of_launch(launch, undefined))
        return LaunchRecord(device=launch.device.name)

    result, _ = table.operation(operation).run(arrays, options, device=where, launcher=launcher)
    left_out = sum(findings.left_out for findings in checked)
    found = [f for findings in checked for f in (*findings, *findings.notes)]
    return result, Findings(title, found, left_out)
