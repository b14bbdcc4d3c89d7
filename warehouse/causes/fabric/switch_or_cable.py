"""Network switch or cable fault."""

from warehouse.model.cause import Cause
from warehouse.model.state import State

CAUSE = Cause(
    title="Network switch or cable fault",
    rank=40,
    state=State.HUNG,
    owner="fabric",
    signature=(
        "node_infiniband_link_downed_total or node_network_carrier_changes_total rises on many ports of "
        "one leaf switch."
    ),
    duration="minutes to hours; cables median 47 h in the InfiniteHBD trace",
    blast="pod or rail",
    source="Llama 3 (35 interruptions), Meta RSC (InfiniBand links)",
    first_step="Map the ports to their leaf switch; swap the one cable, or move jobs off the leaf.",
)
