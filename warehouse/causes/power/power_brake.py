"""Hardware power brake."""

from warehouse.causes import clocks
from warehouse.causes.examples import dcgm, gpu, series
from warehouse.model.cause import Case, Cause, Detector, Told
from warehouse.model.state import State

_FLAG, _SECONDS = "gpuminutes_gpu_clock_event_active", "gpuminutes_gpu_clock_event_seconds_total"
_BUSY = {series("gpuminutes_gpu_utilization_ratio", gpu(index)): "0.97x99" for index in (0, 1)}

CAUSE = Cause(
    title="Hardware power brake",
    rank=10,
    state=State.DEGRADED,
    owner="facility",
    signature=(
        "The clock event power_brake is active, or its seconds rise, on a GPU that is not idle; counted as half a GPU "
        "lost for as long as it holds, the least by NVIDIA's header."
    ),
    duration="seconds to hours",
    blast="power supply, PDU or rack",
    source="NVIDIA DCGM header, clock event bit 0x80: core clock at half or less",
    first_step=(
        "Read supply and PDU load of the rack; an overloaded or failed supply pulls the brake on all its GPUs."
    ),
    payer="provider",
    runbook=(
        "List who brakes: gpuminutes_gpu_clock_event_active{reason='power_brake'} == 1, grouped by node and rack.",
        "Where one node brakes alone, read its supplies with `ipmitool sdr type 'Power Supply'` and its event log.",
        "Where a rack brakes, read the load of its PDUs and breakers and have the facility desk confirm both feeds.",
        "Cap the GPUs with `nvidia-smi -pl WATTS` or drain jobs until the load is under the rating of one feed.",
        "Reseat or swap the failed supply, and see that the clocks return: gpuminutes_gpu_clock_hertz{domain='sm'}.",
    ),
    other_sources=("PDU and BMC readings", "job progress", "a person: import evidence"),
    detectors=(
        Detector(
            key="power_brake",
            version=1,
            expr=clocks.held("power_brake", "rate"),
            onset_expr=clocks.held("power_brake", "irate"),
            coarse=clocks.held_coarse("power_brake"),
            window_ms=clocks.WINDOW_MS,
            stitch_ms=clocks.STITCH_MS,
            scope="gpu",
            state=State.DEGRADED,
            min_duration_ms=clocks.MIN_DURATION_MS,
            lost_expr=clocks.lost_while_held("power_brake"),
            lost_ppm=500_000,
            severity="page",
            thresholds=(clocks.MIN_SHARE, clocks.HARDWARE_LOSS),
            cases=(
                Case(
                    "a supply fails and one GPU is braked for ten minutes",
                    {**_BUSY, series(_FLAG, gpu(0), reason="power_brake"): "0x39 1x39 0x19"},
                    told=(Told("n1/0", 600, 1200, lost_ppm=500_000),),
                ),
                Case(
                    "a brake that pulses between the samples, half of the time: only the counter sees it",
                    {**_BUSY, series(_SECONDS, gpu(1), reason="power_brake"): "12x39 12+7.5x39 304.5x20"},
                    told=(Told("n1/1", 600, 1200, lost_ppm=250_000),),
                ),
                Case(
                    "a node that dcgm-exporter watches",
                    {
                        series("DCGM_FI_DEV_CLOCKS_EVENT_REASONS", dcgm(0)): "4x39 140x39 4x20",
                        series("DCGM_FI_DEV_CLOCKS_EVENT_REASONS", dcgm(1)): "4x99",
                        series("DCGM_FI_DEV_GPU_UTIL", dcgm(0)): "100x99",
                    },
                    told=(Told("n1/0", 600, 1200, lost_ppm=500_000),),
                ),
                Case(
                    "a brake on a GPU that does nothing costs no work",
                    {
                        series("gpuminutes_gpu_utilization_ratio", gpu(0)): "0x99",
                        series(_FLAG, gpu(0), reason="power_brake"): "0x39 1x39 0x19",
                    },
                ),
                Case(
                    "full load at the software's power limit, and a brake of long ago in the counter",
                    {
                        **_BUSY,
                        series(_FLAG, gpu(0), reason="sw_power_cap"): "1x99",
                        series(_SECONDS, gpu(0), reason="sw_power_cap"): "0+15x99",
                        series(_FLAG, gpu(0), reason="power_brake"): "0x99",
                        series(_SECONDS, gpu(0), reason="power_brake"): "87x99",
                    },
                ),
                Case(
                    "the exporter dies while nothing brakes",
                    {
                        'up{job="gpu-minutes",node="n1"}': "1x39 0x15 1x43",
                        series(_FLAG, gpu(0), reason="power_brake"): "0x39 stale _x14 0x43",
                        series(_SECONDS, gpu(0), reason="power_brake"): "87x39 stale _x14 87x43",
                    },
                    also=("exporter_silent",),
                ),
            ),
            why="The board's power brake holds the GPU's clock at half or less.",
        ),
    ),
)
