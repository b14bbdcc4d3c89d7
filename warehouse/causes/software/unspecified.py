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
    runbook=(
        "Open the record that named it, with its evidence: gpu-minutes incident ID.",
        "Read the node's journal around its start: journalctl --since '1 hour ago' -p warning, and dmesg.",
        "Look for Xids, killed processes and restarts of services in the same minutes.",
        "Rule the incident to the cause that you found; if there is none, leave it as it is.",
    ),
    # It stands for what a record left out; what series show has a cause of its own.
    other_sources=("a person: import evidence", "trace of a vendor"),
)
