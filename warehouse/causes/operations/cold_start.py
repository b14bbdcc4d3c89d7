"""Cold start."""

from warehouse.model.cause import Cause
from warehouse.model.state import State

CAUSE = Cause(
    title="Cold start",
    rank=65,
    state=State.STARTUP,
    owner="operations",
    signature="Start-up seconds of a job or pod: image, weights, compilation, set-up of collectives.",
    duration="1 to 20 min",
    blast="job or endpoint",
    source="Meta (5 to 20 min of set-up), Google goodput (STARTUP)",
    first_step="Look at which phase is long; cache images and weights on the node when it is the download.",
    opens_incident=False,
)
