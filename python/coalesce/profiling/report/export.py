"""Converts a profile to dicts for JSON, and to pandas DataFrames."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, fields
from typing import TYPE_CHECKING, Any

from coalesce.common import require
from coalesce.common.version import __version__
from coalesce.launch.modelled import Modelled
from coalesce.profiling.rows.accesses import Access, Instruction, Line

if TYPE_CHECKING:
    from coalesce.profiling.data import ProfileData

# The properties of each class that the result contains, besides the fields of the class.
_DERIVED: dict[type, tuple[str, ...]] = {
    Access: (
        "name",
        "cost",
        "unit",
        "per_request",
        "ideal_per_request",
        "needed_per_request",
        "excess",
        "conflict",
        "bytes_used",
        "bytes_moved",
        "efficiency",
    ),
    Line: (
        "lanes",
        "sectors_per_request",
        "ideal_sectors_per_request",
        "efficiency",
        "conflict",
        "bank_conflicts",
        "sentence",
    ),
    Instruction: (),
}


def as_dict(profile: ProfileData) -> dict[str, Any]:
    """Return a profile as a dict that `json.dump` can write. See `Profile.to_dict`."""
    return {
        "coalesce": __version__,
        "kernel": profile.kernel,
        "title": profile.title,
        "grid": list(profile.grid),
        "block": list(profile.block),
        "shared_bytes": profile.shared_bytes,
        "device": profile.device.name,
        "arrays": [{**asdict(a), "shape": list(a.shape)} for a in profile.arrays],
        "modelled_ms": profile.modelled_ms,
        "modelled": _modelled(profile.modelled),
        "not_modelled": profile.not_modelled,
        "measured_ms": profile.measured_ms,
        "verdict": profile.verdict,
        "metrics": profile.metrics(),
        "inexact": profile.inexact,
        "lines": [
            {**_record(line), "accesses": [_access(a) for a in line.accesses]}
            for line in profile.lines()
        ],
        "instructions": [_record(i) for i in profile.instructions()],
        "preparation": [as_dict(other) for other in profile.preparation],
    }


def _modelled(modelled: Modelled | None) -> dict[str, Any] | None:
    if modelled is None:
        return None
    return {**asdict(modelled), "why": modelled.why, "share": modelled.share}


def _access(access: Access) -> dict[str, Any]:
    example = access.example
    if example is None:
        return {**_record(access), "example": None, "pattern": None}
    names = ("block", "warp", "mask", "addresses")
    shown = {name: getattr(example, name) for name in names}
    return {**_record(access), "example": shown, "pattern": asdict(example.pattern)}


def as_dataframe(profile: ProfileData, by: str) -> Any:
    """Return the rows of a profile as a DataFrame. See `Profile.to_dataframe`."""
    require.choice("by", by, ("line", "access", "instruction"))
    try:
        import pandas
    except ImportError:
        raise ImportError(
            "to_dataframe() needs pandas, which is not installed: pip install pandas"
        ) from None
    tables: dict[str, tuple[type, Sequence[Line | Access | Instruction]]] = {
        "line": (Line, profile.lines()),
        "access": (Access, profile.accesses()),
        "instruction": (Instruction, profile.instructions()),
    }
    kind, rows = tables[by]
    columns = [f.name for f in fields(kind) if f.name not in _NESTED] + list(_DERIVED[kind])
    return pandas.DataFrame([_record(row) for row in rows], columns=columns)


_NESTED = ("accesses", "instructions", "examples", "example", "padding")


def _record(row: Line | Access | Instruction) -> dict[str, Any]:
    record = {f.name: getattr(row, f.name) for f in fields(row) if f.name not in _NESTED}
    record.update((name, getattr(row, name)) for name in _DERIVED[type(row)])
    return record
