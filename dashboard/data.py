"""What the pages read, each answer once per revision: figures come from the views, none is computed here."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import streamlit as st

from dashboard.scope import Scope
from warehouse import config, views
from warehouse.config import Config
from warehouse.errors import BadInput, Unreachable
from warehouse.model.time import MS_PER_DAY, parse_instant
from warehouse.views import Bucket, CauseLoss, Ledger, Part

_LONGEST_BY_DAY_MS = 62 * MS_PER_DAY
_ANSWERS = 64

_opening = threading.Lock()


@dataclass(frozen=True, slots=True)
class Overview:
    """All that the first page shows, read from one snapshot."""

    goodput: dict[str, Any]
    parts: Sequence[Part]
    causes: Sequence[CauseLoss]
    buckets: Sequence[Bucket]
    by: str
    incidents: Sequence[dict[str, Any]]
    incident_count: int
    trust: Trust


@dataclass(frozen=True, slots=True)
class Trust:
    """What a reader needs to know before he believes a figure."""

    revision: int
    newest: bool
    recorded_at: str
    horizon_ms: int
    card: str | None
    card_since: str | None
    observed_ppm: int | None
    unpriced_gpu_ms: int
    provisional: bool
    start: str
    end: str
    cards: tuple[str, ...]
    simulated: bool
    sites: tuple[str, ...]


def overview(scope: Scope) -> Overview:
    """Gives the overview of a scope.

    Raises:
        GpuMinutesError: with a line fit to show.
    """
    where = config.load()
    return _overview(where, _revision(where, scope), scope)


def incidents(scope: Scope) -> tuple[list[dict[str, Any]], Trust]:
    """Gives all incidents that the window saw, the costliest first, with what to trust."""
    where = config.load()
    return _incidents(where, _revision(where, scope), scope)


def incident(scope: Scope, number: int) -> tuple[dict[str, Any] | None, Trust]:
    """Gives one incident over all booked time; None for an unknown number."""
    where = config.load()
    return _incident(where, _revision(where, scope), Scope(card=scope.card, rev=scope.rev, site=scope.site), number)


def has_fleet() -> bool:
    """Tells whether the ledger has a fleet; it may hold prices before."""
    with _ledger(config.load()).snapshot() as (connection, revision):
        return bool(views.fleet(connection, revision.rev))


@st.cache_resource(show_spinner=False)
def _opened(where: Config) -> Ledger:
    return Ledger.open(where)


def _ledger(where: Config) -> Ledger:
    # Two first visitors at once must not start two embedded servers.
    with _opening:
        return _opened(where)


def _revision(where: Config, scope: Scope) -> tuple[int, bool]:
    """Gives the revision to read and whether it is the newest; asked anew on each run."""
    try:
        with _ledger(where).snapshot() as (_, newest):
            newest_rev = newest.rev
    except Unreachable:
        # The next visit opens the ledger anew: an embedded server may have to be started again.
        _opened.clear()
        raise
    rev = newest_rev if scope.rev is None else scope.rev
    if rev > newest_rev:
        raise BadInput(f"there is no revision {rev}; the newest is {newest_rev}")
    return rev, rev == newest_rev


def _ask(connection: Any, revision: Any, scope: Scope) -> views.Question:
    if revision.horizon_ms is None and scope.start_ms is None and scope.end_ms is None:
        raise BadInput("nothing is booked yet; import something, or give a window")
    return views.ask(connection, revision, scope.start_ms, scope.end_ms, scope.card, scope.site)


@st.cache_data(max_entries=_ANSWERS, show_spinner="Reading the ledger")
def _overview(where: Config, rev: tuple[int, bool], scope: Scope) -> Overview:
    with _ledger(where).snapshot(rev[0]) as (connection, revision):
        question = _ask(connection, revision, scope)
        answer = views.goodput(connection, question, "state")
        by = "day" if question.window.length_ms <= _LONGEST_BY_DAY_MS else "month"
        found = views.incidents(connection, question)
        classes = answer["classes"]
        assert isinstance(classes, dict)
        return Overview(
            goodput=answer,
            parts=views.bridge(connection, question, classes),
            causes=views.cause_losses(connection, question),
            buckets=views.calendar(connection, question, by),
            by=by,
            incidents=found[:5],
            incident_count=len(found),
            trust=_trust(connection, revision, question, answer, rev[1]),
        )


@st.cache_data(max_entries=_ANSWERS, show_spinner="Reading the ledger")
def _incidents(where: Config, rev: tuple[int, bool], scope: Scope) -> tuple[list[dict[str, Any]], Trust]:
    with _ledger(where).snapshot(rev[0]) as (connection, revision):
        question = _ask(connection, revision, scope)
        answer = views.goodput(connection, question, "state")
        return views.incidents(connection, question), _trust(connection, revision, question, answer, rev[1])


@st.cache_data(max_entries=_ANSWERS, show_spinner="Reading the ledger")
def _incident(where: Config, rev: tuple[int, bool], scope: Scope, number: int) -> tuple[dict[str, Any] | None, Trust]:
    with _ledger(where).snapshot(rev[0]) as (connection, revision):
        question = views.ask(connection, revision, None, None, scope.card, scope.site)
        answer = views.goodput(connection, question, "state")
        found = views.incident(connection, question, number)
        return found, _trust(connection, revision, question, answer, rev[1])


def _trust(connection: Any, revision: Any, question: views.Question, answer: dict[str, Any], newest: bool) -> Trust:
    installed = answer["installed_gpu_ms"]
    rates = views.rates(connection, question.rev)
    since = [str(rate["effective_from"]) for rate in rates if rate["card"] == question.card]
    in_force = [text for text in since if parse_instant(text) < question.window.end_ms]
    return Trust(
        revision=question.rev,
        newest=newest,
        recorded_at=revision.recorded_at.strftime("%Y-%m-%dT%H:%M:%SZ"),
        horizon_ms=question.horizon_ms,
        card=question.card,
        card_since=max(in_force, key=parse_instant, default=None),
        observed_ppm=None if not installed else 1_000_000 * (installed - answer["classes"]["unknown"]) // installed,
        unpriced_gpu_ms=answer["unpriced_gpu_ms"],
        provisional=answer["provisional"],
        start=answer["window"]["from"],
        end=answer["window"]["to"],
        cards=tuple(sorted({str(rate["card"]) for rate in rates})),
        simulated=views.simulated(connection, question.rev),
        sites=tuple(views.sites(connection, question.rev)),
    )
