"""The books of closed months: usage when a month is closed, corrections when the ledger learns more about it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from zoneinfo import ZoneInfo

from sqlalchemy import Connection

from warehouse.errors import Finding
from warehouse.ledger.priced import InstalledBlock, installed_blocks, models_repriced
from warehouse.model.fleet import Site, TenureBlock
from warehouse.model.rate import RateSpec
from warehouse.model.time import Window
from warehouse.store import fleet, periods, postings, rates, revisions
from warehouse.store.periods import Period

Span = tuple[int, int | None]

_NAMED_MONTHS = 3


@dataclass(frozen=True, slots=True)
class Facts:
    """What prices depend on, as it stood at a revision."""

    rev: int
    tenure: Sequence[TenureBlock]
    rates: Sequence[RateSpec]
    sites: dict[int, Site]


def facts(connection: Connection, rev: int) -> Facts:
    """Reads fleet, rates and sites of a revision."""
    return Facts(
        rev,
        fleet.tenure_blocks(connection, rev),
        rates.read(connection, rev),
        {site.id: site for site in fleet.sites(connection, rev)},
    )


def pricing(known: Facts, site: Site, window: Window, posted: dict[str, str]) -> dict[str, list[InstalledBlock]]:
    """Gives a site's installed time in a window by each card that prices any of it, or was posted for it before.

    Args:
        known: fleet and rates.
        site: whose time.
        window: which time.
        posted: card -> currency of what already stands in the books.
    """
    found = {}
    currencies = {rate.card: rate.currency for rate in reversed(known.rates)} | posted
    for card, currency in sorted(currencies.items()):
        blocks = installed_blocks(known.tenure, known.rates, site, card, window, site.currency or currency)
        if card in posted or any(block.rate_id is not None for block in blocks):
            found[card] = blocks
    return found


def post_usage(connection: Connection, known: Facts, site: Site, code: str) -> int:
    """Posts a month that is being closed, by every card that prices anything; gives the number of rows."""
    zone = ZoneInfo(site.timezone)
    window = periods.month_window(code, zone)
    blocks = [block for found in pricing(known, site, window, {}).values() for block in found]
    return postings.post_usage(connection, site, code, periods.month_days(window, zone), blocks, known.rev)


def post_corrections(connection: Connection, rev: int, spans: Iterable[Span]) -> int:
    """Posts what an act changed in closed months, each site's into its open month; gives the number of rows.

    Law: afterwards the postings of each closed month sum to what the ledger gives, key by key.

    Args:
        connection: the act's one transaction, after everything it changes is written.
        rev: the revision being written.
        spans: the time whose entries or prices may have changed; nothing else is looked at.
    """
    closed = periods.closed_months(connection, rev)
    spans = list(spans)
    touched = [(period, days) for period in closed if (days := periods.touched_days(period, spans))]
    if not touched:
        return 0
    known = facts(connection, rev)
    billing = {period.site_id: periods.month_after(period.code) for period in closed}  # the last one of a site wins
    posted = postings.cards_posted(connection, rev)
    count = 0
    for period, days in touched:
        site = known.sites[period.site_id]
        standing = {c: money for (at, month, c), money in posted.items() if (at, month) == (site.id, period.code)}
        by_card = pricing(known, site, period.window, standing)
        usual = [block for card in standing for block in by_card[card]]
        fresh = [block for card, blocks in by_card.items() if card not in standing for block in blocks]
        month = periods.month_days(period.window, ZoneInfo(period.timezone))
        # A card that was not in the books of the month posts all of it, and not only the days that were touched.
        late = sorted(by_card.keys() - standing.keys())
        for which, cards, blocks in ((days, sorted(standing), usual), (month, late, fresh)):
            # A card whose GPUs are all gone is compared too: what stood is taken back.
            if cards:
                open_month = billing[site.id]
                count += postings.post_corrections(connection, site, open_month, period.code, which, cards, blocks, rev)
    return count


def first_break(connection: Connection, rev: int) -> str | None:
    """Gives where the postings of a closed month first differ from the ledger as it stood, None where nowhere."""
    known = facts(connection, rev)
    posted = postings.cards_posted(connection, rev)
    for period in periods.closed_months(connection, rev):
        site = known.sites[period.site_id]
        standing = {c: money for (at, month, c), money in posted.items() if (at, month) == (site.id, period.code)}
        blocks = [b for found in pricing(known, site, period.window, standing).values() for b in found]
        days = periods.month_days(period.window, ZoneInfo(period.timezone))
        row = postings.first_break(connection, site, period.code, days, blocks, rev)
        if row is not None:
            named = [row.state, row.cause, None if row.incident_id is None else f"INC-{row.incident_id}", row.tenant]
            what = ", ".join(str(word) for word in (row.model, *named) if word is not None)
            price = "unpriced" if row.per_gpu_hour is None else f"{row.per_gpu_hour.normalize():f} {row.currency}"
            return (
                f"{period.code} of site {site.name}, card {row.card}, {row.charge_day}, {what} at {price}: postings "
                f"and ledger differ by {row.gpu_ms.normalize():f} GPU-ms, {row.lost_gpu_ms.normalize():f} of them lost"
            )
    return None


def rates_touching_closed(connection: Connection, specs: Sequence[RateSpec]) -> list[Finding]:
    """Gives a finding for each card and model whose price these rates would change in a closed month."""
    rev = revisions.newest_rev(connection)
    closed = periods.closed_months(connection, rev)
    if not closed:
        return []
    known = facts(connection, rev)
    after = replace(known, rates=_with(known.rates, specs))
    changed: dict[tuple[str, str], list[Period]] = {}
    for period in closed:
        site = known.sites[period.site_id]
        for card in sorted({spec.card for spec in specs}):
            told = [
                installed_blocks(side.tenure, side.rates, site, card, period.window, "XXX") for side in (known, after)
            ]
            for model in models_repriced(*told):
                changed.setdefault((card, model), []).append(period)
    return [Finding(f"card {card}, model {model}", _refusal(months)) for (card, model), months in changed.items()]


def _with(stored: Sequence[RateSpec], specs: Sequence[RateSpec]) -> list[RateSpec]:
    """Gives the rates as they would stand; a new one goes first, so that one that overlaps a stored one shows."""
    fresh = [spec for spec in dict.fromkeys(specs) if spec not in stored]
    ended = {replace(spec, end_ms=None) for spec in fresh}
    return [*fresh, *(rate for rate in stored if rate not in ended)]


def _refusal(months: Sequence[Period]) -> str:
    named = [f"{period.code} of site {period.site}" for period in months[:_NAMED_MONTHS]]
    if len(months) > _NAMED_MONTHS:
        named.append(f"{len(months) - _NAMED_MONTHS} more")
    return (
        f"would change the price of closed months ({', '.join(named)}); nothing is stored; "
        "gpu-minutes rates reprice FILE --reason TEXT posts corrections"
    )
