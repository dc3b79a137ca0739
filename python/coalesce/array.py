"""The public module `coalesce.array`: arrays in the memory of a device."""

from coalesce.arrays.copies import byte_view, copy
from coalesce.arrays.creation import asarray, empty, ones, to_device, zeros
from coalesce.arrays.device_array import DeviceArray

__all__ = [
    "DeviceArray",
    "asarray",
    "byte_view",
    "copy",
    "empty",
    "ones",
    "to_device",
    "zeros",
]
