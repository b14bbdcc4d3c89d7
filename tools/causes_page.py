"""Draws the page about the causes from the catalogue: `python -m tools.causes_page > docs/causes.md`."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from itertools import groupby

from tools.detector_words import edges, ends, expression, loss, seen_by, thresholds
from warehouse.causes import load_causes
from warehouse.model.cause import Cause, Detector

_HEAD = """# Causes

Every cause that GPU time can be charged to, from the catalogue in `warehouse/causes/`; this page is
generated from it by `python -m tools.causes_page`. What to do about each stands in `docs/runbooks/`.

- **Rank** decides only between causes that are not linked to each other: the lower one owns the minutes.
- Rank 90 is a symptom: it is kept as evidence and never charged. Rank 99 is an honest last answer.
- **Payer** is who bears the loss in a bill: the provider of the GPUs, the tenant who held them, or nobody.
- **Seen by** names the detectors, the expressions that find the cause in Prometheus by themselves, and then the other
  sources that can tell of it; those come in by `gpu-minutes import evidence` until each has a reader of its own.
  Where it says *nothing*, only a person can.
- A site sets the thresholds of a detector in its file, in the section `[detectors.KEY]`.
"""


def render_page(causes: Mapping[str, Cause]) -> str:
    """Gives the page as Markdown: an overview table, then one section per cause, both in order of code."""
    detectors = sum(len(cause.detectors) for cause in causes.values())
    lines = [
        _HEAD,
        f"{len(causes)} causes, {detectors} detectors.",
        "",
        "| Rank | Code | Title | Usual state | Owner | Payer | Seen by |",
        "|--:|--|--|--|--|--|--|",
    ]
    for code, cause in sorted(causes.items(), key=lambda item: (item[1].rank, item[0])):
        state = cause.state or "as seen"
        lines.append(
            f"| {cause.rank} | `{code}` | {cause.title} | {state} | {cause.owner} | {cause.payer} | {seen_by(cause)} |"
        )
    for category, group in groupby(causes.values(), key=lambda cause: cause.code.split("/")[0]):
        lines += ["", f"## {category}"]
        for cause in group:
            lines += _section(cause)
    return "\n".join(lines) + "\n"


def _section(cause: Cause) -> list[str]:
    category, name = cause.code.split("/")
    lines = [
        "",
        f"### {cause.title}",
        "",
        f"`{cause.code}`, rank {cause.rank}, usual state {cause.state or 'as seen'}, owner {cause.owner}, "
        f"payer {cause.payer}" + ("." if cause.opens_incident else "; opens no incident."),
        "",
        f"- Seen as: {cause.signature}",
        f"- Typical duration: {cause.duration}",
        f"- Hits: {cause.blast}",
        f"- First step: {cause.first_step} [Runbook](runbooks/{category}.md#{name})",
        f"- Other sources: {'; '.join(cause.other_sources) or 'none'}",
        f"- Source: {cause.source}",
    ]
    for detector in cause.detectors:
        lines += _detector(detector)
    return lines


def _detector(detector: Detector) -> list[str]:
    table = thresholds(detector)
    return [
        "",
        f"Detector `{detector.key}` version {detector.version}: {detector.why} "
        f"Gives {detector.state} per {detector.scope}, {detector.basis}.",
        "",
        "```promql",
        expression(detector),
        "```",
        *(["", *table] if table else []),
        "",
        f"- Edges: {edges(detector)}",
        f"- Lost: {loss(detector)}",
        f"- End: {ends(detector)}",
    ]


if __name__ == "__main__":
    sys.stdout.write(render_page(load_causes()))
