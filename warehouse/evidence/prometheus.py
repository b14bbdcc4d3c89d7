"""Reads series over the Prometheus HTTP API, version 1, so that any compatible engine will do."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType, TracebackType
from typing import Any, Self

from warehouse import clock
from warehouse.evidence.access import Access
from warehouse.evidence.answers import Failure as Failure
from warehouse.evidence.answers import PrometheusError as PrometheusError
from warehouse.evidence.answers import excerpt
from warehouse.evidence.transport import Patience, Traffic, Transport
from warehouse.model.time import MS_PER_HOUR, MS_PER_MINUTE, MS_PER_SECOND, Window

# Steps in one range query. A join of two 10,000-series selectors was refused at 2,761 steps by the limit of
# 50 million samples; 1,000 leaves room for heavier joins.
MAX_STEPS = 1_000

# Length of one raw read in milliseconds: 1,250 targets x 24 h were 59 MB, so six hours stay near 15 MB.
MAX_RAW_MS = 6 * MS_PER_HOUR

# A raw read that is refused even for a minute is not too long but too wide.
MIN_RAW_MS = MS_PER_MINUTE

# Halvings of a piece that took too long; what is slow at a quarter of its length is slow for another reason.
MAX_SLOW_HALVINGS = 2

# A range may be touched by what a server holds back when it ends this near the present: VictoriaMetrics holds back
# 30 s (-search.latencyOffset); the rest is for sites that set more, and for clocks that disagree.
NEAR_MS = 10 * MS_PER_MINUTE

# VictoriaMetrics moves the instants of a range onto a grid of its own, and those near the present back, unless the
# answer may not be cached; the others do not know the word. See docs/prometheus.md.
_EXACT = {"nocache": "1"}

_COUNTING = re.compile(r"\b(increase|changes|delta)\(")

Labels = Mapping[str, str]
Points = tuple[tuple[int, float], ...]


@dataclass(frozen=True, slots=True)
class Series:
    """One series: its labels, and points of (milliseconds UTC, value) in order of time; NaN stays NaN."""

    labels: Labels
    points: Points


@dataclass(frozen=True, slots=True)
class _Engine:
    """What is behind the address.

    Attributes:
        victoria: it is a VictoriaMetrics, which shows stale markers as NaN and stores no other NaN.
        held_back_ms: how far behind our present a range query is true, in milliseconds; never too small.
        asked_ms: when this was found out, in milliseconds UTC.
    """

    victoria: bool
    held_back_ms: int
    asked_ms: int


class PrometheusClient:
    """A synchronous client of one Prometheus, or of anything that speaks its HTTP API.

    Args:
        base_url: address without `/api/v1`; a path before it is kept.
        timeout_s: seconds that one request may take before it counts as failed.
        access: where the credentials are; None sends none.
        patience: how often to ask again when a failure may pass; None takes the defaults.
        now_ms: the present in milliseconds UTC.

    Raises:
        BadInput: when the credentials cannot be used.
    """

    def __init__(
        self,
        base_url: str,
        timeout_s: float,
        access: Access | None = None,
        patience: Patience | None = None,
        now_ms: Callable[[], int] = clock.now_ms,
    ) -> None:
        self._transport = Transport(base_url, timeout_s, access or Access(), patience or Patience())
        self._now_ms = now_ms
        self._known: _Engine | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Closes the connections; the client cannot be used afterwards."""
        self._transport.close()

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
        said = self._said(expr)
        form = {"query": said} if at_ms is None else {"query": said, "time": _seconds(at_ms)}
        return self._series("query", form | _EXACT, "vector")

    def query_range(self, expr: str, window: Window, step_ms: int, max_steps: int = MAX_STEPS) -> list[Series]:
        """Evaluates an expression at every multiple of `step_ms` inside the half-open window.

        The grid hangs on the epoch and not on the window, so that the same instants are evaluated whichever
        window asks. Long windows are asked in pieces of at most `max_steps` steps and joined by labels; a piece
        that the server finds too large or too slow is halved. Steps that a server holds back from range queries
        are asked one by one, so that none is a copy of an earlier one.

        Raises:
            PrometheusError: for every failure and every answer that is not whole.
        """
        expr = self._said(expr)
        first, end = -(-window.start_ms // step_ms), -(-window.end_ms // step_ms)
        settled = min(end, max(first, self._settled_ms(window) // step_ms + 1))

        def piece(start: int, stop: int, divisible: bool) -> list[Series]:
            span = {"start": _seconds(start * step_ms), "end": _seconds((stop - 1) * step_ms)}
            form = {"query": expr, "step": _seconds(step_ms), **span, **_EXACT}
            return self._series("query_range", form, "matrix", again_after_timeout=not divisible)

        pieces = self._pieces(first, settled, max_steps, 1, piece)
        for step in range(settled, end):
            # The step tells VictoriaMetrics how far to look back, as in a range.
            form = {"query": expr, "time": _seconds(step * step_ms), "step": _seconds(step_ms), **_EXACT}
            pieces.append(self._series("query", form, "vector"))
        return _stitch(pieces)

    def samples(self, selector: str, window: Window) -> list[Series]:
        """Gives the raw samples of a selector in the half-open window, at their true timestamps.

        Nothing is carried forward, so a pause of the server shows as the hole that it is. The end of a series is
        no sample, however the server marks it.

        Raises:
            PrometheusError: for every failure and every answer that is not whole.
        """

        def piece(start: int, end: int, divisible: bool) -> list[Series]:
            # Closed in Prometheus 2, left-open in 3: ask from one millisecond earlier and cut here.
            form = {"query": f"{selector}[{end - start}ms]", "time": _seconds(end - 1), **_EXACT}
            found = self._series("query", form, "matrix", again_after_timeout=not divisible)
            return [_cut(series, start, end) for series in found]

        joined = _stitch(self._pieces(window.start_ms, window.end_ms, MAX_RAW_MS, MIN_RAW_MS, piece))
        if any(math.isnan(value) for series in joined for _, value in series.points) and self._engine().victoria:
            joined = [_without_nan(series) for series in joined]
        return [series for series in joined if series.points]

    def names(self, window: Window, match: Sequence[str] = ()) -> frozenset[str]:
        """Gives the names of all series in the half-open window, and perhaps of some near it.

        Servers look them up by whole blocks and days: a name that is missing is surely not there, one that is
        given may lie some hours outside.

        Args:
            window: where to look.
            match: selectors; with some, only names of series that one of them selects.

        Raises:
            PrometheusError: for every failure and every answer that is not whole.
        """
        span = {"start": _seconds(window.start_ms), "end": _seconds(window.end_ms - 1)}
        data = self._transport.get("label/__name__/values", {**span, "match[]": list(match)})
        if not isinstance(data, list) or not all(isinstance(name, str) for name in data):
            raise self._malformed("gave names that are no list of texts")
        return frozenset(data)

    def traffic(self) -> Traffic:
        """Gives how much was asked so far, what failed, and how long it took."""
        return self._transport.traffic()

    def _pieces(
        self, start: int, end: int, most: int, least: int, ask: Callable[[int, int, bool], list[Series]]
    ) -> list[list[Series]]:
        """Asks for `[start, end)` in pieces of at most `most`; once one is halved, those after it stay as short.

        Args:
            start: the beginning, in whatever unit `ask` counts.
            end: the end, not included.
            most: length of a piece at first.
            least: length below which nothing is halved.
            ask: gives one piece; its third argument tells that a piece which is too slow will be halved.
        """
        pieces: list[list[Series]] = []
        slow = 0
        while start < end:
            stop = min(end, start + most)
            divisible = stop - start > least
            try:
                pieces.append(ask(start, stop, divisible and slow < MAX_SLOW_HALVINGS))
            except PrometheusError as exc:
                too_slow = exc.kind is Failure.TIMEOUT and slow < MAX_SLOW_HALVINGS
                if not divisible or not (exc.too_big or too_slow):
                    raise
                slow += not exc.too_big
                most = max(least, (stop - start) // 2)
                self._transport.count_split()
            else:
                start, slow = stop, 0
        return pieces

    def _said(self, expr: str) -> str:
        """Gives an expression in the server's words: VictoriaMetrics counts the first sample of a series as a rise.

        Its `increase_prometheus` and the like look at the samples of the range alone, as the names without it do
        elsewhere.
        """
        if not _COUNTING.search(expr) or not self._engine().victoria:
            return expr
        return _COUNTING.sub(r"\1_prometheus(", expr)

    def _settled_ms(self, window: Window) -> int:
        """Gives the last instant at which a range query over the window is true."""
        now_ms = self._now_ms()
        if abs(now_ms - window.end_ms) > NEAR_MS:
            return window.end_ms
        return now_ms - self._engine().held_back_ms

    def _engine(self) -> _Engine:
        """Finds out what is behind the address, and again when that has become old.

        `time()` is a scalar in every engine but VictoriaMetrics, which has only vectors. Without an instant and
        with leave to use its cache it stands where range queries end to be true.
        """
        now_ms = self._now_ms()
        if self._known is None or not 0 <= now_ms - self._known.asked_ms < NEAR_MS // 2:
            data = self._transport.post("query", {"query": "time()"})
            try:
                victoria = data["resultType"] == "vector"
                _, value = data["result"][0]["value"] if victoria else data["result"]
                stands_ms = math.floor(float(value) * MS_PER_SECOND)
            except (LookupError, TypeError, ValueError, OverflowError) as exc:
                raise self._malformed(f"gave a time that cannot be read: {exc!r}") from exc
            now_ms = self._now_ms()
            self._known = _Engine(victoria, now_ms - stands_ms, now_ms)
        return self._known

    def _series(
        self, endpoint: str, form: Mapping[str, str], kind: str, again_after_timeout: bool = True
    ) -> list[Series]:
        data = self._transport.post(endpoint, form, again_after_timeout)
        found = data.get("resultType") if isinstance(data, dict) else None
        if found != kind:
            raise self._malformed(f"gave a {found} where a {kind} was expected")
        try:
            return [_parse(item, kind) for item in data["result"]]
        except (LookupError, TypeError, ValueError, AttributeError, OverflowError) as exc:
            raise self._malformed(f"gave a {kind} that cannot be read: {exc!r}") from exc

    def _malformed(self, what: str) -> PrometheusError:
        return PrometheusError(f"{self._transport.name} {excerpt(what)}", Failure.MALFORMED)


def _seconds(at_ms: int) -> str:
    """Gives milliseconds as decimal seconds without passing through a float."""
    return f"{at_ms // MS_PER_SECOND}.{at_ms % MS_PER_SECOND:03d}"


def _parse(item: Mapping[str, Any], kind: str) -> Series:
    pairs = [item["value"]] if kind == "vector" else item["values"]
    points = tuple((round(at_s * MS_PER_SECOND), float(value)) for at_s, value in pairs)
    # An empty label is a missing one; VictoriaMetrics may name it.
    labels = {label: text for label, text in item["metric"].items() if text}
    return Series(MappingProxyType(labels), points)


def _without_nan(series: Series) -> Series:
    return Series(series.labels, tuple(point for point in series.points if not math.isnan(point[1])))


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
