"""Compare the models of caches and time with a GPU's counters.

``python docs/model_accuracy.py`` runs the launches of tests/data/models_h200.json on the simulator.
It prints the errors of each launch and the medians. ``--only REGEX`` selects launches. The rows are
stored in docs/measured; docs/make_models.py makes a page from them. With ``--first-rounds 2``, only
twice as many blocks run as the GPU holds at once, and the model extrapolates from them. Without it,
matrix products of size 4096 would take an hour.

In some launches, the simulator executes the PTX. The GPU's assembler merges and removes some of its
instructions, so the time model gets other instructions than the GPU executes. For the column
"(rec.)", the time model gets the *recorded* instructions, requests and traffic instead. So this
column shows the error of the time model alone.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import re
import statistics
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

TESTS = Path(__file__).parent.parent / "tests"
sys.path.insert(0, str(TESTS))

import counter_cases  # noqa: E402

from coalesce import _core  # noqa: E402
from coalesce.catalogue.run import Launcher  # noqa: E402
from coalesce.kernel import LaunchRecord  # noqa: E402
from coalesce.launch.launch import Launch  # noqa: E402
from coalesce.launch.modelled import Modelled  # noqa: E402
from coalesce.launch.simulated import simulate  # noqa: E402

ROWS = Path(__file__).parent / "measured" / "models_h200.json"
RECORDING = TESTS / "data" / "models_h200.json"
# Sizes that the simulator runs in seconds. Matrix products of size 2048 and 4096 take minutes.
QUICK = r" (512|1024)x|^(transpose|row_sums|column_sums|access)/(?!gather 16777216)"


@dataclass(frozen=True)
class Row:
    """The predicted and measured values of a launch."""

    case: str
    hit_rate: tuple[float, float]  # of L1, in percent: (predicted, measured)
    l2_sectors: tuple[float, float]  # sectors read and written
    dram_bytes: tuple[float, float]
    us: tuple[float, float]
    us_recorded: float  # the time model's result for recorded counts
    bound: str
    share: float  # the share of the blocks that was replayed
    seconds: float  # the simulator's run time

    @property
    def errors(self) -> dict[str, float]:
        """Return the error of the hit rate in points, and relative errors of the others."""
        differences = {"L1 hit rate": self.hit_rate[0] - self.hit_rate[1]}
        compared = {"L2 sectors": self.l2_sectors, "DRAM bytes": self.dram_bytes, "time": self.us}
        for name, (ours, theirs) in compared.items():
            differences[name] = ours / theirs - 1 if theirs else 0.0
        differences["time, recorded counts"] = self.us_recorded / self.us[1] - 1
        return differences


def measured(launch: Mapping[str, Any]) -> dict[str, float]:
    """Return the measured values of a recorded launch that are compared."""
    m = launch["metrics"]
    return {
        "hit_rate": m["l1tex__t_sector_hit_rate.pct"],
        "l2_sectors": m["lts__t_sectors_srcunit_tex_op_read.sum"]
        + m["lts__t_sectors_srcunit_tex_op_write.sum"],
        "dram_bytes": m["dram__bytes_read.sum"] + m["dram__bytes_write.sum"],
        "us": m["gpu__time_duration.sum"] / 1e3,
    }


def on_recorded_counts(launch: Mapping[str, Any], work: Mapping[str, float]) -> float:
    """Return modelled microseconds: recorded counts, simulated waits and constants."""
    m = launch["metrics"]
    blocks, threads = math.prod(launch["grid"]), math.prod(launch["block"])
    l2_reads = m["lts__t_sectors_srcunit_tex_op_read.sum"]
    l2_writes = m["lts__t_sectors_srcunit_tex_op_write.sum"]
    dram_reads = m["dram__bytes_read.sum"]
    loads = max(1, m["l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum"])
    shared = m["l1tex__data_pipe_lsu_wavefronts_mem_shared.sum"]
    recorded = {
        **work,
        "instructions": m["smsp__inst_executed.sum"],
        "fp32": m["smsp__inst_executed_pipe_fma.sum"],
        "fp64": m["smsp__inst_executed_pipe_fp64.sum"],
        "requests": m["l1tex__lsuin_requests.sum"],
        "tag_lookups": m["l1tex__data_pipe_lsu_wavefronts.sum"] - shared,
        "shared_wavefronts": shared,
        "l2_sectors": l2_reads + l2_writes,
        "l2_writes": l2_writes,
        "dram_bytes": dram_reads + m["dram__bytes_write.sum"],
        "instructions_per_warp": m["smsp__inst_executed.sum"] / blocks / -(-threads // 32),
        "from_dram": min(1.0, dram_reads / 32 / loads),
        "from_l2": max(0.0, (l2_reads - dram_reads / 32) / loads),
    }
    recorded["l2_partial_writes"] = min(work["l2_partial_writes"], l2_writes)
    static = m["launch__shared_mem_per_block"] - 1024
    registers = m["launch__registers_per_thread"]
    modelled = _core.model.time("h200", threads, registers, static, recorded)
    return 1e3 * float(modelled["ms"])


def first_rounds(rounds: int) -> Launcher:
    """Return a launcher that runs only `rounds` times as many blocks as the GPU holds at once.

    The model extrapolates from the last wave of blocks to the grid. The kernel's results are wrong.
    """

    def launcher(launch: Launch, _variant: _core.ops.Variant) -> LaunchRecord:
        result = simulate(launch, counts=True, caches=True, first_rounds=rounds)
        modelled = Modelled.of(result.model)
        name = launch.device.name
        return LaunchRecord(modelled.ms, runs=1, device=name, modelled=modelled)

    return launcher


def rows(only: str, rounds: int = 0, name: str = "models") -> Iterator[Row]:
    """Run the recorded launches of a set whose case matches the pattern."""
    recording = counter_cases.load(RECORDING.with_name(f"{name}_h200.json"))
    recorded = {(launch["case"], launch["kernel"]): launch for launch in recording["launches"]}
    for case in counter_cases.SETS[name]():
        if not re.search(only, case.name):
            continue
        start = time.perf_counter()
        how = {"launcher": first_rounds(rounds)} if rounds else {}
        kernel, record = case.run("sim", timed=True, **how)[-1]
        seconds = time.perf_counter() - start
        launch = recorded[case.name, kernel]
        real, model = measured(launch), record.modelled
        ours = model.metrics()
        yield Row(
            case.name,
            (ours["l1tex__t_sector_hit_rate.pct"], real["hit_rate"]),
            (model.caches["l2_reads"] + model.caches["l2_writes"], real["l2_sectors"]),
            (ours["dram__bytes_read.sum"] + ours["dram__bytes_write.sum"], real["dram_bytes"]),
            (1e3 * model.ms, real["us"]),
            on_recorded_counts(launch, model.work),
            model.bound,
            model.share,
            round(seconds, 1),
        )


def medians(compared_rows: Iterable[Row]) -> dict[str, float]:
    """Return the median size of each error."""
    errors = [row.errors for row in compared_rows]
    return {name: statistics.median(abs(e[name]) for e in errors) for name in errors[0]}


def in_order(compared_rows: Iterable[Row], recorded: bool = False) -> tuple[int, int]:
    """Return how many pairs of variants are predicted in order, and the number of pairs."""
    compared = list(pairs(compared_rows))
    return sum(_right(a, b, recorded) for _, a, b in compared), len(compared)


def _right(a: Row, b: Row, recorded: bool = False) -> bool:
    ours = a.us_recorded - b.us_recorded if recorded else a.us[0] - b.us[0]
    return ours * (a.us[1] - b.us[1]) > 0


def pairs(compared_rows: Iterable[Row]) -> Iterator[tuple[str, Row, Row]]:
    """Yield pairs of variants of an operation and size whose times differ by over a tenth."""
    groups: dict[str, list[Row]] = {}
    for row in compared_rows:
        variant, _, rest = row.case.partition(" ")
        operation = variant.partition("/")[0]
        size = rest if operation != "access" else rest.split()[0]
        groups.setdefault(f"{operation} {size}", []).append(row)
    for group, members in groups.items():
        for a, b in itertools.combinations(members, 2):
            if max(a.us[1], b.us[1]) > 1.1 * min(a.us[1], b.us[1]):
                yield group, a, b


def load(path: Path = ROWS) -> list[Row]:
    """Return the stored rows, in the order of the recording."""
    return [Row(**{k: _pair(v) for k, v in row.items()}) for row in json.loads(path.read_text())]


def _pair(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def save(path: Path, kept: Mapping[str, Row]) -> None:
    """Write one row per line, in the order of the recording."""
    order = [launch["case"] for launch in counter_cases.load(RECORDING)["launches"]]
    lines = [json.dumps(asdict(kept[case])) for case in order if case in kept]
    path.write_text("[\n" + ",\n".join(lines) + "\n]\n")


def main() -> None:
    """Run the launches and print the errors."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default=QUICK, metavar="REGEX")
    parser.add_argument("--first-rounds", type=int, default=0, metavar="N")
    parser.add_argument("--output", type=Path, default=ROWS, help="where to keep the rows")
    options = parser.parse_args()
    kept = {row.case: row for row in load(options.output)} if options.output.exists() else {}
    print(f"{'launch':<50}{'L1 hit':>9}{'L2':>8}{'DRAM':>8}{'time':>8}{'(rec.)':>8}  bound")
    all_rows = []
    for row in rows(options.only, options.first_rounds):
        all_rows.append(row)
        e = row.errors
        print(
            f"{row.case:<50}{e['L1 hit rate']:>+9.2f}{e['L2 sectors']:>+8.0%}"
            f"{e['DRAM bytes']:>+8.0%}{e['time']:>+8.0%}{e['time, recorded counts']:>+8.0%}"
            f"  {row.bound}, {row.share:.0%} replayed, {row.seconds:.1f} s",
            flush=True,
        )
        kept[row.case] = row
        save(options.output, kept)
    for name, value in medians(all_rows).items():
        unit = f"{value:.2f} points" if name == "L1 hit rate" else f"{value:.1%}"
        print(f"median error of {name}: {unit}")
    for group, a, b in pairs(all_rows):
        if not _right(a, b):
            print(f"order predicted wrong, {group}: {a.case}, {b.case}")


if __name__ == "__main__":
    main()
