"""A ledger before and after an act, and a driver that can be made to fail at any statement."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
from sqlalchemy import Engine, create_engine, text

from tests.store.ledgers import prove

FLEET = "site,hall,rack,node,gpus,model,commissioned\n" + "".join(
    f"s,h,r{number // 4},n{number},8,H100,2026-01-01\n" for number in range(8)
)
EVIDENCE = "id,source,start,end,scope,state,cause\n" + "".join(
    f"{n},ops,2026-01-{1 + n % 9:02}T0{n % 8}:00:00Z,2026-01-{2 + n % 9:02}T0{n % 7}:30:00Z,n{n % 8},down,host/dram\n"
    for n in range(24)
)
MORE = "id,source,start,end,scope,state,cause\n" + "".join(
    f"m{n},ops,2026-01-0{1 + n}T00:00:00Z,2026-01-0{1 + n}T03:00:00Z,rack:r{n % 2},unusable,fabric/nic\n"
    for n in range(6)
)


def snapshot(engine: Engine) -> dict[str, str]:
    """Gives a digest of every table's rows."""
    with engine.connect() as connection:
        names = connection.execute(
            text("select relname from pg_class where relnamespace = 'public'::regnamespace and relkind = 'r'")
        ).scalars()
        return {
            name: connection.execute(
                text(f"select coalesce(md5(string_agg(t::text, ',' order by t::text)), '') from {name} t")
            ).scalar_one()
            for name in names
        }


def digest(tiling: list[tuple[object, ...]]) -> str:
    """Gives a digest of a tiling that does not depend on row numbers."""
    return hashlib.sha256(repr(tiling).encode()).hexdigest()


def holds(engine: Engine) -> None:
    """All laws hold."""
    with engine.connect() as connection:
        assert [f"{p.law}: {p.said}" for p in prove(connection) if not p.holds] == []


def client(url: str, folder: Path, *arguments: str, **options: Any) -> subprocess.Popen[str]:
    """Starts the command as a user would, in a process of its own."""
    return subprocess.Popen(
        [sys.executable, "-c", "from warehouse.cli import main; main()", *arguments],
        stdout=subprocess.PIPE,
        stderr=options.pop("stderr", subprocess.PIPE),
        text=True,
        cwd=folder,
        env=os.environ | {"GPU_MINUTES_DATABASE_URL": url} | options.pop("environ", {}),
        **options,
    )


class Failing:
    """An engine whose own session is ended before its statement number `at`, COPY and COMMIT counted too."""

    def __init__(self, url: str) -> None:
        self.at: int | None = None
        self.statements = 0
        self._admin = psycopg.connect(url, autocommit=True)
        before = self._before

        class Cursor(psycopg.Cursor[Any]):
            """Tells of each statement before it is sent."""

            def execute(self, *arguments: Any, **options: Any) -> Any:
                before(self.connection)
                return super().execute(*arguments, **options)

            def executemany(self, *arguments: Any, **options: Any) -> Any:
                before(self.connection)
                return super().executemany(*arguments, **options)

            def copy(self, *arguments: Any, **options: Any) -> Any:
                before(self.connection)
                return super().copy(*arguments, **options)

        class Session(psycopg.Connection[Any]):
            """Tells of each commit as well."""

            def commit(self) -> None:
                before(self)
                super().commit()

        def connect() -> psycopg.Connection[Any]:
            opened = Session.connect(url)
            opened.cursor_factory = Cursor
            return opened

        self.engine = create_engine("postgresql+psycopg://", creator=connect)

    def _before(self, connection: psycopg.Connection[Any]) -> None:
        self.statements += 1
        if self.statements == self.at:
            self._admin.execute("select pg_terminate_backend(%s, 5000)", [connection.info.backend_pid])

    def run(self, act: Callable[[Engine], object], at: int | None = None) -> int:
        """Runs an act that is ended before a statement; gives how many statements it got to."""
        self.at, self.statements = at, 0
        self.engine.dispose()
        act(self.engine)
        return self.statements

    def close(self) -> None:
        """Ends both sessions."""
        self.engine.dispose()
        self._admin.close()
