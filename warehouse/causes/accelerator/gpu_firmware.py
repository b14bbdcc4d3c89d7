"""GPU firmware fault."""

from warehouse.causes.xids import event, event_dcgm, recovery
from warehouse.model.cause import Cause
from warehouse.model.state import State

# Power unit, security unit, its flash, start of the GPU, second security unit (NVIDIA Xid catalogue). 122 is marked
# unused there from Ampere on, and was counted 77 times on A100 (Delta).
_CODES = (62, 110, 122, 143, 169)

CAUSE = Cause(
    title="GPU firmware fault",
    rank=32,
    state=State.DOWN,
    owner="hardware",
    signature=(
        "Xid 62, 110, 122, 143 or 169; lasts as long as the driver then asks for a reset"
        " (gpuminutes_gpu_recovery_action)."
    ),
    duration="10 to 60 min",
    blast="GPU",
    source="NVIDIA Xid catalogue, Delta (77 power unit faults)",
    first_step="Reset the GPU, then compare its firmware version with the rest of the fleet.",
    payer="provider",
    runbook=(
        "Drain the node and let the other GPUs' jobs end, or kill them when the driver no longer answers.",
        "Save `nvidia-bug-report.sh` output: the vendor asks for it with these Xids.",
        "Reset the GPU (`nvidia-smi -r -i INDEX`) and run a short diagnosis (`dcgmi diag -r 2`).",
        "Compare vbios and driver with the fleet (gpuminutes_gpu_info) and bring an odd one in line.",
        "Replace the board when the same Xid comes back after the reset.",
    ),
    other_sources=("kernel log", "a person: import evidence"),
    detectors=(
        event("gpu_firmware_xid", _CODES, State.DOWN, "A processor inside the GPU halted or failed."),
        event_dcgm(
            "gpu_firmware_xid_dcgm", _CODES, State.DOWN, "dcgm-exporter shows that a processor of the GPU failed."
        ),
        recovery(
            "gpu_firmware_reset",
            _CODES,
            "A processor inside the GPU failed, and the driver asks for a reset.",
            also=("gpu_firmware_xid",),
        ),
    ),
)
