"""CPU to GPU link fault."""

from warehouse.causes.xids import event, event_dcgm
from warehouse.model.cause import Cause
from warehouse.model.state import State

# Corrected errors of the link to Grace, errors of its control traffic (NVIDIA Xid catalogue).
_CODES = (121, 159)

CAUSE = Cause(
    title="CPU to GPU link fault",
    rank=41,
    state=None,
    owner="fabric",
    signature="Xid 121 or 159 on a superchip: events, since the superchip works on.",
    duration="until the next service window",
    blast="superchip",
    source="NVIDIA Xid catalogue",
    first_step=("Note it and plan a reset in the next service window; drain at once if the count keeps rising."),
    payer="provider",
    runbook=(
        "Count Xid 121 of this GPU over the last week (gpuminutes_gpu_xid_events_total).",
        "Compare the job's step time with that of its other nodes: a link with many errors is slow.",
        "Plan a reset of the superchip in the next service window, which trains the link again.",
        "Drain the node at once when the count rises every hour, and have the superchip replaced when a reset is no"
        " help.",
    ),
    other_sources=("kernel log", "job progress", "a person: import evidence"),
    detectors=(
        event("nvlink_c2c_xid", _CODES, State.DEGRADED, "The driver logged errors of the link to the CPU.", "info"),
        event_dcgm(
            "nvlink_c2c_xid_dcgm", _CODES, State.DEGRADED, "dcgm-exporter shows errors of the link to the CPU.", "info"
        ),
    ),
)
