"""Checks the arguments of a kernel, and converts them for a launch.

There is also a faster way in C++ (csrc/bindings/launcher.hpp). It is used if all arguments are GPU
arrays, or scalars of exactly the right types. All other calls use this module, which also writes
the error messages.
"""

from __future__ import annotations

import numbers
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from coalesce._core import sim
from coalesce.arrays import foreign, simulated_memory
from coalesce.arrays.copies import byte_view
from coalesce.arrays.gpu_array import GpuArray
from coalesce.arrays.pointer import Pointer, whole_of
from coalesce.arrays.texture import Texture
from coalesce.common import memory, require
from coalesce.common.dtypes import code_of, dtype_name, is_native
from coalesce.compile.binaries.layouts import Structure
from coalesce.cxx import numba
from coalesce.cxx.signature import Parameter, Signature
from coalesce.launch.scalars import scalar
from coalesce.launch.structures import PackedStructure, Packer, is_members
from coalesce.launch.tensor_map import BYTES, TensorMap


@dataclass
class HostArray:
    """A NumPy array that is an argument of a kernel.

    Attributes
    ----------
    name : str
        The name of the parameter.
    array : numpy.ndarray
        The array that the kernel accesses. If `original` is C-contiguous and aligned, it is
        `original` itself. Otherwise, it is a copy.
    original : numpy.ndarray
        The array that the caller passed. But if the caller passed a view such as ``x[r:]``, and the
        kernel may access the whole array `x`, `original` is `x`. See
        `coalesce.arrays.pointer.whole_of`.
    written : bool
        Whether the kernel may write to the array. If it may, and `array` is a copy, `finish` copies
        the result to `original`.
    offset : int
        The kernel gets the address of `array` plus this number of bytes.
    texture : bytes or None
        If `array` belongs to a texture or surface object, this is the description of the object.
        The kernel then gets the handle of the object instead of an address. None for other arrays.
    view_bytes : int or None
        If the caller passed a view of `array`, this is the number of bytes of the view. The view
        starts at `offset`. None if the caller passed no view of `array`.
    """

    name: str
    array: np.ndarray[Any, Any]
    original: np.ndarray[Any, Any]
    written: bool
    offset: int = 0
    texture: bytes | None = None
    view_bytes: int | None = None

    @property
    def part(self) -> slice:
        """The bytes of `array` that the caller passed.

        If the caller passed a view of `array`, these are the bytes of the view, else all bytes.
        """
        if self.view_bytes is None:
            return slice(0, self.array.nbytes)
        return slice(self.offset, self.offset + self.view_bytes)

    @property
    def passed(self) -> np.ndarray[Any, Any]:
        """What the caller passed.

        If this is a view of `array`, the result is the bytes of the view, else `original`.
        """
        return self.original if self.view_bytes is None else byte_view(self.array)[self.part]

    @property
    def copied(self) -> bool:
        """Whether `array` is a copy of the caller's array."""
        return self.array is not self.original

    @property
    def writable(self) -> bool:
        """Whether the kernel may write to the array: False if the array is read-only in NumPy."""
        return bool(self.array.flags.writeable and self.original.flags.writeable)

    @property
    def undefined(self) -> np.ndarray[Any, np.dtype[np.bool_]] | None:
        """A mask for the bytes of `array`: True for each byte that was never written.

        None if all bytes were written. Only arrays from `coalesce.empty` have a mask. When a kernel
        runs in `Kernel.check`, its stores update the mask.
        """
        return simulated_memory.undefined(self.array)

    def packed(self, undefined: np.ndarray[Any, np.dtype[np.bool_]] | None = None) -> sim.Buffer:
        """Return the array in the form that the simulator in C++ needs.

        `undefined` is None or a mask: True for each byte that was never written.
        """
        return sim.Buffer(
            self.array,
            self.name,
            self.writable,
            undefined,
            self.offset,
            self.texture,
            self.view_bytes,
        )

    def finish(self, watched: bool = False) -> None:
        """After the launch: if `array` is a copy, write it back to the caller's array.

        `watched` says whether the launch recorded which bytes the kernel wrote. If it did not, all
        bytes of the array count as written.
        """
        if self.copied and self.written:
            self.original[...] = self.array
        if self.written and not watched:
            simulated_memory.define(self.original)


Argument = bytes | HostArray | GpuArray | TensorMap | PackedStructure


def prepare(signature: Signature, arguments: Sequence[Any]) -> list[Argument]:
    """Check the arguments of a launch, and convert them. For example, scalars become bytes.

    The result is a list with an item for each argument. If an argument is a structure with
    pointers, the arrays behind its pointers are added at the end of the list. `parameters_for`
    returns the parameters that belong to the items of the list.

    If the number of arguments or a type is wrong, a TypeError is raised. If a value or a layout is
    wrong, a ValueError is raised. The module `scalars` says which scalars are converted.
    """
    values = expanded(signature, arguments)
    result: list[Argument] = []
    behind: list[Argument] = []  # the arrays that members of structures point to
    for number, (parameter, value) in enumerate(zip(signature.parameters, values, strict=True)):
        if _is_structure(parameter, value):
            first = len(signature.parameters) + len(behind)
            packed, arrays = _members(signature, number, value, first)
            result.append(packed)
            behind += arrays
        else:
            _check_elements(signature, number, value)
            result.append(_one(parameter, value))
    result += behind
    _share_copies([a for a in result if isinstance(a, HostArray)])
    return result


def parameters_for(signature: Signature, arguments: Sequence[Argument]) -> list[Parameter]:
    """Return the parameter of each item of `arguments`, in the same order.

    `arguments` is a list that `prepare` returned.
    """
    behind = [p for a in arguments if isinstance(a, PackedStructure) for p in a.parameters]
    return [*signature.parameters, *behind]


def names(signature: Signature, arguments: Sequence[Any]) -> list[str]:
    """Return names of the arguments for error messages, such as "argument `x` (float *)".

    If there are more or fewer arguments than parameters, the names are "argument 1" and so on.
    """
    parameters: Sequence[Any] = signature.parameters
    if len(parameters) != len(arguments):
        return [f"argument {number}" for number in range(1, len(arguments) + 1)]
    return [f"argument {parameter}" for parameter in parameters]


def expanded(signature: Signature, arguments: Sequence[Any]) -> Sequence[Any]:
    """Return the values of all PTX parameters of a kernel, in order.

    For most kernels, these values are the `arguments`. But a kernel that Numba compiled has several
    PTX parameters for each array. Raises TypeError if the number of arguments is wrong.
    """
    if signature.numba is not None and len(arguments) == len(signature.parameters):
        return arguments  # the caller passed a value for each parameter
    wanted = len(signature.parameters if signature.numba is None else signature.numba)
    if len(arguments) != wanted:
        raise TypeError(
            f"{signature} takes {wanted} argument{'s' * (wanted != 1)}; got {len(arguments)}"
        )
    if signature.numba is None:
        return arguments
    return numba.flattened(signature.numba, arguments)


def _one(parameter: Parameter, value: Any) -> Argument:
    if isinstance(value, Texture):
        return _texture(parameter, value)
    if "cudaTextureObject_t" in parameter.spelled or "cudaSurfaceObject_t" in parameter.spelled:
        _refuse_arrays(parameter, value)
    if parameter.reference:
        raise TypeError(
            f"`{parameter.name}` is a C++ reference, which a kernel cannot take as a parameter: it "
            f"would be an address of the host. Declare `{parameter.name}` by value, or as a pointer"
        )
    if parameter.kind in ("pointer", "word"):
        if isinstance(value, np.ndarray):
            return _extended_to_base(_host_array(parameter, value))
        if isinstance(value, Pointer):
            host = _host_array(parameter, value.array)
            host.offset = value.offset * host.array.itemsize
            return host
        on_gpu = _find_gpu_array(parameter, value)
        if on_gpu is not None:
            return _gpu_array(parameter, on_gpu)
        if value is None:
            return bytes(8)
        view = foreign.find_host_array(value, f"argument {parameter}")
        if view is not None:
            return _host_array(parameter, view)
        if parameter.kind == "pointer":
            raise _no_array(parameter, value)
    else:
        array = value if isinstance(value, np.ndarray) else _find_gpu_array(parameter, value)
        if array is not None:
            kind = "NumPy" if isinstance(value, np.ndarray) else "GPU"
            advice = "; pass its element: x.item()" if tuple(array.shape) in ((), (1,)) else ""
            raise TypeError(
                f"argument {parameter} must be a scalar of {parameter.bytes} bytes; got a {kind} "
                f"array of shape {tuple(array.shape)}{advice}"
            )
    if parameter.kind == "struct":
        return _structure(parameter, value)
    return scalar(parameter, value)


def _texture(parameter: Parameter, value: Texture) -> HostArray:
    kind = "surface" if value.is_surface else "texture"
    if parameter.bytes != 8 or parameter.kind not in ("word", "scalar"):
        raise TypeError(
            f"argument {parameter} needs the NumPy array itself; got {value!r}. Only a parameter "
            f"of type cuda{kind.capitalize()}Object_t accepts a {kind} object"
        )
    wrong = "cudaTextureObject_t" if value.is_surface else "cudaSurfaceObject_t"
    if wrong in parameter.spelled:
        other = "texture" if value.is_surface else "surface"
        raise TypeError(f"argument {parameter} needs coalesce.{other}(array); got {value!r}")
    array = value.array
    return HostArray(parameter.name, array, array, value.is_surface, 0, value._described)


def _refuse_arrays(parameter: Parameter, value: Any) -> None:
    if (
        isinstance(value, np.ndarray)
        or foreign.find_gpu_array(value, f"argument {parameter}") is not None
    ):
        make = "surface" if "Surface" in parameter.spelled else "texture"
        if "*" in parameter.spelled:
            raise TypeError(
                f"argument {parameter} is an array of {make} objects, which coalesce cannot pass. "
                f"Give the kernel a parameter for each {make} object"
            )
        raise TypeError(
            f"argument {parameter} needs a {make} object; got an array. Pass "
            f"coalesce.{make}({parameter.name})"
        )


def _find_gpu_array(parameter: Parameter, value: Any) -> GpuArray | None:
    return foreign.find_gpu_array(value, f"argument {parameter}")


def _no_array(parameter: Parameter, value: Any) -> TypeError:
    wanted = _wanted_array(parameter)
    advice = ""
    if isinstance(value, list | tuple):
        dtype = dtype_name(parameter.accepted[0]) if parameter.accepted else "float32"
        advice = f"; make one: numpy.array({parameter.name}, dtype=numpy.{dtype})"
    elif isinstance(value, numbers.Number | np.generic):
        advice = "; for a single value make an array of one element"
    return TypeError(f"argument {parameter} needs {wanted}; got {require.shown(value)}{advice}")


def _how_to_convert(parameter: Parameter, dtype: np.dtype[Any]) -> str:
    """Return advice for an array whose dtype does not fit the parameter."""
    name, wanted = parameter.name, dtype_name(parameter.accepted[0])
    if parameter.spelled.count("*") > 1:
        return (
            "Its elements must be addresses. For a matrix, declare the parameter with one *, and "
            "write matrix[row * columns + column] in the kernel"
        )
    # NumPy has no bfloat16; the package that adds it is ml_dtypes.
    home = "ml_dtypes" if wanted == "bfloat16" else "numpy"
    if dtype.names:
        return f"Pass one of its members: numpy.ascontiguousarray({name}[{dtype.names[0]!r}])"
    if dtype.kind == "V":  # bytes without a type
        return f"If its bytes are such elements, pass {name}.view({home}.{wanted})"
    advice = f"Convert it: {name}.astype({home}.{wanted})"
    if parameter.item_bytes == 1:
        advice += f". If the kernel needs the bytes of the array, pass {name}.view({home}.{wanted})"
    return advice


def _wanted_array(parameter: Parameter) -> str:
    if not parameter.accepted:
        return "an array"
    return f"an array of {' or '.join(dtype_name(code) for code in parameter.accepted)}"


def _extended_to_base(host: HostArray) -> HostArray:
    """If the array is a view, let the kernel access all of its base array."""
    if host.copied or simulated_memory.memory_of(host.original) is not None:
        return host  # in simulated memory, a view can access the whole device array anyway
    found = whole_of(host.original)
    if found is None:
        return host
    whole, offset = found
    return replace(
        host, array=whole, original=whole, offset=offset, view_bytes=host.original.nbytes
    )


def _host_array(parameter: Parameter, passed: np.ndarray[Any, Any]) -> HostArray:
    dtype = passed.dtype
    if dtype.hasobject or dtype.kind in "USMm":
        raise TypeError(
            f"argument {parameter} has dtype {dtype}, which a kernel cannot read; "
            f"it needs {_wanted_array(parameter)}"
        )
    if not is_native(dtype):
        raise TypeError(
            f"argument {parameter} has dtype {dtype}, which does not have this machine's byte "
            f"order; convert it: {parameter.name}.astype({parameter.name}.dtype.newbyteorder('='))"
        )
    code = code_of(dtype)
    fits = parameter.kind == "word" or not parameter.accepted or code in parameter.accepted
    if not fits and dtype.kind == "V" and code != "V2":
        # A structure of NumPy may be passed for a vector such as float4.
        fits = dtype.itemsize == parameter.item_bytes and all(
            code in parameter.accepted for code in _codes_in(dtype)
        )
    if not fits:
        raise TypeError(
            f"argument {parameter} needs {_wanted_array(parameter)}; got dtype {dtype}. "
            f"{_how_to_convert(parameter, dtype)}"
        )
    if type(passed) is not np.ndarray:
        if isinstance(passed, np.ma.MaskedArray):
            raise TypeError(
                f"argument {parameter} is a masked array; fill it first: {parameter.name}.filled(0)"
            )
        passed = passed.view(np.ndarray)
    if parameter.kind == "pointer" and parameter.spelled and not parameter.const:
        _check_writeable(parameter, passed)
    written = not parameter.const and passed.flags.writeable
    if written and memory.elements_overlap(passed):
        raise ValueError(
            f"argument {parameter} is an array whose elements share memory (strides "
            f"{passed.strides}), but the kernel may write to it. Pass a copy: "
            f"{parameter.name}.copy()"
        )
    array = passed
    if not passed.flags.c_contiguous or not passed.flags.aligned:
        array = memory.in_c_order(f"argument {parameter}", passed)
    return HostArray(parameter.name, array, passed, written)


def _codes_in(dtype: np.dtype[Any]) -> set[str]:
    """Return the codes of the numbers in a structure. The numbers of arrays in it count, too."""
    if dtype.subdtype is not None:
        return _codes_in(dtype.subdtype[0])
    if dtype.names is not None and dtype.fields is not None:
        return {code for name in dtype.names for code in _codes_in(dtype.fields[name][0])}
    return {code_of(dtype)}


def _check_writeable(parameter: Parameter, array: np.ndarray[Any, Any]) -> None:
    if array.flags.writeable:
        return
    why = "a read-only array"
    if 0 in array.strides and array.size > 1:
        why = f"a broadcast array (strides {array.strides}), whose elements share memory"
    constant = parameter.spelled.replace(" *", "").strip()
    raise ValueError(
        f"argument {parameter} is {why}, but the kernel may write to it. If the kernel only "
        f"reads it, declare the parameter as `const {constant} *{parameter.name}`. Otherwise "
        f"pass a copy: {parameter.name}.copy()"
    )


def _gpu_array(parameter: Parameter, array: GpuArray) -> GpuArray:
    if parameter.accepted and parameter.kind == "pointer" and array.code not in parameter.accepted:
        raise TypeError(
            f"argument {parameter} needs {_wanted_array(parameter)}; "
            f"got a GPU array of {dtype_name(array.code)}"
        )
    if not array.contiguous:
        raise ValueError(
            f"argument {parameter} is a GPU array of shape {array.shape} that is not C-contiguous; "
            "copy it first, for example with cupy.ascontiguousarray or tensor.contiguous()"
        )
    if array.read_only and not parameter.const and parameter.spelled:
        raise ValueError(
            f"argument {parameter} is a read-only GPU array, but the kernel may write to it; pass "
            "a copy, or declare the parameter as a pointer to const"
        )
    return array


def _share_copies(arrays: Sequence[HostArray]) -> None:
    """Make arguments that share memory share it in the kernel, too.

    A contiguous array is passed itself, so nothing needs to be done. Any other array is copied. If
    the caller passed the same array twice, both arguments get the same copy. If two different
    arrays overlap, and one of them would be copied, the copies could not share memory. Then
    ValueError is raised, unless the kernel only reads both.
    """
    copies: dict[Any, HostArray] = {}
    for item in (a for a in arrays if a.copied):
        original = item.original
        place = original.__array_interface__["data"][0]
        first = copies.setdefault(
            (place, original.shape, original.strides, original.dtype.str), item
        )
        if first is not item:
            item.array = first.array
            first.written |= item.written
            item.written = False
    for item in arrays:
        if not item.copied:
            continue
        for other in arrays:
            if other.array is item.array or not (item.written or other.written):
                continue
            if _overlap(item.original, other.passed):
                raise ValueError(
                    f"arguments `{item.name}` and `{other.name}` share memory, and "
                    f"`{item.name}` is not C-contiguous (strides {item.original.strides}). The "
                    f"kernel would get a copy of `{item.name}`, and the copy would not share "
                    f"memory with `{other.name}`. Pass C-contiguous arrays"
                )


def _overlap(a: np.ndarray[Any, Any], b: np.ndarray[Any, Any]) -> bool:
    if not np.may_share_memory(a, b):
        return False
    budget: Any = 100_000
    try:
        return np.shares_memory(a, b, max_work=budget)
    except RuntimeError:  # numpy.exceptions.TooHardError: too many strides to be sure
        return True


def _is_structure(parameter: Parameter, value: Any) -> bool:
    """Return whether a value is a structure whose members must be packed one by one."""
    if isinstance(value, np.ndarray | np.void) and value.shape == () and value.dtype.names:
        return parameter.kind == "struct"
    return parameter.kind in ("struct", "scalar") and is_members(value)


def _members(
    signature: Signature, number: int, value: Any, first: int
) -> tuple[bytes | PackedStructure, list[Argument]]:
    """Pack the structure for parameter `number`. Return its bytes, and the arrays it points to.

    The first of these arrays will be the argument with the number `first`.
    """
    parameter = signature.parameters[number]
    known = signature.structures()
    structure = known[number] if number < len(known) else None
    if not isinstance(structure, Structure) or structure.bytes != parameter.bytes:
        if parameter.kind != "struct":
            return scalar(parameter, value), []
        if isinstance(value, np.ndarray | np.void) and value.dtype.itemsize == parameter.bytes:
            return value.tobytes(), []  # the members are not known, as for PTX
        raise TypeError(
            f"argument {parameter} is a structure of {parameter.bytes} bytes whose members are not "
            f"known; pass a NumPy structured scalar or bytes; got {require.shown(value)}"
        )
    packer = Packer(_one)
    packed = packer.pack(parameter, structure, value)
    if not packer.pointers:
        return packed, []
    pointers = tuple((offset, first + n) for n, (offset, _, _) in enumerate(packer.pointers))
    behind = tuple(p for _, p, _ in packer.pointers)
    return PackedStructure(packed, pointers, behind), [array for _, _, array in packer.pointers]


def _check_elements(signature: Signature, number: int, value: Any) -> None:
    """Check that the elements of a structured array are as large as the structure in C++."""
    parameter = signature.parameters[number]
    structured = isinstance(value, np.ndarray) and value.dtype.names is not None
    if not structured or parameter.kind != "pointer" or parameter.accepted:
        return
    known = signature.structures()
    pointer = known[number] if number < len(known) else None
    size = pointer.item_bytes if isinstance(pointer, Parameter) else 0
    if size and value.dtype.itemsize != size:
        raise TypeError(
            f"argument {parameter} needs elements of {size} bytes; an element of the array has "
            f"{value.dtype.itemsize} bytes. Make the dtype with numpy.dtype(members, align=True), "
            "with members of the same sizes as in C++, such as numpy.int32 for int"
        )


def _structure(parameter: Parameter, value: Any) -> bytes | TensorMap:
    if isinstance(value, TensorMap) and parameter.bytes == BYTES:
        return value
    if isinstance(value, bytes | bytearray | memoryview):
        packed = bytes(value)
    elif isinstance(value, np.generic):
        packed = value.tobytes()
    else:
        raise TypeError(
            f"argument {parameter} must be a structure of {parameter.bytes} bytes; pass one of "
            "these: a tuple of its members, a dict of its members, a NumPy structured scalar, "
            f"or bytes; got {require.shown(value)}"
        )
    if len(packed) != parameter.bytes:
        raise TypeError(
            f"argument {parameter} must be a structure of {parameter.bytes} bytes; got an object "
            f"of type {type(value).__name__} with {len(packed)} bytes"
        )
    return packed
