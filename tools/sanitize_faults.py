"""Runs the planted faults of docs/checks.md under compute-sanitizer, on a GPU.

    python tools/sanitize_faults.py

The script needs a GPU, compute-sanitizer and CuPy. CuPy's memory pool is switched off, because the
tool cannot see in a pool where an array ends or that it was freed. Each test of a row of the table
runs up to its first check, in a separate process and once under each tool. A launch replaces the
check. The script writes docs/measured/sanitizer_<gpu>.json. For each row and test, the file has the
number of errors that each tool reported, and the first error.
"""

import argparse
import concurrent.futures
import importlib
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import record_counters

import coalesce

HERE = Path(__file__).parent
MEASURED = HERE.parent / "docs" / "measured"
sys.path.extend(str(room) for room in (HERE.parent / "tests" / "python").iterdir() if room.is_dir())

TOOLS = ("memcheck", "racecheck", "initcheck", "synccheck")
# The time limit of a test in seconds. Some faulty kernels never end on a GPU.
LIMIT = 90
SUMMARY = re.compile(r"(?:ERROR SUMMARY: |RACECHECK SUMMARY: )(\d+)")
SEEN = re.compile(r"========= ((?!COMPUTE-SANITIZER|ERROR|RACECHECK|Internal|Target).*\S)")


def launch_instead(
    kernel: coalesce.Kernel,
    grid: Any,
    block: Any,
    *arguments: Any,
    shared_bytes: int = 0,
    undefined: Any = (),
    **_: Any,
) -> list[Any]:
    """Launch on the GPU instead of `Kernel.check`; do not write arrays named undefined."""
    import cupy

    def on_gpu(value: Any) -> Any:
        if not isinstance(value, np.ndarray):
            return value
        if undefined:
            return cupy.empty(value.shape, value.dtype)
        return cupy.asarray(value)

    kernel[grid, block, shared_bytes](*map(on_gpu, arguments))
    cupy.cuda.Device().synchronize()
    return []


def run(file: str, test: str) -> None:
    """Run a test up to the first check that must report a finding."""
    import cupy

    cupy.cuda.set_allocator(None)
    coalesce.Kernel.check = launch_instead  # type: ignore[method-assign]
    coalesce.zeros = lambda shape, dtype, **_: cupy.zeros(shape, dtype)  # type: ignore[assignment]
    module = importlib.import_module(Path(file).stem)
    if test.startswith("test_"):
        function = getattr(module, test)
        taken = function.__code__.co_argcount
        function(*(0,) * taken)
        return
    (function,) = (
        getattr(module, function)
        for table, function in module.TABLES.items()
        if test in getattr(module, table)
    )
    function(test)


def sanitized(tool: str, script: str, *arguments: str, limit: int = LIMIT) -> dict[str, Any]:
    """Return the report of a tool for a Python script."""
    command = ["compute-sanitizer", "--tool", tool, "--report-api-errors", "no", sys.executable]
    command += [script, *arguments]
    try:
        ended = subprocess.run(command, capture_output=True, text=True, timeout=limit, check=False)
        output, hung = ended.stdout + ended.stderr, False
    except subprocess.TimeoutExpired as stopped:
        output, hung = (stopped.stdout or b"").decode(errors="replace"), True
    reported = SUMMARY.search(output)
    first = SEEN.search(output)
    return {
        "errors": int(reported[1]) if reported else None,
        "first": first[1] if first and not (reported and reported[1] == "0") else "",
        **({"hung": True} if hung else {}),
        **({} if reported or hung else {"output": output[-600:]}),
    }


def main() -> None:
    """Run every planted fault under every tool, several at the same time."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--jobs", type=int, default=8, help="processes at a time")
    parser.add_argument("--output", type=Path, default=MEASURED, help="folder for the results")
    parser.add_argument("--run", nargs=2, metavar=("FILE", "TEST"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.run:
        run(*options.run)
        return
    require_tool()
    from test_check_table import ROWS, file_of

    cases = [(row, str(file_of(test)), test) for row, tests in ROWS.items() for test in tests]
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        running = {
            (row, test, tool): pool.submit(sanitized, tool, __file__, "--run", file, test)
            for row, file, test in cases
            for tool in TOOLS
        }
        reports: dict[str, dict[str, Any]] = {row: {} for row in ROWS}
        for (row, test, tool), future in running.items():
            reported = reports[row].setdefault(test, {})[tool] = future.result()
            print(f"{row[:40]:40} {test[:50]:50} {tool:10} {reported}", flush=True)
    write("sanitizer", {"rows": reports}, options.output)


def require_tool() -> None:
    """End the script with a message if compute-sanitizer is missing."""
    if shutil.which("compute-sanitizer") is None:
        sys.exit("compute-sanitizer is not on the PATH; it comes with the CUDA toolkit")


def write(name: str, reports: dict[str, Any], folder: Path) -> None:
    """Write what the tools reported, and the versions, to <name>_<gpu>.json in a folder."""
    recorded = record_counters.environment("compute-sanitizer")
    short = recorded["gpu"].lower().replace("nvidia ", "").replace(" ", "_")
    path = folder / f"{name}_{short}.json"
    path.write_text(json.dumps({**recorded, **reports}, indent=1) + "\n")
    print(f"wrote {path}")


if __name__ == "__main__":
    main()
