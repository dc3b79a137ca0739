"""Devices (GPUs and simulated GPUs), and the arrays in their memory.

The arrays are `DeviceArray` objects of this package, and GPU arrays of other libraries.
"""
