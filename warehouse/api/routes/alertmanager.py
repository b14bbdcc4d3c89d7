"""POST /v1/alertmanager: deliveries of Alertmanager's and Grafana's webhooks."""

from __future__ import annotations

import logging
import time
from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import Annotated

from fastapi import APIRouter, Depends, HTTPException, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import JSONResponse, Response
from sqlalchemy.exc import SQLAlchemyError

from warehouse.alerts.receive import Envelope, Received, bury, check_source, receive
from warehouse.api.auth import bearer
from warehouse.api.body import MAX_BODY_BYTES, SenderGone, read_body
from warehouse.api.service import Service, service_of
from warehouse.errors import BadInput
from warehouse.model.time import from_datetime

_LOG = logging.getLogger(__name__)

ROUTER = APIRouter()

# How many refused alerts an answer names; all of them are stored.
_SHOWN = 20


@ROUTER.post("/v1/alertmanager")
async def deliver(request: Request, token: Annotated[str, Depends(bearer)], source: str | None = None) -> Response:
    """Stores a delivery and answers: 200 stored, 400 nothing usable in it, 413 too large, 503 try again."""
    service = service_of(request)
    try:
        name = check_source(service.default_source if source is None else source)
    except BadInput as exc:
        raise HTTPException(400, f"source: {exc}") from exc
    async with service.deliveries:
        return await _take(request, service, name, token)


async def _take(request: Request, service: Service, name: str, token: str) -> Response:
    try:
        body = await read_body(request)
    except TimeoutError as exc:
        raise HTTPException(408, "the body did not end in time") from exc
    except SenderGone:
        return Response(status_code=400)
    envelope = Envelope(name, body.content, service.now_ms(), _sent_ms(request))
    if not body.whole:
        reason = f"it is larger than {MAX_BODY_BYTES} bytes"
        await run_in_threadpool(bury, service.engine, envelope, reason, body.size_bytes)
        service.metrics.deliveries.labels(name, "too_large").inc()
        raise HTTPException(413, reason, {"Connection": "close"})
    began = time.perf_counter()
    received = await run_in_threadpool(_receive, service, envelope)
    service.metrics.seconds.observe(time.perf_counter() - began)
    _LOG.info("delivery of %s by token %s: %d alerts, %d new events", name, token, received.alerts, received.events)
    return _answer(received)


def _receive(service: Service, envelope: Envelope) -> Received:
    counted = service.metrics.deliveries
    try:
        received = receive(service.engine, envelope, service.ignored)
    except SQLAlchemyError:
        counted.labels(envelope.source, "failed").inc()
        raise
    if received.malformed is not None:
        counted.labels(envelope.source, "malformed").inc()
    elif not received.usable:
        counted.labels(envelope.source, "refused").inc()
    else:
        counted.labels(envelope.source, "repeat" if received.repeat else "stored").inc()
    refused = len(received.refused)
    service.metrics.alerts.labels(envelope.source, "used").inc(received.alerts - refused)
    service.metrics.alerts.labels(envelope.source, "refused").inc(refused)
    return received


def _answer(received: Received) -> JSONResponse:
    if received.malformed is not None:
        return JSONResponse({"detail": f"the body cannot be read: {received.malformed}"}, status_code=400)
    refused = received.refused
    document = {
        "delivery": received.delivery_id,
        "repeat": received.repeat,
        "alerts": received.alerts,
        "used": received.alerts - len(refused),
        "new_events": received.events,
        "changed_episodes": received.episodes,
        "refused": [{"alert": found.index, "reason": found.reason} for found in refused[:_SHOWN]],
        "refused_count": len(refused),
    }
    return JSONResponse(document, status_code=200 if received.usable else 400)


def _sent_ms(request: Request) -> int | None:
    """Gives the sender's own clock from its Date header, None where there is none that can be read."""
    try:
        moment = parsedate_to_datetime(request.headers["date"])
        return max(0, from_datetime(moment if moment.tzinfo else moment.replace(tzinfo=UTC)))
    except (KeyError, ValueError, TypeError, OverflowError):
        return None
