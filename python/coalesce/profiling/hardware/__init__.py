"""Counters of a GPU, and which of the simulator's counts must equal them."""
