"""Launches kernels: checks the arguments, runs on a GPU or the simulator, records the launch."""
