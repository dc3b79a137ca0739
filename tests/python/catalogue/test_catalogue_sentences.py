"""The sentences of `coalesce.variants` name counts. Each of them is compared with a profile."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from typing import Any

import numpy as np
import pytest

import coalesce
from coalesce.profiling import Access, Profile

N = 128  # the edge of the largest tile that one block computes

# The claims that a sentence may make. `remaining` fails for any other sentence about costs.
PER_ITERATION = r"(?P<sectors>\d+) sectors per iteration"
LOADS_AND_STORES = r"(?P<sectors>\d+) sectors per load and store"
EACH = r"(?P<loads>\d+) sectors per load, (?P<stores>\d+) per store"
LOADS = r"(?P<sectors>\d+) sectors per load(?! and)(?!, \d)"
CONFLICTS = r"(?P<ways>\d+)-way bank conflicts"
EACH_CONFLICT = r"bank conflicts, (?P<stores>\d+)-way for stores, (?P<loads>\d+)-way for loads"
NO_CONFLICTS = r"no bank conflicts"
WAVEFRONTS = r"(?P<now>\d+) wavefronts per 16-byte load instead of (?P<before>\d+)"
WORDS = (
    r"(?P<words>\d+) words of shared memory for (?P<products>\d+) multiplications"
    r"(?:, not (?P<tiled>\d+))?"
)
QUARTER = r"16-byte loads of a and b: a quarter as many loads"
CLAIMS = (
    PER_ITERATION,
    LOADS_AND_STORES,
    EACH,
    LOADS,
    CONFLICTS,
    EACH_CONFLICT,
    NO_CONFLICTS,
    WAVEFRONTS,
    WORDS,
    QUARTER,
)
COSTS = r"sector|wavefront|conflict|-way|words of|as many loads\."

VARIANTS = [(v.operation, v.name) for v in coalesce.variants() if v.operation != "access"]


@cache
def profile_of(operation: str, variant: str) -> Profile:
    dtype = coalesce.variants(operation)[variant].dtype or np.float32
    a = np.ones((N, N), dtype)
    arrays = (a, a) if operation == "matmul" else (a,)
    return coalesce.profile(operation, *arrays, variant=variant, caches=False)


def global_accesses(profile: Profile, kind: str) -> list[Access]:
    return [a for a in profile.accesses() if a.space == "global" and a.kind == kind]


def per_request(accesses: Iterable[Access]) -> set[float]:
    return {access.per_request for access in accesses}


def ways(profile: Profile, *kinds: str) -> set[int]:
    """Return the n of each n-way bank conflict of the profile."""
    names = [
        access.pattern.name
        for access in profile.accesses()
        if access.space == "shared" and access.kind in kinds and access.pattern is not None
    ]
    return {int(match[1]) for name in names if (match := re.match(r"(\d+)-way conflict", name))}


def shared_loads(profile: Profile, width: int = 0) -> list[Access]:
    loads = [a for a in profile.accesses() if a.space == "shared" and a.kind == "load"]
    return [a for a in loads if a.width == width or not width]


def wavefronts_per_load(profile: Profile, width: int) -> float:
    loads = shared_loads(profile, width)
    return sum(a.wavefronts for a in loads) / sum(a.requests for a in loads)


def words_per_product(profile: Profile) -> float:
    """Return how many words of shared memory a thread loads for each of its multiplications."""
    return sum(a.requests * 32 * a.width // 4 for a in shared_loads(profile)) / N**3


def counted(claim: str, profile: Profile) -> dict[str, Any]:
    """Return the counts of a profile for the names in a claim."""
    loads, stores = (global_accesses(profile, kind) for kind in ("load", "store"))
    if claim == PER_ITERATION:
        return {"sectors": sum(access.per_request for access in loads)}
    if claim == LOADS_AND_STORES:
        (sectors,) = per_request([*loads, *stores])
        return {"sectors": sectors}
    if claim == EACH:
        (of_loads,), (of_stores,) = per_request(loads), per_request(stores)
        return {"loads": of_loads, "stores": of_stores}
    if claim == LOADS:
        (sectors,) = per_request(loads)
        return {"sectors": sectors}
    if claim == CONFLICTS:
        (n,) = ways(profile, "load", "store")
        return {"ways": n}
    if claim == EACH_CONFLICT:
        (of_loads,), (of_stores,) = ways(profile, "load"), ways(profile, "store")
        return {"loads": of_loads, "stores": of_stores}
    if claim == NO_CONFLICTS:
        assert profile.bank_conflicts == 0
        return {}
    if claim == WAVEFRONTS:
        before = profile_of("matmul", "vectorized")
        return {
            "now": wavefronts_per_load(profile, 16),
            "before": wavefronts_per_load(before, 16),
        }
    assert claim == QUARTER
    before = profile_of("matmul", "blocktiled_2d")
    requests = [sum(a.requests for a in global_accesses(p, "load")) for p in (profile, before)]
    assert 4 * requests[0] == requests[1]
    return {}


@pytest.mark.parametrize(("operation", "variant"), VARIANTS)
@pytest.mark.usefixtures("machine_code", "on_simulator")
def test_counts_in_a_sentence_are_those_of_a_profile(operation: str, variant: str) -> None:
    rest = coalesce.variants(operation)[variant].sentence
    for claim in CLAIMS:
        if (match := re.search(claim, rest)) is None:
            continue
        rest = rest.replace(match[0], "")
        said = {name: int(number) for name, number in match.groupdict().items() if number}
        profile = profile_of(operation, variant)
        if claim == WORDS:
            assert words_per_product(profile) == said["words"] / said["products"]
            if "tiled" in said:
                tiled = profile_of("matmul", "tiled")
                assert words_per_product(tiled) == said["tiled"] / said["products"]
        else:
            assert counted(claim, profile) == said, match[0]
    assert not re.search(COSTS, rest), f"no test compares this claim with a profile: {rest}"


def sectors_of(pattern: str, x: Any = None, **options: Any) -> float:
    """Return the sectors per request of the loads of x."""
    x = np.ones(4096, np.float32) if x is None else x
    loads = coalesce.profile("access", x, pattern=pattern, caches=False, **options).accesses()
    return next(a.per_request for a in loads if a.kind == "load" and a.array == "x")


# For each pattern: its sentence, in which a number in braces is replaced by a count.
ACCESS: dict[str, tuple[str, Any]] = {
    "offset": (
        "x[i + offset]: {} sectors if aligned to 32 bytes, else {}.",
        lambda: tuple(
            sectors_of("offset", np.ones(4096 + offset, np.float32), offset=offset)
            for offset in (8, 1)
        ),
    ),
    "stride": (
        "x[i * stride]: {} sectors at stride 2, {} from stride 8 on.",
        lambda: (sectors_of("stride", stride=2), sectors_of("stride", stride=8)),
    ),
    "permuted": (
        "The lanes of a warp read 32 neighbours in any order: {} sectors, whatever the order.",
        lambda: (sectors_of("permuted"),),
    ),
    "broadcast": (
        "All lanes read the warp's first element: {} sector.",
        lambda: (sectors_of("broadcast"),),
    ),
    "gather": (
        "x[index[i]]: as many sectors as the indices touch.",
        lambda: (),
    ),
    "far_lane": (
        "31 neighbouring elements and one far away: {} sectors.",
        lambda: (sectors_of("far_lane"),),
    ),
    "vector": (
        "1 to 16 bytes per lane: the same sectors in fewer requests.",
        lambda: (),
    ),
    "aos": (
        "One field of an array of structures: {} sectors times the number of fields.",
        lambda: (sectors_of("aos", np.ones((1024, 4), np.float32)) / 4,),
    ),
    "soa": (
        "One field of a structure of arrays: {} sectors.",
        lambda: (sectors_of("soa", np.ones((4, 1024), np.float32)),),
    ),
}


@pytest.mark.parametrize("pattern", coalesce.variants("access").names)
@pytest.mark.usefixtures("machine_code", "on_simulator")
def test_counts_of_access_patterns_are_those_of_a_profile(pattern: str) -> None:
    sentence, counts = ACCESS[pattern]
    numbers = [f"{count:g}" for count in counts()]
    assert coalesce.variants("access")[pattern].sentence == sentence.format(*numbers)
