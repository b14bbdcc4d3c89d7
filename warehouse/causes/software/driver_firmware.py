"""Driver or firmware regression."""

from warehouse.model.cause import Cause
from warehouse.model.state import State

CAUSE = Cause(
    title="Driver or firmware regression",
    rank=61,
    state=State.DOWN,
    owner="platform",
    signature="The rate of Xids goes with one driver version, or Xid 38, 66, 67 or 78.",
    duration="days",
    blast="nodes of one version",
    source="Meta (system processor regression)",
    first_step="Compare Xid rates by driver version and pin the fleet to the last good one.",
)
