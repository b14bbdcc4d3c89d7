"""What finance needs: rulings, closed periods, maintenance plans, shares, contracts, and a cheaper refusal of overlaps.

Why: exclusion over three range columns loads 5,000 rows a second, over one box and the revisions 55,000 (PostgreSQL 18,
220,000 rows, two cores); both refuse the same rows. A box is closed and holds floats, so it ends half a unit early:
slots and milliseconds are integers far below 2^53, and halves of them are exact.
New columns of old tables are NULL for what was written before, and NULL stays out of the chain's words (`LATER` in
`warehouse/store/revisions.py`): a chain that was written before this migration still proves.
Locks: rewrites ledger_entry and tenure, and builds their constraints again; minutes for millions of rows.
Undo: drops the new tables and columns, and with them rulings, closed periods, shares, contracts and plans.
"""

from __future__ import annotations

from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

KINDS_BEFORE = "'fleet', 'rates', 'import', 'observe', 'derive'"
KINDS = KINDS_BEFORE + ", 'ruling', 'close', 'reprice'"

FUNCTIONS = """
create function area_of(slots int4range, during tstzrange) returns box language sql immutable parallel safe as
  $$ select box(point(lower(slots), ms_of(lower(during))),
       point(upper(slots) - 0.5, coalesce(ms_of(upper(during)) - 0.5, 1e15))) $$;
"""

# What a trigger cannot compare, since it is generated, is taken out; the names are those of all tables.
GUARDS = """
create or replace function history_only_closes() returns trigger language plpgsql as $$
declare generated constant text[] :=
  '{revs,area,slot_area,gpu_area,slot_k,place_k,evidence_k,incident_k,line_k,site_k}';
begin
  if tg_op = 'DELETE' then raise exception '%% is history: rows are never deleted', tg_table_name; end if;
  if (to_jsonb(new) - generated) is distinct from (to_jsonb(old) - generated)
    or not upper_inf(old.revs) or lower(new.revs) <> lower(old.revs) or upper_inf(new.revs) then
    raise exception '%% is history: only closing an open revision span is allowed', tg_table_name; end if;
  return new; end $$;
create or replace function incident_only_merges() returns trigger language plpgsql as $$ begin
  if tg_op = 'DELETE' then raise exception 'incident is history: rows are never deleted'; end if;
  if old.merged_into is not null or new.merged_into is null or new.id <> old.id
    or new.revs is distinct from int8range(new.merged_rev, null) then
    raise exception 'incident is history: only merging an unmerged incident is allowed'; end if;
  return new; end $$;
create function closed_period_refuses() returns trigger language plpgsql as $$ begin
  -- A month before the first closed one may still be closed; a correction stands behind all that are.
  if exists (select 1 from period p where p.site_id = new.site_id
      and (p.code = new.billing or (new.kind = 'correction' and p.code > new.billing))) then
    raise exception 'period %% is closed: its money never changes', new.billing; end if;
  return new; end $$;
create trigger closed_period_refuses before insert on posting for each row execute function closed_period_refuses();
"""

COLUMNS = """
alter table revision drop constraint revision_kind_check;
alter table revision add constraint ck_revision_kind check (kind in ({kinds}));

alter table place add column revs rev_span, add column currency char(3) check (currency ~ '^[A-Z]{{3}}$'),
  add constraint ck_place_currency_of_a_site check (currency is null or kind = 'site');
create index ix_place_name on place (name);      -- people ask for a node by name
alter table gpu add column revs rev_span;
alter table incident add column revs rev_span;   -- since the revision that merged it; NULL while it stands
create index ix_gpu_serial on gpu (serial) where serial is not null;
create index ix_incident_cause_incident on incident_cause (incident_id);

alter table tenure add column contract text check (contract <> ''), add column commissioned instant,
  add column said_model text check (said_model <> ''), add column why text check (why <> ''),
  alter column gpu_id drop not null,   -- NULL: the slot is there and no GPU sits in it
  add constraint ck_tenure_empty_slot_of_a_node
    check (gpu_id is not null or (commissioned is not null and said_model is not null));
comment on column tenure.commissioned is 'when the node was, whose slot this is; NULL: with this very tenure';
comment on column tenure.said_model is 'the model that the fleet file names; NULL: that of the GPU';
alter table tenure drop constraint ex_tenure_one_gpu_per_slot, drop constraint ex_tenure_one_slot_per_gpu,
  drop column gpu_k;
alter table tenure
  add column slot_area box generated always as (area_of(int4range(slot, slot, '[]'), during::tstzrange)) stored,
  add column gpu_area box generated always as (area_of(int4range(gpu_id, gpu_id, '[]'), during::tstzrange)) stored,
  add constraint ex_tenure_one_gpu_per_slot exclude using gist (slot_area with &&, revs with &&),
  add constraint ex_tenure_one_slot_per_gpu exclude using gist (gpu_area with &&, revs with &&);

alter table evidence add column declared_at instant, add column earliest_start_at instant,
  add column earliest_end_at instant,
  add constraint ck_evidence_edges check (earliest_start_at <= start_at and earliest_end_at <= end_at);
create index ix_evidence_where on evidence using gist (slots, tstzrange(start_at, end_at, '[]')) where upper_inf(revs);
create index ix_incident_evidence_evidence on incident_evidence (evidence_id) where upper_inf(revs);
alter table allocation add column share_ppm int check (share_ppm between 1 and 1000000);   -- NULL: the whole GPU

alter table ledger_entry
  add column held_ppm int check (held_ppm between 1 and 999999),   -- NULL: held as a whole, or by nobody
  add column sharers bigint[] check (cardinality(sharers) > 0);   -- the allocations, where they are several or a part
alter table ledger_entry drop constraint ck_ledger_entry_nothing_invented, drop constraint ledger_entry_rule_check,
  drop constraint ex_ledger_entry_one_state;
alter table ledger_entry
  add column area box generated always as (area_of(slots::int4range, during::tstzrange)) stored,
  add constraint ledger_entry_rule_check check (rule in ('claim', 'window', 'lost_work', 'silence', 'conflict')),
  add constraint ck_ledger_entry_nothing_invented check (case
    when rule in ('silence', 'conflict') then state = 'unknown' and evidence_id is null and basis = 'none'
    when state = 'stranded' then true                              -- said by the fleet file, not by evidence
    when basis = 'presumed' then state = 'productive' and allocation_id is not null
    else evidence_id is not null end),
  add constraint ex_ledger_entry_one_state exclude using gist (area with &&, revs with &&);
drop view ledger_head;
create view ledger_head as select * from ledger_entry where upper_inf(revs);

alter table rate_line add column contract text check (contract <> ''), add column revs rev_span;
alter table rate_line drop constraint rate_line_card_model_key;
create unique index uq_rate_line on rate_line (card, model, coalesce(contract, ''), currency);
"""

TABLES = """
-- What a person decided about incidents; it names evidence, so that it holds however the evidence is grouped again.
create table ruling (
  id bigint generated always as identity primary key,
  kind text not null check (kind in ('attribute', 'merge', 'split', 'note')),
  incident_id bigint not null references incident,   -- of whom it was said; of a merge the one that stays
  cause text,
  is_symptom boolean check (not is_symptom),         -- a symptom is never charged, not even by a person
  about jsonb not null check (jsonb_typeof(about) = 'array'),   -- [[source, key], ...]
  author text not null check (author <> ''),
  at instant not null,
  reason text not null check (reason <> ''),
  revs rev_span not null,
  foreign key (cause, is_symptom) references cause (code, is_symptom),
  check ((cause is null) = (is_symptom is null))
);
create index ix_ruling_incident on ruling (incident_id);

-- A plan of maintenance as it was declared; its occurrences are evidence of the source `maintenance`.
create table maintenance_window (
  id bigint generated always as identity primary key,
  key text not null check (key <> ''),
  scope text not null,
  slots slot_set not null,
  start_at instant not null,
  end_at instant not null,
  declared_at instant not null,
  actual_end_at instant,                 -- NULL: it ended when it was declared to
  what text not null,
  timezone text,                         -- IANA; the wall clock of the rule
  rrule text,                            -- RFC 5545; NULL: once
  revs rev_span not null,
  check (end_at > start_at),
  check (rrule is null or (timezone is not null and actual_end_at is null))
);
create unique index uq_maintenance_window_head on maintenance_window (key) where upper_inf(revs);

-- A month of a site's own calendar whose money is final.
create table period (
  id bigint generated always as identity primary key,
  site_id int not null references place,
  code text not null check (code ~ '^[0-9]{4}-(0[1-9]|1[0-2])$'),
  timezone text not null,
  during time_span not null,
  closed_by text not null,
  reason text not null,
  revs rev_span not null,                -- since the revision that closed it; it never opens again
  site_k int4range generated always as (int4range(site_id, site_id, '[]')) stored,
  unique (site_id, code),
  constraint ex_period_once exclude using gist (site_k with &&, during with &&)
);

-- Money as it was closed, and what changed later. Exact: a row is worth gpu_ms x per_gpu_hour, divided when shown.
create table posting (
  id bigint generated always as identity primary key,
  site_id int not null references place,
  billing text not null check (billing ~ '^[0-9]{4}-(0[1-9]|1[0-2])$'),   -- the month in whose books it stands
  charge text not null check (charge ~ '^[0-9]{4}-(0[1-9]|1[0-2])$'),     -- the month in which the time was spent
  charge_day date not null,              -- of the site's own calendar
  kind text not null check (kind in ('usage', 'correction')),
  reverses bigint references posting,    -- the row that it takes back; NULL for usage, late usage and replacements
  card text not null, currency char(3) not null check (currency ~ '^[A-Z]{3}$'),
  model text not null, contract text, tenant text,
  state gpu_state not null, cause text references cause, incident_id bigint references incident,
  rate_id bigint references rate,        -- NULL: unpriced, which is a row of its own and never a default price
  per_gpu_hour numeric(18, 8),
  gpu_ms numeric(30, 6) not null,        -- six decimals hold a share exactly
  lost_gpu_ms numeric(36, 12) not null,  -- twelve hold a partial loss of a share
  revs rev_span not null,
  check ((rate_id is null) = (per_gpu_hour is null)),
  check (kind = 'correction' or (reverses is null and charge = billing)),
  check (kind = 'usage' or charge < billing),
  check (abs(lost_gpu_ms) <= abs(gpu_ms))
);
create index ix_posting_billing on posting (site_id, billing);
create index ix_posting_charge on posting (site_id, charge);
create index ix_posting_reverses on posting (reverses) where reverses is not null;
"""

# Written once: they carry `revs` for the chain alone.
WRITTEN_ONCE = ("place", "gpu", "rate_line", "period", "posting")
CLOSING = ("ruling", "maintenance_window")
NEW_TABLES = ("posting", "period", "maintenance_window", "ruling")


def guards() -> list[str]:
    """Gives the statements that make the new history append-only, and find its rows by revision."""
    statements = [
        f"create trigger only_closes before update or delete on {table} "
        "for each row execute function history_only_closes()"
        for table in CLOSING
    ]
    statements += [
        f"create trigger never_changes before update or delete on {table} "
        "for each row execute function history_refuses()"
        for table in WRITTEN_ONCE
    ]
    for table in (*CLOSING, *WRITTEN_ONCE):
        statements.append(f"create trigger no_truncate before truncate on {table} execute function history_refuses()")
        statements.append(f"create index ix_{table}_opened on {table} (lower(revs))")
    statements += [
        f"create index ix_{table}_closed on {table} (upper(revs)) where not upper_inf(revs)" for table in CLOSING
    ]
    return statements


def upgrade() -> None:
    """Adds tables and columns, and sets the constraints anew."""
    bind = op.get_bind()
    bind.exec_driver_sql(FUNCTIONS)
    bind.exec_driver_sql(COLUMNS.format(kinds=KINDS))
    bind.exec_driver_sql(TABLES)
    bind.exec_driver_sql(GUARDS)
    for statement in guards():
        op.execute(statement)


DOWN = """
drop table posting, period, maintenance_window, ruling cascade;
drop function closed_period_refuses();
drop view ledger_head;
alter table ledger_entry drop constraint ex_ledger_entry_one_state, drop constraint ck_ledger_entry_nothing_invented,
  drop constraint ledger_entry_rule_check, drop column area, drop column held_ppm, drop column sharers;
alter table ledger_entry
  add constraint ledger_entry_rule_check check (rule in ('claim', 'window', 'lost_work', 'silence')),
  add constraint ck_ledger_entry_nothing_invented check (case
    when rule = 'silence' then state = 'unknown' and evidence_id is null and basis = 'none'
    when state = 'stranded' then true
    when basis = 'presumed' then state = 'productive' and allocation_id is not null
    else evidence_id is not null end),
  add constraint ex_ledger_entry_one_state exclude using gist (during with &&, slots with &&, revs with &&);
create view ledger_head as select * from ledger_entry where upper_inf(revs);
alter table tenure drop constraint ex_tenure_one_gpu_per_slot, drop constraint ex_tenure_one_slot_per_gpu,
  drop constraint ck_tenure_empty_slot_of_a_node, drop column slot_area, drop column gpu_area, drop column contract,
  drop column commissioned, drop column said_model, drop column why, alter column gpu_id set not null;
alter table tenure
  add column gpu_k int4range generated always as (int4range(gpu_id, gpu_id, '[]')) stored,
  add constraint ex_tenure_one_gpu_per_slot exclude using gist (slot_k with &&, during with &&, revs with &&),
  add constraint ex_tenure_one_slot_per_gpu exclude using gist (gpu_k with &&, during with &&, revs with &&);
alter table evidence drop column declared_at, drop column earliest_start_at, drop column earliest_end_at;
drop index ix_evidence_where;
drop index ix_incident_evidence_evidence;
alter table allocation drop column share_ppm;
drop trigger never_changes on place; drop trigger no_truncate on place;
drop trigger never_changes on gpu; drop trigger no_truncate on gpu;
drop trigger never_changes on rate_line; drop trigger no_truncate on rate_line;
drop index ix_place_name;
alter table place drop column revs, drop column currency;
alter table gpu drop column revs;
alter table incident drop column revs;
drop index ix_gpu_serial;
drop index ix_incident_cause_incident;
drop index uq_rate_line;
alter table rate_line drop column contract, drop column revs;
alter table rate_line add constraint rate_line_card_model_key unique (card, model);
alter table revision drop constraint ck_revision_kind;
"""


def downgrade() -> None:
    """Takes away what upgrade added; refused where two contracts share a card and a model, or a slot is empty."""
    bind = op.get_bind()
    bind.exec_driver_sql(DOWN)
    op.execute(f"alter table revision add constraint revision_kind_check check (kind in ({KINDS_BEFORE})) not valid")
    bind.exec_driver_sql(
        """
create or replace function incident_only_merges() returns trigger language plpgsql as $$ begin
  if tg_op = 'DELETE' then raise exception 'incident is history: rows are never deleted'; end if;
  if old.merged_into is not null or new.id <> old.id then
    raise exception 'incident is history: only merging an unmerged incident is allowed'; end if;
  return new; end $$;
create or replace function history_only_closes() returns trigger language plpgsql as $$ begin
  if tg_op = 'DELETE' then raise exception '%% is history: rows are never deleted', tg_table_name; end if;
  if (to_jsonb(new) - '{revs,slot_k,gpu_k,place_k,evidence_k,incident_k,line_k}'::text[])
      is distinct from (to_jsonb(old) - '{revs,slot_k,gpu_k,place_k,evidence_k,incident_k,line_k}'::text[])
    or not upper_inf(old.revs) or lower(new.revs) <> lower(old.revs) or upper_inf(new.revs) then
    raise exception '%% is history: only closing an open revision span is allowed', tg_table_name; end if;
  return new; end $$;
"""
    )
    op.execute("drop function area_of(int4range, tstzrange)")
