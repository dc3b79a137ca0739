"""Runs kernels on the simulator, counts what they do, and records their memory accesses."""
