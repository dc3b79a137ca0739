"""Reads the instructions of a kernel, with their control words, from the output of nvdisasm."""

from __future__ import annotations

import re
from dataclasses import dataclass

# An instruction in the output of nvdisasm -hex: its offset and text, then the upper half of its
# encoding on the next line.
_INSTRUCTION = re.compile(
    r"^\s+/\*([0-9a-f]{4,})\*/\s+(.*?)\s*;\s+/\* 0x[0-9a-f]{16} \*/\s+/\* 0x([0-9a-f]{16}) \*/",
    re.MULTILINE,
)
_SHIFT = 105 - 64  # the lowest bit of the control word, in the upper half
_NONE = 7


@dataclass(frozen=True)
class MachineInstruction:
    """An instruction as nvdisasm prints it, with its offset and its control word."""

    offset: int
    text: str
    control: str


def read(listing: str, entry: str) -> tuple[MachineInstruction, ...]:
    """Return the instructions of the kernel `entry`. `listing` is the output of nvdisasm."""
    start = listing.find(f".section\t.text.{entry},")
    end = listing.find("//-----", start)
    section = listing[start : end if end > 0 else None] if start >= 0 else ""
    return tuple(
        MachineInstruction(int(match[1], 16), match[2], _control(int(match[3], 16)))
        for match in _INSTRUCTION.finditer(section)
    )


def _control(upper: int) -> str:
    bits = upper >> _SHIFT
    awaits, operands, result = bits >> 11 & 0x3F, bits >> 8 & 7, bits >> 5 & 7
    waits = "".join(str(i) if awaits >> i & 1 else "-" for i in range(6))
    named = ["-" if number == _NONE else str(number) for number in (operands, result)]
    yields = "-" if bits >> 4 & 1 else "Y"
    return f"B{waits}:R{named[0]}:W{named[1]}:{yields}:S{bits & 15:02}"
