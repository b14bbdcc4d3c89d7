"""PCIe link fault."""

from warehouse.causes.clocks import BY_GPU, ON_GPU
from warehouse.causes.examples import dcgm, gpu, series
from warehouse.causes.xids import event, event_dcgm
from warehouse.model.cause import Case, Cause, Detector, Threshold, Told
from warehouse.model.state import State

# Corrupted on the way to the GPU, twice, and a fatal timeout of the link (NVIDIA Xid catalogue).
_CODES = (32, 80, 167)
_LINK, _REPLAYS = "gpuminutes_gpu_pcie_link", "gpuminutes_gpu_pcie_replays_total"


def _narrow(now: str, most: str) -> str:
    return f"{now} < {ON_GPU} max {BY_GPU} ({most})"


def _link(width: str, gen: str, busy: str, index: int = 0) -> dict[str, str]:
    """Gives the link of a GPU in a slot of 16 lanes of generation 5, and how busy it is."""
    said = {"width": width, "width_max": "16x119", "gen": gen, "gen_max": "5x119"}
    found = {series(_LINK, gpu(index), attr=attr): values for attr, values in said.items()}
    return {**found, series("gpuminutes_gpu_utilization_ratio", gpu(index)): busy}


_WIDTH = Detector(
    key="pcie_narrow",
    version=1,
    # The width is the same at rest and under load; the generation is not.
    expr=_narrow(f'min {BY_GPU} ({_LINK}{{attr="width"}})', f'{_LINK}{{attr="width_max"}}'),
    coarse=_narrow(
        f'min {BY_GPU} (min_over_time({_LINK}{{attr="width"}}[$span]))',
        f'max_over_time({_LINK}{{attr="width_max"}}[$span])',
    ),
    scope="gpu",
    state=State.DEGRADED,
    min_duration_ms=300_000,
    # The series say how much of the link is lost, and not how much of the work: nothing is charged for it.
    lost_ppm=0,
    cases=(
        Case(
            "eight lanes of sixteen for a quarter of an hour",
            _link("16x39 8x59 16x19", "5x119", "0.9x119"),
            told=(Told("n1/0", 600, 1500, lost_ppm=0),),
        ),
        Case(
            "a node that dcgm-exporter watches",
            {
                series("DCGM_FI_DEV_PCIE_LINK_WIDTH", dcgm(1)): "16x39 4x59 16x19",
                series("DCGM_FI_DEV_PCIE_MAX_LINK_WIDTH", dcgm(1)): "16x119",
                series("DCGM_FI_DEV_GPU_TEMP", dcgm(0)): "40x119",
            },
            told=(Told("n1/1", 600, 1500, lost_ppm=0),),
        ),
        Case("a slot of eight lanes that has eight", {
            series(_LINK, gpu(0), attr="width"): "8x119",
            series(_LINK, gpu(0), attr="width_max"): "8x119",
        }),
    ),
    why="The GPU's PCIe link has fewer lanes than the GPU and its slot can do.",
)  # fmt: skip

_BUSY = "gpuminutes_gpu_utilization_ratio"

_SLOW = Detector(
    key="pcie_slow",
    version=1,
    # An idle GPU lowers the generation to save power, so only one that works is asked.
    expr=(
        _narrow(f'max {BY_GPU} ({_LINK}{{attr="gen"}})', f'{_LINK}{{attr="gen_max"}}')
        + f" and {ON_GPU} {_BUSY} > $min_utilisation_ratio"
    ),
    coarse=(
        _narrow(
            f'min {BY_GPU} (min_over_time({_LINK}{{attr="gen"}}[$span]))',
            f'max_over_time({_LINK}{{attr="gen_max"}}[$span])',
        )
        + f" and {ON_GPU} max_over_time({_BUSY}[$span]) > $min_utilisation_ratio"
    ),
    scope="gpu",
    state=State.DEGRADED,
    min_duration_ms=300_000,
    stitch_ms=120_000,
    lost_ppm=0,
    thresholds=(
        Threshold(
            "min_utilisation_ratio", 0.5, "ratio", "the link is at full speed as soon as it is used; our judgement"
        ),
    ),
    cases=(
        Case(
            "a busy GPU stays at the first generation",
            _link("16x119", "5x39 1x59 5x19", "0.95x119"),
            told=(Told("n1/0", 600, 1500, lost_ppm=0),),
        ),
        Case("an idle GPU rests at the first generation", _link("16x119", "1x119", "0x119")),
        Case("it works for two minutes before the link is up", _link("16x119", "1x47 5x71", "0x39 0.95x79")),
    ),
    why="The GPU works, and its PCIe link runs at a lower generation than the GPU and its slot can do.",
)

_REPLAYING = Detector(
    key="pcie_replays",
    version=1,
    expr=f"max {BY_GPU} (rate({_REPLAYS}[$window])) * 60 > $max_replays_per_minute",
    window_ms=310_000,
    window_of="mean",
    coarse=f"max {BY_GPU} (increase({_REPLAYS}[$span])) > 0",
    scope="gpu",
    state=State.DEGRADED,
    min_duration_ms=300_000,
    stitch_ms=300_000,
    # A packet that is sent again costs nanoseconds: a sign that the link is going, and no loss by itself.
    lost_ppm=0,
    thresholds=(
        Threshold(
            "max_replays_per_minute", 8, "per minute", "DCGM's own limit (NVIDIA/DCGM, dcgm_gpu_hardware_limits.h)"
        ),
    ),
    cases=(
        Case(
            "a hundred a minute for a quarter of an hour",
            {series(_REPLAYS, gpu(0)): "7x39 7+25x60 1507x39"},
            told=(Told("n1/0", 600, 1500, lost_ppm=0),),
        ),
        Case(
            "a node that dcgm-exporter watches",
            {
                series("DCGM_FI_DEV_PCIE_REPLAY_COUNTER", dcgm(0)): "0x39 0+25x60 1500x39",
                series("DCGM_FI_DEV_GPU_TEMP", dcgm(1)): "40x139",
            },
            told=(Told("n1/0", 600, 1500, lost_ppm=0),),
        ),
        Case("four a minute", {series(_REPLAYS, gpu(0)): "7+1x139"}),
        Case("a hundred at once, when the link was trained", {series(_REPLAYS, gpu(0)): "7x39 32x99"}),
    ),
    why="Packets on the GPU's PCIe link have to be sent again, more often than NVIDIA allows.",
)

CAUSE = Cause(
    title="PCIe link fault",
    rank=22,
    state=State.DEGRADED,
    owner="hardware",
    signature=(
        "The link has fewer lanes than it can have, or a lower generation while the GPU works, or more than 8 replays "
        "a minute: seen and charged with no loss, which only the job's progress tells. Xid 32, 80 and 167 are events."
    ),
    duration="hours",
    blast="GPU or node",
    source="Meta RSC (57 % and 37 % of PCIe faults come without an Xid), InfiniteHBD trace (25 width faults)",
    first_step=("Compare the link width with the slot's under load, then reseat the riser or the board."),
    payer="provider",
    runbook=(
        "Compare width and generation: gpuminutes_gpu_pcie_link by attr, or `nvidia-smi -q -d PCIE` on the node.",
        "Look from the other side: `lspci -vv -s ADDRESS | grep -E 'LnkCap|LnkSta'`, up to the root port.",
        "Read the errors of the link: `journalctl -k | grep -iE 'aer|pcie|xid'`, and which end reports them.",
        "Move the job and drain the node; reseat the riser, cable or board, and retrain the link with a power cycle.",
        "Measure it: `nvbandwidth` or a host-to-device copy on this GPU and on its neighbour.",
        "Swap the part that keeps the fault, and watch gpuminutes_gpu_pcie_replays_total for a day.",
    ),
    other_sources=("kernel log (AER)", "node health check (bandwidth)", "job progress", "a person: import evidence"),
    detectors=(
        _WIDTH,
        _SLOW,
        _REPLAYING,
        event("pcie_xid", _CODES, State.DEGRADED, "What came over PCIe was corrupt, or the link timed out."),
        event_dcgm(
            "pcie_xid_dcgm", _CODES, State.DEGRADED, "dcgm-exporter shows that what came over PCIe was corrupt or late."
        ),
    ),
)
