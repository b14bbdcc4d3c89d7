"""NVLink fault."""

from warehouse.causes.examples import dcgm, gpu, series
from warehouse.causes.xids import GPU, event, event_dcgm, recovery
from warehouse.model.cause import Case, Cause, Detector, Threshold, Told
from warehouse.model.state import State

# Errors of a link up to NVLink 4, training, the units of NVLink 5, a link declared down (NVIDIA Xid catalogue).
_CODES = (74, 136, *range(144, 151), 155)

_ERRORS, _LINKS = "gpuminutes_gpu_nvlink_errors_total", "gpuminutes_gpu_nvlinks"
_BUSY = "gpuminutes_gpu_utilization_ratio"
_ACTIVE = f'max by ({GPU}) ({_LINKS}{{state="active"}})'
_MOST = f'max by (node) ({_LINKS}{{state="active"}})'


def _links(fewer: str, other: str, busy: str = "0.9x119") -> dict[str, str]:
    return {
        series(_LINKS, gpu(0), state="active"): fewer,
        series(_LINKS, gpu(1), state="active"): other,
        series(_BUSY, gpu(0)): busy,
        series(_BUSY, gpu(1)): busy,
    }


_RATE = Detector(
    key="nvlink_crc_rate",
    version=1,
    expr=f'sum by ({GPU}) (rate({_ERRORS}{{type=~"crc.*"}}[125s])) > $errors_per_second',
    scope="gpu",
    state=State.DEGRADED,
    min_duration_ms=0,
    momentary=True,
    stitch_ms=300_000,
    thresholds=(
        Threshold(
            "errors_per_second", 100, "errors/s", "CRC errors matter at 100 and more per second (DCGM, dcgm_gpu limits)"
        ),
    ),
    cases=(
        Case(
            "two thousand in every scrape",
            {series(_ERRORS, gpu(0), type="crc"): "7x39 2007+2000x39 80007x39"},
            told=(Told("n1/0", 690, 690),),
        ),
        Case(
            "as DCGM counts them, in two kinds",
            {
                series("DCGM_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL", dcgm(1)): "0x39 1000+1000x39",
                series("DCGM_FI_DEV_NVLINK_CRC_DATA_ERROR_COUNT_TOTAL", dcgm(1)): "0x39 1000+1000x39",
            },
            told=(Told("n1/1", 690, 690),),
        ),
        Case("a thousand at once, and no more", {series(_ERRORS, gpu(0), type="crc"): "7x39 1007x79"}),
        Case("other errors", {series(_ERRORS, gpu(0), type="receive"): "7x39 2007+2000x39"}),
    ),
    why="Transfers over NVLink fail their checksum and are sent again, faster than links do by chance.",
)

_RETRAINED = Detector(
    key="nvlink_recovery",
    version=1,
    # `recovery_failed` is a part of `recovery` and a count of its own; the larger says whether there was one.
    expr=f'max by ({GPU}) (increase({_ERRORS}{{type=~"recovery|recovery_failed"}}[125s])) > 0',
    scope="gpu",
    state=State.HUNG,
    min_duration_ms=0,
    momentary=True,
    cases=(
        Case(
            "a link was lost and trained again",
            {series(_ERRORS, gpu(1), type="recovery"): "2x39 3x39"},
            told=(Told("n1/1", 600, 600),),
        ),
        Case(
            "as DCGM counts it",
            {series("DCGM_FI_DEV_NVLINK_RECOVERY_ERROR_TOTAL", dcgm(0)): "0x39 1x39"},
            told=(Told("n1/0", 600, 600),),
        ),
        Case("the driver is loaded anew", {series(_ERRORS, gpu(1), type="recovery"): "9x39 0x39"}),
        Case("packets sent again, which links do now and then", {series(_ERRORS, gpu(1), type="replay"): "2x39 3x39"}),
    ),
    why="An NVLink lost its connection and was trained again: what was on it stood still or failed.",
)

_FEWER = Detector(
    key="nvlink_links_down",
    version=1,
    # Below the node's own best, since boards differ in how many of their links are wired; none at all is a board
    # without a bridge, or a link domain that never came up, which the fabric's state says.
    expr=(
        f"({_ACTIVE} > 0) < on (node) group_left () {_MOST}"
        f" and on ({GPU}) max by ({GPU}) ({_BUSY}) > $min_utilisation_ratio"
    ),
    coarse=(
        f'max by (node) (max_over_time({_LINKS}{{state="active"}}[$span])) > on (node) '
        f'min by (node) (min_over_time({_LINKS}{{state="active"}}[$span]))'
    ),
    scope="gpu",
    state=State.DEGRADED,
    min_duration_ms=120_000,
    stitch_ms=120_000,
    basis="inferred",
    lost_expr=f"clamp(1 - {_ACTIVE} / on (node) group_left () {_MOST}, 0, 1)",
    thresholds=(
        Threshold("min_utilisation_ratio", 0.05, "ratio", "an idle GPU loses nothing by a slow link; our judgement"),
    ),
    cases=(
        Case(
            "nine of eighteen for ten minutes",
            _links("18x39 9x39 18x39", "18x119"),
            told=(Told("n1/0", 600, 1200, lost_ppm=500_000),),
        ),
        Case("the same on an idle node", _links("18x39 9x39 18x39", "18x119", busy="0x119")),
        Case("boards with half of their links wired", _links("9x119", "9x119")),
        Case("a board without a bridge", _links("0x119", "12x119")),
    ),
    why="Some NVLinks of this GPU are down that the node's other GPUs have; the lost part is their share.",
)

CAUSE = Cause(
    title="NVLink fault",
    rank=40,
    state=State.HUNG,
    owner="fabric",
    signature=(
        "Xid 74, 136, 144 to 150 or 155, for as long as the driver then asks for a reset; CRC errors at 100 a second, a"
        " link trained again, or fewer active links than the node's other GPUs have."
    ),
    duration="10 to 60 min",
    blast="node, or the rack on NVL72",
    source="Acme (54 faults, 30.3 % of GPU time) (Acme figure recalled, not checked at the source), Delta",
    first_step=(
        "Find the GPU that failed first, drain the node or rack, and reset all GPUs on the link domain together."
    ),
    payer="provider",
    runbook=(
        "List the Xids of the node by time: of several GPUs the one that also has 48, 79, 95 or 119 is the source.",
        "Look at `nvidia-smi nvlink -s` and `nvidia-smi nvlink -e` for links that are down or count errors.",
        "Look for SXids of the switches in the kernel log and in the log of Fabric Manager.",
        "Drain the node, or the rack on NVL72, and reset all GPUs of the link domain together.",
        "Run `dcgmi diag -r 3` and an all-reduce test over the node before it goes back to work.",
        "Replace the GPU or the baseboard when the same link fails again.",
    ),
    other_sources=("kernel log", "log of Fabric Manager", "log of the collective library", "a person: import evidence"),
    detectors=(
        event("nvlink_xid", _CODES, State.HUNG, "The driver logged an error of an NVLink."),
        event_dcgm("nvlink_xid_dcgm", _CODES, State.HUNG, "dcgm-exporter shows an error of an NVLink."),
        recovery(
            "nvlink_reset",
            _CODES,
            "An NVLink failed, and the driver asks for a reset of this GPU.",
            also=("nvlink_xid",),
        ),
        _RATE,
        _RETRAINED,
        _FEWER,
    ),
)
