"""Who may deliver: a bearer token, looked up by the hash of its secret."""

from __future__ import annotations

from fastapi import HTTPException, Request
from fastapi.concurrency import run_in_threadpool

from warehouse.api.service import Service, service_of
from warehouse.store import tokens

_MOST_SECRET = 256


async def bearer(request: Request) -> str:
    """Gives the name of the token that a request carries; before its body is read.

    Raises:
        HTTPException: 401 without one, with an unknown or a revoked one, all with the same words.
    """
    service = service_of(request)
    scheme, _, secret = request.headers.get("authorization", "").partition(" ")
    name = None
    if scheme.lower() == "bearer" and 0 < len(secret := secret.strip()) <= _MOST_SECRET:
        name = await run_in_threadpool(_known, service, secret)
    if name is None:
        service.metrics.unauthorized.inc()
        raise HTTPException(
            401, "a valid token is needed: Authorization: Bearer gpm_...", {"WWW-Authenticate": "Bearer"}
        )
    return name


def _known(service: Service, secret: str) -> str | None:
    with service.engine.begin() as connection:
        return tokens.bearer(connection, secret, service.now_ms())
