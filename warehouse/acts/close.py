"""Closes a month: its money is posted as the ledger gives it, and from then on never changes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from zoneinfo import ZoneInfo

from sqlalchemy import Connection, Engine

from warehouse import books, pipeline
from warehouse.errors import BadInput
from warehouse.ledger.priced import installed_blocks
from warehouse.model.fleet import Site
from warehouse.model.slots import count
from warehouse.model.time import Window, format_instant
from warehouse.pipeline import Act
from warehouse.store import periods, progress, revisions
from warehouse.store.periods import Period


@dataclass(frozen=True, slots=True)
class Closed:
    """What was closed: the revision that did it, the sites, and those that had nothing installed in the month yet."""

    rev: int
    code: str
    sites: tuple[str, ...]
    without_fleet: tuple[str, ...]
    rows: int


@dataclass(frozen=True, slots=True)
class _Month:
    site: Site
    window: Window
    installed_gpu_ms: int
    before: tuple[Period, ...]


def close(engine: Engine, code: str, act: Act, site: str | None = None) -> Closed:
    """Closes a month of one site, or of every site that had a fleet in it, each by its own calendar; all or none.

    Raises:
        BadInput: a line a fault; then nothing is closed.
    """
    try:
        periods.read_code(code)
    except ValueError as exc:
        raise BadInput(str(exc)) from exc
    with engine.begin() as connection:
        revisions.lock_writer(connection)
        rev, before = pipeline.next_revision(connection)
        known = books.facts(connection, rev)
        months = _months(connection, known, code, site)
        # A month without a fleet closes only between others: so that no gap can be left.
        wanted = [m for m in months if m.installed_gpu_ms or m.before]
        if not wanted:
            names = ", ".join(m.site.name for m in months)
            raise BadInput(f"{code}: no GPU was installed in that month (site {names}); nothing to close")
        horizon_ms = before.horizon_ms if before else None
        faults = [
            fault for m in wanted if (fault := _refusal(connection, known, code, m, act.now_ms, horizon_ms)) is not None
        ]
        if faults:
            raise BadInput(*faults)
        rows = 0
        for month in wanted:
            rows += books.post_usage(connection, known, month.site, code)
            periods.add(connection, month.site, code, act.author, act.reason, rev)
        digest = revisions.digest([(code, month.site.name) for month in wanted])
        pipeline.finish(connection, act, rev, before, [], digest, book=False)
        skipped = tuple(m.site.name for m in months if m not in wanted)
        return Closed(rev, code, tuple(m.site.name for m in wanted), skipped, rows)


def _months(connection: Connection, known: books.Facts, code: str, wanted: str | None) -> list[_Month]:
    sites = sorted(known.sites.values(), key=lambda s: s.name)
    if not sites:
        raise BadInput("the ledger has no fleet; load one: gpu-minutes fleet load FILE")
    if wanted is not None and wanted not in {s.name for s in sites}:
        raise BadInput(f"--site: there is no site '{wanted}'; known are {', '.join(s.name for s in sites)}")
    closed = periods.closed_months(connection, known.rev)
    found = []
    for site in sites:
        if wanted in (None, site.name):
            window = periods.month_window(code, ZoneInfo(site.timezone))
            blocks = installed_blocks(known.tenure, (), site, "", window, "XXX")
            area = sum(count(b.slots) * (b.end_ms - b.start_ms) for b in blocks)
            found.append(_Month(site, window, area, tuple(p for p in closed if p.site_id == site.id)))
    return found


def _refusal(
    connection: Connection, known: books.Facts, code: str, month: _Month, now_ms: int, horizon_ms: int | None
) -> str | None:
    """Gives why a month cannot be closed, None where it can."""
    where = f"{code} of site {month.site.name}"
    return (
        _out_of_turn(code, where, month.before)
        or _not_over(where, month, now_ms)
        or _not_booked(connection, where, month, known.rev, horizon_ms)
        or _no_price(known, where, month)
    )


def _out_of_turn(code: str, where: str, before: Sequence[Period]) -> str | None:
    for period in before:
        if period.code == code:
            when = "now" if period.closed_at_ms is None else format_instant(period.closed_at_ms)
            return f"{where} is closed already: {when}, by {period.closed_by}, revision {period.rev}"
    if before and code < (first := before[0].code):
        # Books that began late may still grow backwards, month by month.
        previous = periods.month_before(first)
        said = f"{where}: {previous} is next before {first}, the first month that is closed; close that one first"
        return None if code == previous else said
    if before and code != (following := periods.month_after(before[-1].code)):
        return f"{where}: {following} is next, since {before[-1].code} was closed last; close that one first"
    return None


def _not_over(where: str, month: _Month, now_ms: int) -> str | None:
    if month.window.end_ms <= now_ms:
        return None
    return f"{where} is not over; it ends at {format_instant(month.window.end_ms)} ({month.site.timezone})"


def _not_booked(connection: Connection, where: str, month: _Month, rev: int, horizon_ms: int | None) -> str | None:
    if horizon_ms is None or horizon_ms < month.window.end_ms:
        until = "nothing" if horizon_ms is None else format_instant(horizon_ms)
        end = format_instant(month.window.end_ms)
        return f"{where} is provisional: booked up to {until}; run: gpu-minutes book --to {end}"
    if progress.deferred(connection, month.window, rev):
        return f"{where} is provisional: imported time waits to be booked; run: gpu-minutes book"
    return None


def _no_price(known: books.Facts, where: str, month: _Month) -> str | None:
    if not month.installed_gpu_ms or books.pricing(known, month.site, month.window, {}):
        return None
    cards = ", ".join(sorted({rate.card for rate in known.rates})) or "none"
    return f"{where} has no price at all (rate cards: {cards}); load one: gpu-minutes rates load FILE"
