"""Power supply failed."""

from warehouse.model.cause import Cause
from warehouse.model.state import State

CAUSE = Cause(
    title="Power supply failed",
    rank=11,
    state=State.DOWN,
    owner="facility",
    signature='ipmi_sensor_state{type="Power Supply"} is not 0 or redundancy is lost; the node may be down.',
    duration="hours to weeks, median 351 h in the InfiniteHBD trace",
    blast="node",
    source="Llama 3 (3 interruptions), InfiniteHBD trace (26 faults)",
    first_step="Read the supply sensors on the BMC, reseat or swap the failed unit, and check its feed.",
)
