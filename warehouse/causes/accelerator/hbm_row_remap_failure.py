"""Row remapping failed."""

from warehouse.causes.examples import dcgm, gpu, series
from warehouse.causes.xids import event, event_dcgm
from warehouse.model.cause import Case, Cause, Detector, Told, Witness
from warehouse.model.state import State

_FAILED = "gpuminutes_gpu_row_remap_failed"
# A row, a resource, a channel that could not be retired (NVIDIA Xid catalogue).
_CODES = (64, 157, 161)

CAUSE = Cause(
    title="Row remapping failed",
    rank=31,
    state=State.DOWN,
    owner="hardware",
    signature="gpuminutes_gpu_row_remap_failed is 1, which the board remembers for ever; Xid 64, 157 or 161.",
    duration="days, until the board is replaced",
    blast="GPU",
    source="Delta (8 on H100)",
    first_step="Take the GPU out of service and order a replacement: it has no spare rows left.",
    payer="provider",
    runbook=(
        "Drain the node and keep jobs off this GPU: the next error in the same bank cannot be repaired.",
        "Look at `nvidia-smi -q -d ROW_REMAPPER` and note the board's serial (gpuminutes_gpu_info).",
        "Reset the GPU once and look whether the failure stays, since a failed write to its memory looks the same.",
        "Order the replacement and record the swap (`gpu-minutes` keeps which board sat where).",
    ),
    other_sources=("kernel log", "a person: import evidence"),
    detectors=(
        Detector(
            key="row_remap_failed",
            version=1,
            expr=f"{_FAILED} == 1",
            scope="gpu",
            state=State.DOWN,
            min_duration_ms=30_000,
            witnesses=(Witness(_FAILED, "", ("node", "slot"), "==", "1"),),
            cases=(
                Case(
                    "until the board is replaced",
                    {series(_FAILED, gpu(0)): "0x39 1x39 0x39"},
                    told=(Told("n1/0", 600, 1200),),
                ),
                Case(
                    "as DCGM says it",
                    {series("DCGM_FI_DEV_ROW_REMAP_FAILURE", dcgm(1)): "0x39 1x39"},
                    told=(Told("n1/1", 600, None),),
                ),
                Case(
                    "by its new name",
                    {series("DCGM_FI_DEV_ROW_REMAP_FAILED", dcgm(0)): "0x39 1x39"},
                    told=(Told("n1/0", 600, None),),
                ),
                Case(
                    "DCGM has no value for it", {series("DCGM_FI_DEV_ROW_REMAP_FAILED", dcgm(0)): "0x39 2147483634x39"}
                ),
                Case(
                    "rows were remapped, and well",
                    {series("gpuminutes_gpu_remapped_rows", gpu(0), kind="uncorrectable"): "1x39 2x39"},
                ),
            ),
            why="The board says that a row could not be remapped: it has no spare left there.",
        ),
        event("row_remap_failed_xid", _CODES, State.DOWN, "The driver logged that memory could not be retired."),
        event_dcgm(
            "row_remap_failed_xid_dcgm", _CODES, State.DOWN, "dcgm-exporter shows that memory could not be retired."
        ),
    ),
)
