"""The rows of a profile: accesses by source line and array, and what padding would change."""
