"""Makes texture and surface objects from NumPy arrays, to pass to kernels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from coalesce._core import sim
from coalesce.common import require

Address = Literal["wrap", "clamp", "mirror", "border"]
_MODES = ("wrap", "clamp", "mirror", "border")  # in the order of cudaTextureAddressMode
_DTYPES = ("int8", "int16", "int32", "uint8", "uint16", "uint32", "float16", "float32")


@dataclass(frozen=True, eq=False)
class Texture:
    """A texture or surface object, to pass to a kernel: the result of `texture` or `surface`.

    Attributes
    ----------
    array : numpy.ndarray
        The array that the kernel reads. With a surface, the kernel can also write to the array.
        For a mipmapped texture, the array has the texels (elements) of all levels.
    is_surface : bool
        True for a surface (a parameter of type ``cudaSurfaceObject_t``), False for a texture
        (``cudaTextureObject_t``).

    Examples
    --------
    >>> coalesce.texture(a)
    <texture of shape (8, 8), float32>
    """

    array: np.ndarray[Any, Any]
    is_surface: bool
    # The description of the object, for an array at address 0. The simulator uses the description
    # itself. For a launch on a GPU, the driver makes its own object from it.
    _described: bytes

    def __repr__(self) -> str:
        kind = "surface" if self.is_surface else "texture"
        return f"<{kind} of shape {self.array.shape}, {self.array.dtype}>"


def texture(
    array: np.ndarray[Any, Any],
    *,
    filter: Literal["point", "linear"] = "point",  # noqa: A002
    address: Address | Sequence[Address] = "clamp",
    normalized: bool = False,
    read: Literal["element", "normalized"] = "element",
    border: float | Sequence[float] = 0.0,
    channels: Literal[1, 2, 4] = 1,
    layered: bool = False,
    cube: bool = False,
    linear_memory: bool = False,
    levels: Sequence[np.ndarray[Any, Any]] = (),
    level_filter: Literal["point", "linear"] = "point",
    level_bias: float = 0.0,
) -> Texture:
    """Return a texture object of an array, for a parameter of type ``cudaTextureObject_t``.

    The elements of a texture are called texels. A kernel reads a texture by a fetch, such as
    ``tex2D<float>(t, x, y)``. The page "Textures and surfaces" of the documentation explains how a
    fetch computes its result. If you change the array before a launch, the kernel reads the new
    values.

    Parameters
    ----------
    array : numpy.ndarray
        The texels, C-contiguous. The dtype is float16, float32, or an integer of 8, 16 or 32 bits.
        The last axis is x. For ``tex2D``, the shape is (height, width). For ``tex3D``, it is
        (depth, height, width).
    filter : {"point", "linear"}
        ``"point"``: a fetch returns the nearest texel. ``"linear"``: it returns a weighted mean of
        the texels around the coordinate. ``"linear"`` needs texels that are read as floats.
    address : str or sequence of str
        What a fetch outside the array returns. Pass one mode for all axes, or a sequence with a
        mode for each of x, y and z. ``"clamp"``: the texel at the edge. ``"border"``: the value
        `border`. ``"wrap"``: the array repeats. ``"mirror"``: the array repeats, and every second
        copy is mirrored. Without `normalized`, ``"wrap"`` and ``"mirror"`` mean ``"clamp"``, as in
        CUDA.
    normalized : bool
        True: coordinates run from 0 to 1. False: they run from 0 to the number of texels.
    read : {"element", "normalized"}
        ``"element"``: a fetch returns the values of the array. ``"normalized"``: it converts
        integers of 8 or 16 bits to floats. Unsigned integers become numbers from 0 to 1, and signed
        integers become numbers from -1 to 1.
    border : float or sequence of float
        With ``address="border"``: the value outside the array, or a sequence with a value for each
        channel. If texels are read as integers, `border` must be an integer in the range of their
        dtype. With ``read="normalized"``, `border` is limited to [0, 1] for unsigned texels, and to
        [-1, 1] for signed texels. After that, it is rounded to a value that a texel of this dtype
        can have.
    channels : {1, 2, 4}
        The number of channels of a texel, such as 4 for red, green, blue and alpha. If it is 2 or
        4, the array has one more axis at the end: for ``tex2D<float4>``, the shape is
        (height, width, 4).
    layered : bool
        Whether the first axis of the array is the layer (for ``tex1DLayered`` and
        ``tex2DLayered``).
    cube : bool
        Whether the array is a cube map (for ``texCubemap``): six square faces, of shape
        (6, size, size). With `layered`, the first axis has 6 faces for each layer.
    linear_memory : bool
        True for a texture that kernels read with ``tex1Dfetch``. (CUDA calls the memory of such a
        texture linear.) The shape is (n,). With 2 or 4 `channels`, it is (n, channels).
    levels : sequence of numpy.ndarray
        For a mipmapped texture: the smaller levels after `array`, in order. Each extent is half the
        extent of the level before, rounded down, and at least 1. This function copies all levels.
        Mipmapped textures need `normalized`.
    level_filter : {"point", "linear"}
        For a mipmapped texture. ``"point"``: a fetch reads the nearest level. ``"linear"``: it
        returns a weighted mean of two levels.
    level_bias : float
        For a mipmapped texture: a number that is added to the level of each fetch.

    Returns
    -------
    Texture
        The argument for the kernel.

    Raises
    ------
    TypeError
        `array` is not a NumPy array, or textures do not support its dtype.
    ValueError
        The array has the wrong shape, or two options contradict each other. The message names them.

    Examples
    --------
    >>> import numpy as np
    >>> import coalesce
    >>> middle = coalesce.Kernel(
    ...     '''__global__ void middle(cudaTextureObject_t t, float *y) {
    ...         y[threadIdx.x] = tex2D<float>(t, threadIdx.x + 1.0f, 0.5f);
    ...     }''', device="sim")
    >>> x, y = np.float32([[0, 10, 20, 30]]), np.zeros(3, np.float32)
    >>> middle[1, 3](coalesce.texture(x, filter="linear"), y)
    >>> y.tolist()
    [5.0, 15.0, 25.0]
    """
    require.choice("filter", filter, ("point", "linear"))
    require.choice("read", read, ("element", "normalized"))
    require.choice("level_filter", level_filter, ("point", "linear"))
    require.flag("normalized", normalized)
    bias = require.number("level_bias", level_bias)
    kinds = channels, layered, cube, linear_memory
    extent, layers = _extents(array, *kinds)
    if levels:
        if linear_memory:
            raise ValueError(
                "`levels` and linear_memory=True cannot be combined: a texture in linear memory "
                "has no smaller levels"
            )
        for number, level in enumerate(levels, 1):
            wanted = tuple(max(n >> number, 1) for n in extent)
            if _extents(level, *kinds) != (wanted, layers) or level.dtype != array.dtype:
                raise ValueError(
                    f"level {number} has shape {level.shape} and dtype {level.dtype}. The array "
                    f"has shape {array.shape} and dtype {array.dtype}, so this level must have "
                    f"{' x '.join(map(str, wanted[::-1]))} texels of dtype {array.dtype}"
                )
        array = np.concatenate([level.ravel() for level in (array, *levels)])
    floats = array.dtype.kind == "f"
    if read == "normalized" and (floats or array.dtype.itemsize == 4):
        raise ValueError(
            f'read="normalized" needs integers of 8 or 16 bits; the array has dtype {array.dtype}'
        )
    if filter == "linear" and not floats and read != "normalized":
        raise ValueError(
            f'filter="linear" needs texels that are read as floats; the array has dtype '
            f'{array.dtype}. Pass floats, or read="normalized" for integers of 8 or 16 bits'
        )
    colors = _border(border, channels)
    if not floats and read == "element":
        colors = [_integer_border(color, array.dtype) for color in colors]
    return Texture(
        array,
        False,
        _described(
            array,
            extent,
            layers,
            (layered, cube, linear_memory),
            channels,
            # The coordinates on the faces of a cube map are always normalized, and clamped.
            modes=_modes("clamp" if cube else address),
            linear_filter=filter == "linear",
            normalized_coordinates=bool(normalized or cube),
            normalized_read=read == "normalized",
            border=[*colors, 0.0, 0.0, 0.0][:4],
            levels=1 + len(levels),
            linear_between_levels=level_filter == "linear",
            level_bias=bias,
        ),
    )


def surface(
    array: np.ndarray[Any, Any],
    *,
    channels: Literal[1, 2, 4] = 1,
    layered: bool = False,
    cube: bool = False,
) -> Texture:
    """Return a surface object of an array, for a parameter of type ``cudaSurfaceObject_t``.

    A kernel can read and write a surface. In the functions for surfaces, the coordinate x is in
    bytes: ``surf2Dwrite(value, s, x * sizeof(float), y)``.

    Parameters
    ----------
    array : numpy.ndarray
        The elements. The array is C-contiguous and writable, and has one of the dtypes that
        `texture` accepts. The last axis is x.
    channels, layered, cube
        The same as for `texture`. For a cube map, the functions for surfaces take the number of the
        face, from 0 to 5, instead of a direction.

    Returns
    -------
    Texture
        The argument for the kernel.

    Raises
    ------
    TypeError
        `array` is not a NumPy array, or surfaces do not support its dtype.
    ValueError
        The array has the wrong shape, or it is read-only.

    Examples
    --------
    >>> import numpy as np
    >>> import coalesce
    >>> fill = coalesce.Kernel(
    ...     '''__global__ void fill(cudaSurfaceObject_t s) {
    ...         surf2Dwrite(float(threadIdx.x), s, threadIdx.x * 4, 0);
    ...     }''', device="sim")
    >>> y = np.zeros((1, 4), np.float32)
    >>> fill[1, 4](coalesce.surface(y))
    >>> y.tolist()
    [[0.0, 1.0, 2.0, 3.0]]
    """
    extent, layers = _extents(array, channels, layered, cube, False)
    if not array.flags.writeable:
        raise ValueError("the array is read-only, but a kernel may write to a surface; pass a copy")
    kind = (layered, cube, False)
    return Texture(array, True, _described(array, extent, layers, kind, channels, surface=True))


def _described(
    array: np.ndarray[Any, Any],
    extent: Sequence[int],
    layers: int,
    kind: tuple[bool, bool, bool],
    channels: int,
    surface: bool = False,
    modes: Sequence[int] = (1, 1, 1),
    linear_filter: bool = False,
    normalized_coordinates: bool = False,
    normalized_read: bool = False,
    border: Sequence[float] = (0, 0, 0, 0),
    levels: int = 1,
    linear_between_levels: bool = False,
    level_bias: float = 0.0,
) -> bytes:
    layered, cube, linear_memory = kind
    return sim.texture_object(
        extent=[*extent, 1, 1, 1][:3],
        dimensions=len(extent),
        layers=layers,
        layered=layered,
        cube=cube,
        linear_memory=linear_memory,
        surface=surface,
        kind=array.dtype.kind,
        channels=channels,
        bits=8 * array.dtype.itemsize,
        modes=modes,
        linear_filter=linear_filter,
        normalized_coordinates=normalized_coordinates,
        normalized_read=normalized_read,
        border=border,
        levels=levels,
        linear_between_levels=linear_between_levels,
        level_bias=level_bias,
    )


def _extents(
    array: np.ndarray[Any, Any], channels: int, layered: bool, cube: bool, linear_memory: bool
) -> tuple[tuple[int, ...], int]:
    """Return the extents of a layer, x first (one to three numbers), and the number of layers."""
    if not isinstance(array, np.ndarray):
        raise TypeError(f"`array` must be a NumPy array; got {require.shown(array)}")
    if array.dtype.name not in _DTYPES or not array.dtype.isnative:
        raise TypeError(
            f"the array has dtype {array.dtype}; textures and surfaces can have the dtypes "
            f"{', '.join(_DTYPES)}"
        )
    if not array.flags.c_contiguous:
        raise ValueError(
            f"the array is not C-contiguous (strides {array.strides}); pass "
            "numpy.ascontiguousarray(array)"
        )
    if array.size == 0:
        raise ValueError(f"the array must not be empty; got shape {array.shape}")
    if require.integer("channels", channels) not in (1, 2, 4):
        raise ValueError(f"`channels` must be 1, 2 or 4; got {channels}")
    for name, value in (("layered", layered), ("cube", cube), ("linear_memory", linear_memory)):
        require.flag(name, value)
    if linear_memory and (layered or cube):
        raise ValueError(
            "a texture with linear_memory=True has one axis; `layered` and `cube` must be False"
        )
    shape = array.shape
    if channels > 1:
        if shape[-1] != channels:
            raise ValueError(
                f"with channels={channels}, the last axis of the array must have length "
                f"{channels}; the array has shape {shape}"
            )
        shape = shape[:-1]
    layers = 1
    if layered or cube:
        layers, shape = (shape[0], shape[1:]) if shape else (0, ())
    if cube and (layers % 6 or (layers != 6 and not layered)):
        wanted = "a multiple of 6: 6 faces for each layer" if layered else "6, for its 6 faces"
        raise ValueError(
            f"the first axis of a cube map must have length {wanted}; the array has shape "
            f"{array.shape}"
        )
    axes = (2, 2) if cube else (1, 1) if linear_memory else (1, 2) if layered else (1, 3)
    if not axes[0] <= len(shape) <= axes[1] or (cube and shape[0] != shape[1]):
        wanted = (
            "square faces"
            if cube
            else "one axis"
            if linear_memory
            else f"{axes[0]} to {axes[1]} axes in each layer"
            if layered
            else "1 to 3 axes"
        )
        raise ValueError(
            f"the array must have {wanted}"
            + (f", and one more axis for the {channels} channels" if channels > 1 else "")
            + f"; it has shape {array.shape}"
        )
    return shape[::-1], layers


def _border(border: float | Sequence[float], channels: int) -> list[float]:
    """Return the color of the border: a number for each channel, or four numbers."""
    if not np.iterable(border):
        return [require.number("border", border)] * 4
    colors = [require.number("border", color) for color in require.several("border", border)]
    if len(colors) not in (channels, 4):
        raise ValueError(
            f"`border` must be one number, or a number for each of the {channels} channels; got "
            f"{len(colors)} numbers"
        )
    return colors


def _integer_border(color: float, dtype: np.dtype[Any]) -> float:
    """Return the border for integer texels: a float32 that has the same 32 bits as the integer."""
    limits = np.iinfo(dtype)
    if not (color.is_integer() and limits.min <= color <= limits.max):
        raise ValueError(
            f"`border` must be an integer from {limits.min} to {limits.max}, because the texels "
            f"have dtype {dtype}; got {color:.16g}"
        )
    bits = np.array(int(color) & 0xFFFFFFFF, np.uint32)
    value = float(bits.view(np.float32))
    if np.float32(value).view(np.uint32) != bits:
        raise ValueError(
            f"`border` is {int(color)}, which CUDA cannot use: its bits, read as a float32, are a "
            "signaling NaN, and CUDA changes such bits. Choose another value"
        )
    return value


def _modes(address: Address | Sequence[Address]) -> tuple[int, int, int]:
    modes = [address] * 3 if isinstance(address, str) else [*address]
    for mode in modes:
        require.choice("address", mode, _MODES)
    if not 1 <= len(modes) <= 3:
        raise ValueError(
            '`address` must be one mode, such as "clamp", or a sequence with a mode for '
            f"each axis (x, y, z); got {len(modes)} modes"
        )
    x, y, z = (_MODES.index(mode) for mode in [*modes, modes[-1], modes[-1]][:3])
    return x, y, z
