"""Installed without power, cooling or network."""

from warehouse.model.cause import Cause
from warehouse.model.state import State

CAUSE = Cause(
    title="Installed without power, cooling or network",
    rank=5,
    state=State.STRANDED,
    owner="capacity",
    signature=(
        "The inventory says that the GPUs are installed but that their rack has no power, cooling or "
        "network allocation."
    ),
    duration="weeks",
    blast="rack",
    source="field experience, no figure",
    first_step=(
        "Ask the facility team for the date at which the rack gets its allocation, and correct the fleet"
        " file if it already has."
    ),
    opens_incident=False,
)
