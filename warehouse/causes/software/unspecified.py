"""Software fault, component not stated: the source names the family and nothing more."""

from __future__ import annotations

from warehouse.model.cause import Cause
from warehouse.model.state import State

CAUSE = Cause(
    title="Software fault, component not stated by the source",
    rank=61,
    state=State.DOWN,
    owner="platform",
    signature="a human or vendor record says software failure and names no component",
    duration="h",
    blast="node",
    source="InfiniteHBD trace: class Other Failures under Software Failure, 12 faults",
    first_step="Read the journal of that hour, then restate the evidence with the component.",
)
