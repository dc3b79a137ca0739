"""Stores launches of kernels of public repositories, to compare them with a GPU.

    python tools/any_stored.py CHECKOUT... --json FILE [--arguments FILE] --out FOLDER [--jobs N]

FILE is a result of `any_repositories.py`. Each kernel that ran there is launched once more on the
simulator, with the same arguments. FOLDER gets, for each kernel: its machine code, its arguments,
and what the simulator computed. If the check finds nothing, it also gets the counts that the
package calls exact. `any_gpu.py` makes the same launches on a GPU. It does not need coalesce.
"""

import argparse
import contextlib
import hashlib
import io
import json
import re
import subprocess
import sys
import warnings
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import any_files
import any_references
import any_repositories
import numpy as np
from time_limit import TooLong, limited

import coalesce
from coalesce.arrays import devices
from coalesce.compile import nvrtc
from coalesce.launch.arguments import HostArray, prepare
from coalesce.launch.structures import PackedStructure

SECONDS = 60  # for one launch


class Store:
    """A folder of launches. Arrays with equal contents are stored once."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    def blob(self, data: bytes) -> str:
        """Store bytes; return the name of their file."""
        name = hashlib.sha256(data).hexdigest()[:20]
        if not (self.folder / name).exists():
            (self.folder / name).write_bytes(data)
        return name

    def array(self, before: np.ndarray[Any, Any], after: np.ndarray[Any, Any]) -> dict[str, Any]:
        """Store an array before and after a launch; the second as the difference of the bytes."""
        first, second = (a.reshape(-1).view("u1") for a in (before, after))
        return {
            "dtype": before.dtype.str,
            "before": self.blob(first.tobytes()),
            "change": self.blob((first ^ second).tobytes()) if (first != second).any() else "",
        }


def _hows(row: dict[str, Any], kernel: coalesce.Kernel, own: Any) -> list[Any]:
    """Return the arguments of a row. Older rows have only the value of the integers."""
    if "how" in row:
        how = dict(row["how"])
        return [any_files.How(**{k: v for k, v in how.items() if k != "shape"}, own=own or None)]
    size = int(row["launch"].rpartition(" ")[2])
    hows = [
        any_files.How(size, elements, SECONDS, shared=shared)
        for elements in any_references.ELEMENTS
        for shared in (any_files.How.shared, 98304)
    ]
    return hows + [
        any_files.How(size, hows[0].elements, SECONDS, one=n) for n in any_files.integers_of(kernel)
    ]


def _shape(row: dict[str, Any]) -> Any:
    if "how" in row:
        return tuple(tuple(e) if isinstance(e, list) else e for e in row["how"]["shape"])
    return eval(row["launch"].partition(";")[0])  # written by any_references.compared


def stored(
    kernel: coalesce.Kernel, row: dict[str, Any], own: Any, store: Store
) -> dict[str, Any] | str:
    """Launch a kernel and store the launch; return its description, or why it is not stored.

    If the check reports a race, because the made-up sizes do not fit the grid, the launch is made
    with one block.
    """
    shape = _shape(row)
    best: dict[str, Any] | str = ""
    for how in _hows(row, kernel, own):
        shapes = [shape] if own else [shape, *((1, block) for block in (shape[1], 256, 32, 1))]
        for some in shapes:
            launch = _tried(kernel, some, how, own, store)
            if isinstance(launch, str):
                best = best or launch
            elif launch["defined"]:
                return launch
            elif isinstance(best, str):
                best = launch
        if not isinstance(best, str):
            return best
    return best


def _tried(
    kernel: coalesce.Kernel, shape: Any, how: any_files.How, own: Any, store: Store
) -> dict[str, Any] | str:
    try:
        with any_references.values(kernel, own), limited(SECONDS):
            return _stored(kernel, shape, how, store)
    except coalesce.CoalesceError as caught:
        return f"{type(caught).__name__}: {caught}"
    except TooLong:
        return "too long"


def _stored(kernel: coalesce.Kernel, shape: Any, how: Any, store: Store) -> dict[str, Any]:
    given = any_files.arguments_of(kernel, how)
    made = prepare(kernel.signature, given)
    arrays = [a for a in made if isinstance(a, HostArray)]
    variables = list(kernel.globals)
    now = [a.original for a in arrays] + [np.array(kernel.globals[name]) for name in variables]
    before = [np.array(a) for a in now]
    shared = any_files.kernel_shared(kernel, how.shared)
    cooperative = "this_grid" in kernel.module.source
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        record = kernel.launch(
            *shape,
            *given,
            shared_bytes=shared,
            device="sim",
            counts=True,
            cooperative=cooperative,
        )
    after = [np.array(a.original) for a in arrays]
    after += [np.array(kernel.globals[name]) for name in variables]
    numbers = {id(a): number for number, a in enumerate(arrays)}
    compiled = kernel.module.compiled(devices.resolve("sim"))
    assert compiled.cubin is not None
    for name, value in zip(variables, before[len(arrays) :], strict=True):
        with contextlib.suppress(ValueError):  # a const variable cannot be written
            kernel.globals[name] = value
    checked = any_files.outcome(kernel, "check", shape, how)
    defined = not checked.error and not checked.returned
    exact = {}
    if defined and record.counts.machine_code and not re.search(r"%clock|globaltimer", kernel.ptx):
        profile = any_files.outcome(kernel, "profile", shape, how).returned
        if profile is not None:
            metrics = profile.metrics()
            exact = {name: metrics[name] for name in profile.exact}

    def packed(argument: Any) -> Any:
        if isinstance(argument, HostArray):
            return {"array": numbers[id(argument)], "offset": argument.offset}
        if isinstance(argument, PackedStructure):
            places = [(o, numbers[id(made[n])], made[n].offset) for o, n in argument.pointers]
            return {"bytes": argument.packed.hex(), "pointers": places}
        return {"bytes": argument.hex()}

    program = kernel.module.program(devices.resolve("sim"))
    symbols = {v.name: v.symbol for v in kernel.globals._variables}
    return {
        "entry": kernel.entry,
        "compiler": "NVRTC {}.{}".format(*nvrtc.nvrtc().version),
        "cubin": store.blob(compiled.cubin),
        "grid": [*np.atleast_1d(shape[0]).tolist(), 1, 1][:3],
        "block": [*np.atleast_1d(shape[1]).tolist(), 1, 1][:3],
        "shared": shared,
        "cooperative": cooperative,
        "parameters": [packed(a) for a in made[: len(kernel.signature.parameters)]],
        "arrays": [store.array(b, a) for b, a in zip(before, after, strict=True)],
        "textures": {
            n: {
                "shape": a.original.shape,
                "linear": a.original.ndim == 1,
                **any_files.texture_options.get(id(a.original), (None, {}))[1],
            }
            for n, a in enumerate(arrays)
            if a.texture is not None
        },
        "variables": {symbols[name]: len(arrays) + n for n, name in enumerate(variables)},
        "printed": printed.getvalue(),
        "atomics": bool(re.search(r"\b(atom|red)\.[^;]*\.(b?f16|f32|f64)", kernel.ptx)),
        "defined": defined,
        "ordered": bool(program.spaces_ordered_by_atomics(kernel.entry)),
        "addresses": bool(any_references.of_addresses(kernel, given)),
        "machine_code": record.counts.machine_code,
        "exact": {k: v for k, v in exact.items() if isinstance(v, int | float)},
    }


def _one(folder: Path, row: dict[str, Any], own: Any, out: Path) -> Any:
    with limited(any_repositories.LONGEST):
        kernel, _ = any_repositories.opened(folder / row["file"], row["kernel"], folder, own)
        return stored(kernel, row, own, Store(out))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("checkouts", nargs="+", type=Path)
    parser.add_argument("--json", type=Path, required=True)
    parser.add_argument("--arguments", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--only", default="")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    rows = {
        ":".join((row["repository"], row["file"], row["kernel"])): row
        for row in json.loads(options.json.read_text())["kernels"]
    }
    folders = {f.name.partition("@")[0].replace("+", "/"): f for f in options.checkouts}
    if options.one is not None:
        row = rows[options.one]
        own = any_repositories.own_of(options.arguments, tuple(options.one.split(":")))
        print(json.dumps(_one(folders[row["repository"]], row, own, options.out)))
        return 0
    known = options.out / "launches.json"
    launches = json.loads(known.read_text()) if known.is_file() else {}

    def store(key: str) -> tuple[str, Any]:
        command = [sys.executable, __file__, *sys.argv[1:], "--one", key]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        line = (done.stdout.splitlines() or [""])[-1]
        return key, json.loads(line) if line[:1] in ("{", '"') else done.stderr[-300:]

    wanted: Sequence[str] = [
        key
        for key, row in rows.items()
        if "launch" in row
        and row["outcome"] not in ("fault", "nothing written")
        and options.only in key
        and key not in launches
    ]
    with ThreadPoolExecutor(options.jobs) as pool:
        for key, launch in pool.map(store, wanted):
            if isinstance(launch, str):
                print(key, launch[:300].replace("\n", " "), flush=True)
                continue
            launches[key] = launch
            known.write_text(json.dumps(launches))
    print(f"{len(launches)} launches in {options.out}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
