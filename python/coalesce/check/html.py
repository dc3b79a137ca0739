"""Findings as HTML."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from coalesce.render.markup import BAD, FAINT, GOOD, MONO, cell, row, table, tag

if TYPE_CHECKING:
    from coalesce.check import Access, Finding, Findings


def report(findings: Findings) -> str:
    """Return the findings as a fragment."""
    parts = [tag("div", tag("b", escape(findings.summary)), "font-size:larger")]
    if not findings:
        parts[0] = tag("div", f"✓ {escape(findings.summary)}", f"color:{GOOD}")
    parts += [_finding(f) for f in findings]
    if findings.left_out:
        left_out = f"{findings.left_out:,} more findings, at other lines, are not listed"
        parts.append(tag("div", left_out, FAINT))
    return tag("div", "\n".join(parts), "line-height:1.45")


def _finding(finding: Finding) -> str:
    error = finding.severity == "error"
    color = BAD if error else GOOD
    title = f"{'▲' if error else '△'} {finding.severity}: {escape(finding.title)}"
    parts = [tag("div", tag("b", title))]
    parts += [tag("div", escape(detail)) for detail in finding.details]
    if finding.accesses:
        parts.append(table([_access(a) for a in finding.accesses]))
    if finding.count > 1:
        parts.append(tag("div", f"{finding.count - 1:,} more like it", FAINT))
    return tag(
        "div", "".join(parts), f"border-left:4px solid {color};padding:2px 10px;margin:10px 0"
    )


def _access(access: Access) -> str:
    line = f"line {access.line}" if access.line else ""
    if access.file:
        line += f" of {escape(access.file)}"
    code = escape(access.text or access.instruction)
    return row(
        [
            cell(access.what),
            cell(line, FAINT),
            cell(code, f"white-space:pre;{MONO};font-size:13px"),
            cell(f"thread {access.thread} in block {access.block}", FAINT),
        ]
    )
