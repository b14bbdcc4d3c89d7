"""Power supply failed."""

from warehouse.causes.bmc import WARNING, alarm
from warehouse.model.cause import Cause
from warehouse.model.state import State

CAUSE = Cause(
    title="Power supply failed",
    rank=11,
    state=State.DOWN,
    owner="facility",
    signature=(
        'ipmi_sensor_state{type="Power Supply"} or "Power Unit" (redundancy) leaves 0: an event, since a node with its '
        "other supplies works on. What it costs is seen as a power brake or an unreachable node."
    ),
    duration="hours to weeks, median 351 h in the InfiniteHBD trace",
    blast="node",
    source="Llama 3 (3 interruptions), InfiniteHBD trace (26 faults)",
    first_step="Read the supply sensors on the BMC, reseat or swap the failed unit, and check its feed.",
    payer="provider",
    runbook=(
        "Read the supplies with `ipmitool sdr type 'Power Supply'`, and when it began with `ipmitool sel elist`.",
        "Ask the facility desk whether the feed of that supply is dead: then its rack neighbours alarm too.",
        "See whether the node brakes: gpuminutes_gpu_clock_event_active{reason='power_brake'}; drain it if it does.",
        "Reseat the supply and its cord, else swap it while the others carry the node.",
        "See that redundancy is back before the node takes a job that loads all its GPUs.",
    ),
    other_sources=("BMC event log", "PDU readings", "changes.csv", "a person: import evidence"),
    detectors=(
        alarm(
            "bmc_power_supply",
            "Power Supply|Power Unit",
            "Power Supply",
            State.DOWN,
            "The BMC reports a failed power supply, or that redundancy is lost.",
            least=WARNING,
        ),
    ),
)
