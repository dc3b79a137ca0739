"""Compute what a kernel's main loop costs from its machine code: a model of instruction issue.

A multiprocessor's scheduler issues one instruction per cycle. A multiply-add (FFMA) reads three
registers. The registers lie in two banks, by their number modulo 2. If two operands of an FFMA are
in the same bank, the FFMA takes one more cycle. If three operands are in the same bank, it takes
two more cycles. The previous instruction can leave an operand in the reuse cache of its slot
(``.reuse`` in the listing). Such an operand needs no bank. Therefore

    cycles = instructions + FFMAs with two operands in one bank + 2 * FFMAs with three

On an H200, the model is right within 1 % for a loop that waits for nothing else. The model does not
know latencies. `distance` says whether latencies are hidden: the fewest FFMAs between a load from
shared memory and the first use of the loaded value. A distance of 20 or more is enough.

Another version of the compiler changes these figures by several percent. NVRTC is also not
deterministic: it may make different PTX from the same source and options. The reason is that the
order in which NVRTC visits values depends on the addresses of its memory. (With NVRTC 13.5, the
result repeats if `setarch -R` switches address-space randomisation off.) NVRTC may move loads
written in C++, but not loads written in PTX. Therefore `split_k` loads its operands in PTX.
`--compiles 10` compiles ten times, and prints each result with the number of times that it
occurred.

Run this after changing compilers:

    python benchmarks/cost_model.py tensor_map
    python benchmarks/cost_model.py split_k -DTILE=64 --compiles 10
    python benchmarks/cost_model.py split_k -DTILE=128 --least 0.75    # status 1 if it is worse
    python benchmarks/cost_model.py kernel.cu -DNAME=VALUE
    python benchmarks/cost_model.py kernel.cubin
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

_INSTRUCTION = re.compile(r"/\*([0-9a-f]{4,6})\*/\s+(.*?)\s*;")
_BRANCH = re.compile(r"\bBRA(?:\.\w+)*\s+.*?(?:`\((\.L_\w+)\)|(0x[0-9a-f]+))")
_LABEL = re.compile(r"^(\.L_\w+):")


@dataclass(frozen=True)
class LoopCost:
    """The figures of one loop.

    Attributes
    ----------
    instructions, ffmas : int
        The number of instructions and of FFMAs in the loop's body.
    conflicts, triple_conflicts : int
        The number of FFMAs with two operands in one bank, and with three.
    distance : int
        The fewest FFMAs between a 16-byte load from shared memory and the first use of its result.
    mix : Counter
        The number of instructions of each operation.
    """

    instructions: int
    ffmas: int
    conflicts: int
    triple_conflicts: int
    distance: int
    mix: Counter[str]

    @property
    def cycles(self) -> int:
        """Issue cycles of one iteration."""
        return self.instructions + self.conflicts + 2 * self.triple_conflicts

    @property
    def efficiency(self) -> float:
        """The share of the FFMA peak that the loop can reach."""
        return self.ffmas / self.cycles

    def __str__(self) -> str:
        rest = ", ".join(f"{n} {op}" for op, n in self.mix.most_common() if op != "FFMA")
        return (
            f"{self.efficiency:.4f} of peak: {self.ffmas} FFMA in {self.cycles} cycles "
            f"({self.instructions} instructions of {16 * self.instructions / 1024:.1f} KB; "
            f"{self.conflicts / self.ffmas:.2%} of FFMAs with two operands in one bank, "
            f"{self.triple_conflicts} with three; "
            f"load to use at least {self.distance} FFMAs; {rest})"
        )


def main_loop(listing: str) -> list[str]:
    """Return the instructions of the innermost loop that has the largest share of FFMAs."""
    instructions: list[str] = []
    address_of: dict[int, int] = {}
    label_at: dict[str, int] = {}
    for line in listing.splitlines():
        if label := _LABEL.match(line):
            label_at[label[1]] = len(instructions)
        elif match := _INSTRUCTION.search(line):
            address_of[int(match[1], 16)] = len(instructions)
            instructions.append(match[2])
    best: tuple[float, list[str]] = (0.0, [])
    for at, text in enumerate(instructions):
        branch = _BRANCH.search(text)
        if branch is None:
            continue
        target = label_at.get(branch[1]) if branch[1] else address_of.get(int(branch[2], 16))
        if target is None or target > at:
            continue
        body = instructions[target : at + 1]
        ffmas = sum(_is_ffma(i) for i in body)
        if ffmas >= 64 and ffmas / len(body) > best[0]:
            best = (ffmas / len(body), body)
    return best[1]


def loop_cost(body: list[str]) -> LoopCost:
    """Return the cost of a loop's body."""
    cached: list[int | None] = [None, None, None]
    conflicts = triples = 0
    for text in body:
        if not _is_ffma(text):
            continue
        banks: Counter[int] = Counter()
        kept: list[int | None] = [None, None, None]
        for slot, operand in enumerate(_operands(text)[1:4]):
            register = re.match(r"-?\|?R(\d+)(\.reuse)?", operand)
            if register is None:
                continue
            number = int(register[1])
            if cached[slot] != number:
                banks[number % 2] += 1
            kept[slot] = number if register[2] else None
        cached = kept
        most = max(banks.values(), default=0)
        conflicts += most == 2
        triples += most == 3
    ffmas = sum(_is_ffma(text) for text in body)
    mix = Counter(re.sub(r"^@!?U?P\w+\s+", "", text).split()[0].split(".")[0] for text in body)
    return LoopCost(len(body), ffmas, conflicts, triples, _distance(body), mix)


def _distance(body: list[str]) -> int:
    least = len(body)
    for at, text in enumerate(body):
        load = re.search(r"LDS\.128 R(\d+)", text)
        if load is None:
            continue
        wanted = {f"R{int(load[1]) + i}" for i in range(4)}
        count = 0
        for later in body[at + 1 :] + body[: at + 1]:
            if not _is_ffma(later):
                continue
            if wanted & {operand.split(".")[0] for operand in _operands(later)[1:]}:
                break
            count += 1
        least = min(least, count)
    return least


def _is_ffma(text: str) -> bool:
    return re.search(r"\bFFMA\b", text) is not None


def _operands(text: str) -> list[str]:
    return [part.strip() for part in text.split("FFMA", 1)[1].split(",")]


def disassembled(cubin: bytes) -> str:
    """Return the disassembly of a cubin."""
    from cuda.pathfinder import find_nvidia_binary_utility  # type: ignore[import-untyped]

    program = find_nvidia_binary_utility("nvdisasm") or "nvdisasm"
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        done = subprocess.run(
            [program, "-c", file.name], capture_output=True, text=True, check=True
        )
    return done.stdout


def compiled(source: str, arch: str, options: Sequence[str] = (), name: str = "kernel.cu") -> str:
    """Return the listing of the machine code that NVRTC makes from a kernel's source."""
    from coalesce.compile import nvrtc

    made = nvrtc.compile_cuda(source, arch=arch, options=options, name=name)
    assert made.cubin is not None
    return disassembled(made.cubin)


def compiler() -> str:
    """Return the compiler and its version: "NVRTC 13.5"."""
    from coalesce.compile import nvrtc

    return "NVRTC {}.{}".format(*nvrtc.nvrtc().version)


def of_variant(name: str, options: Sequence[str] = (), number: int = 0) -> str:
    """Return the listing of a variant of matmul, compiled for an H200.

    Sources with different `number` have different empty lines at their end. So the compiler is
    called instead of the cache.
    """
    from coalesce import catalogue

    entry = catalogue.find("matmul", name)
    return compiled(
        catalogue.read_kernel(entry.file) + number * "\n",
        "sm_90a" if entry.tensor_maps else "sm_90",
        ["-DREAL=float", "-DINDEX=int", *options],
    )


def main(arguments: list[str]) -> int:
    """Print the cost of the main loop of each kernel."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "file", type=Path, help="a variant of matmul, a .cu, a .cubin or a listing of nvdisasm"
    )
    parser.add_argument("--arch", default="sm_90", help="for a .cu (default sm_90)")
    parser.add_argument("--least", type=float, help="the share of peak expected")
    parser.add_argument("--compiles", type=int, default=1, help="for a variant (default 1)")
    parsed, options = parser.parse_known_args(arguments)
    options = [option for option in options if option.startswith("-")]
    if parsed.file.suffix in ("", ".cu"):
        if parsed.file.suffix == ".cu":
            listings = [compiled(parsed.file.read_text(), parsed.arch, options, parsed.file.name)]
        else:
            listings = [of_variant(parsed.file.name, options, n) for n in range(parsed.compiles)]
        print(compiler(), end=": ")
    elif parsed.file.suffix == ".cubin":
        listings = [disassembled(parsed.file.read_bytes())]
    else:
        listings = [parsed.file.read_text()]
    bodies = [main_loop(listing) for listing in listings]
    if not all(bodies):
        print(f"{parsed.file}: no loop with 64 FFMAs or more")
        return 1
    costs = [loop_cost(body) for body in bodies]
    for text, times in Counter(map(str, costs)).most_common():
        print(f"{times} of {len(costs)}: {text}" if len(costs) > 1 else text)
    if parsed.least is not None and min(cost.efficiency for cost in costs) < parsed.least:
        print(f"{parsed.file}: worse than {parsed.least}: another compiler, or another source?")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
