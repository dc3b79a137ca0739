"""Puts texture references into managed memory: a host compiler that nvcc calls as a preprocessor.

CUDA 12 removed texture references (``texture<float, 1> t;``). This package's header
``texture_references.h`` has the type. But device code can use such a variable only if its
declaration has the word ``__managed__``. A macro cannot add this word, because other names may be
``texture``, too. So the declarations are changed after the preprocessor.

This file is also the script that nvcc starts in place of gcc and g++. It needs only the standard
library.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

# The start of a declaration at the level of a file or namespace.
_DECLARATION = re.compile(
    rb"((?:^|[;{}])\s*(?:(?:static|inline)\s+)*)(texture\s*<[^;{}()&*]*>\s*[A-Za-z_])", re.MULTILINE
)
# The declaration of one variable, perhaps with an initial value.
_VARIABLE = re.compile(
    rb"(?:^|(?<=[;{}]))[^\S\n]*(?P<extern>extern\s+)?"
    rb"(?P<definition>texture\s*<[^;{}()&*]*>\s*(?P<name>\w+)[^;,]*);",
    re.MULTILINE,
)


def write_compilers(folder: Path) -> None:
    """Write the programs gcc and g++ into a folder, which nvcc must find first on PATH."""
    folder.mkdir()
    for name in ("gcc", "g++"):
        program = folder / name
        command = shlex.join([sys.executable, "-I", "-S", __file__, str(folder), name])
        program.write_text(f'#!/bin/sh\nexec {command} "$@"\n')
        program.chmod(0o700)


def main(folder: str, name: str, words: list[str]) -> int:
    """Run the compiler `name`, and change the declarations in its output if it is preprocessed.

    `folder` is the folder of `write_compilers`.
    """
    path = os.pathsep.join(p for p in os.environ["PATH"].split(os.pathsep) if p != folder)
    compiler = shutil.which(name, path=path) or name
    status = subprocess.run([compiler, *words], env={**os.environ, "PATH": path}, check=False)
    if status.returncode == 0 and "-E" in words and "-o" in words:
        output = Path(words[words.index("-o") + 1])
        text = _defined_once(output.read_bytes())
        output.write_bytes(_DECLARATION.sub(rb"\1__attribute__((managed)) \2", text))
    return status.returncode


def _defined_once(text: bytes) -> bytes:
    """Put the definition of each variable in place of its first ``extern`` declaration.

    A variable in managed memory cannot be declared before its definition.
    """
    places: dict[bytes, list[re.Match[bytes]]] = {}
    for match in _VARIABLE.finditer(text):
        places.setdefault(match["name"], []).append(match)
    changes: list[tuple[tuple[int, int], bytes]] = []
    for matches in places.values():
        defined = [match for match in matches if not match["extern"]]
        if len(defined) == 1 and matches[0]["extern"]:  # otherwise they are in several scopes
            changes += [(match.span(), b";") for match in matches[1:]]
            changes.append((matches[0].span(), defined[0]["definition"] + b";"))
    for (start, end), new in sorted(changes, reverse=True):
        text = text[:start] + new + b"\n" * text.count(b"\n", start, end) + text[end:]
    return text


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2], sys.argv[3:]))
