"""What an answer of the Prometheus HTTP API is: whole, or one of a few kinds of failure."""

from __future__ import annotations

import json
import re
from enum import StrEnum
from typing import Any

from warehouse.errors import one_line

# A gateway or a limiter says these while the server behind it is away or busy (RFC 9110, 15.6; RFC 6585, 4).
_BUSY = frozenset({429, 502, 503, 504})

_BODY_EXCERPT = 120

# How servers word that a question is too large, while the same one over less time is welcome.
_TOO_BIG = re.compile(
    "|".join(
        (
            "load too many samples",  # Prometheus, --query.max-samples
            r"maximum resolution of [\d,]+ points",  # Prometheus
            r"cannot select more than -search\.maxSamples",  # VictoriaMetrics, and the next two
            r"-search\.maxPointsPerTimeseries",
            r"-search\.maxMemoryPerQuery|not enough memory for processing",
            "err-mimir-max-(?:chunks|estimated|series-per-query|query-length|total-query-length)",  # Mimir
            "the query time range exceeds the limit",  # query frontends of Cortex and Thanos
            "exceeded (?:chunks|series|samples|bytes) limit",  # store gateways of Thanos
            "received message larger than max",  # gRPC between the parts of any of them
        )
    )
)
_TIMED_OUT = re.compile("timed out|timeout exceeded|deadline exceeded")


class Failure(StrEnum):
    """Why there is no whole answer."""

    UNREACHABLE = "unreachable"  # nobody answered, or a gateway for a server that is away
    TIMEOUT = "timeout"  # not within the time that the client or the server allows
    REFUSED = "refused"  # the server will not: a wrong query, no rights, too much
    PARTIAL = "partial"  # the answer says itself that something is missing
    MALFORMED = "malformed"  # no answer of this API


class PrometheusError(Exception):
    """Prometheus did not give a whole answer; the message is one line, fit to print.

    Attributes:
        kind: why.
        too_big: the same question over less time may be answered.
    """

    def __init__(self, message: str, kind: Failure, *, too_big: bool = False) -> None:
        super().__init__(message)
        self.kind = kind
        self.too_big = too_big


class PassingError(PrometheusError):
    """One that may be over a moment later; `after_s` is the pause in seconds that the server asks for."""

    def __init__(self, message: str, kind: Failure, *, after_s: float = 0.0) -> None:
        super().__init__(message, kind)
        self.after_s = after_s


def whole(name: str, status: int, retry_after: str, content: bytes) -> Any:
    """Gives `data` of an answer that is whole.

    Args:
        name: of the server, in messages.
        status: of HTTP.
        retry_after: the header of that name, empty where there is none.
        content: the body.

    Raises:
        PassingError: when a server that is away or busy may answer later.
        PrometheusError: for every other answer that is not whole.
    """
    try:
        body = json.loads(content)
    except (ValueError, RecursionError):
        text = content.decode("utf-8", errors="replace")
        said = f"answered HTTP {status} without JSON: {excerpt(text)}"
        raise _failure(f"{name} {said}", status, retry_after, text, answered=False) from None
    if not isinstance(body, dict) or body.get("status") != "success" or status // 100 != 2:
        answered = isinstance(body, dict) and "error" in body
        text = f"{body.get('errorType')}: {body['error']}" if answered else ""
        raise _failure(f"{name} {_refusal(status, body)}", status, retry_after, text, answered)
    # An engine over several stores answers with what it has; half a fleet would read as healthy. `infos` say no such.
    if body.get("warnings"):
        warnings = body["warnings"] if isinstance(body["warnings"], list) else [body["warnings"]]
        warning = excerpt("; ".join(map(str, warnings)))
        raise PrometheusError(f"{name} gave a partial answer: {warning}", Failure.PARTIAL)
    if body.get("isPartial"):  # a cluster of VictoriaMetrics
        raise PrometheusError(f"{name} gave a partial answer: a storage node did not answer", Failure.PARTIAL)
    return body.get("data")


def excerpt(text: str) -> str:
    """Gives the beginning of what a server said as one line that no terminal acts on."""
    line = " ".join(one_line(text).split())
    return line if len(line) <= _BODY_EXCERPT else line[:_BODY_EXCERPT] + "..."


def _refusal(status: int, body: object) -> str:
    if isinstance(body, dict) and "error" in body:
        return f"refused the query ({excerpt(str(body.get('errorType', status)))}): {excerpt(str(body['error']))}"
    return f"answered HTTP {status} with an unknown body: {excerpt(json.dumps(body))}"


def _failure(message: str, status: int, retry_after: str, said: str, answered: bool) -> PrometheusError:
    too_big = status >= 400 and _TOO_BIG.search(said) is not None
    kind = _kind(status, said, answered)
    if status in _BUSY and not too_big:
        return PassingError(message, kind, after_s=float(retry_after) if retry_after.isdecimal() else 0.0)
    return PrometheusError(message, kind, too_big=too_big)


def _kind(status: int, said: str, answered: bool) -> Failure:
    if status == 504 or (status >= 400 and (said.startswith("timeout:") or _TIMED_OUT.search(said))):
        return Failure.TIMEOUT
    if status >= 500:
        return Failure.UNREACHABLE
    return Failure.REFUSED if answered or status >= 400 else Failure.MALFORMED
