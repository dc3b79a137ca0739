"""`coalesce explain OPERATION`: profiles variants of an operation, and compares the profiles."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from coalesce import catalogue
from coalesce.catalogue import table
from coalesce.cli import demo
from coalesce.common.options import option
from coalesce.profiling import Profile, profile
from coalesce.profiling.comparison import Comparison, compare

# The sizes without --size: the number of rows and columns of a matrix, and of elements of a vector.
_SIDE, _LENGTH = demo.DEFAULT_SIZE["sim"], 1 << 16


def of_operation(
    operation: str,
    variants: Sequence[str],
    option_texts: Sequence[str],
    *,
    n: int | None,
    dtype: str,
    **settings: Any,
) -> Profile | Comparison:
    """Profile variants of an operation on n x n matrices.

    For one variant, the result is a `Profile`. For several, it is a `Comparison`. `option_texts`
    are the options of the operation, such as ``["tile=16"]``. `settings` are other arguments of
    `coalesce.profile`, such as ``device="sim:a100"``.
    """
    names = variants or [catalogue.variants(operation).names[0]]
    definition = table.operation(operation)
    options = dict(option(text) for text in option_texts)
    for name in names:
        catalogue.find(operation, name)
    # With several variants, each gets only the options that it has. With a single variant, an
    # option that it does not have is an error.
    if len(names) > 1:
        definition.check_options(names, options)
    profiles = []
    for name in names:
        named: dict[str, Any] = {definition.choice: name}
        arrays = operands(operation, name, n, np.dtype(dtype), options)
        mine = {k: v for k, v in options.items() if len(names) == 1 or definition.takes(name, k)}
        profiles.append(profile(operation, *arrays, **named, **mine, **settings))
    return profiles[0] if len(profiles) == 1 else compare(*profiles)


def operands(
    operation: str, variant: str, n: int | None, dtype: np.dtype[Any], options: dict[str, Any]
) -> tuple[Any, ...]:
    """Return arrays of random numbers for a variant.

    Matrices have `n` rows and columns, and vectors have `n` elements. If the
    operation is "access" and the variant is "gather", an array of random indices is added to
    `options`.
    """
    if operation != "access":
        a, b = demo.operands(n or _SIDE, dtype)
        return (a, b) if operation == "matmul" else (a,)
    length = n or _LENGTH
    random = np.random.default_rng(2024)
    if variant == "gather":
        options.setdefault("index", random.integers(0, length, length).astype(np.int32))
    shape = {"aos": (length, 4), "soa": (4, length)}.get(variant, (length,))
    return (random.uniform(-1, 1, shape).astype(dtype),)
