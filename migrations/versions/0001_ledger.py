"""The ledger: places, tenure, evidence, incidents, entries, rates, each with its revisions.

Why: the database itself must refuse a GPU-instant booked twice, a range that slips past that refusal (empty,
unbounded, NULL, finer than a millisecond) and any rewriting of history. Alembic's autogenerate sees neither EXCLUDE
constraints nor domains nor triggers, so all of it is plain SQL.
Locks: none, the tables are new.
Undo: drops everything, and with it all history.
"""

from __future__ import annotations

from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

STATES = (
    "stranded", "down", "recovering", "maintenance", "spare", "hung", "lost_work", "unusable", "checkpoint", "starved",
    "degraded", "startup", "idle_allocated", "productive", "idle_blocked", "idle", "unknown",
)  # fmt: skip

DOMAINS = f"""
create domain slot_set as int4multirange
  check (value is null or (not isempty(value) and not lower_inf(value) and not upper_inf(value) and lower(value) >= 0));
create domain slot_span as int4range
  check (value is null or (not isempty(value) and not lower_inf(value) and not upper_inf(value) and lower(value) >= 0));
create domain instant as timestamptz
  check (value is null or (isfinite(value) and value = value::timestamptz(3)));
create domain time_span as tstzrange
  check (value is null or (not isempty(value) and lower_inc(value) and not upper_inc(value)
    and not lower_inf(value) and not upper_inf(value) and isfinite(lower(value)) and isfinite(upper(value))
    and lower(value) = lower(value)::timestamptz(3) and upper(value) = upper(value)::timestamptz(3)));
create domain open_span as tstzrange
  check (value is null or (not isempty(value) and lower_inc(value) and not upper_inc(value)
    and not lower_inf(value) and isfinite(lower(value)) and lower(value) = lower(value)::timestamptz(3)
    and (upper_inf(value) or (isfinite(upper(value)) and upper(value) = upper(value)::timestamptz(3)))));
create domain rev_span as int8range
  check (value is null or (not isempty(value) and not lower_inf(value)));
create domain gpu_state as text
  check (value is null or value in ({", ".join(f"'{state}'" for state in STATES)}));
"""

TABLES = """
create table revision (
  rev bigint primary key check (rev > 0),
  recorded_at timestamptz not null default clock_timestamp(),
  kind text not null check (kind in ('fleet', 'rates', 'import', 'observe', 'derive')),
  author text not null,
  engine text not null,
  horizon instant,                       -- booked up to here; NULL until something is booked
  input_digest bytea not null,
  reason text not null,
  chain bytea not null                   -- sha256 over the previous chain, this row and the entries that it changed
);

create table place (
  id int generated always as identity primary key,
  kind text not null check (kind in ('site', 'hall', 'rack', 'node')),
  parent_id int references place,
  name text not null check (name <> ''),
  rev bigint not null check (rev > 0),   -- since which revision it is known
  timezone text, power_domain text, leaf_switch text, blast_domain text,
  check ((kind = 'site') = (parent_id is null)),
  check ((kind = 'site') = (timezone is not null))
);
create unique index uq_place_name on place (kind, coalesce(parent_id, 0), name);
-- What a place covers grows with the fleet; a reader at an old revision sees what it covered then.
create table place_extent (
  place_id int not null references place,
  slots slot_set not null,
  revs rev_span not null,
  place_k int4range generated always as (int4range(place_id, place_id, '[]')) stored,
  constraint ex_place_extent_one_at_a_time exclude using gist (place_k with &&, revs with &&)
);
create index ix_place_extent_slots on place_extent using gist (slots);

create table gpu (
  id int generated always as identity primary key,
  model text not null check (model <> ''),
  uuid text unique,                      -- NULL until a source names the GPU
  serial text
);
create table tenure (
  id bigint generated always as identity primary key,
  gpu_id int not null references gpu,
  slot int not null check (slot >= 0),
  during open_span not null,
  stranded boolean not null,
  revs rev_span not null,
  slot_k int4range generated always as (int4range(slot, slot, '[]')) stored,
  gpu_k int4range generated always as (int4range(gpu_id, gpu_id, '[]')) stored,
  constraint ex_tenure_one_gpu_per_slot exclude using gist (slot_k with &&, during with &&, revs with &&),
  constraint ex_tenure_one_slot_per_gpu exclude using gist (gpu_k with &&, during with &&, revs with &&)
);

create table cause (
  code text primary key check (code ~ '^[a-z_]+/[a-z0-9_]+$'),
  title text not null,
  rank int not null check (rank between 0 and 99),
  is_symptom boolean not null,
  owner text not null,
  unique (code, is_symptom)
);

create table evidence (
  id bigint generated always as identity primary key,
  source text not null check (source <> ''),
  key text not null check (key <> ''),
  revision int not null check (revision > 0),
  scope text not null,
  slots slot_set not null,
  start_at instant not null,
  end_at instant,                        -- NULL: still open
  state gpu_state not null,
  cause text references cause,
  lost_ppm int check (lost_ppm between 0 and 1000000),
  detail text, job text,
  basis text not null check (basis in ('measured', 'inferred')),
  revs rev_span not null,
  unique (source, key, revision),
  check (end_at is null or end_at >= start_at)   -- zero length is a fault that is counted and worth nothing
);
create unique index uq_evidence_head on evidence (source, key) where upper_inf(revs);
create index ix_evidence_span on evidence using gist (tstzrange(start_at, end_at, '[]'));

create table allocation (
  id bigint generated always as identity primary key,
  job text not null check (job <> ''),
  attempt int not null check (attempt >= 0),
  tenant text not null check (tenant <> ''),
  kind text not null check (kind in ('training', 'inference', 'other')),
  name text,
  scope text not null,
  slots slot_set not null,
  start_at instant not null,
  end_at instant,
  revs rev_span not null,
  check (end_at is null or end_at >= start_at)
);
create unique index uq_allocation_head on allocation (job, attempt, scope, start_at) where upper_inf(revs);
create index ix_allocation_span on allocation using gist (tstzrange(start_at, end_at, '[]'));

create table incident (
  id bigint generated always as identity primary key,
  merged_into bigint references incident,
  merged_rev bigint,
  check (merged_into <> id),
  check ((merged_into is null) = (merged_rev is null))
);
create table incident_evidence (
  incident_id bigint not null references incident,
  evidence_id bigint not null references evidence,
  revs rev_span not null,
  evidence_k int8range generated always as (int8range(evidence_id, evidence_id, '[]')) stored,
  constraint ex_incident_evidence_one_incident exclude using gist (evidence_k with &&, revs with &&)
);
create index ix_incident_evidence_incident on incident_evidence (incident_id);
-- Exactly one charged cause at any revision, and never a symptom.
create table incident_cause (
  incident_id bigint not null references incident,
  cause text not null,
  is_symptom boolean not null,
  role text not null check (role in ('charged', 'contributing')),
  set_by text not null,
  reason text not null,
  revs rev_span not null,
  incident_k int8range generated always as (int8range(incident_id, incident_id, '[]')) stored,
  foreign key (cause, is_symptom) references cause (code, is_symptom),
  constraint ck_incident_cause_no_symptom_charged check (role <> 'charged' or not is_symptom),
  constraint ex_incident_cause_one_charged exclude using gist (incident_k with &&, revs with &&)
    where (role = 'charged')
);

create table ledger_entry (
  id bigint generated always as identity primary key,
  slots slot_span not null,
  during time_span not null,
  revs rev_span not null,
  state gpu_state not null,
  lost_ppm int not null,
  cause text references cause,
  incident_id bigint references incident,
  evidence_id bigint references evidence,
  allocation_id bigint references allocation,
  basis text not null check (basis in ('measured', 'inferred', 'presumed', 'none')),
  rule text not null check (rule in ('claim', 'window', 'lost_work', 'silence')),
  constraint ck_ledger_entry_loss check (case
    when state in ('productive', 'unknown') then lost_ppm = 0      -- unknown is summed apart, never good, never lost
    when state in ('degraded', 'starved', 'unusable') then lost_ppm between 1 and 1000000
    else lost_ppm = 1000000 end),
  constraint ck_ledger_entry_nothing_invented check (case
    when rule = 'silence' then state = 'unknown' and evidence_id is null and basis = 'none'
    when state = 'stranded' then true                              -- said by the fleet file, not by evidence
    when basis = 'presumed' then state = 'productive' and allocation_id is not null
    else evidence_id is not null end),
  -- Time first, slots second: measured to load faster than the other order.
  constraint ex_ledger_entry_one_state exclude using gist (during with &&, slots with &&, revs with &&)
);
create index ix_ledger_entry_incident on ledger_entry (incident_id) where incident_id is not null;

-- How far a live source has been read: a note to ourselves, no history.
create table source_progress (source text primary key, observed_until instant not null);
-- Time that an import touched and left to a later booking; answers about it are provisional while it waits.
create table unbooked (during open_span not null, revs rev_span not null);

create table rate_line (
  id int generated always as identity primary key,
  card text not null check (card <> ''),
  model text not null check (model <> ''),
  currency char(3) not null check (currency ~ '^[A-Z]{3}$'),
  unique (card, model)
);
create table rate (
  id bigint generated always as identity primary key,
  line_id int not null references rate_line,
  per_gpu_hour numeric(18, 8) not null check (per_gpu_hour >= 0),
  effective open_span not null,
  contract text, basis text,
  revs rev_span not null,
  line_k int4range generated always as (int4range(line_id, line_id, '[]')) stored,
  constraint ex_rate_one_price exclude using gist (line_k with &&, effective with &&, revs with &&)
);
"""

# The driver reads a lone % as a placeholder.
FUNCTIONS = """
create function slot_count(slots int4multirange) returns bigint language sql immutable parallel safe as
  $$ select coalesce(sum(upper(r) - lower(r)), 0)::bigint from unnest(slots) as r $$;
create function ms_of(moment timestamptz) returns bigint language sql immutable parallel safe as
  $$ select (extract(epoch from moment) * 1000)::bigint $$;
create function span_ms(span tstzrange) returns bigint language sql immutable parallel safe as
  $$ select case when isempty(span) then 0
       else (extract(epoch from upper(span) - lower(span)) * 1000)::bigint end $$;

create function history_only_closes() returns trigger language plpgsql as $$ begin
  if tg_op = 'DELETE' then raise exception '%% is history: rows are never deleted', tg_table_name; end if;
  -- Generated columns are not computed yet in a trigger that runs before the row is written.
  if (to_jsonb(new) - '{revs,slot_k,gpu_k,place_k,evidence_k,incident_k,line_k}'::text[])
      is distinct from (to_jsonb(old) - '{revs,slot_k,gpu_k,place_k,evidence_k,incident_k,line_k}'::text[])
    or not upper_inf(old.revs) or lower(new.revs) <> lower(old.revs) or upper_inf(new.revs) then
    raise exception '%% is history: only closing an open revision span is allowed', tg_table_name; end if;
  return new; end $$;
create function history_refuses() returns trigger language plpgsql as $$ begin
  raise exception '%% is history: %% is refused', tg_table_name, tg_op; end $$;
create function incident_only_merges() returns trigger language plpgsql as $$ begin
  if tg_op = 'DELETE' then raise exception 'incident is history: rows are never deleted'; end if;
  if old.merged_into is not null or new.id <> old.id then
    raise exception 'incident is history: only merging an unmerged incident is allowed'; end if;
  return new; end $$;
"""

CLOSING = (
    "unbooked",
    "place_extent",
    "tenure",
    "evidence",
    "allocation",
    "incident_evidence",
    "incident_cause",
    "ledger_entry",
    "rate",
)
TABLE_NAMES = (
    "source_progress",
    "unbooked",
    "rate",
    "rate_line",
    "ledger_entry",
    "incident_cause",
    "incident_evidence",
    "incident",
    "allocation",
    "evidence",
    "cause",
    "tenure",
    "gpu",
    "place_extent",
    "place",
    "revision",
)


def triggers() -> list[str]:
    """Gives the statements that make history append-only; a row trigger does not see TRUNCATE."""
    statements = [
        f"create trigger only_closes before update or delete on {table} "
        "for each row execute function history_only_closes()"
        for table in CLOSING
    ]
    statements += [
        "create trigger only_merges before update or delete on incident "
        "for each row execute function incident_only_merges()",
        "create trigger never_changes before update or delete on revision "
        "for each row execute function history_refuses()",
    ]
    # The chain and its proof read each table by the revision that opened or closed a row.
    statements += [f"create index ix_{table}_opened on {table} (lower(revs))" for table in CLOSING]
    statements += [
        f"create index ix_{table}_closed on {table} (upper(revs)) where not upper_inf(revs)" for table in CLOSING
    ]
    statements += [
        f"create trigger no_truncate before truncate on {table} execute function history_refuses()"
        for table in (*CLOSING, "incident", "revision")
    ]
    return statements


def upgrade() -> None:
    """Creates domains, tables, functions and triggers."""
    for script in (DOMAINS, TABLES, FUNCTIONS):
        op.get_bind().exec_driver_sql(script)
    for statement in triggers():
        op.execute(statement)
    op.execute("create view ledger_head as select * from ledger_entry where upper_inf(revs)")


def downgrade() -> None:
    """Drops everything that upgrade created."""
    op.execute("drop view ledger_head")
    op.execute("drop table " + ", ".join(TABLE_NAMES) + " cascade")
    for function in (
        "slot_count(int4multirange)", "span_ms(tstzrange)", "ms_of(timestamptz)", "history_only_closes()",
        "history_refuses()", "incident_only_merges()",
    ):  # fmt: skip
        op.execute(f"drop function {function}")
    for domain in ("slot_set", "slot_span", "instant", "time_span", "open_span", "rev_span", "gpu_state"):
        op.execute(f"drop domain {domain}")
