"""The results of checks for continuous integration: exit status, SARIF, GitHub's annotations."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args
from urllib.parse import quote

from coalesce.check import Finding, Kind
from coalesce.common.version import __version__

SEVERITIES = ("error", "warning", "note")
# The kinds of mistakes in the host code of a program (csrc/cudart).
HOST = (
    "host access",
    "leak",
    "missing order",
    "missing wait",
    "unchecked error",
    "uninitialized copy",
    "wrong call",
    "wrong fill",
)


@dataclass(frozen=True)
class Problem:
    """A mistake in a kernel or in host code.

    Attributes
    ----------
    kind, severity, text : str
        As in `Finding`; `text` is the title and the details. Mistakes in host code have kinds of
        their own, such as ``"leak"``.
    file : str
        The source file. It is empty if it is not known.
    line : int
        The line number, from 1. It is 0 if it is not known.
    """

    kind: str
    severity: str
    text: str
    file: str
    line: int


def of_findings(findings: Iterable[Finding], file: str) -> list[Problem]:
    """Return the findings as problems. `file` is the file of the kernel."""
    return [
        Problem(
            f.kind,
            f.severity,
            "\n".join((f.title, *f.details)),
            (f.accesses[-1].file or file) if f.accesses else file,
            f.accesses[-1].line if f.accesses else 0,
        )
        for f in findings
    ]


def of_host(mistakes: Iterable[dict[str, Any]]) -> list[Problem]:
    """Return the mistakes in the host code of a program as problems."""
    problems = []
    for mistake in mistakes:
        line = mistake["place"].rpartition(":")[2]
        severity = "warning" if mistake["kind"] == "leak" else "error"
        problems.append(
            Problem(mistake["kind"], severity, mistake["text"], mistake["file"], int(line or 0))
        )
    return problems


def wanted(text: str) -> tuple[str, ...]:
    """Return the kinds and severities in a text such as ``"race,error"``."""
    names = tuple(name.strip() for name in text.split(",") if name.strip())
    if not names:
        raise ValueError(f"must name a severity or a kind of findings, such as error; got {text!r}")
    known = (*SEVERITIES, *get_args(Kind), *HOST)
    if unknown := [name for name in names if name not in known]:
        raise ValueError(f"{unknown[0]!r} is not one of {', '.join(known)}")
    return names


def fails(problems: Iterable[Problem], names: Sequence[str]) -> bool:
    """Return whether a problem has one of these kinds or severities.

    A leak counts only if `names` contains its kind: the operating system frees the memory.
    """
    return any(p.kind in names or (p.severity in names and p.kind != "leak") for p in problems)


def report(problems: Sequence[Problem], options: argparse.Namespace, status: int) -> int:
    """Write the problems as the command line asks. Return `status` if one of them fails, else 0."""
    if options.github and problems:
        print(as_annotations(problems))
    if options.sarif:
        write_sarif(problems, options.sarif)
    return status if fails(problems, options.fail_on) else 0


def as_annotations(problems: Iterable[Problem]) -> str:
    """Return the problems as annotations of GitHub: one line ``::error file=...`` for each."""
    lines = []
    for p in problems:
        title, _, rest = p.text.partition("\n")
        level = "notice" if p.severity == "note" else p.severity
        place = ",".join(
            f"{name}={_escaped(value).replace(':', '%3A').replace(',', '%2C')}"
            for name, value in (("file", p.file), ("line", str(p.line or "")), ("title", title))
            if value
        )
        lines.append(f"::{level} {place}::{_escaped(rest or title)}")
    return "\n".join(lines)


def _escaped(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def write_sarif(problems: Iterable[Problem], path: str) -> None:
    """Write the problems to a file in the format SARIF 2.1.0."""
    listed = list(problems)
    run = {
        "tool": {
            "driver": {
                "name": "coalesce",
                "version": __version__,
                "rules": [{"id": kind} for kind in sorted({p.kind for p in listed})],
            }
        },
        "results": [
            {
                "ruleId": p.kind,
                "level": p.severity,
                "message": {"text": p.text},
                "locations": [_location(p)] if p.file else [],
            }
            for p in listed
        ],
    }
    schema = "https://json.schemastore.org/sarif-2.1.0.json"
    document = {"$schema": schema, "version": "2.1.0", "runs": [run]}
    Path(path).write_text(json.dumps(document, indent=1), encoding="utf-8")


def _location(p: Problem) -> dict[str, Any]:
    place: dict[str, Any] = {"artifactLocation": {"uri": quote(Path(p.file).as_posix())}}
    if p.line:
        place["region"] = {"startLine": p.line}
    return {"physicalLocation": place}
