"""One incident: what happened, how it is known, and what it cost, to the last figure."""

from __future__ import annotations

import shlex
from typing import Any

import streamlit as st

from dashboard import charts, data, frame
from dashboard import format as f
from dashboard import scope as scopes
from dashboard.data import Trust
from dashboard.frame import Link
from dashboard.scope import Scope
from warehouse.report import markdown
from warehouse.report.figures import minutes

_SHOWN_EVIDENCE = 50


def body(scope: Scope) -> None:
    """Draws the page."""
    asked = st.query_params.get("id")
    if not asked:
        frame.headline("No incident is named in this address.", "Pick one from the list, or add ?id=12 to the address.")
        _back(scope)
        return
    number = scopes.incident_id(asked)
    if number is None:
        st.error(f"'{f.markdown(asked[:40])}' is no incident number such as 12 or INC-12.")
        _back(scope)
        return
    found, trust = data.incident(scope, number)
    if found is None:
        frame.trust_line(trust)
        st.warning(f"There is no incident INC-{number} at revision {trust.revision}; it may not exist, or not yet.")
        _back(scope)
    elif "cause" not in found:
        into = found["merged_into"]
        frame.trust_line(trust)
        st.info(f"INC-{number} was merged into INC-{into}: its evidence and its cost are there.")
        frame.html(frame.anchor(Link(f"Go to INC-{into}", scope.url("/incident", id=str(into)))))
        _back(scope)
    else:
        _incident(found, trust, scope)


def _back(scope: Scope) -> None:
    frame.html(frame.anchor(Link("All incidents", scope.url("/incidents"))))


def _incident(found: dict[str, Any], trust: Trust, scope: Scope) -> None:
    left, right = st.columns([5, 1], vertical_alignment="top")
    with left:
        detail = found["cause_detail"]
        below = (
            f"Cause: {detail['title']} ({found['cause']}). Owner: {detail['owner']}. First step: {detail['first_step']}"
        )
        frame.headline(f"{found['ref']} · {found['title']}", below)
    with right:
        _download(found, scope)
    frame.trust_line(trust)
    if found["status"] == "open":
        st.warning(f"Provisional: this incident is still open; figures run to {f.instant(found['horizon'])}.")
    _tiles(found)
    if found["phases"]:
        drawing = charts.timeline(found["phases"], frame.mode())
        frame.chart(drawing, "Phases", "when each state first and last stood, in UTC", "phases")
        _money(found)
    else:
        st.info("No GPU time is charged to it: its evidence has no length, or other evidence owns its time.")
    _evidence(found)
    _hit(found)
    _back(scope)


def _tiles(found: dict[str, Any]) -> None:
    currency = found["currency"]
    began = f"{f.instant(found['start'])} to {f.instant(found['end'])}"
    card = found["price_card"]
    tiles = (
        (
            "Cost of loss",
            f.cost(found, currency),
            "no price card is loaded" if card is None else f"price card {card}",
            "Each phase's lost GPU-minutes / 60 x the price per GPU-hour in force at that time, summed.",
        ),
        (
            "GPU-minutes lost",
            minutes(found["lost_gpu_ms"]),
            f"of {minutes(found['gpu_ms'])} touched",
            "GPU-minutes of the ledger charged to this incident x the share of each that was lost.",
        ),
        ("GPUs", f"{found['gpus']:,}", _nodes(found), "Installed GPUs that the incident's evidence names."),
        (
            "Status",
            str(found["status"]).capitalize(),
            f.duration(found["duration_ms"]),
            f"{began}. From its first evidence's start to its last one's end.",
        ),
    )
    for column, (label, value, delta, explained) in zip(st.columns(len(tiles)), tiles, strict=True):
        column.metric(
            label, value, delta, delta_color="off", delta_arrow="off", help=explained, border=True, height="stretch"
        )


def _nodes(found: dict[str, Any]) -> str:
    count = len(found["nodes"])
    return "on 1 node" if count == 1 else f"on {count:,} nodes"


def _money(found: dict[str, Any]) -> None:
    currency = found["currency"]
    rows = [
        (
            f.state(phase["state"]),
            f.instant(phase["start"]),
            f.instant(phase["end"]),
            minutes(phase["gpu_ms"]),
            minutes(phase["lost_gpu_ms"]),
            f.cost(phase, currency),
        )
        for phase in found["phases"]
    ]
    total = minutes(found["gpu_ms"]), minutes(found["lost_gpu_ms"]), f.cost(found, currency)
    frame.heading("Money", "the rows sum to the total")
    head = ("Phase", "From", "To", "GPU-minutes", "of them lost", "Cost")
    frame.table(head, [*rows, ("Sum", "", "", *total)], numbers=(3, 4, 5), fixed=(0, 1, 2), total=True)
    if not found["prices"]:
        st.caption("No price applies: this time is unpriced.")
        return
    lines = [_price(p, p.get("currency", currency)) for p in found["prices"]]
    frame.html("".join(f'<p class="gm-sub">{f.html(line)}</p>' for line in lines))


def _price(price: dict[str, Any], currency: str | None) -> str:
    contract = f", contract {price['contract']}" if "contract" in price else ""
    return (
        f"{minutes(price['lost_gpu_ms'])} lost GPU-minutes of model {price['model']}{contract} / 60 × "
        f"{price['per_gpu_hour']} {currency} per GPU-hour, in force since {f.day(price['effective_from'])} = "
        f"{f.money(price['cost_of_loss'], currency)}"
    )


def _evidence(found: dict[str, Any]) -> None:
    rows = [
        (
            f.instant(e["start"]),
            f.instant(e["end"]),
            f.state(e["state"]),
            str(e["scope"]),
            f"{e['source']} ({e['basis']})",
            str(e["detail"] or f.DASH),
            str(e["id"]),
        )
        for e in found["evidence"][:_SHOWN_EVIDENCE]
    ]
    count = len(found["evidence"])
    small = f"{count} records" if count > 1 else "1 record"
    if count > _SHOWN_EVIDENCE:
        small += f", the first {_SHOWN_EVIDENCE} are shown; the report holds all"
    frame.heading("Evidence", small)
    frame.table(("From", "To", "State", "Scope", "Source", "Detail", "Id"), rows, fixed=(0, 1, 2, 4))


def _hit(found: dict[str, Any]) -> None:
    jobs = ", ".join(found["jobs"]) or "none known"
    nodes = ", ".join(found["nodes"][:12]) + (
        f" and {len(found['nodes']) - 12} more" if len(found["nodes"]) > 12 else ""
    )
    contributing = ", ".join(found["contributing"]) or "none"
    frame.heading("Hit")
    lines = (f"Jobs: {jobs}", f"Nodes: {nodes}", f"Contributing causes, charged with nothing: {contributing}")
    frame.html("".join(f'<p class="gm-sub">{f.html(line)}</p>' for line in lines))


def _download(found: dict[str, Any], scope: Scope) -> None:
    command = f"gpu-minutes report incident {found['ref']} --format md --as-of {found['revision']}"
    command += f" --site {shlex.quote(scope.site)}" if scope.site else ""
    command += f" --card {shlex.quote(scope.card)}" if scope.card else ""
    st.download_button(
        "Report",
        lambda: markdown.report(found, command, found["engine"]),
        f"{found['ref']}-revision-{found['revision']}.md",
        "text/markdown",
        on_click="ignore",
        width="stretch",
        help="The postmortem cost report in Markdown: the same bytes as the command line gives at this revision.",
    )


frame.guarded(body)
