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
    payer="provider",
    runbook=(
        "Find the rack in the fleet file, and what it lacks: power, cooling or network.",
        "Ask the facility team for the date of its allocation, and write it beside the rack.",
        "Move GPUs to a rack that has all three where that date is far away.",
        "Correct the fleet file on the day the rack can run, so that its time counts from then.",
    ),
    other_sources=("fleet file", "contract or inventory", "a person: import evidence"),
)
