"""Arguments that are tensor maps. A tensor map describes an array to the GPU's copy unit (TMA).

The launch has an argument for the tensor map, and another argument for the array itself.
"""

from __future__ import annotations

from dataclasses import dataclass

from coalesce._core import cuda, sim

BYTES = 128  # the size of a tensor map


@dataclass(frozen=True)
class TensorMap:
    """The description of a row-major array. A launch makes a tensor map from it.

    Attributes
    ----------
    of : str
        The name of the kernel's parameter that gets the array. The array must begin at a multiple
        of 16 bytes.
    element : str
        The element type, such as ``"bfloat16"`` or ``"float32"``. With ``"tfloat32"``, the elements
        in memory are float32, and the copy rounds them to TF32.
    shape : tuple of int
        The extents of the array. Outside the array, a copy reads zeros.
    strides : tuple of int
        The strides in bytes, multiples of 16, of all dimensions but the last one. The elements of
        the last dimension are adjacent.
    box : tuple of int
        The extents of the part that one copy reads.
    swizzle : int
        The order of the 16-byte parts of each row in shared memory, as CUDA's
        ``CUtensorMapSwizzle``: 3 for ``CU_TENSOR_MAP_SWIZZLE_128B``, 0 for the order in the array.
    nan : bool
        Whether a copy reads NaN outside the array, instead of zero.
    """

    of: str
    element: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    box: tuple[int, ...]
    swizzle: int = sim.SWIZZLE_128
    nan: bool = False

    def simulated(self) -> bytes:
        """Return the tensor map in the simulator's format, for an array at address 0.

        The simulator later adds the address of the array.
        """
        steps = [1] * len(self.shape)
        return sim.tensor_map(
            0,
            self.element,
            self.shape[::-1],
            self.strides[::-1],
            self.box[::-1],
            steps,
            self.swizzle,
            self.nan,
        )

    @property
    def of_matrix(self) -> tuple[str, tuple[int, int], int, tuple[int, int], bool]:
        """What a GPU's driver needs for a matrix: element, shape, bytes of a row, box, swizzled."""
        (rows, cols), (row_bytes,), (height, width) = self.shape, self.strides, self.box
        swizzled = self.swizzle == sim.SWIZZLE_128
        return self.element, (rows, cols), row_bytes, (height, width), swizzled

    def encoded(self, address: int) -> bytes:
        """Return the bytes of the tensor map of a matrix. `address` is its address on a GPU."""
        return cuda.tensor_map(address, *self.of_matrix)
