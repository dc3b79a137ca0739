"""Write docs/instructions.md, the supported instructions, from csrc/sim/ptx_analysis/ops.inc.

Run ``python docs/make_instructions.py`` after a change of the table; a test compares both.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

DOCS = Path(__file__).parent
TABLE = DOCS.parent / "csrc" / "sim" / "ptx_analysis" / "ops.inc"
PAGE = DOCS / "instructions.md"

HEAD = """\
# Instructions

*Written by `docs/make_instructions.py` from `csrc/sim/ptx_analysis/ops.inc`; do not edit.*

These are the instructions that the simulator executes. There are two lists, because the simulator
executes two kinds of code. To count the memory accesses of a kernel, it executes machine code of
compute capability 9.0. For everything else, such as launches, checks, traces and steps, it executes
PTX, NVIDIA's assembly language.

If the PTX has an instruction, a type or a modifier that the simulator does not know, the simulator
raises an `UnsupportedInstruction` before anything runs. The error names the instruction and its
line. [Adding an instruction](adding_an_instruction.md) shows how to add a row to these tables.

The tables use these terms ([the glossary](../notebooks/glossary.md) explains all other terms):

- *Special register*: a register whose value the hardware provides, such as `%tid.x`, the x index of
  a thread.
- *Predicate*: a register that holds true or false for each lane.
- *Uniform register*: a register of machine code with a single value for the whole warp.
- *Member mask*: a number with a bit for each lane. The lanes whose bits are set execute the
  instruction together.
- *State space*: a kind of memory, such as global or shared memory. A *generic address* can belong
  to any of several state spaces.
- *Constant bank*: read-only memory with the arguments of a launch and other constants.
- *Fragment*: the part of a small matrix that one lane holds in its registers.
- *Phase*: one use of an mbarrier (a barrier in shared memory). A phase ends when all expected
  threads and bytes have arrived, and then the next phase begins.
- *Convergence barrier*: a register of machine code. If the lanes of a warp diverge, the register
  stores which lanes must wait for each other.
"""

SECTION = re.compile(r"^// ---- (?P<language>PTX|machine code): (?P<title>.*) ----$")
ROW = re.compile(
    r'^COALESCE_OPERATION\(\w+, "(?P<spelling>[^"]+)", \w+, \w+, .*, "(?P<sentence>[^"]+)"\)$'
)
LANGUAGES = {"PTX": "PTX", "machine code": "Machine code"}


def lines() -> Iterator[str]:
    """Yield the lines of the page."""
    yield HEAD.rstrip()
    language = ""
    for line in TABLE.read_text(encoding="utf-8").splitlines():
        if section := SECTION.match(line):
            if section["language"] != language:
                language = section["language"]
                yield f"\n## {LANGUAGES[language]}"
            title = section["title"][0].upper() + section["title"][1:]
            yield f"\n### {title}\n\n| instruction | what it does |\n|---|---|"
        elif row := ROW.match(line):
            sentence = row["sentence"].replace("|", "\\|")
            yield f"| `{row['spelling']}` | {sentence} |"
        elif line.startswith("COALESCE_OPERATION"):
            raise ValueError(f"not a row of the table: {line}")


def page() -> str:
    """Return the text of the page."""
    return "\n".join(lines()) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
