"""Power cap slows GPUs."""

from warehouse.model.cause import Cause
from warehouse.model.state import State

CAUSE = Cause(
    title="Power cap slows GPUs",
    rank=12,
    state=State.DEGRADED,
    owner="facility",
    signature=(
        "The sw_power_cap share of clock event seconds is above the node's own baseline and the SM clock"
        " is below the fleet's median for the same job and model."
    ),
    duration="until changed",
    blast="one GPU up to a hall",
    source="NVIDIA DCGM clock event reasons; field experience, no figure",
    first_step="Compare the enforced with the default power limit and find who set the cap.",
)
