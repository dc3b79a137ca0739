"""Random kernels whose variables the stepper must show with the right values.

The same text is compiled by g++ with a record before each statement: the values of all variables
that the statement could name. The stepper executes the kernel. Whenever lanes come to a statement,
each variable that the stepper shows must be one of these, with the recorded value.

    python tests/stepped_kernels.py --first 0 --count 1000

A kernel has variables of many types, loops, branches, shadowed names, arrays, references, lambdas,
and functions that are inlined or called.
"""

import argparse
import random
import subprocess
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

import coalesce

LANES = 8
NAMES = [*"xyzwst"]
INTEGERS = ["int", "int", "unsigned", "short", "unsigned char", "long long", "bool", "signed char"]
TYPES = [*INTEGERS, "float", "float", "double"]
HOST = r"""
#include <cstdio>
#define __device__
#define __global__
#define __forceinline__
#define __noinline__
#define __syncthreads()
static struct { unsigned x; } threadIdx;
template <class T> void number(T v) { std::printf(" %lld", (long long)v); }
void number(float v) { std::printf(" %a", v); }
void number(double v) { std::printf(" %a", v); }
template <class T> void value(const char* name, const T& v) { std::printf("|%s", name); number(v); }
template <class T, int N> void value(const char* name, const T (&v)[N]) {
    std::printf("|%s", name);
    for (const T& e : v) number(e);
}
"""


@dataclass(frozen=True)
class Name:
    type: str
    size: int = 0  # of an array
    writable: bool = True
    shown: bool = True  # whether a stepper may show it

    @property
    def floating(self) -> bool:
        return self.type in ("float", "double")


@dataclass
class Writer:
    """The lines of a program, and the names that are recorded before each of them."""

    random: random.Random
    lines: list[str] = field(default_factory=list)
    recorded: list[list[str] | None] = field(default_factory=list)
    scopes: list[dict[str, Name]] = field(default_factory=list)  # the innermost one is the last
    helpers: list[str] = field(default_factory=list)
    calls: set[int] = field(default_factory=set)  # the lines that call a helper

    def names(self) -> dict[str, Name]:
        return {name: of for scope in self.scopes for name, of in scope.items()}

    def line(self, text: str, record: bool = True) -> None:
        self.lines.append("    " * len(self.scopes) + text)
        shown = [name for name, of in self.names().items() if of.shown]
        self.recorded.append(shown if record else None)

    def pick(self, writable: bool = False, but: str = "", floating: bool = True) -> str:
        """Return the name of a scalar, or "" if there is none."""
        fit = [
            name
            for name, of in self.names().items()
            if name != but
            and not of.size
            and of.type in TYPES
            and (of.writable or not writable)
            and (floating or not of.floating)
        ]
        return self.random.choice(fit) if fit else ""

    def term(self, floating: bool, but: str = "") -> str:
        arrays = [n for n, of in self.names().items() if of.size and n != but]
        if arrays and self.random.random() < 0.2:
            name = self.random.choice(arrays)
            if floating or not self.names()[name].floating:
                return f"{name}[{self.index(self.names()[name], but)}]"
        chosen = self.pick(but=but, floating=floating)
        return chosen if chosen and self.random.random() < 0.8 else str(self.random.randint(0, 9))

    def index(self, array: Name, but: str = "") -> str:
        if self.random.random() < 0.5:
            return str(self.random.randrange(array.size))
        return f"({self.pick(but=but, floating=False) or 1}) & 1"

    def value(self, type_: str, but: str = "") -> str:
        """Return an expression. It does not name the variable `but`."""
        floating = type_ in ("float", "double")
        a, b, c = (self.term(floating, but) for _ in range(3))
        r = self.random.random()
        if r < 0.15:
            return f"{a} > {b} ? {c} : {a}"
        if r < 0.3 and not floating:
            return f"{a} >> {self.random.randint(0, 3)}"
        return f"{a} {self.random.choice('+-*' if floating else '+-*^&|')} {b}"

    def block(self, depth: int, own: dict[str, Name] | None = None) -> None:
        self.scopes.append(dict(own or {}))
        for _ in range(self.random.randint(1, 4)):
            self.statement(depth)
        self.scopes.pop()

    def statement(self, depth: int) -> None:
        kinds = [self.declare, self.declare, self.assign, self.assign, self.assign, self.swap]
        kinds += [self.array, self.reference, self.call, self.store]
        if depth < 3:
            kinds += [self.branch, self.loop, self.loop, self.choice, self.function_object]
        kind = self.random.choice(kinds)
        if kind in (self.branch, self.loop, self.choice, self.function_object):
            kind(depth)  # type: ignore[call-arg]
        else:
            kind()  # type: ignore[call-arg]

    def declare(self) -> None:
        name, type_ = self.random.choice(NAMES), self.random.choice(TYPES)
        if name in self.scopes[-1]:
            return self.assign()
        value, r = self.value(type_, but=name), self.random.random()
        if r < 0.15:
            self.line(f"{type_} {name};", record=False)  # it has no instructions
            self.scopes[-1][name] = Name(type_, writable=False, shown=False)
            self.line(f"{name} = {value};")
        else:
            self.line(f"{'const ' * (r < 0.25)}{type_} {name} = {value};")
        self.scopes[-1][name] = Name(type_, writable=not 0.15 <= r < 0.25)
        return None

    def assign(self) -> None:
        name = self.pick(writable=True)
        if not name:
            return self.declare()
        type_ = self.names()[name].type
        return self.line(f"{name} {self.random.choice(['', '', '+', '-'])}= {self.value(type_)};")

    def swap(self) -> None:
        a, b = self.pick(writable=True), self.pick(writable=True)
        # A large number of a float cannot be converted to an integer.
        if a and b and self.names()[a].floating == self.names()[b].floating:
            self.line(f"{{ {self.names()[a].type} old = {a}; {a} = {b}; {b} = old; }}")

    def array(self) -> None:
        name, type_ = self.random.choice("qr"), self.random.choice(["int", "float", "short"])
        if name not in self.names():
            self.line(f"{type_} {name}[3] = {{{type_}({self.term(False)}), 2}};")
            self.scopes[-1][name] = Name(type_, 3)
        else:
            of = self.names()[name]
            self.line(f"{name}[{self.index(of)}] = {self.value(of.type)};")

    def reference(self) -> None:
        name = self.pick(writable=True)
        if name and self.random.random() < 0.6:
            type_ = self.names()[name].type
            if "p" not in self.names():
                self.line(f"{type_}* p = &{name};", record=False)
                self.scopes[-1]["p"] = Name("pointer", shown=False)
                self.line(f"*p = {self.value(type_)};")
            elif "ref" not in self.names():
                self.line(f"{type_}& ref = {name};", record=False)
                self.scopes[-1]["ref"] = Name(type_)

    def call(self) -> None:
        name = self.pick(writable=True, floating=False)
        if self.helpers and name:
            self.calls.add(len(self.lines) + 1)
            self.line(f"{name} = {self.random.choice(self.helpers)}({self.term(False)}, {name});")
            self.line(f"{name} += 1;")  # the line of a call is not the next one

    def store(self) -> None:
        if "i" in self.names():
            self.line(f"b[i] = {self.term(False)};")

    def branch(self, depth: int) -> None:
        self.line(f"if ({self.term(True)} > {self.term(True)}) {{")
        self.block(depth + 1)
        if self.random.random() < 0.5:
            self.line("} else {", record=False)
            self.block(depth + 1)
        self.line("}", record=False)

    def loop(self, depth: int) -> None:
        name = self.random.choice([*NAMES, "j", "k"])
        most = self.random.randint(1, 3)
        if self.random.random() < 0.7:
            self.line(f"for (int {name} = 0; {name} < {most}; ++{name}) {{", record=False)
            own = {name: Name("int", writable=False)}
        else:
            self.line(f"for (int {name} = 0; ; ++{name}) {{", record=False)
            own = {name: Name("int", writable=False)}
            self.scopes.append(own)
            self.line(
                f"if ({name} >= {most} + ({self.pick(floating=False, but=name) or 1} & 1)) {{"
            )
            self.line("    break;")
            self.line("}", record=False)
            self.scopes.pop()
        if self.random.random() < 0.3:
            self.scopes.append(own)
            self.line(f"if ({self.term(True)} > {self.term(True)}) {{")
            self.line("    continue;")
            self.line("}", record=False)
            self.scopes.pop()
        self.block(depth + 1, own)
        self.line("}", record=False)

    def choice(self, depth: int) -> None:
        self.line(f"switch ({self.pick(floating=False) or 1} & 3) {{")
        for case in range(self.random.randint(1, 4)):
            self.line(f"case {case}: {{", record=False)
            self.block(depth + 1)
            self.line("} " + "break;" * (self.random.random() < 0.7), record=False)
        self.line("default: {", record=False)
        self.block(depth + 1)
        self.line("}", record=False)
        self.line("}", record=False)

    def function_object(self, depth: int) -> None:
        if "f" in self.names() or not self.pick(writable=True, floating=False):
            return
        self.line("auto f = [&](int v) {", record=False)
        outer = self.scopes
        captured = {n: Name(o.type, o.size, o.writable, False) for n, o in self.names().items()}
        captured["f"] = Name("function", shown=False)
        self.scopes = [captured, {"v": Name("int")}]
        for _ in range(self.random.randint(1, 4)):
            self.statement(depth + 1)
        self.line(f"return {self.term(False)};")
        self.scopes = outer
        self.line("};", record=False)
        self.scopes[-1]["f"] = Name("function", shown=False)
        name = self.pick(writable=True, floating=False)
        self.line(f"{name} = f({self.term(False)});")
        self.line(f"{name} += 1;")

    def helper(self, number: int) -> None:
        how = self.random.choice(["__forceinline__ ", "__noinline__ ", "", ""])
        type_ = self.random.choice(INTEGERS)
        self.line(f"__device__ {how}int h{number}(int x, {type_} y) {{", record=False)
        self.scopes = [{"x": Name("int"), "y": Name(type_)}]
        for _ in range(self.random.randint(1, 4)):
            self.statement(1)
        self.line(f"return {self.term(False)};")
        self.scopes = []
        self.line("}", record=False)
        self.helpers.append(f"h{number}")


def write(seed: int) -> Writer:
    """Write the program of a seed."""
    w = Writer(random.Random(seed))
    for number in range(w.random.randint(0, 3)):
        w.helper(number)
    w.line("__global__ void kernel(int* a, int* b, int n, float x) {", record=False)
    w.scopes = [{"n": Name("int"), "x": Name("float")}]
    w.line("int i = threadIdx.x;")
    w.scopes[-1]["i"] = Name("int", writable=False)
    for name in w.random.sample(NAMES[1:], 2):
        w.line(f"int {name} = {w.random.choice('ab')}[i];")
        w.scopes[-1][name] = Name("int")
    for _ in range(w.random.randint(4, 10)):
        w.statement(0)
        if w.random.random() < 0.2:
            w.line("__syncthreads();")
    w.line(f"a[i] = {w.term(False)} + {w.term(False)};")
    w.scopes = []
    w.line("}", record=False)
    return w


def source(seed: int) -> str:
    return "\n".join(write(seed).lines) + "\n"


def inputs() -> tuple[np.ndarray, np.ndarray, np.int32, np.float32]:
    lanes = np.arange(LANES, dtype=np.int32)
    return lanes * 3 + 1, 20 - lanes * lanes, np.int32(5), np.float32(2.5)


Values = dict[str, list[float]]


def expected(seeds: list[int]) -> dict[int, list[list[tuple[int, Values]]]]:
    """Return, for each seed and lane, the statements in order: their line, and the values."""
    a, b, n, x = inputs()
    text = [HOST]
    for seed in seeds:
        w = write(seed)
        text.append(f"namespace seed_{seed} {{")
        for number, (line, names) in enumerate(zip(w.lines, w.recorded, strict=True), start=1):
            record = ""
            if names is not None:
                record = f'std::printf("\\n%d", {number}); '
                record += "".join(f'value("{name}", {name}); ' for name in names)
            text.append(record + line)
        text.append("}")
    text.append("int main() {")
    text += [f"int a0[] = {{{', '.join(map(str, a))}}}; int b0[] = {{{', '.join(map(str, b))}}};"]
    for seed in seeds:
        text.append(f"for (int lane = 0; lane < {LANES}; ++lane) {{ int a[{LANES}], b[{LANES}];")
        text.append(f"for (int k = 0; k < {LANES}; ++k) a[k] = a0[k], b[k] = b0[k];")
        text.append(f'std::printf("\\n= {seed} %d", lane); threadIdx.x = lane;')
        text.append(f"seed_{seed}::kernel(a, b, {n}, {x}f); }}")
    text.append("}")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "host.cpp"
        path.write_text("\n".join(text))
        options = ["-O0", "-w", "-std=c++17", "-fwrapv", "-ffp-contract=off"]
        subprocess.run(["g++", *options, "-o", path.with_suffix(""), path], check=True)
        output = subprocess.run([path.with_suffix("")], capture_output=True, text=True, check=True)
    result: dict[int, list[list[tuple[int, Values]]]] = {seed: [] for seed in seeds}
    for line in output.stdout.splitlines()[1:]:
        if line.startswith("="):
            lanes = result[int(line.split()[1])]
            lanes.append([])
        else:
            number, *values = line.split("|")
            each = {v.split()[0]: [*map(_number, v.split()[1:])] for v in values}
            lanes[-1].append((int(number), each))
    return result


def _number(text: str) -> float:
    return float.fromhex(text) if "p" in text or "n" in text else int(text)


def compare(seed: int, lanes: list[list[tuple[int, Values]]]) -> tuple[Counter[str], list[str]]:
    """Step through a kernel. Count the variables that are shown and not shown, and list errors."""
    counts: Counter[str] = Counter()
    errors: list[str] = []
    w = write(seed)
    kernel = coalesce.Kernel(
        "\n".join(w.lines) + "\n", "kernel", options=["-fmad=false"], device="sim"
    )
    at = [0] * LANES
    with kernel.step(1, LANES, *inputs()) as s:
        listing = s._listing
        starts = {
            n
            for n, i in enumerate(listing)
            if n == 0 or (listing[n - 1].line, listing[n - 1].function) != (i.line, i.function)
        }
        # The compiler folds constants, so some lines have no instructions.
        here = {listing[n].line for n in starts}
        lanes = [[each for each in lane if each[0] in here] for lane in lanes]
        session = s._open()
        while not s.done:
            state, n, mask = session.position(0)
            line = listing[n].line
            if state == "ready" and n in starts and w.recorded[line - 1] is not None:
                shown = s.variables
                for lane in [lane for lane in range(LANES) if mask >> lane & 1]:
                    todo = lanes[lane]
                    if at[lane] < len(todo) and todo[at[lane]][0] == line:
                        _compare(lane, line, shown, todo[at[lane]][1], counts, errors)
                        at[lane] += 1
                    elif at[lane] == len(todo):
                        continue
                    elif line not in w.calls and (not at[lane] or todo[at[lane] - 1][0] != line):
                        # Calls and branches return to the middle of a line, but this is another:
                        # the compiler has merged the ends of two blocks. No more is compared.
                        counts["lost lanes"] += 1
                        at[lane] = len(todo)
            s.step()
    if at != [len(todo) for todo in lanes]:
        errors.append("a lane has ended early")
    return counts, errors


def _compare(
    lane: int,
    line: int,
    shown: dict[str, np.ndarray],
    wanted: Values,
    counts: Counter[str],
    errors: list[str],
) -> None:
    for name, array in shown.items():
        values = np.ma.atleast_1d(array[lane])
        if np.ma.getmaskarray(values).all():
            continue
        if name not in wanted:
            counts["wrong"] += 1
            errors.append(f"line {line}, lane {lane}: {name} = {values} is not in scope")
            continue
        same = [
            np.ma.is_masked(v) or v == e or (v != v and e != e)
            for v, e in zip(values, wanted[name], strict=True)
        ]
        counts["shown"] += 1
        if not all(same):
            counts["wrong"] += 1
            errors.append(f"line {line}, lane {lane}: {name} = {values}, not {wanted[name]}")
    missing = [n for n in wanted if n not in shown or np.ma.getmaskarray(shown[n][lane]).all()]
    counts["not shown"] += len(missing)


def check(seeds: list[int]) -> tuple[Counter[str], list[str]]:
    """Compare the kernels of some seeds."""
    counts: Counter[str] = Counter()
    errors = []
    for first in range(0, len(seeds), 25):
        for seed, lanes in expected(seeds[first : first + 25]).items():
            more, wrong = compare(seed, lanes)
            counts += more
            errors += [f"seed {seed}: {error}" for error in wrong]
    return counts, errors


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int, default=50)
    parser.add_argument("--show", action="store_true", help="print the kernels' text")
    options = parser.parse_args()
    seeds = [*range(options.first, options.first + options.count)]
    if options.show:
        for seed in seeds:
            print("".join(f"{n:4} {t}\n" for n, t in enumerate(write(seed).lines, start=1)))
    counts, errors = check(seeds)
    print("\n".join(errors[:50]))
    print(f"{len(seeds)} kernels: {dict(counts)}, {len(errors)} errors")
    return bool(errors) or counts["lost lanes"] > 0.02 * LANES * len(seeds)


if __name__ == "__main__":
    sys.exit(main())
