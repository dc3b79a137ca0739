"""The command line of the scripts that make a random kernel or file for each seed."""

import argparse
from collections.abc import Callable


def compare_seeds(
    arguments: list[str],
    description: str | None,
    source: Callable[[int], str],
    difference: Callable[[int], str],
) -> int:
    """Compare some seeds; print those that differ."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int, default=20)
    parser.add_argument("--show", action="store_true", help="print the kernels' text")
    options = parser.parse_args(arguments)
    bad = 0
    for seed in range(options.first, options.first + options.count):
        if options.show:
            print(source(seed))
        if message := difference(seed):
            bad += 1
            print(f"seed {seed}: {message}", flush=True)
    print(f"{options.count - bad} of {options.count} seeds are alike")
    return bad != 0
