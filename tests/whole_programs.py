"""What tests of whole CUDA programs need: nvcc, g++ and the command `coalesce`.

nvcc needs two seconds for the shortest program, and little time for one more function. So the
programs of a test file are compiled as one program, whose argument says which of them it runs. A
test describes its program by a mark, and runs it by the fixture `program` (see conftest.py)::

    @pytest.mark.program('cudaFree(nullptr); puts("freed");')
    def test_nothing_can_be_freed(program: Program) -> None:
        assert program.run().stdout == "freed\\n"
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from coalesce.compile import nvcc


def _has_compilers() -> bool:
    try:
        nvcc.nvcc()
    except LookupError:
        return False
    return shutil.which("g++") is not None and sys.platform.startswith("linux")


NEEDS_COMPILERS = pytest.mark.skipif(
    not _has_compilers(), reason="needs nvcc (pip install 'coalesce-gpu[programs]') and g++"
)


def coalesce(*words: object, **settings: Any) -> subprocess.CompletedProcess[str]:
    """Run ``coalesce`` with these words in a new process; `settings` are those of its start."""
    return subprocess.run(
        [sys.executable, "-m", "coalesce", *map(str, words)],
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
        **settings,
    )


@dataclass(frozen=True)
class Part:
    """The arguments of the mark ``program``, which describe the program of a test.

    Attributes
    ----------
    body : str
        What the program does. It may end with ``return`` and the exit status.
    declarations : str
        What comes before it: kernels, functions and headers. Each program of a file sees those of
        the programs before. If several programs have the same declarations, these come once.
    file : str
        The name of the file. Programs that need another compute capability have a file of their
        own.
    """

    body: str
    declarations: str = ""
    file: str = "program.cu"


@dataclass(frozen=True)
class Program:
    """The program of a test: a part of a file that has the programs of several tests."""

    file: Path
    number: int

    def run(
        self, *words: object, environment: Mapping[str, object] | None = None, **settings: Any
    ) -> subprocess.CompletedProcess[str]:
        """Run ``coalesce run`` with these words in a new process, as `coalesce` does.

        `environment` has environment variables of the program, besides those of this process.
        """
        own = {name: str(value) for name, value in (environment or {}).items()}
        settings["env"] = {**os.environ, **own}
        return coalesce("run", self.file, *words, "--", self.number, **settings)

    def lines(self) -> list[str]:
        """Return the lines of the file."""
        return self.file.read_text().splitlines()


def joined(parts: Iterable[Part], head: str, folder: Path) -> dict[Part, Program]:
    """Write the programs into files in a folder, each of which begins with `head`.

    `head` includes ``<cstdlib>``. The first argument of an executable is the number of the part
    that it runs.
    """
    texts: dict[str, list[str]] = {}
    names: dict[str, list[str]] = {}
    programs = {}
    for part in dict.fromkeys(parts):
        text, own = texts.setdefault(part.file, [head]), names.setdefault(part.file, [])
        programs[part] = Program(folder / part.file, len(own))
        if part.declarations not in text:
            text.append(part.declarations)
        own.append(f"program_{len(own)}")
        text.append(f"static int {own[-1]}() {{\n{part.body}\nreturn 0;\n}}")
    for file, text in texts.items():
        text.append(f"static int (*const programs[])() = {{{', '.join(names[file])}}};")
        text.append("int main(int, char **words) { return programs[atoi(words[1])](); }\n")
        (folder / file).write_text("\n".join(text))
    return programs
