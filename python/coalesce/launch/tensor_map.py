"""Arguments that are tensor maps. A tensor map describes a matrix to the GPU's copy unit (TMA).

The kernel has a parameter for the tensor map, and another parameter for the matrix itself.
"""

from __future__ import annotations

from dataclasses import dataclass

from coalesce._core import cuda, sim

BYTES = 128  # the size of a tensor map


@dataclass(frozen=True)
class TensorMap:
    """The description of a row-major matrix. A launch makes a tensor map from it.

    Attributes
    ----------
    of : str
        The name of the kernel's parameter that gets the matrix. The matrix must begin at a multiple
        of 16 bytes.
    element : str
        The element type: ``"bfloat16"``, ``"float32"``, ``"float64"`` or ``"tfloat32"``. With
        ``"tfloat32"``, the elements in memory are float32, and the copy rounds them to TF32.
    shape : tuple of int
        The number of rows and of columns. Outside the matrix, a copy reads zeros.
    row_bytes : int
        The distance between the starts of two rows in bytes, a multiple of 16.
    box : tuple of int
        The number of rows and of columns that one copy reads.
    swizzled : bool
        Whether the copy reorders the 16-byte parts of each 128-byte row, as CUDA's mode
        ``CU_TENSOR_MAP_SWIZZLE_128B`` does. The order depends on the row.
    """

    of: str
    element: str
    shape: tuple[int, int]
    row_bytes: int
    box: tuple[int, int]
    swizzled: bool = True

    def simulated(self) -> bytes:
        """Return the tensor map in the simulator's format, for an array at address 0.

        The simulator later adds the address of the array.
        """
        rows, cols = self.shape
        swizzle = sim.SWIZZLE_128 if self.swizzled else 0
        return sim.tensor_map(
            0, self.element, [cols, rows], [self.row_bytes], self.box[::-1], [1, 1], swizzle
        )

    def encoded(self, address: int) -> bytes:
        """Return the bytes of the tensor map. `address` is the address of the matrix on a GPU."""
        return cuda.tensor_map(
            address, self.element, self.shape, self.row_bytes, self.box, self.swizzled
        )
