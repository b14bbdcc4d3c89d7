"""NVSwitch or fabric manager fault."""

from warehouse.model.cause import Cause
from warehouse.model.state import State

CAUSE = Cause(
    title="NVSwitch or fabric manager fault",
    rank=40,
    state=State.DOWN,
    owner="fabric",
    signature="A fatal SXid is logged, or a GPU's fabric registration is not completed.",
    duration="10 to 60 min",
    blast="node, or the rack on NVL72",
    source="NVIDIA Fabric Manager guide",
    first_step="Restart Fabric Manager on the drained node; replace the tray when the SXid comes back.",
)
