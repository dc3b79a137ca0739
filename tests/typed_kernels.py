"""Makes random kernels with many types and compares their results with g++'s build of the same text.

python tests/typed_kernels.py --first 100 --count 50

Each seed gives one file with a few kernels. They use integers of 8 to 128 bits, floats of 16 to 64
bits, vectors, bit fields, unions, local and shared and constant arrays, recursion, function
pointers, virtual functions, atomics, shuffles with partial masks, tiles, and loops that lanes leave
at different times. With `--ends`, threads also return early, and lanes execute one exchange
(`X.sync`) at several places of the code, in loops that the compiler splits. g++ compiles the text
with `tests/host/device_code.hpp` (see any_references.py). Neither compiler may contract a product
and a sum, so all results must have equal bits. The kernels run in all modes: plain run, profile
(machine code), trace, step, and a check that must find nothing. Needs g++.
"""

import argparse
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import any_references
import numpy as np
from both_ways import why_ptx

import coalesce
from coalesce.compile import nvrtc

KERNELS = 6  # in a file
# Grids and blocks; the kernels must give the same results for each shape.
SHAPES = ((2, 96), ((1, 2), (8, 5, 2)), (1, 1), ((1, 1, 2), (33, 3)), (1, (4, 64)), (3, 31))

HEADER = (any_references.HOST / "typed_kernels.cuh").read_text()


INTEGERS = ("i8", "u8", "i16", "u16", "i32", "u32", "i64", "u64", "i128", "u128")
FLOATS = ("f32", "f64", "f16", "b16")
TYPES = (*INTEGERS, *FLOATS)
# The type in which an integer is computed without overflow that C++ does not define.
WIDE = {"i64": "u64", "u64": "u64", "i128": "u128", "u128": "u128"}
BITS = {"i8": 8, "u8": 8, "i16": 16, "u16": 16, "i32": 32, "u32": 32, "i64": 64, "u64": 64}
BITS |= {"i128": 128, "u128": 128}
# The types of variables; the common types are named more often.
CHOICE = ("i32", "u32", "i32", "u32", "i64", "u64", *TYPES, "f32", "f64", "f32")

# No literal lies between two floats: NVRTC 13.0 reads 16777217.f as 16777218, and g++ as 16777216.
SPECIAL = {
    "f32": ("0.0f", "-0.0f", "1e-41f", "3.4e38f", "INFINITY", "bits_of<f32>(0x7fc00000u)", "1.5f", "-2.75f", "16777218.f"),
    "f64": ("0.0", "-0.0", "1e-310", "1.7e308", "-(f64)INFINITY", "1.0 / 3", "4503599627370497.5", "-2.5"),
    "f16": ("half_from(0.0f)", "half_from(-0.0f)", "half_from(6e-8f)", "half_from(65504.f)", "half_from(1.0f)", "half_from(-3.14f)"),
    "b16": ("bf_from(0.0f)", "bf_from(-1.5f)", "bf_from(1e-40f)", "bf_from(3e38f)", "bf_from(77.f)"),
}  # fmt: skip


class Expressions:
    """Makes expressions of a type from variables in scope."""

    def __init__(self, chance: random.Random) -> None:
        self.random = chance
        self.variables: dict[str, list[str]] = {}

    def pick(self, *values: str) -> str:
        return self.random.choice(values)

    def leaf(self, kind: str) -> str:
        known = self.variables.get(kind, [])
        if known and self.random.random() < 0.8:
            return self.random.choice(known)
        if kind in FLOATS and self.random.random() < 0.6:
            return self.random.choice(SPECIAL[kind])
        if kind in INTEGERS and self.random.random() < 0.4:
            low = self.random.choice([0, 1, 2, 3, 7, 31, 127, 128, 255, 32767, 65535])
            return f"{kind}({low})"
        return self.converted(kind, self.random.choice([*self.variables]), 0)

    def make(self, kind: str, depth: int) -> str:
        if depth <= 0:
            return self.leaf(kind)
        if self.random.random() < 0.18:
            return self.converted(kind, self.random.choice(CHOICE), depth - 1)
        if self.random.random() < 0.07:
            return f"({self.condition(depth - 1)} ? {self.make(kind, depth - 1)} : {self.make(kind, depth - 1)})"
        return self.integer(kind, depth) if kind in INTEGERS else self.floating(kind, depth)

    def integer(self, kind: str, depth: int) -> str:
        a, b = self.make(kind, depth - 1), self.make(kind, depth - 1)
        wide, last = WIDE.get(kind, "u32"), BITS[kind] - 1
        forms = [
            *(f"{kind}({wide}({a}) {op} {wide}({b}))" for op in ("+", "-", "*", "&", "|", "^", "+")),
            f"divide<{kind}>({a}, {b})", f"modulo<{kind}>({a}, {b})",
            f"divide<{kind}>({a}, {kind}({self.pick('3', '7', '10', '127', '16')}))",
            f"modulo<{kind}>({a}, {kind}({self.pick('3', '7', '10', '127', '16')}))",
            f"{kind}({wide}({a}) << ({self.make('u32', depth - 1)} & {last}))",
            f"{kind}({a} >> int({self.make('u32', depth - 1)} & {last}))",
            f"{kind}({a} >> {self.random.randrange(last + 1)})",
            f"{kind}({wide}({a}) << {self.random.randrange(last + 1)})",
            f"{kind}(~{a})", f"{kind}({wide}(0) - {wide}({a}))",
            f"{kind}({a} < {b} ? {a} : {b})", f"{kind}({a} > {b} ? {a} : {b})",
            f"{kind}({self.condition(depth - 1)})",
            f"{kind}({wide}({a}) * {wide}({b}) + {wide}({self.make(kind, depth - 1)}))",
        ]  # fmt: skip
        if kind in ("u32", "i32"):
            c = self.make(kind, depth - 1)
            forms += [f"{kind}({form})" for form in (
                f"__popc({a})", f"__clz({a})", f"__ffs({a})", f"__brev({a})",
                f"__popcll({self.make('u64', depth - 1)})", f"__clzll({self.make('i64', depth - 1)})",
                f"__ffsll({self.make('i64', depth - 1)})",
                f"funnel_left({a}, {b}, {c})", f"funnel_right({a}, {b}, {c})",
                f"__umulhi({a}, {b})", f"__mulhi(int({a}), int({b}))", f"sad({a}, {b}, {c})",
                f"__byte_perm({a}, {b}, {c} & 0x7777)", f"__dp4a({a}, {b}, {c})", f"average({a}, {b})",
                f"rounded_average({a}, {b})", f"halves_add({a}, {b})", f"halves_fma({a}, {b}, {c})",
                f"functions[u32({a}) % 3](u32({b}), i16({c}))", f"g1(u32({a}), i16({b}))",
                f"g2(u32({a}), i16({b}))", f"recursive(u32({a}) % 6, u32({b}))",
                f"tables.table8[u32({a}) % 64]", f"tables.table16[u32({a}) % 37]",
                f"in[u32({a}) % 256]", f"((const u8*)in)[u32({a}) % 1024]",
                f"((const i16*)in)[u32({a}) % 512]", f"((const i8*)in)[u32({a}) % 1024]",
                f"((const uint2*)in)[u32({a}) % 128].y", f"((const uchar4*)in)[u32({a}) % 256].z",
                f"((const ushort4*)in)[u32({a}) % 128].w", f"((const char2*)in)[u32({a}) % 512].y",
                f"((const uint4*)in)[u32({a}) % 64].z",
                f"(u32({a}) >> {self.random.randrange(32)} & {self.pick('1', '15', '255')})",
                f"(i32({a}) << {self.random.randrange(32)} >> {self.random.randrange(32)})",
                f"negative({self.make('f32', depth - 1)})", f"isnan({self.make('f64', depth - 1)})",
                f"isinf({self.make('f32', depth - 1)})",
            )]  # fmt: skip
        if kind in ("i64", "u64"):
            forms += [f"{kind}({form})" for form in (
                f"__umul64hi(u64({a}), u64({b}))", f"mul_high(i64({a}), i64({b}))", f"__brevll({a})",
                f"u64(u32({a})) * u32({b})", f"i64(i32({a})) * i32({b})",
                f"even_odd(u32({a}) % 5, {b})", f"((const ulonglong2*)in)[u32({a}) % 64].y",
                f"((const u64*)in)[u32({a}) % 128]", f"u64({a}) * u32({b}) >> 7",
                f"u64(i64(i32({a})) * i32({b}) + i64({b} >> 3))",
            )]  # fmt: skip
        return self.random.choice(forms)

    def floating(self, kind: str, depth: int) -> str:
        a, b, c = (self.make(kind, depth - 1) for _ in range(3))
        if kind == "f16":
            return self.pick(
                f"half_add({a}, {b})", f"half_sub({a}, {b})", f"half_mul({a}, {b})",
                f"half_fma({a}, {b}, {c})", f"half_least({a}, {b})", f"half_most({a}, {b})",
                f"__hneg({a})", f"__habs({a})", f"half_from(from_half({a}) * {self.make('f32', depth - 1)})",
                f"bits_of<f16>({self.make('u16', depth - 1)})", f"(__hlt({a}, {b}) ? {b} : {c})",
            )  # fmt: skip
        if kind == "b16":
            return self.pick(
                f"bf_add({a}, {b})", f"bf_mul({a}, {b})", f"bf_least({a}, {b})", f"__hneg({a})",
                f"bf_from({self.make('f32', depth - 1)})", f"bits_of<b16>({self.make('u16', depth - 1)})",
                f"(__hge({a}, {b}) ? {b} : {c})",
            )  # fmt: skip
        f = "f" if kind == "f32" else ""
        other = f"bits_of<{kind}>({self.make('u32' if f else 'u64', depth - 1)})"
        tables = (
            f"tablef[{self.make('u32', depth - 1)} % 8]"
            if f
            else f"tables.table64[{self.make('u32', depth - 1)} % 11]"
        )
        return self.pick(
            f"({a} + {b})", f"({a} - {b})", f"({a} * {b})", f"({a} / {b})", f"fma{f}({a}, {b}, {c})",
            f"({a} * {b} + {c})", f"least_of({a}, {b})", f"most_of({a}, {b})", f"(-({a}))",
            f"fabs{f}({a})", f"with_sign_of({a}, {b})", f"sqrt{f}({a})", f"floor{f}({a})",
            f"ceil{f}({a})", f"trunc{f}({a})", f"rint{f}({a})", f"round{f}({a})", other, tables,
            f"({a} < {b} ? {c} : {b})", f"({a} <= 0 ? {b} : {c})", f"({a} * {kind}(0.5) - {b})",
            f"fmod{f}({a}, {b})", f"ldexp{f}({a}, int({self.make('i8', depth - 1)}))",
            f"({kind}(1) / {a})",
        )  # fmt: skip

    def converted(self, kind: str, source: str, depth: int) -> str:
        x = self.make(source, depth)
        if kind == source:
            return x
        if source in INTEGERS and kind in INTEGERS:
            return f"{kind}({x})"
        how = self.pick("rn", "rz", "rd", "ru")
        if source in ("f16", "b16"):
            x = f"from_half({x})" if source == "f16" else f"from_bf({x})"
            source = "f32"
        if kind in INTEGERS:
            name = "float2" if source == "f32" else "double2"
            name += "u" * (kind[0] == "u") + ("ll" if BITS[kind] > 32 else "int")
            return f"{kind}({name}_{how}({x}))"
        if source in ("i128", "u128"):
            x = f"u64({x})"
        if kind in ("f16", "b16"):
            return f"{'half' if kind == 'f16' else 'bf'}_from(f32({x}))"
        return f"{kind}({x})"

    def condition(self, depth: int) -> str:
        if depth > 0 and self.random.random() < 0.3:
            return f"({self.condition(depth - 1)} {self.pick('&&', '||', '!=')} {self.condition(depth - 1)})"
        kind = self.random.choice(CHOICE)
        a, b = self.make(kind, depth), self.make(kind, depth)
        if kind in ("f16", "b16"):
            name = "from_half" if kind == "f16" else "from_bf"
            a, b = f"{name}({a})", f"{name}({b})"
        elif kind in INTEGERS and self.random.random() < 0.4:
            return f"({a} & {kind}({self.pick('1', '2', '3', '16', '64')}))"
        return f"({a} {self.pick('<', '<=', '>', '>=', '==', '!=')} {b})"


class Writer(Expressions):
    """Writes the statements of a kernel."""

    def __init__(self, chance: random.Random, ends: bool) -> None:
        super().__init__(chance)
        self.ends = ends  # whether threads return early
        # Threads return anywhere. Then the remaining lanes of a warp are not known, so that lanes
        # exchange no values with the lanes of their warp.
        self.anywhere = ends and chance.random() < 0.4
        self.lines: list[str] = []
        self.indent = 1
        self.names = 0
        self.assignable: list[tuple[str, str]] = []
        self.labels = 0

    def line(self, text: str) -> None:
        self.lines.append("    " * self.indent + text)

    def name(self) -> str:
        self.names += 1
        return f"v{self.names}"

    def declare(self, kind: str, value: str) -> str:
        name = self.name()
        self.line(f"{kind} {name} = {value};")
        self.variables.setdefault(kind, []).append(name)
        self.assignable.append((kind, name))
        return name

    def assign(self) -> None:
        kind, name = self.random.choice(self.assignable)
        value = self.make(kind, self.random.choice([1, 2, 2, 3]))
        if kind in INTEGERS and self.random.random() < 0.3:
            self.line(f"{name} {self.pick('^=', '|=', '&=')} {value};")
        else:
            self.line(f"{name} = {value};")

    def scope(self, write: object, *arguments: object) -> None:
        """Write statements whose variables end with them."""
        kept = {kind: list(names) for kind, names in self.variables.items()}
        known = list(self.assignable)
        self.indent += 1
        write(*arguments)  # type: ignore[operator]
        self.indent -= 1
        self.variables, self.assignable = kept, known

    def statements(self, depth: int, count: int, loop: bool) -> None:
        for _ in range(count):
            self.statement(depth, loop)

    def block(self, depth: int, loop: bool) -> None:
        self.scope(self.statements, depth, self.random.randrange(1, 4), loop)

    def statement(self, depth: int, loop: bool) -> None:
        if self.anywhere and self.random.random() < 0.04:
            self.end()
        chance = self.random.random()
        if chance < 0.38 or depth > 3:
            self.assign()
        elif chance < 0.44:
            kind = self.random.choice(CHOICE)
            self.declare(kind, self.make(kind, 2))
        elif chance < 0.58:
            self.memory()
        elif chance < 0.68:
            self.line(f"if {self.parenthesised(self.condition(2))} {{")
            self.block(depth + 1, loop)
            if self.random.random() < 0.5:
                self.line("} else {")
                self.block(depth + 1, loop)
            self.line("}")
        elif chance < 0.75:
            i = self.name()
            bound = f"int({self.make('u32', 1)} % {self.random.choice([3, 5, 9])})"
            step = self.pick("++{}", "{} += 2", "++{}").format(i)
            self.line(f"for (int {i} = 0; {i} < {bound}; {step}) {{")
            self.scope(self.loop, depth, i)
            self.line("}")
        elif chance < 0.79:
            i = self.name()
            self.line(f"{{ u16 {i} = {self.random.randrange(1, 7)};")
            self.line(
                "do {" if self.random.random() < 0.5 else f"while ({i} && {self.condition(1)}) {{"
            )
            ends = self.lines[-1].endswith("do {")
            self.line(f"    --{i};")
            self.scope(self.loop, depth, i)
            self.line(f"}} while ({i} && {self.condition(1)}); }}" if ends else "} }")
        elif chance < 0.84:
            kind = self.pick("u32", "i32", "u8", "i16", "u64")
            cases = self.random.randrange(2, 9)
            self.line(f"switch (static_cast<int>({self.make(kind, 1)} & {kind}(15))) {{")
            for case in range(cases):
                self.line(f"case {case}: {{")
                self.block(depth + 1, False)
                self.line("}" if self.random.random() < 0.3 else "} break;")
            if self.random.random() < 0.6:
                self.line("default: {")
                self.block(depth + 1, False)
                self.line("}")
            self.line("}")
        elif chance < 0.88 and loop:
            self.line(
                f"if {self.parenthesised(self.condition(1))} {self.pick('break', 'continue', 'break')};"
            )
        elif chance < 0.9:
            self.labels += 1
            label = f"label{self.labels}"
            self.line(f"if {self.parenthesised(self.condition(1))} goto {label};")
            self.line("{")
            self.block(depth + 1, loop)
            self.line("}")
            self.line(f"{label}:;")
        else:
            self.call()

    def end(self) -> None:
        """Let some threads return."""
        if self.anywhere:
            self.line(f"if {self.parenthesised(self.condition(1))} {{")
        else:
            self.line(f"const bool ends{self.names} = {self.condition(1)};")
            self.line(f"full = __ballot_sync(full, !ends{self.names});")
            self.line(f"if (ends{self.names}) {{")
            self.names += 1
        self.scope(self.assign)
        self.line("    finish(); return;")
        self.line("}")

    @staticmethod
    def parenthesised(condition: str) -> str:
        return f"({condition})"

    def loop(self, depth: int, counter: str) -> None:
        self.variables.setdefault("i32", []).append(f"int({counter})")
        self.statements(depth + 1, self.random.randrange(1, 4), True)

    def call(self) -> None:
        kind, name = self.random.choice(self.assignable)
        u = self.make("u32", 1)
        if kind == "i64":
            other = [n for k, n in self.assignable if k == "u16"]
            third = [n for k, n in self.assignable if k == "f32"]
            if other and third:
                self.line(
                    f"by_reference({name}, {self.random.choice(other)}, &{self.random.choice(third)});"
                )
                return
        if self.random.random() < 0.4:
            value = self.pick(
                "m.bytes[1]", "m.s", "m.w", "m.last", "m.f", "from_half(m.h)", "m.bytes[2]"
            )
            kind, name = self.random.choice(
                [
                    (k, n)
                    for k, n in self.assignable
                    if k in ("i32", "u32", "f32", "f64", "i64", "u64", "i16")
                ]
            )
            if value in ("m.f", "from_half(m.h)") and kind in INTEGERS:
                value = "m.s"
            self.line(
                f"{{ const Mixed m = returned({u}, {self.make('f32', 1)}); {name} = {kind}({value}); }}"
            )
        else:
            kind, name = self.random.choice([(k, n) for k, n in self.assignable if k == "u32"])
            self.line(
                f"{{ Shape a{{{u}}}; Square b{{{self.make('u32', 1)}}}; Round c{{{self.make('u32', 1)}}}; "
                f"const Shape* s = {self.make('u32', 1)} % 3 == 0 ? &a : {self.condition(1)} ? (Shape*)&b : &c; "
                f"{name} ^= s->area({self.make('u32', 1)}); }}"
            )

    def memory(self) -> None:
        """Access memory of the thread: local arrays, structures, its own shared elements."""
        i = f"{self.make('u32', 1)}"
        kind, name = self.random.choice([(k, n) for k, n in self.assignable if k in INTEGERS])
        forms = [
            f"local8[{i} % 13] = u8({self.make('u32', 1)});", f"local16[{i} % 7] = {self.make('i16', 2)};",
            f"locald[{i} % 5] = {self.make('f64', 2)};", f"localq[{i} % 3].w = {self.make('u64', 1)};",
            f"localq[{i} % 3] = localq[{self.make('u32', 1)} % 3];", f"localq[{i} % 3].y = {self.make('u8', 2)};",
            f"fields.a = {self.make('u32', 1)} & 31;", f"fields.b = {self.make('i32', 1)} << 21 >> 21;",
            f"fields.c = {self.make('u16', 1)};", f"fields.d = {self.make('i64', 1)} << 27 >> 27;",
            f"fields.e = {self.make('u64', 1)} & 0x7ffffff;", f"fields.f = {self.make('i8', 1)};",
            f"fields.g = {self.make('u16', 1)} & 511;",
            f"{name} = {kind}(fields.{self.pick('a', 'b', 'c', 'd', 'e', 'f', 'g')});",
            f"{name} = {kind}(local8[{i} % 13]);", f"{name} = {kind}(local16[{i} % 7]);",
            f"{name} = {kind}(localq[{i} % 3].{self.pick('x', 'y', 'z', 'w')});",
            f"either.w[{i} % 2] = {self.make('u32', 1)};", f"either.s[{i} % 4] = {self.make('i16', 1)};",
            f"either.b[{i} % 8] = {self.make('u8', 1)};", f"either.l = {self.make('u64', 1)};",
            f"{name} = {kind}(either.{self.pick('l', 's[1]', 'b[3]', 'w[1]', 's[3]', 'b[6]')});",
            f"own8[{i} % 4] = {self.make('u8', 2)};", f"own16[{i} % 2] = {self.make('i16', 2)};",
            f"own64[0] = {self.make('u64', 2)};", f"{name} = {kind}(own8[{i} % 4]);",
            f"{name} = {kind}(own16[{i} % 2]);", f"{name} = {kind}(own64[0]);",
            f"ownf[0] = bits_of<f32>(word({self.make('f32', 2)}));",
            f"{{ volatile i16* p = &own16[{i} % 2]; *p = i16(*p + 1); *p = i16(*p * 3); }}",
            f"{{ u8* p = {self.condition(1)} ? local8 : {self.condition(1)} ? own8 : (u8*)(scratch + 2 * id); p[{i} % 4] = {self.make('u8', 1)}; {name} = {kind}(p[{self.make('u32', 1)} % 4]); }}",
            f"{{ const i16* p = {self.condition(1)} ? local16 : {self.condition(1)} ? tables.table16 : own16; {name} = {kind}(p[{i} % 2]); }}",
            f"memcpy(&localq[{i} % 3], &either, 8);", f"memset(local8 + {i} % 6, {self.make('i8', 1)}, 7);",
            f"((uchar4*)(scratch + 2 * id))->y = {self.make('u8', 1)}; {name} = {kind}(((ushort2*)(scratch + 2 * id))->x);",
            f"*(uint2*)(scratch + 2 * id) = make_uint2({self.make('u32', 1)}, {self.make('u32', 1)});",
            f"{name} = {kind}(atomicAdd(&own32[0], {self.make('u32', 1)}));",
            f"{name} = {kind}(atomicMax((int*)&own32[0], {self.make('i32', 1)}));",
            f"{name} = {kind}(atomicCAS(&own64[0], {self.make('u64', 1)}, {self.make('u64', 1)}));",
            f"{name} = {kind}(atomicInc(&scratch[2 * id + 1], {self.make('u32', 1)}));",
            f"{name} = {kind}(atomicMin((long long*)&own64[0], {self.make('i64', 1)}));",
            f"{name} = {kind}(atomicExch(&scratch[2 * id], {self.make('u32', 1)}));",
            f"{name} = {kind}(atomicDec(&own32[0], {self.make('u32', 1)}));",
        ]  # fmt: skip
        self.line(self.random.choice(forms))

    def together(self) -> None:
        """Exchange values with all threads of the warp or block, or with some lanes of the warp."""
        u, name = (
            self.make("u32", 1),
            self.random.choice([n for k, n in self.assignable if k == "u32"]),
        )
        kind, other = self.random.choice(
            [(k, n) for k, n in self.assignable if k in ("i32", "u32", "f32", "f64", "i64", "u64")]
        )
        width = self.random.choice([2, 4, 8, 16, 32])
        chance = self.random.random()
        if self.anywhere:
            chance = 0.55 + 0.23 * chance
        elif self.ends:
            if self.random.random() < 0.5:
                self.at_places(name)
                return
            chance *= 0.78  # the other forms need all threads of the warp or block
        safe = "shuffled<{k}>(full, {v}, {how}, {n}, {w})".format(
            k=kind, v=other, how=self.random.randrange(4), n=f"int({u} % 32)", w=width
        )
        if chance < 0.3:
            self.line(f"{{ const {kind} r = {safe}; {other} = r; }}")
        elif chance < 0.4:
            vote = self.pick("__ballot_sync", "__any_sync", "__all_sync")
            self.line(f"{name} ^= {vote}(full, {self.condition(1)});")
        elif chance < 0.55:
            # The lanes of a part of the warp.
            first = self.random.randrange(0, 20)
            last = self.random.randrange(first + 1, 33)
            mask = ((1 << last) - 1) ^ ((1 << first) - 1)
            self.line(f"if (lane >= {first} && lane < {last}) {{")
            self.line(f"    const unsigned mask = {mask:#x}u & full;")
            call = self.pick(
                "__ballot_sync(mask, {c}) & mask", "__reduce_add_sync(mask, {u})", "__match_any_sync(mask, {u} % 3)",
                "__reduce_max_sync(mask, {u})", "__reduce_xor_sync(mask, {u})",
            ).format(c=self.condition(1), u=u)  # fmt: skip
            self.line(f"    {name} += {call};")
            self.line("}")
        elif chance < 0.7:
            self.line(f"shared[tid] = {u}; __syncthreads();")
            self.line(
                f"{name} ^= shared[(tid * 7 + {self.random.randrange(9)}) % threads]; __syncthreads();"
            )
        elif chance < 0.78:
            vote = self.pick("__syncthreads_count", "__syncthreads_or", "__syncthreads_and")
            self.line(f"{name} += {vote}({self.condition(1)});")
        elif chance < 0.9:
            atomic = self.pick(
                "atomicAdd(&sums[{i} % 8], {u});", "atomicXor(&sums[{i} % 8], {u});", "atomicMax(&sums[{i} % 8], {u});",
                "atomicOr(&sums[{i} % 8], {u});", "atomicAnd(&sums[{i} % 8], {u});",
                "atomicAdd((float*)&sums[{i} % 8], float({u} % 100));",
                "atomicMin((int*)&sums[{i} % 8], int({u}));",
                "atomicAdd((u64*)&sums[{i} % 4 * 2], u64({u}) << 20);",
            ).format(i=self.make("u32", 1), u=u)  # fmt: skip
            self.line("for (u32 n = tid; n < 8; n += threads) sums[n] = 0; __syncthreads();")
            self.line(f"if {self.parenthesised(self.condition(1))} {atomic}")
            self.line(f"__syncthreads(); {name} ^= sums[{u} % 8]; __syncthreads();")
        else:
            size = self.random.choice([2, 4, 8, 16])
            self.line("if (threads % 32 == 0) {")
            self.line(f"    auto tile = cg::tiled_partition<{size}>(cg::this_thread_block());")
            call = self.pick(
                f"tile.shfl({u}, 1)", f"tile.shfl_xor({u}, 1)", f"tile.shfl_down({u}, {size // 2})", f"tile.ballot({self.condition(1)})",
                f"tile.any({self.condition(1)})", f"tile.all({self.condition(1)})", "tile.meta_group_rank() + tile.thread_rank()",
            )  # fmt: skip
            self.line(f"    {name} += {call};")
            self.line("}")

    def at_places(self, name: str) -> None:
        """Let the lanes of the warp execute an exchange at several places of the code."""
        exchange = self.pick(
            "__ballot_sync(full, {} & 4)", "__any_sync(full, {} % 5 == 0)", "__all_sync(full, {} % 3)",
            "__match_any_sync(full, {} % 3)", "__match_any_sync(full, u64({} % 3) << 40)",
            "__reduce_add_sync(full, {})", "__reduce_max_sync(full, int({}))", "__reduce_xor_sync(full, {})",
            "shuffled<u32>(full, {}, 0, tid * 5 + 1, 8)", "shuffled<u32>(full, {}, 1, 3, 32)",
            "shuffled<u32>(full, {}, 2, 5, 16)",
        )  # fmt: skip
        values = [self.make("u32", 2) for _ in range(3)]
        flag = self.condition(1)
        places = self.random.randrange(4)
        if places == 0:
            self.line(f"if ({flag}) {{ {name} += {exchange.format(values[0])}; }}")
            self.line(f"else {{ {name} ^= 77; {name} *= {exchange.format(values[1])}; }}")
        elif places == 1:
            self.line(f"switch ({values[2]} % 3) {{")
            self.line(f"case 0: {name} -= {exchange.format(values[0])}; break;")
            self.line(f"case 1: {name} = {exchange.format(values[1])} * 3 + {name}; break;")
            self.line(f"default: {name} |= {exchange.format(name)}; }}")
        else:
            # The compiler splits the loop: it makes a loop for each value of the flag.
            again = exchange.format("x") if places == 2 else f"flag ? {name} + i : x"
            self.line(
                f"{{ const bool flag = {flag}; u32 x = {values[0]}; const u32 n = in[{self.random.randrange(256)}] % 6;"
            )
            self.line(f"for (u32 i = 0; i < n; ++i) {{ x = flag ? {values[1]} + i : x * 3;")
            self.line(f"    {name} += {exchange.format('x')}; x ^= {again}; }} {name} ^= x; }}")

    def hash(self) -> None:
        """Write the variables and the thread's arrays to `words`."""
        self.line("u64 hash = own64[0] + own64[1] * 31 + own64[2] * 7;")
        for n, (_, name) in enumerate(self.assignable):
            self.line(
                f"hash = hash * 1099511628211ull + word({name}); words[id * 32 + {(n + 3) % 32}] = hash;"
            )
        self.line("for (int i = 0; i < 13; ++i) hash = hash * 33 + local8[i];")
        self.line("words[id * 32 + 2] = hash + either.l + u64(fields.d) + fields.g;")


def kernel_text(seed: int, number: int, ends: bool = False) -> str:
    """Return the text of a kernel, without the header."""
    writer = Writer(random.Random(f"{seed} {number}{' ends' if ends else ''}"), ends)
    chance = writer.random
    for text in (
        "extern __shared__ u64 dynamic[];",
        "__shared__ u32 shared[256]; __shared__ u32 sums[8];",
        "const u32 threads = blockDim.x * blockDim.y * blockDim.z;",
        "const u32 tid = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);",
        "const u32 id = tid + threads * (blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z));",
        "const u32 lane = tid & 31;",
        f"{'' if ends else 'const '}u32 full = threads - (tid & ~31u) >= 32 ? ~0u : (1u << (threads & 31)) - 1;",
        "u64* own64 = dynamic + 3 * tid; i16* own16 = (i16*)(own64 + 1); u8* own8 = (u8*)(own16 + 2);",
        "u32* own32 = (u32*)(own64 + 2); f32* ownf = (f32*)(own32 + 1);",
        "own64[0] = id; own64[1] = 0; own64[2] = 0x1122334455667788ull * tid;",
        "u8 local8[13] = {1, 2, 3}; i16 local16[7] = {-1, 5, 9}; f64 locald[5] = {1, 2, 0.5};",
        "Quad localq[3] = {}; Fields fields = {}; Either either = {};",
    ):
        writer.line(text)
    writer.variables = {"u32": ["id", "lane", "tid"]}
    for kind in ("u32", "u32", "i32", "i64", "u16", "f32", "f64"):
        raw = f"in[(id * {chance.choice([1, 3, 5, 7])} + {chance.randrange(256)}) % 256]"
        writer.declare(kind, f"bits_of<f32>({raw})" if kind == "f32" else f"{kind}({raw})")
    for _ in range(chance.randrange(2, 6)):
        kind = chance.choice(CHOICE)
        writer.declare(kind, writer.make(kind, 1))
    known = {kind: list(names) for kind, names in writer.variables.items()}
    if ends:
        # A thread that has returned leaves its element unchanged.
        writer.line("for (u32 n = tid; n < 256; n += threads) shared[n] = n; __syncthreads();")
        writer.line("const auto finish = [&] {")
        writer.scope(writer.hash)
        writer.line("};")
    for _ in range(chance.randrange(2, 6)):
        writer.scope(writer.statements, 0, chance.randrange(2, 6), False)
        if chance.random() < 0.7:
            writer.together()
        if ends and chance.random() < 0.5:
            writer.end()
    writer.variables = known
    if ends:
        writer.line("finish(); return;")
    elif chance.random() < 0.3:
        writer.line(f"if {writer.parenthesised(writer.condition(1))} return;")
        writer.scope(writer.statements, 1, 3, False)
    writer.line("u64 hash = own64[0] + own64[1] * 31 + own64[2] * 7;")
    for _, name in writer.assignable:
        writer.line(
            f"hash = hash * 1099511628211ull + word({name}); words[id * 32 + {len(writer.lines) % 32}] = hash;"
        )
    writer.line("for (int i = 0; i < 13; ++i) hash = hash * 33 + local8[i];")
    writer.line("for (int i = 0; i < 7; ++i) hash = hash * 33 + word(local16[i]);")
    writer.line("for (int i = 0; i < 5; ++i) hash = hash * 33 + word(locald[i]);")
    writer.line(
        "for (int i = 0; i < 3; ++i) hash = hash * 33 + localq[i].w + localq[i].y + word(localq[i].x);"
    )
    writer.line("words[id * 32] = hash + either.l + scratch[2 * id] + scratch[2 * id + 1];")
    writer.line(
        "words[id * 32 + 1] = u64(fields.a) + u64(fields.b) * 3 + fields.c + u64(fields.d) * 5 + fields.e + u64(fields.f) + fields.g;"
    )
    body = "\n".join(writer.lines)
    return f'extern "C" __global__ void k{number}(const u32* __restrict__ in, u32* scratch, u64* words) {{\n{body}\n}}\n'


def source(seed: int, ends: bool = False) -> str:
    """Return the text of a file with `KERNELS` kernels."""
    return HEADER + "".join(kernel_text(seed, n, ends) for n in range(KERNELS))


def given() -> list[np.ndarray]:
    """Return new arguments of a kernel."""
    words = np.random.PCG64(5).random_raw(256).astype(np.uint32)
    words[::9] %= 50
    words[[7, 38, 50, 70, 71, 72]] = 0, 2**32 - 1, 0x7F800000, 0xFFC00000, 0x80000000, 1
    words[100:140] = np.linspace(-300, 300, 40).astype(np.float32).view(np.uint32)
    return [words, np.zeros(2 * 1024, np.uint32), np.zeros(32 * 1024, np.uint64)]


def compile_for_host(text: str, folder: Path) -> Path:
    """Compile the kernels with g++; return the library."""
    any_references.header_compiled()
    cases = "".join(f"case {n}: host::call(&k{n}, a, g, b, s); break;\n" for n in range(KERNELS))
    run = (
        'extern "C" void run(int n, void **a, unsigned gx, unsigned gy, unsigned gz, unsigned bx, '
        f"unsigned by, unsigned bz, int s) {{\ndim3 g(gx, gy, gz), b(bx, by, bz);\nswitch (n) {{\n{cases}}}\n}}\n"
        'extern "C" void *variable(int n) { return nullptr; }\n'
    )
    parts = ['#include "device_code.hpp"\n#define HOST_REFERENCE\n', any_references.on_host(text)]
    (folder / "kernels.cpp").write_text("".join([*parts, '\n#include "run_kernel.hpp"\n', run]))
    library = folder / "kernels.so"
    folders = [any_references.COMPILED, any_references.HOST, folder, *nvrtc.include_folders()]
    options = [
        *any_references.GXX,
        "-ffp-contract=off",
        "-fno-strict-aliasing",
        "-fwrapv",
        "-shared",
    ]
    command = [
        *options,
        *(f"-I{f}" for f in folders),
        "-o",
        str(library),
        str(folder / "kernels.cpp"),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr)
    return library


def differences(
    seed: int, shapes: int = 2, notes: list[str] | None = None, ends: bool = False
) -> list[str]:
    """Say which kernels of a seed differ from g++'s build.

    If `notes` is a list, it receives the reasons why kernels are not executed as machine code.
    """
    text = source(seed, ends)
    found = []
    with tempfile.TemporaryDirectory() as folder:
        library = compile_for_host(text, Path(folder))
        options = ("-fmad=false", "--device-int128")
        first = coalesce.Kernel(text, "k0", options, device="sim", instruction_limit=30_000_000)
        for number in range(KERNELS):
            kernel = first if number == 0 else first.get_function(f"k{number}")
            kernel.instruction_limit = 30_000_000
            if notes is not None and (why := why_ptx(kernel)):
                notes.append(f"k{number} is executed as PTX: {why}")
            for which in range(shapes):
                shape = SHAPES[(seed + number + which) % len(SHAPES)]
                said = _difference(kernel, library, number, shape, MODES if ends else MODES[:3])
                found += [f"k{number} {shape}: {what}" for what in said]
    return found


MODES = ("launch", "profile", "check", "trace", "step")


def _difference(
    kernel: coalesce.Kernel, library: Path, number: int, shape: tuple, modes: Sequence[str]
) -> list[str]:
    arguments = given()
    shared = 24 * int(np.prod(shape[1]))
    wanted = any_references.reference(kernel, library, number, shape, shared, arguments, [], 20)
    if isinstance(wanted, str):
        return [wanted]
    said = []
    for mode in modes:
        if mode == "step" and int(np.prod(shape[0])) > 1:
            continue  # only one block is stepped
        arrays = given()
        try:
            result = getattr(kernel, mode)(*shape, *arrays, shared_bytes=shared)
            if mode == "step":
                result.finish()
                arrays = [*result.arrays.values()]
        except coalesce.CoalesceError as error:
            said.append(f"{mode}: {error}")
            continue
        if mode == "check" and (other := [f for f in result if not _is_expected(f)]):
            said.append(f"check: {other}")
        for n, (x, y) in enumerate(zip(arrays, wanted[0], strict=True)):
            places = np.flatnonzero(x != y)
            if places.size:
                said.append(
                    f"{mode}: array {n}: {places.size} elements differ, at {places[:4]} of thread {places[0] // (32 if n == 2 else 2)}"
                )
    return said


def _is_expected(finding: coalesce.Finding) -> bool:
    """Whether a check may report the finding.

    A shuffle reads from a lane of an incomplete warp, and `shuffled` drops the value. Or a thread
    has returned before a barrier.
    """
    return finding.severity == "warning" and finding.kind in ("warp_mask", "barrier")


def main(arguments: list[str]) -> int:
    """Compare some seeds; print those that differ."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=np.inf, help="end after this time")
    parser.add_argument("--ends", action="store_true", help="threads return early")
    parser.add_argument("--show", action="store_true", help="print the kernels' text")
    options = parser.parse_args(arguments)
    start, bad, seed = time.monotonic(), 0, options.first
    while seed < options.first + options.count and time.monotonic() - start < options.seconds:
        if options.show:
            print(source(seed, options.ends))
        notes: list[str] = []
        found = differences(seed, notes=notes, ends=options.ends)
        bad += bool(found)
        if found or notes:
            print(f"seed {seed}:", *found, *notes, sep="\n  ", flush=True)
        seed += 1
    seeds = seed - options.first
    print(f"{seeds - bad} of {seeds} seeds are alike")
    return bad != 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
