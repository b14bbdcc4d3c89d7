"""Row remap waits for a reset."""

from warehouse.causes.examples import dcgm, gpu, series
from warehouse.causes.xids import event, event_dcgm
from warehouse.model.cause import Case, Cause, Detector, Told
from warehouse.model.state import State

_PENDING = "gpuminutes_gpu_row_remap_pending"
# A row, a resource, a channel that was retired (NVIDIA Xid catalogue).
_CODES = (63, 156, 160)

CAUSE = Cause(
    title="Row remap waits for a reset",
    rank=32,
    state=None,
    owner="hardware",
    signature="gpuminutes_gpu_row_remap_pending is 1, or Xid 63, 156 or 160: events, since the GPU works on.",
    duration="minutes, at the next reset",
    blast="GPU",
    source="Delta (95 row remap events)",
    first_step="Plan a GPU reset at the next gap between jobs; work may go on until then.",
    payer="provider",
    runbook=(
        "Look whether an uncorrectable error came with it (Xid 48, 94 or 95): then that one decides what to do.",
        "Let the job end; mark the node so that no new one starts before the reset.",
        "Reset the GPU (`nvidia-smi -r -i INDEX`) and look whether gpuminutes_gpu_row_remap_pending is 0.",
        "Look at gpuminutes_gpu_row_remap_banks: a bank without spare rows means replacement at the next error.",
    ),
    other_sources=("kernel log", "a person: import evidence"),
    detectors=(
        Detector(
            key="row_remap_pending",
            version=1,
            expr=f"{_PENDING} == 1",
            scope="gpu",
            # Of an event: it has no length, so no time is in this state.
            state=State.DEGRADED,
            min_duration_ms=0,
            momentary=True,
            severity="info",
            cases=(
                Case("a reset is due", {series(_PENDING, gpu(0)): "0x39 1x39 0x39"}, told=(Told("n1/0", 600, 600),)),
                Case(
                    "as DCGM says it",
                    {series("DCGM_FI_DEV_ROW_REMAP_PENDING", dcgm(1)): "0x39 1x39"},
                    told=(Told("n1/1", 600, 600),),
                ),
                Case(
                    "DCGM has no value for it", {series("DCGM_FI_DEV_ROW_REMAP_PENDING", dcgm(1)): "0x39 2147483634x39"}
                ),
            ),
            why="A row remap waits for a reset of the GPU, which works on until then.",
        ),
        event("row_remap_xid", _CODES, State.DEGRADED, "The driver logged that it retired memory.", "info"),
        event_dcgm(
            "row_remap_xid_dcgm", _CODES, State.DEGRADED, "dcgm-exporter shows that memory was retired.", "info"
        ),
    ),
)
