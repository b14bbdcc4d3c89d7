"""Network congestion."""

from warehouse.model.cause import Cause
from warehouse.model.state import State

CAUSE = Cause(
    title="Network congestion",
    rank=43,
    state=State.DEGRADED,
    owner="fabric",
    signature=("node_infiniband_port_transmit_wait_total grows quickly with all links up, while step time goes up."),
    duration="minutes to days",
    blast="jobs on the path",
    source="Meta (50 to 75 % of bandwidth lost), C4",
    first_step="Find the hot ports, then check adaptive routing and which jobs share the path.",
)
