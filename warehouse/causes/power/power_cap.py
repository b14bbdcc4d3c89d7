"""Power cap slows GPUs."""

from warehouse.causes import clocks
from warehouse.causes.clocks import BY_GPU, ON_GPU
from warehouse.causes.examples import dcgm, gpu, series
from warehouse.model.cause import Case, Cause, Detector, Threshold, Told
from warehouse.model.state import State


def _limit(kind: str, function: str = "", window: str = "") -> str:
    read = f'gpuminutes_gpu_power_limit_watts{{kind="{kind}"}}'
    return f"max {BY_GPU} ({f'{function}({read}[{window}])' if function else read})"


_LOWERED = f"{_limit('enforced')} < {ON_GPU} $lowered_ratio * {_limit('default')}"
# Only clocks under the usual ones: a cap that bites and costs nothing is the normal course of things.
_SLOW = (
    f'max {BY_GPU} (gpuminutes_gpu_clock_hertz{{domain="sm"}}) < {ON_GPU} '
    f'$usual_clock_ratio * max {BY_GPU} (gpuminutes_gpu_clock_max_hertz{{domain="sm"}})'
)


def _capped(rate: str) -> str:
    return f"({clocks.held('sw_power_cap', rate)}) and {ON_GPU} ({_LOWERED}) and {ON_GPU} ({_SLOW})"


def _at_load(limit: str, clock: str) -> dict[str, str]:
    """Gives a GPU at full load with a power limit and an SM clock, of at most 700 W and 1,980 MHz (H100 SXM)."""
    return {
        series("gpuminutes_gpu_utilization_ratio", gpu(0)): "1x99",
        series("gpuminutes_gpu_clock_event_active", gpu(0), reason="sw_power_cap"): "1x99",
        series("gpuminutes_gpu_clock_event_seconds_total", gpu(0), reason="sw_power_cap"): "5+15x99",
        series("gpuminutes_gpu_power_limit_watts", gpu(0), kind="enforced"): limit,
        series("gpuminutes_gpu_power_limit_watts", gpu(0), kind="default"): "700x99",
        series("gpuminutes_gpu_clock_hertz", gpu(0), domain="sm"): clock,
        series("gpuminutes_gpu_clock_max_hertz", gpu(0), domain="sm"): "1.98e9x99",
    }


CAUSE = Cause(
    title="Power cap slows GPUs",
    rank=12,
    state=State.DEGRADED,
    owner="facility",
    signature=(
        "The enforced power limit is below the board's default, the clock event sw_power_cap holds, and the SM clock "
        "is under what full load usually reaches. A cap at the default limit is the normal course of full load."
    ),
    duration="until changed",
    blast="one GPU up to a hall",
    source="NVIDIA DCGM clock event reasons; field experience, no figure",
    first_step="Compare the enforced with the default power limit and find who set the cap.",
    payer="provider",
    runbook=(
        "Compare the limits with `nvidia-smi -q -d POWER`, or gpuminutes_gpu_power_limit_watts by kind.",
        "Count the capped GPUs by rack: one alone was set by hand, a whole rack by a power manager.",
        "Search the change log and the node's boot scripts for `nvidia-smi -pl` and for power profiles.",
        "Where the facility asked for it, agree on its end; else restore the limit: `nvidia-smi -i ID -pl DEFAULT`.",
        "See that the SM clock of a busy GPU has come back to that of its neighbours.",
    ),
    other_sources=("changes.csv", "job progress", "a person: import evidence"),
    detectors=(
        Detector(
            key="power_cap",
            version=1,
            expr=_capped("rate"),
            onset_expr=_capped("irate"),
            coarse=(
                f"{_limit('enforced', 'min_over_time', '$span')} < {ON_GPU} "
                f"$lowered_ratio * {_limit('default', 'max_over_time', '$span')}"
            ),
            window_ms=clocks.WINDOW_MS,
            stitch_ms=clocks.STITCH_MS,
            scope="gpu",
            state=State.DEGRADED,
            min_duration_ms=300_000,
            # How much is concluded from the clock.
            basis="inferred",
            lost_expr=clocks.LOST_BY_CLOCK,
            lost_ppm=0,
            thresholds=(
                clocks.MIN_SHARE,
                clocks.USUAL_CLOCK,
                Threshold(
                    "lowered_ratio",
                    0.95,
                    "of the default limit",
                    "the limits of one board differ by a watt or so in rounding; our judgement",
                ),
            ),
            cases=(
                Case(
                    "somebody sets 400 W for a quarter of an hour",
                    _at_load("700x39 400x59", "1.7e9x39 1.02e9x59"),
                    told=(Told("n1/0", 600, None),),
                ),
                Case(
                    "a node that dcgm-exporter watches is capped for ten minutes",
                    {
                        series("DCGM_FI_DEV_GPU_UTIL", dcgm(0)): "100x99",
                        series("DCGM_FI_DEV_CLOCKS_EVENT_REASONS", dcgm(0)): "4x99",
                        series("DCGM_FI_DEV_ENFORCED_POWER_LIMIT", dcgm(0)): "700x39 350x39 700x20",
                        series("DCGM_FI_DEV_POWER_MGMT_LIMIT_DEF", dcgm(0)): "700x99",
                        series("DCGM_FI_DEV_SM_CLOCK", dcgm(0)): "1700x39 1010x39 1700x20",
                        series("DCGM_FI_DEV_MAX_SM_CLOCK", dcgm(0)): "2000x99",
                        series("DCGM_FI_DEV_GPU_TEMP", dcgm(1)): "40x99",
                    },
                    # 1,010 of 85 % of 2,000 MHz.
                    told=(Told("n1/0", 600, 1200, lost_ppm=405_882),),
                ),
                Case("full load at the default limit, cap and all", _at_load("700x99", "1.5e9x99")),
                Case("a lowered limit under which the clock stays as high as ever", _at_load("600x99", "1.75e9x99")),
            ),
            why="A power limit below the board's default holds the GPU's clock down.",
        ),
    ),
)
