"""What of a batch is new: places its scopes, compares it with what is stored, and refuses contradictions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from sqlalchemy import Connection

from warehouse.errors import Finding
from warehouse.model.evidence import Allocation, Evidence
from warehouse.model.plan import Plan
from warehouse.model.slots import SlotRanges
from warehouse.model.statement import Statement
from warehouse.planning import sort_plans
from warehouse.store import plans
from warehouse.store.evidence import (
    AllocationName,
    allocation_heads,
    allocation_name,
    every_allocation,
    every_head,
    heads,
)
from warehouse.store.scopes import Resolver

Said = Evidence | Allocation | Plan


@dataclass(frozen=True, slots=True)
class Intake:
    """What will be written, what it supersedes, and how many rows only repeated what was known."""

    evidence: tuple[Evidence, ...] = ()
    superseded: tuple[Evidence, ...] = ()
    allocations: tuple[Allocation, ...] = ()
    superseded_allocations: tuple[Allocation, ...] = ()
    plans: tuple[Plan, ...] = ()
    superseded_plans: tuple[Plan, ...] = ()
    repeated: int = 0

    def with_grown(self, grown: Intake) -> Intake:
        """Gives this and, beside it, what a changed fleet made of older words; the newer word wins."""
        said = {(e.source, e.key) for e in self.evidence}
        named = {allocation_name(a) for a in self.allocations}
        return replace(
            self,
            evidence=(*self.evidence, *(e for e in grown.evidence if (e.source, e.key) not in said)),
            superseded=(*self.superseded, *(e for e in grown.superseded if (e.source, e.key) not in said)),
            allocations=(*self.allocations, *(a for a in grown.allocations if allocation_name(a) not in named)),
            superseded_allocations=(
                *self.superseded_allocations,
                *(a for a in grown.superseded_allocations if allocation_name(a) not in named),
            ),
        )


@dataclass(slots=True)
class _Sorted:
    evidence: list[Evidence] = field(default_factory=list)
    superseded: list[Evidence] = field(default_factory=list)
    allocations: list[Allocation] = field(default_factory=list)
    superseded_allocations: list[Allocation] = field(default_factory=list)
    repeated: int = 0


def place(connection: Connection, statements: Sequence[Statement]) -> tuple[list[Statement], list[Finding]]:
    """Gives the statements with their slots, and a finding for each scope that names nothing known."""
    if not statements:
        return [], []
    resolver = Resolver(connection)
    placed: list[Statement] = []
    unplaced: list[tuple[Statement, str]] = []
    for statement in statements:
        said = statement.said
        if said.slots:
            placed.append(statement)
            continue
        try:
            slots = resolver.scope(said.scope, said.start_ms)
        except ValueError as exc:
            unplaced.append((statement, str(exc)))
        else:
            placed.append(replace(statement, said=replace(said, slots=slots)))
    before = _as_before(connection, [statement.said for statement, _ in unplaced])
    findings = []
    for statement, reason in unplaced:
        known = before.get(_name(statement.said))
        if known is None or known.scope != statement.said.scope:
            findings.append(Finding(f"{statement.where}, column scope", reason))
        else:
            placed.append(replace(statement, said=replace(statement.said, slots=known.slots)))
    return placed, findings


def _as_before(connection: Connection, said: Sequence[Said]) -> dict[object, Said]:
    """Gives the stored words of the same names: what they meant they still mean, though the fleet has grown since."""
    before: dict[object, Said] = {}
    evidence = [(item.source, item.key) for item in said if isinstance(item, Evidence)]
    jobs = [item.job for item in said if isinstance(item, Allocation)]
    for name, word in heads(connection, evidence).items() if evidence else ():
        before[name] = word
    for holding, held in allocation_heads(connection, jobs).items() if jobs else ():
        before[holding] = held
    declared = [item.key for item in said if isinstance(item, Plan)]
    for key, plan in plans.heads(connection, declared).items() if declared else ():
        before[key] = plan
    return before


def _name(said: Said) -> object:
    if isinstance(said, Plan):
        return said.key
    return (said.source, said.key) if isinstance(said, Evidence) else allocation_name(said)


def regrown(connection: Connection) -> Intake:
    """Gives stored words whose scope covers other slots since the fleet changed, as further revisions.

    So a rack's outage means the same whether the rack's last node was loaded before it or after.
    """
    resolver = Resolver(connection)
    found = _Sorted()
    for item in every_head(connection):
        slots = _again(resolver, item)
        if slots != item.slots:
            found.superseded.append(item)
            found.evidence.append(replace(item, slots=slots, revision=item.revision + 1))
    for held in every_allocation(connection):
        slots = _again(resolver, held)
        if slots != held.slots:
            found.superseded_allocations.append(held)
            found.allocations.append(replace(held, slots=slots))
    return Intake(
        tuple(found.evidence),
        tuple(found.superseded),
        tuple(found.allocations),
        tuple(found.superseded_allocations),
    )


def _again(resolver: Resolver, said: Evidence | Allocation) -> SlotRanges:
    """Gives the slots of a stored scope as the fleet stands; a name that has become ambiguous keeps what it meant."""
    try:
        return resolver.scope(said.scope, said.start_ms)
    except ValueError:
        return said.slots


def sort_out(connection: Connection, statements: Sequence[Statement], *, revise: bool) -> tuple[Intake, list[Finding]]:
    """Tells new statements from repeated and contradicting ones.

    A known id may only add the end that it lacked, or say the same again; anything else is a fault, unless
    `revise` makes it a further revision.
    """
    found = _Sorted()
    findings = _sort_evidence(connection, statements, found, revise)
    findings += _sort_allocations(connection, statements, found, revise)
    declared, superseded_plans, repeated, contradicting = sort_plans(connection, statements, revise=revise)
    findings += contradicting
    return (
        Intake(
            tuple(found.evidence),
            tuple(found.superseded),
            tuple(found.allocations),
            tuple(found.superseded_allocations),
            tuple(declared),
            tuple(superseded_plans),
            found.repeated + repeated,
        ),
        findings,
    )


def _sort_evidence(
    connection: Connection, statements: Sequence[Statement], found: _Sorted, revise: bool
) -> list[Finding]:
    said = [(s.where, s.said) for s in statements if isinstance(s.said, Evidence)]
    stored = heads(connection, ((e.source, e.key) for _, e in said))
    seen: dict[tuple[str, str], tuple[str, Evidence]] = {}
    written: dict[tuple[str, str], int] = {}
    findings = []
    for where, item in said:
        name = (item.source, item.key)
        if name in seen:
            first = seen[name][1]
            if item.same_statement(first) or first.closes(item):
                found.repeated += 1
            elif item.closes(first):
                # Open first and closed later in one file: the later word only adds the end.
                if name in written:
                    at = written[name]
                    found.evidence[at] = replace(found.evidence[at], end_ms=item.end_ms)
                else:
                    written[name] = len(found.evidence)
                    found.superseded.append(stored[name])
                    found.evidence.append(replace(item, revision=stored[name].revision + 1))
                seen[name] = (where, item)
                found.repeated += 1
            else:
                findings.append(
                    Finding(f"{where}, column id", f"'{item.key}' says something else than in {seen[name][0]}")
                )
            continue
        seen[name] = (where, item)
        known = stored.get(name)
        if known is None:
            written[name] = len(found.evidence)
            found.evidence.append(item)
        elif item.same_statement(known) or known.closes(item):
            # An older export that still shows it open says nothing new.
            found.repeated += 1
        elif item.closes(known) or revise:
            written[name] = len(found.evidence)
            found.superseded.append(known)
            found.evidence.append(replace(item, revision=known.revision + 1))
        else:
            findings.append(
                Finding(
                    f"{where}, column id",
                    f"'{item.key}' of {item.source} is stored with other content; give it a new id, "
                    "or --revise to record a correction",
                )
            )
    return findings


def _sort_allocations(
    connection: Connection, statements: Sequence[Statement], found: _Sorted, revise: bool
) -> list[Finding]:
    said = [(s.where, s.said) for s in statements if isinstance(s.said, Allocation)]
    stored = allocation_heads(connection, (a.job for _, a in said)) if said else {}
    seen: dict[AllocationName, Allocation] = {}
    written: dict[AllocationName, int] = {}
    findings = []
    for where, item in said:
        name = allocation_name(item)
        known = seen.get(name) or stored.get(name)
        closes = known is not None and known.end_ms is None and _same_holding(replace(item, end_ms=None), known)
        if known is None:
            written[name] = len(found.allocations)
            found.allocations.append(item)
        elif _same_holding(item, known) or (item.end_ms is None and _same_holding(item, replace(known, end_ms=None))):
            found.repeated += 1
            continue
        elif closes and name in written:
            # Open first and closed later in one file: the later word only adds the end.
            found.allocations[written[name]] = item
            found.repeated += 1
        elif closes or (revise and name not in seen):
            written[name] = len(found.allocations)
            found.superseded_allocations.append(stored[name])
            found.allocations.append(item)
        else:
            findings.append(_other_holding(where, item, known, repeated=name in seen))
        seen[name] = item
    return findings


def _other_holding(where: str, item: Allocation, known: Allocation, *, repeated: bool) -> Finding:
    """Gives the fault of a row that says something else than what is known under its name: in which columns."""
    pairs = (
        ("tenant", item.tenant, known.tenant),
        ("kind", item.kind, known.kind),
        ("end", item.end_ms, known.end_ms),
        ("name", item.name, known.name),
        ("share", item.share_ppm, known.share_ppm),
    )
    columns = ", ".join(column for column, one, other in pairs if one != other)
    if repeated:
        return Finding(f"{where}, column job", f"'{item.job}' stands in an earlier row with another {columns}")
    return Finding(
        f"{where}, column job",
        f"'{item.job}' is stored with other content in {columns}; --revise records a correction",
    )


def _same_holding(one: Allocation, other: Allocation) -> bool:
    """Tells whether both say the same; slots follow from the scope."""
    return replace(one, id=None, slots=()) == replace(other, id=None, slots=())
