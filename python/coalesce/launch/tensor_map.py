"""Tensor maps as arguments. A tensor map describes a matrix, which is another argument."""

from __future__ import annotations

from dataclasses import dataclass

from coalesce._core import cuda, sim

BYTES = 128  # the size of a tensor map


@dataclass(frozen=True)
class TensorMap:
    """The description of a row-major matrix.

    The launch makes a tensor map from this description and the address of the array.

    Attributes
    ----------
    of : str
        The parameter whose array has the elements. Its memory begins at a multiple of 16 bytes.
    element : str
        ``"bfloat16"``, ``"float32"``, ``"float64"``, or ``"tfloat32"``: float32 in memory, rounded
        to TF32 by the copy.
    shape : tuple of int
        Rows and columns. A copy reads zeros beyond them.
    row_bytes : int
        The bytes from one row to the next, a multiple of 16.
    box : tuple of int
        The rows and columns that one copy reads.
    swizzled : bool
        Whether the 16-byte parts of a box's 128-byte rows are reordered, depending on the row.
    """

    of: str
    element: str
    shape: tuple[int, int]
    row_bytes: int
    box: tuple[int, int]
    swizzled: bool = True

    def simulated(self) -> bytes:
        """Return the simulator's tensor map, for an array that begins at address 0."""
        rows, cols = self.shape
        swizzle = sim.SWIZZLE_128 if self.swizzled else 0
        return sim.tensor_map(
            0, self.element, [cols, rows], [self.row_bytes], self.box[::-1], [1, 1], swizzle
        )

    def encoded(self, address: int) -> bytes:
        """Return the tensor map's bytes for an address of the array on a GPU."""
        return cuda.tensor_map(
            address, self.element, self.shape, self.row_bytes, self.box, self.swizzled
        )
