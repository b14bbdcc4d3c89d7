"""Reads the body of a request with a limit on its size and on its time."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from fastapi import Request

# 10,000 alerts are about 10 MB.
MAX_BODY_BYTES = 64 * 1024 * 1024

# A sender on any network has delivered by then; who has not holds memory.
BODY_SECONDS = 60.0


class SenderGone(Exception):
    """The connection ended before the body did; there is nobody to answer."""


@dataclass(frozen=True, slots=True)
class Body:
    """What was read. `whole` False: there was more than the limit, and `content` is its beginning."""

    content: bytes
    whole: bool
    size_bytes: int


async def read_body(request: Request, most_bytes: int = MAX_BODY_BYTES) -> Body:
    """Reads until the end or the limit; no more than the limit is ever held.

    Raises:
        TimeoutError: when it does not end in time.
        SenderGone: when the sender goes away before.
    """
    pieces: list[bytes] = []
    size = 0
    async with asyncio.timeout(BODY_SECONDS):
        while True:
            message = await request.receive()
            if message["type"] == "http.disconnect":
                raise SenderGone
            piece = message.get("body", b"")
            size += len(piece)
            if size > most_bytes:
                return Body(b"".join(pieces), False, size)
            pieces.append(piece)
            if not message.get("more_body", False):
                return Body(b"".join(pieces), True, size)
