"""Devices and the arrays in their memory: those of other libraries, and `DeviceArray`."""
