"""Checks the profiles and timings that are passed to the functions for plots."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from coalesce.common import require


class ProfileLike(Protocol):
    """The attributes of `coalesce.Profile` that a plot needs."""

    @property
    def title(self) -> str: ...
    @property
    def modelled_ms(self) -> float | None: ...
    @property
    def measured_ms(self) -> float | None: ...
    @property
    def sectors_per_request(self) -> Mapping[str, float]: ...
    @property
    def flops(self) -> Mapping[str, float]: ...
    def metrics(self) -> Mapping[str, float]: ...


class TimingLike(Protocol):
    """The attributes of `coalesce.Timing` that a plot needs."""

    @property
    def kernel_ms(self) -> float: ...
    @property
    def gflops(self) -> float: ...
    @property
    def gbps(self) -> float: ...
    @property
    def source(self) -> str: ...


@dataclass(frozen=True)
class Work:
    """A point of a roofline: the operations, the memory traffic and the time of a kernel.

    Attributes
    ----------
    flops : float
        The number of floating-point operations.
    dram_bytes : float
        The number of bytes that were read from and written to the GPU's memory.
    ms : float
        The time in milliseconds.
    measured : bool
        True if `ms` was measured, and False if it was modelled.

    Examples
    --------
    >>> work = coalesce.plots.Work(flops=2e9, dram_bytes=1e8, ms=1.0)
    >>> axes = coalesce.plots.roofline({"mine": work}, peak_gflops=67_000, peak_gbps=4_800)
    """

    flops: float
    dram_bytes: float
    ms: float
    measured: bool = False

    def __post_init__(self) -> None:
        for name in ("flops", "dram_bytes", "ms"):
            require.positive(name, getattr(self, name))


def named(argument: str, kernels: Any) -> dict[str, Any]:
    """Return a dict from names to kernels.

    If `kernels` is a mapping, its keys are the names. Otherwise the titles of the profiles are the
    names. `argument` is the name of the argument in error messages.
    """
    result = dict(kernels) if isinstance(kernels, Mapping) else {}
    several = [] if isinstance(kernels, Mapping) else require.several(argument, kernels, "profiles")
    for kernel in several:
        with require.reading(argument, kernel):
            title = getattr(kernel, "title", None)
        if not isinstance(title, str):
            raise TypeError(
                f"`{argument}` must be profiles, or a mapping of names to profiles; got "
                f"{require.shown(kernel)}"
            )
        if title in result:
            raise ValueError(
                f"`{argument}` has two profiles with the title {title!r}; pass a dict from names "
                "to profiles"
            )
        result[title] = kernel
    if not result:
        raise ValueError(f"`{argument}` must hold at least one profile; it is empty")
    return result


def quantity(name: str, variant: Any, of: str, kind: str) -> tuple[float, bool]:
    """Return a quantity of a variant, and whether it is an estimate: ``(1.25, True)``.

    `variant` is a profile or a timing, and `name` is the variant's name in error messages. `of` is
    the name of the quantity, such as "time" (see `coalesce.plots.ladder`). If `of` is "sectors",
    `kind` says which sectors are counted: those of loads ("load") or of stores ("store").
    """
    if of == "sectors":
        if not hasattr(variant, "metrics"):
            raise ValueError(f'of="sectors" needs a profile, but {name!r} is not a profile')
        short = {"load": "ld", "store": "st"}[kind]
        sectors = variant.metrics().get(f"l1tex__t_sectors_pipe_lsu_mem_global_op_{short}.sum", 0)
        return float(sectors), False
    if of == "time" and not hasattr(variant, "kernel_ms"):
        return _time(name, variant)
    if not hasattr(variant, "kernel_ms"):
        raise ValueError(
            f'of="{of}" needs a Timing, but {name!r} is a profile; call the operation with '
            "return_timing=True to get a Timing"
        )
    if why := getattr(variant, "no_time", ""):
        raise ValueError(f"{name!r} has no time: {why}")
    value = variant.kernel_ms if of == "time" else getattr(variant, of)
    return float(value), variant.source == "modelled"


def _time(name: str, profile: ProfileLike) -> tuple[float, bool]:
    if profile.measured_ms is not None:
        return float(profile.measured_ms), False
    if profile.modelled_ms is not None:
        return float(profile.modelled_ms), True
    why = getattr(profile, "not_modelled", "") or "it was neither measured nor modelled"
    raise ValueError(f"{name!r} has no time: {why}")


def work_of(name: str, profile: ProfileLike, flops: Mapping[str, float] | float | None) -> Work:
    """Return a profile's point in a roofline, as a `Work`.

    `flops` has the number of floating-point operations of each kernel (see
    `coalesce.plots.roofline`). `name` is the name of the profile in error messages.
    """
    count = flops.get(name) if isinstance(flops, Mapping) else flops
    metrics = profile.metrics()
    if count is None and not (count := sum(profile.flops.values())):
        raise ValueError(
            f"{name!r} executed no floating-point operation outside the tensor cores; pass the "
            "number of operations as `flops`"
        )
    traffic = [metrics.get(f"dram__bytes_{way}.sum") for way in ("read", "write")]
    if None in traffic:
        raise ValueError(
            "a roofline needs the metrics dram__bytes_read.sum and dram__bytes_write.sum; at least "
            f"one of them is missing in the profile of {name!r}. Profile the kernel with "
            "caches=True"
        )
    ms, modelled = _time(name, profile)
    return Work(
        require.number("flops", count), float(sum(part or 0 for part in traffic)), ms, not modelled
    )
