"""Kernel panic or surprise reboot."""

from warehouse.model.cause import Cause
from warehouse.model.state import State

CAUSE = Cause(
    title="Kernel panic or surprise reboot",
    rank=21,
    state=State.DOWN,
    owner="hardware",
    signature="node_boot_time_seconds changes while no maintenance was declared.",
    duration="5 to 20 min",
    blast="node",
    source="InfiniteHBD trace (1 fault), Meta RSC",
    first_step="Read the crash dump or the last BMC console lines before the node takes work again.",
)
