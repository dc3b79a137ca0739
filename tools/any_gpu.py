"""Makes launches that `any_stored.py` stored on a GPU, and compares the results.

    python tools/any_gpu.py compare FOLDER --json FILE [--jobs N]    # needs a GPU and CuPy
    python tools/any_gpu.py count FOLDER --json FILE [--seconds S]    # also needs ncu

`compare` loads the machine code that the simulator executed and compares every array and variable
with what the simulator computed, bit for bit. The outcomes:

- equal: all bits are equal;
- atomics: floats differ by rounding, and the kernel adds floats with atomics, which have no order;
- rounding: floats differ by rounding, for another reason;
- order: the results differ; the kernel writes to places that atomics return, in any order;
- addresses: the results differ; the kernel writes addresses;
- not defined: the results differ, and the check reports a race or memory that nobody wrote;
- different: the results differ for another reason;
- failed: the launch failed.

`count` runs the launches under Nsight Compute, until the seconds are over, and compares the
counters with the counts that the package calls exact. This script does not need coalesce.
"""

import argparse
import csv
import ctypes
import datetime
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

_FLAGS = {"addresses": "addresses", "order": "ordered"}  # of a stored launch
LONGEST = 40  # seconds for the launches of one process
AT_ONCE = 12  # the launches of one process


class Driver:
    """The functions of the CUDA driver that CuPy does not offer for machine code of others."""

    def __init__(self) -> None:
        self.library = ctypes.CDLL("libcuda.so.1")

    def call(self, name: str, *arguments: Any) -> None:
        """Call a function; raise a RuntimeError if it fails."""
        error = getattr(self.library, name)(*arguments)
        if error:
            said = ctypes.c_char_p()
            self.library.cuGetErrorString(error, ctypes.byref(said))
            raise RuntimeError(f"CUDA: {name}: {(said.value or b'').decode()}")


class Launched:
    """A stored launch on the GPU."""

    def __init__(self, folder: Path, launch: dict[str, Any]) -> None:
        import cupy

        self.cupy = cupy
        self.folder = folder
        self.launch = launch
        self.before = [self._read(a, a["before"]) for a in launch["arrays"]]
        cupy.zeros(1)  # makes the context
        self.driver = Driver()
        self.module, self.function = ctypes.c_void_p(), ctypes.c_void_p()
        file = str(folder / launch["cubin"]).encode()
        self.driver.call("cuModuleLoad", ctypes.byref(self.module), file)
        entry = launch["entry"].encode()
        self.driver.call("cuModuleGetFunction", ctypes.byref(self.function), self.module, entry)
        variables = launch["variables"]
        self.device: dict[int, Any] = {}
        self.kept: list[Any] = []
        textures = {int(n): how for n, how in launch["textures"].items()}
        for number, array in enumerate(self.before):
            if number in textures:
                self.device[number] = self._texture(array, textures[number])
            elif number not in variables.values():
                self.device[number] = cupy.asarray(array.view("u1"))
        for symbol, number in variables.items():
            self._variable(symbol, number).set(self.before[number].view("u1"))

    def _read(self, array: dict[str, Any], name: str) -> np.ndarray[Any, Any]:
        return np.fromfile(self.folder / name, "u1").view(np.dtype(array["dtype"]))

    def wanted(self, number: int) -> np.ndarray[Any, Any]:
        """Return an array after the launch, as the simulator computed it."""
        array = self.launch["arrays"][number]
        before = self.before[number]
        if not array["change"]:
            return before
        change = np.fromfile(self.folder / array["change"], "u1")
        return (before.view("u1") ^ change).view(before.dtype)

    def _variable(self, symbol: str, number: int) -> Any:
        address, size = ctypes.c_void_p(), ctypes.c_size_t()
        where = ctypes.byref(address), ctypes.byref(size)
        self.driver.call("cuModuleGetGlobal_v2", *where, self.module, symbol.encode())
        count = self.before[number].nbytes
        memory = self.cupy.cuda.UnownedMemory(address.value, count, self, 0)
        pointer = self.cupy.cuda.MemoryPointer(memory, 0)
        return self.cupy.ndarray((count,), "u1", pointer)

    def _texture(self, array: np.ndarray[Any, Any], how: dict[str, Any]) -> Any:
        texture = self.cupy.cuda.texture
        runtime = self.cupy.cuda.runtime
        kind = {
            "f": runtime.cudaChannelFormatKindFloat,
            "i": runtime.cudaChannelFormatKindSigned,
            "u": runtime.cudaChannelFormatKindUnsigned,
        }[array.dtype.kind]
        channels = how.get("channels", 1)
        bits = [8 * array.dtype.itemsize] * channels + [0] * (4 - channels)
        channel = texture.ChannelFormatDescriptor(*bits, kind)
        shape = how["shape"]
        if how["linear"]:
            memory = self.cupy.asarray(array)
            resource = texture.ResourceDescriptor(
                runtime.cudaResourceTypeLinear, arr=memory, chDesc=channel, sizeInBytes=array.nbytes
            )
        else:
            extents = shape if channels == 1 else shape[:-1]
            memory = texture.CUDAarray(channel, *extents[::-1])
            rows = array.reshape(*extents[:-1], -1)
            memory.copy_from(rows)
            resource = texture.ResourceDescriptor(runtime.cudaResourceTypeArray, cuArr=memory)
        clamp = (runtime.cudaAddressModeClamp,) * 3
        read = "NormalizedFloat" if how.get("read") == "normalized" else "ElementType"
        described = texture.TextureDescriptor(
            clamp,
            getattr(runtime, f"cudaFilterMode{how.get('filter', 'point').capitalize()}"),
            getattr(runtime, f"cudaReadMode{read}"),
            normalizedCoords=how.get("normalized", False),
        )
        self.kept.append(memory)
        return texture.TextureObject(resource, described)

    def _address(self, number: int, offset: int) -> bytes:
        memory = self.device[number]
        address = memory.ptr if hasattr(memory, "ptr") else memory.data.ptr
        return int(address + offset).to_bytes(8, "little")

    def run(self) -> None:
        """Launch the kernel and wait."""
        parameters = []
        for p in self.launch["parameters"]:
            if "array" in p:
                data = bytearray(self._address(p["array"], p["offset"]))
            else:
                data = bytearray.fromhex(p["bytes"])
                for place, number, offset in p.get("pointers", ()):
                    data[place : place + 8] = self._address(number, offset)
            parameters.append(ctypes.create_string_buffer(bytes(data), len(data)))
        shared = self.launch["shared"]
        if shared > 48 << 10:
            largest = 8  # CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
            self.driver.call("cuFuncSetAttribute", self.function, largest, shared)
        places = (ctypes.c_void_p * max(1, len(parameters)))(*map(ctypes.addressof, parameters))
        sizes = [ctypes.c_uint(n) for n in (*self.launch["grid"], *self.launch["block"], shared)]
        self.cupy.cuda.runtime.deviceSynchronize()  # the copies have ended
        if self.launch["cooperative"]:
            launch = self.function, *sizes, None, places
            self.driver.call("cuLaunchCooperativeKernel", *launch)
        else:
            self.driver.call("cuLaunchKernel", self.function, *sizes, None, places, None)
        self.driver.call("cuCtxSynchronize")

    def after(self, number: int) -> np.ndarray[Any, Any]:
        """Return an array after the launch."""
        if number in {int(n) for n in self.launch["textures"]}:
            return self.before[number]
        symbols = {n: symbol for symbol, n in self.launch["variables"].items()}
        memory = (
            self._variable(symbols[number], number) if number in symbols else self.device[number]
        )
        values: np.ndarray[Any, Any] = memory.get().view(self.before[number].dtype)
        return values


def compared(launched: Launched, printed: str) -> dict[str, Any]:
    """Compare the results of a launch."""
    launch = launched.launch
    said, rounding = [], False
    for number in range(len(launch["arrays"])):
        values, wanted = launched.after(number), launched.wanted(number)
        if values.tobytes() == wanted.tobytes():
            continue
        unlike = values.view("u1").reshape(len(values), -1) != wanted.view("u1").reshape(
            len(values), -1
        )
        places = np.flatnonzero(unlike.any(axis=1))
        first = int(places[0])
        said.append(
            f"array {number}: {len(places)} of {len(values)} differ, first [{first}]: "
            f"GPU {values[first]!r}, simulator {wanted[first]!r}"
        )
        if values.dtype.str == "|V2":
            values, wanted = (
                (bits.view("u2").astype("u4") << 16).view("f4") for bits in (values, wanted)
            )
        near = values.dtype.kind in "fc"
        if near:
            with np.errstate(all="ignore"):
                largest = float(np.abs(wanted[np.isfinite(wanted)]).max(initial=0))
            eps = 1e-3 if values.dtype.itemsize == 2 else 1e-5
            near = np.allclose(values, wanted, rtol=eps, atol=eps / 10 * largest, equal_nan=True)
        rounding |= bool(near)
        if not near:
            kind = [name for name in ("addresses", "order") if launch[_FLAGS[name]]]
            if not kind and not launch["defined"]:
                kind = ["not defined"]
            return {"outcome": (kind or ["different"])[0], "detail": "; ".join(said)}
    if sorted(printed.split()) != sorted(launch["printed"].split()):
        return {"outcome": "different", "detail": f"printed {printed[:100]!r}"}
    if not said:
        return {"outcome": "equal", "detail": ""}
    return {"outcome": "atomics" if launch["atomics"] else "rounding", "detail": "; ".join(said)}


def run_here(folder: Path, keys: list[str], compare: bool) -> None:
    """Run launches in this process; print a line of JSON for each."""
    launches = json.loads((folder / "launches.json").read_text())
    out = os.dup(1)
    for key in keys:
        try:
            launched = Launched(folder, launches[key])
            with tempfile.TemporaryFile() as file:
                os.dup2(file.fileno(), 1)
                try:
                    launched.run()
                finally:
                    os.dup2(out, 1)
                file.seek(0)
                printed = file.read().decode("latin-1")
            result = compared(launched, printed) if compare else {"outcome": "launched"}
        except Exception as error:
            result = {"outcome": "failed", "detail": f"{type(error).__name__}: {error}"[:300]}
        os.write(out, (json.dumps([key, result]) + "\n").encode())
        if result["outcome"] == "failed" and "CUDA" in result["detail"]:
            return  # the context is lost


def compare(folder: Path, jobs: int, only: str) -> dict[str, Any]:
    """Compare all launches, in several processes; return the results by kernel."""
    launches = json.loads((folder / "launches.json").read_text())
    keys = [key for key in launches if only in key]
    results: dict[str, Any] = {}

    def process(some: list[str]) -> None:
        while some:
            command = [sys.executable, __file__, "here", str(folder), "--keys", json.dumps(some)]
            try:
                done = subprocess.run(
                    command, capture_output=True, text=True, timeout=LONGEST, check=False
                )
                text, why = done.stdout, done.stderr[-300:]
            except subprocess.TimeoutExpired as error:
                text = (error.stdout or b"").decode()
                why = f"more than {LONGEST} s"
            lines = [json.loads(line) for line in text.splitlines() if line.startswith("[")]
            results.update(dict(lines))
            if len(lines) < len(some) and not (lines and lines[-1][1]["outcome"] == "failed"):
                results[some[len(lines)]] = {"outcome": "failed", "detail": why}
                some = some[len(lines) + 1 :]
            else:
                some = some[len(lines) :]

    with ThreadPoolExecutor(jobs) as pool:
        list(pool.map(process, [keys[n : n + AT_ONCE] for n in range(0, len(keys), AT_ONCE)]))
    return results


def count(folder: Path, results: dict[str, Any], seconds: float) -> None:
    """Compare counters with the counts called exact; add them to the results."""
    launches = json.loads((folder / "launches.json").read_text())
    keys = [k for k in launches if launches[k]["exact"] and results[k]["outcome"] == "equal"]
    until = time.monotonic() + seconds
    for n in range(0, len(keys), AT_ONCE):
        if time.monotonic() > until:
            break
        some = keys[n : n + AT_ONCE]
        names = sorted({name for key in some for name in launches[key]["exact"]})
        rows = _under_ncu(folder, some, names)
        for key, row in zip(some, rows, strict=False):
            ours = launches[key]["exact"]
            both = {m: row[m] for m in ours if isinstance(row.get(m), int | float)}
            unlike = {
                m: (ours[m], v)
                for m, v in both.items()
                if abs(ours[m] - v) > (0.0051 if m.endswith((".pct", ".ratio")) else 0)
            }
            results[key]["counted"], results[key]["unlike"] = len(both), unlike


def _under_ncu(folder: Path, keys: list[str], names: list[str]) -> list[dict[str, Any]]:
    command = ["ncu", "--clock-control", "none", "--cache-control", "none", "--csv"]
    command += [
        "--page",
        "raw",
        "--print-units",
        "base",
        "--print-fp",
        "--metrics",
        ",".join(names),
    ]
    command += [sys.executable, __file__, "here", str(folder), "--keys", json.dumps(keys)]
    entries = json.loads((folder / "launches.json").read_text())
    wanted = [entries[key]["entry"] for key in keys]
    done = subprocess.run([*command, "--only-launch"], capture_output=True, text=True, check=False)
    lines = done.stdout.splitlines()
    first = next((i for i, line in enumerate(lines) if line.startswith('"ID"')), None)
    if first is None:
        print("ncu:", done.stdout[-500:], done.stderr[-500:])
        return []
    rows = list(csv.DictReader(lines[first:]))[1:]
    rows = [row for row in rows if not row["Kernel Name"].startswith("cupy")]
    if len(rows) != len(wanted):
        print(f"ncu reports {len(rows)} of {len(wanted)} launches", done.stderr[-300:])
        return []

    def number(text: str) -> Any:
        plain = text.replace(",", "")
        return float(plain) if re.fullmatch(r"-?[\d.]+(e[-+]?\d+)?", plain) else text

    return [{name: number(value) for name, value in row.items() if name in names} for row in rows]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("action", choices=("compare", "count", "here"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--json", type=Path, help="the results; count reads those of compare")
    parser.add_argument("--jobs", type=int, default=8)
    parser.add_argument("--only", default="", help="launches whose key has this text")
    parser.add_argument("--seconds", type=float, default=100, help="for count (100)")
    parser.add_argument("--keys", help=argparse.SUPPRESS)
    parser.add_argument("--only-launch", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.action == "here":
        run_here(options.folder, json.loads(options.keys), not options.only_launch)
        return 0
    if options.action == "compare":
        results = compare(options.folder, options.jobs, options.only)
        query = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
        gpu = subprocess.run(query, capture_output=True, text=True, check=False).stdout.strip()
        launches = json.loads((options.folder / "launches.json").read_text())
        compiler = ", ".join(sorted({launch["compiler"] for launch in launches.values()}))
        record = {
            "gpu": gpu,
            "date": str(datetime.date.today()),
            "compiler": compiler,
            "results": results,
        }
    else:
        record = json.loads(options.json.read_text())
        results = record["results"]
        count(options.folder, results, options.seconds)
    options.json.write_text(json.dumps(record, indent=1) + "\n")
    said = [r["outcome"] for r in results.values()]
    print({outcome: said.count(outcome) for outcome in sorted(set(said))})
    counted = [r for r in results.values() if "counted" in r]
    if counted:
        unlike = sum(bool(r["unlike"]) for r in counted)
        print(
            f"{len(counted)} launches counted, {sum(r['counted'] for r in counted)} metrics; "
            f"{unlike} launches differ"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
