"""GPU system processor timed out."""

from warehouse.causes.xids import event, event_dcgm, recovery
from warehouse.model.cause import Cause
from warehouse.model.state import State

_CODES = (119, 120)

CAUSE = Cause(
    title="GPU system processor timed out",
    rank=31,
    state=State.HUNG,
    owner="hardware",
    signature="Xid 119 or 120; lasts as long as the driver then asks for a reset (gpuminutes_gpu_recovery_action).",
    duration="10 to 30 min with a reboot; one case took 23 h",
    blast="GPU, then its node",
    source="Llama 3 (17 interruptions), Delta, Meta (a driver regression)",
    first_step="Drain and reboot the node, and look whether one driver version collects these.",
    payer="provider",
    runbook=(
        "Stop the job on the node and drain it: calls into the driver may hang from now on.",
        "Save `nvidia-bug-report.sh` output before any reset, with a time limit, since it may hang too.",
        "Reset the GPU (`nvidia-smi -r -i INDEX`); reboot the node when that does not return.",
        "Count these Xids by driver version (gpuminutes_gpu_info): a rise after an upgrade is the driver's.",
        "Order a replacement when one board does it again on a node whose neighbours with the same driver do not.",
    ),
    other_sources=("kernel log", "job progress", "a person: import evidence"),
    detectors=(
        event("gsp_timeout_xid", _CODES, State.HUNG, "The GPU's system processor did not answer the driver.", "page"),
        event_dcgm(
            "gsp_timeout_xid_dcgm",
            _CODES,
            State.HUNG,
            "dcgm-exporter shows that the system processor timed out.",
            "page",
        ),
        recovery(
            "gsp_timeout_reset",
            _CODES,
            "The system processor timed out, and the driver asks for a reset.",
            also=("gsp_timeout_xid",),
        ),
    ),
)
