"""Data hall lost power."""

from warehouse.model.cause import Cause
from warehouse.model.state import State

CAUSE = Cause(
    title="Data hall lost power",
    rank=10,
    state=State.DOWN,
    owner="facility",
    signature=(
        'At least 80 % of up{job="node"} in one power domain go to 0 within 60 s, and '
        "node_boot_time_seconds differs when they return; PDU or BMC report power off."
    ),
    duration="10 min to 8 h, plus the recovery of storage",
    blast="hall or row",
    source="field experience, no figure; InfiniteHBD trace for single supplies (mean 439 h, median 351 h)",
    first_step=(
        "Call the facility desk, confirm which feeds are dead, and hold the job queue until storage has recovered."
    ),
)
