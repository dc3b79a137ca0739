"""Write docs/ladder.md from docs/measured/ladder.json, which benchmarks/ladder.py measured.

python docs/make_ladder.py [--check]
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import coalesce

DOCS = Path(__file__).parent
SOURCE, TARGET = DOCS / "measured" / "ladder.json", DOCS / "ladder.md"
LADDER = (4096, 4096, 4096)


def text(found: dict[str, Any]) -> str:
    """Return the page."""
    gpu = found["gpu"]
    major, minor = found["cublas"] // 10000, found["cublas"] // 100 % 100
    where = (
        f"{gpu['name']}, driver {gpu['driver_version']}, NVRTC {found['nvrtc']}, "
        f"cuBLAS {major}.{minor}, {found['date']}: `{found['command']}`."
    )
    lines = [
        "# The ladder, measured",
        "",
        where,
        _METHOD,
        "",
        "## Every rung at 4096 x 4096 x 4096",
        "",
        "| rung | TFLOP/s | of cuBLAS | spread | idea |",
        "|---|---|---|---|---|",
    ]
    by_shape = {(s["m"], s["n"], s["k"]): s["rungs"] for s in found["shapes"]}
    rungs = by_shape[LADDER]
    library = rungs["cublas"]
    for variant in coalesce.variants("matmul"):
        for name in (
            variant.name,
            f"{variant.name} tile={variant.tiles[-1] if variant.tiles else 0}",
        ):
            if name in rungs:
                row = rungs[name]
                lines.append(
                    f"| `{variant.name}` | {row['tflops']:.2f} | {library['ms'] / row['ms']:.3f} "
                    f"| {row['spread']:.1%} | {variant.sentence} |"
                )
    lines += [
        f"| cuBLAS | {library['tflops']:.2f} | 1 | {library['spread']:.1%} | |",
        "",
        "## The fastest rung of each shape",
        "",
        "| M x N x K | rung | TFLOP/s | cuBLAS | ratio | SM clock, power after |",
        "|---|---|---|---|---|---|",
    ]
    for shape in found["shapes"]:
        rungs = shape["rungs"]
        best = min((name for name in rungs if name != "cublas"), key=lambda name: rungs[name]["ms"])
        after = shape["clocks"][1]
        lines.append(
            f"| {shape['m']} x {shape['n']} x {shape['k']} | `{best}` | "
            f"{rungs[best]['tflops']:.2f} | {rungs['cublas']['tflops']:.2f} | "
            f"{rungs['cublas']['ms'] / rungs[best]['ms']:.3f} | "
            f"{after['clocks.sm']}, {after['power.draw']} |"
        )
    lines += ["", _LIMITS]
    return "\n".join(lines) + "\n"


_METHOD = """\
Float32, random numbers; every result was checked against float64. Rungs and cuBLAS (without TF32)
take turns, so that they see the same clocks. A time is the median of the rounds and includes what a
rung does to its operands first. L2 is as the rung's own last run leaves it.
`python docs/make_ladder.py` writes this page."""

_LIMITS = """\
## What limits the top

The main loop of `tma` is 1024 multiply-adds in 1153 issue cycles, 0.888 of peak
(`python benchmarks/cost_model.py` with ptxas 13.0), which would be 59 TFLOP/s. Versions of the loop
that the model rates from 0.84 to 0.90 ran equally fast, so bank conflicts are not what limits it.
The copies of B may be: a bulk copy takes its operands from uniform registers, so 32 of them by
the lanes of a warp are a loop of 8 instructions that runs 32 times for each stage. With a warp that
does only the copies, the kernel was slower (50 TFLOP/s at 4096). To be tried next: a tensor map,
which copies a stage of B with one instruction. At 8192 the clock falls to 1875 MHz at 680 W.

`split_k` copies A one element at a time, to transpose it on the way; copies and their addresses
take instructions from the multiply-adds at 1000 and 1024. Narrow and deep products (64 x 64 x 8192)
need more than 8 parts of K.
"""


def main() -> int:
    """Write the page, or with --check say whether it is as it would be written."""
    page = text(json.loads(SOURCE.read_text(encoding="utf-8")))
    if "--check" in sys.argv[1:]:
        return int(TARGET.read_text(encoding="utf-8") != page)
    TARGET.write_text(page, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
