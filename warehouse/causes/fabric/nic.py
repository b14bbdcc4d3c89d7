"""Network adapter fault."""

from warehouse.model.cause import Cause
from warehouse.model.state import State

CAUSE = Cause(
    title="Network adapter fault",
    rank=42,
    state=State.DOWN,
    owner="fabric",
    signature="One adapter has node_infiniband_state_id other than 4, or its rate is below nominal.",
    duration="hours",
    blast="node",
    source="Llama 3 (7 interruptions), InfiniteHBD trace (30 faults, median 12 h)",
    first_step="Drain the node, reset the adapter, and swap cable and transceiver before the adapter itself.",
)
