"""Bits, bit fields, shifts, logic and packed integers, compared with Python's integers."""

import itertools
import operator

import numpy as np
import pytest

M32 = 0xFFFFFFFF


def words(count: int, seed: int, dtype: str = "uint32") -> np.ndarray:
    """Return random words with few to many ones, and extreme values."""
    random = np.random.default_rng(seed)
    top = int(np.iinfo(dtype).max)
    a, b, c = (random.integers(0, top, count, dtype, endpoint=True) for _ in range(3))
    mixed = np.choose(random.integers(0, 5, count), [a, a & b, a | b, a & b & c, a | b | c])
    edges = [0, 1, top, top - 1, 1 << (8 * np.dtype(dtype).itemsize - 1), 2, 3, 7]
    mixed[:8] = np.array(edges, dtype)
    return mixed


def signed(value: int, bits: int = 32) -> int:
    return value - (1 << bits) if value >> (bits - 1) & 1 else value


def check(got: dict[str, np.ndarray], expected: dict[str, list[int]]) -> None:
    for name, values in expected.items():
        bits = 8 * got[name].dtype.itemsize
        want = np.array([v & ((1 << bits) - 1) for v in values], f"uint{bits}")
        np.testing.assert_array_equal(got[name].view(want.dtype), want, name)


@pytest.mark.parametrize("bits", [32, 64])
def test_counting_and_finding(evaluate, bits):
    u, s, x = f"uint{bits}", f"int{bits}", {32: "r", 64: "l"}[bits]
    a = words(600, 1, u)
    shifts = np.arange(a.size, dtype=u) % bits
    a[8 : 8 + 2 * bits] = np.concatenate([np.uint64(1) << np.arange(bits, dtype=np.uint64)] * 2)
    a[8 + bits : 8 + 2 * bits] = ~a[8 + bits : 8 + 2 * bits]
    ptx, A = evaluate.ptx, f"{x}:a"
    ll = "ll" if bits == 64 else ""
    got = evaluate(
        {
            "popc": ("int32", f"__popc{ll}(a)"),
            "clz": ("int32", f"__clz{ll}(a)"),
            "ffs": ("int32", f"__ffs{ll}(a)"),
            "brev": (u, f"__brev{ll}(a)"),
            "bfind_u": ("uint32", ptx("uint32", f"bfind.u{bits} %0, %1;", A)),
            "bfind_s": ("uint32", ptx("uint32", f"bfind.s{bits} %0, %1;", A)),
            "amount_u": ("uint32", ptx("uint32", f"bfind.shiftamt.u{bits} %0, %1;", A)),
            "amount_s": ("uint32", ptx("uint32", f"bfind.shiftamt.s{bits} %0, %1;", A)),
            "cnot": (u, ptx(u, f"cnot.b{bits} %0, %1;", A)),
            "shl": (u, "a << (int)n"),
            "shr": (u, "a >> (int)n"),
            "sar": (u, f"(long long)({'long long' if bits == 64 else 'int'})a >> (int)n"),
        },
        a=a,
        n=shifts,
    )
    ints, amounts = [int(v) for v in a], [int(v) for v in shifts]

    def leading(v: int) -> int:
        return v.bit_length() - 1

    def sign_removed(v: int) -> int:
        return ~v & ((1 << bits) - 1) if v >> (bits - 1) else v

    check(
        got,
        {
            "popc": [v.bit_count() for v in ints],
            "clz": [bits - v.bit_length() for v in ints],
            "ffs": [(v & -v).bit_length() for v in ints],
            "brev": [int(f"{v:0{bits}b}"[::-1], 2) for v in ints],
            "bfind_u": [leading(v) for v in ints],  # -1 if no bit is set
            "bfind_s": [leading(sign_removed(v)) for v in ints],
            "amount_u": [bits - 1 - leading(v) if v else -1 for v in ints],
            "amount_s": [
                bits - 1 - leading(sign_removed(v)) if sign_removed(v) else -1 for v in ints
            ],
            "cnot": [int(v == 0) for v in ints],
            "shl": [v << n for v, n in zip(ints, amounts, strict=True)],
            "shr": [v >> n for v, n in zip(ints, amounts, strict=True)],
            "sar": [signed(v, bits) >> n for v, n in zip(ints, amounts, strict=True)],
        },
    )
    del s


def test_shifts_clamp_and_funnels(evaluate):
    amounts = [0, 1, 5, 15, 16, 17, 31, 32, 33, 47, 63, 64, 65, 127, 255, 256, 0x7FFFFFFF, M32]
    n = np.array(amounts * 16, np.uint32)
    a, b = words(n.size, 2), words(n.size, 3)
    w = words(n.size, 4, "uint64")
    h = words(n.size, 5, "uint16")
    ptx = evaluate.ptx
    results = {}
    for op, t, letter, name in [
        ("shl.b16", "uint16", "h", "h"),
        ("shr.u16", "uint16", "h", "h"),
        ("shr.s16", "int16", "h", "h"),
        ("shl.b32", "uint32", "r", "a"),
        ("shr.u32", "uint32", "r", "a"),
        ("shr.b32", "uint32", "r", "a"),
        ("shr.s32", "int32", "r", "a"),
        ("shl.b64", "uint64", "l", "w"),
        ("shr.u64", "uint64", "l", "w"),
        ("shr.s64", "int64", "l", "w"),
    ]:
        text = f"{op} %0, %1, %2;"
        results[op.replace(".", "_")] = (t, ptx(t, text, f"{letter}:{name}", "r:n"))
    for side, mode in itertools.product("lr", ["wrap", "clamp"]):
        text = f"shf.{side}.{mode}.b32 %0, %1, %2, %3;"
        results[f"shf_{side}_{mode}"] = ("uint32", ptx("uint32", text, "r:a", "r:b", "r:n"))
    got = evaluate(results, a=a, b=b, w=w, h=h, n=n)
    rows = [tuple(map(int, v)) for v in zip(a, b, w, h, n, strict=True)]
    big = 1 << 20  # a shift by the width or more removes every bit

    def clamped(value: int, amount: int) -> int:
        return value >> min(amount, big)

    check(
        got,
        {
            "shl_b16": [z << n if n < 16 else 0 for _, _, _, z, n in rows],
            "shr_u16": [clamped(z, n) for _, _, _, z, n in rows],
            "shr_s16": [clamped(signed(z, 16), n) for _, _, _, z, n in rows],
            "shl_b32": [x << n if n < 32 else 0 for x, _, _, _, n in rows],
            "shr_u32": [clamped(x, n) for x, _, _, _, n in rows],
            "shr_b32": [clamped(x, n) for x, _, _, _, n in rows],
            "shr_s32": [clamped(signed(x), n) for x, _, _, _, n in rows],
            "shl_b64": [q << n if n < 64 else 0 for _, _, q, _, n in rows],
            "shr_u64": [clamped(q, n) for _, _, q, _, n in rows],
            "shr_s64": [clamped(signed(q, 64), n) for _, _, q, _, n in rows],
            "shf_l_wrap": [((y << 32 | x) << (n & 31)) >> 32 for x, y, _, _, n in rows],
            "shf_r_wrap": [(y << 32 | x) >> (n & 31) for x, y, _, _, n in rows],
            "shf_l_clamp": [((y << 32 | x) << min(n, 32)) >> 32 for x, y, _, _, n in rows],
            "shf_r_clamp": [(y << 32 | x) >> min(n, 32) for x, y, _, _, n in rows],
        },
    )


@pytest.mark.parametrize("bits", [32, 64])
def test_bit_fields_at_every_position_and_length(evaluate, bits):
    # The 32-bit forms read 8 bits of the position and of the length, as the ISA says. The assembler
    # expands the 64-bit forms, which read all 32 bits.
    most = 255 if bits == 32 else 2**32 - 1
    places = [*range(bits + 2), 127, 255, 256, 257, 2**31, 2**32 - 1]
    position, length = (
        np.array(v, np.uint32) for v in zip(*itertools.product(places, places), strict=True)
    )
    u, s, x = f"uint{bits}", f"int{bits}", {32: "r", 64: "l"}[bits]
    a, b = words(position.size, 6, u), words(position.size, 7, u)
    ptx, insert = evaluate.ptx, f"bfi.b{bits} %0, %1, %2, %3, %4;"
    got = evaluate(
        {
            "bfe_u": (u, ptx(u, f"bfe.u{bits} %0, %1, %2, %3;", f"{x}:a", "r:p", "r:n")),
            "bfe_s": (s, ptx(s, f"bfe.s{bits} %0, %1, %2, %3;", f"{x}:a", "r:p", "r:n")),
            "bfi": (u, ptx(u, insert, f"{x}:a", f"{x}:b", "r:p", "r:n")),
        },
        a=a, b=b, p=position, n=length,
    )  # fmt: skip
    unsigned, extended, inserted = [], [], []
    for value, into, p, n in (tuple(map(int, v)) for v in zip(a, b, position, length, strict=True)):
        p, n = min(p & most, bits), min(n & most, bits)
        field = value >> p & ((1 << n) - 1)
        unsigned.append(field)
        # The sign is the topmost bit of the field that lies inside the register (PTX ISA, "bfe").
        sign = value >> min(p + n - 1, bits - 1) & 1 if n else 0
        have = min(n, max(bits - p, 0))
        extended.append(field - (1 << have) if sign else field)
        ones = ((1 << n) - 1) << p & ((1 << bits) - 1)
        inserted.append(into & ~ones | value << p & ones)
    check(got, {"bfe_u": unsigned, "bfe_s": extended, "bfi": inserted})


def test_masks_and_extensions(evaluate):
    places = [*range(34), 63, 64, 255, 256, M32]
    a, b = (np.array(v, np.uint32) for v in zip(*itertools.product(places, places), strict=True))
    v = words(a.size, 8)
    ptx, u, s = evaluate.ptx, "uint32", "int32"
    got = evaluate(
        {
            "bmsk_clamp": (u, ptx(u, "bmsk.clamp.b32 %0, %1, %2;", "r:a", "r:b")),
            "bmsk_wrap": (u, ptx(u, "bmsk.wrap.b32 %0, %1, %2;", "r:a", "r:b")),
            "zext_clamp": (u, ptx(u, "szext.clamp.u32 %0, %1, %2;", "r:v", "r:b")),
            "zext_wrap": (u, ptx(u, "szext.wrap.u32 %0, %1, %2;", "r:v", "r:b")),
            "sext_clamp": (s, ptx(s, "szext.clamp.s32 %0, %1, %2;", "r:v", "r:b")),
            "sext_wrap": (s, ptx(s, "szext.wrap.s32 %0, %1, %2;", "r:v", "r:b")),
        },
        a=a,
        b=b,
        v=v,
    )

    def sext(value: int, n: int) -> int:
        return signed(value & ((1 << n) - 1), n) if n else 0

    rows = [tuple(map(int, r)) for r in zip(a, b, v, strict=True)]
    check(
        got,
        {
            "bmsk_clamp": [((1 << min(n, 32)) - 1) << p if p < 32 else 0 for p, n, _ in rows],
            "bmsk_wrap": [((1 << (n & 31)) - 1) << (p & 31) for p, n, _ in rows],
            "zext_clamp": [x & ((1 << min(n, 32)) - 1) for _, n, x in rows],
            "zext_wrap": [x & ((1 << (n & 31)) - 1) for _, n, x in rows],
            "sext_clamp": [sext(x, min(n, 32)) for _, n, x in rows],
            "sext_wrap": [sext(x, n & 31) for _, n, x in rows],
        },
    )


def test_nth_set_bit(evaluate):
    bases, offsets = range(32), range(-33, 34)
    base, offset = (np.array(v) for v in zip(*itertools.product(bases, offsets), strict=True))
    a = words(base.size, 9)
    got = evaluate(
        {"fns": ("uint32", "__fns(a, base, offset)")},
        a=a,
        base=base.astype(np.uint32),
        offset=offset.astype(np.int32),
    )

    def fns(mask: int, start: int, n: int) -> int:
        if n == 0:
            return start if mask >> start & 1 else -1
        places = range(start, 32) if n > 0 else range(start, -1, -1)
        set_bits = [p for p in places if mask >> p & 1]
        return set_bits[abs(n) - 1] if len(set_bits) >= abs(n) else -1

    rows = zip(a, base, offset, strict=True)
    check(got, {"fns": [fns(*map(int, row)) for row in rows]})


def test_every_lop3(evaluate):
    """All 256 truth tables, as inline PTX in four kernels."""
    a, b, c = words(96, 10), words(96, 11), words(96, 12)
    results = {
        f"lop{table}": (
            "uint32",
            evaluate.ptx("uint32", f"lop3.b32 %0, %1, %2, %3, {table};", "r:a", "r:b", "r:c"),
        )
        for table in range(256)
    }
    for start in range(0, 256, 64):
        part = dict(list(results.items())[start : start + 64])
        got = evaluate(part, a=a, b=b, c=c)
        for table in range(start, start + 64):
            want = np.zeros_like(a)
            for row in range(8):
                if table >> row & 1:
                    x, y, z = (v if row >> k & 1 else ~v for v, k in ((a, 2), (b, 1), (c, 0)))
                    want |= x & y & z
            np.testing.assert_array_equal(got[f"lop{table}"], want, f"table {table}")


def test_permutations_of_bytes(evaluate):
    a, b = words(2048, 13), words(2048, 14)
    c = np.random.default_rng(15).integers(0, 1 << 16, a.size).astype(np.uint32)
    modes = ["", ".f4e", ".b4e", ".rc8", ".ecl", ".ecr", ".rc16"]
    results = {
        f"prmt{m[1:]}": (
            "uint32",
            evaluate.ptx("uint32", f"prmt.b32{m} %0, %1, %2, %3;", "r:a", "r:b", "r:c"),
        )
        for m in modes
    }
    got = evaluate(results, a=a, b=b, c=c)
    # PTX ISA, "prmt": the byte that each selector value puts at positions 0 to 3.
    tables = {
        "f4e": [(0, 1, 2, 3), (1, 2, 3, 4), (2, 3, 4, 5), (3, 4, 5, 6)],
        "b4e": [(0, 7, 6, 5), (1, 0, 7, 6), (2, 1, 0, 7), (3, 2, 1, 0)],
        "rc8": [(0, 0, 0, 0), (1, 1, 1, 1), (2, 2, 2, 2), (3, 3, 3, 3)],
        "ecl": [(0, 1, 2, 3), (1, 1, 2, 3), (2, 2, 2, 3), (3, 3, 3, 3)],
        "ecr": [(0, 0, 0, 0), (0, 1, 1, 1), (0, 1, 2, 2), (0, 1, 2, 3)],
        "rc16": [(0, 1, 0, 1), (2, 3, 2, 3), (0, 1, 0, 1), (2, 3, 2, 3)],
    }
    for name, values in got.items():
        for x, y, selector, value in zip(a, b, c, values, strict=True):
            source = (int(y) << 32 | int(x)).to_bytes(8, "little")
            if name == "prmt":
                nibbles = [int(selector) >> (4 * k) & 15 for k in range(4)]
                picked = [
                    source[n & 7] if n < 8 else (255 if source[n & 7] & 128 else 0) for n in nibbles
                ]
            else:
                picked = [source[n] for n in tables[name[4:]][int(selector) & 3]]
            assert int(value) == int.from_bytes(bytes(picked), "little"), (name, selector)


def lanes(value: int, bits: int, is_signed: bool) -> list[int]:
    parts = [value >> at & ((1 << bits) - 1) for at in range(0, 32, bits)]
    return [signed(p, bits) for p in parts] if is_signed else parts


def join(parts: list[int], bits: int) -> int:
    return sum((p & ((1 << bits) - 1)) << (bits * k) for k, p in enumerate(parts))


def limits(bits: int, is_signed: bool) -> tuple[int, int]:
    return (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if is_signed else (0, (1 << bits) - 1)


# CUDA Math API, "SIMD Intrinsics": name -> (signed, the result of one lane before saturation).
BINARY = {
    "add": (False, lambda x, y: x + y, False),
    "sub": (False, lambda x, y: x - y, False),
    "addss": (True, lambda x, y: x + y, True),
    "addus": (False, lambda x, y: x + y, True),
    "subss": (True, lambda x, y: x - y, True),
    "subus": (False, lambda x, y: x - y, True),
    "avgs": (True, lambda x, y: (x + y + (x + y >= 0)) >> 1, False),
    "avgu": (False, lambda x, y: (x + y + 1) >> 1, False),
    "haddu": (False, lambda x, y: (x + y) >> 1, False),
    "maxs": (True, max, False),
    "maxu": (False, max, False),
    "mins": (True, min, False),
    "minu": (False, min, False),
    "absdiffs": (True, lambda x, y: abs(x - y), False),
    "absdiffu": (False, lambda x, y: abs(x - y), False),
}
COMPARE = {
    "eq": lambda x, y: x == y,
    "ne": lambda x, y: x != y,
    "ges": lambda x, y: x >= y,
    "geu": lambda x, y: x >= y,
    "gts": lambda x, y: x > y,
    "gtu": lambda x, y: x > y,
    "les": lambda x, y: x <= y,
    "leu": lambda x, y: x <= y,
    "lts": lambda x, y: x < y,
    "ltu": lambda x, y: x < y,
}


@pytest.mark.parametrize("parts", [2, 4])
def test_simd_intrinsics(evaluate, parts):
    bits = 32 // parts
    a, b = words(400, 16), words(400, 17)
    # Operands include equal lanes and lanes at their limits.
    b[100:150] = a[100:150]
    b[150:200] ^= np.uint32(0x00FF00FF)
    a[200:220] = 0x80008000 if parts == 2 else 0x80808080
    u = "uint32"
    results = {name: (u, f"__v{name}{parts}(a, b)") for name in BINARY}
    results |= {f"set{name}": (u, f"__vset{name}{parts}(a, b)") for name in COMPARE}
    results |= {f"cmp{name}": (u, f"__vcmp{name}{parts}(a, b)") for name in COMPARE}
    results |= {name: (u, f"__v{name}{parts}(a)") for name in ("neg", "negss", "abs", "absss")}
    results |= {name: (u, f"__v{name}{parts}(a, b)") for name in ("sads", "sadu")}
    got = evaluate(results, a=a, b=b)
    for i, (x, y) in enumerate(zip(a, b, strict=True)):
        x, y = int(x), int(y)
        for name, (is_signed, f, saturate) in BINARY.items():
            low, high = limits(bits, is_signed)
            pairs = zip(lanes(x, bits, is_signed), lanes(y, bits, is_signed), strict=True)
            values = [f(p, q) for p, q in pairs]
            if saturate:
                values = [min(max(v, low), high) for v in values]
            assert got[name][i] == join(values, bits), (name, hex(x), hex(y))
        for name, f in COMPARE.items():
            s = name.endswith("s")
            truth = [f(p, q) for p, q in zip(lanes(x, bits, s), lanes(y, bits, s), strict=True)]
            assert got[f"set{name}"][i] == join([int(t) for t in truth], bits), name
            assert got[f"cmp{name}"][i] == join([-int(t) for t in truth], bits), name
        low, high = limits(bits, True)
        sx, sy = lanes(x, bits, True), lanes(y, bits, True)
        assert got["neg"][i] == join([-v for v in sx], bits)
        assert got["negss"][i] == join([min(-v, high) for v in sx], bits)
        assert got["abs"][i] == join([abs(v) for v in sx], bits)
        assert got["absss"][i] == join([min(abs(v), high) for v in sx], bits)
        assert got["sads"][i] == sum(abs(p - q) for p, q in zip(sx, sy, strict=True))
        ux, uy = lanes(x, bits, False), lanes(y, bits, False)
        assert got["sadu"][i] == sum(abs(p - q) for p, q in zip(ux, uy, strict=True))


@pytest.mark.parametrize("parts", [2, 4])
def test_packed_comparisons(evaluate, parts):
    bits = 32 // parts
    a, b, c = words(300, 22), words(300, 23), words(300, 24)
    b[100:150] = a[100:150]
    b[150:200] ^= np.uint32(0x00FF00FF)
    compare = {
        "eq": operator.eq, "ne": operator.ne, "lt": operator.lt,
        "le": operator.le, "gt": operator.gt, "ge": operator.ge,
    }  # fmt: skip
    signs = list(itertools.product("us", "us"))
    results = {
        f"{name}_{p}{q}{add}": ("uint32", evaluate.ptx(
            "uint32", f"vset{parts}.{p}32.{q}32.{name}{add} %0, %1, %2, %3;", "r:a", "r:b", "r:c"))
        for name in compare for p, q in signs for add in ("", ".add")
    }  # fmt: skip
    results = {name.replace(".", "_"): value for name, value in results.items()}
    expected: dict[str, list[int]] = {name: [] for name in results}
    for x, y, z in (tuple(map(int, v)) for v in zip(a, b, c, strict=True)):
        for (name, f), (p, q) in itertools.product(compare.items(), signs):
            pairs = zip(lanes(x, bits, p == "s"), lanes(y, bits, q == "s"), strict=True)
            truth = [int(f(i, j)) for i, j in pairs]
            expected[f"{name}_{p}{q}"].append(join(truth, bits))
            expected[f"{name}_{p}{q}_add"].append((z + sum(truth)) & 0xFFFFFFFF)
    check(evaluate(results, a=a, b=b, c=c), expected)


def test_packed_halfwords_and_dot_products(evaluate):
    a, b, c = words(500, 18), words(500, 19), words(500, 20)
    ptx, u = evaluate.ptx, "uint32"
    ab, abc = ("r:a", "r:b"), ("r:a", "r:b", "r:c")
    results = {
        op.replace(".", "_"): (u, ptx(u, f"{op} %0, %1, %2;", *ab))
        for op in ("add.u16x2", "add.s16x2", "min.u16x2", "min.s16x2", "max.u16x2", "max.s16x2",
                   "min.relu.s16x2", "max.relu.s16x2")
    }  # fmt: skip
    signs = list(itertools.product("us", "us"))
    for p, q in signs:
        results[f"dp4a_{p}{q}"] = (u, ptx(u, f"dp4a.{p}32.{q}32 %0, %1, %2, %3;", *abc))
        for half in ("lo", "hi"):
            text = f"dp2a.{half}.{p}32.{q}32 %0, %1, %2, %3;"
            results[f"dp2a_{half}_{p}{q}"] = (u, ptx(u, text, *abc))
    got = evaluate(results, a=a, b=b, c=c)
    expected: dict[str, list[int]] = {name: [] for name in results}
    for x, y, z in (tuple(map(int, v)) for v in zip(a, b, c, strict=True)):
        ux, uy = lanes(x, 16, False), lanes(y, 16, False)
        sx, sy = lanes(x, 16, True), lanes(y, 16, True)
        expected["add_u16x2"].append(join([p + q for p, q in zip(ux, uy, strict=True)], 16))
        expected["add_s16x2"].append(join([p + q for p, q in zip(sx, sy, strict=True)], 16))
        for name, f in (("min", min), ("max", max)):
            expected[f"{name}_u16x2"].append(join(list(map(f, ux, uy)), 16))
            expected[f"{name}_s16x2"].append(join(list(map(f, sx, sy)), 16))
            relu = [max(v, 0) for v in map(f, sx, sy)]
            expected[f"{name}_relu_s16x2"].append(join(relu, 16))
        for p, q in signs:
            bytes_b = lanes(y, 8, q == "s")
            four = sum(i * j for i, j in zip(lanes(x, 8, p == "s"), bytes_b, strict=True))
            expected[f"dp4a_{p}{q}"].append(z + four)
            pair = lanes(x, 16, p == "s")
            for half, chosen in (("lo", bytes_b[:2]), ("hi", bytes_b[2:])):
                two = sum(i * j for i, j in zip(pair, chosen, strict=True))
                expected[f"dp2a_{half}_{p}{q}"].append(z + two)
    check(got, expected)
