"""Tokens of those who may deliver. Only a hash of each secret is stored."""

from __future__ import annotations

import hashlib
import secrets
from dataclasses import dataclass

from sqlalchemy import Connection, text

from warehouse.errors import BadInput
from warehouse.model.time import MS_PER_MINUTE
from warehouse.store.rows import instant, milliseconds

# So that scanners for leaked secrets, and people, know one when they see it.
PREFIX = "gpm_"
_SECRET_BYTES = 32


@dataclass(frozen=True, slots=True)
class Token:
    """What is known of a token. `last_used_ms` is exact to the minute, None: never used."""

    name: str
    created_ms: int
    created_by: str
    last_used_ms: int | None
    revoked_ms: int | None


def create(connection: Connection, name: str, created_by: str, now_ms: int) -> str:
    """Makes a token and gives its secret, which is nowhere else from then on.

    Raises:
        BadInput: when the name is taken, be it by a revoked one: who delivered what must stay clear.
    """
    secret = PREFIX + secrets.token_urlsafe(_SECRET_BYTES)
    added = connection.execute(
        text(
            "insert into api_token (name, sha256, created_at, created_by) values (:name, :sha256, :now, :by) "
            "on conflict (name) do nothing returning id"
        ),
        {"name": name, "sha256": hashed(secret), "now": instant(now_ms), "by": created_by},
    ).first()
    if added is None:
        raise BadInput(f"there is a token '{name}' already, or was one; choose another name")
    return secret


def revoke(connection: Connection, name: str, now_ms: int) -> bool:
    """Ends a token for ever; gives False where it had ended before.

    Raises:
        BadInput: when there is none of this name.
    """
    ended = connection.execute(
        text("update api_token set revoked_at = :now where name = :name and revoked_at is null returning id"),
        {"name": name, "now": instant(now_ms)},
    ).first()
    known = connection.execute(text("select 1 from api_token where name = :name"), {"name": name}).first()
    if known is None:
        raise BadInput(f"there is no token '{name[:80]}'; see: gpu-minutes token list")
    return ended is not None


def listed(connection: Connection) -> list[Token]:
    """Gives all tokens, revoked ones too, by name."""
    rows = connection.execute(
        text("select name, created_at, created_by, last_used_at, revoked_at from api_token order by name")
    )
    found = []
    for row in rows:
        created_ms = milliseconds(row.created_at)
        assert created_ms is not None
        used_ms, revoked_ms = milliseconds(row.last_used_at), milliseconds(row.revoked_at)
        found.append(Token(row.name, created_ms, row.created_by, used_ms, revoked_ms))
    return found


def usable(connection: Connection) -> int:
    """Gives how many tokens are not revoked."""
    count: int = connection.execute(text("select count(*) from api_token where revoked_at is null")).scalar_one()
    return count


def bearer(connection: Connection, secret: str, now_ms: int) -> str | None:
    """Gives the name of the token that a secret belongs to, None for an unknown or revoked one; notes the use."""
    sha256 = hashed(secret)
    row = connection.execute(
        text("select name, last_used_at from api_token where sha256 = :sha256 and revoked_at is null"),
        {"sha256": sha256},
    ).first()
    if row is None:
        return None
    # Not at every use: each would be a version of the row.
    used_ms = milliseconds(row.last_used_at)
    if used_ms is None or used_ms + MS_PER_MINUTE <= now_ms:
        connection.execute(
            text("update api_token set last_used_at = :now where sha256 = :sha256"),
            {"now": instant(now_ms), "sha256": sha256},
        )
    return str(row.name)


def hashed(secret: str) -> bytes:
    """Gives what is stored of a secret.

    One round of SHA-256: a secret of 256 random bits cannot be guessed, however fast the hash is. For the same reason
    the look-up by this hash tells nothing through its timing: nobody can choose a secret whose hash is near another.
    """
    return hashlib.sha256(secret.encode("utf-8", errors="surrogatepass")).digest()
