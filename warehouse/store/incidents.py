"""Incidents: which evidence belongs to which at which revision; numbers are given once and stay."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from sqlalchemy import Connection, text

from warehouse.model.cause import Cause
from warehouse.model.cause import known as cause_known
from warehouse.model.incident import BY_RULES, Incident
from warehouse.model.ruling import Name, name_of
from warehouse.store.rows import copy_in, revisions_from, standing


def members_of(connection: Connection, evidence_ids: Iterable[int]) -> dict[int, int]:
    """Gives evidence id -> incident id for every member of every incident that holds one of these."""
    rows = connection.execute(
        text(
            "select evidence_id, incident_id from incident_evidence where upper_inf(revs) and incident_id in "
            "(select incident_id from incident_evidence where upper_inf(revs) and evidence_id = any(:ids))"
        ),
        {"ids": sorted(set(evidence_ids))},
    )
    return {row.evidence_id: row.incident_id for row in rows}


_CHARGED = """
select ie.evidence_id, ie.incident_id, ic.cause from incident_evidence ie
join incident_cause ic on ic.incident_id = ie.incident_id and ic.role = 'charged'
where ie.evidence_id = any(:ids) and """


def incident_of(
    connection: Connection, evidence_ids: Iterable[int], rev: int | None = None
) -> dict[int, tuple[int, str]]:
    """Gives evidence id -> (incident id, charged cause) as it stands, or as it stood at a revision."""
    rows = connection.execute(
        text(_CHARGED + standing(rev, "ie") + " and " + standing(rev, "ic")),
        {"ids": sorted(set(evidence_ids)), "rev": rev},
    )
    return {row.evidence_id: (row.incident_id, row.cause) for row in rows}


# The number of an incident that a ruling named, and the evidence with which it stays.
Kept = tuple[int, Collection[Name]]


def known(connection: Connection, incident_id: int) -> bool:
    """Tells whether an incident ever had this number."""
    return bool(
        connection.execute(
            text("select exists (select 1 from incident where id = :id)"), {"id": incident_id}
        ).scalar_one()
    )


def went_into(connection: Connection, incident_id: int) -> int:
    """Gives the incident that a number leads to by now: itself, or the last of those that it was merged into."""
    return int(
        connection.execute(
            text(
                "with recursive way (id) as (select cast(:id as bigint) union "
                "select i.merged_into from way join incident i on i.id = way.id where i.merged_into is not null) "
                "select way.id from way join incident i on i.id = way.id where i.merged_into is null"
            ),
            {"id": incident_id},
        ).scalar_one()
    )


def evidence_of(connection: Connection, incident_id: int) -> list[Name]:
    """Gives the names of the evidence that an incident holds, in order of onset."""
    rows = connection.execute(
        text(
            "select e.source, e.key from incident_evidence ie join evidence e on e.id = ie.evidence_id "
            "where ie.incident_id = :id and upper_inf(ie.revs) order by e.start_at, e.source, e.key"
        ),
        {"id": incident_id},
    )
    return [(row.source, row.key) for row in rows]


def charge_of(connection: Connection, incident_id: int) -> tuple[str, str]:
    """Gives the charged cause of an incident that has evidence, and who set it."""
    row = connection.execute(
        text(
            "select cause, set_by from incident_cause where incident_id = :id and role = 'charged' and upper_inf(revs)"
        ),
        {"id": incident_id},
    ).one()
    return row.cause, row.set_by


def members_at(connection: Connection, incident_id: int, rev: int) -> list[int]:
    """Gives the ids of the evidence that an incident had at a revision."""
    return list(
        connection.execute(
            text(
                "select evidence_id from incident_evidence where incident_id = :id "
                "and revs @> cast(:rev as bigint) order by 1"
            ),
            {"id": incident_id, "rev": rev},
        ).scalars()
    )


def regroup(
    connection: Connection,
    groups: Sequence[Incident],
    before: Mapping[int, int],
    predecessor: Mapping[int, int],
    causes: Mapping[str, Cause],
    rev: int,
    kept: Kept | None = None,
) -> set[int]:
    """Writes the membership that these groups say, keeping numbers where evidence stayed together.

    Returns:
        The ids of the evidence whose incident or charged cause changed, so that their time is booked again.

    Args:
        groups: incidents whose members carry stored ids.
        before: evidence id -> incident id as it stood.
        predecessor: new evidence id -> id of the revision that it supersedes.
        causes: the catalogue, for symptoms kept as contributing causes.
        rev: the revision being written.
        kept: the number that a person named, and the evidence that keeps it.
    """
    numbered = _number(connection, groups, before, predecessor, kept)
    wanted = {m.id: number for number, g in numbered.items() for m in g.members if m.id is not None}
    recharged = _charge(connection, numbered, causes, rev)
    _close_members(connection, [i for i, number in before.items() if wanted.get(i) != number], rev)
    moved = {i for i, number in wanted.items() if before.get(i) != number}
    copy_in(
        connection, "incident_evidence", ("incident_id", "evidence_id", "revs"), ("int8", "int8", "int8range"),
        ((wanted[i], i, revisions_from(rev)) for i in sorted(moved)),
    )  # fmt: skip
    for number in sorted(set(before.values()) - set(wanted.values())):
        _merge(connection, number, before, wanted, predecessor, rev)
    return moved | {i for i, number in wanted.items() if number in recharged}


def _number(
    connection: Connection,
    groups: Sequence[Incident],
    before: Mapping[int, int],
    predecessor: Mapping[int, int],
    kept: Kept | None,
) -> dict[int, Incident]:
    """Gives each group its number: the smallest that its evidence had and no earlier group took, else a new one.

    The number that a person named stays with the evidence that keeps it, though an older one is at hand.
    """
    named, names = kept or (None, ())
    heir = next((at for at, group in enumerate(groups) if any(name_of(m) in names for m in group.members)), None)
    taken: set[int] = set() if heir is None or named is None else {named}
    chosen: list[int | None] = []
    for at, group in enumerate(groups):
        ids = [i for m in group.members for i in (m.id, predecessor.get(m.id or 0)) if i is not None]
        number = min((before[i] for i in ids if i in before and before[i] not in taken), default=None)
        if at == heir:
            number = named
        if number is not None:
            taken.add(number)
        chosen.append(number)
    fresh = iter(_new(connection, chosen.count(None)))
    return {next(fresh) if n is None else n: g for n, g in zip(chosen, groups, strict=True)}


def _new(connection: Connection, count: int) -> list[int]:
    numbers = list(
        connection.execute(
            text("select nextval(pg_get_serial_sequence('incident', 'id')) from generate_series(1, :count)"),
            {"count": count},
        ).scalars()
    )
    copy_in(connection, "incident", ("id",), ("int8",), ((number,) for number in numbers))
    return numbers


# Incident, cause, role, who set it, why.
Charge = tuple[int, str, str, str, str]


def _charge(
    connection: Connection, numbered: Mapping[int, Incident], causes: Mapping[str, Cause], rev: int
) -> set[int]:
    """Writes charged and contributing causes; gives the incidents whose charged cause is not what it was."""
    wanted: set[Charge] = set()
    for number, group in numbered.items():
        wanted.add((number, group.cause, "charged", group.set_by, group.reason))
        for cause in group.contributing:
            wanted.add((number, cause, "contributing", BY_RULES, _not_charged(cause_known(causes, cause))))
    stored: set[Charge] = {
        (row.incident_id, row.cause, row.role, row.set_by, row.reason)
        for row in connection.execute(
            text("select * from incident_cause where incident_id = any(:ids) and upper_inf(revs)"),
            {"ids": sorted(numbered)},
        )
    }
    gone = sorted(stored - wanted)
    if gone:
        connection.execute(
            text(
                "update incident_cause set revs = int8range(lower(revs), :rev) where upper_inf(revs) and "
                "(incident_id, cause, role) in (select * from "
                "unnest(cast(:ids as bigint[]), cast(:causes as text[]), cast(:roles as text[])))"
            ),
            {"rev": rev, "ids": [g[0] for g in gone], "causes": [g[1] for g in gone], "roles": [g[2] for g in gone]},
        )
    copy_in(
        connection,
        "incident_cause",
        ("incident_id", "cause", "is_symptom", "role", "set_by", "reason", "revs"),
        ("int8", "text", "bool", "text", "text", "text", "int8range"),
        (
            (number, cause, cause_known(causes, cause).is_symptom, role, set_by, reason, revisions_from(rev))
            for number, cause, role, set_by, reason in sorted(wanted - stored)
        ),
    )
    return {number for number, cause, role, *_ in gone if role == "charged" and cause != numbered[number].cause}


def _not_charged(cause: Cause) -> str:
    return "a symptom is never charged" if cause.is_symptom else "another cause is charged"


def _close_members(connection: Connection, evidence_ids: Sequence[int], rev: int) -> None:
    if evidence_ids:
        connection.execute(
            text(
                "update incident_evidence set revs = int8range(lower(revs), :rev) "
                "where upper_inf(revs) and evidence_id = any(:ids)"
            ),
            {"rev": rev, "ids": list(evidence_ids)},
        )


def _merge(
    connection: Connection,
    number: int,
    before: Mapping[int, int],
    wanted: Mapping[int, int],
    predecessor: Mapping[int, int],
    rev: int,
) -> None:
    """Points an incident that lost all its evidence to the one that took it."""
    successor = {old: new for new, old in predecessor.items()}
    for evidence_id, incident_id in sorted(before.items()):
        into = wanted.get(successor.get(evidence_id, evidence_id))
        if incident_id == number and into is not None:
            connection.execute(
                text(
                    "update incident set merged_into = :into, merged_rev = :rev, revs = :revs "
                    "where id = :i and merged_into is null"
                ),
                {"into": into, "i": number, "rev": rev, "revs": revisions_from(rev)},
            )
            return
