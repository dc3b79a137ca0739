"""Devices, and the arrays in their memory: `DeviceArray`, and arrays of other libraries."""
