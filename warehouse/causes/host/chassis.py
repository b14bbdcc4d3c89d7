"""Chassis, board or riser fault."""

from warehouse.causes.bmc import alarm
from warehouse.model.cause import Cause
from warehouse.model.state import State

CAUSE = Cause(
    title="Chassis, board or riser fault",
    rank=25,
    state=State.DOWN,
    owner="hardware",
    signature=(
        "ipmi_sensor_state of the board, a riser, a slot, a cable, the chipset or a battery turns critical: an event; "
        "the time that it costs is seen as an unreachable node or lost GPUs."
    ),
    duration="days",
    blast="node",
    source="Llama 3 (2 interruptions), InfiniteHBD trace",
    first_step="Drain the node and open a hardware ticket with the BMC event log attached.",
    payer="provider",
    runbook=(
        "Drain the node: `scontrol update nodename=NODE state=drain reason=chassis` or `kubectl drain NODE`.",
        "Save the event log with `ipmitool sel elist` and the sensors with `ipmitool sdr elist`.",
        "Name the part and its slot from the log; a battery can wait for a service window, a board cannot.",
        "Power the node off fully, reseat risers and cables, and see whether the alarm comes back.",
        "Open a hardware ticket with log, serial number and part, and import the evidence if nothing else tells of it.",
    ),
    other_sources=("BMC event log", "changes.csv", "a person: import evidence"),
    detectors=(
        alarm(
            "bmc_chassis",
            "Module/Board|Slot/Connector|Cable/Interconnect|Chip Set|Chassis|Battery",
            "Module/Board",
            State.DOWN,
            "The BMC calls the board, a riser, a cable or a battery critical.",
        ),
    ),
)
