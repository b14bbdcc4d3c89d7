"""The inbox of alerts: what was delivered, as it came; what it says; and who may deliver.

Why: a webhook is answered only when its body is safe, and what an alert said must be readable again when the rules that
read it change. An inbox is no history of the ledger: it has no revisions and is in no chain. Deliveries, events and
dead letters are never changed; an episode is what its events say together, and is written again when they say more.
Locks: none, the tables are new.
Undo: drops the inbox and the tokens; evidence that was made of alerts stays.
"""

from __future__ import annotations

from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

TABLES = """
-- A body as it came. The same body within ten minutes is a repeat, and no new delivery.
create table alert_delivery (
  id bigint generated always as identity primary key,
  source text not null check (source ~ '^[a-z0-9_-]{1,40}$'),
  received_at instant not null,          -- ours; never the end or the beginning of anything
  sent_at instant,                       -- by the sender's own clock, where it says so; only flags
  sha256 bytea not null check (length(sha256) = 32),
  body bytea not null,
  alerts int not null check (alerts >= 0),
  truncated_alerts bigint check (truncated_alerts >= 0)   -- left out by the sender; NULL: it did not say it readably
);
create index ix_alert_delivery_sha256 on alert_delivery (sha256, received_at);
create index ix_alert_delivery_truncated on alert_delivery (source, received_at)
  where truncated_alerts is distinct from 0;
create table alert_repeat (
  delivery_id bigint not null references alert_delivery,
  received_at instant not null
);
create index ix_alert_repeat_delivery on alert_repeat (delivery_id);

-- One thing that was said of one alert, however often it was said.
create table alert_event (
  id bigint generated always as identity primary key,
  source text not null check (source ~ '^[a-z0-9_-]{1,40}$'),
  fingerprint text not null check (fingerprint ~ '^[0-9a-f]{32}$'),
  starts_at instant not null,
  status text not null check (status in ('firing', 'resolved')),
  ends_at instant,                       -- only of what is resolved; a firing alert's end is a lease
  delivery_id bigint references alert_delivery,   -- the first that said it; NULL: found by asking Alertmanager
  received_at instant not null,          -- when that was
  skewed boolean not null,               -- a clock is wrong: it lies ahead of its own receipt
  labels jsonb not null,
  annotations jsonb not null,
  generator_url text,
  sender_fingerprint text,
  check ((status = 'resolved') = (ends_at is not null))
);
create unique index uq_alert_event on alert_event
  (source, fingerprint, starts_at, status, coalesce(ms_of(ends_at), -1));

-- What the events of one beginning say together; derived from them, and from when they were last said.
create table alert_episode (
  id bigint generated always as identity primary key,
  source text not null check (source ~ '^[a-z0-9_-]{1,40}$'),
  fingerprint text not null,
  starts_at instant not null,
  ends_at instant,                       -- NULL: not known to have ended
  state text not null check (state in ('open', 'closed', 'part', 'quarantined')),
  head_at instant,                       -- of a part: the beginning of the episode that it belongs to
  proven_at instant,                     -- the last time that it was said to fire; NULL: it never was
  skewed boolean not null,
  superseded boolean not null,           -- its end was never said: a later beginning is the latest that it can be
  truncated boolean not null,            -- it came with others that the sender left out
  stale_sibling boolean not null,        -- said to fire after it was said to have ended
  silenced boolean, inhibited boolean, muted boolean,   -- by Alertmanager, when last asked; NULL: never listed
  listed_at instant,                     -- when Alertmanager, asked, last had it
  labels jsonb not null,
  annotations jsonb not null,
  generator_url text,
  sender_fingerprint text,
  version bigint not null check (version > 0),   -- grows with every change of what it says
  processed bigint not null default 0 check (processed between 0 and version),
  unique (source, fingerprint, starts_at),
  check ((state = 'part') = (head_at is not null)),
  check (state <> 'open' or ends_at is null),
  check (state <> 'closed' or (ends_at is not null and ends_at > starts_at)),
  check (state <> 'quarantined' or (ends_at is not null and ends_at <= starts_at))
);
create index ix_alert_episode_waiting on alert_episode (id) where processed < version or state = 'open';
create index ix_alert_episode_alertname on alert_episode ((labels ->> 'alertname'), source);

-- What could not be used, with the reason and its first bytes.
create table alert_dead_letter (
  id bigint generated always as identity primary key,
  source text not null check (source ~ '^[a-z0-9_-]{1,40}$'),
  received_at instant not null,
  delivery_id bigint references alert_delivery,   -- NULL: the body as a whole could not be read
  alert_index int check (alert_index >= 0),       -- which alert of the delivery, from 0
  reason text not null check (reason <> ''),
  size_bytes bigint not null check (size_bytes >= 0),
  sha256 bytea not null check (length(sha256) = 32),
  excerpt bytea not null check (length(excerpt) <= 65536)
);
create index ix_alert_dead_letter_sha256 on alert_dead_letter (sha256, received_at);

create table api_token (
  id int generated always as identity primary key,
  name text not null unique check (name ~ '^[a-z0-9][a-z0-9._-]{0,62}$'),
  -- Of the secret, which is 32 random bytes and kept nowhere.
  sha256 bytea not null unique check (length(sha256) = 32),
  created_at instant not null,
  created_by text not null check (created_by <> ''),
  last_used_at instant,                  -- to the minute
  revoked_at instant
);
"""

# The driver reads a lone % as a placeholder.
GUARDS = """
create function api_token_only_ends() returns trigger language plpgsql as $$ begin
  if (to_jsonb(new) - '{last_used_at,revoked_at}'::text[])
      is distinct from (to_jsonb(old) - '{last_used_at,revoked_at}'::text[])
    or (old.revoked_at is not null and new.revoked_at is distinct from old.revoked_at)
    or (old.last_used_at is not null and new.last_used_at is null) then
    raise exception 'api_token is history: a token is only used, or revoked once'; end if;
  return new; end $$;
create trigger only_ends before update on api_token for each row execute function api_token_only_ends();
create function alert_episode_stays() returns trigger language plpgsql as $$ begin
  if (new.id, new.source, new.fingerprint, new.starts_at, new.labels, new.annotations)
      is distinct from (old.id, old.source, old.fingerprint, old.starts_at, old.labels, old.annotations)
    or new.generator_url is distinct from old.generator_url
    or new.sender_fingerprint is distinct from old.sender_fingerprint
    or new.version < old.version or new.processed < old.processed
    or (old.proven_at is not null and (new.proven_at is null or new.proven_at < old.proven_at))
    or (old.listed_at is not null and (new.listed_at is null or new.listed_at < old.listed_at)) then
    raise exception 'alert_episode is history: which alert it is stays, and what is known of it only grows'; end if;
  return new; end $$;
create trigger stays before update on alert_episode for each row execute function alert_episode_stays();
"""

NEVER_CHANGED = ("alert_delivery", "alert_repeat", "alert_event", "alert_dead_letter")
UPDATED = ("alert_episode", "api_token")


def upgrade() -> None:
    """Creates the inbox, the tokens and their guards."""
    bind = op.get_bind()
    bind.exec_driver_sql(TABLES)
    bind.exec_driver_sql(GUARDS)
    for table in (*NEVER_CHANGED, *UPDATED):
        verbs = "update or delete" if table in NEVER_CHANGED else "delete"
        op.execute(
            f"create trigger never_changes before {verbs} on {table} for each row execute function history_refuses()"
        )
        op.execute(f"create trigger no_truncate before truncate on {table} execute function history_refuses()")


def downgrade() -> None:
    """Drops what upgrade created."""
    op.execute("drop table alert_dead_letter, alert_episode, alert_event, alert_repeat, alert_delivery, api_token")
    op.execute("drop function api_token_only_ends()")
    op.execute("drop function alert_episode_stays()")
