"""Calls every variant of every operation with random shapes, dtypes, layouts and options.

A call has a number, from which everything is drawn. Neighbouring numbers are neighbouring variants.

    python tests/every_shape.py --seconds 1800 --first 1000000
    python tests/every_shape.py --first 1234 --count 1 --device cuda

An extent is 0, 1, 2, 3, 5, or that of a tile, one less or one more. The layouts are those of NumPy
and arrays on the device. The elements are small integers, so each variant must return exactly what
NumPy computes. A call must not change its operands, nor the memory around `out`, and its check must
find nothing.
"""

import argparse
import math
import random
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

import coalesce
from coalesce._core import ops
from coalesce.catalogue.access import OPTIONS
from coalesce.catalogue.reference import reference
from coalesce.catalogue.table import OPERATIONS

try:
    from ml_dtypes import bfloat16
except ImportError:
    bfloat16 = None

Array = np.ndarray[Any, Any]

VARIANTS = [v for v in ops.variants() if v.operation in OPERATIONS]
NOT_BEST = ["copy", "bf16", "tf32"]  # their results differ from those of "best"
SMALL = [0, 1, 2, 3, 5]
TILES = [8, 16, 32, 64, 128, 256]
MOST_WORK = 1 << 20  # the multiplications of a call; the simulator needs about a second for them
REAL = [np.float32, np.float64]
ANY = ["?", "i1", "u2", "f2", "i4", "u4", "f4", "i8", "f8", "c8", "c16"]
FILL = 77  # what is in the memory around an array

# ---- layouts: each function returns an array with the given values ----


def _part(values: Array, first: int, *steps: int) -> Array:
    """Return a part of a larger array. `steps` are the steps along the last axes."""
    steps = (1, *steps)[-values.ndim :]
    shape = [first + n * abs(s) + 3 for n, s in zip(values.shape, steps, strict=True)]
    forward = [
        slice(first, first + n * abs(s), abs(s)) for n, s in zip(values.shape, steps, strict=True)
    ]
    turned = [slice(None, None, -1 if s < 0 else 1) for s in steps]
    view = np.full(shape, FILL, values.dtype)[tuple(forward)][tuple(turned)]
    view[...] = values
    return view


def _shifted(values: Array, distance: int) -> Array:
    """Return a contiguous array whose first element is `distance` bytes after a base's."""
    base = np.full(values.nbytes + distance + 5, FILL, np.uint8)
    view = base[distance : distance + values.nbytes].view(values.dtype).reshape(values.shape)
    view[...] = values
    return view


def _repeated(values: Array, axis: int) -> Array:
    return np.broadcast_to(values.take([0], axis), values.shape) if values.size else values


def _read_only(values: Array) -> Array:
    values.flags.writeable = False
    return values


OUT_LAYOUTS: dict[str, Callable[[Array], Array]] = {
    "C": lambda v: v,
    "Fortran": np.asfortranarray,
    "transposed": lambda v: _part(v.T, 1, 1).T,
    "columns": lambda v: _part(v, 0, 1),
    "strided": lambda v: _part(v, 2, 2, 3),
    "reversed": lambda v: _part(v, 0, -1, -1),
    "reversed rows": lambda v: _part(v, 1, -2, 1),
    "one element after the base": lambda v: _shifted(v, v.dtype.itemsize),
    "unaligned": lambda v: _shifted(v, 1),
}
LAYOUTS: dict[str, Callable[[Array], Array]] = {
    **OUT_LAYOUTS,
    "read-only": _read_only,
    "other byte order": lambda v: v.astype(v.dtype.newbyteorder()),
    "equal rows": lambda v: _repeated(v, 0),
    "equal columns": lambda v: _repeated(v, v.ndim - 1),
}
ON_DEVICE = ["device", "part on the device"]
# On a GPU also arrays of another library, in these layouts of NumPy.
ON_GPU = [f"{layout} on the GPU" for layout in OUT_LAYOUTS if layout != "unaligned"]


class GpuView:
    """An array of another library on the GPU, in the layout of a NumPy array."""

    def __init__(self, array: Array, whole: Array) -> None:
        content = np.frombuffer(whole.tobytes("A") or b"\0", np.uint8)
        self.shape, self.dtype = array.shape, array.dtype
        self.contiguous = array.flags.c_contiguous
        self.memory = coalesce.to_device(content, "cuda")
        described = self.memory.__cuda_array_interface__
        self.first = array.__array_interface__["data"][0] - whole.__array_interface__["data"][0]
        self.__cuda_array_interface__ = {
            **described,
            "shape": array.shape,
            "strides": array.strides,
            "typestr": array.dtype.str,
            "data": (described["data"][0] + self.first, False),
        }

    def get(self) -> Array:
        """Return the array as a NumPy array."""
        how = self.__cuda_array_interface__
        view = np.ndarray(
            how["shape"], how["typestr"], self.memory.get(), self.first, how["strides"]
        )
        return view.copy()


def _laid_out(values: Array, layout: str, device: str) -> tuple[Any, Any]:
    """Return an array with these values in a layout, and the whole memory it is a part of."""
    if layout in ON_DEVICE:
        first = 1 if layout != "device" and values.ndim else 0
        around = np.full((first, *values.shape[1:]), FILL, values.dtype)
        whole = coalesce.asarray(np.concatenate([around, values]), device=device)
        return whole[first:], whole
    array = whole = LAYOUTS[layout.removesuffix(" on the GPU")](values.copy())
    while whole.base is not None:
        whole = whole.base
    if layout in ON_GPU:
        view = GpuView(array, whole)
        return view, view.memory
    return array, whole


def _on_host(array: Any) -> Array:
    return array if isinstance(array, np.ndarray) else array.get()


# ---- calls ----


@dataclass
class Call:
    number: int
    variant: ops.Variant
    name: str  # of the variant, or "best"
    arrays: dict[str, Array]  # the values of the operands, by name
    layouts: dict[str, str]  # of the operands
    out: str  # a layout, "same" for the first operand itself, or "" for a new array
    out_dtype: Any
    options: dict[str, Any]
    check: bool

    def __str__(self) -> str:
        arrays = ", ".join(
            f"{name} {a.shape} {a.dtype} {self.layouts[name]}" for name, a in self.arrays.items()
        )
        options = "".join(f", {name}={value}" for name, value in self.options.items())
        out = f", out {self.out_dtype} {self.out}" * bool(self.out)
        return (
            f"call {self.number}: {self.variant.operation} {self.name}, {arrays}{out}"
            f"{options}{', check' * self.check}"
        )


def _extent(draw: random.Random) -> int:
    if draw.random() < 0.5:
        return draw.choice(SMALL)
    # Large tiles are rarer, because they take longer.
    return max(0, draw.choice(TILES[: draw.randint(1, len(TILES))]) + draw.randint(-1, 1))


def _shapes(variant: ops.Variant, draw: random.Random) -> dict[str, tuple[int, ...]]:
    while True:
        m, n, k = (_extent(draw) for _ in range(3))
        if m * n * k <= MOST_WORK:
            break
    if variant.operation == "matmul":
        return {"a": (m, k), "b": (k, n), "c": (m, n)}
    if variant.operation != "access":
        return {"a": (m, n)}
    return {"x": {"aos": (m, max(1, n)), "soa": (max(1, m), n)}.get(variant.name, (m,))}


def _access_options(variant: ops.Variant, x: Array, draw: random.Random) -> dict[str, Any]:
    n, option = len(x), next(iter(OPTIONS[variant.name]), "")
    widths = [w for w in (1, 2, 4, 8, 16) if x.nbytes % w == 0]
    fields = x.shape[1 if variant.name == "aos" else 0] if x.ndim == 2 else 1
    chosen = {
        "offset": lambda: draw.randint(0, n),
        "stride": lambda: draw.choice([1, 2, 3, 33, n + 1]),
        "order": lambda: draw.sample(range(32), 32),
        "index": lambda: np.array(draw.choices(range(n), k=_extent(draw)) if n else [], np.int32),
        "distance": lambda: draw.choice([0, 1, n, 3 * n + 1]),
        "width": lambda: draw.choice(widths),
        "field": lambda: draw.randrange(fields),
    }
    return {option: chosen[option]()} if option else {}


def call(number: int, device: str = "sim") -> Call:
    """Return the call with this number."""
    draw, variant = random.Random(number), VARIANTS[number % len(VARIANTS)]
    name = variant.name
    if variant.operation != "access" and variant.name not in NOT_BEST and draw.random() < 0.3:
        name = "best"
    dtype: Any = draw.choice([variant.dtype] if variant.dtype else REAL)
    if variant.operation == "access":
        dtype = draw.choice(ANY)
    types = {"c": dtype, "out": dtype}
    if variant.name == "bf16" and bfloat16 is not None:
        dtype, types["out"] = draw.choice([dtype, bfloat16]), draw.choice([dtype, bfloat16])
    numbers = np.random.default_rng(number)
    arrays = {
        name: numbers.integers(-4, 5, shape).astype(types.get(name, dtype))
        for name, shape in _shapes(variant, draw).items()
    }
    options: dict[str, Any] = {}
    if variant.operation == "access":
        options = _access_options(variant, arrays["x"], draw)
    if variant.tiles and name != "best":
        options["tile"] = draw.choice([None, *variant.tiles])
    if variant.operation == "matmul":
        options["alpha"], options["beta"] = draw.choice([1, 1, 0, -0.5]), draw.choice([0, 0, 1, 2])
        if not options["beta"] and draw.random() < 0.5:
            del arrays["c"]
    layouts = {name: draw.choice(_possible(LAYOUTS, array.dtype)) for name, array in arrays.items()}
    numeric = all(array.dtype.kind != "V" for array in arrays.values())  # not bfloat16
    if device == "cuda" and numeric and draw.random() < 0.5:
        layouts = {name: draw.choice([*ON_DEVICE, *ON_GPU]) for name in arrays}
    out = draw.choice(["", "", "same", *_possible(OUT_LAYOUTS, types["out"])])
    check = device == "sim" and draw.random() < 0.25
    return Call(number, variant, name, arrays, layouts, out, types["out"], options, check)


def _possible(layouts: Mapping[str, Any], dtype: Any) -> list[str]:
    """Return the layouts, also those on the device, that arrays of this dtype can have.

    NumPy cannot swap the bytes of bfloat16, and arrays on the device hold only NumPy's own types.
    """
    if bfloat16 is not None and dtype == bfloat16:
        return [layout for layout in layouts if layout != "other byte order"]
    return [*layouts, *ON_DEVICE]


def problem(call: Call, device: str = "sim") -> str:
    """Make a call. Say what is wrong; empty if nothing is."""
    operation = OPERATIONS[call.variant.operation]
    made = {n: _laid_out(a, call.layouts[n], device) for n, a in call.arrays.items()}
    passed = {n: array for n, (array, _) in made.items()}
    # Some layouts repeat elements, so the values are read from the arrays.
    values = {n: _on_host(array).copy() for n, array in passed.items()}
    options = {n: passed[n] for n in passed if n not in operation.arrays} | call.options
    exact = reference(
        call.variant.operation,
        call.variant.name,
        [values[n] for n in operation.arrays],
        {**options, **values},
    ).exact
    if exact.dtype == np.float64:
        exact = exact.astype(np.float32)  # exact, and bfloat16 is rounded only once
    unrounded, exact = exact, exact.astype(call.out_dtype)

    layouts, out = call.layouts, None
    if call.out == "same":
        name = operation.arrays[0]
        first = passed[name]
        writeable = first.flags.writeable if isinstance(first, np.ndarray) else True
        if isinstance(first, GpuView):  # `out` must be C-contiguous if it is a GPU array
            writeable = first.contiguous
        if writeable and (first.shape, first.dtype) == (exact.shape, exact.dtype):
            out = name
    elif call.out:
        out, layouts = "out", {**layouts, "out": call.out}
        made["out"] = _laid_out(np.full_like(exact, FILL, order="C"), call.out, device)
    if out is not None:
        options["out"] = made[out][0]
    elif call.variant.name == "bf16":
        exact = unrounded.astype(np.float32)
    options[operation.choice] = call.name

    found = ""
    function = getattr(coalesce, operation.name)
    arguments = [passed[n] for n in operation.arrays]
    if call.check and exact.size:
        result, findings = function(*arguments, **options, device=device, check=True)
        found = str(findings) if findings else ""
    else:
        result = function(*arguments, **options, device=device)
    if out is not None and result is not made[out][0]:
        return "the result is not `out`"
    result = _on_host(result)
    if (result.shape, result.dtype) != (exact.shape, exact.dtype):
        return f"the result has shape {result.shape} and dtype {result.dtype}"
    if not np.array_equal(result, exact):
        wrong = np.argwhere(result != exact)
        return f"{len(wrong)} of {exact.size} elements are wrong, the first at {wrong[0]}"
    for name, (_, whole) in made.items():
        wanted = result if name == out else values[name]
        if not np.array_equal(
            _on_host(whole), _on_host(_laid_out(wanted, layouts[name], device)[1])
        ):
            return f"the memory around or in `{name}` has changed"
    return found


def failures(first: int, count: float, seconds: float, device: str) -> Iterator[str]:
    """Make calls until their number or the time is reached. Return those that went wrong."""
    end, number = time.monotonic() + seconds, first
    while number < first + count and time.monotonic() < end:
        each = call(number, device)
        try:
            message = problem(each, device)
        except Exception as error:
            cannot = each.variant.hopper and isinstance(error, coalesce.DeviceUnavailable)
            message = "" if cannot else f"{type(error).__name__}: {error}"
        if message:
            yield f"{each}\n    {message}"
        number += 1
    print(f"{number - first} calls from number {first}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--first", type=int, default=0, help="the number of the first call")
    parser.add_argument("--count", type=float, default=math.inf)
    parser.add_argument("--seconds", type=float, default=math.inf)
    parser.add_argument("--device", default="sim")
    options = parser.parse_args()
    bad = 0
    for message in failures(options.first, options.count, options.seconds, options.device):
        bad += 1
        print(message, flush=True)
    return bad != 0


if __name__ == "__main__":
    sys.exit(main())
