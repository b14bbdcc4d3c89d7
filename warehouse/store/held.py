"""Who holds a tile: the SQL that splits shared GPUs by share, used by every figure that names a holder."""

from __future__ import annotations

from warehouse.model.state import ALLOCATED

_STATES = ", ".join(f"'{state.value}'" for state in sorted(ALLOCATED))

# Needs `tile` with the columns of ledger_entry (slots, during and state as the asker made them). Gives each tile once
# per holder: `ppm` of it is held by `tenant` and `job`, NULL for nobody; the ppm of a tile sum to 1,000,000, and `rest`
# is the part that its holders leave. That part is idle where the state is one of a job's work; health (down,
# maintenance) is the whole GPU's. Several jobs that claim more than the whole hold nothing: nobody can say whose it was
# (`rule` conflict).
HELD = f"""
held as (
  select tile.slots, tile.during, tile.state, tile.lost_ppm, tile.cause, tile.incident_id, tile.evidence_id, tile.basis,
    a.tenant, a.job, 1000000 as ppm, false as rest
  from tile left join allocation a on a.id = tile.allocation_id
  where tile.sharers is null or tile.allocation_id is null
  union all
  select tile.slots, tile.during, tile.state, tile.lost_ppm, tile.cause, tile.incident_id, tile.evidence_id, tile.basis,
    a.tenant, a.job, coalesce(a.share_ppm, 1000000), false
  from tile cross join unnest(tile.sharers) as s (id) join allocation a on a.id = s.id
  where tile.allocation_id is not null
  union all
  select tile.slots, tile.during, case when tile.state in ({_STATES}) then 'idle' else tile.state end,
    case when tile.state in ({_STATES}) then 1000000 else tile.lost_ppm end,
    case when tile.state in ({_STATES}) then null else tile.cause end,
    case when tile.state in ({_STATES}) then null else tile.incident_id end,
    case when tile.state in ({_STATES}) then null else tile.evidence_id end,
    case when tile.state in ({_STATES}) then 'none' else tile.basis end,
    null, null, 1000000 - tile.held_ppm, true
  from tile where tile.held_ppm is not null and tile.allocation_id is not null)
"""
