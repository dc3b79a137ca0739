"""Makes the texture and surface objects for a launch on a GPU.

The NumPy arrays are copied to ordinary (linear) memory on the GPU first (launch/gpu.py). From
there, the texels are copied to CUDA arrays, the memory of textures (csrc/cuda/texture.hpp). After
the launch, the objects and the CUDA arrays are destroyed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from coalesce._core import cuda
from coalesce.launch.arguments import HostArray

# The GPU and the objects of each launch that Ctrl-C interrupted. The kernel may still use them.
_in_use: list[tuple[Any, list[Any]]] = []


class TextureObjects:
    """The texture and surface objects for the arguments of one launch.

    Parameters
    ----------
    gpu : coalesce._core.cuda.Device
        The GPU.
    groups : sequence of list of HostArray
        The arrays of the launch. Arrays that share memory are in the same list.
    address : function
        A function that takes a `HostArray` and returns its address in the ordinary (linear) memory
        of the GPU.
    """

    def __init__(
        self, gpu: Any, groups: Sequence[list[HostArray]], address: Callable[[HostArray], int]
    ) -> None:
        self._gpu, self._groups, self._address = gpu, groups, address
        self._objects: dict[int, Any] = {}
        self._surfaces: list[Any] = []

    def finish(self, kind: type[BaseException] | None) -> None:
        """Destroy the objects and their CUDA arrays.

        `kind` is the class of the exception that ended the launch, or None. After Ctrl-C, the
        kernel may still run and use the objects. In this case, a later launch destroys the
        objects, after the kernel has ended.
        """
        if kind is not None and issubclass(kind, KeyboardInterrupt) and self._objects:
            _in_use.append((self._gpu, list(self._objects.values())))
            return
        for made in self._objects.values():
            made.destroy()
        _destroy_unused()

    def create(self, stream: int) -> None:
        """Create the objects, and copy the texels from linear memory to the CUDA arrays.

        The copies run on `stream`.
        """
        for group in self._groups:
            for host in group:
                if host.texture is None:
                    continue
                _destroy_unused()
                made = cuda.Texture(
                    self._gpu.ordinal, host.texture, self._address(host), f"argument `{host.name}`"
                )
                self._objects[id(host)] = made
                if made.in_array:
                    _check_alone(host, group)
                    made.fill(stream)
                if host.written:
                    self._surfaces.append(made)

    def handle(self, host: HostArray) -> int:
        """Return the handle of the texture or surface object for the argument `host`.

        The kernel gets this handle.
        """
        handle: int = self._objects[id(host)].handle
        return handle

    def read_back(self, stream: int) -> None:
        """Copy the elements of the surfaces back to linear memory. The copies run on `stream`."""
        for made in self._surfaces:
            made.read_back(stream)


def _check_alone(host: HostArray, group: Sequence[HostArray]) -> None:
    """Raise ValueError if the texture's array shares memory that the kernel may write to.

    On a GPU, the texels are in a CUDA array, which is a copy. So a write through one argument would
    not change what the other argument reads. On the simulator it would.
    """
    others = [a for a in group if a is not host and np.may_share_memory(a.passed, host.array)]
    if not others or not any(a.written for a in (host, *others)):
        return
    other = others[0]
    kind = "surface" if host.written else "texture"
    raise ValueError(
        f"argument `{host.name}` is a {kind} whose array shares memory with argument "
        f"`{other.name}`, and the kernel may write to this memory. On a GPU, the elements of a "
        f"{kind} are copied to a CUDA array, so the two arguments would not share memory. Pass a "
        "copy of the array: array.copy()"
    )


def _destroy_unused() -> None:
    """Destroy the objects of interrupted launches whose kernels have ended."""
    for launch in list(_in_use):
        gpu, objects = launch
        if gpu.finishes_within(0):
            _in_use.remove(launch)
            for made in objects:
                made.destroy()
