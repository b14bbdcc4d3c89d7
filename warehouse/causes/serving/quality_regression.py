"""Answers got worse."""

from warehouse.model.cause import Cause
from warehouse.model.state import State

CAUSE = Cause(
    title="Answers got worse",
    rank=75,
    state=State.UNUSABLE,
    owner="serving",
    signature="An evaluation or canary score falls below its threshold after a deploy.",
    duration="hours to days",
    blast="endpoint",
    source="field experience, no figure",
    first_step="Roll back to the last model or image that passed the evaluation.",
)
