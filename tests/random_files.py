"""Makes random CUDA C++ files that nvcc compiles: kernels between declarations of the host.

python tests/random_files.py --first 100 --count 50

Each seed gives one file, made of the parts in data/random_files.txt. `coalesce.Kernel` must find
each of its kernels, and each kernel must write the value that the file's text gives. For a file
that fails, the script asks nvcc, too, if it is installed: a file that nvcc refuses is a mistake of
the parts.
"""

import random
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from seeds import compare_seeds

import coalesce

HEADERS = (
    *("iostream", "vector", "string", "map", "functional", "thread", "cstdio", "chrono"),
    *("algorithm", "cmath", "memory", "unistd.h", "sys/time.h", "time.h", "cuda_runtime.h"),
    *("cuda.h", "thrust/device_vector.h", "thrust/sort.h", "fstream", "climits", "stdint.h"),
    *("cooperative_groups.h", "cuda_device_runtime_api.h", "channel_descriptor.h"),
)
NEEDED = HEADERS[:8]
BETWEEN = ("\n", "\n", "// __global__ void gone(int *x) {\n", "/* int gone = {\n */ ", "\t\n")

_FILE = (Path(__file__).parent / "data" / "random_files.txt").read_text(encoding="utf-8")
PARTS = {
    section.partition("\n")[0]: section.partition("\n")[2].strip("\n").split("\n~~\n")
    for section in _FILE.split("\n==== ")[1:]
}


@dataclass
class File:
    """A file that grows, with the names that later parts of it can use."""

    random: random.Random
    constants: list[tuple[str, int]] = field(default_factory=list)  # expressions and their values
    values: list[tuple[str, int]] = field(default_factory=list)  # the same, only for functions
    kernels: dict[str, int] = field(default_factory=dict)  # the values that they write
    names: int = 0

    def name(self, kind: str) -> str:
        self.names += 1
        return f"{kind}{self.names}"

    def sum_of(self, known: list[tuple[str, int]]) -> tuple[str, int]:
        """Return a sum of names that are known, and its value."""
        terms = self.random.sample(known, min(len(known), self.random.randrange(4)))
        terms.append((str(number := self.random.randrange(100)), number))
        return " + ".join(term for term, _ in terms), sum(value for _, value in terms)

    def filled(self, kind: str) -> tuple[str, str, int]:
        """Return a random part of this kind, its name, and the value that it gives."""
        part, name = self.random.choice(PARTS[kind]), self.name(kind[0])
        value = 2 * self.random.randrange(1, 500)
        initial = self.random.choice(PARTS["values"])
        any_sum, of_any = self.sum_of(self.constants + self.values)
        constant_sum, of_constants = self.sum_of(self.constants)
        given = of_any if "@e" in part else of_constants if "@c" in part else value
        host = self.filled("host")[0] if "@host" in part else ""
        for key, text in (("@host", host), ("@value", initial), ("@n", name), ("@v", str(value))):
            part = part.replace(key, text)
        part = part.replace("@h", str(value // 2))
        return part.replace("@e", any_sum).replace("@c", constant_sum), name, given

    def part(self, scope: str) -> str:
        """Return a random declaration; `scope` is the namespace around it, such as "a::"."""
        kind = self.random.choice(["constants", "host", "host", "device", "kernels"])
        text, name, value = self.filled(kind)
        if kind == "constants":
            place = "" if text.startswith("#define") else scope
            # nvcc does not know the value of a constant such as const int n = (lambda)().
            if "constexpr" in text or "[]" not in text:
                known = self.constants if not re.search("float|double", text) else self.values
                known.append((f"(int){place}{name}", value))
        elif kind == "device":
            text, _, use = text.partition("\n=> ")
            self.values.append((re.sub(r"\b(?=f?d\d)(?<!::)", scope, use), value))
        elif kind == "kernels":
            # C++ may find an inline namespace of BEGIN in another one.
            plain = 'extern "C"' in text or text.startswith("BEGIN")
            self.kernels[("" if plain else scope) + name] = value
        return text

    def block(self, count: int, scope: str) -> str:
        """Return some declarations, some of them in a namespace."""
        parts = []
        for _ in range(count):
            if self.random.random() < 0.15 and scope.count("::") < 2:
                inner = self.name("space")
                head = self.random.choice(
                    ["namespace @ {", "inline namespace @ {", "namespace @\n{"]
                )
                body = self.block(self.random.randrange(1, 4), f"{scope}{inner}::")
                parts.append(f"{head.replace('@', inner)}\n{body}\n}}\n")
            else:
                parts.append(self.part(scope) + "\n")
            parts.append(self.random.choice(BETWEEN))
        return "".join(parts)


def made(seed: int) -> tuple[str, dict[str, str], dict[str, int]]:
    """Return the text of a file, its headers, and the values that its kernels write."""
    file = File(random.Random(seed))
    names = dict.fromkeys([*file.random.sample(HEADERS, 6), *NEEDED])
    text = "".join(f"#include <{header}>\n" for header in names)
    text += PARTS["macros"][0] + "\n__global__ void first(int *x) { *x = 1; }\n"
    file.kernels["first"] = 1
    headers = {}
    if file.random.random() < 0.3:
        headers["own.cuh"] = f"#pragma once\n{text}{file.block(file.random.randrange(8), '')}"
        text = '#include "own.cuh"\n'
    text += file.block(file.random.randrange(5, 25), "")
    text += "int main(int argc, char **argv) {\n    first<<<1, 1>>>(nullptr);\n    return 0;\n}"
    if file.random.random() < 0.2:
        text = text.replace("\n", "\r\n")
    return text + "\n" * file.random.randrange(2), headers, file.kernels


def source(seed: int) -> str:
    text, headers, _ = made(seed)
    return "\n".join([*headers.values(), text])


def errors_of_nvcc(text: str, headers: dict[str, str]) -> str:
    """Return nvcc's errors for a file; "" if it compiles it."""
    with tempfile.TemporaryDirectory() as folder:
        for name, content in {"kernel.cu": text, **headers}.items():
            Path(folder, name).write_bytes(content.encode())
        command = ["nvcc", "-std=c++17", "-arch=sm_90", "-w", "-c", "-o", "out", "kernel.cu"]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        return "" if done.returncode == 0 else (done.stderr + done.stdout)[:500]


def difference(seed: int) -> str:
    """Return what is wrong with the kernels of a file; "" if nothing is."""
    text, headers, kernels = made(seed)
    wrong = []
    for name, value in kernels.items():
        x = np.zeros(1, np.int32)
        try:
            coalesce.Kernel(text, name, headers=headers, device="sim")[1, 1](x)
        except (ValueError, coalesce.CoalesceError) as error:
            lines = str(error).split("\n")
            of_compiler = "\n  ".join(line for line in lines if "error" in line)
            wrong.append(f"{name}: {of_compiler or lines[0]}")
        else:
            if x[0] != value:
                wrong.append(f"{name} wrote {x[0]}, not {value}")
    if wrong and shutil.which("nvcc") and (errors := errors_of_nvcc(text, headers)):
        return f"nvcc refuses the file, too: {errors}"
    return "\n".join(wrong)


if __name__ == "__main__":
    sys.exit(compare_seeds(sys.argv[1:], __doc__, source, difference))
