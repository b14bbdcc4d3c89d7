"""The GPUs of what may run anywhere: of a job by its number, of an endpoint by its pod."""

from __future__ import annotations

import re
from collections.abc import Set

from exporter.metrics import GPU_WORKLOAD_INFO
from warehouse.detect.site import OURS, Site
from warehouse.detect.targets import Question, Target, address, one_of
from warehouse.model.time import MS_PER_MINUTE
from warehouse.signals import load_dialects
from warehouse.signals.rewrite import Use, parse_matchers, rewrite

# How long an engine carries a sample forward, unless it is told otherwise (Prometheus, --query.lookback-delta).
LOOKBACK_MS = 5 * MS_PER_MINUTE

Members = dict[str, set[tuple[str, str]]]


def members_expr(target: Target, site: Site, present: Set[str], by: str = "node") -> list[str]:
    """Gives PromQL for the nodes (or, by other labels, the GPUs) of what roams, one per exporter that says it."""
    label, value = ("job_id", target.job) if target.job else ("pod", target.endpoint)
    asked = one_of(label, [value])
    found = []
    if GPU_WORKLOAD_INFO.name in present:
        found.append(f"count by ({by}) ({GPU_WORKLOAD_INFO.name}{{{asked}}})")
    for dialect in load_dialects():
        if dialect.name == OURS or not any(name.startswith(dialect.prefix) for name in present):
            continue
        # Several labels may hold a pod's name there, so that it is compared after they were made one.
        said = rewrite(Use(GPU_WORKLOAD_INFO, parse_matchers(f'{label}!=""')), dialect, site.labels[dialect.name])
        if said is not None:
            one = f'label_replace(vector(1), "{label}", "{_literal(value)}", "", "")'
            found.append(f"count by ({by}) ({said} and on ({label}) {one})")
    return found


def nodes_of_jobs(jobs: Set[str], question: Question) -> frozenset[str]:
    """Gives every node on which our exporter named one of the jobs in the span, or shortly before it."""
    # What a query carries forward from before the span counts at its first steps.
    length = f"{question.span.length_ms + LOOKBACK_MS}ms"
    expr = f"count by (node) (present_over_time({GPU_WORKLOAD_INFO.name}{{{one_of('job_id', jobs)}}}[{length}]))"
    found = question.client.query(expr, question.span.end_ms - 1)
    return frozenset(series.labels.get("node", "") for series in found)


def members(target: Target, question: Question, at_ms: int) -> tuple[Members, str]:
    """Gives the GPUs of a job or endpoint at an instant, (address, uuid) per node, and whose series named them.

    Where several exporters name them, ours is taken, else the first that does.
    """
    for expr in members_expr(target, question.site, question.names, "node, slot, uuid"):
        found: Members = {}
        for series in question.client.query(expr, at_ms):
            said = series.labels
            found.setdefault(said.get("node", ""), set()).add((address(said.get("slot", "")), said.get("uuid", "")))
        if found:
            return found, _teller(expr)
    return {}, OURS


def _teller(expr: str) -> str:
    return next((d.name for d in load_dialects() if d.name != OURS and d.prefix in expr), OURS)


def _literal(value: str) -> str:
    return re.sub(r'(["\\])', r"\\\1", value.replace("$", "$$"))
