"""What stands in the books: the months of each site, and of one month its usage and the corrections of earlier ones.

Everything is read from postings, which never change; a month that was closed reads the same for ever.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from zoneinfo import ZoneInfo

from sqlalchemy import Connection, text

from warehouse import books
from warehouse.errors import BadInput
from warehouse.ledger.price import largest_remainder
from warehouse.model.fleet import Site
from warehouse.model.money import minor_digits
from warehouse.model.slots import overlap
from warehouse.model.state import GpuTimeClass, State, class_of
from warehouse.model.time import MS_PER_HOUR, Window, format_instant, from_datetime
from warehouse.store import fleet, periods
from warehouse.store.periods import Period
from warehouse.store.revisions import Revision
from warehouse.views.tiles import CHARGED

POSTING_GROUPINGS = ("state", "cause", "class", "incident", "tenant", "day")

_KEYS = {
    "state": "state",
    "class": "state",
    "cause": "coalesce(cause, 'none')",
    "incident": "coalesce('INC-' || incident_id, 'none')",
    "tenant": "coalesce(tenant, 'none')",
    "day": "to_char(charge_day, 'YYYY-MM-DD')",
}
_READ = """
select card, currency, charge, {key} as key, state, incident_id is not null as linked, per_gpu_hour,
  sum(gpu_ms) as gpu_ms, sum(lost_gpu_ms) as lost_gpu_ms, count(*) as postings
from posting where site_id = :site and billing = :billing and revs @> cast(:rev as bigint)
  and card = coalesce(cast(:card as text), card)
group by 1, 2, 3, 4, 5, 6, 7 order by 1, 2, 3
"""

Dict = dict[str, object]


def ties(connection: Connection, revision: Revision) -> str | None:
    """Law 6 in money: the postings of each closed month sum to what the ledger of a revision gives, exactly.

    Returns:
        None where it holds; else the first month and key that break it, with the difference.
    """
    return books.first_break(connection, revision.rev) or _bad_reversal(connection, revision.rev)


def _bad_reversal(connection: Connection, rev: int) -> str | None:
    """Gives a row that takes back another than whole, or one that was taken back before; None where there is none."""
    row = connection.execute(
        text(
            """
            select r.id, r.reverses, p.charge from posting r join posting p on p.id = r.reverses
            where r.revs @> cast(:rev as bigint) and (p.reverses is not null or r.gpu_ms <> -p.gpu_ms
              or r.lost_gpu_ms <> -p.lost_gpu_ms or r.per_gpu_hour is distinct from p.per_gpu_hour
              or (r.site_id, r.charge, r.charge_day, r.card) <> (p.site_id, p.charge, p.charge_day, p.card)
              or exists (select 1 from posting o where o.reverses = r.reverses and o.id < r.id))
            order by r.id limit 1
            """
        ),
        {"rev": rev},
    ).first()
    if row is None:
        return None
    return f"{row.charge}: posting {row.id} does not take back posting {row.reverses} once and whole"


def period_months(connection: Connection, revision: Revision, until_ms: int) -> list[Dict]:
    """Gives the months of every site from its first GPU or first closed month up to `until_ms`."""
    closed: dict[int, list[Period]] = defaultdict(list)
    for period in periods.closed_months(connection, revision.rev):
        closed[period.site_id].append(period)
    tenure = fleet.tenure_blocks(connection, revision.rev)
    found = []
    for site in fleet.sites(connection, revision.rev):
        zone = ZoneInfo(site.timezone)
        known = {period.code: period for period in closed[site.id]}
        starts = [block.start_ms for block in tenure if overlap(block.slots, site.slots)]
        codes = [*known, *([periods.month_of(min(starts), zone)] if starts else [])]
        if not codes:
            continue
        code, last = min(codes), max([*known, periods.month_of(until_ms, zone)])
        while code <= last:
            found.append(_month(site, code, known.get(code)))
            code = periods.month_after(code)
    return found


def _month(site: Site, code: str, period: Period | None) -> Dict:
    window = periods.month_window(code, ZoneInfo(site.timezone)) if period is None else period.window
    return {
        "site": site.name,
        "month": code,
        "timezone": site.timezone if period is None else period.timezone,
        "from": format_instant(window.start_ms),
        "to": format_instant(window.end_ms),
        "hours": _hours(window),
        "status": "open" if period is None else "closed",
        "closed_at": None if period is None or period.closed_at_ms is None else format_instant(period.closed_at_ms),
        "closed_by": None if period is None else period.closed_by,
        "closed_revision": None if period is None else period.rev,
        "reason": None if period is None else period.reason,
    }


def _hours(window: Window) -> str:
    return f"{Decimal(window.length_ms) / MS_PER_HOUR:f}"


def period_books(
    connection: Connection, revision: Revision, code: str, site: str | None, card: str | None, by: str
) -> Dict:
    """Gives the books of a month: per site and card its usage, then corrections by the month that they correct.

    A row's `worth` prices all of its time, `cost_of_loss` the lost part of unplanned, planned and overhead; both are
    None where nothing of it has a price. Each is rounded once, so that rows sum to their month of charge,
    and these to the total.

    Raises:
        BadInput: for what is no month, an unknown site, or a card that is not in these books.
    """
    try:
        periods.read_code(code)
    except ValueError as exc:
        raise BadInput(str(exc)) from exc
    sites = fleet.sites(connection, revision.rev)
    names = [s.name for s in sites]
    if site is not None and site not in names:
        raise BadInput(f"--site: there is no site '{site}'; known are {', '.join(names) or 'none'}")
    closed = {(p.site_id, p.code): p for p in periods.closed_months(connection, revision.rev)}
    answers = []
    for found in sites:
        if site in (None, found.name):
            accounts = _accounts(connection, found, code, revision.rev, card, by)
            month = _month(found, code, closed.get((found.id, code)))
            if periods.month_window(code, ZoneInfo(found.timezone)).start_ms >= from_datetime(revision.recorded_at):
                month["status"] = "to come"
            answers.append(month | {"books": accounts})
    if card is not None and not any(answer["books"] for answer in answers):
        raise BadInput(f"--card: nothing of a card '{card}' stands in the books of {code}")
    return {"revision": revision.rev, "period": code, "by": by, "sites": answers}


@dataclass(slots=True)
class _Sums:
    """Exact sums of one row, money in units of the currency; `priced` counts the postings that have a price."""

    gpu_ms: Fraction = Fraction(0)
    lost_gpu_ms: Fraction = Fraction(0)
    unpriced_gpu_ms: Fraction = Fraction(0)
    worth: Fraction = Fraction(0)
    cost_of_loss: Fraction = Fraction(0)
    postings: int = 0
    priced: int = 0


@dataclass(slots=True)
class _Account:
    """The books of one site, card and currency: rows by month of charge and key."""

    card: str
    currency: str
    charges: dict[str, dict[str, _Sums]] = field(default_factory=dict)


def _accounts(connection: Connection, site: Site, code: str, rev: int, card: str | None, by: str) -> list[Dict]:
    values = {"site": site.id, "billing": code, "rev": rev, "card": card}
    accounts: dict[tuple[str, str], _Account] = {}
    for row in connection.execute(text(_READ.format(key=_KEYS[by])), values):
        account = accounts.setdefault((row.card, row.currency), _Account(row.card, row.currency))
        charge = account.charges.setdefault(row.charge, {})
        gpu_class = class_of(State(row.state), row.linked)
        gpu_ms, lost = Fraction(row.gpu_ms), Fraction(row.lost_gpu_ms)
        for key, time, lost_time in _shares(by, row.key, gpu_class, gpu_ms, lost):
            sums = charge.setdefault(key, _Sums())
            sums.gpu_ms += time
            sums.lost_gpu_ms += lost_time
            sums.postings += row.postings
            if row.per_gpu_hour is None:
                sums.unpriced_gpu_ms += time
                continue
            sums.priced += row.postings
            per_gpu_ms = Fraction(row.per_gpu_hour) / MS_PER_HOUR
            sums.worth += time * per_gpu_ms
            if gpu_class in CHARGED:
                sums.cost_of_loss += lost_time * per_gpu_ms
    return [_told(account, code, by) for account in accounts.values()]


def _shares(
    by: str, key: str, gpu_class: GpuTimeClass, gpu_ms: Fraction, lost: Fraction
) -> list[tuple[str, Fraction, Fraction]]:
    """Gives (key, time, lost time): by class the kept part of a partial state is good; unknown is whole and no loss."""
    if by != "class":
        return [(key, gpu_ms, lost)]
    if gpu_class in (GpuTimeClass.GOOD, GpuTimeClass.UNKNOWN):
        return [(gpu_class.value, gpu_ms, lost)]
    kept = [(GpuTimeClass.GOOD.value, gpu_ms - lost, Fraction(0))] if gpu_ms != lost else []
    return [(gpu_class.value, lost, lost), *kept]


_TIMES = ("gpu_ms", "lost_gpu_ms", "unpriced_gpu_ms")
_AMOUNTS = ("worth", "cost_of_loss")
FIGURES = (*_TIMES, *_AMOUNTS)


def _told(account: _Account, code: str, by: str) -> Dict:
    """Rounds an account: each figure once, rows into months of charge into the total."""
    charges = sorted(account.charges, key=lambda charge: (charge != code, charge))
    keys = {charge: _in_order(account.charges[charge], by) for charge in charges}
    total: Dict = {}
    tops: list[Dict] = [{} for _ in charges]
    rows: list[list[Dict]] = [[{"key": key} for key in keys[charge]] for charge in charges]
    for name in FIGURES:
        digits = minor_digits(account.currency) if name in _AMOUNTS else 0
        exact = [[getattr(account.charges[c][key], name) * 10**digits for key in keys[c]] for c in charges]
        sums = [sum(parts, Fraction(0)) for parts in exact]
        whole = round(sum(sums, Fraction(0)))
        priced = [[account.charges[c][key].priced for key in keys[c]] for c in charges]
        total[name] = _figure(name, whole, digits, any(map(any, priced)))
        for at, top in enumerate(largest_remainder(sums, whole)):
            tops[at][name] = _figure(name, top, digits, any(priced[at]))
            parts = largest_remainder(exact[at], top)
            for row, part, known in zip(rows[at], parts, priced[at], strict=True):
                row[name] = _figure(name, part, digits, bool(known))
    for at, charge in enumerate(charges):
        for row, key in zip(rows[at], keys[charge], strict=True):
            row["postings"] = account.charges[charge][key].postings
    told = [
        {"charge": charge, "kind": "usage" if charge == code else "correction", **tops[at], "rows": rows[at]}
        for at, charge in enumerate(charges)
    ]
    return {"card": account.card, "currency": account.currency, **total, "charges": told}


def _figure(name: str, units: int, digits: int, priced: bool) -> object:
    """Gives time as it is, and an amount only where there is a price: without one it is unknown and not zero."""
    if name not in _AMOUNTS:
        return units
    return str(Decimal(units).scaleb(-digits)) if priced else None


def _in_order(rows: dict[str, _Sums], by: str) -> list[str]:
    """Gives the keys in reading order: states and classes as they are declared, days by date, else by loss."""
    if by in ("state", "class"):
        order: Sequence[str] = [member.value for member in (State if by == "state" else GpuTimeClass)]
        return [name for name in order if name in rows]
    if by == "day":
        return sorted(rows)
    return sorted(rows, key=lambda key: (key == "none", -rows[key].lost_gpu_ms, key))
