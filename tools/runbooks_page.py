"""Draws the runbooks from the catalogue, a page per category: `python -m tools.runbooks_page docs/runbooks`."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from itertools import groupby
from pathlib import Path

from tools.detector_words import ends, expression
from warehouse.causes import load_causes
from warehouse.model.cause import Cause, Detector

_SEVERITY = {"page": "wakes a person", "ticket": "for working hours", "info": "for information"}


def render_pages(causes: Mapping[str, Cause]) -> dict[str, str]:
    """Gives the pages as Markdown by category; each cause has a section whose anchor is its name."""
    grouped = groupby(causes.values(), key=lambda cause: cause.code.split("/")[0])
    return {category: _page(category, list(group)) for category, group in grouped}


def _page(category: str, causes: list[Cause]) -> str:
    lines = [
        f"# Runbook: {category}",
        "",
        "What to do about each cause of this category; generated from `warehouse/causes/` by",
        "`python -m tools.runbooks_page`. Numbers and dating of the detectors stand in [the causes](../causes.md).",
    ]
    for cause in causes:
        lines += _section(cause)
    return "\n".join(lines) + "\n"


def _section(cause: Cause) -> list[str]:
    steps = [f"{number}. {step}" for number, step in enumerate(cause.runbook, 1)]
    return [
        "",
        f"## {cause.code.split('/')[1]}",
        "",
        f"**{cause.title}** (`{cause.code}`), owner {cause.owner}, paid by {cause.payer}.",
        "",
        f"What it looks like: {cause.signature} It lasts {cause.duration}, and hits: {cause.blast}.",
        "",
        f"First step: {cause.first_step}",
        *(["", "Steps:", "", *steps] if steps else []),
        "",
        *_confirmed(cause),
        "",
        *_cleared(cause),
        "",
        *_alerts(cause),
    ]


def _confirmed(cause: Cause) -> list[str]:
    others = "; ".join(cause.other_sources)
    if not cause.detectors:
        return [f"How to confirm: no series shows it. Other sources: {others or 'none; only a person can tell'}."]
    lines = ["How to confirm, in Prometheus:"]
    for detector in cause.detectors:
        lines += ["", detector.why, "", "```promql", expression(detector), "```"]
    return [*lines, "", f"Other sources: {others or 'none'}."]


def _cleared(cause: Cause) -> list[str]:
    if not cause.detectors:
        return ["What clears it: the end that its evidence states, or a ruling."]
    return ["What clears it:", "", *(f"- `{detector.key}`: {ends(detector)}" for detector in cause.detectors)]


def _alerts(cause: Cause) -> list[str]:
    if not cause.detectors:
        return ["Alert: none, since no series shows it."]
    return ["Alerts:", "", *(_alert(detector) for detector in cause.detectors)]


def _alert(detector: Detector) -> str:
    if detector.fan_in is not None:
        return f"- `{detector.key}` has no rule of its own: it is concluded from `{detector.fan_in.of}`."
    return f"- `{detector.key}`, severity {detector.severity} ({_SEVERITY[detector.severity]})"


def write_pages(folder: Path) -> None:
    """Writes every page, and takes away those of categories that are no more."""
    pages = render_pages(load_causes())
    folder.mkdir(parents=True, exist_ok=True)
    for category, text in pages.items():
        (folder / f"{category}.md").write_text(text, encoding="utf-8")
    for old in folder.glob("*.md"):
        if old.stem not in pages:
            old.unlink()


if __name__ == "__main__":
    write_pages(Path(sys.argv[1]))
