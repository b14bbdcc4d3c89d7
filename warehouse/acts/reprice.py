"""A price changed backwards, on purpose and with a reason: rates are put over those that stand; no entry changes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, Engine

from warehouse import prices
from warehouse.errors import BadInput, bad_rows
from warehouse.ledger import tariff
from warehouse.ledger.repricing import PriceChange, replaced
from warehouse.model.rate import RateSpec
from warehouse.pipeline import Act, Done, finish, next_revision
from warehouse.store import fleet, rates, revisions
from warehouse.views.priced import Loss, cost_of_loss


@dataclass(frozen=True, slots=True)
class Effect:
    """What a card says of all booked loss, by the rates that stood and by those that stand."""

    card: str
    before: Loss
    after: Loss


@dataclass(frozen=True, slots=True)
class Repriced:
    """What a repricing did: the act, each price that is another one now, and what that does to each card."""

    done: Done
    changes: tuple[PriceChange, ...]
    effects: tuple[Effect, ...]


def reprice(engine: Engine, specs: Sequence[RateSpec], act: Act) -> Repriced:
    """Puts rates over those that are stored, each over the whole of its span, as a revision with a reason.

    What is stored is closed, and opened again with what remains of its span. A file that says what stands already
    writes nothing.

    Args:
        engine: the ledger's database.
        specs: the rates to come.
        act: who, when, why; the reason is needed.

    Raises:
        BadInput: without a reason, or where a site without a currency could take two prices; nothing is stored.
    """
    if not act.reason.strip():
        raise BadInput("--reason is blank; say why the price changes backwards")
    with engine.begin() as connection:
        revisions.lock_writer(connection)
        rev, before = next_revision(connection)
        stored = rates.read(connection, rev)
        standing, changes = replaced(stored, dict.fromkeys(specs))
        if not changes:
            return Repriced(Done(rev - 1, False, horizon_ms=before.horizon_ms if before else None), (), ())
        findings = prices.unclear(connection, standing, [rate for rate in standing if rate not in stored], rev)
        if findings:
            raise bad_rows(findings)
        closed = [rate for rate in stored if rate not in standing]
        rates.change(connection, closed, [rate for rate in standing if rate not in stored], rev)
        cards = dict.fromkeys(change.new.card for change in changes)
        effects = tuple(_effect(connection, card, stored, standing, rev) for card in cards)
        spans = [(change.start_ms, change.end_ms) for change in changes]
        done = finish(connection, act, rev, before, spans, revisions.digest(specs), book=False)
        return Repriced(done, tuple(changes), effects)


def _effect(
    connection: Connection, card: str, stored: Sequence[RateSpec], standing: Sequence[RateSpec], rev: int
) -> Effect:
    tenure, sites = fleet.tenure_blocks(connection, rev), fleet.sites(connection, rev)
    before, after = (
        cost_of_loss(connection, tariff.price_blocks(tenure, these, sites, card), rev) for these in (stored, standing)
    )
    return Effect(card, before, after)
