"""Planned time that was declared only after it had begun: allowed, and shown for what it is."""

from __future__ import annotations

from sqlalchemy import Connection, text

from warehouse.store.rows import IN_TIME, instant
from warehouse.views.question import Question

_LATE = f"""
select coalesce(sum(slot_count(int4multirange(e.slots))::numeric * span_ms(e.during * tstzrange(:start, :end))), 0)
from ledger_entry e join evidence ev on ev.id = e.evidence_id
where e.revs @> cast(:rev as bigint) and e.{IN_TIME} and e.state = 'maintenance' and ev.declared_at > ev.start_at
"""


def declared_late_gpu_ms(connection: Connection, question: Question) -> int:
    """Gives the maintenance of a window that was declared after it had begun, in GPU-ms; a part of planned time."""
    values = {
        "rev": question.rev,
        "start": instant(question.window.start_ms),
        "end": instant(question.window.end_ms),
    }
    return int(connection.execute(text(_LATE), values).scalar_one())
