"""Records hardware counters of the package's kernels with Nsight Compute in tests/data.

    python tools/record_counters.py shipped awkward patterns    # for the tests of exactness
    python tools/record_counters.py models tag_sets             # for the models of caches and time
    python tools/record_counters.py programs unseen             # for both
    python tools/record_counters.py public                      # all metrics, for docs/counters.md
    python tools/record_counters.py models --only 512 --repeats 5
    python tools/record_counters.py programs --add 'smsp__inst_issued{,_per_warp}.sum'

The script needs a GPU, `ncu`, and permission to read counters. It does not change the clocks. It
writes tests/data/<set>_<gpu>.json, which counter_cases.load reads. The file has the GPU, the
driver, the versions of the compiler and of Nsight Compute, the date and the names of the metrics.
Each launch has a line with its case, kernel, geometry and values. With --only, the other cases of
the file stay unchanged, and the date is that of the first and of the last recording. With
--repeats, each value is the median of that many recordings, because times of a few microseconds
vary by a tenth. With --add, only these metrics are recorded, and added to the launches of the file.
The set `public` becomes a compressed CSV file in docs/measured instead.
"""

import argparse
import csv
import datetime
import gzip
import io
import itertools
import json
import math
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

import counter_cases

import coalesce
from coalesce.compile import nvrtc

DATA = Path(__file__).parents[1] / "tests" / "data"
MEASURED = Path(__file__).parents[1] / "docs" / "measured"


def expand(*patterns: str) -> list[str]:
    """Spell out names written as "a_{b,c}.sum"."""
    names: list[str] = []
    for pattern in patterns:
        alternatives = re.search(r"\{([^{}]*)\}", pattern)
        if alternatives is None:
            names.append(pattern)
            continue
        before, after = pattern[: alternatives.start()], pattern[alternatives.end() :]
        names += expand(*(before + part + after for part in alternatives[1].split(",")))
    return names


COUNTS = expand(
    "l1tex__t_{requests,sectors}_pipe_lsu_mem_global_op_{ld,st,red,atom}.sum",
    "l1tex__t_requests_pipe_lsu_mem_global_op_ldgsts_cache_access.sum",
    "l1tex__t_sectors_pipe_lsu_mem_global_op_ldgsts_cache_access.sum",
    "l1tex__t_{requests,sectors}_pipe_lsu_mem_local_op_{ld,st}.sum",
    "l1tex__data_pipe_lsu_wavefronts_mem_shared{,_op_ld,_op_st,_op_atom}.sum",
    "l1tex__data_bank_conflicts_pipe_lsu_mem_shared{,_op_ld,_op_st,_op_atom}.sum",
    "l1tex__data_bank_conflicts_type_arbitration.sum",
    "smsp__inst_executed.sum",
    "smsp__thread_inst_executed{,_pred_on}.sum",
    "smsp__sass_thread_inst_executed_op_{f,d,h}{add,mul,fma}_pred_on.sum",
    "smsp__inst_executed_op_{global,shared,local,generic}_{ld,st}.sum",
    "smsp__inst_executed_op_{global,shared,local,generic}_{ld,st}_pred_off_all.sum",
    "smsp__inst_executed_op_{global_red,shared_atom,generic_atom,ldgsts}.sum",
    "smsp__inst_executed_op_{global_red,shared_atom,generic_atom,ldgsts}_pred_off_all.sum",
    "smsp__inst_executed_op_{shared_atom,generic_atom}_dot_{alu,cas}.sum",
    "smsp__sass_inst_executed_op_{global,shared,local}_{ld,st}.sum",
    "smsp__sass_inst_executed_op_{global_red,global_atom,shared_atom,ldgsts}.sum",
    "smsp__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared_op_{ld,st,atom,ldgsts}.sum",
    "smsp__sass_average_data_bytes_per_sector_mem_{global,local}_op_{ld,st}.pct",
    "smsp__sass_average_data_bytes_per_wavefront_mem_shared_op_{ld,st}.pct",
    "smsp__sass_data_bytes_mem_{global,shared,local}_op_{ld,st}.sum",
    "memory_l1_tag_requests_global",
    "memory_l1_wavefronts_shared{,_ideal}",
    "memory_l2_theoretical_sectors_global{,_ideal}",
    "memory_l2_theoretical_sectors_local",
)

# For the many patterns: only metrics that depend on the addresses.
OF_PATTERNS = [
    name
    for name in COUNTS
    if re.match(
        "l1tex__t_.*global|l1tex__data_pipe|memory_|smsp__sass_l1tex|smsp__inst_.*shared", name
    )
    or name.startswith("l1tex__data_bank_conflicts")
]

# Metrics of tensor cores and of their operands in shared memory.
OF_TENSOR_CORES = expand(
    "sm__inst_executed_pipe_tensor{,_op_hmma,_op_imma,_op_dmma}.sum",
    "sm__pipe_tensor_cycles_active.sum",
    "sm__ops_path_tensor_src_{fp16,bf16_dst_fp32,tf32_dst_fp32,fp64,int8,int1}.sum",
    "smsp__inst_executed_op_{ldsm,shared_stsm}.sum",
    "smsp__sass_inst_executed_op_{ldsm,shared_stsm}.sum",
    "smsp__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared_op_{ldsm,stsm}.sum",
)
OF_MATRICES = [
    name
    for name in (*COUNTS, *OF_TENSOR_CORES)
    if re.search("mem_shared_op_(ld|st|ldsm|stsm)\\.sum|memory_l1_w|op_(ldsm|shared_)", name)
]

# Metrics of the texture unit, among those that the GPU has (`available`).
OF_TEXTURES = re.compile(
    r"l1tex__(t_(requests|sectors)_pipe_tex\w*|texin_\w*|f_wavefronts\w*|data_\w*_tex\w*"
    r"|m_\w*(read|write)_sectors\w*)|smsp__inst_executed_(op|pipe)_\w*(tex|surf)\w*"
)

# Metrics of the copy engine and of products of warpgroups, among those that the GPU has.
OF_HOPPER = re.compile(
    r"sm\w*__inst_executed_(op|pipe)_\w*(gmma|tma|tensor|uniform|bulk|ublk)\w*"
    r"|sm__ops_path_tensor_\w*|\w*(gmma|_tma|tma_|ublkcp)\w*|l1tex__data_pipe\w*"
)

# Metrics that show in which set of tags a line is.
OF_TAG_SETS = ["l1tex__t_set_conflicts_pipe_lsu_mem_global_op_ld.sum"]

STALLS = (
    "barrier,branch_resolving,dispatch_stall,drain,imc_miss,lg_throttle,long_scoreboard,"
    "math_pipe_throttle,membar,mio_throttle,misc,no_instruction,not_selected,selected,"
    "short_scoreboard,sleeping,tex_throttle,wait"
)
MODELLED = expand(
    "gpu__time_duration.sum",
    "sm__cycles_{elapsed,active}.{max,avg}",
    "smsp__cycles_active.avg",
    "gpc__cycles_elapsed.max",
    "lts__cycles_elapsed.{avg.per_second,max}",
    "dram__cycles_elapsed.avg.per_second",
    "l1tex__t_sector_hit_rate.pct",
    "l1tex__t_requests_pipe_lsu_mem_global_op_{ld,st}.sum",
    "l1tex__t_sectors_pipe_lsu_mem_global_op_{ld,st}.sum",
    "l1tex__t_sectors_pipe_lsu_mem_global_op_{ld,st}_lookup_{hit,miss}.sum",
    "l1tex__m_xbar2l1tex_read_sectors.sum",
    "l1tex__m_l1tex2xbar_write_sectors.sum",
    "l1tex__data_pipe_lsu_wavefronts{,_mem_shared,_mem_lgds}.sum",
    "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_{ld,st}.sum",
    "l1tex__lsuin_requests.sum",
    "l1tex__f_wavefronts.sum",
    "l1tex__data_bank_{reads,writes}.sum",
    "{l1tex,lts,dram,sm,gpu__compute_memory}__throughput.avg.pct_of_peak_sustained_elapsed",
    "l1tex__{lsuin_requests,data_pipe_lsu_wavefronts,t_sectors}.avg.pct_of_peak_sustained_elapsed",
    "l1tex__{f_wavefronts,lsu_writeback_active}.avg.pct_of_peak_sustained_elapsed",
    "l1tex__m_xbar2l1tex_read_sectors.avg.pct_of_peak_sustained_elapsed",
    "lts__t_{sectors,requests}_srcunit_tex.sum",
    "lts__t_sectors_srcunit_tex_op_{read,write}.sum",
    "lts__t_sectors_srcunit_tex_op_{read,write}_lookup_{hit,miss}.sum",
    "lts__t_sectors_op_{read,write}.sum",
    "lts__t_sectors_op_{read,write}_lookup_{hit,miss}.sum",
    "lts__t_sectors.sum",
    "lts__t_sectors_srcnode_{gpc,ltcfabric}.sum",
    "lts__t_sector_hit_rate.pct",
    "lts__t_tag_requests.sum",
    "dram__bytes_{read,write}.sum",
    "dram__sectors_{read,write}.sum",
    "launch__occupancy_limit_{blocks,registers,shared_mem,warps}",
    "launch__{registers_per_thread,waves_per_multiprocessor,shared_mem_config_size}",
    "launch__{shared_mem_per_block,shared_mem_per_block_static,occupancy_per_block_size}",
    "sm__warps_active.avg.pct_of_peak_sustained_active",
    "sm__maximum_warps_per_active_cycle_pct",
    "smsp__inst_{executed,issued}.sum",
    "smsp__thread_inst_executed.sum",
    "smsp__issue_active.avg.pct_of_peak_sustained_active",
    "smsp__inst_executed_pipe_{lsu,fma,alu,fp64,uniform,xu}.sum",
    "smsp__average_warp_latency_per_inst_issued.ratio",
    f"smsp__average_warps_issue_stalled_{{{STALLS}}}_per_issue_active.ratio",
)
# Metrics that change if the caches keep the contents from the previous launch.
WARM = [
    name
    for name in MODELLED
    if name.startswith(("gpu__time", "sm__cycles", "l1tex__t_", "lts__t_", "dram__bytes"))
]


# What the table of the set `public` has besides the metrics of `ncu --set full`.
OF_PUBLIC = [
    *COUNTS,
    *OF_TENSOR_CORES,
    *expand(
        "gpu__time_duration.sum",
        "l1tex__t_sector_hit_rate.pct",
        "lts__t_sectors_srcunit_tex_op_{read,write}.sum",
        "dram__bytes_{read,write}.sum",
        "{sm,lts,dram,gpc}__cycles_elapsed.avg.per_second",
    ),
]


def ncu_launches(
    program: Sequence[str], metrics: Iterable[str], options: Sequence[str] = ()
) -> list[dict[str, Any]]:
    """Run a program under ncu; return each launch: the program's description, geometry, metrics.

    With ``--set``, all metrics of the rows are returned. The program writes a list of its launches
    to the file that follows ``--order``. Each entry is a dict with the name of the launch's kernel.
    """
    with tempfile.TemporaryDirectory() as folder:
        order = Path(folder) / "order.json"
        command = ["ncu", "--clock-control", "none", "--csv", "--page", "raw", *options]
        command += ["--print-units", "base", "--print-fp", "--metrics", ",".join(metrics)]
        command += [sys.executable, *program, "--order", str(order)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"ncu failed:\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}")
        launches: list[dict[str, Any]] = json.loads(order.read_text())
    rows = parse(done.stdout)
    if len(rows) != len(launches):
        sys.exit(f"{len(launches)} launches were made, ncu reports {len(rows)}")
    for launch, row in zip(launches, rows, strict=True):
        name_in_row = row["Kernel Name"].removeprefix("void ")
        if not name_in_row.startswith(launch["kernel"].split("<")[0]):
            sys.exit(f"expected {launch}, ncu reports {row['Kernel Name']}")
        launch["grid"], launch["block"] = (
            [int(n) for n in re.findall(r"\d+", row[key])] for key in ("Grid Size", "Block Size")
        )
        names = list(row)
        known = names[names.index("CC") + 1 :] if "--set" in options else metrics
        launch["metrics"] = {key: number(row[key]) for key in known if row.get(key)}
    return launches


def available(which: re.Pattern[str]) -> list[str]:
    """Return the sums of the GPU's metrics whose names match."""
    done = subprocess.run(["ncu", "--query-metrics"], capture_output=True, text=True, check=True)
    names = [line.split(" ")[0] for line in done.stdout.splitlines()]
    return [f"{name}.sum" for name in names if which.fullmatch(name)]


def parse(output: str) -> list[dict[str, str]]:
    """Return the rows of ncu's CSV; other output may precede them."""
    lines = output.splitlines()
    first = next((i for i, line in enumerate(lines) if line.startswith('"ID"')), None)
    if first is None:
        sys.exit(f"ncu printed no table:\n{output[-4000:]}")
    rows = list(csv.DictReader(lines[first:]))
    return rows[1:]  # the first row holds the units


def number(text: str) -> int | float | str:
    """Return a count as an int, a ratio as a float, anything else (an "n/a") as it is."""
    plain = text.replace(",", "")
    try:
        value = float(plain)
    except ValueError:
        return text
    return int(value) if math.isfinite(value) and value == int(value) else value


def times(name: str, only: str) -> list[dict[str, Any]]:
    """Run a set without ncu and return each launch's time by CUDA events."""
    done = subprocess.run(
        [sys.executable, __file__, "--run", name, "--only", only, "--timed"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    launches: list[dict[str, Any]] = json.loads(done.stdout.splitlines()[-1])
    return launches


def run(name: str, only: str, timed: bool) -> list[dict[str, Any]]:
    """Run a set of cases on the GPU and return the launches in order."""
    launches: list[dict[str, Any]] = []
    for case in counter_cases.SETS[name]():
        if not re.search(only, case.name):
            continue
        records = case.run("cuda", timed=timed)
        for position, (kernel, record) in enumerate(records):
            last = position == len(records) - 1
            launch = {"case": case.name + ("" if last else f" (prepared by {kernel})")}
            launch["kernel"] = kernel
            if name == "public":
                launch["file"] = case.file
            if timed:
                launch |= {"ms": record.kernel_ms, "spread": record.spread, "runs": record.runs}
            launches.append(launch)
    return launches


def environment(tool: str = "ncu") -> dict[str, Any]:
    """Return the versions and settings that a recording with a tool depends on."""
    query = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader", "-i", "0"]
    gpu, driver = subprocess.run(
        query, capture_output=True, text=True, check=True
    ).stdout.strip().split(", ")  # fmt: skip
    version = subprocess.run([tool, "--version"], capture_output=True, text=True, check=True)
    major, minor = nvrtc.nvrtc().version
    return {
        "gpu": gpu,
        "driver": driver,
        "nvrtc": f"{major}.{minor}",
        tool: version.stdout.split("Version ")[-1].split()[0],
        "coalesce": coalesce.__version__,
        "date": datetime.datetime.now(datetime.timezone.utc).date().isoformat(),
    }


def record(name: str, only: str, added: Sequence[str]) -> dict[str, Any]:
    """Record the cases of a set whose names match `only`, with the set's metrics or `added`."""
    recording: dict[str, Any] = {**environment(), "set": name}
    program = [__file__, "--run", name, "--only", only]
    if added:
        recording["launches"] = ncu_launches(program, added, ["--cache-control", "none"])
        return recording
    if name == "models":
        launches = ncu_launches(program, MODELLED)
        warm = ncu_launches(program, WARM, ["--cache-control", "none"])
        for launch, other, timed in zip(launches, warm, times(name, only), strict=True):
            assert launch["case"] == other["case"] == timed["case"]
            launch["metrics"] |= {f"warm {key}": other["metrics"][key] for key in other["metrics"]}
            launch["metrics"] |= {key: timed[key] for key in ("ms", "spread", "runs")}
    else:
        metrics = {
            "patterns": OF_PATTERNS,
            "tag_sets": OF_TAG_SETS,
            "matrices": OF_MATRICES,
            "tensor_cores": [*COUNTS, *OF_TENSOR_CORES],
            "bulk_copies": [*COUNTS, *OF_TENSOR_CORES],
            "mma_counters": OF_TENSOR_CORES,
        }.get(name, COUNTS)
        if name == "textures":
            metrics = [*COUNTS, *available(OF_TEXTURES)]
        if name in ("hopper", "warpgroups", "copies"):
            metrics = list(dict.fromkeys((*COUNTS, *OF_TENSOR_CORES, *available(OF_HOPPER))))
        if name == "copies":
            metrics += expand("lts__t_sectors_srcunit_tex_op_{read,write}.sum")
        launches = ncu_launches(program, metrics, ["--cache-control", "none"])
    if name in ("programs", "unseen"):  # the models use these recordings, too
        for launch, cold in zip(launches, ncu_launches(program, MODELLED), strict=True):
            assert launch["case"] == cold["case"]
            launch["metrics"] |= cold["metrics"]
    recording["launches"] = launches
    return recording


def median(recordings: list[dict[str, Any]]) -> dict[str, Any]:
    """Return a recording with the median of each value."""
    first = recordings[0]
    for launches in zip(*(each["launches"] for each in recordings), strict=True):
        metrics = launches[0]["metrics"]
        for key, value in metrics.items():
            if isinstance(value, (int, float)):
                metrics[key] = statistics.median_low(each["metrics"][key] for each in launches)
    return first


def updated(old: dict[str, Any], new: dict[str, Any], add: bool) -> dict[str, Any]:
    """Return a recording in which the cases of `new` replace or extend the old cases.

    If `add` is true, the cases keep their metrics, and get those of `new`.
    """
    for key in ("gpu", "nvrtc") if add else ("gpu", "driver", "nvrtc", "ncu"):
        if old[key] != new[key]:
            sys.exit(f"the file was recorded with {key} {old[key]}, not {new[key]}; record it anew")
    by_case = {launch["case"]: launch for launch in old["launches"]}
    for launch in new["launches"]:
        if add:
            launch["metrics"] = by_case[launch["case"]]["metrics"] | launch["metrics"]
        by_case[launch["case"]] = launch
    first = old["date"].partition(" to ")[0]
    date = new["date"] if first == new["date"] else f"{first} to {new['date']}"
    return {**new, "date": date, "launches": list(by_case.values())}


def as_text(recording: dict[str, Any]) -> str:
    """Return the recording as JSON.

    Each launch is a line with its values in the order of "metrics".
    """
    launches = recording.pop("launches")
    # A value that this GPU does not report ("n/a") is not a metric.
    known = {key for launch in launches for key, v in launch["metrics"].items() if v != "n/a"}
    recording["metrics"] = sorted(known)
    lines = []
    for launch in launches:
        values = launch.pop("metrics")
        launch["values"] = [values.get(key) for key in recording["metrics"]]
        lines.append(json.dumps(launch, separators=(",", ":")))
    head = json.dumps(recording, indent=1).removesuffix("\n}")
    return head + ',\n "launches": [\n  ' + ",\n  ".join(lines) + "\n ]\n}\n"


def record_public(only: str, output: Path) -> Path:
    """Write all metrics of the set `public` as a table: a row per launch.

    The table is written after each of its sets, so an interruption loses little.
    """
    versions = environment()
    path = output / f"counters_{short_name(versions)}.csv.gz"
    chosen = [c.name for c in counter_cases.public.cases() if re.search(only, c.name)]
    rows: list[dict[str, Any]] = []
    for _, cases in itertools.groupby(chosen, lambda case: case.partition(":")[0]):
        those = "|".join(map(re.escape, cases))
        program = [__file__, "--run", "public", "--only", f"^({those})$"]
        for launch in ncu_launches(program, OF_PUBLIC, ["--set", "full"]):
            metrics = launch.pop("metrics")
            launch["split"] = counter_cases.public.split(launch["case"])
            launch["file"] = launch["file"] and f"tests/kernels/{launch['file']}"
            for geometry in ("grid", "block"):
                launch[geometry] = "x".join(map(str, launch[geometry]))
            rows.append(launch | versions | metrics)
        text = io.StringIO()
        names = dict.fromkeys(name for row in rows for name in row)
        writer = csv.DictWriter(text, list(names), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
        path.write_bytes(gzip.compress(text.getvalue().encode(), mtime=0))
        print(f"{len(rows)} launches in {path}", flush=True)
    return path


def short_name(recording: dict[str, Any]) -> str:
    """Return the GPU's name for the name of a file."""
    name: str = recording["gpu"].lower().replace("nvidia ", "").replace(" ", "_")
    return name


def main() -> None:
    """Record the named sets. Under ncu, where this script starts itself, run one set."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("sets", nargs="*", choices=[*counter_cases.SETS, []])
    parser.add_argument("--output", type=Path, help="folder for the recordings")
    parser.add_argument("--only", default="", metavar="REGEX", help="cases to record")
    parser.add_argument("--repeats", type=int, default=1, help="recordings to take the median of")
    parser.add_argument("--add", default="", metavar="NAMES", help="metrics, as in a_{b,c}.sum")
    parser.add_argument("--run", help=argparse.SUPPRESS)
    parser.add_argument("--order", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--timed", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.run:
        launches = json.dumps(run(options.run, options.only, options.timed))
        if options.order:
            options.order.write_text(launches)
        else:
            print(launches)
        return
    if not (status := coalesce.gpu_status()):
        sys.exit(f"no GPU: {status}")
    if shutil.which("ncu") is None:
        sys.exit("ncu is not on the PATH; it comes with the CUDA toolkit (nsight-compute)")
    for name in options.sets or counter_cases.SETS:
        if name == "public":
            print(record_public(options.only, options.output or MEASURED))
            continue
        added = expand(*options.add.split())
        recording = median([record(name, options.only, added) for _ in range(options.repeats)])
        path = (options.output or DATA) / f"{name}_{short_name(recording)}.json"
        if (options.only or added) and path.exists():
            recording = updated(counter_cases.load(path), recording, bool(added))
        path.write_text(as_text(recording))
        print(path)


if __name__ == "__main__":
    main()
