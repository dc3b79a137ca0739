"""Finds the source lines of mistakes in host code, from return addresses and debug information."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any

_MARK = re.compile(r" <([^<>]+)\+0x([0-9a-f]+)>")


def add_places(report: dict[str, Any]) -> None:
    """Add source lines to a report of a program.

    Each mistake in host code gets an item ``"place"`` with its source line, such as "main.cu:12",
    and an item ``"file"`` with the path of this source.
    If a message contains an address of code, the address is replaced by its source line.
    """
    wanted = set()
    for mistake in report["host"]:
        wanted.add((mistake["object"], mistake["offset"]))
        wanted |= {(file, int(at, 16)) for file, at in _MARK.findall(mistake["text"])}
    findings = [finding for launch in report["checked"] for finding in launch["findings"]]
    for finding in findings:
        for text in finding["details"]:
            wanted |= {(file, int(at, 16)) for file, at in _MARK.findall(text)}
    known = _lines(wanted)

    def place(match: re.Match[str]) -> str:
        line = known.get((match[1], int(match[2], 16)), "")
        return f" ({Path(line).name})" if line else ""

    for mistake in report["host"]:
        line = known.get((mistake["object"], mistake["offset"]), "")
        mistake["place"], mistake["file"] = Path(line).name, line.rpartition(":")[0]
        mistake["text"] = _MARK.sub(place, mistake["text"])
    for finding in findings:
        finding["details"] = [_MARK.sub(place, text) for text in finding["details"]]
    report["failure"] = _MARK.sub("", report["failure"])


def _lines(places: Iterable[tuple[str, int]]) -> dict[tuple[str, int], str]:
    """Return ``file:line`` for each address of code that the tool addr2line can find."""
    program = shutil.which("addr2line")
    lines: dict[tuple[str, int], str] = {}
    by_object: dict[str, list[int]] = {}
    for file, offset in places:
        if file and offset:
            by_object.setdefault(file, []).append(offset)
    if program is None:
        return lines
    for file, offsets in by_object.items():
        # The return address is that of the instruction after the call. The byte before it belongs
        # to the call.
        words = [f"{offset - 1:#x}" for offset in offsets]
        done = subprocess.run(
            [program, "-i", "-a", "-e", file, *words], capture_output=True, text=True, check=False
        )
        current = -1
        for line in done.stdout.splitlines():
            if re.fullmatch(r"0x[0-9a-f]+", line):
                current += 1
                continue
            name, _, number = line.split(" (")[0].rpartition(":")
            # If the call was inlined from a template in cuda_runtime.h, take the line of the user's
            # code instead.
            if number.isdigit() and not name.endswith(("cuda_runtime.h", "??")):
                key = (file, offsets[current])
                lines.setdefault(key, f"{name}:{number}")
    return lines
