"""Reports the costs of a program's kernels as text, as data for JSON, or as an HTML page."""

from __future__ import annotations

import shutil
import textwrap
from typing import TYPE_CHECKING, Any

from coalesce.render import console, tables

if TYPE_CHECKING:
    from collections.abc import Iterator

    from coalesce.check import Findings
    from coalesce.check.ci import Problem
    from coalesce.programs import Outcome

# Names of kernels with more characters are shortened.
_LONG = 100


def as_text(outcome: Outcome) -> str:
    """Return the report as text: the findings of a check, the profiles, a table of the kernels."""
    report = outcome.report
    if report is None:
        return "The program ended before its kernels could be reported."
    width = shutil.get_terminal_size((console.MOST, 24)).columns
    parts = [findings_text(report), *(str(p) for p in outcome.profiles), _kernels(report, width)]
    if n := outcome.unprofiled:
        launches = "1 launch was" if n == 1 else f"{n} launches were"
        parts.append(f"{launches} not profiled, because a signal asked coalesce to end.")
    parts += [
        f"Warning: kernel {reads['kernel']} read outside an array, and continued with zeros. A "
        "GPU may return other values or stop the kernel. --check reports each such line. The "
        f"first read:\n  {reads['text']}"
        for reads in report["outside_reads"]
    ]
    parts += [_race_text(race) for race in report["races"]]
    if report["missing"]:
        names = ", ".join(f"{name}()" for name in report["missing"])
        parts.append(f"These functions are not simulated and returned an error: {names}")
    return "\n\n".join(part for part in parts if part)


def _kernels(report: dict[str, Any], width: int = console.MOST) -> str:
    if not report["kernels"]:
        return "The program launched no kernel."
    rows, notes = [], []
    for k in report["kernels"]:
        name = _short(k["name"])
        ptx = bool(k["launches_counted"]) and not k["machine_code"]
        rows.append(
            (
                name + (" *" if ptx else ""),
                f"{k['launches']:,}",
                f"{k['blocks']:,}",
                _rate(k["load_sectors"], k["load_requests"]),
                _rate(k["store_sectors"], k["store_requests"]),
                _time(k["modelled_ms"]) if k["launches_counted"] and not k["no_time"] else "-",
            )
        )
        if ptx:
            notes.append(f"* {name}: counted on the PTX: {k['why_ptx']}")
        elif k["blocks_counted"] < k["blocks"] and k["launches_counted"]:
            notes.append(
                f"{name}: sectors of {k['launches_counted']:,} of {k['launches']:,} launches, "
                f"{k['blocks_counted']:,} of {k['blocks']:,} blocks"
            )
        if k["no_time"]:
            notes.append(f"{name}: no time is modelled, because {k['no_time']}")
    time = f"modelled time ({report['gpu']})"
    heads = ("kernel", "launches", "blocks", "sectors/load", "sectors/store", time)
    table = tables.table(heads, rows, right=heads[1:], wrap=("kernel", time))
    notes = [textwrap.fill(note, width, subsequent_indent="  ") for note in notes]
    return "\n".join([console.render(table, width), *notes])


def _short(name: str) -> str:
    """Return the name of a kernel.

    The names of kernels in Thrust and CUB have hundreds of characters. Such a name is returned
    without namespaces, template arguments and parameters. The data for JSON have the full names.
    """
    if len(name) <= _LONG:
        return name
    text, depth = "", 0
    for character in name:
        if character == "<":
            depth += 1
            text += "<…>" if depth == 1 else ""
        elif character == ">":
            depth -= 1
        elif depth == 0:
            text += character
    name = text.replace("(anonymous namespace)::", "").partition("(")[0]
    return name.rpartition("::")[2].rpartition(" ")[2]


def findings_text(report: dict[str, Any]) -> str:
    """Return the findings of a check as text. Findings about host code come first."""
    parts = []
    for mistake in report["host"]:
        place = f"\n  {mistake['place']}" if mistake.get("place") else ""
        more = f"\n  {mistake['count'] - 1:,} more like it" if mistake["count"] > 1 else ""
        parts.append(f"host, {mistake['kind']}: {mistake['text']}{place}{more}")
    for launch, findings in _checked(report):
        name = findings.kernel
        which = "" if launch["launch"] == 1 else f" (launch {launch['launch']})"
        parts.append(f"kernel {name}{which}:\n{findings}")
    return "\n\n".join(parts)


def _checked(report: dict[str, Any]) -> Iterator[tuple[dict[str, Any], Findings]]:
    """Return the launches in which a check found something, and their findings."""
    from coalesce.check import findings_of

    for launch in report["checked"]:
        listed = [_with_tuples(finding) for finding in launch["findings"]]
        yield launch, findings_of(_short(launch["kernel"]), (listed, launch["left_out"]))


def _race_text(race: dict[str, Any]) -> str:
    """Return the warning about a race that a run without a check has found."""
    from coalesce.check import findings_of

    (finding,) = findings_of(race["kernel"], ([_with_tuples(race["finding"])], 0))
    return (
        f"Warning: the result of kernel {_short(race['kernel'])} depends on the order of its "
        "threads, so a GPU may compute another one. --check reports each such place. The first:\n"
        + textwrap.indent(str(finding).removeprefix("error: "), "  ")
    )


def _with_tuples(finding: dict[str, Any]) -> dict[str, Any]:
    """Return a finding with tuples for indices. (JSON has lists.)"""
    made = {**finding, "index": tuple(finding["index"])}
    for side in ("first", "second"):
        if (actor := finding[side]) is not None:
            made[side] = {**actor, "thread": tuple(actor["thread"]), "block": tuple(actor["block"])}
    return made


def problems(report: dict[str, Any]) -> list[Problem]:
    """Return what a check found in the program's host code and in its kernels."""
    from coalesce.check import ci

    found = ci.of_host(report["host"])
    for _, findings in _checked(report):
        found += ci.of_findings((*findings, *findings.notes), "")
    return found


def as_dict(outcome: Outcome) -> dict[str, Any]:
    """Return the report and the profiles as dicts, lists, strings and numbers, for JSON."""
    return {
        "status": outcome.status,
        "signal": outcome.signal,
        **(outcome.report or {}),
        "profiles": [profile.to_dict() for profile in outcome.profiles],
    }


def write_html(outcome: Outcome, title: str, path: str) -> None:
    """Write an HTML page to `path`: a table of the kernels, the findings, and the profiles.

    `title` is the heading of the page.
    """
    from coalesce.profiling.report import html as profile_html
    from coalesce.render import markup

    parts = [markup.tag("h1", title)]
    if outcome.report is not None:
        parts.append(markup.tag("pre", _kernels(outcome.report)))
        if findings := findings_text(outcome.report):
            parts += [markup.tag("h2", "Findings"), markup.tag("pre", findings)]
    for profile in outcome.profiles:
        parts += [markup.tag("h2", profile.title), profile_html.report(profile)]
    markup.write(title, markup.joined(parts, "\n"), path)


def _rate(sectors: float, requests: float) -> str:
    return f"{sectors / requests:.2f}" if requests else "-"


def _time(ms: float) -> str:
    return f"{ms:.3g} ms" if ms >= 1 else f"{1000 * ms:.3g} µs"
