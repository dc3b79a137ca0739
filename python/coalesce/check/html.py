"""Shows the findings of a check as HTML."""

from __future__ import annotations

from typing import TYPE_CHECKING

from coalesce.check import file_name
from coalesce.render.markup import BAD, FAINT, GOOD, MONO, cell, joined, row, table, tag

if TYPE_CHECKING:
    from markupsafe import Markup

    from coalesce.check import Access, Finding, Findings


def report(findings: Findings) -> Markup:
    """Return the findings as a part of an HTML page."""
    parts = [tag("div", tag("b", findings.summary), "font-size:larger")]
    if not findings:
        parts[0] = tag("div", f"✓ {findings.summary}", f"color:{GOOD}")
    parts += [_finding(f) for f in findings]
    if findings.left_out:
        left_out = f"{findings.left_out:,} more findings, at other lines, are not listed"
        parts.append(tag("div", left_out, FAINT))
    parts += [_finding(note) for note in findings.notes]
    return tag("div", joined(parts, "\n"), "line-height:1.45")


def _finding(finding: Finding) -> Markup:
    error = finding.severity == "error"
    color = BAD if error else GOOD
    title = f"{'▲' if error else '△'} {finding.severity}: {finding.title}"
    parts = [tag("div", tag("b", title))]
    parts += [tag("div", detail) for detail in finding.details]
    if finding.accesses:
        parts.append(table([_access(a) for a in finding.accesses]))
    if finding.count > 1:
        parts.append(tag("div", f"{finding.count - 1:,} more like it", FAINT))
    return tag("div", parts, f"border-left:4px solid {color};padding:2px 10px;margin:10px 0")


def _access(access: Access) -> Markup:
    line = f"line {access.line}" if access.line else ""
    if access.file:
        line += f" of {file_name(access)}"
    code = access.text or access.instruction
    return row(
        [
            cell(access.what),
            cell(line, FAINT),
            cell(code, f"white-space:pre;{MONO};font-size:13px"),
            cell(f"thread {access.thread} in block {access.block}", FAINT),
        ]
    )
