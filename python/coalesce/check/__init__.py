"""The findings of a checked run: `Kernel.check` returns `Findings`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import PurePath
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
    "fence",
    "barrier",
    "warp_mask",
    "alias",
    "stale_read",
    "heap",
    "stopped",
    "coverage",
    "rounding",
    "outside_view",
]


@dataclass(frozen=True)
class Access:
    """What one thread did when the mistake happened: the action, and its source line.

    Attributes
    ----------
    what : str
        The action: ``"read"``, ``"write"``, ``"atomic update"``, ``"asynchronous copy"``,
        ``"barrier"`` or ``"call"``.
    line : int
        The line number in the CUDA source, from 1. It is 0 if the line is not known.
    file : str
        The source file. It is empty for the kernel's own file.
    text : str
        The text of the line.
    instruction : str
        The PTX instruction. It is empty for an index outside a member of a structure, because the
        check tests the source, and not the PTX, for this mistake.
    thread, block : tuple of int
        The threadIdx and the blockIdx of the thread, as (x, y, z).
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
    """A mistake of a kernel: one example of it, and how often it occurred.

    Attributes
    ----------
    kind : str
        One of these:

        - ``"out_of_bounds"``: an access outside the array;
        - ``"misaligned"``: the address is not a multiple of the size of the access;
        - ``"use_after_free"``: an access to memory that was freed before;
        - ``"uninitialized"``: a read of memory that was never written;
        - ``"read_only"``: a write to read-only memory;
        - ``"alias"``: two ``__restrict__`` parameters, or two ``extern __shared__`` arrays, are the
          same memory;
        - ``"stale_read"``: a read through the read-only cache, although the kernel writes the data;
        - ``"race"``: two accesses to the same address in no defined order, and at least one of them
          is a write;
        - ``"same_value"``: a race of two writes that write the same value;
        - ``"lockstep"``: a race between two lanes of the same warp. The code is right only if all
          lanes of the warp execute each instruction at the same time, which CUDA does not
          guarantee;
        - ``"fence"``: a race that a lock would prevent if a fence followed the ``atomicCAS()`` that
          takes the lock;
        - ``"barrier"``, ``"warp_mask"``: a barrier or a warp operation that is used wrongly;
        - ``"heap"``: a wrong ``free()``, or memory of ``malloc()`` that is never freed;
        - ``"stopped"``: the end of the run by a trap, a failed assert or a limit;
        - ``"coverage"``: a part of an array that the launch does not write, or values in shared
          memory that no thread reads. This is only a note;
        - ``"rounding"``: a sum of floating-point numbers whose last digits depend on the order of
          atomic additions. This is only a note;
        - ``"outside_view"``: an access to an element outside the view that was passed, but inside
          its base array. This is only a note.
    severity : {"error", "warning", "note"}
        A warning is about code that usually works on today's GPUs, but is not guaranteed to work. A
        note is about code that is correct, but may not do what you meant. The notes are in
        ``Findings.notes``.
    title : str
        The finding in one line.
    details : tuple of str
        More lines, such as the array and the index, or the missing synchronization.
    space : str
        ``"global"``, ``"shared"`` or ``"local"``. It is ``""`` if the finding is not about memory,
        or if it is about a parameter that is a structure.
    array : str
        The name of the argument or of the shared variable, or a member of a structure, such as
        ``"s.a"``. It is ``""`` if there is none.
    index : tuple of int
        The index of the element. It is empty if the access is out of bounds, or if the shape is not
        known.
    offset : int
        The distance in bytes from the start of the array. Without an array, it is the distance from
        the start of the memory `space`.
    bytes : int
        The number of bytes that each thread accesses. It is 0 for a member of a structure.
    first, second : Access or None
        A race has two accesses, in the order in which the simulator executed them. Other findings
        have only `first`, or no access.
    count : int
        How often this mistake occurred: the same kind, on the same lines, with the same array.

    Examples
    --------
    >>> kernel = coalesce.Kernel("__global__ void ones(int *x) { x[threadIdx.x] = 1; }")
    >>> finding = kernel.check(1, 32, np.zeros(31, np.int32))[0]
    >>> finding.kind, finding.array, finding.first.thread
    ('out_of_bounds', 'x', (31, 0, 0))
    """

    kind: Kind
    severity: Literal["error", "warning", "note"]
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
        """`first` and `second` as a tuple. An access that is None is left out."""
        return tuple(a for a in (self.first, self.second) if a is not None)

    @property
    def lines(self) -> tuple[int, ...]:
        """The line numbers of `first` and `second` in the source."""
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
    """A list of the mistakes that a check found: first the errors, then the warnings.

    If the check found nothing, the list is empty. In a condition (``if findings:``), an empty list
    is false. The list does not contain the notes.

    Attributes
    ----------
    kernel : str
        The name of the kernel or the operation.
    left_out : int
        The number of findings that are not in the list. The list has at most 100 findings.
    notes : tuple of Finding
        What is valid, but may not be what you meant. There are three kinds of notes. First: you
        passed a view such as ``x[r:]``, and the kernel accessed other elements of `x`. If you want
        an error for these accesses, pass ``coalesce.pointer(x[r:], 0)``. Second: the launch writes
        only a part of an array, or does not use values that it has written to shared memory. Third:
        the last digits of a sum depend on the order of atomic additions.

    Examples
    --------
    >>> findings = kernel.check(1, 64, x, out)  # doctest: +SKIP
    >>> assert not findings  # doctest: +SKIP
    >>> findings.raise_if_any()  # doctest: +SKIP
    """

    def __init__(self, kernel: str, findings: Sequence[Finding], left_out: int = 0) -> None:
        self.kernel = kernel
        self.left_out = left_out
        self.notes = tuple(f for f in findings if f.severity == "note")
        mistakes = (f for f in findings if f.severity != "note")
        self._findings = tuple(sorted(mistakes, key=lambda f: f.severity != "error"))

    @property
    def errors(self) -> tuple[Finding, ...]:
        """The findings that are errors."""
        return tuple(f for f in self if f.severity == "error")

    @property
    def warnings(self) -> tuple[Finding, ...]:
        """The findings that are warnings."""
        return tuple(f for f in self if f.severity == "warning")

    def raise_if_any(self, *, warnings: bool = True) -> None:
        """Raise CheckError if there are findings, else do nothing.

        Parameters
        ----------
        warnings : bool
            If False, only errors raise the exception. If True, warnings raise it, too.

        Raises
        ------
        CheckError
            Its message is the report. Its attribute `findings` has the findings.
        """
        if self.errors or (warnings and self):
            raise CheckError(str(self), self)

    def to_dict(self) -> dict[str, Any]:
        """Return the findings as dicts, lists, strings and numbers, for `json.dump`.

        Returns
        -------
        dict
            It has the keys ``kernel``, ``left_out``, ``findings`` and ``notes``. ``findings`` and
            ``notes`` are lists with a dict for each `Finding`.
        """
        return {
            "kernel": self.kernel,
            "findings": [asdict(f) for f in self],
            "left_out": self.left_out,
            "notes": [asdict(f) for f in self.notes],
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
        text += [str(note) for note in self.notes]
        return "\n".join(text)

    __repr__ = __str__

    @property
    def summary(self) -> str:
        """How many errors and warnings there are, as text: ``"check of scale: 1 error"``."""
        if not self:
            return f"check of {self.kernel}: nothing found"
        parts = []
        for name, some in (("error", self.errors), ("warning", self.warnings)):
            if some:
                parts.append(f"{len(some)} {name}{'s' * (len(some) > 1)}")
        return f"check of {self.kernel}: {', '.join(parts)}"

    def _repr_html_(self) -> str:
        from coalesce.check import html as check_html

        return str(check_html.report(self))


class CheckError(CoalesceError):
    """Raised by `Findings.raise_if_any`.

    The message is the report. The attribute `findings` has the findings.
    """

    def __init__(self, message: str, findings: Findings) -> None:
        super().__init__(message)
        self.findings = findings

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (str(self), self.findings)


def findings_of(kernel: str, reported: tuple[list[dict[str, Any]], int]) -> Findings:
    """Return the findings of a checked run as `Findings`.

    `reported` comes from the simulator in C++. It is a pair: a list with a dict for each finding,
    and the number of findings that are not in the list.
    """
    findings, left_out = reported
    return Findings(kernel, [_finding(f) for f in findings], left_out)


def _finding(fields: dict[str, Any]) -> Finding:
    return Finding(
        kind=fields["kind"],
        severity=fields["severity"],
        title=fields["title"],
        details=tuple(fields["details"]),
        space=fields["space"],
        array=fields["array"],
        index=fields["index"],
        offset=fields["offset"],
        bytes=fields["bytes"],
        first=_access(fields["first"]),
        second=_access(fields["second"]),
        count=fields["count"],
    )


def _access(fields: dict[str, Any] | None) -> Access | None:
    return None if fields is None else Access(**{**fields, "text": fields["text"].strip()})


def _place(access: Access) -> str:
    if not access.line:
        return access.instruction
    where = f"line {access.line}" + (f" of {file_name(access)}" if access.file else "")
    return f"{where}:   {access.text}" if access.text else where


def file_name(access: Access) -> str:
    """Return the file of an access without its folders. With them, a line would be too long."""
    return PurePath(access.file).name


def _thread(access: Access) -> str:
    return f"thread {access.thread} in block {access.block}"
