"""Approximate instructions and the math library keep the error bounds of CUDA's guide.

Errors are in units in the last place (ulp) of the exact result. For float32 results the reference
is float64. For float64 results it is Python's math module, which is right within one ulp.
"""

import math

import numpy as np
import pytest


def ulps(got: np.ndarray, exact: np.ndarray) -> np.ndarray:
    """Return the distance in units in the last place of the format of `got`."""
    info = np.finfo(got.dtype)
    spacing = np.spacing(np.abs(exact.astype(got.dtype))).astype(np.float64)
    spacing = np.maximum(spacing, float(info.smallest_subnormal))
    return np.abs(got.astype(np.float64) - exact.astype(np.float64)) / spacing


def assert_error_at_most(
    name: str, got: np.ndarray, exact: np.ndarray, most: np.ndarray | float
) -> None:
    finite = np.isfinite(exact.astype(got.dtype))
    np.testing.assert_array_equal(got[~finite], exact.astype(got.dtype)[~finite], name)
    error = np.zeros(got.shape)
    error[finite] = ulps(got[finite], exact[finite])
    worst = int(np.argmax(error - most))
    assert (error <= most).all(), f"{name}: {error[worst]:.2f} ulp at element {worst}"


def test_approximate_intrinsics(evaluate, random):
    """CUDA Programming Guide, "Intrinsic Functions": the table of maximum errors."""
    t, n = "float32", 4000
    x = random.uniform(-20, 20, n).astype(t)
    y = (random.uniform(0.5, 2, n) * 2.0 ** random.integers(-60, 60, n)).astype(t)
    angle = random.uniform(-np.pi, np.pi, n).astype(t)
    unit = random.uniform(0.5, 2, n).astype(t)
    ptx = evaluate.ptx
    got = evaluate(
        {
            "fdividef": (t, "__fdividef(x, y)"),
            "expf": (t, "__expf(x)"),
            "exp10f": (t, "__exp10f(x)"),
            "logf": (t, "__logf(y)"),
            "log2f": (t, "__log2f(y)"),
            "log10f": (t, "__log10f(y)"),
            "log2f_unit": (t, "__log2f(unit)"),
            "sinf": (t, "__sinf(angle)"),
            "cosf": (t, "__cosf(angle)"),
            "rsqrtf": (t, "rsqrtf(y)"),
            "frsqrt": (t, "__frsqrt_rn(y)"),
            "rcp": (t, ptx(t, "rcp.approx.f32 %0, %1;", "f:y")),
            "sqrt": (t, ptx(t, "sqrt.approx.f32 %0, %1;", "f:y")),
            "div_full": (t, ptx(t, "div.full.f32 %0, %1, %2;", "f:x", "f:y")),
            "ex2": (t, ptx(t, "ex2.approx.f32 %0, %1;", "f:x")),
            "tanh": (t, ptx(t, "tanh.approx.f32 %0, %1;", "f:x")),
            "ex2_ftz": (t, ptx(t, "ex2.approx.ftz.f32 %0, %1;", "f:x * 10")),
        },
        x=x,
        y=y,
        angle=angle,
        unit=unit,
    )
    x8, y8 = x.astype(float), y.astype(float)
    assert_error_at_most("fdividef", got["fdividef"], x8 / y8, 2)
    assert_error_at_most("expf", got["expf"], np.exp(x8), 2 + np.floor(np.abs(1.173 * x8)))
    assert_error_at_most("exp10f", got["exp10f"], 10.0**x8, 2 + np.floor(np.abs(2.97 * x8)))
    far = (y < 0.5) | (y > 2)
    assert_error_at_most("logf", got["logf"][far], np.log(y8)[far], 3)
    assert_error_at_most("log2f", got["log2f"][far], np.log2(y8)[far], 2)
    assert_error_at_most("log10f", got["log10f"][far], np.log10(y8)[far], 3)
    assert np.abs(got["log2f_unit"] - np.log2(unit.astype(float))).max() <= 2.0**-22
    assert np.abs(got["sinf"] - np.sin(angle.astype(float))).max() <= 2.0**-21.41
    assert np.abs(got["cosf"] - np.cos(angle.astype(float))).max() <= 2.0**-21.19
    assert_error_at_most("rsqrtf", got["rsqrtf"], y8**-0.5, 2)
    assert_error_at_most("frsqrt", got["frsqrt"], y8**-0.5, 0.5)
    assert_error_at_most("rcp", got["rcp"], 1 / y8, 1)
    assert_error_at_most("sqrt", got["sqrt"], np.sqrt(y8), 2)
    assert_error_at_most("div.full", got["div_full"], x8 / y8, 2)
    assert_error_at_most("ex2", got["ex2"], 2.0**x8, 2)
    assert (np.abs(got["tanh"] / np.tanh(x8) - 1) <= 2.0**-10.9).all()
    large = np.abs(2.0 ** (x * np.float32(10)).astype(float)) < 2.0**-126
    assert large.any()
    assert (got["ex2_ftz"][large] == 0).all()


def test_approximate_instructions_at_the_edges(evaluate):
    """PTX ISA: the results of the approximate instructions for infinities, zeros and NaN."""
    a = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, -1.0] * 8, np.float32)
    ptx, t = evaluate.ptx, "float32"
    names = ["rcp", "sqrt", "rsqrt", "sin", "cos", "lg2", "ex2", "tanh"]
    got = evaluate({n: (t, ptx(t, f"{n}.approx.f32 %0, %1;", "f:a")) for n in names}, a=a)
    inf, nan = np.inf, np.nan
    want = {
        "rcp": [inf, -inf, 0.0, -0.0, nan, -1.0],
        "sqrt": [0.0, -0.0, inf, nan, nan, nan],
        "rsqrt": [inf, -inf, 0.0, nan, nan, nan],
        "sin": [0.0, -0.0, nan, nan, nan, None],
        "cos": [1.0, 1.0, nan, nan, nan, None],
        "lg2": [-inf, -inf, inf, nan, nan, nan],
        "ex2": [1.0, 1.0, inf, 0.0, nan, 0.5],
        "tanh": [0.0, -0.0, 1.0, -1.0, nan, None],
    }
    for name, values in want.items():
        for got_value, value in zip(got[name], values * 8, strict=True):
            if value is not None:
                np.testing.assert_equal(got_value, np.float32(value), name)


# CUDA Programming Guide, "Mathematical Functions Appendix": maximum errors in ulp, and the tested
# interval. Some errors grow near a zero of the function; the intervals exclude these zeros.
SINGLE = {
    "sin": (2, (-100, 100)), "cos": (2, (-100, 100)), "tan": (4, (-100, 100)),
    "sinpi": (2, (-9, 9)), "cospi": (2, (-9, 9)),
    "asin": (2, (-1, 1)), "acos": (2, (-1, 1)), "atan": (2, (-50, 50)),
    "sinh": (3, (-80, 80)), "cosh": (2, (-80, 80)), "tanh": (2, (-10, 10)),
    "asinh": (3, (-50, 50)), "acosh": (4, (1, 50)), "atanh": (3, (-1, 1)),
    "exp": (2, (-100, 88)), "exp2": (2, (-140, 127)), "exp10": (2, (-40, 38)),
    "expm1": (1, (-20, 80)), "log": (1, (0, 1000)), "log2": (1, (0, 1000)),
    "log10": (2, (0, 1000)), "log1p": (1, (-1, 100)), "sqrt": (0.5, (0, 1e30)),
    "cbrt": (1, (-1e30, 1e30)), "rsqrt": (2, (0, 1e30)), "rcbrt": (1, (0.001, 1e30)),
    "erf": (2, (-4, 4)), "erfc": (4, (-4, 9)), "tgamma": (5, (0.1, 30)), "lgamma": (6, (3, 1000)),
}  # fmt: skip
DOUBLE = {
    "sin": 2, "cos": 2, "tan": 2, "asin": 2, "acos": 2, "atan": 2, "sinh": 2, "cosh": 1, "tanh": 2,
    "asinh": 3, "acosh": 3, "atanh": 2, "exp": 1, "exp2": 1, "expm1": 1, "log": 1, "log2": 1,
    "log10": 1, "log1p": 1, "cbrt": 1, "erf": 2, "erfc": 5, "tgamma": 10, "lgamma": 4,
}  # fmt: skip
PYTHON = {
    "tgamma": math.gamma,
    "lgamma": math.lgamma,
    "exp2": lambda v: 2.0**v,
    "exp10": lambda v: 10.0**v,
    "cbrt": np.cbrt,
    "rcbrt": lambda v: 1 / np.cbrt(v),
    "rsqrt": lambda v: v**-0.5,
    "sinpi": lambda v: math.sin(math.pi * math.remainder(v, 2)),
    "cospi": lambda v: math.cos(math.pi * math.remainder(v, 2)),
}


def exact(name: str, x: np.ndarray) -> np.ndarray:
    f = PYTHON.get(name) or getattr(math, name)

    def value(v: float) -> float:
        try:
            return f(v)
        except OverflowError:
            return math.inf

    return np.array([value(float(v)) for v in x])


def test_single_precision_library(evaluate, random):
    inputs = {n: random.uniform(*SINGLE[n][1], 400).astype(np.float32) for n in SINGLE}
    for x in inputs.values():
        x[x == 0] = 0.5
    got = evaluate({n: ("float32", f"{n}f({n}_x)") for n in SINGLE}, **{
        f"{n}_x": x for n, x in inputs.items()
    })  # fmt: skip
    for name, x in inputs.items():
        assert_error_at_most(name, got[name], exact(name, x), SINGLE[name][0])


def test_double_precision_library(evaluate, random):
    inputs = {n: random.uniform(*SINGLE[n][1], 300) for n in DOUBLE}
    got = evaluate({n: ("float64", f"{n}({n}_x)") for n in DOUBLE}, **{
        f"{n}_x": x for n, x in inputs.items()
    })  # fmt: skip
    for name, x in inputs.items():
        # The reference itself may be wrong by one ulp.
        assert_error_at_most(name, got[name], exact(name, x), DOUBLE[name] + 1)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_library_functions_of_two(evaluate, random, dtype):
    x, y = (random.uniform(0.01, 30, 500).astype(dtype) for _ in range(2))
    f = "f" if dtype == "float32" else ""
    real = "float" if f else "double"
    both = f"{real} s, c; sincos{f}(x, &s, &c);"
    got = evaluate(
        {
            "pow": (dtype, f"pow{f}(x, y - 10)"),
            "atan2": (dtype, f"atan2{f}(x - 15, y - 15)"),
            "hypot": (dtype, f"hypot{f}(x, y)"),
            "sin": (dtype, f"[&] {{ {both} return s; }}()"),
            "cos": (dtype, f"[&] {{ {both} return c; }}()"),
        },
        x=x,
        y=y,
    )  # fmt: skip
    ten, fifteen = np.asarray(10, dtype), np.asarray(15, dtype)
    x8, y8 = x.astype(float), y.astype(float)
    extra = 0 if f else 1
    assert_error_at_most("pow", got["pow"], x8 ** (y - ten).astype(float), 4 + extra)
    assert_error_at_most(
        "atan2",
        got["atan2"],
        np.arctan2((x - fifteen).astype(float), (y - fifteen).astype(float)),
        3 + extra,
    )
    assert_error_at_most("hypot", got["hypot"], np.hypot(x8, y8), 3 + extra)
    assert_error_at_most("sin", got["sin"], np.sin(x8), 2 + extra)
    assert_error_at_most("cos", got["cos"], np.cos(x8), 2 + extra)


def test_large_arguments_of_trigonometry(evaluate, random):
    """The slow path of the library uses a local array with a dynamic index and 64-bit products."""
    x = (random.uniform(1, 2, 300) * 2.0 ** random.integers(17, 120, 300)).astype(np.float32)
    got = evaluate({"sin": ("float32", "sinf(x)"), "cos": ("float64", "cos((double)x)")}, x=x)
    assert_error_at_most("sinf", got["sin"], np.sin(x.astype(float)), 2)
    assert_error_at_most("cos", got["cos"], np.cos(x.astype(float)), 3)
