"""Overview: what was installed, what of it was good, what the rest was, and what it cost."""

from __future__ import annotations

import streamlit as st

from dashboard import charts, data, frame, words
from dashboard import format as f
from dashboard.data import Overview
from dashboard.scope import Scope


def body(scope: Scope) -> None:
    """Draws the page."""
    found = data.overview(scope)
    left, right = st.columns([5, 1], vertical_alignment="top")
    with left:
        frame.headline(words.headline(found.goodput, found.causes))
    with right:
        frame.scope_picker(found.trust, scope)
    frame.trust_line(found.trust)
    _tiles(found)
    mode, currency = frame.mode(), found.goodput["currency"]
    left, right = st.columns(2, gap="large")
    with left:
        drawing = charts.bridge(found.parts, currency, mode)
        frame.chart(drawing, "From installed to good", "GPU-minutes · share of installed · at the price card", "bridge")
        frame.chart(
            charts.calendar(found.buckets, found.by, mode), f"Loss per {found.by}", "share of installed", "calendar"
        )
    with right:
        drawing = charts.causes(found.causes, currency, mode)
        frame.chart(drawing, "Loss by cause", "unplanned, planned and overhead", "causes")
        _costliest(found, scope)


def _tiles(found: Overview) -> None:
    answer = found.goodput
    currency = answer["currency"]
    lost = words.lost_gpu_ms(answer)
    allocated = answer["allocated_gpu_ms"]
    presumed = answer["presumed_share"]
    card = "no price card is loaded" if answer["price_card"] is None else f"price card {answer['price_card']}"
    tiles = (
        (
            "Goodput of installed",
            f.percent(answer["goodput_of_installed"]),
            words.goodput_bound(answer),
            "good GPU-minutes / installed GPU-minutes. Installed is every GPU of the fleet for all of the window; "
            "unknown time is in the denominator and is not counted as good.",
        ),
        (
            "Goodput of allocated",
            f.percent(answer["goodput_of_allocated"]),
            f"of {f.short_minutes(allocated)} GPU-min" if allocated else "no time is known to be allocated",
            "good GPU-minutes / allocated GPU-minutes. Allocated is time held by a job; time a GPU is down is not. "
            f"Productive without a progress signal: {f.percent(presumed)} of installed.",
        ),
        (
            "Availability",
            f.percent(answer["availability"]),
            words.availability_bound(answer),
            "(installed - stranded - down - recovering - maintenance) / installed. Unknown time counts as available.",
        ),
        (
            "GPU-minutes lost",
            f.short_minutes(lost),
            f"{f.share(lost, answer['installed_gpu_ms'])} of installed",
            "unplanned + planned + overhead GPU-minutes of the window. Unused and unknown time is not loss.",
        ),
        (
            "Cost of loss",
            f.cost(answer, currency, f.short_money),
            card,
            "GPU-minutes lost / 60 x price per GPU-hour in force at that time. Unused and unknown time is priced in "
            "the bridge and never part of this.",
        ),
    )
    for column, (label, value, delta, explained) in zip(st.columns(len(tiles)), tiles, strict=True):
        column.metric(
            label, value, delta, delta_color="off", delta_arrow="off", help=explained, border=True, height="stretch"
        )


def _costliest(found: Overview, scope: Scope) -> None:
    small = f"of {found.incident_count}; figures of this window"
    frame.heading("Costliest incidents", small)
    if not found.incidents:
        st.caption("No incident touches this window.")
        return
    currency = found.goodput["currency"]
    rows = [
        (
            frame.incident_link(incident, scope),
            f.cost(incident, currency, f.short_money),
            f.short_minutes(incident["lost_gpu_ms"]),
            f"{incident['gpus']:,}",
            f.day(incident["start"]),
        )
        for incident in found.incidents
    ]
    frame.table(("Incident", "Cost", "GPU-min lost", "GPUs", "Began"), rows, numbers=(1, 2, 3), fixed=(4,))


frame.guarded(body)
