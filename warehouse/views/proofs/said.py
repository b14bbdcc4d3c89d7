"""Law 4: every entry says what something stored has said, and names the incident and cause that it has."""

from __future__ import annotations

from sqlalchemy import Connection, text

from warehouse.model.time import format_instant
from warehouse.store.revisions import Revision
from warehouse.views.proofs.places import slot_name

_INVENTED = """
select e.state || case when e.lost_ppm in (0, 1000000) then '' else ' with a loss of ' || e.lost_ppm || ' ppm' end
  as said, lower(e.slots) as slot, ms_of(lower(e.during)) as at_ms from ledger_entry e
left join evidence ev on ev.id = e.evidence_id left join allocation a on a.id = e.allocation_id
where e.revs @> cast(:rev as bigint) and not coalesce(case
  when e.rule in ('silence', 'conflict') then e.state = 'unknown' and e.lost_ppm = 0 and e.evidence_id is null
  when e.evidence_id is not null then ev.state::text = e.state::text
    and ev.slots::int4multirange @> e.slots::int4range and tstzrange(ev.start_at, ev.end_at) @> e.during::tstzrange
    and e.lost_ppm = coalesce(ev.lost_ppm, case when e.state in ('productive', 'unknown') then 0 else 1000000 end)
  when e.basis = 'presumed' then e.state = 'productive' and a.slots::int4multirange @> e.slots::int4range
    and tstzrange(a.start_at, a.end_at) @> e.during::tstzrange
  else e.state = 'stranded' and (select count(*) from tenure t where t.stranded and e.slots::int4range @> t.slot
    and t.during::tstzrange @> e.during::tstzrange and t.revs @> cast(:rev as bigint)
    ) = upper(e.slots) - lower(e.slots) end, false)
order by lower(e.during), e.slots limit 1
"""

_OTHER_CHARGE = """
select lower(e.slots) as slot, ms_of(lower(e.during)) as at_ms, e.incident_id as said_incident, e.cause as said_cause,
  ie.incident_id, ic.cause
from ledger_entry e
left join incident_evidence ie on ie.evidence_id = e.evidence_id and ie.revs @> cast(:rev as bigint)
left join incident_cause ic on ic.incident_id = ie.incident_id and ic.role = 'charged'
  and ic.revs @> cast(:rev as bigint)
where e.revs @> cast(:rev as bigint) and e.evidence_id is not null
  and (e.incident_id is distinct from ie.incident_id
    or (ie.incident_id is not null and e.cause is distinct from ic.cause))
order by 2, 1 limit 1
"""

# At any revision: an incident has one charged cause, a piece of evidence one incident.
_TWO_CHARGES = """
select a.incident_id, lower(a.revs * b.revs) as rev from incident_cause a
join incident_cause b on b.incident_id = a.incident_id and a.ctid < b.ctid and a.revs && b.revs
where a.role = 'charged' and b.role = 'charged' order by 1, 2 limit 1
"""
_TWO_INCIDENTS = """
select ev.source, ev.key, lower(a.revs * b.revs) as rev from incident_evidence a
join incident_evidence b on b.evidence_id = a.evidence_id and a.ctid < b.ctid and a.revs && b.revs
join evidence ev on ev.id = a.evidence_id order by 1, 2, 3 limit 1
"""


def nothing_invented(connection: Connection, revision: Revision) -> str | None:
    """Every entry lies inside the evidence, allocation or stranded tenure that says its state."""
    row = connection.execute(text(_INVENTED), {"rev": revision.rev}).first()
    if row is None:
        return None
    where = slot_name(connection, revision.rev, row.slot)
    return f"{where} is booked {row.said} at {format_instant(row.at_ms)}, which nothing that was said covers"


def one_charge(connection: Connection, revision: Revision) -> str | None:
    """Every entry names the one incident of its evidence, and the one cause that is charged to it."""
    two = connection.execute(text(_TWO_CHARGES)).first()
    if two is not None:
        return f"INC-{two.incident_id} has two charged causes at revision {two.rev}"
    shared = connection.execute(text(_TWO_INCIDENTS)).first()
    if shared is not None:
        return f"evidence {shared.source}/{shared.key} is in two incidents at revision {shared.rev}"
    row = connection.execute(text(_OTHER_CHARGE), {"rev": revision.rev}).first()
    if row is None:
        return None
    said = _charge(row.said_incident, row.said_cause)
    has = _charge(row.incident_id, row.cause)
    where = slot_name(connection, revision.rev, row.slot)
    return f"{where} at {format_instant(row.at_ms)} is charged to {said}, its evidence to {has}"


def _charge(incident_id: int | None, cause: str | None) -> str:
    return f"{'no incident' if incident_id is None else f'INC-{incident_id}'}, {cause or 'no cause'}"
