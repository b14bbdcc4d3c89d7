"""Roles: what the application's role may do on every table, asked of the catalogue, and that it is enough."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import Connection, Engine, create_engine, text
from sqlalchemy.exc import DBAPIError

from tests.conftest import Answer
from warehouse.cli import run
from warehouse.errors import BadInput
from warehouse.store import grants, migrate

# What a writer may do beyond select and insert; every other table refuses UPDATE, and all refuse DELETE and TRUNCATE.
NOTES = {"cause", "source_progress"}  # the program's own catalogue, and how far live sources were read: no history
NOT_OURS = {"alembic_version"}

FLEET = "site,hall,rack,node,gpus,model,commissioned\ns,h,r,n1,8,H100,2026-01-01\ns,h,r,n2,8,H100,2026-01-01\n"
RATES = "card,model,currency,per_gpu_hour,effective_from\nlist,H100,USD,2.49,2026-01-01\n"
EVIDENCE = (
    "id,source,start,end,scope,state,cause\n"
    "1,ops,2026-01-02T00:00:00Z,2026-01-02T06:00:00Z,n1,down,host/dram\n"
    "2,ops,2026-01-02T08:00:00Z,2026-01-02T09:00:00Z,n1/3,hung,\n"
)
ALLOCATIONS = "job,attempt,tenant,kind,start,end,scope\nj,1,red,training,2026-01-01,2026-01-03,n1+n2\n"
READING = (
    ("fleet", "show"), ("rates", "show"), ("goodput",), ("goodput", "--by", "job"), ("incidents",),
    ("incident", "show", "1"), ("report", "incident", "1"), ("check",),
)  # fmt: skip


@pytest.fixture
def owner(any_database_url: str) -> Iterator[Engine]:
    engine = create_engine(any_database_url.replace("postgresql:", "postgresql+psycopg:"))
    migrate.upgrade(engine)
    with engine.begin() as connection:
        for role in ("gm writer", "gm_reader"):
            if connection.execute(text("select 1 from pg_roles where rolname = :r"), {"r": role}).first() is None:
                connection.execute(text(f'create role "{role}" login'))
    yield engine
    engine.dispose()


def as_role(engine: Engine, role: str) -> str:
    return (
        engine.url.set(drivername="postgresql", username=role, password=None)
        .render_as_string(hide_password=False)
        .replace("gm+writer", "gm%20writer")
    )


def run_cli(url: str, *arguments: object, cwd: Path) -> Answer:
    """Runs a command inside this process, on one database and in one folder."""
    out, err = io.StringIO(), io.StringIO()
    with (
        pytest.MonkeyPatch.context() as patch,
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        patch.setenv("GPU_MINUTES_DATABASE_URL", url)
        patch.chdir(cwd)
        code = run([str(argument) for argument in arguments])
    return Answer(code, out.getvalue(), err.getvalue())


def tables(connection: Connection) -> list[str]:
    found = connection.execute(
        text("select relname from pg_class where relnamespace = 'public'::regnamespace and relkind = 'r' order by 1")
    )
    return [name for name in found.scalars() if name not in NOT_OURS]


def refused(connection: Connection, statement: str) -> str | None:
    """Gives why a statement is refused, None where it is not; leaves nothing of it."""
    savepoint = connection.begin_nested()
    try:
        connection.execute(text(statement))
    except DBAPIError as exc:
        return str(exc.orig)
    finally:
        savepoint.rollback()
    return None


def fill(url: str, folder: Path) -> None:
    """Writes a ledger through the command line, with every writing command."""
    for name, content in (("fleet", FLEET), ("rates", RATES), ("evidence", EVIDENCE), ("allocations", ALLOCATIONS)):
        (folder / f"{name}.csv").write_text(content)
    for command in (
        ("fleet", "load", "fleet.csv"), ("rates", "load", "rates.csv"), ("import", "evidence", "evidence.csv"),
        ("import", "allocations", "allocations.csv", "--no-book"), ("book", "--to", "2026-01-04"),
    ):  # fmt: skip
        answer = run_cli(url, *command, cwd=folder)
        assert (answer.code, answer.err) == (0, ""), command


def test_the_whole_command_line_works_as_writer_and_reader(owner: Engine, tmp_path: Path) -> None:
    grants.grant(owner, "gm writer")
    grants.grant(owner, "gm_reader", reader=True)
    fill(as_role(owner, "gm writer"), tmp_path)
    for command in READING:
        form = () if command[0] == "report" else ("--format", "json")
        written = run_cli(as_role(owner, "gm writer"), *command, *form, cwd=tmp_path)
        read = run_cli(as_role(owner, "gm_reader"), *command, *form, cwd=tmp_path)
        assert (written.code, read.code, read.err) == (0, 0, ""), (command, written.err, read.err)
    (tmp_path / "evidence.csv").write_text(EVIDENCE + "3,ops,2026-01-02T10:00:00Z,,n2,down,\n")
    said = run_cli(as_role(owner, "gm_reader"), "import", "evidence", "evidence.csv", cwd=tmp_path)
    assert said.code == 1
    assert said.err.count("\n") == 1
    assert "permission denied" in said.err


def test_a_reader_reads_though_the_catalogue_of_causes_is_older(owner: Engine, tmp_path: Path) -> None:
    grants.grant(owner, "gm writer")
    grants.grant(owner, "gm_reader", reader=True)
    fill(as_role(owner, "gm writer"), tmp_path)
    with owner.begin() as connection:
        connection.execute(text("update cause set title = 'as an older version wrote it' where code = 'host/dram'"))
    answer = run_cli(as_role(owner, "gm_reader"), "goodput", cwd=tmp_path)
    assert (answer.code, answer.err) == (0, "")


@pytest.mark.parametrize("reader", [False, True], ids=["writer", "reader"])
def test_each_table_and_verb(owner: Engine, tmp_path: Path, reader: bool) -> None:
    """Generated from the catalogue: a new table without a guard, or with a right too many, fails here."""
    grants.grant(owner, "gm writer")
    role = "gm_reader" if reader else "gm writer"
    fill(as_role(owner, "gm writer"), tmp_path)
    grants.grant(owner, role, reader=reader)
    allowed = set()
    with owner.connect() as connection:
        connection.execute(text(f'set local role "{role}"'))
        for table in tables(connection):
            columns = connection.execute(
                text("select attname from pg_attribute where attrelid = cast(:table as regclass) and attnum > 0 "
                     "and attgenerated = '' and attidentity = '' and not attisdropped"), {"table": table},
            ).scalars().all()  # fmt: skip
            assert "permission denied" in (refused(connection, f"delete from {table}") or "")
            assert "permission denied" in (refused(connection, f"truncate {table} cascade") or "")
            for column in columns:
                said = refused(connection, f"update {table} set {column} = {column}")
                if said is None or "permission denied" not in said:
                    allowed.add(f"{table}.{column}")
            insert = refused(connection, f"insert into {table} select * from {table} where false")
            assert (insert is None or "permission denied" not in insert) is not reader or "cannot insert" in insert
    with owner.connect() as connection:
        # A view writes with its owner's rights: nobody writes through one.
        through = connection.execute(
            text(
                "select string_agg(privilege_type, ',') from information_schema.role_table_grants "
                "where grantee = :role and table_name = 'ledger_head'"
            ),
            {"role": role},
        ).scalar_one()
    assert through == "SELECT"
    closing = {name.split(".")[0] for name in allowed if name.endswith(".revs")}
    others = {name for name in allowed if not name.endswith(".revs")}
    assert others == set() if reader else {
        "incident.merged_into", "incident.merged_rev", "cause.title", "cause.rank", "cause.owner",
        "source_progress.observed_until", "api_token.last_used_at", "api_token.revoked_at",
        *(f"alert_episode.{name}" for name in (
            "ends_at", "state", "head_at", "proven_at", "skewed", "superseded", "truncated", "stale_sibling",
            "silenced", "inhibited", "muted", "listed_at", "version", "processed",
        )),
    }  # fmt: skip
    assert (closing == set()) is reader


def test_a_reader_sees_tokens_without_their_hashes(owner: Engine) -> None:
    grants.grant(owner, "gm_reader", reader=True)
    with owner.connect() as connection:
        connection.execute(text("set local role gm_reader"))
        assert refused(connection, "select id, name, created_by, revoked_at from api_token") is None
        assert "permission denied" in (refused(connection, "select sha256 from api_token") or "")
        assert "permission denied" in (refused(connection, "select * from api_token") or "")


def test_history_refuses_its_owner_too(owner: Engine, tmp_path: Path) -> None:
    """Through triggers: DELETE, TRUNCATE, and any UPDATE but closing, on every table that holds history."""
    grants.grant(owner, "gm writer")
    fill(as_role(owner, "gm writer"), tmp_path)
    with owner.connect() as connection:
        for table in tables(connection):
            if table in NOTES:
                continue
            assert "is history" in (refused(connection, f"truncate {table} cascade") or ""), table
            if connection.execute(text(f"select count(*) from {table}")).scalar_one() == 0:
                continue
            assert "is history" in (refused(connection, f"delete from {table}") or ""), table
            columns = connection.execute(
                text("select attname, format_type(atttypid, null) as type from pg_attribute where attrelid = "
                     "cast(:table as regclass) and attnum > 0 and attgenerated = '' and attidentity = '' "
                     "and not attisdropped"), {"table": table},
            ).all()  # fmt: skip
            for name, kind in columns:
                other = {"text": "'x'", "integer": "7", "bigint": "7", "boolean": f"not {name}"}.get(kind, "null")
                said = refused(connection, f"update {table} set {name} = {other}")
                assert said is not None, (table, name)


@pytest.mark.parametrize(
    ("role", "reason"),
    [
        ("nobody_there", "there is no role 'nobody_there'"),
        ("public", "there is no role 'public'"),
        ('x"; drop table revision; --', "there is no role"),
        ("postgres", "owns the ledger"),
    ],
)
def test_roles_that_are_refused(owner: Engine, role: str, reason: str, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=reason):
        grants.grant(owner, role)
    answer = run_cli(as_role(owner, "postgres"), "db", "grant", role, cwd=tmp_path)
    assert (answer.code, answer.out, answer.err.count("\n")) == (2, "", 1)
