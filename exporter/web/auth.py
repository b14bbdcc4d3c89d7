"""Basic authentication against bcrypt hashes.

A hash takes tenths of a second by design and a scrape comes every few seconds, so a password that was right is
remembered by a keyed digest; the toolkit's exporters do the same. One hash is computed at a time, so that guessing
costs at most one core.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import secrets
import threading
from collections.abc import Sequence

from exporter.errors import ConfigError

_MOST_BYTES = 72  # bcrypt looks at no more, and Python's library refuses more


class BasicAuth:
    """Who may come in; every one may while there are no users.

    Args:
        users: names and bcrypt hashes.

    Raises:
        ConfigError: there are users, and the bcrypt package is not installed.
    """

    def __init__(self, users: Sequence[tuple[str, str]]) -> None:
        self._hash_by_user = dict(users)
        self._right: set[bytes] = set()
        self._key = secrets.token_bytes(32)
        self._lock = threading.Lock()
        if not users:
            return
        try:
            import bcrypt
        except ImportError as exc:
            raise ConfigError("basic_auth_users needs bcrypt: pip install 'gpu-minutes[web]'") from exc
        self._check = bcrypt.checkpw
        # The costliest hash (the cost stands after the second $) is computed for users that there are not.
        self._decoy = max(self._hash_by_user.values(), key=lambda hashed: hashed.split("$")[2])

    @property
    def needed(self) -> bool:
        """Whether there are users."""
        return bool(self._hash_by_user)

    def allows(self, authorization: str) -> bool:
        """Whether the value of an Authorization header lets its sender in.

        An unknown user takes as long as a wrong password, so that names cannot be found out by time.
        """
        if not self.needed:
            return True
        given = _parse(authorization)
        if given is None:
            return False
        user, password = given
        hashed = self._hash_by_user.get(user)
        mark = hmac.digest(self._key, f"{len(user)}:{user}".encode() + password, hashlib.sha256)
        if mark in self._right:
            return True
        with self._lock:
            same = self._check(password[:_MOST_BYTES], (hashed or self._decoy).encode())
        if hashed is None or not same:
            return False
        self._right.add(mark)
        return True


def _parse(authorization: str) -> tuple[str, bytes] | None:
    scheme, _, encoded = authorization.partition(" ")
    if scheme.lower() != "basic":
        return None
    try:
        user, colon, password = base64.b64decode(encoded.strip(), validate=True).partition(b":")
        return (user.decode(), password) if colon else None
    except (binascii.Error, ValueError):
        return None
