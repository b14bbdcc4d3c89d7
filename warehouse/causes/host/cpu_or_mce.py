"""CPU or machine check fault."""

from warehouse.causes.bmc import alarm
from warehouse.model.cause import Cause
from warehouse.model.state import State

CAUSE = Cause(
    title="CPU or machine check fault",
    rank=21,
    state=State.DOWN,
    owner="hardware",
    signature=(
        'ipmi_sensor_state{type="Processor"} or "Critical Interrupt" turns critical: an event, often the last before '
        "the node is unreachable. A machine check that only the kernel logs is in no series of node_exporter."
    ),
    duration="hours to days",
    blast="node",
    source="Llama 3 (2 interruptions), InfiniteHBD trace (3 faults)",
    first_step="Drain the node, decode the machine check for its socket, and open a replacement order.",
    payer="provider",
    runbook=(
        "Read the machine checks: `journalctl -k -b -1 | grep -i 'machine check'`, or `ras-mc-ctl --errors`.",
        "Read the BMC's view with `ipmitool sel elist`, and note socket, bank and time of each entry.",
        "Drain the node and keep it drained, whether or not it boots again.",
        "Swap the two processors where policy allows it: an error that moves is the processor's, else the board's.",
        "Open a replacement order with the decoded error, and stress the node before it comes back.",
    ),
    other_sources=("kernel log", "BMC event log", "a person: import evidence"),
    detectors=(
        alarm(
            "bmc_processor",
            "Processor|Critical Interrupt",
            "Processor",
            State.DOWN,
            "The BMC reports a processor error or a critical interrupt.",
        ),
    ),
)
