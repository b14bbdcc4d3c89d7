"""Collective operation hangs."""

from warehouse.causes.examples import gpu, series
from warehouse.model.cause import Case, Cause, Detector, Threshold, Told
from warehouse.model.state import State

# Workload labels sit on this family alone. Taken as the many side, so that two jobs that share one GPU by
# time slicing cannot break the match for the whole fleet.
_JOBS = 'max by (uuid, job_id) (gpuminutes_gpu_workload_info{job_id!=""})'


def _busy_at_idle_power(utilisation: str, power: str) -> str:
    """Gives the condition per job from an expression for the utilisation and one for the power of a GPU."""
    limit = 'max by (uuid) (gpuminutes_gpu_power_limit_watts{kind="enforced"})'
    quiet = f"max by (uuid) ({power}) / on (uuid) {limit} < bool $max_power_ratio"
    busy = f"min by (uuid) ({utilisation})"
    return (
        f"min by (job_id) ({_JOBS} * on (uuid) group_left () {busy}) > $min_utilisation_ratio "
        f"and on (job_id) avg by (job_id) ({_JOBS} * on (uuid) group_left () ({quiet})) > $min_quiet_share"
    )


# Some GPU of a hanging job fulfils all of this somewhere in the look; none of a job that computes does.
_COARSE = (
    "count by (job_id) (max by (uuid, job_id) "
    '(max_over_time(gpuminutes_gpu_workload_info{job_id!=""}[$span])) * on (uuid) group_left () ('
    "max by (uuid) (max_over_time(gpuminutes_gpu_utilization_ratio[$span])) > $min_utilisation_ratio "
    "and on (uuid) max by (uuid) (min_over_time(gpuminutes_gpu_power_watts[$span])) / on (uuid) "
    'max by (uuid) (max_over_time(gpuminutes_gpu_power_limit_watts{kind="enforced"}[$span])) < $max_power_ratio))'
)


def _hung_job(powers: tuple[str, ...], utilisation: str = "1x99") -> dict[str, str]:
    """Gives a job with one GPU per power."""
    found = {}
    for index, power in enumerate(powers):
        found[series("gpuminutes_gpu_utilization_ratio", gpu(index))] = utilisation
        found[series("gpuminutes_gpu_power_watts", gpu(index))] = power
        found[series("gpuminutes_gpu_power_limit_watts", gpu(index), kind="enforced")] = "700x99"
        found[series("gpuminutes_gpu_workload_info", gpu(index), job_id="7", kind="slurm")] = "1x99"
    return found


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
                utilisation="min_over_time(gpuminutes_gpu_utilization_ratio[$window])",
                power="max_over_time(gpuminutes_gpu_power_watts[$window])",
            ),
            coarse=_COARSE,
            # The windows above become true late by up to their own length, so the edges are dated without them.
            onset_expr=_busy_at_idle_power(
                utilisation="gpuminutes_gpu_utilization_ratio", power="gpuminutes_gpu_power_watts"
            ),
            # Not a multiple of common scrape intervals, so that servers with closed and with left-open range
            # selectors see the same samples.
            window_ms=125_000,
            # Four joined selectors over every GPU: an hour of 15-second steps in one query stays far from the
            # engine's limit on samples, a day of them was refused.
            max_steps=240,
            basis="inferred",
            thresholds=(
                Threshold(
                    "min_utilisation_ratio",
                    0.9,
                    "ratio",
                    "a kernel that waits in a collective keeps utilisation at 1.0; our judgement",
                ),
                Threshold(
                    "max_power_ratio",
                    0.45,
                    "of the enforced limit",
                    "a waiting kernel draws a third or so of it, a computing one two thirds; our judgement",
                ),
                Threshold(
                    "min_quiet_share",
                    0.5,
                    "of the job's GPUs",
                    "the one that is stuck in a kernel of its own may draw full power; our judgement",
                ),
            ),
            cases=(
                Case(
                    "all ranks wait for ten minutes",
                    _hung_job(("620x39 160x39 620x19", "620x39 160x39 620x19")),
                    told=(Told("job:7", 600, 1200),),
                ),
                Case("a save of three minutes", _hung_job(("620x39 160x11 620x39", "620x39 160x11 620x39"))),
                Case("a job that does nothing", _hung_job(("90x99", "90x99"), utilisation="0x99")),
                Case("half of the ranks compute", _hung_job(("620x39 160x39 620x19", "620x99"))),
            ),
            scope="job",
            state=State.HUNG,
            # The definition of hung asks for 5 min without progress.
            min_duration_ms=300_000,
            why="All GPUs of the job are busy while most draw near idle power: they wait for each other.",
        ),
    ),
)
