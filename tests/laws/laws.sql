-- The conservation laws in SQL alone. Each statement reads nothing but tables and gives no row where its law holds.
-- They stand beside the proofs of `gpu-minutes check` as a second opinion; none of them uses `area`.
-- A statement begins with its number and name; parameters: none. Laws of the head read rows whose `revs` is open.

-- 1 area: at every revision, entries have the area of tenure from commissioning to that revision's horizon.
select r.rev, booked.ms, installed.ms
from revision r
cross join lateral (
  select coalesce(sum((upper(slots) - lower(slots)) * span_ms(during)), 0) as ms from ledger_entry
  where revs @> r.rev) as booked
cross join lateral (
  select coalesce(sum(span_ms(during * tstzrange(null, r.horizon))), 0) as ms from tenure
  where gpu_id is not null and revs @> r.rev and r.horizon is not null) as installed
where booked.ms <> installed.ms;

-- 2 point: no slot has two entries at an instant of any revision, and at the head the booked instants of a slot are
-- those of its tenure.
select a.slots * b.slots, a.during * b.during, a.revs * b.revs
from ledger_entry a join ledger_entry b on a.id < b.id and a.slots && b.slots and a.during && b.during and a.revs && b.revs;

-- 2 point, no gap and nothing outside
select slot, booked.during, installed.during
from (
  select slot, range_agg(e.during) as during from ledger_entry e, generate_series(lower(slots), upper(slots) - 1) as slot
  where upper_inf(e.revs) group by slot) as booked
full join (
  select t.slot, range_agg(t.during * tstzrange(null, r.horizon)) as during
  from tenure t cross join lateral (select horizon from revision order by rev desc limit 1) as r
  where t.gpu_id is not null and upper_inf(t.revs) and r.horizon > lower(t.during) group by t.slot) as installed using (slot)
where booked.during is distinct from installed.during;

-- 3 roll-up: what a place covers is what the places in it cover, each slot once, and all that is installed is in a site.
select p.kind, p.name, mine.slots, theirs.slots
from place p
join place_extent mine on mine.place_id = p.id and upper_inf(mine.revs)
join lateral (
  select range_agg(part) as slots, sum(upper(part) - lower(part)) as counted
  from place c join place_extent x on x.place_id = c.id and upper_inf(x.revs) cross join unnest(x.slots) as part
  where c.parent_id = p.id) as theirs on p.kind <> 'node'
where mine.slots::int4multirange is distinct from theirs.slots or slot_count(theirs.slots) <> theirs.counted;

-- 3 roll-up, tenure
select t.slot, count(x.place_id) from tenure t
left join (place_extent x join place p on p.id = x.place_id and p.kind = 'site') on x.slots @> t.slot and upper_inf(x.revs)
where upper_inf(t.revs) group by t.id, t.slot having count(x.place_id) <> 1;

-- 4 order: one word stands per name, however often and in whatever order it was said, and revisions count up.
select source, key from evidence group by source, key
having count(*) filter (where upper_inf(revs)) <> 1 or count(*) <> max(revision);

-- 5 idempotence: no revision closes an entry and opens the very same again.
select closed.id, opened.id from ledger_entry closed join ledger_entry opened
  on upper(closed.revs) = lower(opened.revs) and closed.slots = opened.slots and closed.during = opened.during
  and (closed.state, closed.lost_ppm, closed.basis, closed.rule)
    = (opened.state, opened.lost_ppm, opened.basis, opened.rule)
  and (closed.cause, closed.incident_id, closed.evidence_id, closed.allocation_id, closed.held_ppm, closed.sharers)
    is not distinct from
    (opened.cause, opened.incident_id, opened.evidence_id, opened.allocation_id, opened.held_ppm, opened.sharers);

-- 6 split and merge: entries are canonical, so that no two of one day could be one.
select a.id, b.id from ledger_head a join ledger_head b on a.id <> b.id
  and ((a.slots = b.slots and upper(a.during) = lower(b.during)
      and date_trunc('day', lower(a.during), 'UTC') = date_trunc('day', lower(b.during), 'UTC'))
    or (a.during = b.during and upper(a.slots) = lower(b.slots)))
  and (a.state, a.lost_ppm, a.basis, a.rule) = (b.state, b.lost_ppm, b.basis, b.rule)
  and (a.cause, a.incident_id, a.evidence_id, a.allocation_id, a.held_ppm, a.sharers)
    is not distinct from (b.cause, b.incident_id, b.evidence_id, b.allocation_id, b.held_ppm, b.sharers);

-- 7 monotone: no instant that evidence calls down is booked as anything that down outranks, but where maintenance that
-- began before it owns the instant.
select e.id, ev.key from ledger_head e join evidence ev on upper_inf(ev.revs) and ev.state = 'down'
  and ev.slots && e.slots and tstzrange(ev.start_at, ev.end_at) && e.during
where e.state not in ('down', 'stranded', 'maintenance') and not exists (
  select 1 from evidence w where upper_inf(w.revs) and w.state = 'maintenance' and w.slots && e.slots
    and w.start_at <= ev.start_at and tstzrange(w.start_at, w.end_at) && e.during);

-- 8 incidents: an entry is in the incident of its evidence and no other, and every incident has one charged cause.
select e.id, e.incident_id, ie.incident_id from ledger_head e
left join incident_evidence ie on ie.evidence_id = e.evidence_id and upper_inf(ie.revs)
where e.incident_id is distinct from ie.incident_id;

-- 8 incidents, charge
select ie.incident_id, count(distinct ic.cause) from incident_evidence ie
left join incident_cause ic on ic.incident_id = ie.incident_id and ic.role = 'charged' and upper_inf(ic.revs)
where upper_inf(ie.revs) group by ie.incident_id having count(distinct ic.cause) <> 1;

-- 9 money: no line of a rate card has two prices at an instant of any revision.
select a.id, b.id from rate a join rate b on a.id < b.id and a.line_id = b.line_id
  and a.effective && b.effective and a.revs && b.revs;

-- 10 calendar: no entry crosses a UTC midnight, so that a day of any zone is made of parts of whole entries.
select id, during from ledger_entry
where date_trunc('day', lower(during), 'UTC') <> date_trunc('day', upper(during) - interval '1 millisecond', 'UTC');

-- 13 no clamping: a loss is what its state allows, unknown is neither good nor lost, silence is always unknown.
select id, state, lost_ppm from ledger_entry
where lost_ppm not between 0 and 1000000
  or (state in ('productive', 'unknown') and lost_ppm <> 0)
  or (rule in ('silence', 'conflict') and state <> 'unknown')
  or (state not in ('productive', 'unknown', 'degraded', 'starved', 'unusable') and lost_ppm <> 1000000);

-- 13 no clamping, invented: an entry says no more than the words that it names.
select e.id, e.state, ev.state from ledger_head e
left join evidence ev on ev.id = e.evidence_id left join allocation a on a.id = e.allocation_id
where (e.evidence_id is not null and (ev.state::text <> e.state::text
    or not ev.slots @> e.slots or not tstzrange(ev.start_at, ev.end_at) @> e.during
    or (ev.lost_ppm is not null and ev.lost_ppm <> e.lost_ppm)))
  or (e.basis = 'presumed' and (a.id is null or not a.slots @> e.slots
    or not tstzrange(a.start_at, a.end_at) @> e.during));
