"""Arrays in the memory of a device, at their public path."""

from coalesce.arrays.device_array import (
    DeviceArray,
    asarray,
    byte_view,
    copy,
    empty,
    ones,
    to_device,
    zeros,
)

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
