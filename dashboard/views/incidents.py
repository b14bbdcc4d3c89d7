"""Incidents: all that the window saw, the costliest first, by cause, status, words and node."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import streamlit as st

from dashboard import data, frame
from dashboard import format as f
from dashboard.filters import STATUSES, Filter, apply, read
from dashboard.scope import Scope

_PAGE = 50


def body(scope: Scope) -> None:
    """Draws the page."""
    found, trust = data.incidents(scope)
    asked, faults = read(st.query_params.to_dict(), {str(incident["cause"]) for incident in found})
    left, right = st.columns([5, 1], vertical_alignment="top")
    shown = apply(found, asked)
    with left:
        frame.headline(_sentence(found, shown))
    with right:
        frame.scope_picker(trust, scope)
    frame.trust_line(trust)
    for fault in faults:
        st.warning(f.markdown(fault))
    chosen = _filters(found, asked)
    if chosen != asked:
        _write(chosen)
        st.rerun()
    if not shown:
        _nothing(bool(found))
        return
    pages = -(-len(shown) // _PAGE)
    at = min(asked.page, pages)
    _list(shown[(at - 1) * _PAGE : at * _PAGE], scope)
    _turn(asked, at, pages)


def _sentence(found: Sequence[dict[str, Any]], shown: Sequence[dict[str, Any]]) -> str:
    running = sum(incident["status"] == "open" for incident in found)
    said = f"{len(found):,} incidents touch this window, {running or 'none'} of them still open"
    if len(shown) != len(found):
        said += f"; {len(shown):,} pass the filter"
    return said + "."


def _filters(found: Sequence[dict[str, Any]], asked: Filter) -> Filter:
    causes = ["", *sorted({str(incident["cause"]) for incident in found})]
    first, second, third, fourth = st.columns([3, 2, 3, 3])
    cause = first.selectbox(
        "Cause", causes, index=causes.index(asked.cause or ""), format_func=lambda code: code or "All causes"
    )
    statuses = ["", *STATUSES]
    status = second.selectbox(
        "Status",
        statuses,
        index=statuses.index(asked.status or ""),
        format_func=lambda name: name.capitalize() or "All",
    )
    text = third.text_input("Words in title or cause", asked.text or "", max_chars=80)
    node = fourth.text_input("Node", asked.node or "", max_chars=80)
    chosen = Filter(cause or None, status or None, text.strip() or None, node.strip() or None, asked.page)
    # Another filter begins on its first page.
    return chosen if chosen == asked else Filter(chosen.cause, chosen.status, chosen.text, chosen.node, 1)


def _write(chosen: Filter) -> None:
    values = chosen.parameters()
    for name in ("cause", "status", "text", "node", "page"):
        st.query_params.pop(name, None)
        if name in values:
            st.query_params[name] = values[name]


def _nothing(some: bool) -> None:
    if not some:
        st.info("No incident touches this window.")
        return
    st.info("No incident passes the filter.")
    if st.button("Clear the filter"):
        _write(Filter())
        st.rerun()


def _list(shown: Sequence[dict[str, Any]], scope: Scope) -> None:
    # Cost stands beside the title: a phone shows the first columns alone.
    rows = [
        (
            frame.incident_link(incident, scope),
            f.cost(incident, incident["currency"]),
            f.short_minutes(incident["lost_gpu_ms"]),
            f"{incident['gpus']:,}",
            f.instant(incident["start"]),
            f.duration(incident["duration_ms"]),
            str(incident["status"]),
            str(incident["cause"]),
        )
        for incident in shown
    ]
    head = ("Incident", "Cost", "GPU-min lost", "GPUs", "Began", "Lasted", "Status", "Cause")
    frame.table(head, rows, numbers=(1, 2, 3), fixed=(4, 5, 6, 7))


def _turn(asked: Filter, at: int, pages: int) -> None:
    if pages == 1:
        return
    back, where, on, _ = st.columns([1, 1, 1, 5], vertical_alignment="center")
    where.caption(f"Page {at} of {pages}")
    step = 0
    if back.button("Back", disabled=at == 1, width="stretch"):
        step = -1
    if on.button("Next", disabled=at == pages, width="stretch"):
        step = 1
    if step:
        _write(Filter(asked.cause, asked.status, asked.text, asked.node, at + step))
        st.rerun()


frame.guarded(body)
