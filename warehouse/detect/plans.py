"""How to date the edges of what each detector finds: the part of a detector that PromQL cannot say."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from warehouse.causes.symptom.collective_timeout import ONSET_EXPR
from warehouse.evidence.prometheus import MAX_STEPS


@dataclass(frozen=True, slots=True)
class Witness:
    """A raw series that is 0 while the condition holds: `metric{matchers}`, one per value of the labels `by`."""

    metric: str
    matchers: str
    by: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Plan:
    """How hits of one detector become spans.

    Attributes:
        witnesses: series whose samples date both edges; all of them must be bad. Without any, the edges stay on
            the evaluation grid, each late by less than one step.
        onset_expr: the condition without range functions, which become true late; it dates both edges, and the
            detector's own expression only confirms it.
        max_steps: steps in one query, fewer where the expression joins several series of each GPU.
        basis: `measured` where the series say it themselves, `inferred` where it is concluded.
    """

    witnesses: tuple[Witness, ...] = ()
    onset_expr: str | None = None
    max_steps: int = MAX_STEPS
    basis: str = "measured"


_EXPORTER_UP = Witness("up", 'job="gpu-minutes"', ("node",))
_NODE_UP = Witness("up", 'job="node"', ("node",))
_GPU_UP = Witness("gpuminutes_gpu_up", "", ("node", "slot"))

PLANS: Mapping[str, Plan] = MappingProxyType(
    {
        "node_unreachable": Plan(witnesses=(_EXPORTER_UP, _NODE_UP)),
        "exporter_silent": Plan(witnesses=(_EXPORTER_UP,)),
        "gpu_off_bus": Plan(witnesses=(_GPU_UP,)),
        "gpu_no_answer": Plan(witnesses=(_GPU_UP,)),
        # Four joined selectors over every GPU: an hour of 15-second steps in one query stays far from the
        # engine's limit on samples, a day of them was refused.
        "job_hang": Plan(onset_expr=ONSET_EXPR, max_steps=240, basis="inferred"),
    }
)

DEFAULT_PLAN = Plan()


def plan_of(key: str) -> Plan:
    """Gives the plan of a detector; one without a plan of its own is dated on the grid."""
    return PLANS.get(key, DEFAULT_PLAN)
