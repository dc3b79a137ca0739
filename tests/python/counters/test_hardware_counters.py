"""Predicted counters equal, to the last unit, what Nsight Compute read on a GPU.

tools/record_counters.py made the recordings in tests/data. The tests repeat their launches, which
tests/counter_cases defines, on the simulator. There are several sets:

- every shipped kernel;
- kernels that are easy to count wrong (tests/kernels/awkward*.cu);
- one access of one warp in every pattern (tests/kernels/patterns.cu, vector_atomics.cu);
- whole programs that were not used to find the counting rules (tests/kernels/programs.cu);
- whole programs that were not used to fit the models either (tests/kernels/unseen_*.cu);
- kernels whose lanes do different things in one instruction (tests/kernels/together.cu);
- functions that branch on extreme operands (tests/kernels/slow_paths.cu);
- kernels whose blocks wait for each other, form clusters or allocate memory
(tests/kernels/cooperative.cu);
- products with bulk copies, and other kernels with bulk copies, tensor maps, mbarriers and wgmma
  (tests/kernels/hopper.cu).
"""

import functools
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import counter_cases
import numpy as np
import pytest
import unseen_cases

import coalesce
from coalesce.compile import nvrtc
from coalesce.compile.binaries import disassembler
from coalesce.profiling.hardware import exactness

simulated = pytest.mark.usefixtures("on_simulator")  # only the simulator predicts counts

DATA = Path(__file__).parents[2] / "data"
KERNELS = counter_cases.case.KERNELS

# These metrics depend on the addresses of the executed code.
BY_ADDRESS = re.compile(
    r"l1tex__t_(requests|sectors)_pipe_lsu_mem_(global|local)_op_\w+\.sum"
    r"|memory_l1_tag_requests_global|memory_l2_theoretical_sectors_\w+"
    r"|smsp__sass_(average_)?data_bytes\w*_mem_(global|local)_op_\w+\.(sum|pct)"
    r"|smsp__sass_inst_executed_op_(global|local)_\w+\.sum"
)
# These metrics also depend on the shared memory instructions that the assembler chose.
OF_SHARED = re.compile(
    r"memory_l1_wavefronts_shared(_ideal)?"
    r"|smsp__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared_op_\w+\.sum"
    r"|smsp__sass_inst_executed_op_shared_\w+\.sum"
)
# The counter includes instructions that the assembler predicated off for all lanes.
EXECUTED = re.compile(
    r"smsp__inst_executed_op_(?!.*pred_off)\w+\.sum"
    r"|smsp__sass_thread_inst_executed_op_[hfd](add|mul|fma)_pred_on\.sum"
)
# The hardware also counts conflicts between competing warps, which vary from run to run.
ARBITRATED = re.compile(r"l1tex__data_pipe_lsu_wavefronts_mem_shared_op_(ld|st|atom)\.sum")


@functools.cache
def recording(name: str) -> dict[str, Any]:
    """Return a recording as a dict of its launches by case."""
    whole = counter_cases.load(counter_cases.path_of(name))
    return {**whole, "launches": {launch["case"]: launch for launch in whole["launches"]}}


def names_of_metrics(data: Path) -> list[str]:
    """Return the names of the metrics in a file of tests/data. Other files have no such names."""
    content = json.loads(data.read_text(encoding="utf-8"))
    names = content.get("metrics") if isinstance(content, dict) else None
    return names if isinstance(names, list) else []


def recorded(name: str, case: str) -> Mapping[str, float]:
    """Return the metrics of a case."""
    launches = recording(name)["launches"]
    assert case in launches, (
        f"on a GPU, run tools/record_counters.py {name} --only {case.split()[0]}"
    )
    metrics: Mapping[str, float] = launches[case]["metrics"]
    return metrics


@functools.cache
def all_cases(name: str) -> tuple[counter_cases.Case, ...]:
    """Return the cases of a set; every call returns the same objects."""
    return tuple(counter_cases.SETS[name]())


@pytest.fixture
def same_compiler(request: pytest.FixtureRequest) -> None:
    """Skip tests of the machine code if the recording was made with another compiler."""
    request.getfixturevalue("on_simulator")
    try:
        disassembler.nvdisasm()
    except LookupError as error:
        pytest.skip(str(error))
    ours = ".".join(map(str, nvrtc.nvrtc().version))
    theirs = recording("shipped")["nvrtc"]
    if ours != theirs:
        pytest.skip(f"recorded with NVRTC {theirs}, whose machine code may not be {ours}'s")


@functools.cache
def counted(case: counter_cases.Case) -> tuple[Mapping[str, float], Mapping[str, str]]:
    """Return the simulator's counts of the case's last launch, and which of them are inexact."""
    counts = case.run("sim", counts=True)[-1][1].counts
    metrics = counts.metrics()
    inexact = exactness.inexact(counts.table(), metrics) if counts.machine_code else {}
    return metrics, inexact


def predicted(case: counter_cases.Case) -> Mapping[str, float]:
    """Return the simulator's counts of the case's last launch."""
    return counted(case)[0]


def differences(case: counter_cases.Case, name: str, which: re.Pattern[str]) -> dict[str, Any]:
    """Return the metrics that are called exact but differ: predicted and measured values."""
    (ours, inexact), theirs = counted(case), recorded(name, case.name)
    both = [metric for metric in ours if metric in theirs and which.fullmatch(metric)]
    assert both, f"{case.name} was recorded without metrics like {which.pattern}"
    both = [m for m in both if inexact.get(m) in (None, exactness.ARBITRATED)]
    # ncu prints ratios with two digits after the point.
    return {
        metric: (ours[metric], theirs[metric])
        for metric in both
        if abs(ours[metric] - theirs[metric]) > (0.0051 if metric.endswith(".pct") else 0)
    }


def cases(name: str) -> list[Any]:
    """Return the cases of a set as pytest parameters."""
    return [pytest.param(case, id=case.name) for case in all_cases(name)]


# Counting executes the machine code, so the counts include what the assembler changed. Some
# counters differ from run to run on the hardware, so they are not called exact. This table lists
# every such case: its metrics and the reason.
GLOBAL_ATOMICS = r"l1tex__\w*t_sectors\w*_mem_global_op_(red|atom)\.\w+"
BY_CHANCE = {
    "first_match": (r".*global.*", exactness.NOT_RECONVERGED),
    "scatter_add": (GLOBAL_ATOMICS, exactness.DIVIDED),
    "shared_counters": (r".*shared.*", exactness.CONTENDED),
    # the kernel reads uninitialized shared memory
    "shared_atomic<AddF64,false>": (r".*shared.*", exactness.CONTENDED),
    r"global_atomic<.*": (GLOBAL_ATOMICS, exactness.DIVIDED),
    "half_atomics": (r".*_mem_shared_op_atom\.sum", exactness.GENERIC),
    "chained_hash_find": (r".*global.*", exactness.NOT_RECONVERGED),
    "table_of_functions|chosen_functions|addresses_of_functions|virtual_functions|"
    "switch_and_functions": (r".*", exactness.NOT_RECONVERGED),
    "pagerank": (r".*shared.*", exactness.CONTENDED),
    "expand_frontier|hook_components|bloom_add|deposit_charge|histogram_2d": (
        GLOBAL_ATOMICS,
        exactness.DIVIDED,
    ),
    r"(async|guarded)_copy<16,true> .*(stride 0|share|repeat|alike|to close|same target)": (
        r"l1tex__t_sectors_pipe_lsu_mem_global_op_ld\.sum",
        exactness.COPIED,
    ),
    "guarded_copy<16,true>|async_tile<16>": (
        r"memory_(l1_wavefronts_shared|l2_theoretical_sectors_global).*|.*_op_ldgsts\.sum",
        exactness.GUARDED,
    ),
    r"shared_load<16>|\w+<float4|attention_scores": (
        r".*wavefronts.*shared.*",
        exactness.SOME_LANES,
    ),
    "grid_turns|grid_sum": (
        r".*(global|generic|mem_local|shared_op_atom|pipe_tensor).*",
        f"{exactness.WATCHING}|{exactness.GENERIC}",
    ),
    "heap_lists|heap_edges": (r".*", exactness.OUTSIDE),
    "cluster_writes": (r".*shared.*", f"{exactness.DISTANT}|{exactness.GENERIC}"),
}
# Kernels on tensor cores.
OF_TENSOR_CORES = re.compile(
    r"sm__(inst_executed_pipe|pipe|ops_path)_tensor\w*\.sum|.*(ld|st)sm\.sum"
)

# Patterns that no counting rule covers: the case, the metrics, and the allowed difference.
UNCOVERED = [
    # 16-byte loads by some of the lanes, where pairs of lanes share an address.
    (r"shared_load<16> .*pairs in 256, some lanes #[02]", r"memory_l1_w.*|smsp__sass_l1tex.*", 1),
]


@simulated
@pytest.mark.parametrize("case", cases("shipped"))
def test_global_memory_of_shipped_kernels(case):
    """These metrics do not depend on the compiler."""
    assert differences(case, "shipped", BY_ADDRESS) == {}


@pytest.mark.usefixtures("same_compiler")
@pytest.mark.parametrize(
    ("name", "case"),
    [
        pytest.param(name, case, id=case.name)
        for name in ("shipped", "awkward", "programs", "unseen", "together", "slow_paths",
                     "cooperative", "hints")
        for case in all_cases(name)
    ],
)  # fmt: skip
def test_memory_and_instructions(name, case):
    unlike = [differences(case, name, which) for which in (BY_ADDRESS, OF_SHARED, EXECUTED)]
    assert unlike == [{}, {}, {}]


# The set, the case, the file, and the launch.
WHOLE = [
    *(("programs", row[0], "programs.cu", *row) for row in counter_cases.programs.launches()),
    *(("unseen", name, *launch) for name, launch in unseen_cases.launches().items()),
    *(("together", row[0], "together.cu", *row) for row in counter_cases.together.launches()),
]


@pytest.mark.usefixtures("same_compiler")
@pytest.mark.parametrize("launch", [pytest.param(launch, id=launch[1]) for launch in WHOLE])
def test_exact_metrics_equal_the_hardware(launch):
    """Kernels that were not used to find the rules: each metric that is called exact is equal."""
    name, case, file, entry, grid, block, arguments, shared_bytes = launch
    kernel = coalesce.Kernel((KERNELS / file).read_text(), entry)
    given = [a.copy() if isinstance(a, np.ndarray) else a for a in arguments]
    p = kernel.profile(grid, block, *given, shared_bytes=shared_bytes, caches=False)
    ours, theirs = p.metrics(), recorded(name, case)
    compared = [name for name in p.exact if name in theirs]
    # If functions are called through pointers, only metrics that depend on no address are exact.
    assert len(compared) > (0 if name == "together" else 30)
    wrong = {
        name: (ours[name], theirs[name])
        for name in compared
        if abs(ours[name] - theirs[name]) > (0.0051 if name.endswith(".pct") else 0)
    }
    assert wrong == {}


@pytest.mark.usefixtures("same_compiler")
@pytest.mark.parametrize(
    "name",
    [
        *("shipped", "awkward", "patterns", "programs", "unseen", "together", "slow_paths"),
        "cooperative",
    ],
)
def test_counts_that_vary_between_runs_are_inexact(name):
    """Only the listed counts are called inexact, and each has a reason."""
    for case in all_cases(name):
        inexact = counted(case)[1]
        for metric, why in inexact.items():
            general = (exactness.DIVERGED, exactness.ARBITRATED, exactness.BESIDE_OTHERS)
            of_threads = metric in exactness.TOTALS or metric.startswith(exactness.ARITHMETIC)
            if why in general or of_threads:
                continue
            known = [v for known, v in BY_CHANCE.items() if re.match(known, case.name)]
            assert any(re.fullmatch(m, metric) and why in w.split("|") for m, w in known), (
                case.name,
                metric,
            )


@pytest.mark.usefixtures("same_compiler")
@pytest.mark.parametrize("case", [c for c in cases("awkward") if c.id.split()[0] in BY_CHANCE])
def test_differences_from_the_recording_are_inexact(case):
    """The recording differs from the prediction, and the prediction gives the reason."""
    (ours, inexact), theirs = counted(case), recorded("awkward", case.name)
    unlike = {m for m in ours if m in theirs and abs(ours[m] - theirs[m]) > 0.0051}
    assert unlike
    assert unlike <= set(inexact)


@pytest.mark.usefixtures("same_compiler")
@pytest.mark.parametrize("name", ["shipped", "awkward", "programs", "tensor_cores"])
def test_metrics_that_are_called_exact_were_recorded(name):
    """A new metric must be recorded before profiles may call it exact."""
    names = {metric for data in DATA.glob("*.json") for metric in names_of_metrics(data)}
    for case in all_cases(name):
        ours, inexact = counted(case)
        ratios = {n for n in ours if n.endswith(".ratio")}  # quotients of two of them
        assert set(ours) - set(inexact) - ratios <= names, case.name


@pytest.mark.usefixtures("same_compiler")
@pytest.mark.parametrize(
    "name", ["shipped", "awkward", "programs", "unseen", "together", "slow_paths"]
)
def test_instructions_in_all(name):
    """If lanes never diverge, the total number of instructions equals the hardware's."""
    exact = 0
    for case in all_cases(name):
        (ours, inexact), theirs = counted(case), recorded(name, case.name)
        for metric in set(exactness.TOTALS) - set(inexact):
            if metric in theirs:
                exact += 1
                assert ours[metric] == theirs[metric], (case.name, metric)
    assert exact > (5 if name == "together" else 10)  # in most of these kernels lanes diverge


@pytest.mark.usefixtures("same_compiler")
@pytest.mark.parametrize(
    ("name", "case"),
    [
        pytest.param(name, case, id=case.name)
        for name in ("bulk_copies", "copies", "hopper", "warpgroups")
        for case in all_cases(name)
    ],
)
def test_exact_metrics_of_copies_and_warpgroups(name, case):
    """Bulk copies, tensor maps, mbarriers and wgmma: each metric that is called exact is equal."""
    (ours, inexact), theirs = counted(case), recorded(name, case.name)
    compared = [metric for metric in ours if metric in theirs and metric not in inexact]
    # Blocks that share a tile wait for each other: the accesses of such a loop vary.
    shared_tiles = name == "bulk_copies" and re.search("(tma|tensor_map) 5", case.name) is not None
    varies = case.name == "impatient" or shared_tiles
    assert len(compared) > (15 if varies else 40)
    wrong = {
        metric: (ours[metric], theirs[metric])
        for metric in compared
        if abs(ours[metric] - theirs[metric]) > (0.0051 if metric.endswith(".pct") else 0)
    }
    assert wrong == {}
    # Products and single stores wait for no mbarrier. Other kernels test mbarriers in loops, or
    # wait for registers.
    waits = name != "warpgroups" and not (name == "copies" and case.name.endswith("True"))
    assert set(exactness.TOTALS) & set(inexact) == (set(exactness.TOTALS) if waits else set())
    reasons = {exactness.AFTER_WAITS, exactness.WATCHING}
    assert bool(reasons & set(inexact.values())) == varies


@pytest.mark.usefixtures("same_compiler")
@pytest.mark.parametrize(
    ("name", "case"),
    [
        pytest.param(name, case, id=case.name)
        for name in ("copies", "hopper")
        for case in all_cases(name)
    ],
)
def test_every_metric_of_the_copy_engine_was_recorded_and_is_equal(name, case):
    (ours, inexact), theirs = counted(case), recorded(name, case.name)
    names = {name for name in ours if "tma" in name}
    # A predicate excludes single loads of boxes in most lanes, so three metrics are not shown.
    single_box = name == "copies" and case.name.endswith("False")
    none = case.name.startswith(("phases", "few_registers"))
    assert len(names) == (0 if none else 15 if single_box else 18)
    both_sides = case.name.startswith("uint8 (200,)")  # only one box leaves its array on both sides
    assert bool(names & set(inexact)) == both_sides
    assert {name: ours[name] for name in names} == {name: theirs[name] for name in names}


@simulated
@pytest.mark.parametrize(
    "name", ["shipped", "awkward", "programs", "unseen", "together", "slow_paths"]
)
def test_hardware_adds_arbitration_to_wavefronts(name):
    """If warps compete, the counter exceeds the wavefronts that follow from the addresses."""
    for case in all_cases(name):
        metrics = recorded(name, case.name)
        for op in ("ld", "st"):
            counter = f"data_pipe_lsu_wavefronts_mem_shared_op_{op}.sum"
            assert metrics[f"l1tex__{counter}"] >= metrics[f"smsp__sass_l1tex_{counter}"]


def patterns() -> dict[str, list[counter_cases.Case]]:
    """Return the cases of each kernel of patterns.cu and vector_atomics.cu."""
    by_kernel: dict[str, list[counter_cases.Case]] = {}
    for case in all_cases("patterns"):
        by_kernel.setdefault(case.name.split(" ", 1)[0], []).append(case)
    return by_kernel


def uncovered(case: str, metric: str, values: tuple[float, float]) -> bool:
    """Return whether a difference is in the table of known differences."""
    return any(
        re.fullmatch(cases, case)
        and re.fullmatch(metrics, metric)
        and abs(values[0] - values[1]) <= most
        for cases, metrics, most in UNCOVERED
    )


@pytest.mark.usefixtures("same_compiler")
@pytest.mark.parametrize("kernel", patterns())
def test_patterns_of_one_access(kernel):
    unlike = {
        case.name: different
        for case in patterns()[kernel]
        if (
            different := {
                metric: values
                for which in (BY_ADDRESS, OF_SHARED, ARBITRATED)  # a single warp has no competitor
                if not (which is OF_SHARED and kernel.startswith("global"))
                for metric, values in differences(case, "patterns", which).items()
                if not uncovered(case.name, metric, values)
            }
        )
    }
    assert unlike == {}


@pytest.mark.usefixtures("same_compiler")
@pytest.mark.parametrize("kind", ["load_matrices", "store_matrices"])
def test_rows_of_matrices(kind):
    unlike = {
        case.name: different
        for case in all_cases("matrices")
        if case.name.startswith(kind)
        for which in (OF_SHARED, ARBITRATED, OF_TENSOR_CORES)
        if (different := differences(case, "matrices", which))
    }
    assert unlike == {}


@pytest.mark.usefixtures("same_compiler")
@pytest.mark.parametrize("case", cases("tensor_cores"))
def test_kernels_on_tensor_cores(case):
    which = [BY_ADDRESS, OF_SHARED, EXECUTED]
    if case.name != "transpose_registers":
        which.append(OF_TENSOR_CORES)
    assert [differences(case, "tensor_cores", w) for w in which] == [{}] * len(which)


@pytest.mark.usefixtures("same_compiler")
@pytest.mark.parametrize(
    "case",
    # For the saturating 4-bit forms ptxas emits PLOP3 of signs, which the simulator refuses.
    [c for c in cases("mma_counters")[::3] if not re.search("satfinite.*[su]4", c.id)],
)
def test_instructions_of_tensor_cores(case):
    assert differences(case, "mma_counters", OF_TENSOR_CORES) == {}


@pytest.mark.skipif(shutil.which("ncu") is None, reason="Nsight Compute's ncu is not installed")
def test_this_gpu_counts_the_same(device, tmp_path):
    """Record a few patterns on the GPU of this machine and compare the predictions."""
    if device != "cuda":
        pytest.skip("reads a GPU's counters")
    script = DATA.parents[1] / "tools" / "record_counters.py"
    only = r"(shared|global)_load<(4|8|16)> (stride [123]|2 neighbours share|random in 2048.*)"
    command = [sys.executable, script, "patterns", "--only", f"^{only}$", "--output", tmp_path]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if "ERR_NVGPUCTRPERM" in done.stderr:
        pytest.skip("this user may not read the GPU's counters")
    assert done.returncode == 0, done.stderr
    (file,) = tmp_path.glob("*.json")
    launches = {n["case"]: n["metrics"] for n in counter_cases.load(file)["launches"]}
    for case in all_cases("patterns"):
        if case.name in launches:
            ours, theirs = predicted(case), launches[case.name]
            known = [m for m in theirs if m in ours and not uncovered(case.name, m, (0, 0))]
            assert {m: ours[m] for m in known} == {m: theirs[m] for m in known}, case.name
