"""How much of an episode was lost, where the series say it: the mean over the episode, in parts per million.

While the episode lasts, the mean goes up to the last full hour: whoever looks then, however often, gets the same
number, and the ledger is not written anew at every look.
"""

from __future__ import annotations

from decimal import ROUND_HALF_EVEN, Decimal

from warehouse.detect.render import IDENTITY, Form, Only, forms
from warehouse.detect.targets import Question, Target, one_of, target_of
from warehouse.model.cause import Detector
from warehouse.model.state import PPM
from warehouse.model.time import MS_PER_HOUR, MS_PER_MINUTE, Window

# Steps of the mean: an episode of a week is asked at five minutes, since every step is a sample of the query's limit.
_FINE_MS = 24 * MS_PER_HOUR


def _of_node(detector: Detector, form: Form, question: Question, target: Target) -> str:
    if not target.node:
        return form.lost_expr
    alone = Only(one_of("node", [target.node]))
    again = forms(detector, question.site, question.grid.step_ms, question.span.length_ms, alone)
    return next((other.lost_expr for other in again if other.teller == form.teller), form.lost_expr)


def lost_ppm(
    detector: Detector, form: Form, question: Question, target: Target, start_ms: int, end_ms: int | None
) -> int | None:
    """Gives the lost part of an episode in parts per million, None where neither kind of fault nor series say it.

    Raises:
        PrometheusError: when Prometheus gives no whole answer.
    """
    if not form.lost_expr:
        return detector.lost_ppm
    if end_ms is None:
        full_hour_ms = question.grid.horizon_ms // MS_PER_HOUR * MS_PER_HOUR
        end_ms = max(full_hour_ms, start_ms + detector.min_duration_ms)
    window = Window(start_ms, max(start_ms + 1, min(end_ms, question.grid.horizon_ms)))
    step_ms = question.grid.step_ms if window.length_ms <= _FINE_MS else 5 * MS_PER_MINUTE
    expr = _of_node(detector, form, question, target)
    parts = [
        value
        for series in question.client.query_range(expr, window, step_ms)
        if all(series.labels.get(label) for label in IDENTITY[detector.scope])
        and target_of(detector.scope, series.labels) == target
        for _, value in series.points
        if value == value
    ]
    if not parts:
        return detector.lost_ppm
    mean = sum(map(Decimal, parts), Decimal(0)) / len(parts)
    return int((mean * PPM).to_integral_value(ROUND_HALF_EVEN))
