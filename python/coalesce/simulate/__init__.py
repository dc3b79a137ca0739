"""Runs launches on the simulator and observes them: counts, samples of blocks, memory events."""
