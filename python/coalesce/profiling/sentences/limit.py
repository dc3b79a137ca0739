"""Says what limits the time of a kernel, how far it is from this limit, and which line causes it.

For example, `naive` for 256 x 256 matrices keeps the data stage of L1 busy for 271,360 cycles, and
the load-store unit for 20,520. So L1 limits it, and the next limit is at 8 % of this time: if the
accesses were perfect, the kernel could be up to 12 times as fast.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from coalesce._core import model
from coalesce.launch.modelled import BOUNDS, Modelled
from coalesce.profiling.rows.accesses import Access, Instruction, Line


def _lines_touched(access: Access) -> int:
    return sum(row.lines for row in access.instructions) if access.unit == "sectors" else 0


def _updates(access: Access) -> int:
    return access.requests if access.kind in ("atomic", "reduction") else 0


# How much each access of a line keeps a resource busy. For other resources, no count says it.
_BUSY: dict[str, Callable[[Access], int]] = {
    "requests": lambda access: access.requests,
    "data": _lines_touched,
    "shared": lambda access: access.wavefronts,
    "l2": lambda access: access.sectors,
    "dram": lambda access: access.sectors,
    "constants": lambda access: access.words,
    "atomics": _updates,
}


# What helps if a resource limits a kernel, and nothing that the kernel does is wasteful.
_REMEDIES = {
    "issue": "Fewer instructions per result help: let each thread compute several results.",
    "fp32": "The arithmetic is the limit: only fewer operations, or tensor cores, help.",
    "fp64": "float64 is the limit: constants such as 1.0 without f make float32 code use it.",
    "alu": (
        "Fewer index computations help, such as loops that step pointers. A / or % by a variable "
        "takes about 20 instructions."
    ),
    "xu": "Fewer conversions, divisions and functions help: __expf, or a table in shared memory.",
    "tensor": "The tensor cores are the limit: only fewer operations, or a smaller type, help.",
    "requests": (
        "Fewer and wider accesses help: 16 bytes per lane (float4), and values that a thread keeps "
        "in registers for several results."
    ),
    "data": "Fewer accesses help: values that a thread keeps in registers for several results.",
    "l2": "More reuse in L1, shared memory or registers helps, such as larger tiles.",
    "atomics": "Fewer atomics help: add up in registers and shared memory first.",
    "dram": "Only fewer bytes help: kernels that run one after the other, fused; a smaller type.",
}


OF_LAUNCH = "The launch takes most of the time: larger launches help, or several in a CUDA graph."
_STREAMING = 0.7  # if DRAM is at least so busy, compared with L2, L2 only passes its bytes on


def remedy(m: Modelled, gpu: Mapping[str, Any]) -> str:
    """Return what helps if nothing is wasteful, or "" if nothing is known."""
    if _of_launch(m, gpu) > 0.5:
        return OF_LAUNCH
    bound = m.bound
    if bound == "l2" and m.cycles["dram"] > _STREAMING * m.cycles["l2"]:
        bound = "dram"
    if bound == "xu" and m.work["fp64"]:  # float32 values are converted to float64 and back
        bound = "fp64"
    return _REMEDIES.get(bound, "")


def _of_launch(m: Modelled, gpu: Mapping[str, Any]) -> float:
    """Return the share of the time that an empty launch takes, too."""
    return float(model.time_of_blocks(gpu["name"], 1, 1, {})["ms"]) / m.ms


def sentences(
    m: Modelled, lines: Sequence[Line], instructions: Sequence[Instruction], gpu: Mapping[str, Any]
) -> list[str]:
    """Return the sentences: how far the limit is, where most of the work is, and what is next.

    `gpu` has the figures of the modelled GPU.
    """
    result = []
    busy = m.cycles[m.bound] / (1e6 * m.ms * gpu["clock_ghz"])
    launch = _of_launch(m, gpu)
    if m.bound != "latency":
        result.append(f"It is busy for {busy:.0%} of the time.")
    if launch > 0.2:
        result.append(f"The launch itself takes {launch:.0%} of the time.")
    if (where := _place(m, lines, instructions)) is not None:
        result.append(where)
    first, second = sorted(m.cycles, key=lambda bound: -m.cycles[bound])[:2]
    if first == m.bound and m.cycles[first] > 0:
        share = m.cycles[second] / m.cycles[first]
        result.append(f"The next limit, at {share:.0%} of this time, is {BOUNDS[second]}.")
    return result


# The opcodes of the machine instructions that slow pipes execute.
_OF_PIPE = {
    "fp64": ("DADD", "DMUL", "DFMA", "DSETP", "DMNMX"),
    "xu": ("MUFU", "F2F", "F2I", "I2F", "FRND", "POPC", "FLO"),
}


def _place(m: Modelled, lines: Sequence[Line], instructions: Sequence[Instruction]) -> str | None:
    of_shared = m.bound == "data" and m.work["shared_wavefronts"] > m.work["tag_lookups"]
    if m.bound in ("issue", "fp32", "alu"):
        work = [line.executed for line in lines]
    elif m.bound in _OF_PIPE:
        slow = [i for i in instructions if i.opcode.startswith(_OF_PIPE[m.bound])]
        of_line = Counter[tuple[str, int]]()
        for i in slow:
            of_line[i.file, i.line] += i.executed
        work = [of_line[line.file, line.number] for line in lines]
    elif (busy := _BUSY.get("shared" if of_shared else m.bound)) is not None:
        work = [sum(busy(access) for access in line.accesses) for line in lines]
    else:
        return None
    if len(lines) < 2 or not sum(work):
        return None
    most = max(range(len(lines)), key=work.__getitem__)
    share = work[most] / sum(work)
    return f"{'All' if share > 0.995 else f'{share:.0%}'} of its work is in {lines[most].place}."
