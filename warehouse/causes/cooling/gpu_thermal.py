"""GPU runs too hot."""

from warehouse.causes import clocks
from warehouse.causes.bmc import alarm
from warehouse.causes.examples import dcgm, gpu, series
from warehouse.model.cause import Case, Cause, Detector, Told
from warehouse.model.state import State

_FLAG, _SECONDS = "gpuminutes_gpu_clock_event_active", "gpuminutes_gpu_clock_event_seconds_total"
_BUSY = {series("gpuminutes_gpu_utilization_ratio", gpu(index)): "0.97x99" for index in (0, 1)}


def _clock(values: str) -> dict[str, str]:
    """Gives the SM clock of the first GPU, and the highest that it can have (H100 PCIe: 1,755 MHz)."""
    return {
        series("gpuminutes_gpu_clock_hertz", gpu(0), domain="sm"): values,
        series("gpuminutes_gpu_clock_max_hertz", gpu(0), domain="sm"): "1.755e9x99",
    }


_HARDWARE = Detector(
    key="gpu_hw_thermal",
    version=1,
    expr=clocks.held("hw_thermal", "rate"),
    onset_expr=clocks.held("hw_thermal", "irate"),
    coarse=clocks.held_coarse("hw_thermal"),
    window_ms=clocks.WINDOW_MS,
    stitch_ms=clocks.STITCH_MS,
    scope="gpu",
    state=State.DEGRADED,
    min_duration_ms=clocks.MIN_DURATION_MS,
    lost_expr=clocks.lost_while_held("hw_thermal"),
    lost_ppm=500_000,
    thresholds=(clocks.MIN_SHARE, clocks.HARDWARE_LOSS),
    cases=(
        Case(
            "the hardware halves the clock of one GPU for ten minutes",
            {**_BUSY, series(_FLAG, gpu(0), reason="hw_thermal"): "0x39 1x39 0x19"},
            told=(Told("n1/0", 600, 1200, lost_ppm=500_000),),
        ),
        Case(
            "a node that dcgm-exporter watches",
            {
                series("DCGM_FI_DEV_CLOCK_THROTTLE_REASONS", dcgm(1)): "0x39 72x39 0x20",
                series("DCGM_FI_DEV_GPU_UTIL", dcgm(1)): "100x99",
                series("DCGM_FI_DEV_GPU_TEMP", dcgm(0)): "44x99",
            },
            told=(Told("n1/1", 600, 1200, lost_ppm=500_000),),
        ),
        Case("a single sample", {**_BUSY, series(_FLAG, gpu(0), reason="hw_thermal"): "0x39 1 0x59"}),
        Case(
            "hot and at full clock",
            {
                **_BUSY,
                series("gpuminutes_gpu_temperature_celsius", gpu(0), sensor="gpu"): "84x99",
                series(_FLAG, gpu(0), reason="hw_thermal"): "0x99",
                series(_SECONDS, gpu(0), reason="hw_thermal"): "31x99",
            },
        ),
    ),
    why="The hardware holds the GPU's clock at half or less, because it is too hot.",
)

_SOFTWARE = Detector(
    key="gpu_sw_thermal",
    version=1,
    expr=clocks.held("sw_thermal", "rate"),
    onset_expr=clocks.held("sw_thermal", "irate"),
    coarse=clocks.held_coarse("sw_thermal"),
    window_ms=clocks.WINDOW_MS,
    stitch_ms=clocks.STITCH_MS,
    scope="gpu",
    state=State.DEGRADED,
    min_duration_ms=clocks.MIN_DURATION_MS,
    # How much is concluded from the clock; nothing is, where the clock is not known.
    basis="inferred",
    lost_expr=clocks.LOST_BY_CLOCK,
    lost_ppm=0,
    thresholds=(clocks.MIN_SHARE, clocks.USUAL_CLOCK),
    cases=(
        Case(
            "the driver lowers the clock step by step to stay under the limit",
            {
                **_BUSY,
                **_clock("1.45e9x39 1.193400e9x39 1.45e9x19"),
                series(_FLAG, gpu(0), reason="sw_thermal"): "0x39 1x39 0x19",
            },
            # 1,193.4 of 85 % of 1,755 MHz are four fifths.
            told=(Told("n1/0", 600, 1200, lost_ppm=200_000),),
        ),
        Case(
            "a node that dcgm-exporter watches, by its counter in nanoseconds",
            {
                series(
                    "DCGM_FI_DEV_CLOCKS_EVENT_REASON_SW_THERM_SLOWDOWN_NS", dcgm(0)
                ): "0x39 0+15000000000x40 6e11x19",
                series("DCGM_FI_DEV_SM_CLOCK", dcgm(0)): "1400x39 850x40 1400x19",
                series("DCGM_FI_DEV_MAX_SM_CLOCK", dcgm(0)): "2000x99",
                series("DCGM_FI_DEV_GPU_UTIL", dcgm(0)): "100x99",
                series("DCGM_FI_DEV_GPU_TEMP", dcgm(1)): "44x99",
            },
            told=(Told("n1/0", 600, 1215, lost_ppm=500_000),),
        ),
        Case(
            "held, and the clock as high as ever: seen, and nothing is lost",
            {
                **_BUSY,
                **_clock("1.6e9x99"),
                series(_FLAG, gpu(0), reason="sw_thermal"): "0x39 1x39 0x19",
            },
            told=(Told("n1/0", 600, 1200, lost_ppm=0),),
        ),
        Case(
            "slow under the power limit alone",
            {
                **_BUSY,
                **_clock("1.2e9x99"),
                series(_FLAG, gpu(0), reason="sw_power_cap"): "1x99",
                series(_FLAG, gpu(0), reason="sw_thermal"): "0x99",
            },
        ),
    ),
    why="The driver holds the GPU's clock down, because the GPU or its memory is too hot.",
)

CAUSE = Cause(
    title="GPU runs too hot",
    rank=14,
    state=State.DEGRADED,
    owner="facility",
    signature=(
        "The clock event sw_thermal or hw_thermal is active, or its seconds rise, on a GPU that is not idle; "
        "beside it, as an event, a fan that the BMC calls critical."
    ),
    duration="minutes to days",
    blast="GPU or node",
    source="Llama 3 (6 interruptions); InfiniteHBD trace (33 fan faults, median 74 h)",
    first_step=(
        "Compare inlet temperature and fan speed with the neighbours; one hot GPU points to paste or heat sink."
    ),
    payer="provider",
    runbook=(
        "Compare the GPUs of the node: gpuminutes_gpu_temperature_celsius; one hot GPU alone is its own heat sink.",
        "Read fans and inlet with `ipmitool sdr type Fan` and `ipmitool sdr type Temperature`.",
        "Look at the neighbours in the rack: where they are hot too, go on with the runbook of the rack's cooling.",
        "Clear the air path or raise the fan profile in the BMC, and replace a dead fan.",
        "Move the job and drain the node where the clock stays down; ask for new paste or a new board.",
    ),
    other_sources=("BMC event log", "job progress", "a person: import evidence"),
    detectors=(
        _HARDWARE,
        _SOFTWARE,
        alarm("bmc_fan", "Fan|Cooling Device", "Fan", State.DEGRADED, "The BMC calls a fan of the node critical."),
    ),
)
