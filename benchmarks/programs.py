"""Run CUDA programs of other people on the simulator: which build, run and have right results?

python benchmarks/programs.py LIST --json FILE [--only NAME] [--seconds S] [--jobs N]

LIST is a JSON file that you write. It has a list of objects, one for each program:

- `suite` and `name`: what the program is called in the results.
- `folder`: where the program runs. The sources are relative to it.
- `sources`: the files that are compiled, the main file first.
- `options` (may be absent): options for nvcc.
- `arguments` (may be absent): the words that the program gets.
- `verify` (may be absent): a command, as a list of words, that compares the results with a
  reference. It runs in the folder and gets the program's output on its standard input. If the
  results are right, it prints how it compared them, and its exit status is 0. If they are not, it
  prints how they differ, and its exit status is 1.

A program is verified if it ends with status 0 and its results were compared with a reference. If
the list names no command for that, the program must compare its results itself. Its output, or its
use of EXIT_SUCCESS and EXIT_FAILURE, shows whether it does so.

The results are in FILE (docs/measured/programs.json for the page that docs/make_programs.py makes).
A program that is already in the file is not run again, unless --only names it.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import re
import signal
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from pathlib import Path

from recording import commit

_WRONG = re.compile(
    r"\bfail(?:ed|ure)?\b(?!\s*[:=]?\s*0\b)|\bmismatch|\bincorrect\b|CUDA error", re.IGNORECASE
)
_RIGHT = re.compile(
    r"\bpass(?:ed)?\b|success|\bcorrect\b|\bOK\b|verified|shmoo.*complete|test.{0,10}complete"
    r"|completed, returned OK|matches|error\s*(?:norm|=|:)|no error|L1-Norm|PASS",
    re.IGNORECASE,
)
# The output at the end of a run that tested errors on purpose.
_SAYS_SO = re.compile(
    r"returned OK|Result = PASS|\bPASSED\b|\bPASS\b|test passed|failed as expected", re.IGNORECASE
)
_BY_STATUS = re.compile(r"\? *EXIT_SUCCESS *: *EXIT_FAILURE")


@dataclass
class Case:
    """A program of the list."""

    suite: str
    name: str
    folder: Path
    sources: list[str]
    options: list[str] = field(default_factory=list)
    arguments: list[str] = field(default_factory=list)
    verify: list[str] = field(default_factory=list)

    @property
    def key(self) -> str:
        return f"{self.suite}/{self.name}"


def cases(file: Path) -> list[Case]:
    """Read a list of programs."""
    return [Case(**row | {"folder": Path(row["folder"])}) for row in json.loads(file.read_text())]


def run(case: Case, seconds: float) -> dict[str, object]:
    """Build and run a program; return the outcome."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        command = [
            *(sys.executable, "-m", "coalesce", "run", *case.sources),
            *(f"--option={option}" for option in case.options),
            *("--json", str(report), "--", *case.arguments),
        ]
        start = time.perf_counter()
        started = subprocess.Popen(
            command,
            cwd=case.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            start_new_session=True,
        )
        try:
            stdout, stderr = started.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            os.killpg(started.pid, signal.SIGKILL)  # end the program, too
            _, stderr = started.communicate()
            return {"outcome": "time", "why": stderr[-300:], "seconds": seconds}
        record = {
            "seconds": round(time.perf_counter() - start, 1),
            "status": started.returncode,
            "arguments": " ".join(case.arguments),
        }
        if not report.is_file():
            own = (line for line in stderr.splitlines() if line.startswith("coalesce: "))
            why = next(own, stderr)[:2000]
            return {"outcome": "build" if "coalesce:" in why else "crash", "why": why, **record}
        data = json.loads(report.read_text())
    record["kernels"] = len(data.get("kernels", []))
    record["missing"] = data.get("missing", [])
    failure = bool(data.get("failure"))
    return {**outcome(case, stdout, stderr, started.returncode, failure), **record}


def outcome(case: Case, out: str, err: str, status: int, failure: bool) -> dict[str, object]:
    """Say how a program ended.

    `failure` says whether a kernel ended with an error. Some programs cause such an error on
    purpose, and say at the end that the test passed.
    """
    said_right = _SAYS_SO.search(out)
    wrong = None if said_right else _WRONG.search(out)
    own = [line for line in err.splitlines() if line.startswith("coalesce: ")]
    said = [line for line in err.splitlines() if "error" in line.lower()][:3]
    text = (out[-300:] + "\n" + "\n".join([*own, *said])).strip()[:900]
    if status or wrong or (failure and not said_right):
        return {"outcome": "wrong", "why": f"{wrong[0] if wrong else ''}: {text}"}
    if case.verify:
        done = subprocess.run(
            case.verify, cwd=case.folder, input=out, capture_output=True, text=True, check=False
        )
        how = done.stdout.strip() or done.stderr.strip()[-300:]
        if done.returncode:
            return {"outcome": "mismatch", "why": how}
        return {"outcome": "verified", "why": text, "how": how}
    sources = "".join((case.folder / path).read_text(errors="replace") for path in case.sources)
    compared = bool(_RIGHT.search(out) or _BY_STATUS.search(sources))
    return {"outcome": "verified" if compared else "ran", "why": text}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("list", type=Path, help="the programs, as JSON")
    parser.add_argument("--json", type=Path, required=True, help="the results")
    parser.add_argument(
        "--only", action="append", default=[], help="run these again: SUITE or SUITE/NAME"
    )
    parser.add_argument("--seconds", type=float, default=300, help="the limit of a program")
    parser.add_argument(
        "--jobs", type=int, default=1, help="how many programs run at a time (in separate folders)"
    )
    options = parser.parse_args()
    record = json.loads(options.json.read_text()) if options.json.is_file() else {"programs": {}}
    known = record["programs"]
    together = f"{options.jobs} programs at a time, " if options.jobs > 1 else ""
    record["where"] = (
        f"{platform.machine()}, {os.cpu_count()} cores, {together}"
        f"a time limit of {options.seconds:g} s for each program, "
        f"{datetime.date.today()}: `python benchmarks/programs.py`."
    )
    chosen = [
        case
        for case in cases(options.list)
        if not {case.suite, case.key}.isdisjoint(options.only)
        or (not options.only and case.key not in known)
    ]
    measured = commit()
    pool = ThreadPoolExecutor(options.jobs)
    try:
        running = {pool.submit(run, case, options.seconds): case for case in chosen}
        for done in as_completed(running):
            case, result = running[done], done.result()
            result["commit"] = measured
            for place in (f"{case.folder.resolve()}/", f"{case.folder.resolve().parent}/"):
                for key in ("why", "arguments"):
                    result[key] = str(result.get(key, "")).replace(place, "")
            known[case.key] = result
            print(f"{case.key}: {result['outcome']}", flush=True)
            options.json.write_text(json.dumps(record, indent=1) + "\n")
    finally:
        pool.shutdown(cancel_futures=True)


if __name__ == "__main__":
    main()
