"""Launches that are observed on the simulator: counts, samples, events."""
