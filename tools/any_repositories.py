"""Tries kernels of public repositories: do they run, and are their results right?

    python tools/any_repositories.py CHECKOUT... --json FILE [--arguments FILE] [--jobs N]
        [--only TEXT] [--resume]

A CHECKOUT is a folder with the files of a repository, named OWNER+NAME@COMMIT. The kernels are
chosen by a rule, before anything runs:

- The candidates are all ``__global__`` functions with a body in the .cu, .cuh and .hip files,
  except those that a macro defines. If two have the same text, the second is dropped, also if
  another repository has it.
- The candidates of a repository are ordered by the SHA-256 of "FILE:NAME". The first 18 valid ones
  are tried. A candidate is not valid if the CUDA compiler refuses it for any arguments: coalesce
  does not compile it, and nvcc reports the same error (missing headers are empty for it). It is not
  valid either if nvcc does not see it, because of ``#if`` or because it is in a string. The rule
  does not depend on what a kernel does when it runs.

Each file is passed to `coalesce.Kernel` as it is, with the name of the kernel. If the file includes
headers of its repository, their folders are passed with -I. A .cuh file that does not compile alone
is passed through a .cu file that includes it. If there are several instantiations of a template,
the first is taken. If there is none, types become float, numbers 16 and bools true. A type whose
values the kernel calls becomes the first function object of the file, or a sum that is added to it.
A file that needs C++20 gets -std=c++20.
Arguments, launches and the reference are those of `any_references.py`. The file of --arguments has
arguments for kernels whose arguments the script cannot guess; see `Own`.

The outcomes:

- right: the result equals that of the reference, and the kernel wrote or printed something;
- wrong: the results differ, and the check finds no reason;
- not defined: the results differ, and the check reports a race or memory that nobody wrote;
- not compared: the kernel ran to its end, but there is no reference;
- fault: every launch with made-up arguments accesses memory outside its arrays, or waits for ever;
- refused: it does not compile, or uses what is not simulated;
- refused by nvcc, too: the CUDA compiler refuses it for any arguments (replaced by the next one);
- absent: nvcc does not see the kernel, either (replaced by the next one).
"""

import argparse
import contextlib
import datetime
import hashlib
import itertools
import json
import os
import platform
import re
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

import any_references
import any_refusals
from any_refusals import NOT_VALID
from both_ways import why_ptx
from time_limit import TooLong, limited

import coalesce
from coalesce.compile import nvrtc

AT_MOST = 18  # the valid kernels of a repository
SECONDS = 20  # for one launch
LONGEST = 400  # seconds for one kernel

_COMMENT = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"', re.DOTALL)
_MACRO = re.compile(r"^[ \t]*#[ \t]*define(?:[^\n]*\\\r?\n)*[^\n]*", re.MULTILINE)
_NOT_NAMES = {"__launch_bounds__", "__align__", "__maxnreg__", "__cluster_dims__", "__attribute__"}
_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*[<"]([^>"\n]+)[>"]', re.MULTILINE)


def read(path: Path) -> str:
    return path.read_bytes().decode("latin-1")


def definitions(text: str) -> Iterator[tuple[str, str]]:
    """Yield the name and the text of every kernel that a file defines."""
    text = _COMMENT.sub(lambda m: m[0] if m[0][0] == '"' else " ", text)
    text = _MACRO.sub("", text)
    for mark in re.finditer(r"\b__global__\b", text):
        for match in re.finditer(r"(\w+)\s*(?:<[^<>()]*>\s*)?\(|[;{}]", text[mark.end() :]):
            if match[1] in _NOT_NAMES:
                continue
            if match[1]:
                opened = mark.end() + match.end() - 1
                end = any_references.closed(text, opened)
                body = re.compile(r"\s*\{").match(text, end)
                if body:
                    closed = any_references.closed(text, body.end() - 1)
                    yield match[1], " ".join(text[mark.start() : closed].split())
            break


def candidates(folder: Path, seen: set[str]) -> list[tuple[Path, str]]:
    """Return the kernels of a repository in the order of the rule.

    `seen` has the texts of the repositories before.
    """
    kernels: dict[str, tuple[Path, str]] = {}
    files = (p for p in folder.rglob("*") if p.suffix in (".cu", ".cuh", ".hip") and p.is_file())
    for path in sorted(files):
        for name, text in definitions(read(path)):
            key = f"{path.relative_to(folder)}:{name}"
            if text not in seen and key not in kernels:
                seen.add(text)
                kernels[key] = (path, name)
    order = sorted(kernels, key=lambda key: hashlib.sha256(key.encode()).hexdigest())
    return [kernels[key] for key in order]


def _common(one: Path, other: Path) -> tuple[str, ...]:
    """Return the folders that two paths have in common."""
    pairs = zip(one.parts, other.parts, strict=False)
    pairs = itertools.takewhile(lambda pair: pair[0] == pair[1], pairs)
    return tuple(folder for folder, _ in pairs)


def _of_the_system(name: str) -> bool:
    """Whether a header belongs to the compilers or to CUDA."""
    folders = [Path("/usr/include"), *map(Path, nvrtc.include_folders())]
    return "." not in name or any((folder / name).is_file() for folder in folders)


def include_options(path: Path, folder: Path) -> list[str]:
    """Return -I options for the headers of the repository that a file includes, also indirectly."""
    headers: dict[str, list[Path]] = {}
    for header in sorted(p for p in folder.rglob("*") if p.is_file()):
        headers.setdefault(header.name, []).append(header)
    options: dict[str, None] = {}
    waiting, seen = [path], {path}
    while waiting:
        file = waiting.pop()
        for name in _INCLUDE.findall(read(file)):
            if f"<{name}>" in read(file) and _of_the_system(name):
                continue
            target = (file.parent / name).resolve()
            if not target.is_file():
                fitting = [h for h in headers.get(Path(name).name, ()) if h.match(name)]
                if not fitting:
                    continue
                target = min(fitting, key=lambda h: (-len(_common(h, path)), len(h.parts), h))
                options[f"-I{str(target).removesuffix(name)}"] = None
            if target not in seen:
                seen.add(target)
                waiting.append(target)
    return list(options)


def _namespace(text: str, place: int) -> str:
    """Return the namespaces around a place of a text: ``a::b::``."""
    opened: list[str] = []
    for match in re.finditer(r"\bnamespace\s+([\w:]+)\s*\{|[{}]", text[:place]):
        if match[0] == "}":
            del opened[-1:]
        else:
            opened.append(match[1] or "")
    return "".join(f"{name}::" for name in opened if name)


# A function object for kernels that need one; see `_functor`.
_SUM = """
struct made_up_sum {
    template <class T> __device__ T operator()(T a, T b) const { return a + b; }
};
"""


def _is_called(kind: str, kernel: str) -> bool:
    """Whether a kernel calls a parameter of this type, or its members."""
    parameter = re.search(rf"\b{kind}\s+(\w+)\s*[,)]", kernel)
    return parameter is not None and bool(re.search(rf"\b{parameter[1]}\s*[(.]", kernel))


def _functor(text: str) -> str:
    """Return a type of function objects: the first of the file, or a sum, which is added to it."""
    match = re.search(
        r"\bstruct\s+(\w+)\s*\{(?:(?!\bstruct\b).)*?\boperator\s*\(\)", text, re.DOTALL
    )
    return match[1] if match else "made_up_sum"


def _instantiation(text: str, name: str) -> str:
    """Return a template's name with made-up template arguments."""
    text = _MACRO.sub("", _COMMENT.sub(" ", text))
    match = re.search(rf"\b__global__\b[^;{{}}]*?\b{name}\s*\(", text)
    if match is None:
        return name
    starts = [m.end() for m in re.finditer(r"\btemplate\s*<", text[: match.start()])]
    opened = text.index("(", match.end() - 1)
    kernel = text[opened : any_references.closed(text, opened)]
    body = re.compile(r"\s*\{").match(text, opened + len(kernel))
    kernel += text[body.start() : any_references.closed(text, body.end() - 1)] if body else ""
    arguments, depth, parameter = [], 1, ""
    for letter in text[starts[-1] :] if starts else ">":
        depth += {"<": 1, ">": -1, "(": 1, ")": -1}.get(letter, 0)
        if depth == 0 or (letter == "," and depth == 1):
            kind = parameter.split()
            if "=" in parameter or not kind:
                break
            made_up = {"typename": "float", "class": "float", "bool": "true"}
            value = made_up.get(kind[kind[0] == "const"], "16")
            if value == "float" and _is_called(kind[-1], kernel):
                value = _functor(text)
            arguments.append(value)
            parameter = ""
        else:
            parameter += letter
        if depth == 0:
            break
    return f"{_namespace(text, match.start())}{name}<{', '.join(arguments)}>"


def _including(path: Path, folder: Path) -> list[Path]:
    """Return the .cu files of a repository that include a file, the smallest first."""
    if path.suffix == ".cu":  # names such as kernels.cu are common
        beside = (p for p in path.parent.iterdir() if p.suffix in (".cu", ".cpp"))
        return sorted(p for p in beside if path.name in _INCLUDE.findall(read(p)))
    texts = {
        p: {Path(name).name for name in _INCLUDE.findall(read(p))}
        for p in folder.rglob("*")
        if p.suffix in (".cu", ".cuh", ".h", ".hpp", ".hip", ".inl") and p.is_file()
    }
    files_with_kernels: set[Path] = set()
    wanted = {path.name}
    while wanted:
        more = {p for p, names in texts.items() if names & wanted} - files_with_kernels
        files_with_kernels |= more
        wanted = {p.name for p in more if p.suffix not in (".cu", ".hip")}
    files = [p for p in files_with_kernels if p.suffix in (".cu", ".hip")]
    return sorted(files, key=lambda p: (p.stat().st_size, p))


def kernel_of(
    path: Path, name: str, options: Sequence[str], made_up: bool = True
) -> coalesce.Kernel:
    """Return a kernel of a file. Of several instantiations, the first is taken."""
    try:
        return _kernel_of(path, name, options, made_up)
    except coalesce.CompileError as error:
        if "C++20 feature" not in str(error):
            raise
    return _kernel_of(path, name, [*options, "-std=c++20"], made_up)


def _kernel_of(path: Path, name: str, options: Sequence[str], made_up: bool) -> coalesce.Kernel:
    try:
        return coalesce.Kernel(path, name, options, device="sim")
    except ValueError as error:
        message = str(error)
        if "choose one of" in message:
            listed = message.partition("choose one of ")[2]
            first = re.split(r", (?![^<]*>)", listed)[0]
            if "(as " in first:
                first = first.partition("(as ")[2].rstrip(")")
            return coalesce.Kernel(path, first, options, device="sim")
        if "template" not in message or not made_up:
            raise
    entry = _instantiation(read(path), name)
    if "made_up_sum" in entry:
        own = [*options, f"-I{path.parent}"]
        return coalesce.Kernel(read(path) + _SUM, entry, own, device="sim", filename=path.name)
    return coalesce.Kernel(path, entry, options, device="sim")


def pasted(path: Path, name: str, folder: Path) -> tuple[coalesce.Kernel, list[Path]]:
    """Return a kernel of a file, and the files that may launch it.

    The files that include a file choose the instantiation of a template. The file is compiled alone
    if it can be.
    """
    files = [path, *_including(path, folder)[:3]]
    kernel = None
    for file in files[1:]:
        with contextlib.suppress(ValueError, coalesce.CoalesceError):
            kernel = kernel_of(file, name, include_options(file, folder), made_up=False)
            break
    options = include_options(path, folder)
    if kernel is None:
        return kernel_of(path, name, options), files
    with contextlib.suppress(ValueError, coalesce.CoalesceError):
        return coalesce.Kernel(path, kernel.name, options, device="sim"), files
    return kernel, files


def _constant(expression: str, text: str, depth: int = 0) -> Any:
    """Return the value of a constant expression for the extents of a block; None if unknown."""
    expression = re.sub(r"^\s*dim3\s*\((.*)\)\s*$|^\s*\{(.*)\}\s*$", r"\1\2,", expression)
    for name in set(re.findall(r"[A-Za-z_]\w*", expression)):
        known = re.compile(
            rf"#\s*define\s+{name}\s+([^\n/]+)|\bdim3\s+{name}\s*[({{]([^;]*)[)}}]\s*;"
            rf"|\b(?:int|unsigned|uint|size_t|auto|dim3)\s+{name}\s*=\s*([^;,]+)\s*[;,]"
        )
        known = next(reversed(list(known.finditer(text))), None)  # the nearest before the launch
        if known is None or depth > 4:
            return None
        text_of_value = known[1] or (known[2] and known[2] + ",") or known[3]
        value = _constant(text_of_value, text, depth + 1)
        if value is None:
            return None
        expression = re.sub(rf"\b{name}\b", str(value), expression)
    if not re.fullmatch(r"[\d\s+*/(),-]+", expression):
        return None
    try:
        return eval(expression.replace("/", "//"))  # only digits and operators
    except (SyntaxError, TypeError, ZeroDivisionError):
        return None


def blocks_of(path: Path, name: str) -> list[Any]:
    """Return the constant shapes of the blocks with which a file launches a kernel."""
    text = _COMMENT.sub(" ", read(path))
    shapes = []
    for launch in re.finditer(rf"\b{name}\b[^;{{}}]*?<<<(.*?)>>>", text, re.DOTALL):
        parts = re.split(r",(?![^()]*\))", launch[1])
        value = _constant(parts[1], text[: launch.start()]) if len(parts) > 1 else None
        extents = value if isinstance(value, tuple) else (value,)
        if value and all(isinstance(e, int) and 0 < e <= 1024 for e in extents):
            shapes.append(value)
    return list(dict.fromkeys(shapes))


def opened(
    path: Path, name: str, folder: Path, own: Mapping[str, Any]
) -> tuple[coalesce.Kernel, list[Path]]:
    """Return a kernel of a file, and the files that may launch it.

    `own` chooses the instantiation and files whose text is added, if it has them.
    """
    if not {"instance", "files"} & own.keys():
        return pasted(path, name, folder)
    files = [path, *(folder / file for file in own.get("files", ()))]
    options = [o for file in files for o in (f"-I{file.parent}", *include_options(file, folder))]
    options = [*dict.fromkeys(options), *own.get("options", ())]
    text = "".join(read(file) for file in files)
    entry = own.get("instance", name)
    return coalesce.Kernel(text, entry, options, device="sim", filename=path.name), files


def tried(path: Path, name: str, folder: Path, own: Mapping[str, Any]) -> dict[str, Any]:
    """Try a kernel; return its outcome. `own` has its arguments, if they are not made up."""
    try:
        with limited(LONGEST / 2):
            kernel, files = opened(path, name, folder, own)
            why = why_ptx(kernel)
    except (ValueError, coalesce.CoalesceError) as error:
        outcome = any_refusals.outcome(path, include_options(path, folder), error, name)
        return {"outcome": outcome, "detail": str(error)}
    row: dict[str, Any] = {"instance": kernel.name, "ptx": why, "own": bool(own)}
    with tempfile.TemporaryDirectory() as place:
        library, message = any_references.build([kernel], Path(place))
        row.update(
            any_references.compared(
                kernel,
                library,
                0,
                SECONDS,
                blocks=[b for f in files for b in blocks_of(f, name)],
                own=own,
            )
        )
    if library is None and row["outcome"] == "not compared":
        row["detail"] = message
    return row


def _short(detail: str) -> str:
    """Return the first message of a detail, without lines of the source and names of folders."""
    error = re.search(r"\b(?:error|fatal) ?: ([^\n]*)", detail)
    said = error[1] if error else detail.split("\n")[0]
    return re.sub(r"/\S+/", "", said)[:160]


def key_of(path: Path, name: str, folder: Path) -> tuple[str, str, str]:
    """Return the repository, the file and the kernel, as the results name them."""
    repository = folder.name.partition("@")[0].replace("+", "/")
    return repository, str(path.relative_to(folder)), name


def own_of(file: Path | None, key: tuple[str, str, str]) -> dict[str, Any]:
    """Return what the file of --arguments has for a kernel; see `any_files.Own`."""
    known = json.loads(file.read_text()) if file else {}
    own: dict[str, Any] = known.get(":".join(key), {})
    return own


def _worker(path: Path, name: str, folder: Path, arguments: Path | None) -> dict[str, Any]:
    command = [sys.executable, __file__, str(folder), "--one", str(path), name]
    command += ["--arguments", str(arguments)] if arguments else []
    start = time.monotonic()
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=LONGEST, check=False)
        line = done.stdout.strip().splitlines()[-1:] or [""]
        row = json.loads(line[0]) if line[0].startswith("{") else None
        row = row or {"outcome": "crash", "detail": (done.stdout + done.stderr)[-600:]}
    except subprocess.TimeoutExpired:
        row = {"outcome": "too long", "detail": f"more than {LONGEST} s"}
    return {
        "file": str(path.relative_to(folder)),
        "kernel": name,
        **row,
        "seconds": round(time.monotonic() - start, 1),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("checkouts", nargs="*", type=Path)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--arguments", type=Path, help="a JSON file; see any_files.Own")
    parser.add_argument("--commit", default="", help="the commit of coalesce, for the JSON")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--only", default="", help="try only kernels whose FILE:NAME has this text")
    parser.add_argument(
        "--resume",
        action="store_true",
        help="keep what is right in the JSON and runs on machine code, and what --only leaves out",
    )
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    if options.one:
        path = Path(options.one[0])
        own = own_of(options.arguments, key_of(path, options.one[1], options.checkouts[0]))
        try:
            row = tried(path, options.one[1], options.checkouts[0], own)
        except TooLong:
            row = {"outcome": "too long", "detail": "compilation"}
        except TypeError as error:  # an argument cannot be made
            row = {"outcome": "refused", "detail": str(error)}
        except Exception:
            row = {"outcome": "exception", "detail": traceback.format_exc()[-900:]}
        print(json.dumps(row))
        return 0
    before: dict[tuple[str, str, str], dict[str, Any]] = {}
    if options.resume and options.json.is_file():
        record = json.loads(options.json.read_text())
        for row in [*record["kernels"], *record.get("replaced", ())]:
            before[row["repository"], row["file"], row["kernel"]] = row
    seen: set[str] = set()
    rows = dict(before)  # also those that this run does not reach, if it is interrupted

    def done(job: tuple[Path, str, Path]) -> None:
        key = key_of(*job)
        wanted = options.only in ":".join(key)
        row = before.get(key)
        if row and row["outcome"] in ("right", *NOT_VALID) and not row.get("ptx"):
            wanted = False
        if wanted:
            commit = job[2].name.partition("@")[2]
            row = {"repository": key[0], "commit": commit, **_worker(*job, options.arguments)}
            said = (*key, row["outcome"], row["seconds"], _short(row.get("detail", "")))
            print(*said, sep="\t", flush=True)
        if row:
            rows[key] = {**row, "detail": _short(row["detail"])}

    def save(order: Sequence[tuple[str, str, str]]) -> None:
        known = [rows[key] for key in order if key in rows]
        valid = [row for row in known if row["outcome"] not in NOT_VALID]
        record = {
            "chosen": len(order) - len(known) + len(valid),
            "where": f"{platform.machine()}, {os.cpu_count()} cores, {datetime.date.today()}",
            "coalesce": options.commit,
            "kernels": valid,
            "replaced": [row for row in known if row["outcome"] in NOT_VALID],
        }
        options.json.write_text(json.dumps(record, indent=1) + "\n")

    orders = [(f, candidates(f, seen)) for f in options.checkouts]
    taken = {folder: AT_MOST for folder, _ in orders}
    todo = [(path, name, folder) for folder, order in orders for path, name in order[:AT_MOST]]
    with ThreadPoolExecutor(options.jobs) as pool:
        while todo:
            for _ in pool.map(done, todo):
                if options.json:
                    places = [(p, n, f) for f, order in orders for p, n in order[: taken[f]]]
                    save([key_of(*place) for place in places])
            todo = []  # the next candidates, instead of those that are not valid
            for folder, order in orders:
                tried_keys = [key_of(path, name, folder) for path, name in order[: taken[folder]]]
                valid = [k for k in tried_keys if rows.get(k, {}).get("outcome") not in NOT_VALID]
                more = order[taken[folder] :][: AT_MOST - len(valid)]
                todo += [(path, name, folder) for path, name in more]
                taken[folder] += len(more)
    for outcome, number in Counter(row["outcome"] for row in rows.values()).most_common():
        print(f"{number:6} {outcome}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
