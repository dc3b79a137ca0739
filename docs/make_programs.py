"""Write docs/public_programs.md from docs/measured/programs.json (see benchmarks/programs.py).

python docs/make_programs.py [--check]
"""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

from pages import write

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
    "mismatch": "result wrong",
    "wrong": "ended with an error",
    "time": "time limit reached",
    "build": "not built",
    "crash": "ended by a signal",
}


def text(record: dict[str, Any]) -> str:
    """Return the page."""
    programs, lines = record["programs"], ["# Public programs", "", _METHOD, ""]
    commits = ", ".join(dict.fromkeys(p["commit"] for p in programs.values()))
    lines += [
        "The programs ran under these conditions (processor, cores, limits, date and command):",
        "",
        *(f"- {each}" for each in re.split(r"(?<=`)\. ", record["where"].rstrip("."))),
        "",
        f"The results are from several runs, with these commits: {commits}.",
        "",
    ]
    lines += [
        "| programs | " + " | ".join(OUTCOMES.values()) + " |",
        "|---" * (len(OUTCOMES) + 1) + "|",
    ]
    for suite, title in SUITES.items():
        own = [p["outcome"] for name, p in programs.items() if name.startswith(f"{suite}/")]
        if own:
            count = Counter(own)
            cells = " | ".join(str(count[outcome]) for outcome in OUTCOMES)
            lines.append(f"| {title} ({len(own)}) | {cells} |")
    for suite, title in SUITES.items():
        own = {n.split("/", 1)[1]: p for n, p in programs.items() if n.startswith(f"{suite}/")}
        if own:
            lines += [
                "",
                f"## {title}",
                "",
                "| program | outcome | how verified, or why not |",
                "|---|---|---|",
            ]
            for name, p in own.items():
                why = p.get("how", "") if p["outcome"] in ("verified", "ran") else _reason(p)
                lines.append(f"| {name} | {OUTCOMES[p['outcome']]} | {why} |")
    return "\n".join([*lines, ""])


def _reason(program: dict[str, Any]) -> str:
    """Return one line: this package's message, or else the end of the program's output."""
    if program["outcome"] == "time":
        return ""
    said = [line.strip() for line in program.get("why", "").splitlines() if line.strip()]
    said = [line for line in said if "cudaEventElapsedTime()" not in line]
    own = [line.removeprefix("coalesce: ") for line in said if line.startswith("coalesce: ")]
    line = (own or said or [""])[0 if own else -1]
    words = [word.rsplit("/", 1)[-1] if word.startswith("/") else word for word in line.split()]
    return " ".join(words)[:140].replace("|", "\\|").replace("<", "\\<").replace("_", "\\_")


_METHOD = """\
*Written by `docs/make_programs.py`; do not edit.*

Can coalesce run CUDA programs that other people wrote? To find out, `benchmarks/programs.py`
compiles and runs public programs with [`coalesce run`](whole_programs.md), without changes.

The tables have these outcomes:

- *result verified*: the results agree with a reference, and the program ended with status 0.
- *ran, no verification*: the program ended with status 0, but there is nothing to compare its
  results with.
- *result wrong*: the program ended with status 0, but its results differ from those of the
  reference.
- *time limit reached*: the program ran longer than its limit. With a higher limit, or on a machine
  that runs nothing else, it may end normally.

Most of NVIDIA's samples check their results themselves. The results of some other samples were
compared with NumPy. Samples that use cuBLAS or the host library of cuRAND run with
[replacements](whole_programs.md#cublas-and-curand) for these libraries. simpleMPI runs as one
process.

Rodinia is a set of benchmarks. Most of its programs do not check their results. Therefore their
results were compared with those of Rodinia's OpenMP programs, or with NumPy. The programs b+tree,
cfd and hybridsort run with smaller inputs than Rodinia's. Three programs were not run: mummergpu,
and two that need videos (heartwall and leukocyte).

This repository does not contain the programs. `benchmarks/programs.py` reads a list that says how
each program is built, and how its results are compared. The repository does not contain this list
either, but you can write your own: `benchmarks/programs.py` says what a list has to contain.

Three programs of Rodinia have mistakes:

- kmeans passes the name of a variable as a string to `cudaMemcpyToSymbol`. Since CUDA 5, this call
  returns an error. The program ignores the error, and its results are wrong.
- srad_v2 reads outside its array.
- In myocyte, two blocks write three values to the same addresses. The results depend on which block
  writes last.

The option `--check` reports the mistakes of srad_v2 and myocyte.

HeCBench (Heterogeneous Computing Benchmarks, commit f27000a51) has more than 500 CUDA programs. We
chose those that say whether their results are right, find their input files in their own folders,
and need no library except cuBLAS and cuRAND. A few that nvcc could not build were left out. The
programs run with smaller inputs and fewer repetitions than usual. Five programs end with an error:

- In bscan, only some threads of a block reach a barrier. The program itself says that its
  results are wrong.
- btree (with 5000 keys), histogram and threadcpy write outside their arrays.
- segsort executes a shuffle in a branch that only some lanes take, but the mask of the shuffle
  names all lanes. CUDA does not define what happens then.

A GPU does not report such mistakes. On an H200, too, bscan says that its results are wrong. The
programs btree, histogram and segsort report success. threadcpy did not end within 30 s."""


def main() -> None:
    write(text(json.loads(SOURCE.read_text(encoding="utf-8"))), TARGET)


if __name__ == "__main__":
    main()
