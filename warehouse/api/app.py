"""Puts the service together: every module of `routes` brings its routes, and a database that is away is a 503."""

from __future__ import annotations

import importlib
import logging
import pkgutil

from fastapi import APIRouter, FastAPI, Request
from fastapi.responses import JSONResponse
from sqlalchemy.exc import SQLAlchemyError

from warehouse import __version__
from warehouse.api import routes
from warehouse.api.service import Service
from warehouse.errors import one_line

_LOG = logging.getLogger(__name__)


def create_app(service: Service) -> FastAPI:
    """Gives the application of a service."""
    # Its own pages about itself would load scripts from elsewhere, and tell strangers what there is.
    app = FastAPI(title="GPU Minutes", version=__version__, docs_url=None, redoc_url=None, openapi_url=None)
    app.state.service = service
    for found in pkgutil.iter_modules(routes.__path__):
        router = importlib.import_module(f"{routes.__name__}.{found.name}").ROUTER
        assert isinstance(router, APIRouter)
        app.include_router(router)
    app.add_exception_handler(SQLAlchemyError, _database_away)
    return app


async def _database_away(_: Request, exc: Exception) -> JSONResponse:
    """Says 503, which senders try again; nothing was stored, since every delivery is one transaction."""
    # Only the driver's first line: what was to be stored is no matter for a log.
    reason = str(getattr(exc, "orig", None) or type(exc).__name__).strip().split("\n", 1)[0]
    _LOG.warning("the database did not take it: %s", one_line(reason))
    detail = "the database does not answer; nothing was stored, send it again"
    return JSONResponse({"detail": detail}, status_code=503, headers={"Retry-After": "5"})
