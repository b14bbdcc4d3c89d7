"""Collective operation hangs."""

from warehouse.model.cause import Cause, Detector
from warehouse.model.state import State

# A kernel that waits in a collective keeps utilisation at 1.0; anything clearly under that is a job that
# works in turns. A ratio; our own judgement, to be tuned on traces.
MIN_UTILISATION_RATIO = 0.9

# A waiting kernel draws a third or so of the limit, a computing one two thirds and more. A ratio of the
# enforced limit; our own judgement.
MAX_POWER_RATIO = 0.45

# "Most" of the job's GPUs: the one that is stuck in a kernel of its own may draw full power. A ratio.
MIN_QUIET_SHARE = 0.5

# Seconds over which both must hold. Not a multiple of common scrape intervals, so that servers with closed
# and with left-open range selectors see the same samples.
WINDOW_S = 125

# Milliseconds; the definition of hung asks for 5 min without progress.
MIN_DURATION_MS = 300_000

# Workload labels sit on this family alone. Taken as the many side, so that two jobs that share one GPU by
# time slicing cannot break the match for the whole fleet.
_JOBS = 'max by (uuid, job_id) (gpuminutes_gpu_workload_info{job_id!=""})'


def _busy_at_idle_power(utilisation: str, power: str) -> str:
    """Gives the condition per job from an expression for the utilisation and one for the power of a GPU."""
    limit = 'max by (uuid) (gpuminutes_gpu_power_limit_watts{kind="enforced"})'
    quiet = f"max by (uuid) ({power}) / on (uuid) {limit} < bool {MAX_POWER_RATIO}"
    busy = f"min by (uuid) ({utilisation})"
    return (
        f"min by (job_id) ({_JOBS} * on (uuid) group_left () {busy}) > {MIN_UTILISATION_RATIO} "
        f"and on (job_id) avg by (job_id) ({_JOBS} * on (uuid) group_left () ({quiet})) > {MIN_QUIET_SHARE}"
    )


# The same condition at one instant. The windows above become true late by up to their own length, so the
# onset is dated with this one.
ONSET_EXPR = _busy_at_idle_power(utilisation="gpuminutes_gpu_utilization_ratio", power="gpuminutes_gpu_power_watts")

CAUSE = Cause(
    title="Collective operation hangs",
    rank=90,
    state=State.HUNG,
    owner="operations",
    signature=(
        "A watchdog or NCCL timeout in the log, or all GPUs of a job busy at near idle power with no "
        "step completed; stands only until a cause is linked."
    ),
    duration="5 to 30 min",
    blast="job",
    source="Llama 3 (7 interruptions), Meta, Acme (Acme figure recalled, not checked at the source)",
    first_step="Find the rank that did not enter the collective; its node or GPU carries the cause.",
    detectors=(
        Detector(
            key="job_hang",
            version=1,
            expr=_busy_at_idle_power(
                utilisation=f"min_over_time(gpuminutes_gpu_utilization_ratio[{WINDOW_S}s])",
                power=f"max_over_time(gpuminutes_gpu_power_watts[{WINDOW_S}s])",
            ),
            scope="job",
            state=State.HUNG,
            min_duration_ms=MIN_DURATION_MS,
            why="All GPUs of the job are busy while most draw near idle power: they wait for each other.",
        ),
    ),
)
