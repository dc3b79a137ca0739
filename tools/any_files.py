"""Makes arguments for a kernel from its signature, and launches it in a mode.

An integer is N. An array holds random values of its dtype (integers less than N, characters are
letters). The modes are `launch`, `profile`, `check` and `trace` on ``device="sim"``. The scripts
any_repositories.py and any_stored.py use this.
"""

import contextlib
import io
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypedDict

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

import numpy as np
from time_limit import TooLong, limited

import coalesce
from coalesce.compile.binaries.layouts import Array, Structure
from coalesce.launch.arguments import HostArray, prepare

# The elements of an array; the second size is used if the first is too small.
ELEMENTS = (1 << 17, 1 << 23)


class Own(TypedDict, total=False):
    """The launch of a kernel whose arguments a script cannot guess, in a JSON file.

    A value is a number, a list (the members of a structure), or a string. A string is a NumPy
    expression, for example "np.arange(100, dtype='i4')". It can use `np`, `texture` and
    `pointer` (of coalesce), and the parameters before it: by name, and in the dict `given`.
    """

    why: str
    instance: str  # the kernel with its template arguments
    files: list[str]  # other files of the repository, whose text is added
    options: list[str]
    grid: Any
    block: Any
    shared: int
    arguments: dict[str, Any]  # by the parameter's name; the others are made up
    variables: dict[str, Any]  # values of the module's variables
    size: int  # the value of made-up integers (100)
    reference: dict[str, Any]  # what a parameter ("a", "structure.a") holds after the launch
    tolerance: float  # for this reference, if its rounding differs


@dataclass(frozen=True)
class How:
    """How kernels are launched."""

    size: int  # the value of every integer argument
    elements: int  # the number of elements of each array
    seconds: float  # the seconds that a launch may take
    one: int | None = None  # the number of an argument that is 1 instead of N
    shared: int = 16384  # the bytes of dynamic shared memory, if the kernel uses any
    offset: int = 0  # the element to which pointers point
    own: Own | None = field(default=None, compare=False)


def _array(parameter: Any, size: int, random: np.random.Generator) -> np.ndarray[Any, Any]:
    dtype = np.dtype(parameter.accepted[0] if parameter.accepted else "u1")
    some = ELEMENTS[0]
    if dtype.kind in "fc":
        return random.random(some).astype(dtype)
    if dtype.kind == "b":
        return random.random(some) < 0.5
    if dtype.str == "|V2":  # bfloat16: the upper half of a float32
        return (random.random(some, np.float32).view(np.uint32) >> 16).astype("u2").view("V2")
    if dtype.str == "|i1":
        return random.integers(ord("a"), ord("z") + 1, some).astype(dtype)
    if dtype.kind in "iu":
        return random.integers(0, min(size, 100), some).astype(dtype)
    return np.zeros(some, dtype)


def _texture(kernel: coalesce.Kernel, random: np.random.Generator) -> Any:
    """Make a texture for the first fetch in the source."""
    fetch = re.search(r"\btex([123])D(fetch)?\w*\s*<\s*([\w ]+?)\s*>", kernel.module.source)
    axes, linear, kind = fetch.groups() if fetch else ("2", None, "float")
    dtype = np.dtype({"unsigned char": "u1", "uchar": "u1", "int": "i4"}.get(kind, "f4"))
    shape = (1 << 16,) if linear else (32,) * int(axes)
    return coalesce.texture(
        (random.random(shape) * 100).astype(dtype), linear_memory=linear is not None
    )


def arguments_of(kernel: coalesce.Kernel, how: How) -> list[Any]:
    """Make arguments that fit the kernel's parameters."""
    random = np.random.default_rng(1)
    made: list[Any] = []
    given = how.own.get("arguments", {}) if how.own else {}
    for parameter in kernel.signature.parameters:
        if parameter.name in given:
            known = {p.name: v for p, v in zip(kernel.signature.parameters, made, strict=False)}
            made.append(own_value(given[parameter.name], known))
            continue
        fetched = rf"\btex[123]D\w*\s*(<[^>]*>)?\s*\(\s*{parameter.name}\b"
        if "TextureObject" in parameter.spelled or (
            parameter.name and re.search(fetched, kernel.module.source)
        ):
            made.append(_texture(kernel, random))
        elif parameter.kind in ("pointer", "word"):
            array = np.resize(_array(parameter, how.size, random), how.elements)
            made.append(coalesce.pointer(array, how.offset) if how.offset else array)
        elif how.one == len(made):
            made.append(np.dtype(parameter.accepted[0]).type(1))
        elif parameter.kind == "struct" and (known := _structure(kernel, len(made))) is not None:
            made.append(_value(known, how, random))
        else:
            made.append(_value(parameter, how, random))
    return made


# The options of the textures of `own_value`, by the id of their arrays, with these arrays.
texture_options: dict[int, tuple[Any, dict[str, Any]]] = {}


def _own_texture(array: np.ndarray[Any, Any], **options: Any) -> Any:
    made = coalesce.texture(array, **options)
    texture_options[id(made.array)] = made.array, options
    return made


_TOOLS = {"np": np, "texture": _own_texture, "pointer": coalesce.pointer}


def own_value(value: Any, known: Mapping[str, Any]) -> Any:
    """Return a value of a file of arguments; `known` has the parameters before it."""
    if isinstance(value, list):
        return tuple(own_value(part, known) for part in value)
    if isinstance(value, dict):
        return {name: own_value(part, known) for name, part in value.items()}
    if not isinstance(value, str):
        return value
    return eval(
        value, {**_TOOLS, "given": known, **known}
    )  # the file belongs to the person who runs the script


def integers_of(kernel: coalesce.Kernel) -> list[int]:
    """Return the numbers of the parameters that are integers."""
    parameters = kernel.signature.parameters
    kinds = [p.accepted[0][0] if p.kind == "scalar" and p.accepted else "" for p in parameters]
    return [number for number, kind in enumerate(kinds) if kind in ("i", "u")]


def _structure(kernel: coalesce.Kernel, number: int) -> Structure | None:
    known = kernel.signature.structures()
    kind = known[number] if number < len(known) else None
    return kind if isinstance(kind, Structure) else None


def _value(kind: Any, how: How, random: np.random.Generator) -> Any:
    """Make a value of a scalar or a structure, or of a member of a structure."""
    if isinstance(kind, Structure) and kind.kind == "union":
        members = kind.members[:1]
        return {m.name: _value(m.type, how, random) for m in members}
    if isinstance(kind, Structure):
        return tuple(1 if m.bits is not None else _value(m.type, how, random) for m in kind.members)
    if isinstance(kind, Array):
        part = Array(kind.element, kind.shape[1:], kind.item_bytes)
        element = part if part.shape else kind.element
        return [_value(element, how, random) for _ in range(kind.shape[0])]
    if kind.kind == "pointer":
        return np.resize(_array(kind, how.size, random), how.elements)
    if kind.kind == "struct" or not kind.accepted:
        return np.zeros((), f"V{kind.bytes}")[()]
    dtype = np.dtype(kind.accepted[0])
    if dtype.str == "|V2":
        return np.array(0x3F00, "u2").view("V2")[()]  # 0.5 as bfloat16
    value: Any = 0.5 if dtype.kind in "fc" else min(how.size, 127)
    if dtype.kind in "iu" and dtype.itemsize > 1:
        value = how.size
    return np.zeros((), dtype)[()] if dtype.kind in "bV" else dtype.type(value)


def arrays_of(kernel: coalesce.Kernel, given: Sequence[Any]) -> list[np.ndarray[Any, Any]]:
    """Return the arrays among arguments, also those behind pointers in structures."""
    made = prepare(kernel.signature, given)
    return [a.original for a in made if isinstance(a, HostArray) and a.texture is None]


def _variables(kernel: coalesce.Kernel) -> dict[str, np.ndarray[Any, Any]]:
    return {name: np.array(kernel.globals[name]) for name in kernel.globals}


def launch(
    kernel: coalesce.Kernel,
    mode: str,
    grid: Any,
    block: Any,
    given: list[Any],
    printed: io.StringIO,
    shared: int = How.shared,
) -> Any:
    """Launch a kernel as a user would; return the result of the mode. `printed` gets its output."""
    how = {"run": kernel.launch, "profile": kernel.profile, "check": kernel.check}
    function = how.get(mode, kernel.trace)
    extra: dict[str, Any] = {"limit": 1000} if mode == "trace" else {}
    if "this_grid" in kernel.module.source:
        extra["cooperative"] = True
    own = kernel_shared(kernel, shared)
    with contextlib.redirect_stdout(printed):
        return function(grid, block, *given, shared_bytes=own, device="sim", **extra)


def kernel_shared(kernel: coalesce.Kernel, wanted: int = How.shared) -> int:
    """Return the size of the dynamic shared memory for the launch."""
    return wanted if ".extern .shared" in kernel.ptx else 0


@dataclass
class Outcome:
    """The results of one mode: arrays and variables, or the error."""

    arrays: list[np.ndarray[Any, Any]]
    error: str = ""
    returned: Any = None
    printed: str = ""


def outcome(kernel: coalesce.Kernel, mode: str, shape: tuple[Any, Any], how: How) -> Outcome:
    """Launch in a mode with new arguments; then restore the module's variables."""
    before = _variables(kernel)
    given = arguments_of(kernel, how)
    printed = io.StringIO()
    try:
        with limited(how.seconds):
            returned = launch(kernel, mode, *shape, given, printed, how.shared)
    except coalesce.CoalesceError as error:
        return Outcome([], f"{type(error).__name__}: {error}")
    except TooLong:
        return Outcome([], "too long")
    finally:
        after = _variables(kernel)
        for name, value in before.items():
            with contextlib.suppress(ValueError):  # a const variable cannot be written
                kernel.globals[name] = value
    arrays = arrays_of(kernel, given) + list(after.values())
    return Outcome(arrays, returned=returned, printed=printed.getvalue())
