"""Storm of corrected memory errors."""

from warehouse.causes.examples import dcgm, gpu, series
from warehouse.causes.xids import GPU, event, event_dcgm
from warehouse.model.cause import Case, Cause, Detector, Threshold, Told
from warehouse.model.state import State

_ERRORS = "gpuminutes_gpu_ecc_errors_total"
_CORRECTED = '{kind="corrected",scope="volatile",location="all"}'
_ALL = {"kind": "corrected", "scope": "volatile", "location": "all"}

CAUSE = Cause(
    title="Storm of corrected memory errors",
    rank=33,
    state=State.DEGRADED,
    owner="hardware",
    signature=(
        "The volatile single-bit count of gpuminutes_gpu_ecc_errors_total rises by more than its threshold in ten"
        " minutes,"
        " or Xid 92. An event: correcting takes no time that the series could show."
    ),
    duration="days",
    blast="GPU",
    source="InfiniteHBD trace, DCGM health policy",
    first_step="Watch the rate and remapped rows; plan a reset or swap before errors become uncorrectable.",
    payer="provider",
    runbook=(
        'Look at the rate of gpuminutes_gpu_ecc_errors_total{kind="corrected"} of this GPU over the last days.',
        "Look whether gpuminutes_gpu_remapped_rows grows and gpuminutes_gpu_row_remap_banks runs out of spare rows.",
        "Let the job run on; put the node on the list for a reset at the next gap.",
        "Run `dcgmi diag -r 3` then, and order a replacement when the storm comes back after the reset.",
    ),
    other_sources=("kernel log", "a person: import evidence"),
    detectors=(
        Detector(
            key="hbm_corrected_rate",
            version=1,
            # Ten minutes, and no multiple of a scrape interval.
            expr=f"max by ({GPU}) (increase({_ERRORS}{_CORRECTED}[610s])) > $errors",
            # A look is longer than the window: what rises in one rises in it; half, for what lies before its start.
            coarse=f"max by (node) (increase({_ERRORS}{_CORRECTED}[$span])) > $errors / 2",
            scope="gpu",
            state=State.DEGRADED,
            min_duration_ms=0,
            momentary=True,
            stitch_ms=600_000,
            thresholds=(
                Threshold(
                    "errors",
                    60,
                    "corrected errors in ten minutes",
                    "one every ten seconds is beyond what a sound board shows in months; our judgement, since DCGM's"
                    " own"
                    " limit is marked as a placeholder",
                ),
            ),
            cases=(
                Case(
                    "three in each scrape for ten minutes",
                    {series(_ERRORS, gpu(0), **_ALL): "5x39 8+3x39 125x39"},
                    told=(Told("n1/0", 885, 885),),
                ),
                Case(
                    "as DCGM counts them",
                    {series("DCGM_FI_DEV_ECC_SBE_VOL_TOTAL", dcgm(1)): "5x39 1005x79"},
                    told=(Told("n1/1", 600, 600),),
                ),
                Case("a few a day", {series(_ERRORS, gpu(0), **_ALL): "5x39 25x79"}),
                Case("the driver is loaded anew", {series(_ERRORS, gpu(0), **_ALL): "9000x39 0x79"}),
            ),
            why="Corrected memory errors come faster than a sound board makes them.",
        ),
        event(
            "hbm_corrected_xid", (92,), State.DEGRADED, "The driver logged Xid 92: too many corrected errors.", "info"
        ),
        event_dcgm(
            "hbm_corrected_xid_dcgm", (92,), State.DEGRADED, "dcgm-exporter shows too many corrected errors.", "info"
        ),
    ),
)
