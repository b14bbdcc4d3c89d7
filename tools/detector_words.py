"""What the generated pages say of a detector: who sees its cause, how edges are dated, what is lost, what ends it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from warehouse.detect.render import plain
from warehouse.detect.site import Site
from warehouse.model.cause import Cause, Detector, FanIn, Threshold, Witness
from warehouse.model.state import PPM, default_lost_ppm
from warehouse.model.time import format_duration

_HALF = {
    "min": "the onset is moved back by as much, since a minimum becomes true late",
    "max": "the end is moved back by as much, since a maximum or an increase stays true late",
    "mean": "both edges are moved back by half of it",
}


def seen_by(cause: Cause) -> str:
    """Gives all that can see a cause: detectors, then other sources; never an empty text."""
    detectors = ", ".join(f"`{detector.key}`" for detector in cause.detectors)
    others = "; ".join(cause.other_sources)
    return cell("; ".join(part for part in (detectors, others) if part) or "nothing")


def cell(text: str) -> str:
    """Gives a text as a cell of a table."""
    return text.replace("|", "\\|").replace("\n", " ")


def expression(detector: Detector) -> str:
    """Gives the expression with the catalogue's numbers, or in words what fans in."""
    if detector.fan_in is not None:
        return f"# {fans_in(detector.fan_in)}"
    return plain(detector, Site())


def fans_in(rule: FanIn) -> str:
    """Gives in words which evidence makes a domain's cause."""
    share = f"{rule.share_ppm * 100 / PPM:g} %"
    within = format_duration(rule.within_ms)
    return f"{rule.of} of at least {rule.at_least} nodes and {share} of a domain within {within}: {rule.why}"


def thresholds(detector: Detector) -> list[str]:
    """Gives the table of a detector's numbers, with the shortest hit as the first."""
    rows = [
        ("min_duration_s", f"{detector.min_duration_ms / 1000:g}", "s", "shorter hits are dropped"),
        *((t.name, number(t.default), t.unit, t.why + _allowed(t)) for t in detector.thresholds),
    ]
    if detector.momentary:
        rows = rows[1:]
    if not rows:
        return []
    head = ["| Threshold | Default | Unit | Source |", "|--|--:|--|--|"]
    return head + [f"| `{name}` | {value} | {cell(unit)} | {cell(why)} |" for name, value, unit, why in rows]


def _allowed(threshold: Threshold) -> str:
    return f"; one of {', '.join(map(number, threshold.allowed))}" if threshold.allowed else ""


def number(value: float) -> str:
    """Gives a number as people write it."""
    return f"{int(value):,}" if value == int(value) else f"{value:g}"


def edges(detector: Detector) -> str:
    """Gives in one or two sentences how onset and end are dated."""
    if detector.fan_in is not None:
        return f"Those of `{detector.fan_in.of}`."
    return " ".join(_edges(detector))


def _edges(detector: Detector) -> Iterator[str]:
    if detector.momentary:
        when = (
            "the Unix time that the series itself gives"
            if detector.dated_by_value
            else "the first scrape that shows it"
        )
        yield f"An event without length, at {when}."
        return
    if detector.witnesses:
        yield f"Both are raw samples of {' and '.join(map(_witness, detector.witnesses))}."
    elif detector.onset_expr:
        yield "By the condition at each scrape; the expression itself, over its window, only confirms it."
    elif detector.window_ms:
        yield f"By the same expression over two scrapes and a half; {_HALF[detector.window_of]}."
    else:
        yield "To the scrape."
    if detector.dated_by_value:
        yield "The onset is the Unix time that the series itself gives."
    if detector.stitch_ms:
        yield f"Hits at most {format_duration(detector.stitch_ms)} apart are one episode."


def _witness(witness: Witness) -> str:
    name = f"{witness.metric}{{{witness.matchers}}}" if witness.matchers else witness.metric
    return f"`{name} {witness.op} {witness.value}`"


def loss(detector: Detector) -> str:
    """Gives in words which part of the GPU time is lost."""
    if detector.momentary:
        return "None by itself: it is counted."
    if detector.lost_expr:
        known = "" if detector.lost_ppm is None else f"; where the series do not say it, {_percent(detector.lost_ppm)}"
        return f"The mean over the episode of `{_lost(detector)}`{known}."
    if detector.lost_ppm is not None:
        return f"{_percent(detector.lost_ppm)}, by the kind of fault."
    return f"{_percent(default_lost_ppm(detector.state))}, by the state."


def _lost(detector: Detector) -> str:
    return plain(replace(detector, expr=detector.lost_expr), Site())


def _percent(ppm: int) -> str:
    return f"{ppm * 100 / PPM:g} %"


def ends(detector: Detector) -> str:
    """Gives in words what ends an episode."""
    if detector.momentary:
        return "Nothing to clear: it is an event."
    if detector.clears:
        by = " or ".join(f"`{plain(replace(detector, expr=clear), Site())}`" for clear in detector.clears)
        return (
            f"Latched: it lasts until the time that {by} gives lies after its onset, whatever the series do meanwhile."
        )
    return "It ends when the series show it no more."
