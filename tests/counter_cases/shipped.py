"""The kernels of the catalogue."""

from collections.abc import Callable, Iterator
from typing import Any

import coalesce
from coalesce.catalogue.table import OPERATIONS
from counter_cases.case import Case, matrix, whole_numbers

# The recorded patterns of `access`: the options, and whether x is a matrix of fields.
ACCESS: list[tuple[str, dict[str, Any]]] = [
    ("offset", {"offset": 1}),
    ("offset", {"offset": 8}),
    ("stride", {"stride": 2}),
    ("stride", {"stride": 3}),
    ("stride", {"stride": 8}),
    ("stride", {"stride": 32}),
    ("permuted", {}),
    ("broadcast", {}),
    ("gather", {}),
    ("far_lane", {}),
    ("vector", {"width": 1}),
    ("vector", {"width": 2}),
    ("vector", {"width": 4}),
    ("vector", {"width": 8}),
    ("vector", {"width": 16}),
    ("aos", {"field": 1}),
    ("soa", {"field": 1}),
]


# Products with bulk copies form a separate set, because their time is not modelled.
BULK_COPIES = ("tma", "tensor_map", "bf16", "tf32", "tf32x3", "dmma")


def of_size(
    m: int, k: int, n: int, dtype: str = "float32", tiles: tuple[int, ...] = (32,)
) -> Iterator[Case]:
    """Yield every shipped kernel: products of (m, k) and (k, n), the others on (m, n) or m * n."""
    size = f"{m}x{k}x{n} {dtype}"
    for variant in (v for v in coalesce.variants("matmul") if v.name not in BULK_COPIES):
        if variant.dtype not in ("", dtype):
            continue
        own = [tile for tile in tiles if tile in variant.tiles] or variant.tiles[:1]
        for tile in own or (32,):
            options = {"variant": variant.name, **({"tile": tile} if variant.tiles else {})}

            def product(device: Any, options: Any = options, **how: bool) -> Any:
                a, b = matrix(1, m, k, dtype=dtype), matrix(2, k, n, dtype=dtype)
                return OPERATIONS["matmul"].run((a, b), options, device=device, **how)[1]

            shown = "" if tile == 32 else f" tile={tile}"
            yield _case(f"matmul/{variant.name} {size}{shown}", product)
    for operation in ("transpose", "row_sums", "column_sums"):
        for variant in coalesce.variants(operation):

            def whole(
                device: Any, operation: str = operation, name: str = variant.name, **how: bool
            ) -> Any:
                a = matrix(1, m, n, dtype=dtype)
                options = {"variant": name}
                return OPERATIONS[operation].run((a,), options, device=device, **how)[1]

            yield _case(f"{operation}/{variant.name} {m}x{n} {dtype}", whole)
    for pattern, options in ACCESS:

        def read(device: Any, pattern: str = pattern, options: Any = options, **how: bool) -> Any:
            count = m * n
            x, extra = matrix(1, count, dtype=dtype), {}
            if pattern == "gather":
                extra["index"] = whole_numbers(3, count, count)
            elif pattern == "aos":
                x = x[: count // 4 * 4].reshape(-1, 4)
            elif pattern == "soa":
                x = x[: count // 4 * 4].reshape(4, -1)
            elif pattern == "vector":
                x = x[: count * x.itemsize // 16 * 16 // x.itemsize]
            chosen = {"pattern": pattern, **options, **extra}
            return OPERATIONS["access"].run((x,), chosen, device=device, **how)[1]

        shown = "".join(f" {key}={value}" for key, value in options.items())
        yield _case(f"access/{pattern} {m * n} {dtype}{shown}", read)


def _case(name: str, run: Callable[..., Any]) -> Case:
    return Case(name, lambda device, **how: run(device, **how).records)


def cases() -> Iterator[Case]:
    """Yield every shipped kernel in both dtypes, with and without incomplete tiles."""
    for dtype in ("float32", "float64"):
        yield from of_size(128, 128, 128, dtype, tiles=(8, 16, 32))
        yield from of_size(500, 300, 77, dtype)


def model_cases() -> Iterator[Case]:
    """Yield every shipped kernel at the sizes at which the models of caches and time are tested."""
    for n in (512, 1024, 2048, 4096):
        yield from of_size(n, n, n)
    for n in (1024, 2048):
        yield from (c for c in of_size(n, n, n, tiles=(16,)) if "tile=" in c.name)


def bulk_copy_cases() -> Iterator[Case]:
    """Yield the products with bulk copies."""
    for variant in (v for v in coalesce.variants("matmul") if v.name in BULK_COPIES):
        dtype = "float64" if variant.name == "dmma" else "float32"
        for m, k, n in ((128, 128, 128), (500, 300, 77), (512, 512, 512)):

            def product(
                device: Any, name: str = variant.name, of: Any = (dtype, m, k, n), **how: bool
            ) -> Any:
                dtype, m, k, n = of
                a, b = matrix(1, m, k, dtype=dtype), matrix(2, k, n, dtype=dtype)
                return OPERATIONS["matmul"].run((a, b), {"variant": name}, device=device, **how)[1]

            yield _case(f"matmul/{variant.name} {m}x{k}x{n} {dtype}", product)
