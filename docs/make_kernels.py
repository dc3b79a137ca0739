"""Write docs/public_kernels.md from docs/measured/kernels.json (see tests/any_repositories.py).

python docs/make_kernels.py [--check]
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

from pages import write

DOCS = Path(__file__).parent
SOURCE, TARGET = DOCS / "measured" / "kernels.json", DOCS / "public_kernels.md"
OUTCOMES = (
    "right",
    "wrong",
    "not defined",
    "not compared",
    "nothing written",
    "fault",
    "refused by nvcc, too",
    "refused",
    "absent",
    "too long",
    "crash",
    "exception",
)
_METHOD = """\
Can coalesce run any kernel that a user passes? To find out, `tests/any_repositories.py` tries
kernels of public repositories. (The kernels are not part of this repository.) The kernels were
chosen by a rule, before anything ran. The rule sorts the kernels of each repository by a hash of
their names, and takes at most 18 from the start of this list. No chosen kernel was left out
afterwards.

Each file was passed to `coalesce.Kernel` as it is. The arguments were made up: the script knows the
types of the parameters, also of the members of structures, but not what they mean. If a template
needs a function object that its file does not have, the script adds one. The results are compared
with a reference: the kernel's own source, compiled by g++ and run on the host
(`tests/any_references.py`).

- *right*: the result equals that of the reference, and the kernel wrote or printed something.
- *wrong*: the results differ, and the check finds no reason.
- *not defined*: the results differ, and the check reports a race or memory that nobody wrote, or
  the kernel reads a clock.
- *not compared*: the kernel ran to its end, but g++ does not compile it or takes too long, or the
  kernel writes addresses.
- *nothing written*: the kernel ran to its end, but wrote and printed nothing with these arguments.
- *fault*: every launch with made-up arguments accesses memory outside its arrays. Most of these
  kernels need sizes that fit each other, or read addresses and indices from their arrays.
- *refused by nvcc, too*: nvcc 13.0 reports the same error. Not every refused kernel was given to
  nvcc.
- *refused*: coalesce does not compile the kernel, or does not simulate it. Some templates are
  refused because the script made up their arguments.
- *absent*: the compiler does not see the kernel, because of `#if`.
- *too long*: the kernel did not compile in 150 s.
- *crash*: the process ended without a result, because coalesce was installed again meanwhile.
"""


def text(found: dict[str, Any]) -> str:
    """Return the page."""
    rows = found["kernels"]
    count = Counter(row["outcome"] for row in rows)
    used = [outcome for outcome in OUTCOMES if count[outcome]]
    ran = [row for row in rows if "ptx" in row]
    on_ptx = [row for row in ran if row["ptx"]]
    repositories = dict.fromkeys((row["repository"], row["commit"]) for row in rows)
    machine = len(ran) - len(on_ptx)
    summary = (
        f"The rule chose {found['chosen']} kernels, and {len(rows)} of them were tried, from "
        f"{len(repositories)} repositories. {count['right']} are right, and {count['wrong']} are "
        f"wrong. {len(ran)} compiled; {machine} of these run on machine code, and {len(on_ptx)} on "
        "PTX. There were several runs while coalesce was changed. A later run repeats only kernels "
        f"that were not right before. The last run: {found['where']}."
    )
    lines = [
        *("# Public kernels", "", "*Written by `docs/make_kernels.py`; do not edit.*", ""),
        _METHOD,
        summary,
        "",
        "| repository | commit | " + " | ".join(used) + " |",
        "|---" * (len(used) + 2) + "|",
    ]
    for repository, commit in repositories:
        own = Counter(row["outcome"] for row in rows if row["repository"] == repository)
        cells = " | ".join(str(own[outcome]) for outcome in used)
        lines.append(f"| {repository} | `{commit}` | {cells} |")
    lines.append(f"| all | | {' | '.join(str(count[outcome]) for outcome in used)} |")
    lines += ["", "## Kernels that are not right", ""]
    lines += ["| kernel | outcome | detail |", "|---|---|---|"]
    for row in rows:
        if row["outcome"] != "right":
            place = f"{row['repository']}: {row['file']}, {row['kernel']}"
            lines.append(f"| {place} | {row['outcome']} | {_cell(row['detail'])} |")
    lines += ["", "## Kernels on PTX", "", "| kernel | why |", "|---|---|"]
    for row in on_ptx:
        lines.append(f"| {row['repository']}: {row['kernel']} | {_cell(row['ptx'])} |")
    return "\n".join(lines) + "\n"


def _cell(said: str) -> str:
    plain = " ".join(said.split()).replace("`", "")
    return f"`{plain}`".replace("|", r"\|") if plain else ""


def main() -> None:
    write(text(json.loads(SOURCE.read_text(encoding="utf-8"))), TARGET)


if __name__ == "__main__":
    main()
