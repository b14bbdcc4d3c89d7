"""How a proof names the place where a law breaks, and the span of time that it looks at."""

from __future__ import annotations

from sqlalchemy import Connection, text

from warehouse.model.time import Window
from warehouse.store import fleet
from warehouse.store.revisions import Revision

# A name is the key where it is the only one of its kind; otherwise its path is, so that no two places share a key.
LABEL = """select p.id as place_id, case when count(*) over (partition by p.name) = 1 then p.name
  else concat_ws('/', d.name, c.name, b.name, p.name) end as key
  from place p left join place b on b.id = p.parent_id left join place c on c.id = b.parent_id
  left join place d on d.id = c.parent_id
  where p.kind = '{kind}' and p.rev <= cast(:rev as bigint)"""


def slot_name(connection: Connection, rev: int, slot: int) -> str:
    """Gives the node and index that a slot has for people, with its number: `n12 GPU 3 (slot 99)`."""
    row = connection.execute(
        text(
            f"with label as ({LABEL.format(kind='node')}) "  # noqa: S608 - a constant of our own
            "select l.key, slot_count(x.slots::int4multirange * int4multirange(int4range(0, :slot))) as position "
            "from place_extent x join label l on l.place_id = x.place_id "
            "where x.revs @> cast(:rev as bigint) and x.slots::int4multirange @> cast(:slot as int) limit 1"
        ),
        {"rev": rev, "slot": slot},
    ).first()
    return f"slot {slot} (of no node)" if row is None else f"{row.key} GPU {row.position} (slot {slot})"


def booked_span(connection: Connection, revision: Revision) -> Window | None:
    """Gives the time from the first commissioning to the horizon, None where nothing is booked."""
    blocks = fleet.tenure_blocks(connection, revision.rev)
    if not blocks or revision.horizon_ms is None:
        return None
    first = min(block.start_ms for block in blocks)
    return Window(first, revision.horizon_ms) if first < revision.horizon_ms else None
