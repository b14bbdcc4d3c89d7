"""Storm of corrected memory errors."""

from warehouse.model.cause import Cause
from warehouse.model.state import State

CAUSE = Cause(
    title="Storm of corrected memory errors",
    rank=33,
    state=State.DEGRADED,
    owner="hardware",
    signature="The single-bit rate of gpuminutes_gpu_ecc_errors_total is above its threshold, or Xid 92.",
    duration="days",
    blast="GPU",
    source="InfiniteHBD trace, DCGM health policy",
    first_step="Watch the rate and remapped rows; plan a reset or swap before errors become uncorrectable.",
)
