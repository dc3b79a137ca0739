"""`coalesce run FILE [ENTRY] --grid ... [ARGUMENT ...]`: runs a kernel of a file.

An ARGUMENT is a word that describes an array or a number, such as ``f32:1024``.

`coalesce explain` and `coalesce check` read the kernel and its arguments in the same way.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.console import Console

from coalesce.common.timing import milliseconds

if TYPE_CHECKING:
    from coalesce.arrays.devices import Device
    from coalesce.cxx.signature import Parameter
    from coalesce.kernel import Kernel

_FILLS = ("zeros", "ones", "arange", "random")
# Short names of element types, besides NumPy's names.
_DTYPES = {
    f"{letter}{bits}": f"{name}{bits}"
    for letter, name, sizes in (
        ("f", "float", (16, 32, 64)),
        ("i", "int", (8, 16, 32, 64)),
        ("u", "uint", (8, 16, 32, 64)),
    )
    for bits in sizes
}


def run_file(
    console: Console,
    file: str,
    entry: str | None,
    words: Sequence[str],
    *,
    grid: tuple[int, ...],
    block: tuple[int, ...],
    shared_bytes: int = 0,
    device: str | None = None,
    options: tuple[str, ...] = (),
    limit: int | None = None,
) -> None:
    """Compile a kernel, run it, and print its arrays.

    `file`, `entry` and `words` name the kernel and its arguments (see `kernel_of`). `shared_bytes`
    is the dynamic shared memory per block. `limit` is the kernel's `instruction_limit`. On the
    simulator, also print the counts of the launch.
    On a GPU, also print the kernel's time.
    """
    from coalesce.arrays import devices

    chosen = devices.resolve(device)
    simulated = chosen.kind == "sim"
    kernel, arguments = kernel_of(file, entry, words, options, chosen, limit)
    values = [argument(text) for text in arguments]
    # Launch the kernel once to compute the result, and time it later. Timing runs the kernel many
    # times. If the kernel adds to its output, the output would be a sum over all these runs.
    once = kernel.launch(
        grid, block, *values, shared_bytes=shared_bytes, device=chosen, counts=simulated
    )
    for i, (text, value) in enumerate(zip(arguments, values, strict=True)):
        if isinstance(value, np.ndarray):
            with np.printoptions(threshold=64, edgeitems=4, linewidth=98, precision=6):
                console.print(f"argument {i} ({text})\n{value}", markup=False)
    if simulated:
        console.print(f"on {chosen.name}: {_cost(once.counts)}")
    else:
        again = kernel.launch(
            grid, block, *values, shared_bytes=shared_bytes, device=chosen, runs="auto"
        )
        console.print(f"on {chosen.name}: {milliseconds(again.kernel_ms)}, measured")


# The name of a kernel: scale, ns::scale, scale<float, 4>. No argument has this form.
_ENTRY = re.compile(r"(?!(?:nan|inf|infinity)$)[A-Za-z_]\w*(?:::\w+)*(?:<.*>)?", re.IGNORECASE)


def kernel_of(
    file: str,
    entry: str | None,
    words: Sequence[str],
    options: Sequence[str],
    device: Device | None = None,
    limit: int | None = None,
) -> tuple[Kernel, list[str]]:
    """Return a kernel of a file, and the words of the command line that describe its arguments.

    `entry` is the name of the kernel. If `entry` is None, and the first of the `words` looks like
    a name, this word is the name of the kernel, and is not returned. To convert one of the returned
    words to an argument, call `argument`.
    """
    from coalesce.kernel import Kernel

    if entry is None and words and _ENTRY.fullmatch(words[0]):
        entry, words = words[0], words[1:]
    kernel = Kernel(Path(file), entry, options=options, device=device, instruction_limit=limit)
    parameters = kernel.signature.parameters
    if len(words) != len(parameters):
        examples = [_example(parameter) for parameter in parameters]
        such_as = "" if None in examples else f", such as {' '.join(map(str, examples))}"
        raise ValueError(
            f"{kernel.signature} takes {len(parameters)} argument{'s' * (len(parameters) != 1)}; "
            f"got {len(words)}. Write them after the name of the file{such_as}"
        )
    return kernel, list(words)


def _example(parameter: Parameter) -> str | None:
    """Return a word for an argument, such as ``f32:1000``. No word describes a structure."""
    if parameter.kind == "struct" or "Object_t" in parameter.spelled:
        return None
    dtypes = map(np.dtype, (*parameter.accepted, "f4"))
    dtype = next(dtype for dtype in dtypes if dtype.kind in "fiub")
    if parameter.kind != "scalar":
        return "zeros:1000:bool" if dtype.kind == "b" else f"{dtype.kind}{8 * dtype.itemsize}:1000"
    return {"f": "2.0", "b": "1"}.get(dtype.kind, "100" if dtype.itemsize == 1 else "1000")


def argument(text: str) -> Any:
    """Return the array or the number that a word of the command line describes.

    Examples of words are ``zeros:64x64:f64``, ``f32:1024``, ``data.npy``, ``3`` and ``0.5``.
    ``f32:1024`` is short for ``random:1024:f32``.
    """
    fill, _, rest = text.partition(":")
    if fill in _DTYPES and rest:
        fill, rest = "random", f"{rest}:{fill}"
    if fill in _FILLS and rest:
        shape_text, _, dtype_text = rest.partition(":")
        try:
            shape = tuple(int(extent) for extent in shape_text.split("x"))
            if min(shape) < 0:
                raise ValueError(shape)
            dtype = np.dtype(_DTYPES.get(dtype_text, dtype_text or "float32"))
        except (ValueError, TypeError):
            raise ValueError(
                f"argument {text!r}: write an array as FILL:SHAPE, FILL:SHAPE:DTYPE or "
                "DTYPE:SHAPE, for example zeros:64x64:float64 or f32:1024"
            ) from None
        return _filled(fill, shape, dtype)
    if text.endswith(".npy"):
        return np.load(text, allow_pickle=False)
    with contextlib.suppress(ValueError):
        return int(text)
    with contextlib.suppress(ValueError):
        return float(text)
    raise ValueError(
        f"argument {text!r} is not valid; it must be a number, a .npy file, or an array such as "
        + ", ".join(f"{fill}:SHAPE" for fill in _FILLS)
        + " or f32:SHAPE"
    )


def _filled(fill: str, shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    if fill == "zeros":
        return np.zeros(shape, dtype)
    if fill == "ones":
        return np.ones(shape, dtype)
    if fill == "arange":
        return np.arange(int(np.prod(shape))).astype(dtype).reshape(shape)
    random = np.random.default_rng(2024)
    if dtype.kind in "iu":
        return random.integers(0, 100, shape).astype(dtype)
    return random.uniform(-1, 1, shape).astype(dtype)


def _cost(counts: Any) -> str:
    metrics = counts.metrics()
    parts = [f"{counts.instructions:,} warp instructions"]
    for kind, metric in (("load", "ld"), ("store", "st")):
        requests = metrics[f"l1tex__t_requests_pipe_lsu_mem_global_op_{metric}.sum"]
        sectors = metrics[f"l1tex__t_sectors_pipe_lsu_mem_global_op_{metric}.sum"]
        if requests:
            each = f"{sectors / requests:.2f} sectors per request"
            parts.append(f"{requests:,.0f} global {kind} requests, {each}")
    return "; ".join(parts)
