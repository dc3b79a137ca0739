"""What a checked run of a kernel found: `Kernel.check` returns `Findings`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, overload

from coalesce.common.errors import CoalesceError

Kind = Literal[
    "out_of_bounds",
    "misaligned",
    "read_only",
    "use_after_free",
    "uninitialized",
    "race",
    "same_value",
    "lockstep",
    "barrier",
    "warp_mask",
    "stale_read",
    "stopped",
]


@dataclass(frozen=True)
class Access:
    """One side of a finding: what a thread did, and where the source says so.

    Attributes
    ----------
    what : str
        ``"read"``, ``"write"``, ``"atomic update"``, ``"asynchronous copy"``, ``"barrier"``,
        ``"call"``.
    line : int
        Of the CUDA source, from 1; 0 where it is not known.
    file : str
        Empty for the kernel's own source.
    text : str
        The line.
    instruction : str
        The PTX instruction.
    thread, block : tuple of int
        threadIdx and blockIdx: (x, y, z).
    """

    what: str
    line: int
    file: str
    text: str
    instruction: str
    thread: tuple[int, int, int]
    block: tuple[int, int, int]


@dataclass(frozen=True)
class Finding:
    """Something a kernel does wrong: one example, and how many there are.

    Attributes
    ----------
    kind : str
        ``"out_of_bounds"``, ``"misaligned"``, ``"read_only"`` (a write to what cannot be written),
        ``"use_after_free"``, ``"uninitialized"``, ``"race"``, ``"same_value"`` (a race of writes of
        one value), ``"lockstep"`` (ordered only if a warp's lanes move together), ``"barrier"``,
        ``"warp_mask"``, ``"stale_read"`` (through the read-only cache, of what the kernel writes),
        ``"stopped"`` (a trap, a failed assert, a limit: the kernel could not go on).
    severity : {"error", "warning"}
        A warning is about code that works on today's GPUs, or mostly.
    title : str
        The finding in a line.
    details : tuple of str
    space : str
        ``"global"``, ``"shared"``, ``"local"`` or, where no memory is concerned, ``""``.
    array : str
        The argument's or the shared variable's name, or ``""``.
    index : tuple of int
        The element, one number a dimension; empty where the shape is not known.
    offset : int
        Bytes from the start of the array, or of the space where there is no array.
    bytes : int
        Of the access, per thread.
    first, second : Access or None
        Who did it; both sides of a race, in the order in which the simulator ran them.
    count : int
        How many like it there are, this one included: of the same kind, between the same lines, in
        the same array.
    """

    kind: Kind
    severity: Literal["error", "warning"]
    title: str
    details: tuple[str, ...]
    space: str
    array: str
    index: tuple[int, ...]
    offset: int
    bytes: int
    first: Access | None
    second: Access | None
    count: int

    @property
    def accesses(self) -> tuple[Access, ...]:
        """The sides there are."""
        return tuple(a for a in (self.first, self.second) if a is not None)

    @property
    def lines(self) -> tuple[int, ...]:
        """The source lines of the sides."""
        return tuple(a.line for a in self.accesses)

    def __str__(self) -> str:
        text = [f"{self.severity}: {self.title}"]
        text += [f"  {detail}" for detail in self.details]
        for access in self.accesses:
            text += [f"  {access.what}: {_place(access)}", f"    {_thread(access)}"]
        if self.count > 1:
            text.append(f"  {self.count - 1:,} more like it")
        return "\n".join(text)


class Findings(Sequence[Finding]):
    """The findings of a checked run, errors first. Empty, and so false, where there are none.

    Attributes
    ----------
    kernel : str
        What was checked.
    left_out : int
        How many findings there were beside those listed, between other lines; at most a hundred
        are listed.

    Examples
    --------
    >>> found = kernel.check(1, 64, x, out)  # doctest: +SKIP
    >>> assert not found  # doctest: +SKIP
    >>> found.raise_if_any()  # doctest: +SKIP
    """

    def __init__(self, kernel: str, findings: Sequence[Finding], left_out: int = 0) -> None:
        self.kernel = kernel
        self.left_out = left_out
        self._findings = tuple(sorted(findings, key=lambda f: f.severity != "error"))

    @property
    def errors(self) -> tuple[Finding, ...]:
        """The findings that are errors."""
        return tuple(f for f in self if f.severity == "error")

    @property
    def warnings(self) -> tuple[Finding, ...]:
        """The findings that are warnings."""
        return tuple(f for f in self if f.severity == "warning")

    def raise_if_any(self, *, warnings: bool = True) -> None:
        """Raise CheckError if there are findings.

        Parameters
        ----------
        warnings : bool
            Whether warnings count.

        Raises
        ------
        CheckError
            Its message is the report, its `findings` are these.
        """
        if self.errors or (warnings and self):
            raise CheckError(str(self), self)

    def to_dict(self) -> dict[str, Any]:
        """Return the findings as dicts, lists, strings and numbers, as JSON has them."""
        return {
            "kernel": self.kernel,
            "findings": [asdict(f) for f in self],
            "left_out": self.left_out,
        }

    @overload
    def __getitem__(self, index: int) -> Finding: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Finding, ...]: ...
    def __getitem__(self, index: int | slice) -> Finding | tuple[Finding, ...]:
        return self._findings[index]

    def __len__(self) -> int:
        return len(self._findings)

    def __iter__(self) -> Iterator[Finding]:
        return iter(self._findings)

    def __str__(self) -> str:
        text = [self.summary, *(str(f) for f in self)]
        if self.left_out:
            text.append(f"{self.left_out:,} more findings, at other lines, are not listed")
        return "\n".join(text)

    __repr__ = __str__

    @property
    def summary(self) -> str:
        """How many errors and warnings there are."""
        if not self:
            return f"check of {self.kernel}: nothing found"
        parts = []
        for name, some in (("error", self.errors), ("warning", self.warnings)):
            if some:
                parts.append(f"{len(some)} {name}{'s' * (len(some) > 1)}")
        return f"check of {self.kernel}: {', '.join(parts)}"

    def _repr_html_(self) -> str:
        from coalesce.check import html as check_html

        return check_html.report(self)


class CheckError(CoalesceError):
    """A check found something: the message is the report, `findings` what was found."""

    def __init__(self, message: str, findings: Findings) -> None:
        super().__init__(message)
        self.findings = findings

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (str(self), self.findings)


def findings_of(kernel: str, told: tuple[list[dict[str, Any]], int]) -> Findings:
    """Return what the simulator tells of a checked run as findings."""
    found, left_out = told
    return Findings(kernel, [_finding(f) for f in found], left_out)


def _finding(told: dict[str, Any]) -> Finding:
    return Finding(
        kind=told["kind"],
        severity="warning" if told["warning"] else "error",
        title=told["title"],
        details=tuple(told["details"]),
        space=told["space"],
        array=told["array"],
        index=told["index"],
        offset=told["offset"],
        bytes=told["bytes"],
        first=_access(told["first"]),
        second=_access(told["second"]),
        count=told["count"],
    )


def _access(told: dict[str, Any] | None) -> Access | None:
    return None if told is None else Access(**{**told, "text": told["text"].strip()})


def _place(access: Access) -> str:
    if not access.line:
        return access.instruction
    where = f"line {access.line}" + (f" of {access.file}" if access.file else "")
    return f"{where}:   {access.text}" if access.text else where


def _thread(access: Access) -> str:
    return f"thread {access.thread} in block {access.block}"
