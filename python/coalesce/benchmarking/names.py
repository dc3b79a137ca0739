"""Reads and checks the names of the rows of a benchmark, such as ``"split_k tile=32"``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from coalesce import catalogue
from coalesce.benchmarking import calls
from coalesce.benchmarking.peers import PEERS
from coalesce.catalogue import table
from coalesce.common import require
from coalesce.common.options import option


@dataclass(frozen=True)
class RowRequest:
    """The request for one row of a benchmark: a variant or a library to time, and its options.

    Attributes
    ----------
    name : str
        What the caller wrote, such as ``"split_k tile=32"``. It is the name of the row.
    variant : str
        The variant or the library, such as ``"split_k"``.
    options : dict
        The options of this row alone, such as ``{"tile": 32}``.
    """

    name: str
    variant: str
    options: Mapping[str, Any]

    @property
    def is_peer(self) -> bool:
        """Whether this row is for another library, such as CuPy, not for a variant."""
        return self.variant in PEERS


def row_request(text: str) -> RowRequest:
    """Split the name of a row, such as ``"split_k tile=32"``, into the variant and its options."""
    variant, *options = text.split() or [text]
    return RowRequest(text, variant, dict(option(words) for words in options))


def row_requests(
    operation: str, variants: Sequence[str] | None, options: Mapping[str, Any]
) -> tuple[RowRequest, ...]:
    """Check the names and the options of a benchmark. Return a request for each row.

    `variants` are the names that the caller wrote. `options` are the options that were
    passed for all rows. Each option must belong to at least one of the variants. A variant
    ignores an option that it does not have.
    """
    names = _all(operation, options) if variants is None else _listed(operation, variants)
    definition = table.operation(operation)
    for option_name in options:
        if option_name not in (*definition.options, "out"):
            known = ", ".join(map(require.quoted, definition.options))
            has = f"the options are {known}" if known else "it has no options"
            raise TypeError(
                f"a benchmark of {operation} has no option {require.quoted(option_name)}; {has}"
            )
    kernels = [one.variant for one in names if not one.is_peer]
    if kernels:
        definition.check_options(kernels, options)
    for one in names:
        if one.is_peer and one.options:
            raise ValueError(f"`variants`: {one.variant!r} has no options; got {one.name!r}")
        for option_name in one.options:
            if option_name not in definition.options:
                raise ValueError(
                    f"`variants`: {operation} has no option {require.quoted(option_name)}; "
                    f"got {one.name!r}"
                )
        if not one.is_peer:
            definition.check_options([one.variant], one.options)
    return names


def _all(operation: str, options: Mapping[str, Any]) -> tuple[RowRequest, ...]:
    names = [v.name for v in catalogue.variants(operation) if not v.hopper]
    if operation == "access":  # leave out patterns that do not read a plain vector
        left = {"aos", "soa"} | (set() if "index" in options else {"gather"})
        names = [name for name in names if name not in left]
    return tuple(row_request(name) for name in names)


def rows_of_calls(operation: str, variants: Sequence[str]) -> tuple[str, ...]:
    """Check the names of the rows in a benchmark of whole calls, and return the names."""
    rows = _texts(variants)
    for row in rows:
        if row not in calls.ROWS[operation]:
            raise ValueError(
                f"`variants` contains {row!r}; in a benchmark of whole calls of {operation}, "
                f"`variants` may contain only {', '.join(calls.ROWS[operation])}"
            )
        _check_once(rows, row)
    return rows


def _texts(variants: Sequence[str]) -> tuple[str, ...]:
    if isinstance(variants, str):
        raise TypeError(
            f"`variants` must be a sequence of names; got the string {variants!r}. Write "
            f"[{variants!r}]"
        )
    texts = tuple(require.texts("variants", variants))
    if not texts:
        raise ValueError("`variants` is empty; pass the name of at least one variant")
    return texts


def _check_once(texts: Sequence[str], name: str) -> None:
    if texts.count(name) > 1:
        raise ValueError(f"`variants` has {name!r} twice; pass each name only once")


def _listed(operation: str, variants: Sequence[str]) -> tuple[RowRequest, ...]:
    texts = _texts(variants)
    names = tuple(row_request(text) for text in texts)
    for one in names:
        if one.is_peer or (one.variant == catalogue.BEST and operation != "access"):
            continue
        try:
            catalogue.find(operation, one.variant)
        except ValueError as error:
            peers = ", ".join(p for p, (_, has) in PEERS.items() if operation in has)
            raise ValueError(
                f"`variants`: {error}"
                + (f"; the names of libraries are also allowed: {peers}" if peers else "")
            ) from None
        _check_once(texts, one.name)
    return names
