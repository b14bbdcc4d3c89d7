"""GET /healthz, /readyz and /metrics: for whoever keeps the service running; without a token."""

from __future__ import annotations

from fastapi import APIRouter, Request
from fastapi.responses import PlainTextResponse, Response
from prometheus_client import CONTENT_TYPE_LATEST
from sqlalchemy.exc import SQLAlchemyError

from warehouse.api.service import service_of
from warehouse.store import migrate

ROUTER = APIRouter()


@ROUTER.get("/healthz")
async def healthz() -> PlainTextResponse:
    """Says that this process answers."""
    return PlainTextResponse("ok\n")


@ROUTER.get("/readyz")
def readyz(request: Request) -> PlainTextResponse:
    """Says whether deliveries can be stored: the database answers, and its schema fits."""
    try:
        found = migrate.current(service_of(request).engine)
    except SQLAlchemyError:
        return PlainTextResponse("the database does not answer\n", status_code=503)
    if found != migrate.newest():
        said = f"the schema is at {found or 'empty'}, this version needs {migrate.newest()}\n"
        return PlainTextResponse(said, status_code=503)
    return PlainTextResponse("ready\n")


@ROUTER.get("/metrics")
def metrics(request: Request) -> Response:
    """Gives the service's metrics in the Prometheus text format."""
    return Response(service_of(request).metrics.page(), media_type=CONTENT_TYPE_LATEST)
