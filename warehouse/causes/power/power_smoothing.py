"""Power smoothing fault."""

from warehouse.causes.xids import event, event_dcgm
from warehouse.model.cause import Cause
from warehouse.model.state import State

# Disengaged, near the end of its life, at its end; 162 says that it works again (NVIDIA Xid catalogue).
_CODES = (163, 164, 165)

CAUSE = Cause(
    title="Power smoothing fault",
    rank=13,
    state=State.DEGRADED,
    owner="facility",
    signature=(
        "Xid 163, 164 or 165 on a Blackwell GPU: events, since the GPU computes on; what the hall loses is smoothness. "
        "162 says that smoothing is back."
    ),
    duration="until serviced",
    blast="GPU",
    source="NVIDIA Xid catalogue",
    first_step="Note the Xid and firmware version, and plan a reset at the next gap between jobs.",
    payer="provider",
    runbook=(
        "Read which: 163 switched off by heat or a time limit, 164 near the end of its life, 165 at its end.",
        "Compare the number of GPUs with 163 by rack; many at once point to heat or to a setting.",
        "Look at the swing of the rack's power with the facility desk before more such GPUs run one job.",
        "Reset the GPU at the next gap between jobs, and see whether 162 follows.",
        "Order a replacement board on 165.",
    ),
    other_sources=("kernel log", "PDU readings", "a person: import evidence"),
    detectors=(
        event("power_smoothing_xid", _CODES, State.DEGRADED, "The GPU's power smoothing has switched off or worn out."),
        event_dcgm(
            "power_smoothing_xid_dcgm",
            _CODES,
            State.DEGRADED,
            "dcgm-exporter shows that a GPU's power smoothing has switched off or worn out.",
        ),
    ),
)
