"""Reads series over the Prometheus HTTP API, version 1, so that any compatible engine will do."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType, TracebackType
from typing import Any, Self

import httpx

from warehouse.model.time import MS_PER_HOUR, MS_PER_SECOND, Window

# Steps in one range query. A join of two 10,000-series selectors was refused at 2,761 steps by the limit of
# 50 million samples; 1,000 leaves room for heavier joins.
MAX_STEPS = 1_000

# Length of one raw read in milliseconds: 1,250 targets x 24 h were 59 MB, so six hours stay near 15 MB.
MAX_RAW_MS = 6 * MS_PER_HOUR

_BODY_EXCERPT = 120

Labels = Mapping[str, str]
Points = tuple[tuple[int, float], ...]


class PrometheusError(Exception):
    """Prometheus did not give a whole answer; the message is one line, fit to print."""


@dataclass(frozen=True, slots=True)
class Series:
    """One series: its labels, and points of (milliseconds UTC, value) in order of time; NaN stays NaN."""

    labels: Labels
    points: Points


class PrometheusClient:
    """A synchronous client of one Prometheus, or of anything that speaks its HTTP API.

    Args:
        base_url: address without `/api/v1`; a path before it is kept.
        timeout_s: seconds that one request may take before it counts as failed.
    """

    def __init__(self, base_url: str, timeout_s: float) -> None:
        self._base_url = base_url.rstrip("/")
        # Messages reach logs and screens; a password in the address must not.
        self._name = re.sub(r"//[^/@]*@", "//", self._base_url)
        self._timeout_s = timeout_s
        self._http = httpx.Client(timeout=timeout_s)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Closes the connections; the client cannot be used afterwards."""
        self._http.close()

    def ready(self) -> None:
        """Asks for a constant, which needs a working query engine but no data.

        Raises:
            PrometheusError: with the reason when no answer comes.
        """
        self.query("vector(1)")

    def query(self, expr: str, at_ms: int | None = None) -> list[Series]:
        """Gives the value of an expression at one instant, one point per series.

        Args:
            expr: PromQL that gives an instant vector.
            at_ms: the instant in milliseconds UTC; None lets the server take its own present.

        Raises:
            PrometheusError: for every failure and every answer that is not whole.
        """
        form = {"query": expr} if at_ms is None else {"query": expr, "time": _seconds(at_ms)}
        return self._series("query", form, "vector")

    def query_range(self, expr: str, window: Window, step_ms: int, max_steps: int = MAX_STEPS) -> list[Series]:
        """Evaluates an expression at every multiple of `step_ms` inside the half-open window.

        The grid hangs on the epoch and not on the window, so that the same instants are evaluated whichever
        window asks. Long windows are asked in pieces of at most `max_steps` steps and joined by labels.

        Raises:
            PrometheusError: for every failure and every answer that is not whole.
        """
        first = -(-window.start_ms // step_ms) * step_ms
        last = (window.end_ms - 1) // step_ms * step_ms
        pieces = []
        for start in range(first, last + 1, max_steps * step_ms):
            end = min(last, start + (max_steps - 1) * step_ms)
            form = {"query": expr, "start": _seconds(start), "end": _seconds(end), "step": _seconds(step_ms)}
            pieces.append(self._series("query_range", form, "matrix"))
        return _stitch(pieces)

    def samples(self, selector: str, window: Window) -> list[Series]:
        """Gives the raw samples of a selector in the half-open window, at their true timestamps.

        Nothing is carried forward, so a pause of the server shows as the hole that it is.

        Raises:
            PrometheusError: for every failure and every answer that is not whole.
        """
        pieces = []
        for start in range(window.start_ms, window.end_ms, MAX_RAW_MS):
            end = min(window.end_ms, start + MAX_RAW_MS)
            # Closed in Prometheus 2, left-open in 3: ask from one millisecond earlier and cut here.
            form = {"query": f"{selector}[{end - start}ms]", "time": _seconds(end - 1)}
            pieces.append([_cut(series, start, end) for series in self._series("query", form, "matrix")])
        return [series for series in _stitch(pieces) if series.points]

    def names(self, window: Window) -> frozenset[str]:
        """Gives the names of the series that had a sample in the window."""
        form = {"start": _seconds(window.start_ms), "end": _seconds(window.end_ms)}
        return frozenset(self._ask("label/__name__/values", form, "GET"))

    def _series(self, endpoint: str, form: Mapping[str, str], kind: str) -> list[Series]:
        data = self._ask(endpoint, form)
        found = data.get("resultType") if isinstance(data, dict) else None
        if found != kind:
            raise PrometheusError(f"{self._name} gave a {found} where a {kind} was expected")
        try:
            return [_parse(item, kind) for item in data["result"]]
        except (KeyError, TypeError, ValueError, AttributeError) as exc:
            raise PrometheusError(f"{self._name} gave a {kind} that cannot be read: {exc!r}") from exc

    def _ask(self, endpoint: str, form: Mapping[str, str], method: str = "POST") -> Any:
        url = f"{self._base_url}/api/v1/{endpoint}"
        try:
            # POST, since a matcher with many node names outgrows the length that a URL may have.
            if method == "GET":
                response = self._http.get(url, params=dict(form))
            else:
                response = self._http.post(url, data=dict(form))
        except httpx.TimeoutException as exc:
            raise PrometheusError(f"{self._name} gave no answer within {self._timeout_s:g} s") from exc
        except (httpx.HTTPError, httpx.InvalidURL) as exc:
            raise PrometheusError(f"{self._name} cannot be reached: {_one_line(str(exc))}") from exc
        try:
            body = json.loads(response.content)
        except ValueError as exc:
            answer = f"answered HTTP {response.status_code} without JSON: {_one_line(response.text)}"
            raise PrometheusError(f"{self._name} {answer}") from exc
        if not isinstance(body, dict) or body.get("status") != "success":
            raise PrometheusError(f"{self._name} {_refusal(response.status_code, body)}")
        if body.get("warnings"):
            # An engine over several stores answers with what it has; half a fleet would read as healthy.
            warning = "; ".join(str(text) for text in body["warnings"])
            raise PrometheusError(f"{self._name} gave a partial answer: {_one_line(warning)}")
        return body.get("data")


def _seconds(at_ms: int) -> str:
    """Gives milliseconds as decimal seconds without passing through a float."""
    return f"{at_ms // MS_PER_SECOND}.{at_ms % MS_PER_SECOND:03d}"


def _one_line(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _BODY_EXCERPT else line[:_BODY_EXCERPT] + "..."


def _refusal(status_code: int, body: object) -> str:
    if isinstance(body, dict) and "error" in body:
        return f"refused the query ({body.get('errorType', status_code)}): {_one_line(str(body['error']))}"
    return f"answered HTTP {status_code} with an unknown body: {_one_line(json.dumps(body))}"


def _parse(item: Mapping[str, Any], kind: str) -> Series:
    pairs = [item["value"]] if kind == "vector" else item["values"]
    points = tuple((round(at_s * MS_PER_SECOND), float(value)) for at_s, value in pairs)
    return Series(MappingProxyType(dict(item["metric"])), points)


def _cut(series: Series, start_ms: int, end_ms: int) -> Series:
    inside = tuple(point for point in series.points if start_ms <= point[0] < end_ms)
    return Series(series.labels, inside)


def _stitch(pieces: list[list[Series]]) -> list[Series]:
    """Joins the pieces of each series in order of time; series come out in order of their labels."""
    joined: dict[tuple[tuple[str, str], ...], list[Series]] = {}
    for series in (series for piece in pieces for series in piece):
        joined.setdefault(tuple(sorted(series.labels.items())), []).append(series)
    return [Series(joined[key][0].labels, tuple(_points(joined[key]))) for key in sorted(joined)]


def _points(pieces: list[Series]) -> Iterator[tuple[int, float]]:
    for piece in pieces:
        yield from piece.points
