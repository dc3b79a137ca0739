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
    said = [line for line in said if "returns modelled times" not in line]
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
- *time limit reached*: the program ran longer than its limit. Other programs ran at the same time
  and slowed it down, so it may reach its end on a machine without other work, or with more time.

Most of NVIDIA's samples check their results themselves. Other samples print results that can be
computed with NumPy. The samples that use cuBLAS or cuRAND's host library run with
[replacements](whole_programs.md#cublas-and-curand) for these libraries. simpleMPI runs as one
process.

Most of Rodinia's programs do not check their results. Therefore their results are compared with
those of Rodinia's OpenMP program for the same input, or with a reference in NumPy. The table names
the reference, and says how far the numbers differ. The programs run with Rodinia's inputs, except
b+tree, cfd and hybridsort, which have smaller ones. Three programs of Rodinia were not run:
mummergpu, and two that need videos (heartwall and leukocyte).

The programs are not in this repository. A list says how each program is built and how its results
are compared; it is not in this repository, either. `benchmarks/programs.py` runs any such list, and
says what the list has to contain.

Three programs of Rodinia have mistakes:

- kmeans passes the name of a variable as a string to `cudaMemcpyToSymbol`. Since CUDA 5, this call
  returns an error for a string. The program ignores the error, and puts all points into the first
  cluster.
- srad_v2 reads outside its array.
- In myocyte, two blocks write three values to the same addresses, and nothing orders these writes.
  So the results depend on which block writes last. The reference program has no blocks that run at
  the same time: there, the values of the second block are always written last.

The option `--check` reports the mistakes of srad_v2 and myocyte.

HeCBench (Heterogeneous Computing Benchmarks, commit f27000a51) has more than 500 CUDA programs. A
program was chosen if it meets three conditions: it says whether its results are right, it finds its
input files in its own folder, and it needs no library except cuBLAS and cuRAND. A few of these were
left out, because nvcc could not build them. The programs run with smaller inputs and fewer
repetitions than usual, because a simulator is slower than a GPU. Five of them end with an error:

- In bscan, only some threads of a block reach a barrier. The program also says that its results are
  wrong.
- btree (with 5000 keys), histogram and threadcpy write outside their arrays.
- segsort executes a shuffle in a branch that only some lanes of the warp take. But the mask of the
  shuffle names all lanes. CUDA does not define what happens then.

These five programs of HeCBench were also tried by hand on an H200, which does not check accesses as
the simulator does. On the H200, too, bscan says that its results are wrong. btree, histogram and
segsort report success. threadcpy did not end within 30 s."""


def main() -> None:
    write(text(json.loads(SOURCE.read_text(encoding="utf-8"))), TARGET)


if __name__ == "__main__":
    main()
