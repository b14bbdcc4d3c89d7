"""Plans of maintenance on their way into the ledger: what of a batch is new, and which occurrences have begun."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sqlalchemy import Connection

from warehouse.errors import Finding
from warehouse.model.evidence import Evidence
from warehouse.model.plan import SOURCE, Plan, said_by
from warehouse.model.statement import Statement
from warehouse.plans.rule import occurrences
from warehouse.store import evidence, plans, progress
from warehouse.store.scopes import Resolver

Span = tuple[int, int | None]


def sort_plans(
    connection: Connection, statements: Sequence[Statement], *, revise: bool
) -> tuple[list[Plan], list[Plan], int, list[Finding]]:
    """Tells new plans from repeated and contradicting ones.

    A known id may only add when the work really ended, or say the same again; anything else is a fault, unless
    `revise` makes it a further revision.

    Returns:
        The plans to write, those that they supersede, how many rows only repeated what was known, and the faults.
    """
    said = [(s.where, s.said) for s in statements if isinstance(s.said, Plan)]
    stored = plans.heads(connection, (plan.key for _, plan in said)) if said else {}
    fresh: dict[str, Plan] = {}
    seen: dict[str, str] = {}
    repeated = 0
    findings = []
    for where, plan in said:
        known = fresh.get(plan.key) or stored.get(plan.key)
        if known is None or (plan.ends(known) and not plan.same_plan(known)):
            repeated += plan.key in fresh
            fresh[plan.key] = plan
        elif plan.same_plan(known) or known.ends(plan):
            # An older export that does not show the actual end yet says nothing new.
            repeated += 1
        elif plan.key in seen:
            reason = f"'{plan.key}' says something else than in {seen[plan.key]}"
            findings.append(Finding(f"{where}, column id", reason))
        elif revise:
            fresh[plan.key] = plan
        else:
            reason = (
                f"'{plan.key}' is declared with other content; give it a new id, or --revise to record a correction"
            )
            findings.append(Finding(f"{where}, column id", reason))
        seen.setdefault(plan.key, where)
    return list(fresh.values()), [stored[key] for key in fresh if key in stored], repeated, findings


def unfold(connection: Connection, rev: int, old_ms: int | None, horizon_ms: int) -> tuple[list[Span], int]:
    """Writes the occurrences that begin before the new horizon and are no evidence yet; what a revised plan no longer
    says is closed.

    Only the time between the two horizons is unfolded, so an endless rule costs the same in its fifth year. A plan
    that was not booked yet is unfolded from its first occurrence.

    Args:
        connection: the act's transaction.
        rev: the revision being written.
        old_ms: the horizon before this act, None where nothing was booked.
        horizon_ms: the horizon after it.

    Returns:
        The spans whose booking may change, and how many pieces of evidence were written or closed.
    """
    since = min(rev, progress.pending_since(connection) or rev)
    said: list[Evidence] = []
    gone: list[Evidence] = []
    resolver: Resolver | None = None
    for plan, written in plans.standing(connection):
        fresh = written >= since or old_ms is None
        starts = occurrences(plan, 0 if fresh or old_ms is None else old_ms, horizon_ms)
        if not starts and not fresh:
            continue
        resolver = resolver or Resolver(connection)
        wanted = {e.key: e for at_ms in starts for e in said_by(plan, at_ms, _slots(resolver, plan, at_ms))}
        known = plans.said_by(connection, plan.key) if fresh else _known(connection, wanted)
        said += [e for key, e in wanted.items() if key not in known or not e.same_statement(known[key])]
        gone += [e for key, e in known.items() if key not in wanted or not e.same_statement(wanted[key])]
    if not said and not gone:
        return [], 0
    before = plans.last_revisions(connection, (e.key for e in said))
    evidence.close(connection, gone, rev)
    evidence.write(connection, [replace(e, revision=before.get(e.key, 0) + 1) for e in said], rev)
    return [(e.start_ms, e.end_ms) for e in (*said, *gone)], len(said) + len(gone)


def _known(connection: Connection, wanted: dict[str, Evidence]) -> dict[str, Evidence]:
    return {e.key: e for e in evidence.heads(connection, ((SOURCE, key) for key in wanted)).values()}


def _slots(resolver: Resolver, plan: Plan, at_ms: int) -> tuple[tuple[int, int], ...]:
    """Gives the slots of the scope when an occurrence begins; a name that has become ambiguous keeps what it meant."""
    try:
        return resolver.scope(plan.scope, at_ms)
    except ValueError:
        return plan.slots
