"""Uncorrectable GPU memory error."""

from warehouse.causes.examples import dcgm, gpu, series
from warehouse.causes.xids import GPU, LAST, SAME, event, event_dcgm, last, near, rows, since_boot
from warehouse.model.cause import Case, Cause, Detector, Told
from warehouse.model.state import State

_CODES = (48, 95, 140)
_UNCORRECTED = "gpuminutes_gpu_ecc_errors_total"
_ALL = {"kind": "uncorrected", "scope": "volatile", "location": "all"}
_DRAM = {**_ALL, "location": "dram"}

# Xid 94 beside or behind it: the error was contained, and the GPU works on. Xid 172 beside it: the error was in SRAM.
_BAD = last(_CODES)
_CONTAINED = f"{last([94])} > on ({GPU}) {_BAD} - $same_seconds"
_ELSEWHERE = near(_BAD, last([172]))
# The driver's count starts anew with a reset of the GPU, with the driver and with the node: it is the latch.
_RESET = f'max by ({GPU}) ({_UNCORRECTED}{{kind="uncorrected",scope="volatile",location="all"}}) == 0'

_UNCONTAINED = Detector(
    key="hbm_uncorrectable_xid",
    version=1,
    expr=(
        f"{since_boot(_BAD)} unless on ({GPU}) ({_CONTAINED})"
        f" unless on ({GPU}) {_ELSEWHERE} unless on ({GPU}) ({_RESET})"
    ),
    coarse=f'max by (node) (max_over_time({LAST}{{xid=~"48|95|140"}}[$span]))',
    scope="gpu",
    state=State.DOWN,
    min_duration_ms=30_000,
    severity="page",
    dated_by_value=True,
    thresholds=(SAME,),
    cases=(
        Case(
            "uncontained, until the GPU is reset",
            {**rows({95: "_x40 597x79"}), series(_UNCORRECTED, gpu(0), **_ALL): "0x41 1x37 0x40"},
            told=(Told("n1/0", 597, 1200),),
        ),
        Case(
            "a driver that does not give its counts: until the node boots",
            {
                **rows({48: "_x40 597x39 _x40"}, index=1),
                series("node_boot_time_seconds", node="n1"): "-5000x79 1190x40",
            },
            told=(Told("n1/1", 597, 1200),),
            also=("node_rebooted",),
        ),
        Case(
            "contained: one application died, the GPU works on",
            {**rows({48: "_x40 597x79", 94: "_x40 598x79"}), series(_UNCORRECTED, gpu(0), **_ALL): "0x41 1x78"},
            also=("hbm_contained_xid",),
        ),
        Case(
            "long reset; a later error is contained",
            {**rows({95: "-9000x119", 94: "_x40 597x79"}), series(_UNCORRECTED, gpu(0), **_ALL): "0x41 1x78"},
            also=("hbm_contained_xid",),
        ),
        Case(
            "in SRAM, not in memory",
            {**rows({48: "_x40 597x79", 172: "_x40 597x79"}), series(_UNCORRECTED, gpu(0), **_ALL): "0x41 1x78"},
            also=("sram_uncorrectable_xid",),
        ),
    ),
    why="The driver logged an uncorrectable memory error that was not contained, and the GPU was not reset since.",
)

_COUNT = Detector(
    key="hbm_uncorrectable_count",
    version=1,
    expr=f'increase({_UNCORRECTED}{{kind="uncorrected",scope="volatile",location="dram"}}[125s]) > 0',
    scope="gpu",
    state=State.DOWN,
    min_duration_ms=0,
    momentary=True,
    cases=(
        Case("the count rises", {series(_UNCORRECTED, gpu(0), **_DRAM): "0x39 1x39"}, told=(Told("n1/0", 600, 600),)),
        Case("the driver is loaded anew", {series(_UNCORRECTED, gpu(0), **_DRAM): "3x39 0x39"}),
        Case(
            "another place, and over the board's life",
            {
                series(_UNCORRECTED, gpu(0), **{**_ALL, "scope": "aggregate"}): "7x39 8x39",
                series(_UNCORRECTED, gpu(0), **{**_ALL, "kind": "corrected", "location": "dram"}): "7x39 8x39",
            },
        ),
    ),
    why="The driver's count of uncorrectable errors in the GPU's memory rose.",
)

_COUNT_DCGM = Detector(
    key="hbm_uncorrectable_count_dcgm",
    version=1,
    expr=f"max by ({GPU}) (increase(DCGM_FI_DEV_ECC_DBE_VOL_TOTAL[125s])) > 0",
    scope="gpu",
    state=State.DOWN,
    min_duration_ms=0,
    momentary=True,
    cases=(
        Case(
            "the count rises",
            {series("DCGM_FI_DEV_ECC_DBE_VOL_TOTAL", dcgm(1)): "0x39 2x39"},
            told=(Told("n1/1", 600, 600),),
        ),
        Case("the driver is loaded anew", {series("DCGM_FI_DEV_ECC_DBE_VOL_TOTAL", dcgm(1)): "3x39 0x39"}),
    ),
    why="DCGM's count of double-bit errors rose; it does not say whether in memory or in SRAM.",
)

CAUSE = Cause(
    title="Uncorrectable GPU memory error",
    rank=31,
    state=State.DOWN,
    owner="hardware",
    signature=(
        "Xid 48, 95 or 140 since the last boot without a contained one (94) beside it, while the volatile double-bit"
        " count"
        " of gpuminutes_gpu_ecc_errors_total is not back at 0; Xid 94 and a rise of that count are events."
    ),
    duration="5 to 30 min for a reset, hours when the board is replaced",
    blast="GPU (Xid 95) or one application (Xid 94)",
    source=(
        "Llama 3 (72 interruptions), Acme (12) (Acme figure recalled, not checked at the source), Delta,"
        " InfiniteHBD trace (60 faults)"
    ),
    first_step="Reset the GPU once its jobs are off; replace it when rows cannot be remapped.",
    payer="provider",
    runbook=(
        "Read the kernel log for what came with it: 94 is contained and needs no reset at once, 48 or 95 alone does.",
        "Drain the GPU's node; after Xid 95 kill what still runs on the GPU, its results cannot be trusted.",
        "Reset the GPU (`nvidia-smi -r -i INDEX`), then look whether the volatile count is 0 again.",
        "Look at `nvidia-smi -q -d ROW_REMAPPER`: a pending remap is done by the reset, a failed one means"
        " replacement.",
        "Run `dcgmi diag -r 3` before the node goes back to work.",
        "Order a replacement when the same board does it again within 28 days.",
    ),
    other_sources=("kernel log", "job progress", "a person: import evidence"),
    detectors=(
        _UNCONTAINED,
        event("hbm_contained_xid", (94,), State.LOST_WORK, "A contained memory error ended one application."),
        event_dcgm(
            "hbm_uncorrectable_xid_dcgm",
            _CODES,
            State.DOWN,
            "dcgm-exporter shows an uncorrectable memory error.",
            "page",
        ),
        event_dcgm("hbm_contained_xid_dcgm", (94,), State.LOST_WORK, "dcgm-exporter shows a contained memory error."),
        _COUNT,
        _COUNT_DCGM,
    ),
)
