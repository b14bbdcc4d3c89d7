"""The log: one record is one line, tracebacks included, as logfmt or as JSON."""

from __future__ import annotations

import json
import logging
import sys
import threading
import time
from types import TracebackType

from exporter.config import word

LOG_LEVEL = word("log.level", "info", "the least that is logged", ("debug", "info", "warning", "error"))
LOG_FORMAT = word("log.format", "logfmt", "how a line is written", ("logfmt", "json"))

_for_children: tuple[str, ...] = ()
_log = logging.getLogger(__name__)


def record_fields(record: logging.LogRecord) -> dict[str, str]:
    """What is said of a record, in order; times in UTC to the millisecond."""
    at = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
    fields = {
        "ts": f"{at}.{int(record.msecs):03}Z",
        "level": record.levelname.lower(),
        "logger": record.name,
        "msg": record.getMessage(),
    }
    if record.exc_info:
        fields["traceback"] = logging.Formatter().formatException(record.exc_info)
    return fields


class Logfmt(logging.Formatter):
    """`ts=… level=info logger=exporter msg="…"`; what is not plain stands in quotes, escaped as in JSON."""

    def format(self, record: logging.LogRecord) -> str:
        return " ".join(f"{key}={_quoted(key, value)}" for key, value in record_fields(record).items())


class Json(logging.Formatter):
    """One object a line, with the same fields."""

    def format(self, record: logging.LogRecord) -> str:
        return json.dumps(record_fields(record))


def _quoted(key: str, value: str) -> str:
    # json.dumps leaves ASCII alone: neither a line separator of Unicode nor an escape sequence of a terminal gets out.
    return json.dumps(value) if key in ("msg", "traceback") else value


def configure(level: str, form: str) -> None:
    """Sends every record of this process to stderr, and what nobody caught or warned of as well.

    Args:
        level: a value of `LOG_LEVEL`.
        form: a value of `LOG_FORMAT`.
    """
    global _for_children
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(Json() if form == "json" else Logfmt())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    logging.captureWarnings(True)
    sys.excepthook = _log_uncaught
    threading.excepthook = lambda args: _log_uncaught(args.exc_type, args.exc_value, args.exc_traceback)
    sys.unraisablehook = lambda args: _log_uncaught(args.exc_type, args.exc_value, args.exc_traceback)
    _for_children = (f"--log-level={level}", f"--log-format={form}")


def child_options() -> tuple[str, ...]:
    """Command line by which a driver process logs like its parent."""
    return _for_children


def _log_uncaught(kind: type[BaseException], exc: BaseException | None, traceback: TracebackType | None) -> None:
    if not issubclass(kind, KeyboardInterrupt | SystemExit):
        _log.critical("uncaught", exc_info=(kind, exc or kind(), traceback))
