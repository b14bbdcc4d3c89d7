"""Uncorrectable SRAM error."""

from warehouse.causes.examples import dcgm, gpu, series
from warehouse.causes.xids import GPU, LAST, SAME, last, near, rows, since_boot
from warehouse.model.cause import Case, Cause, Detector, Told
from warehouse.model.state import State

_ERRORS = "gpuminutes_gpu_ecc_errors_total"
_ALL = {"kind": "uncorrected", "scope": "volatile", "location": "all"}
_SRAM = {**_ALL, "location": "sram"}
_THRESHOLD = "gpuminutes_gpu_sram_ecc_threshold_exceeded"

_BAD = last([48, 95])
_CONTAINED = f"{last([94])} > on ({GPU}) {_BAD} - $same_seconds"
_RESET = f'max by ({GPU}) ({_ERRORS}{{kind="uncorrected",scope="volatile",location="all"}}) == 0'

_XID = Detector(
    key="sram_uncorrectable_xid",
    version=1,
    expr=f"{since_boot(near(_BAD, last([172])))} unless on ({GPU}) ({_CONTAINED}) unless on ({GPU}) ({_RESET})",
    coarse=f'max by (node) (max_over_time({LAST}{{xid="172"}}[$span]))',
    scope="gpu",
    state=State.DOWN,
    min_duration_ms=30_000,
    severity="page",
    dated_by_value=True,
    thresholds=(SAME,),
    cases=(
        Case(
            "until the GPU is reset",
            {**rows({48: "_x40 597x79", 172: "_x40 597x79"}), series(_ERRORS, gpu(0), **_ALL): "0x41 1x37 0x40"},
            told=(Told("n1/0", 597, 1200),),
        ),
        Case(
            "contained: the GPU works on",
            {
                **rows({48: "_x40 597x79", 94: "_x40 597x79", 172: "_x40 597x79"}),
                series(_ERRORS, gpu(0), **_ALL): "0x41 1x78",
            },
            also=("hbm_contained_xid",),
        ),
        Case(
            "Xid 48 alone is the memory's",
            {**rows({48: "_x40 597x79"}), series(_ERRORS, gpu(0), **_ALL): "0x41 1x78"},
            also=("hbm_uncorrectable_xid",),
        ),
    ),
    why="The driver logged an uncorrectable SRAM error, and the GPU was not reset since.",
)

_COUNT = Detector(
    key="sram_uncorrectable_count",
    version=1,
    expr=f'increase({_ERRORS}{{kind="uncorrected",scope="volatile",location="sram"}}[125s]) > 0',
    scope="gpu",
    state=State.DOWN,
    min_duration_ms=0,
    momentary=True,
    cases=(
        Case("the count rises", {series(_ERRORS, gpu(1), **_SRAM): "0x39 1x39"}, told=(Told("n1/1", 600, 600),)),
        Case("the driver is loaded anew", {series(_ERRORS, gpu(1), **_SRAM): "1x39 0x39"}),
    ),
    why="The driver's count of uncorrectable errors in the GPU's SRAM rose.",
)

_FLAG = Detector(
    key="sram_threshold",
    version=1,
    expr=f"{_THRESHOLD} == 1",
    scope="gpu",
    state=State.DOWN,
    # The flag stands until the board is replaced, while the GPU may work on: it is told once and takes no time.
    min_duration_ms=0,
    momentary=True,
    cases=(
        Case("the flag is set", {series(_THRESHOLD, gpu(0)): "0x39 1x39"}, told=(Told("n1/0", 600, 600),)),
        Case(
            "as DCGM says it",
            {series("DCGM_FI_DEV_THRESHOLD_SRM", dcgm(1)): "0x39 1x39"},
            told=(Told("n1/1", 600, 600),),
        ),
        Case("DCGM has no value for it", {series("DCGM_FI_DEV_SRAM_EXCEEDED", dcgm(1)): "0x39 2147483634x39"}),
    ),
    why="More uncorrectable SRAM errors than the driver allows in a board's life: it is to be replaced.",
)

CAUSE = Cause(
    title="Uncorrectable SRAM error",
    rank=31,
    state=State.DOWN,
    owner="hardware",
    signature=(
        "Xid 48 or 95 together with 172, while the volatile double-bit count of gpuminutes_gpu_ecc_errors_total is"
        " not back"
        " at 0; a rise of that count in SRAM and the driver's SRAM threshold flag are events."
    ),
    duration="one reset; replacement once the threshold is passed",
    blast="GPU",
    source="Llama 3 (19 interruptions)",
    first_step="Reset the GPU and read the threshold flag; when it is set, order a replacement.",
    payer="provider",
    runbook=(
        "Drain the node and kill what still runs on the GPU, its results cannot be trusted.",
        "Look at `nvidia-smi -q -d ECC` for the place of the errors and the SRAM threshold flag.",
        "Reset the GPU (`nvidia-smi -r -i INDEX`) and look whether the volatile count is 0 again.",
        "Run `dcgmi diag -r 3` before the node goes back to work.",
        "Order a replacement when the flag is set: SRAM has no spare rows to remap to.",
    ),
    other_sources=("kernel log", "job progress", "a person: import evidence"),
    detectors=(_XID, _COUNT, _FLAG),
)
