"""The texture and surface objects of a launch on a GPU.

The arrays of a launch are first copied to linear memory on the GPU (launch/gpu.py). From there, the
texels are copied to CUDA arrays (csrc/cuda/texture.hpp). After the launch, everything is destroyed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from coalesce._core import cuda
from coalesce.launch.arguments import HostArray

# The GPU and the objects of each launch that Ctrl-C interrupted. Its kernel may still use them.
_in_use: list[tuple[Any, list[Any]]] = []


class TextureObjects:
    """The objects for the texture and surface arguments of one launch.

    Parameters
    ----------
    gpu : coalesce._core.cuda.Device
        The GPU.
    groups : sequence of list of HostArray
        The arrays of the launch. Arrays that share memory are in one list.
    address : function
        Returns the address of an array's linear memory on the GPU.
    """

    def __init__(
        self, gpu: Any, groups: Sequence[list[HostArray]], address: Callable[[HostArray], int]
    ) -> None:
        self._gpu, self._groups, self._address = gpu, groups, address
        self._objects: dict[int, Any] = {}
        self._surfaces: list[Any] = []

    def finish(self, kind: type[BaseException] | None) -> None:
        """Destroy the objects and their CUDA arrays. `kind` is the error that ended the launch.

        After Ctrl-C, the kernel may still be running and use the objects. They are kept then, and
        the first launch after the end of the kernel destroys them.
        """
        if kind is not None and issubclass(kind, KeyboardInterrupt) and self._objects:
            _in_use.append((self._gpu, list(self._objects.values())))
            return
        for made in self._objects.values():
            made.destroy()

    def create(self, stream: int) -> None:
        """Create the objects, and copy the texels from the linear memory to the CUDA arrays."""
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
        """Return the value of a parameter."""
        handle: int = self._objects[id(host)].handle
        return handle

    def read_back(self, stream: int) -> None:
        """Copy the elements of the surfaces to the linear memory."""
        for made in self._surfaces:
            made.read_back(stream)


def _check_alone(host: HostArray, group: Sequence[HostArray]) -> None:
    """Raise ValueError if the texture's array shares memory that the kernel may write to.

    On a GPU, the texels are in a CUDA array, which is a copy. So a write through one argument would
    not change what the other argument reads. On the simulator it would.
    """
    if len(group) == 1 or not any(other.written for other in group):
        return
    other = next(other for other in group if other is not host)
    kind = "surface" if host.written else "texture"
    raise ValueError(
        f"argument `{host.name}` is a {kind} whose array shares memory with argument "
        f"`{other.name}`, and the kernel may write to this memory. On a GPU, the elements of the "
        f"{kind} are in a CUDA array, so the arguments do not share memory there. Pass a copy: "
        "array.copy()"
    )


def _destroy_unused() -> None:
    """Destroy the objects of interrupted launches whose kernels have ended."""
    for launch in list(_in_use):
        gpu, objects = launch
        if gpu.finishes_within(0):
            _in_use.remove(launch)
            for made in objects:
                made.destroy()
