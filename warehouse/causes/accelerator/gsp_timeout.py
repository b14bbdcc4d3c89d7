"""GPU system processor timed out."""

from warehouse.model.cause import Cause
from warehouse.model.state import State

CAUSE = Cause(
    title="GPU system processor timed out",
    rank=31,
    state=State.HUNG,
    owner="hardware",
    signature="Xid 119 or 120.",
    duration="10 to 30 min with a reboot; one case took 23 h",
    blast="GPU, then its node",
    source="Llama 3 (17 interruptions), Delta, Meta (a driver regression)",
    first_step="Drain and reboot the node, and look whether one driver version collects these.",
)
