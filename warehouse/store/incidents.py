"""Incidents: which evidence belongs to which at which revision; numbers are given once and stay."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from sqlalchemy import Connection, text

from warehouse.model.cause import Cause
from warehouse.model.incident import Incident
from warehouse.store.rows import revisions_from


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


def incident_of(connection: Connection, evidence_ids: Iterable[int]) -> dict[int, tuple[int, str]]:
    """Gives evidence id -> (incident id, charged cause) as it stands."""
    rows = connection.execute(
        text(
            "select ie.evidence_id, ie.incident_id, ic.cause from incident_evidence ie "
            "join incident_cause ic on ic.incident_id = ie.incident_id and ic.role = 'charged' and upper_inf(ic.revs) "
            "where upper_inf(ie.revs) and ie.evidence_id = any(:ids)"
        ),
        {"ids": sorted(set(evidence_ids))},
    )
    return {row.evidence_id: (row.incident_id, row.cause) for row in rows}


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
        The ids of the evidence whose incident changed, so that their time is booked again.

    Args:
        groups: incidents whose members carry stored ids.
        before: evidence id -> incident id as it stood.
        predecessor: new evidence id -> id of the revision that it supersedes.
        causes: the catalogue, for symptoms kept as contributing causes.
        rev: the revision being written.
    """
    taken: set[int] = set()
    wanted: dict[int, int] = {}
    for group in groups:
        old = sorted(
            {
                before[i]
                for member in group.members
                for i in (member.id, predecessor.get(member.id or 0))
                if i is not None and i in before
            }
        )
        number = next((o for o in old if o not in taken), None) or _new(connection)
        taken.add(number)
        for member in group.members:
            assert member.id is not None
            wanted[member.id] = number
        _charge(connection, number, group, causes, rev)
    stale = [i for i, number in before.items() if wanted.get(i) != number]
    _close_members(connection, stale, rev)
    for evidence_id, number in wanted.items():
        if before.get(evidence_id) != number:
            connection.execute(
                text("insert into incident_evidence (incident_id, evidence_id, revs) values (:i, :e, :revs)"),
                {"i": number, "e": evidence_id, "revs": revisions_from(rev)},
            )
    gone = set(before.values()) - set(wanted.values())
    for number in sorted(gone):
        _merge(connection, number, before, wanted, predecessor)
    return {i for i, number in wanted.items() if before.get(i) != number}


def _new(connection: Connection) -> int:
    return int(connection.execute(text("insert into incident default values returning id")).scalar_one())


def _charge(connection: Connection, number: int, group: Incident, causes: Mapping[str, Cause], rev: int) -> None:
    wanted = {(group.cause, "charged")} | {
        (m.cause, "contributing") for m in group.members if m.cause is not None and m.cause != group.cause
    }
    stored = {
        (row.cause, row.role)
        for row in connection.execute(
            text("select cause, role from incident_cause where incident_id = :i and upper_inf(revs)"), {"i": number}
        )
    }
    for cause, role in stored - wanted:
        connection.execute(
            text(
                "update incident_cause set revs = int8range(lower(revs), :rev) "
                "where incident_id = :i and cause = :cause and role = :role and upper_inf(revs)"
            ),
            {"rev": rev, "i": number, "cause": cause, "role": role},
        )
    for cause, role in sorted(wanted - stored):
        connection.execute(
            text(
                "insert into incident_cause (incident_id, cause, is_symptom, role, set_by, reason, revs) "
                "values (:i, :cause, :symptom, :role, 'rules', :reason, :revs)"
            ),
            {
                "i": number,
                "cause": cause,
                "symptom": causes[cause].is_symptom,
                "role": role,
                "reason": "stated by its evidence" if role == "charged" else "a symptom is never charged",
                "revs": revisions_from(rev),
            },
        )


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
) -> None:
    """Points an incident that lost all its evidence to the one that took it."""
    successor = {old: new for new, old in predecessor.items()}
    for evidence_id, incident_id in sorted(before.items()):
        into = wanted.get(successor.get(evidence_id, evidence_id))
        if incident_id == number and into is not None:
            connection.execute(
                text("update incident set merged_into = :into where id = :i and merged_into is null"),
                {"into": into, "i": number},
            )
            return
