"""Incidents: which evidence belongs to which at which revision; numbers are given once and stay."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from sqlalchemy import Connection, text

from warehouse.model.cause import Cause, known
from warehouse.model.incident import Incident
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
    """
    numbered = _number(connection, groups, before, predecessor)
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
    connection: Connection, groups: Sequence[Incident], before: Mapping[int, int], predecessor: Mapping[int, int]
) -> dict[int, Incident]:
    """Gives each group its number: the smallest that its evidence had and no earlier group took, else a new one."""
    taken: set[int] = set()
    chosen: list[int | None] = []
    for group in groups:
        ids = [i for m in group.members for i in (m.id, predecessor.get(m.id or 0)) if i is not None]
        number = min((before[i] for i in ids if i in before and before[i] not in taken), default=None)
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


Charge = tuple[int, str, str]


def _charge(
    connection: Connection, numbered: Mapping[int, Incident], causes: Mapping[str, Cause], rev: int
) -> set[int]:
    """Writes charged and contributing causes; gives the incidents whose charged cause is not what it was."""
    wanted: set[Charge] = set()
    for number, group in numbered.items():
        wanted.add((number, group.cause, "charged"))
        wanted |= {(number, m.cause, "contributing") for m in group.members if m.cause not in (None, group.cause)}
    stored: set[Charge] = {
        (row.incident_id, row.cause, row.role)
        for row in connection.execute(
            text(
                "select incident_id, cause, role from incident_cause where incident_id = any(:ids) and upper_inf(revs)"
            ),
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
            (number, cause, known(causes, cause).is_symptom, role, "rules", _REASON[role], revisions_from(rev))
            for number, cause, role in sorted(wanted - stored)
        ),
    )
    return {number for number, _, role in gone if role == "charged"}


_REASON = {"charged": "stated by its evidence", "contributing": "a symptom is never charged"}


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
                    "update incident set merged_into = :into, merged_rev = :rev where id = :i and merged_into is null"
                ),
                {"into": into, "i": number, "rev": rev},
            )
            return
