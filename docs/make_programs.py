"""Write docs/public_programs.md from docs/measured/programs.json (see benchmarks/programs.py).

python docs/make_programs.py [--check]
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parent
SOURCE, TARGET = DOCS / "measured" / "programs.json", DOCS / "public_programs.md"
SUITES = {
    "0_Introduction": "NVIDIA's samples: Introduction",
    "2_Concepts_and_Techniques": "NVIDIA's samples: Concepts and Techniques",
    "3_CUDA_Features": "NVIDIA's samples: CUDA Features",
    "6_Performance": "NVIDIA's samples: Performance",
    "Rodinia": "Rodinia",
    "HeCBench": "HeCBench",
}
OUTCOMES = {
    "verified": "result verified",
    "ran": "ran, no verification",
    "wrong": "ended with an error",
    "time": "time limit reached",
    "build": "not built",
    "crash": "ended by a signal",
}


def text(found: dict[str, Any]) -> str:
    """Return the page."""
    programs, lines = found["programs"], ["# Public programs", "", _METHOD, "", found["where"], ""]
    lines += ["| programs | " + " | ".join(OUTCOMES.values()) + " |", "|---" * 7 + "|"]
    for suite, title in SUITES.items():
        own = [p["outcome"] for name, p in programs.items() if name.startswith(f"{suite}/")]
        if own:
            count = Counter(own)
            cells = " | ".join(str(count[outcome]) for outcome in OUTCOMES)
            lines.append(f"| {title} ({len(own)}) | {cells} |")
    for suite, title in SUITES.items():
        own = {n.split("/", 1)[1]: p for n, p in programs.items() if n.startswith(f"{suite}/")}
        if own:
            lines += ["", f"## {title}", "", "| program | outcome | why |", "|---|---|---|"]
            for name, p in own.items():
                why = "" if p["outcome"] in ("verified", "ran") else _reason(p)
                lines.append(f"| {name} | {OUTCOMES[p['outcome']]} | {why} |")
    return "\n".join([*lines, ""])


def _reason(program: dict[str, Any]) -> str:
    """Return one line: this package's message, or else the end of the program's output."""
    said = [line.strip() for line in program.get("why", "").splitlines() if line.strip()]
    own = [line.removeprefix("coalesce: ") for line in said if line.startswith("coalesce: ")]
    own = [line for line in own if "modelled times" not in line]
    line = (own or said or [""])[0 if own else -1]
    words = [word.rsplit("/", 1)[-1] if word.startswith("/") else word for word in line.split()]
    return " ".join(words)[:140].replace("|", "\\|").replace("<", "\\<").replace("_", "\\_")


_METHOD = """\
*Written by `docs/make_programs.py`; do not edit.*

Can coalesce run CUDA programs that other people wrote? To find out, `benchmarks/programs.py`
compiles and runs public programs with [`coalesce run`](whole_programs.md), without changes. (The
programs are not part of this repository.)

The tables have these outcomes:

- *result verified*: the program compared its own results with a reference, and ended with status 0.
- *ran, no verification*: the program ended with status 0, but it does not check its results.
- *time limit reached*: the program ran longer than its limit. This does not mean that it hangs.
  Other work ran on the machine at the same time.

Rodinia's repository does not have the inputs of its programs, so the script makes inputs."""


def main() -> None:
    page = text(json.loads(SOURCE.read_text()))
    if "--check" in sys.argv[1:]:
        if TARGET.read_text() != page:
            sys.exit(f"{TARGET} is not what {SOURCE} gives: run python docs/make_programs.py")
        return
    TARGET.write_text(page)


if __name__ == "__main__":
    main()
