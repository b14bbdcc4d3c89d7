"""Server hardware fault, part not stated: the source names the family and nothing more."""

from __future__ import annotations

from warehouse.model.cause import Cause
from warehouse.model.state import State

CAUSE = Cause(
    title="Server hardware fault, part not stated by the source",
    rank=25,
    state=State.DOWN,
    owner="hardware",
    signature="a human or vendor record says hardware failure and names no part",
    duration="h - days",
    blast="node",
    source="InfiniteHBD trace: class Other Failures under Hardware Failure",
    first_step="Read the management controller's event log of that hour, then restate the evidence with the part.",
    payer="provider",
    runbook=(
        "Find the record: the incident's evidence names its source and key.",
        "Read the BMC event log of that hour, `ipmitool sel elist`, and the kernel log, `journalctl -k --since TIME`.",
        "Ask the vendor or whoever closed the ticket which part was replaced.",
        "Import the evidence again under the cause of that part, or attribute the incident to it.",
    ),
    other_sources=("changes.csv", "a vendor's record", "a person: import evidence"),
)
