"""Write docs/public_kernels.md from docs/measured/kernels.json and kernels_gpu.json.

`tools/any_repositories.py` and `tools/any_gpu.py` write these files.

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
GPU = DOCS / "measured" / "kernels_gpu.json"
OUTCOMES = (
    "right",
    "wrong",
    "not defined",
    "not compared",
    "nothing written",
    "fault",
    "refused",
    "too long",
    "crash",
    "exception",
)
_METHOD = """\
Can coalesce run any kernel that a user passes? To find out, `tools/any_repositories.py` tries
kernels of public repositories. (The kernels are not part of this repository.) A fixed rule chooses
up to 18 kernels of each repository by a hash of their names, so the choice does not depend on what
the kernels do. If the CUDA compiler refuses to compile a kernel, the next kernel replaces it. The
end of this page lists the replaced kernels.

Each file was passed to `coalesce.Kernel` without changes. The script makes up arguments from the
types of the parameters. Made-up arguments do not work for every kernel. For example, some kernels
need sizes that fit each other. For these kernels, a person wrote the arguments in a file, which is
not part of this repository.

The results are compared with up to two independent references:

1. A run on the host. g++ compiles the kernel's own source for the host
   (`tools/any_references.py`). For some kernels, a NumPy expression is the reference instead.
2. A run on a GPU. `tools/any_gpu.py` repeats the launch there.

These are the outcomes:

- *right*: the kernel wrote or printed something. The result agrees with at least one reference, and
  differs from no reference.
- *wrong*: the result differs from a reference, and [the check](checks.md) finds no mistake in the
  kernel.
- *not defined*: the result differs from a reference, but CUDA does not define which result is
  right. The kernel has a race, reads memory that nobody wrote, or reads a clock.
- *not compared*: the kernel ran to its end, but there is no reference. For example, g++ does not
  compile the kernel.
- *nothing written*: the kernel ran to its end, but wrote and printed nothing with these arguments.
- *fault*: the script made up several sets of arguments, and with each of them, the kernel accesses
  memory outside its arrays.
- *refused*: coalesce does not compile the kernel, does not simulate it, or does not support the
  type of one of its arguments.
- *too long*: the kernel did not compile in 200 s.
- *crash*, *exception*: the process ended without a result.
"""
_ON_GPU = """\
The launches of {launched} kernels were repeated on a GPU, in two runs on {date}. The GPU was an
{gpu}, and the compiler was {compiler}. If the check reported a race between blocks, the kernel was
launched with only one block. These are the outcomes, with the number of kernels in brackets:

- *equal* ({equal}): every bit of every array and variable is equal.
- *atomics* ({atomics}): floats differ by rounding, because atomics add them in no fixed order.
- *rounding* ({rounding}): floats differ by rounding for another reason. Most of these kernels use
  approximate functions of the GPU, such as `__expf` or `rsqrtf`.
- *order* ({order}): the kernel stores results at indices that atomics returned. A GPU executes the
  atomics in another order than the simulator, so a result can be at another index.
- *addresses* ({addresses}): the kernel writes addresses, which are different on a GPU.
- *not defined* ({undefined}): the results differ, but CUDA does not define them, because the kernel
  has a race or reads memory that nobody wrote.
- *different* ({different}): the results differ for another reason.
- *failed* ({failed}): the launch failed on the GPU.
"""
_OF_GPU = ("equal", "atomics", "rounding", "order", "addresses", "different", "failed")
_COUNTED = """\
{launches} of these launches were also measured with Nsight Compute. For these {launches} launches,
coalesce reports {metrics:,} counts as exact. In {unlike} of the {launches} launches, at least one
count that coalesce reports as exact differs from the counter of the GPU.
"""
# Why a count of a launch may differ.
_NOTES = {
    "kQuantize": "The kernel has branches that depend on uninitialised registers (`valid_items` of "
    "`cub::BlockLoad`), so the count is not defined.",
}


def text(record: dict[str, Any], gpu: dict[str, Any]) -> str:
    """Return the page."""
    keys = {_key(row) for row in record["kernels"]}
    gpu = {**gpu, "results": {k: r for k, r in gpu["results"].items() if k in keys}}
    rows = [_with_gpu(row, gpu["results"]) for row in record["kernels"]]
    count = Counter(row["outcome"] for row in rows)
    used = [outcome for outcome in OUTCOMES if count[outcome]]
    ran = [row for row in rows if "ptx" in row]
    on_ptx = [row for row in ran if row["ptx"]]
    repositories = dict.fromkeys((row["repository"], row["commit"]) for row in rows)
    machine = len(ran) - len(on_ptx)
    references = Counter(row.get("by", "") for row in rows if row["outcome"] == "right")
    lacking = f", and {len(rows)} of them were tried" * (len(rows) != record["chosen"])
    processor, cores, date = record["where"].split(", ")
    summary = (
        f"The rule chose {record['chosen']} kernels from {len(repositories)} repositories{lacking}:"
        "\n\n"
        f"- {count['right']} are right, and {count['wrong']} are wrong. {references['both']} of "
        f"the {count['right']} agree with both the host (g++ or NumPy) and a GPU, "
        f"{references['host']} only with the host, and {references['gpu']} only with a GPU."
        "\n"
        f"- {len(ran)} compiled. {machine} of these run on machine code, and {len(on_ptx)} on PTX."
        "\n"
        f"- For {sum(bool(row.get('own')) for row in rows)} kernels, a person wrote the arguments."
        "\n\n"
        "The figures come from several runs with different commits of coalesce. The last run was "
        f"on {date} on a machine with {cores} ({processor}). It tested coalesce in this state: "
        f"commit `{record['coalesce']}`."
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
    lines += ["", *_gpu_lines(gpu), "## Kernels that are not right", ""]
    lines += ["| kernel | outcome | detail |", "|---|---|---|"]
    for row in rows:
        if row["outcome"] != "right":
            lines.append(f"| {_place(row)} | {row['outcome']} | {_cell(row['detail'])} |")
    lines += ["", "## Kernels on PTX", "", "| kernel | why |", "|---|---|"]
    for row in on_ptx:
        lines.append(f"| {row['repository']}: {row['kernel']} | {_cell(row['ptx'])} |")
    lines += ["", "## Kernels that are not valid", ""]
    lines += ["Each of them was replaced by the next kernel of its repository.", ""]
    lines += ["| kernel | why |", "|---|---|"]
    for row in record["replaced"]:
        why = "the compiler does not see it" if row["outcome"] == "absent" else ""
        lines.append(f"| {_place(row)} | {why or _cell(row['detail'])} |")
    return "\n".join(lines) + "\n"


def _key(row: dict[str, Any]) -> str:
    return ":".join((row["repository"], row["file"], row["kernel"]))


def _place(row: dict[str, Any]) -> str:
    return f"{row['repository']}: {row['file']}, {row['kernel']}"


def _with_gpu(row: dict[str, Any], results: dict[str, Any]) -> dict[str, Any]:
    """Return a row whose outcome takes the comparison with a GPU into account."""
    key = _key(row)
    on_gpu = results.get(key, {}).get("outcome", "")
    right = row["outcome"] == "right"
    if on_gpu == "different" and right:
        return {**row, "outcome": "wrong", "detail": f"on a GPU: {results[key]['detail']}"}
    if on_gpu in ("equal", "atomics", "rounding"):
        return {**row, "outcome": "right", "by": "both" if right else "gpu"}
    return {**row, "by": "host"} if right else row


def _gpu_lines(gpu: dict[str, Any]) -> list[str]:
    rows = gpu["results"].values()
    count = Counter(row["outcome"] for row in rows)
    numbers = {outcome: count[outcome] for outcome in _OF_GPU} | {"undefined": count["not defined"]}
    where = {key: gpu[key] for key in ("date", "compiler")}
    where["gpu"] = "{} (driver {})".format(*gpu["gpu"].split(", "))
    lines = ["## On a GPU", "", _ON_GPU.format(launched=len(rows), **where, **numbers)]
    counted = [row for row in rows if "counted" in row]
    if counted:
        metrics = sum(row["counted"] for row in counted)
        unlike = sum(bool(row["unlike"]) for row in counted)
        lines += [_COUNTED.format(launches=len(counted), metrics=metrics, unlike=unlike)]
        for key, row in gpu["results"].items():
            for metric, (ours, theirs) in row.get("unlike", {}).items():
                note = _NOTES.get(key.rpartition(":")[2], "")
                name = key.replace(":", ": ", 1)
                lines.append(
                    f"- {name}: `{metric}` is {ours:g} on the simulator and {theirs:g} on the GPU. "
                    f"{note}"
                )
        lines += [""] * bool(unlike)
    unequal = [(key, row) for key, row in gpu["results"].items() if row["outcome"] != "equal"]
    lines += ["| kernel | outcome on the GPU | detail |", "|---|---|---|"]
    for key, row in unequal:
        lines.append(f"| {key.replace(':', ': ', 1)} | {row['outcome']} | {_cell(row['detail'])} |")
    return [*lines, ""]


def _cell(said: str) -> str:
    plain = " ".join(said.split()).replace("`", "")
    return f"`{plain}`".replace("|", r"\|") if plain else ""


def main() -> None:
    files = (json.loads(file.read_text(encoding="utf-8")) for file in (SOURCE, GPU))
    write(text(*files), TARGET)


if __name__ == "__main__":
    main()
