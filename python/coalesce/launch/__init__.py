"""Launches kernels on a GPU or on the simulator, and returns their times and counts."""
