"""Draws the page about the causes from the catalogue: `python -m tools.causes_page > docs/causes.md`."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from itertools import groupby

from warehouse.causes import load_causes
from warehouse.detect.render import plain
from warehouse.detect.site import Site
from warehouse.model.cause import Cause
from warehouse.model.time import format_duration

_HEAD = """# Causes

Every cause that GPU time can be charged to, from the catalogue in `warehouse/causes/`; this page is
generated from it by `python -m tools.causes_page`.

- **Rank** decides only between causes that are not linked to each other: the lower one owns the minutes.
- Rank 90 is a symptom: it is kept as evidence and never charged. Rank 99 is an honest last answer.
- **Detectors** are the expressions that find the cause in Prometheus by themselves; causes without one come
  from other evidence.
"""


def render_page(causes: Mapping[str, Cause]) -> str:
    """Gives the page as Markdown: an overview table, then one section per cause, both in order of code."""
    lines = [
        _HEAD,
        f"{len(causes)} causes.",
        "",
        "| Rank | Code | Title | Usual state | Owner |",
        "|--:|--|--|--|--|",
    ]
    for code, cause in sorted(causes.items(), key=lambda item: (item[1].rank, item[0])):
        lines.append(f"| {cause.rank} | `{code}` | {cause.title} | {cause.state or 'as seen'} | {cause.owner} |")
    for category, group in groupby(causes.values(), key=lambda cause: cause.code.split("/")[0]):
        lines += ["", f"## {category}"]
        for cause in group:
            lines += _section(cause)
    return "\n".join(lines) + "\n"


def _section(cause: Cause) -> list[str]:
    lines = [
        "",
        f"### {cause.title}",
        "",
        f"`{cause.code}`, rank {cause.rank}, usual state {cause.state or 'as seen'}, owner {cause.owner}"
        + ("." if cause.opens_incident else "; opens no incident."),
        "",
        f"- Seen as: {cause.signature}",
        f"- Typical duration: {cause.duration}",
        f"- Hits: {cause.blast}",
        f"- First step: {cause.first_step}",
        f"- Source: {cause.source}",
    ]
    for detector in cause.detectors:
        lines += [
            "",
            f"Detector `{detector.key}` version {detector.version}: {detector.why} "
            f"Gives {detector.state} per {detector.scope}, from {format_duration(detector.min_duration_ms)}.",
            "",
            "```promql",
            plain(detector, Site()) if detector.expr else f"# {detector.fan_in.why}" if detector.fan_in else "",
            "```",
        ]
    return lines


if __name__ == "__main__":
    sys.stdout.write(render_page(load_causes()))
