"""Makes random straight-line PTX: instructions with rare modifiers, and operands of every kind.

python tests/random_ptx.py --first 100 --count 50

The compiler seldom makes such instructions from CUDA C++. Each seed gives one kernel. Its machine
code must leave the same bits as its PTX. Each thread reads 64 words, which are often special
numbers (NaNs, infinities, subnormals, limits of types), and writes every register.

The kernels have neither neg nor abs of floats. The assembler moves a sign to the instruction that
reads the number, and the bits of a NaN depend on that instruction. Two defects of the assembler (of
CUDA 13.0 and 13.5) are avoided, too: it takes the result of tanh.approx.f16 and ex2.approx.f16 for
a number below 256, and drops `& 255`; and it packs two 16-bit values, one of which is a pair of
8-bit floats, into the register of the other value, although that is still needed.
"""

import itertools
import random
import sys

import numpy as np
from both_ways import why_ptx
from seeds import compare_seeds

import coalesce

THREADS, INPUTS = 192, 64
# The registers that a kernel has, by the first letter of their names.
TYPES = {"p": "pred", "h": "b16", "r": "b32", "d": "b64", "f": "f32", "g": "f64"}
LETTERS = {"16": "h", "32": "r", "64": "d", "f16": "h", "bf16": "h", "f16x2": "r", "bf16x2": "r",
           "f32": "f", "f64": "g"}  # fmt: skip
COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge")
UNORDERED = (*COMPARISONS, "equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan")
ROUNDINGS = (".rn", ".rz", ".rm", ".rp")
NUMBERS = {
    "r": ("0", "1", "-1", "31", "255", "0x7fffffff", "0x80000000", "0x12345678"),
    "d": ("0", "1", "-1", "0x8000000000000000", "0xffffffff", "0x123456789abcdef0"),
    "f": ("0f3F800000", "0f80000000", "0f7F800000", "0f7FC00000", "0f00000001", "0fBF000000"),
    "g": ("0d3FF0000000000000", "0d8000000000000000", "0d4008000000000000"),
}
SPECIAL = (
    0, 1, 31, 32, 255, 65535, 2**32 - 1, 2**32, 2**63, 2**63 - 1, 2**64 - 1,
    0x7C00, 0xFC00, 0x7E01, 0xFE00, 0x8000, 0x3C00, 0x03FF, 0x7F80, 0xFFC1, 0x3F80, 0x0080,
    0x7F800000, 0xFF800000, 0x7FC00000, 0xFFC00001, 0x7F800001, 0x80000000, 0x3F800000,
    0x807FFFFF, 0x00800000, 0x4F000000, 0x5F000000, 0x42FF8000, 0x3C003C00, 0x7C00FC00,
    0x7FF0 << 48, 0xFFF0 << 48, 0x3FF0 << 48, 0x000F << 48, 0x7FEF << 48, 0x43E0 << 48,
)  # fmt: skip


def letter(ptx_type: str) -> str:
    """Return the letter of the registers that hold values of a type."""
    return LETTERS.get(ptx_type) or LETTERS[ptx_type[1:]]


class _Writer:
    def __init__(self, seed: int, count: int) -> None:
        self.random = random.Random(seed)
        self.lines: list[str] = []
        self.registers: dict[str, list[str]] = {kind: [] for kind in TYPES}
        self.unnamed = 0
        offsets = iter(self.random.sample(range(INPUTS), 30))
        for kind in "hrdfg" * 6:
            self.lines.append(
                f"ld.global.{TYPES[kind]} {self.new(kind)}, [%in+{8 * next(offsets)}];"
            )
        for _ in range(3):
            a, b = self.pick(*self.registers["r"]), self.pick(*self.registers["r"])
            self.lines.append(f"setp.lt.s32 {self.new('p')}, {a}, {b};")
        families = (self.integers, self.bits, self.comparisons, self.floats, self.halves,
                    self.conversions, self.pairs, self.carries, self.sums)  # fmt: skip
        for _ in range(count):
            self.pick(*families)()

    def pick(self, *choices: str) -> str:
        return self.random.choice(choices)

    def maybe(self, text: str) -> str:
        return text if self.random.random() < 0.3 else ""

    def new(self, kind: str) -> str:
        self.registers[kind].append(f"%{kind}{len(self.registers[kind])}")
        return self.registers[kind][-1]

    def source(self, kind: str, number: bool = True) -> str:
        if number and kind in NUMBERS and self.random.random() < 0.15:
            return self.pick(*NUMBERS[kind])
        known = self.registers[kind]
        return self.pick(*known[-8:]) if self.random.random() < 0.6 else self.pick(*known)

    def small(self) -> str:
        """Return an amount of a shift, or a position: at most 255."""
        if self.random.random() < 0.5:
            return self.pick("0", "1", "8", "16", "31", "32", "33", "63", "64", "255")
        limited = self.new("r")
        mask = self.pick("15", "31", "63", "127", "255")
        self.lines.append(f"and.b32 {limited}, {self.pick(*self.registers['r'][:-1])}, {mask};")
        return limited

    def write(self, text: str, result: str, sources: str, *more: str, number: bool = True) -> None:
        """Write an instruction. `sources` has a letter per source; `more` follows them."""
        operands = [self.source(kind, number) for kind in sources]
        # The assembler replaces the minimum of x and x by x, which keeps a NaN.
        if text.startswith(("min", "max")) and len(set(operands)) == 1:
            operands[1] = next(r for r in self.registers[sources[0]] if r != operands[0])
        self.lines.append(f"{text} {', '.join([self.new(result), *operands, *more])};")

    def integers(self) -> None:
        sign, bits = self.pick("s", "u"), self.pick("16", "32", "64")
        t, k = sign + bits, letter(bits)
        two = (f"add.{t}", f"sub.{t}", f"mul.lo.{t}", f"mul.hi.{t}", f"min.{t}", f"max.{t}",
               f"div.{t}", f"rem.{t}")  # fmt: skip
        three = (f"mad.lo.{t}", f"mad.hi.{t}", f"sad.{t}")
        if t == "s32":
            two += ("add.sat.s32", "sub.sat.s32", "min.relu.s32", "max.relu.s32")
            three += ("mad.hi.sat.s32", "mad24.hi.sat.s32", "dp4a.s32.u32", "dp2a.hi.u32.s32")
        if bits != "64" and self.random.random() < 0.2:
            wide = "r" if bits == "16" else "d"
            self.write(f"mul.wide.{t}", wide, k * 2)
            self.write(f"mad.wide.{t}", wide, k * 2 + wide)
        elif self.random.random() < 0.3:
            self.write(self.pick(*three), k, k * 3)
        elif sign == "s" and self.random.random() < 0.2:
            self.write(self.pick(f"abs.{t}", f"neg.{t}"), k, k)
        else:
            self.write(self.pick(*two), k, k * 2)

    def bits(self) -> None:
        bits = self.pick("16", "32", "64")
        k, sign = letter(bits), self.pick("s", "u")
        wide, edge = self.pick("32", "64"), self.pick("clamp", "wrap")
        kw = letter(wide)
        mode = self.maybe("." + self.pick("f4e", "b4e", "rc8", "ecl", "ecr", "rc16"))
        operations = (
            (self.pick("and", "or", "xor") + f".b{bits}", k, k * 2), (f"not.b{bits}", k, k),
            (f"cnot.b{bits}", k, k), (self.pick("and", "or", "xor") + ".pred", "p", "pp"),
            ("lop3.b32", "r", "rrr", str(self.random.randrange(256))),
            (f"prmt.b32{mode}", "r", "rrr"), (f"popc.b{wide}", "r", kw),
            (f"clz.b{wide}", "r", kw), (f"brev.b{wide}", kw, kw),
            (f"bfind{self.maybe('.shiftamt')}.{sign}{wide}", "r", kw),
            (f"shl.b{wide}", kw, kw, self.small()), (f"shr.{sign}{wide}", kw, kw, self.small()),
            (f"shf.{self.pick('l', 'r')}.{edge}.b32", "r", "rr", self.small()),
            (f"bfe.{sign}{wide}", kw, kw, self.small(), self.small()),
            (f"bfi.b{wide}", kw, kw * 2, self.small(), self.small()),
            (f"szext.{edge}.{sign}32", "r", "r", self.small()),
        )  # fmt: skip
        self.write(*self.random.choice(operations))

    def comparisons(self) -> None:
        t = self.pick("s16", "u16", "s32", "u32", "s64", "u64", "f32", "f64", "f16", "bf16")
        k = letter(t)
        how = self.pick(*(UNORDERED if "f" in t else COMPARISONS))
        ftz = self.maybe(".ftz") if t in ("f32", "f16") else ""
        combined = self.maybe("." + self.pick("and", "or", "xor"))
        other = [self.pick("", "!") + self.source("p")] if combined else []
        chance = self.random.random()
        if chance < 0.4:
            self.write(f"setp.{how}{combined}{ftz}.{t}", "p", k * 2, *other, number=k != "h")
        elif chance < 0.6:
            d = "u32" if k == "h" else self.pick("u32", "s32", "f32")
            self.write(f"set.{how}{combined}{ftz}.{d}.{t}", letter(d), k * 2, *other,
                       number=k != "h")  # fmt: skip
        else:
            self.write("selp.b32", "r", "rr", self.source("p"))
            self.write("slct.b64.s32", "d", "ddr")

    def floats(self) -> None:
        t = self.pick("f32", "f32", "f64")
        k, single = letter(t), t == "f32"
        ftz, sat = (self.maybe(".ftz"), self.maybe(".sat")) if single else ("", "")
        rounding = self.pick(*ROUNDINGS)
        nan = self.maybe(".NaN") + self.maybe(".xorsign.abs") if single else ""
        operations = [
            (self.pick("add", "mul") + f"{rounding}{ftz}{sat}.{t}", k * 2),
            (f"fma{rounding}{ftz}{sat}.{t}", k * 3), (f"copysign.{t}", k * 2),
            (self.pick("rcp", "sqrt") + f"{rounding}{ftz}.{t}", k),
            (f"div{rounding}{ftz}.{t}", k * 2),
        ]  # fmt: skip
        if single:
            approximate = self.pick("rcp", "sqrt", "rsqrt", "lg2", "ex2")
            operations += [
                (f"sub{rounding}{ftz}{sat}.f32", "ff"),
                (f"{self.pick('min', 'max')}{ftz}{nan}.f32", "ff"),
                (f"{self.pick('div.full', 'div.approx')}{self.maybe('.ftz')}.f32", "ff"),
                (f"{approximate}.approx{self.maybe('.ftz')}.f32", "f"),
            ]  # fmt: skip
        text, sources = self.random.choice(operations)
        # The assembler computes functions of numbers in another way than the GPU.
        self.write(text, k, sources, number=False)
        if not single:
            # It is not known whose bits a NaN of two NaNs has.
            self.canonical("g", "0d3FF8000000000000")

    def canonical(self, kind: str, number: str) -> None:
        """Replace a NaN by a number."""
        last = self.registers[kind][-1]
        is_nan = self.new("p")
        self.lines.append(f"testp.notanumber.{TYPES[kind]} {is_nan}, {last};")
        self.lines.append(f"@{is_nan} mov.{TYPES[kind]} {last}, {number};")

    def halves(self) -> None:
        t = self.pick("f16", "f16x2", "bf16", "bf16x2")
        k, ftz = letter(t), "" if "b" in t else self.maybe(".ftz")
        sat = "" if "b" in t else self.maybe(".sat")
        extreme = self.maybe(".NaN") + self.maybe(".xorsign.abs")
        exp2 = "ex2.approx.ftz" if "b" in t else "ex2.approx"
        operations = (
            (self.pick("add", "sub", "mul") + f".rn{ftz}{sat}.{t}", k * 2),
            (f"fma.rn{ftz}{self.pick('.relu', sat)}.{t}", k * 3), (f"{exp2}.{t}", k),
            (self.pick("min", "max") + f"{ftz}{extreme}.{t}", k * 2), (f"tanh.approx.{t}", k),
        )  # fmt: skip
        text, sources = self.random.choice(operations)
        self.write(text, k, sources, number=False)
        if ".approx" in text:
            self.mix(k)

    def mix(self, kind: str) -> None:
        """Let only an xor read the last result, because the assembler makes mistakes with it."""
        last, bits = self.registers[kind][-1], 16 if kind == "h" else 32
        self.lines.append(f"xor.b{bits} {last}, {last}, {self.registers[kind][0]};")

    def conversions(self) -> None:
        integer = self.pick("s16", "u16", "s32", "u32", "s64", "u64")
        real = self.pick("f16", "f32", "f64")
        relu = self.maybe(".relu")
        whole, rounding = self.pick("rni", "rzi", "rmi", "rpi"), self.pick(*ROUNDINGS)
        narrow = self.pick("s8", "u8")
        operations = (
            (f"cvt.{whole}.{integer}.{real}", letter(integer), letter(real)),
            (f"cvt{rounding}.{real}.{integer}", letter(real), letter(integer)),
            (f"cvt.{narrow}.{integer}", "r", letter(integer)),
            (f"cvt.sat.{narrow}.s32", "r", "r"), (f"cvt.{whole}.{narrow}.f32", "r", "f"),
            (f"cvt{rounding}.f16.f32", "h", "f"),
            (f"cvt{rounding}{self.maybe('.sat')}.f16.f64", "h", "g"),
            ("cvt.f32.f16", "f", "h"), (f"cvt.{whole}.f32.f32", "f", "f"),
            (f"cvt.{self.pick('rn', 'rz')}{relu}.{self.pick('f16x2', 'bf16x2')}.f32", "r", "ff"),
            (f"cvt.{self.pick('rn', 'rz')}{relu}.bf16.f32", "h", "f"),
            ("cvt.rna.tf32.f32", "r", "f"),
            (f"cvt.{self.pick('rn', 'rz')}{relu}.tf32.f32", "r", "f"),
            (f"cvt.rn.satfinite{relu}.{self.pick('e4m3x2', 'e5m2x2')}.f32", "h", "ff"),
            (f"cvt.rn{relu}.f16x2.{self.pick('e4m3x2', 'e5m2x2')}", "r", "h"),
            (f"cvt.pack.sat.{narrow}.s32.b32", "r", "rrr"), ("cvt.pack.sat.s16.s32", "r", "rr"),
            ("cvt.ftz.f32.f32", "f", "f"), (f"cvt{rounding}.f32.f64", "f", "g"),
        )  # fmt: skip
        text, *rest = self.random.choice(operations)
        self.write(text, *rest, number=False)
        if text.endswith("x2.f32") and rest[0] == "h":
            self.mix("h")
        if text == "cvt.ftz.f32.f32":
            # The assembler removes it if the next instruction flushes. Then a NaN keeps its sign.
            self.canonical("f", "0f3FC00000")

    def pairs(self) -> None:
        signs = [self.pick("u32", "s32") for _ in range(3)]
        name = self.pick("vadd", "vsub", "vavrg", "vabsdiff", "vmin", "vmax")
        then = self.pick("", ".sat", ".add")
        operations = (
            (f"{name}{self.pick('2', '4')}.{'.'.join(signs)}{then}", "rrr"),
            (f"vset{self.pick('2', '4')}.{signs[0]}.{signs[1]}.{self.pick(*COMPARISONS)}", "rrr"),
            ("add.u16x2", "rr"), ("min.s16x2", "rr"), ("max.relu.s16x2", "rr"),
        )  # fmt: skip
        text, sources = self.random.choice(operations)
        self.write(text, "r", sources, number=False)

    def sums(self) -> None:
        """Products, sums and differences without a rounding, which the assembler may contract."""
        t = self.pick("f32", "f64", "f16", "f16x2", "bf16", "bf16x2")
        k, ftz = letter(t), self.maybe(".ftz") if t in ("f32", "f16", "f16x2") else ""
        products = [f"product{n}" for n in range(self.random.randrange(1, 5))]
        self.lines.append(f"{{ .reg .{TYPES[k]} {', '.join(products)};")
        for product in products:
            sources = f"{self.source(k, number=False)}, {self.source(k, number=False)}"
            self.lines.append(f"mul{ftz}.{t} {product}, {sources};")
        # One sum reads each product. Which of several sums contract is not known in all cases.
        while products:
            terms = [products.pop(), self.source(k, number=False)]
            if products and self.random.random() < 0.4:
                terms[1] = products.pop()
            self.random.shuffle(terms)
            self.lines.append(
                f"{self.pick('add', 'sub')}{ftz}.{t} {self.new(k)}, {', '.join(terms)};"
            )
            if k == "g":
                self.canonical("g", "0d3FF8000000000000")
        self.lines.append("}")

    def carries(self) -> None:
        """A sum, a difference or a product of several words, with carries."""
        name, bits = self.pick("add", "sub", "mad"), self.pick("32", "64")
        k, count = letter(bits), self.random.randrange(2, 5)
        for n in range(count):
            part = f".{self.pick('lo', 'hi')}" if name == "mad" else ""
            carry = ".cc" if n < count - 1 else ""
            self.write(f"{name}{'c' if n else ''}{part}{carry}.u{bits}", k, k * (2 + bool(part)))


def source(seed: int, count: int = 80) -> tuple[str, int]:
    """Return the source of a kernel `k(in, out)`, and how many words each thread writes."""
    writer = _Writer(seed, count)
    words = []
    for kind, registers in writer.registers.items():
        for register in registers:
            at = 8 * len(words)
            words.append(
                f"selp.u16 %word, 1, 0, {register}; st.global.b16 [%out+{at}], %word;"
                if kind == "p"
                else f"st.global.{TYPES[kind]} [%out+{at}], {register};"
            )
    declared = [f".reg .{TYPES[k]} %{k}<{len(r)}>;" for k, r in writer.registers.items()]
    first = [*declared, ".reg .b64 %in, %out; .reg .b16 %word;"]
    lines = "\n".join([*first, "mov.b64 %in, @0;", "mov.b64 %out, @1;", *writer.lines, *words])
    quoted = "".join(f'"{line}\\n"\n' for line in lines.replace("%", "%%").split("\n"))
    text = quoted.replace("@0", "%0").replace("@1", "%1")
    return (
        'extern "C" __global__ void k(const unsigned long long* in, unsigned long long* out) {\n'
        f"const int t = blockIdx.x * blockDim.x + threadIdx.x;\n"
        f'asm volatile("{{" {text} "}}" :: "l"(in + {INPUTS} * t), "l"(out + {len(words)} * t) '
        f': "memory");\n}}\n'
    ), len(words)


def inputs() -> np.ndarray:
    """Return the words that the threads read."""
    chance = np.random.default_rng(1)
    words = chance.integers(2**64, size=(THREADS, INPUTS), dtype=np.uint64)
    special = chance.random(words.shape) < 0.5
    words[special] = chance.choice(np.array(SPECIAL, np.uint64), special.sum())
    ordinary = chance.random(words.shape) < 0.2
    words[ordinary] = (100 * chance.standard_normal(ordinary.sum())).astype("f4").view("u4")
    ordinary = chance.random(words.shape) < 0.1
    words[ordinary] = (100 * chance.standard_normal(ordinary.sum())).view(np.uint64)
    return words


def difference(seed: int) -> str:
    """Say how a seed's machine code differs from its PTX; empty if they agree."""
    text, count = source(seed)
    kernel = coalesce.Kernel(text, "k", device="sim")
    if why := why_ptx(kernel):
        return why
    plain, counted = (np.zeros((THREADS, count), np.uint64) for _ in range(2))
    kernel.launch(2, THREADS // 2, inputs(), plain)
    kernel.profile(2, THREADS // 2, inputs(), counted)
    places = np.argwhere(plain != counted)
    if not places.size:
        return ""
    registers = itertools.chain(*_Writer(seed, 80).registers.values())
    names = dict(enumerate(registers))
    wrong = [names[n] for n in np.unique(places[:, 1])]
    first = [line for line in _Writer(seed, 80).lines if f" {wrong[0]}," in f" {line}"]
    row = places[places[:, 1] == np.unique(places[:, 1])[0]][0]
    return (
        f"{', '.join(wrong[:8])} differ; {first[:2]}: PTX {plain[tuple(row)]:#x}, "
        f"machine code {counted[tuple(row)]:#x}"
    )


if __name__ == "__main__":
    sys.exit(compare_seeds(sys.argv[1:], __doc__, lambda seed: source(seed)[0], difference))
