"""Texture fetches and surface accesses: the cases that are recorded on a GPU.

Each case is one launch with chosen texels and coordinates. Its result is an array of 32-bit words:
the bits of the fetched channels or, for surface writes, the bytes of the surface. The cases answer
these questions, by the first word of their names:

- ``point``, ``weights``: how a coordinate becomes a texel, or a weight of the linear filter.
- ``sum``: in which precision, and in which order, weighted texels are added.
- ``mode``: address modes, also for huge coordinates, infinities and NaN.
- ``read``: conversions of texels, normalized reads, missing channels, and the color of the border.
- ``layer``, ``cube``, ``gather``, ``linear_memory``, ``level``, ``grad``, ``shape``, ``query``.
- ``surface``: reads and writes inside and outside a surface.
"""

import functools
import itertools
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import coalesce

Array = np.ndarray[Any, Any]
FLOATS, SIGNED, UNSIGNED = "f", "i", "u"
_TYPES = {FLOATS: ("float", "float4"), SIGNED: ("int", "int4"), UNSIGNED: ("unsigned", "uint4")}

# The coordinates of all points follow each other in `p`: all x, then all y, ...
_FETCHES = {
    "tex1D": "tex1D<{T}4>(t, X)",
    "tex2D": "tex2D<{T}4>(t, X, Y)",
    "tex3D": "tex3D<{T}4>(t, X, Y, Z)",
    "tex1DLayered": "tex1DLayered<{T}4>(t, X, l[i])",
    "tex2DLayered": "tex2DLayered<{T}4>(t, X, Y, l[i])",
    "texCubemap": "texCubemap<{T}4>(t, X, Y, Z)",
    "texCubemapLayered": "texCubemapLayered<{T}4>(t, X, Y, Z, l[i])",
    "tex1Dfetch": "tex1Dfetch<{T}4>(t, l[i])",
    "gather0": "tex2Dgather<{T}4>(t, X, Y, 0)",
    "gather1": "tex2Dgather<{T}4>(t, X, Y, 1)",
    "gather3": "tex2Dgather<{T}4>(t, X, Y, 3)",
}
_OF_LEVELS = {
    "tex1DLod": "tex1DLod<{T}4>(t, X, Y)",
    "tex2DLod": "tex2DLod<{T}4>(t, X, Y, Z)",
    "tex3DLod": "tex3DLod<{T}4>(t, X, Y, Z, W)",
    "texCubemapLod": "texCubemapLod<{T}4>(t, X, Y, Z, W)",
    "tex1DGrad": "tex1DGrad<{T}4>(t, X, Y, Z)",
    "tex2DGrad": "tex2DGrad<{T}4>(t, X, Y, make_float2(Z, W), make_float2(V, U))",
}


def _source() -> str:
    text = "".join(
        f"#define {name} p[{row} * n + i]\n"
        for row, name in enumerate(("X", "Y", "Z", "W", "V", "U"))
    )
    for name, call in {**_FETCHES, **_OF_LEVELS}.items():
        for kind, (scalar, vector) in _TYPES.items():
            if name in _OF_LEVELS and kind != FLOATS:
                continue
            fetched = call.replace("{T}", scalar.replace("unsigned", "uint"))
            text += f"""
extern "C" __global__ void {name}_{kind}(cudaTextureObject_t t, const float *p, const int *l,
                                         {vector} *y, int n) {{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = {fetched};
}}"""
    text += """
extern "C" __global__ void elements_f(cudaTextureObject_t t, const float *p, const int *l,
                                      float4 *y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) asm("tex.2d.v4.f32.s32 {%0, %1, %2, %3}, [%4, {%5, %6}];"
                   : "=f"(y[i].x), "=f"(y[i].y), "=f"(y[i].z), "=f"(y[i].w)
                   : "l"(t), "r"(l[i]), "r"(l[n + i]));
}
extern "C" __global__ void queries_u(cudaTextureObject_t t, const float *p, const int *l,
                                     uint4 *y, int n) {
    asm("txq.width.b32 %0, [%1];" : "=r"(y[0].x) : "l"(t));
    asm("txq.height.b32 %0, [%1];" : "=r"(y[0].y) : "l"(t));
    asm("txq.depth.b32 %0, [%1];" : "=r"(y[0].z) : "l"(t));
    asm("txq.num_mipmap_levels.b32 %0, [%1];" : "=r"(y[0].w) : "l"(t));
    asm("txq.channel_data_type.b32 %0, [%1];" : "=r"(y[1].x) : "l"(t));
    asm("txq.channel_order.b32 %0, [%1];" : "=r"(y[1].y) : "l"(t));
    asm("txq.normalized_coords.b32 %0, [%1];" : "=r"(y[1].z) : "l"(t));
    asm("txq.array_size.b32 %0, [%1];" : "=r"(y[1].w) : "l"(t));
}
"""
    access = {
        "1": ("surf1Dread", "surf1Dwrite", "l[i]"),
        "2": ("surf2Dread", "surf2Dwrite", "l[i], l[n + i]"),
        "3": ("surf3Dread", "surf3Dwrite", "l[i], l[n + i], l[2 * n + i]"),
        "1l": ("surf1DLayeredread", "surf1DLayeredwrite", "l[i], l[n + i]"),
        "2l": ("surf2DLayeredread", "surf2DLayeredwrite", "l[i], l[n + i], l[2 * n + i]"),
    }
    words = {1: "unsigned char", 2: "unsigned short", 4: "unsigned", 8: "uint2", 16: "uint4"}
    for (form, (read, write, at)), (size, type_) in itertools.product(
        access.items(), words.items()
    ):
        if size not in (1, 2, 4) and form != "2":
            continue
        value = {8: "make_uint2(i + 1, ~i)", 16: "make_uint4(i + 1, ~i, 7 * i, i)"}.get(
            size, f"({type_})(i * 37 + 11)"
        )
        # One thread writes, so that the order is known if two writes go to the same element.
        text += f"""
extern "C" __global__ void read{form}_{size}(cudaSurfaceObject_t t, const int *l, {type_} *y,
                                             int n) {{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    y[2 * i] = {read}<{type_}>(t, {at}, cudaBoundaryModeClamp);
    y[2 * i + 1] = {read}<{type_}>(t, {at}, cudaBoundaryModeZero);
}}
extern "C" __global__ void write{form}_{size}(cudaSurfaceObject_t t, const int *l, int n,
                                              int zero) {{
    for (int i = 0; i < n; ++i)
        if (zero) {write}({value}, t, {at}, cudaBoundaryModeZero);
        else {write}({value}, t, {at}, cudaBoundaryModeClamp);
}}"""
    return text


SOURCE = _source()


@functools.cache
def _first(device: str) -> coalesce.Kernel:
    return coalesce.Kernel(SOURCE, "tex1D_f", device=device)


@functools.cache
def kernel(name: str, device: str) -> coalesce.Kernel:
    """Return a kernel of `SOURCE`."""
    return _first(device).get_function(name)


@dataclass(frozen=True)
class Fetch:
    """Fetches of one kernel at many points. `channels` of the result are compared."""

    name: str
    function: str
    texels: Any  # an array or a list of arrays
    points: Array  # a row for each coordinate
    options: dict[str, Any] = field(default_factory=dict)
    integers: Array | None = None  # layers or integer coordinates
    channels: int = 1
    kind: str = FLOATS

    @property
    def inputs(self) -> list[Array]:
        """The arrays that the launch reads."""
        texels = self.texels if isinstance(self.texels, list) else [self.texels]
        return [*texels, self.points, *([] if self.integers is None else [self.integers])]

    def run(self, device: str, how: str = "launch") -> Array:
        """Return the bits of the results, of shape (points, channels).

        `how` is "launch", or "profile", which executes the machine code.
        """
        points = np.ascontiguousarray(self.points, np.float32)
        integers = np.zeros(1, np.int32) if self.integers is None else self.integers
        n = points.shape[-1] if points.size else integers.shape[-1]
        out = np.full((n, 4), 0xAAAAAAAA, np.uint32)
        dtype = {FLOATS: np.float32, SIGNED: np.int32, UNSIGNED: np.uint32}[self.kind]
        first, *levels = self.texels if isinstance(self.texels, list) else [self.texels]
        made = coalesce.texture(first, levels=levels, **self.options)
        launch = getattr(kernel(f"{self.function}_{self.kind}", device), how)
        launch(
            -(-n // 128),
            128,
            made,
            points.ravel() if points.size else np.zeros(1, np.float32),
            np.ascontiguousarray(integers, np.int32).ravel(),
            out.view(dtype),
            n,
        )
        return out[:, : self.channels]


@dataclass(frozen=True)
class Access:
    """Surface reads (with both boundary modes), or writes with one of them."""

    name: str
    function: str
    elements: Array
    places: Array  # a row for each coordinate; x counts bytes
    options: dict[str, Any] = field(default_factory=dict)
    writes: str = ""  # "", "zero" or "clamp"

    @property
    def inputs(self) -> list[Array]:
        """The arrays that the launch reads."""
        return [self.elements, self.places]

    def run(self, device: str, how: str = "launch") -> Array:
        """Return what was read, or the bytes of the surface after the writes."""
        places = np.ascontiguousarray(self.places, np.int32)
        n = places.shape[1]
        elements = self.elements.copy()
        made = coalesce.surface(elements, **self.options)
        run = getattr(kernel(self.function, device), how)
        if self.writes:
            run(1, 1, made, places.ravel(), n, int(self.writes == "zero"))
            return np.frombuffer(elements.tobytes(), np.uint8).astype(np.uint32)
        size = int(self.function.partition("_")[2])
        dtype = {1: np.uint8, 2: np.uint16}.get(size, np.uint32)
        out = np.full(2 * n * max(1, size // 4), 0xAA, dtype)
        run(-(-n // 128), 128, made, places.ravel(), out, n)
        return out.astype(np.uint32)


Case = Fetch | Access


# How many results of a case may differ from the recording, and by how much at most.
NEARLY_EQUAL = {
    # The sum of two slices of float32 texels whose sizes differ by up to 2**24.
    "sum 3D wide": (5, 1e-6),
    # A direction on a cube map is multiplied by an approximate reciprocal.
    "cube of 64 linear": (2, 1.0),
}
# The level that belongs to derivatives: less than 2/256 of a level (docs/textures.md). The inputs
# are powers, whose last bit depends on the version of NumPy.
GRADIENT = 2 / 256
ROUNDED = 2  # so many levels that are rounded to integers may be rounded to the next one


def assert_same(case: Case, result: Array, wanted: Array) -> None:
    """Compare the words of two devices, bit by bit but for the cases above."""
    result, wanted = result.ravel(), wanted.ravel()
    if case.name.startswith("grad "):
        apart = np.abs(result.view(np.float32) - wanted.view(np.float32))
        assert np.sum(apart > GRADIENT) <= ROUNDED * (" point " in case.name), case.name
        return
    different = np.flatnonzero(result != wanted)
    most, by = NEARLY_EQUAL.get(case.name, (0, 0.0))
    assert different.size <= most, f"{case.name}: {different.size} results differ"
    a, b = result[different].view(np.float32), wanted[different].view(np.float32)
    np.testing.assert_allclose(a, b, rtol=by, err_msg=case.name)


def families() -> list[str]:
    """Return the first words of the cases' names."""
    return sorted({case.name.split()[0] for case in cases()} - {"query"})


def checksum(case: Case) -> int:
    """Return a checksum of the texels and of the points."""
    total = 0
    for array in case.inputs:
        total = zlib.crc32(np.ascontiguousarray(array).tobytes(), total)
    return total


def shuffled(words: Array) -> Array:
    """Return 32-bit words as bytes: all first bytes, then all second bytes, ... (to compress)."""
    return np.ascontiguousarray(words.astype("<u4").ravel().view(np.uint8).reshape(-1, 4).T)


def unshuffled(stored: Array) -> Array:
    """Undo `shuffled`."""
    return np.ascontiguousarray(stored.T).view("<u4").ravel()


# ---- coordinates and texels ----


def _f(*values: Any) -> Array:
    return np.array(values, np.float32)


def _near(places: Array, steps: int = 3) -> Array:
    """Return places as float32 numbers, with their neighbours and numbers 2**-n away from them."""
    near = [places.astype(np.float32)]
    for sign in (np.float32(-np.inf), np.float32(np.inf)):
        at = places.astype(np.float32)
        for _ in range(steps):
            at = np.nextafter(at, sign)
            near.append(at)
    for power in range(2, 24):
        near += [
            (places + 2.0**-power).astype(np.float32),
            (places - 2.0**-power).astype(np.float32),
        ]
    return np.unique(np.concatenate(near))


def _uniform(seed: int, low: float, high: float, *shape: int) -> Array:
    return np.random.default_rng(seed).uniform(low, high, shape).astype(np.float32)


def _index(*shape: int) -> Array:
    """Texels whose values are their numbers, from 1."""
    return np.arange(1, np.prod(shape) + 1, dtype=np.float32).reshape(shape)


def _hot(n: int, i: int) -> Array:
    texels = np.zeros(n, np.float32)
    texels[i] = 1
    return texels


SPECIAL = _f(
    np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-45, -1e-45, 1e-38, 0.99999994, 1e5, -1e5, 1e6,
    2**23, -(2**23),
    2**24 + 2, 2**30, -(2**30), 2**31, -(2**31), 2**32, 1e10, -1e10, 1e15, 1e20,
    -1e20, 1e30, 3e38, -3e38,
)  # fmt: skip


def cases() -> Iterator[Case]:
    """Yield the recorded cases."""
    yield from _points()
    yield from _weights()
    yield from _sums()
    yield from _modes()
    yield from _reads()
    yield from _layers()
    yield from _cubes()
    yield from _gathers()
    yield from _levels()
    yield from _shapes()
    yield from _surfaces()


def _points() -> Iterator[Case]:
    for n in (5, 13, 256, 1000, 4095):
        texels = np.arange(1, n + 1, dtype=np.uint16)
        some = np.unique(np.random.default_rng(n).integers(0, n + 1, 60))
        yield Fetch(f"point texels {n}", "tex1D", texels, _near(some)[None], kind=UNSIGNED)
        given = {"normalized": True}
        for mode in ("clamp", "wrap", "mirror"):
            at = _near(some / n)
            at = np.concatenate([at, _uniform(n, 0, 1, 1000)])[None]
            yield Fetch(
                f"point normalized {mode} {n}",
                "tex1D",
                texels,
                at,
                {**given, "address": mode},
                kind=UNSIGNED,
            )
    texels = np.arange(1, 7 * 11 + 1, dtype=np.uint16).reshape(7, 11)
    at = np.stack([_uniform(1, -3, 14, 4000), _uniform(2, -3, 10, 4000)])
    yield Fetch("point 2D", "tex2D", texels, at, kind=UNSIGNED)


def _weights() -> Iterator[Case]:
    linear = {"filter": "linear"}
    # Multiples of 2**-12, and their neighbours.
    grid = np.arange(0, 4 * 4096 + 1) / 4096
    dense = np.unique(
        np.concatenate(
            [
                grid.astype(np.float32),
                np.nextafter(_f(*grid[::7]), _f(-9)),
                np.nextafter(_f(*grid[::7]), _f(9)),
            ]
        )
    )
    yield Fetch("weights dense", "tex1D", _hot(4, 1), dense[None], linear)
    yield Fetch("weights random", "tex1D", _hot(4, 2), _uniform(3, 0, 4, 1, 20000), linear)
    for n in (8, 13, 100):
        at = np.unique(
            np.concatenate(
                [(grid[: 4096 * 3] / 3 * 4 / n).astype(np.float32), _uniform(n, 0, 3 / n, 4000)]
            )
        )
        yield Fetch(
            f"weights normalized {n}", "tex1D", _hot(n, 1), at[None], {**linear, "normalized": True}
        )
        yield Fetch(
            f"weights wrapped {n}",
            "tex1D",
            _hot(n, 1),
            at[None] - 2,
            {**linear, "normalized": True, "address": "wrap"},
        )
        yield Fetch(
            f"weights mirrored {n}",
            "tex1D",
            _hot(n, 1),
            -at[None] - 2,
            {**linear, "normalized": True, "address": "mirror"},
        )
    for start in (100, 1000, 4000):
        texels = np.zeros(4096, np.float32)
        texels[start + 1] = 1
        at = start + 0.5 + grid[:8192:2]
        yield Fetch(f"weights from {start}", "tex1D", texels, _f(at), linear)
        yield Fetch(
            f"weights normalized from {start}",
            "tex1D",
            texels,
            _f(at / 4096),
            {**linear, "normalized": True},
        )
    # In two and three dimensions: the weight of one texel is a product.
    texels = np.zeros((4, 4), np.float32)
    texels[1, 1] = 1
    at = _uniform(4, 0.4, 2.6, 2, 6000)
    yield Fetch("weights 2D", "tex2D", texels, at, linear)
    yield Fetch("weights 2D normalized", "tex2D", texels, at / 4, {**linear, "normalized": True})
    texels = np.zeros((4, 4, 4), np.float32)
    texels[1, 1, 1] = 1
    yield Fetch("weights 3D", "tex3D", texels, _uniform(5, 0.4, 2.6, 3, 6000), linear)


PAIRS = [
    (0, 1), (1, 0), (1, 1), (1, 1 + 2**-23), (1, 1 - 2**-24), (1, 2), (1, 3), (1 / 3, 2 / 3),
    (1, -1), (-1, 1),
    (0.1, 0.7), (1e-3, 1e3), (1, 2**-12), (1, 2**-20), (1, 2**-23), (1, 2**-24), (1, 2**-30),
    (2**-30, 1),
    (1e30, 1), (1, 1e30), (3e38, 3e38), (3e38, -3e38), (3.4e38, 1e38), (1e-38, 1e-38),
    (1e-38, 2e-38),
    (1e-40, 2e-40), (1e-45, 0), (1e-44, 1e-38), (np.inf, 1), (1, np.inf), (np.inf, -np.inf),
    (np.nan, 1),
    (1, np.nan), (0, np.inf), (-0.0, -0.0), (0.0, -0.0), (16777216, 16777218), (16777215, 1),
    (255, 256),
    (3.14159274, 2.71828175), (100.1, 100.2), (1000.5, -1000.25), (7, -7.0000005), (0.3, 0.3),
]  # fmt: skip


def _sums() -> Iterator[Case]:
    linear = {"filter": "linear"}
    with np.errstate(over="ignore"):
        texels = np.array(PAIRS, np.float32).ravel()
    at = np.array([2 * p + 0.5 + w / 256 for p in range(len(PAIRS)) for w in range(0, 257, 3)])
    yield Fetch("sum pairs", "tex1D", texels, _f(at), linear)
    halves = np.array(PAIRS, np.float64)
    with np.errstate(over="ignore"):
        halves = np.clip(halves, -65000, 65000).astype(np.float16)
    yield Fetch("sum pairs float16", "tex1D", halves.ravel(), _f(at), linear)
    for dtype in ("uint8", "int8", "uint16", "int16"):
        limits = np.iinfo(dtype)
        rng = np.random.default_rng(11)
        texels = rng.integers(limits.min, limits.max + 1, 64).astype(dtype)
        texels[:10] = [limits.min, limits.max, 0, 1, limits.max, 0, 1, 2, 127, limits.max - 1]
        at = np.concatenate([np.arange(0.5, 10.5, 1 / 256), rng.uniform(0, 64, 2000)])
        yield Fetch(f"sum {dtype}", "tex1D", texels, _f(at), {**linear, "read": "normalized"})
        square = np.concatenate([texels[:32], texels]).reshape(8, 12)
        yield Fetch(
            f"sum 2D {dtype}",
            "tex2D",
            square,
            _uniform(6, 0, 8, 2, 1500),
            {**linear, "read": "normalized"},
        )
    for name, spread in (("like", 0.0), ("wide", 12.0)):
        rng = np.random.default_rng(12)
        texels = (rng.uniform(-1, 1, 512) * 2.0 ** rng.uniform(-spread, spread, 512)).astype(
            np.float32
        )
        yield Fetch(f"sum 1D {name}", "tex1D", texels[:64], _uniform(7, 0, 64, 1, 3000), linear)
        yield Fetch(
            f"sum 2D {name}", "tex2D", texels[:64].reshape(8, 8), _uniform(8, 0, 8, 2, 3000), linear
        )
        yield Fetch(
            f"sum 3D {name}", "tex3D", texels.reshape(8, 8, 8), _uniform(9, 0, 8, 3, 3000), linear
        )
    # Each of the four texels alone, with the weight of the other three known: the order of sums.
    rng = np.random.default_rng(13)
    texels = rng.uniform(1, 2, (6, 6)).astype(np.float32)
    texels[::2] *= 2**12
    yield Fetch("sum 2D rows", "tex2D", texels, _uniform(10, 0.5, 5.5, 2, 2000), linear)
    yield Fetch("sum 2D columns", "tex2D", texels.T.copy(), _uniform(10, 0.5, 5.5, 2, 2000), linear)
    many = rng.uniform(-4, 4, (6, 6, 4)).astype(np.float32)
    yield Fetch(
        "sum 2D float4",
        "tex2D",
        many,
        _uniform(14, 0, 6, 2, 800),
        {**linear, "channels": 4},
        channels=4,
    )
    half = many.astype(np.float16)
    yield Fetch(
        "sum 2D half4",
        "tex2D",
        half,
        _uniform(14, 0, 6, 2, 800),
        {**linear, "channels": 4},
        channels=4,
    )
    bytes_ = rng.integers(0, 256, (6, 6, 4)).astype(np.uint8)
    yield Fetch(
        "sum 2D uchar4",
        "tex2D",
        bytes_,
        _uniform(14, 0, 6, 2, 800),
        {**linear, "channels": 4, "read": "normalized"},
        channels=4,
    )


def _modes() -> Iterator[Case]:
    edges = np.arange(-14, 16) / 5
    for mode, normalized, kind in itertools.product(
        ("clamp", "border", "wrap", "mirror"), (False, True), ("point", "linear")
    ):
        at = np.unique(np.concatenate([_near(edges if normalized else edges * 5, 1)]))
        more = _uniform(15, -2.6, 3.4, 1500) * (1 if normalized else 5)
        at = np.concatenate([at, more, SPECIAL])[None]
        options = {"address": mode, "normalized": normalized, "filter": kind, "border": 9}
        name = f"mode {mode} {'normalized' if normalized else 'texels'} {kind}"
        yield Fetch(name, "tex1D", _index(5), at, options)
        if kind == "linear":
            yield Fetch(f"{name} one texel", "tex1D", _index(1), at[:, ::9], options)
    for modes in (("wrap", "mirror"), ("border", "clamp"), ("mirror", "border"), ("clamp", "wrap")):
        for kind in ("point", "linear"):
            options = {"address": modes, "normalized": True, "filter": kind, "border": -3}
            yield Fetch(
                f"mode {'-'.join(modes)} {kind}",
                "tex2D",
                _index(3, 5),
                _uniform(16, -1.5, 2.5, 2, 1500),
                options,
            )
    options = {"address": ("wrap", "border", "mirror"), "normalized": True, "border": 50}
    for kind in ("point", "linear"):
        yield Fetch(
            f"mode 3D {kind}",
            "tex3D",
            _index(2, 3, 4),
            _uniform(17, -1.5, 2.5, 3, 1500),
            {**options, "filter": kind},
        )


def _border(dtype: str, color: float) -> float:
    """Return the color of a border that is set to a float.

    For integer texels, the recording passed the float itself. The hardware reads its lowest bits.
    """
    if dtype.startswith("float"):
        return color
    return int(np.float32([color]).view(dtype)[0])


def _reads() -> Iterator[Case]:
    inside = np.stack([np.arange(-1, 9) + 0.5, np.full(10, 0.5)])
    for dtype, channels in itertools.product(
        ("uint8", "int8", "uint16", "int16", "uint32", "int32", "float16", "float32"), (1, 2, 4)
    ):
        if dtype.startswith("float"):
            values = _f(0.5, -2, 1e-7, 3, 6e4, -0.0, 7, 1.5).astype(dtype)
            kind = FLOATS
        else:
            limits = np.iinfo(dtype)
            values = np.array([limits.min, limits.max, 1, 2, 3, limits.max - 1, 5, 100], dtype)
            kind = SIGNED if dtype.startswith("int") else UNSIGNED
        texels = np.stack([np.roll(values, -c) for c in range(channels)], axis=-1)
        texels = texels[None, :, 0].copy() if channels == 1 else texels[None]
        given: dict[str, Any] = {"channels": channels}
        yield Fetch(
            f"read {dtype} {channels}", "tex2D", texels, inside, given, channels=4, kind=kind
        )
        yield Fetch(
            f"read border {dtype} {channels}",
            "tex2D",
            texels,
            inside,
            {
                **given,
                "address": "border",
                "border": tuple(_border(dtype, color) for color in (3, 5.75, -7, 300)),
            },
            channels=4,
            kind=kind,
        )
        indices = np.array([-1, 0, 3, 7, 8, 9, 100, 2**20, -(2**31), 2**31 - 1], np.int32)
        line = texels[0].copy()
        yield Fetch(
            f"linear_memory {dtype} {channels}",
            "tex1Dfetch",
            line,
            np.zeros((0, 0)),
            {**given, "linear_memory": True},
            indices,
            4,
            kind,
        )
        if dtype[-2:] in ("t8", "16") and kind != FLOATS:
            read = {**given, "read": "normalized"}
            yield Fetch(
                f"read normalized {dtype} {channels}", "tex2D", texels, inside, read, channels=4
            )
            yield Fetch(
                f"read normalized border {dtype} {channels}",
                "tex2D",
                texels,
                inside,
                {**read, "address": "border", "border": (3, 0.75, -7, 300)},
                channels=4,
            )
            if channels == 1:
                yield Fetch(
                    f"linear_memory normalized {dtype}",
                    "tex1Dfetch",
                    line,
                    np.zeros((0, 0)),
                    {**read, "linear_memory": True},
                    indices,
                    4,
                )
                count = min(limits.max - limits.min + 1, 6000)
                every = np.unique(np.linspace(limits.min, limits.max, count).round()).astype(dtype)
                yield Fetch(
                    f"read all {dtype}", "tex1D", every, np.arange(every.size)[None] + 0.5, read
                )
    halves = np.arange(0, 65536, 13).astype(np.uint16).view(np.float16)
    yield Fetch("read all float16", "tex1D", halves, np.arange(halves.size)[None] + 0.5)
    bits = np.random.default_rng(18).integers(0, 2**32, 500, dtype=np.uint64).astype(np.uint32)
    bits[:6] = [0x7F800001, 0xFFC12345, 1, 0x80000001, 0x007FFFFF, 0x7FC00000]
    yield Fetch("read all float32", "tex1D", bits.view(np.float32), np.arange(500)[None] + 0.5)
    for dtype, kind in (("int32", SIGNED), ("uint8", UNSIGNED), ("int16", SIGNED)):
        for border in (2.0**-149 * 77, 1.0, -1.0, 300.5, 1e10):
            yield Fetch(
                f"read border {dtype} of {border:g}",
                "tex2D",
                np.ones((1, 2), dtype),
                inside,
                {"address": "border", "border": _border(dtype, border)},
                channels=4,
                kind=kind,
            )


def _layers() -> Iterator[Case]:
    layers = np.array(
        [0, 1, 2, 3, 4, 5, -1, -2, 1000, 65535, 65536, 2**31 - 1, -(2**31)] * 3, np.int32
    )
    at = _uniform(19, 0.6, 3.4, 2, layers.size)
    for kind in ("point", "linear"):
        given = {"layered": True, "filter": kind}
        yield Fetch(f"layer 1D {kind}", "tex1DLayered", _index(5, 4), at[:1], given, layers)
        yield Fetch(f"layer 2D {kind}", "tex2DLayered", _index(5, 4, 4), at, given, layers)
    direction = _uniform(20, -1, 1, 3, layers.size)
    yield Fetch(
        "layer cube",
        "texCubemapLayered",
        _index(18, 3, 3),
        direction,
        {"layered": True, "cube": True},
        layers,
    )


def _cubes() -> Iterator[Case]:
    random = _uniform(21, -1, 1, 3, 6000)
    ties = np.array(list(itertools.product((-2, -1, -0.5, 0, 0.5, 1, 2), repeat=3)), np.float32).T
    odd = np.array(list(itertools.product((np.nan, np.inf, -np.inf, 1e-40, 1e38, -1), repeat=3))).T
    edge = np.array([[1, s * (1 - 2.0**-k), 0.3] for k in range(1, 25) for s in (-1, 1)]).T
    for kind in ("point", "linear"):
        given = {"cube": True, "filter": kind}
        yield Fetch(f"cube random {kind}", "texCubemap", _index(6, 4, 4), random, given)
        yield Fetch(f"cube ties {kind}", "texCubemap", _index(6, 4, 4), ties, given)
        yield Fetch(
            f"cube edge {kind}",
            "texCubemap",
            _index(6, 4, 4),
            np.concatenate([edge, edge[[1, 2, 0]], edge[[2, 0, 1]], -edge], axis=1),
            given,
        )
        yield Fetch(f"cube odd {kind}", "texCubemap", _index(6, 4, 4), odd, given)
        yield Fetch(f"cube of 1 {kind}", "texCubemap", _index(6, 1, 1), random[:, :500], given)
        yield Fetch(f"cube of 64 {kind}", "texCubemap", _index(6, 64, 64), random[:, :3000], given)


def _gathers() -> Iterator[Case]:
    grid = np.unique(np.concatenate([_near(np.array([1, 1.5, 2]), 2), _uniform(22, -1, 7, 800)]))
    at = np.stack([grid, np.roll(grid, 311)])
    for mode, normalized in (("clamp", False), ("border", False), ("wrap", True), ("mirror", True)):
        points = at / np.array([[6], [5]]) if normalized else at
        yield Fetch(
            f"gather {mode}",
            "gather0",
            _index(5, 6),
            points,
            {"address": mode, "normalized": normalized, "border": 99},
            channels=4,
        )
    yield Fetch("gather linear", "gather0", _index(5, 6), at, {"filter": "linear"}, channels=4)
    four = _index(5, 6, 4)
    yield Fetch("gather of 4", "gather3", four, at[:, ::4], {"channels": 4}, channels=4)
    for name in ("gather1", "gather3"):
        yield Fetch(f"gather missing {name}", name, _index(5, 6), at[:, ::9], channels=4)
    texels = np.arange(30, dtype=np.uint8).reshape(5, 6)
    yield Fetch("gather uint8", "gather0", texels, at[:, ::4], channels=4, kind=UNSIGNED)
    yield Fetch(
        "gather normalized read", "gather0", texels, at[:, ::4], {"read": "normalized"}, channels=4
    )


def _pyramid(*shape: int, layers: tuple[int, ...] = ()) -> list[Array]:
    """Return levels whose texels all have the number of the level."""
    count = max(shape).bit_length()
    return [
        np.full((*layers, *(max(n >> level, 1) for n in shape)), level, np.float32)
        for level in range(count)
    ]


def _levels() -> Iterator[Case]:
    wanted = np.unique(
        np.concatenate(
            [
                np.arange(-1, 5.5, 1 / 64),
                _near(np.arange(0, 4) + 0.5, 1),
                _near(np.arange(0, 4.0), 1),
                _uniform(23, -1, 6, 1500),
            ]
        )
    )
    wanted = np.concatenate([wanted.astype(np.float32), SPECIAL])
    middle = np.full((3, wanted.size), 0.3, np.float32)
    for kind, between, bias in itertools.product(
        ("point", "linear"), ("point", "linear"), (0.0, 0.7)
    ):
        given = {"filter": kind, "level_filter": between, "level_bias": bias, "normalized": True}
        yield Fetch(
            f"level {kind} {between} {bias}",
            "tex2DLod",
            _pyramid(16, 16),
            np.stack([*middle[:2], wanted]),
            given,
        )
        if kind == "point":
            continue
        pictures = [_uniform(24 + n, 0, 9, max(16 >> n, 1), max(12 >> n, 1)) for n in range(5)]
        at = np.stack([*_uniform(29, -0.2, 1.2, 2, 1500), _uniform(30, 0, 4, 1500)])
        yield Fetch(f"level picture {between} {bias}", "tex2DLod", pictures, at, given)
        yield Fetch(f"level base {between} {bias}", "tex2D", pictures, at[:2, :300], given)
        slopes = (2.0 ** _uniform(31, -7, 1, 4, 2000)) * np.sign(_uniform(32, -1, 1, 4, 2000))
        both = np.concatenate([_uniform(33, 0, 1, 2, 2000), slopes]).astype(np.float32)
        yield Fetch(f"grad 2D {between} {bias}", "tex2DGrad", _pyramid(16, 16), both, given)
        if between == "linear" and not bias:
            yield Fetch("grad 2D oblong", "tex2DGrad", _pyramid(4, 16), both, given)
            axis = both.copy()
            axis[3:] = 0
            yield Fetch("grad 2D one axis", "tex2DGrad", _pyramid(16, 16), axis, given)
            odd = both[:, : SPECIAL.size].copy()
            odd[2] = SPECIAL
            yield Fetch("grad 2D special", "tex2DGrad", _pyramid(16, 16), odd, given)
            yield Fetch("grad 1D", "tex1DGrad", _pyramid(16), both[[0, 2, 3]], given)
            yield Fetch("level 1D", "tex1DLod", _pyramid(16), np.stack([middle[0], wanted]), given)
            yield Fetch(
                "level 3D", "tex3DLod", _pyramid(8, 8, 8), np.stack([*middle, wanted]), given
            )
            faces = _pyramid(16, 16, layers=(6,))
            yield Fetch(
                "level cube",
                "texCubemapLod",
                faces,
                np.stack([*middle, wanted]),
                {**given, "cube": True},
            )
    given = {"filter": "linear", "level_filter": "linear", "normalized": True}
    yield Fetch(
        "level of one",
        "tex2DLod",
        _index(4, 4),
        np.stack([*_uniform(34, 0, 1, 2, 100), _uniform(35, -2, 3, 100)]),
        given,
    )


def _shapes() -> Iterator[Case]:
    at = _uniform(36, -1, 9, 3, 200)
    yield Fetch("shape tex2D of a line", "tex2D", _index(8), at[:2], channels=4)
    yield Fetch("shape tex1D of a row", "tex1D", _index(1, 8), at[:1], channels=4)
    yield Fetch("shape tex2D of a slice", "tex2D", _index(1, 4, 8), at[:2], channels=4)
    yield Fetch(
        "shape tex2D of a line, linear",
        "tex2D",
        _index(8),
        at[:2],
        {"filter": "linear"},
        channels=4,
    )
    whole = np.array(list(itertools.product(range(-2, 8), range(-2, 7))), np.int32).T
    for mode in ("clamp", "border", "wrap", "mirror"):
        yield Fetch(
            f"shape integer coordinates {mode}",
            "elements",
            _index(5, 6),
            np.zeros((0, 0)),
            {"address": mode, "normalized": mode in ("wrap", "mirror"), "border": 77},
            whole,
        )
    for name, texels, options in (
        ("1D", _index(8), {}),
        ("2D", _index(4, 8), {"normalized": True}),
        ("3D", _index(2, 4, 8), {}),
        ("layers", _index(3, 4, 8), {"layered": True}),
        ("cube", _index(6, 4, 4), {"cube": True}),
        ("uint8", np.zeros((4, 8, 4), np.uint8), {"channels": 4}),
        ("normalized int16", np.zeros((4, 8, 2), np.int16), {"channels": 2, "read": "normalized"}),
        ("levels", _pyramid(16, 16), {"normalized": True}),
        ("line", _index(9), {"linear_memory": True}),
        ("float16", np.zeros((4, 8), np.float16), {}),
        ("int32", np.zeros((4, 8), np.int32), {}),
    ):
        yield Fetch(
            f"query {name}", "queries", texels, np.zeros((1, 2)), options, channels=4, kind=UNSIGNED
        )


def _surfaces() -> Iterator[Case]:
    sizes = {1: np.uint8, 2: np.uint16, 4: np.float32}
    forms: dict[str, tuple[tuple[int, ...], bool]] = {
        "1": ((7,), False),
        "2": ((5, 7), False),
        "3": ((3, 5, 7), False),
        "1l": ((3, 7), True),
        "2l": ((3, 5, 7), True),
    }
    for (form, (shape, layered)), (size, dtype) in itertools.product(forms.items(), sizes.items()):
        elements = np.arange(1, np.prod(shape) + 1).astype(dtype).reshape(shape)
        rows = [np.array([-300, -2, -1, 0, 1, 3, 5, 6, 7, 8, 100]) * size]
        rows += [np.array([-9, -1, 0, 1, n - 1, n, n + 1, 40]) for n in shape[-2::-1]]
        places = np.array(list(itertools.product(*rows)), np.int32).T
        places = places[:, :: max(1, places.shape[1] // 400)]
        given = {"layered": layered}
        yield Access(f"surface read {form} {size}", f"read{form}_{size}", elements, places, given)
        for mode in ("zero", "clamp"):
            yield Access(
                f"surface {mode} {form} {size}",
                f"write{form}_{size}",
                elements,
                places,
                given,
                mode,
            )
    for size, dtype, channels in (
        (2, np.int8, 2),
        (4, np.uint8, 4),
        (4, np.float16, 2),
        (8, np.float32, 2),
        (16, np.int32, 4),
        (8, np.uint16, 4),
    ):
        elements = np.arange(5 * 7 * channels).astype(dtype).reshape(5, 7, channels)
        places = np.array(
            list(itertools.product(np.arange(-2, 9) * size, range(-1, 7))), np.int32
        ).T
        name = f"{np.dtype(dtype).name} {channels}"
        given = {"channels": channels}
        yield Access(f"surface read {name}", f"read2_{size}", elements, places, given)
        yield Access(f"surface zero {name}", f"write2_{size}", elements, places, given, "zero")
    cube = np.arange(6 * 16, dtype=np.float32).reshape(6, 4, 4)
    places = np.array(
        list(itertools.product((-4, 0, 12, 16), (-1, 2, 4), (-1, 0, 5, 6))), np.int32
    ).T
    yield Access("surface read cube", "read2l_4", cube, places, {"cube": True})
