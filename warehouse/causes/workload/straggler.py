"""One rank slows the rest."""

from warehouse.causes.jobs import (
    dcgm_job,
    high_in_span,
    highest,
    job,
    low_in_span,
    lowest,
    middle,
    middle_in_span,
    nodes_of,
)
from warehouse.model.cause import Case, Cause, Detector, Threshold, Told
from warehouse.model.state import State

_MINUTES = 60_000


def _mean(family: str) -> str:
    return f"avg_over_time({family}[$window])"


_TENSOR = _mean("gpuminutes_gpu_tensor_active_ratio")
_ENGINE = _mean("gpuminutes_gpu_engine_active_ratio")
_SM = _mean("gpuminutes_gpu_sm_active_ratio")
_SM_CLOCK = 'gpuminutes_gpu_clock_hertz{domain="sm"}'
_CLOCK = _mean(_SM_CLOCK)
_HELD_DOWN = (
    'max by (uuid) (max_over_time(gpuminutes_gpu_clock_event_active{reason=~"sw_power_cap|hw_slowdown|sw_thermal|'
    'hw_thermal|power_brake"}[$window]))'
)

# Ranks that wait for each other do the same tensor work in the same time, whoever is slow; ranks of a pipeline with
# unequal stages, replicas under unequal load and unrelated tasks do not.
_SAME_WORK = (
    f"{lowest(_TENSOR)} > on (job_id) $min_work_ratio * {middle(_TENSOR)}"
    f" and on (job_id) {middle(_TENSOR)} > $min_tensor_ratio"
)
_SAME_WORK_THRESHOLDS = (
    Threshold("min_work_ratio", 0.85, "of the middle GPU", "the spread of equal ranks is a few percent; our judgement"),
    Threshold("min_tensor_ratio", 0.05, "ratio", "the job computes on its tensor pipes at all; our judgement"),
)


def _some_gpu_below(family: str, share: str) -> str:
    """Gives jobs, with their nodes, of which a GPU was below a share of the middle one's most at times of the look."""
    return nodes_of(f"{low_in_span(family)} < on (job_id) {share} * {middle_in_span(family, 'max')}")


_LOWEST_ENGINE = f"{lowest(_ENGINE)} / on (job_id) {middle(_ENGINE)}"
_MIDDLE_SM = f"{middle(_SM)} / on (job_id) {highest(_SM)}"
# Of those alone that say that no reason holds them down: one that is held down has a cause of its own.
_LOWEST_CLOCK = f"{lowest(f'{_CLOCK} and on (uuid) {_HELD_DOWN} == 0')} / on (job_id) {middle(_CLOCK)}"

_ALL_NODES = ("n1", "n2", "n3")


def _engine(slow: str, tensor: tuple[str, ...] = ("0.4x119",)) -> dict[str, str]:
    """Gives six ranks, of which the first launches late."""
    return job(
        {"gpuminutes_gpu_engine_active_ratio": (slow, "0.99x119"), "gpuminutes_gpu_tensor_active_ratio": tensor},
        _ALL_NODES,
    )


def _sm(slow: str, tensor: tuple[str, ...] = ("0.3x119",)) -> dict[str, str]:
    """Gives six ranks, of which the first computes for longer."""
    return job(
        {"gpuminutes_gpu_sm_active_ratio": (slow, "0.6x119"), "gpuminutes_gpu_tensor_active_ratio": tensor},
        _ALL_NODES,
    )


def _clock(slow: str, tensor: str, reason: str = "0x119") -> dict[str, str]:
    """Gives six ranks, of which the first has a low clock."""
    return job(
        {
            "gpuminutes_gpu_clock_hertz{domain=sm}": (slow, "1980e6x119"),
            "gpuminutes_gpu_tensor_active_ratio": (tensor, "0.3x119"),
            "gpuminutes_gpu_clock_event_active{reason=sw_thermal}": (reason, "0x119"),
            # Normal at full load.
            "gpuminutes_gpu_clock_event_active{reason=sw_power_cap}": ("0x119", "1x119"),
        },
        _ALL_NODES,
    )


CAUSE = Cause(
    title="One rank slows the rest",
    rank=72,
    state=State.DEGRADED,
    owner="workload",
    signature=(
        "One GPU of a job, whose ranks do equal tensor work, is far less engaged than the middle one, computes for far "
        "longer, or runs at a far lower SM clock, and no clock event says why."
    ),
    duration="hours to days",
    blast="job",
    source="Google (step deviation), OSDI 2025 straggler study",
    first_step="Swap the slow rank's node out and see whether the slowness goes with it.",
    payer="tenant",
    runbook=(
        "Find the GPU: `bottomk(3, gpuminutes_gpu_engine_active_ratio * on (uuid) group_left (job_id)"
        ' gpuminutes_gpu_workload_info{job_id="JOB"})`; do the same with topk and gpuminutes_gpu_sm_active_ratio.',
        "On its node, look at clocks and their reasons: `nvidia-smi -q -d CLOCK,PERFORMANCE -i INDEX`; undo locked"
        " clocks with `nvidia-smi -rgc`.",
        "Look at the host: `mpstat -P ALL 5`, `numastat -p PID`, and its pressure,"
        " `rate(gpuminutes_node_pressure_stall_seconds_total[5m])`.",
        "If the host is at rest, have the owner profile that rank: garbage collection, logging, uneven input.",
        "Swap the node out at the next checkpoint: slowness that stays on the old node is hardware, run its diagnostics"
        " with `dcgmi diag -r 3`.",
    ),
    other_sources=("job progress: steps per rank", "a person: import evidence"),
    detectors=(
        Detector(
            key="straggler_late_launch",
            version=1,
            # Ranks that wait in a collective keep their engine busy; the one they wait for has gaps between kernels.
            expr=f"{_LOWEST_ENGINE} < $max_engaged_ratio and on (job_id) {_SAME_WORK}",
            coarse=_some_gpu_below("gpuminutes_gpu_engine_active_ratio", "$max_engaged_ratio"),
            scope="job",
            state=State.DEGRADED,
            min_duration_ms=10 * _MINUTES,
            window_ms=310_000,
            window_of="mean",
            stitch_ms=5 * _MINUTES,
            basis="inferred",
            max_steps=120,
            lost_expr=f"clamp(1 - {_LOWEST_ENGINE}, 0, 1)",
            thresholds=(
                Threshold(
                    "max_engaged_ratio", 0.8, "of the middle GPU", "waiting peers stay above 0.95; our judgement"
                ),
                *_SAME_WORK_THRESHOLDS,
            ),
            cases=(
                Case(
                    "one of six has gaps for a quarter of the time",
                    _engine("0.99x39 0.72x59 0.99x19"),
                    told=(Told("job:7", 600, 1500),),
                ),
                Case(
                    "one of six does less work: unequal load",
                    _engine("0.99x39 0.72x59 0.99x19", ("0.2x119", "0.4x119")),
                ),
                Case("gaps for three minutes", _engine("0.99x39 0.72x11 0.99x67")),
                Case(
                    "dcgm-exporter alone",
                    dcgm_job(
                        {
                            "DCGM_FI_PROF_GR_ENGINE_ACTIVE": ("0.99x39 0.72x59 0.99x19", "0.99x119"),
                            "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE": ("0.4x119",),
                            "DCGM_FI_DEV_GPU_UTIL": ("99x119",),
                        },
                        _ALL_NODES,
                    ),
                    told=(Told("job:7", 600, 1500),),
                ),
            ),
            why="One GPU of the job stands still between its kernels while all others wait in theirs, with equal work.",
        ),
        Detector(
            key="straggler_slow_kernels",
            version=1,
            # A rank that waits in a collective holds a few multiprocessors; the one that still computes holds most.
            # One that does more work has a larger share of the model.
            expr=(
                f"{_MIDDLE_SM} < $max_middle_ratio and on (job_id) {_SAME_WORK}"
                f" and on (job_id) {middle(_TENSOR)} > on (job_id) $min_work_ratio * {highest(_TENSOR)}"
            ),
            coarse=nodes_of(
                f"{middle_in_span('gpuminutes_gpu_sm_active_ratio', 'min')} < on (job_id)"
                f" $max_middle_ratio * {high_in_span('gpuminutes_gpu_sm_active_ratio')}"
            ),
            scope="job",
            state=State.DEGRADED,
            min_duration_ms=10 * _MINUTES,
            window_ms=310_000,
            window_of="mean",
            stitch_ms=5 * _MINUTES,
            basis="inferred",
            max_steps=120,
            lost_expr=f"clamp(1 - {_MIDDLE_SM}, 0, 1)",
            thresholds=(
                Threshold(
                    "max_middle_ratio", 0.75, "of the slow GPU", "equal ranks differ by a few percent; our judgement"
                ),
                *_SAME_WORK_THRESHOLDS,
            ),
            cases=(
                Case(
                    "one of six computes while the others wait",
                    _sm("0.6x39 0.95x59 0.6x19"),
                    told=(Told("job:7", 600, 1500),),
                ),
                Case("one of six does more work", _sm("0.6x39 0.95x59 0.6x19", ("0.6x119", "0.3x119"))),
            ),
            why="One GPU of the job computes far longer than the middle one for equal work: the others wait for it.",
        ),
        Detector(
            key="straggler_low_clock",
            version=1,
            # In cycles of its own clock the slow one works more of the time, since it never waits: without that, its
            # peers do not wait for it.
            expr=(
                f"{_LOWEST_CLOCK} < $max_clock_ratio"
                f" and on (job_id) {highest(_TENSOR)} > on (job_id) $min_work_more * {middle(_TENSOR)}"
                f" and on (job_id) {_SAME_WORK}"
            ),
            coarse=_some_gpu_below(_SM_CLOCK, "$max_clock_ratio"),
            scope="job",
            state=State.DEGRADED,
            min_duration_ms=10 * _MINUTES,
            window_ms=310_000,
            window_of="mean",
            stitch_ms=5 * _MINUTES,
            basis="inferred",
            max_steps=120,
            lost_expr=f"clamp(1 - {_LOWEST_CLOCK}, 0, 1)",
            thresholds=(
                Threshold(
                    "max_clock_ratio", 0.85, "of the middle GPU", "boards of a model differ by less; our judgement"
                ),
                Threshold("min_work_more", 1.1, "of the middle GPU", "the rest of the clock's ratio; our judgement"),
                *_SAME_WORK_THRESHOLDS,
            ),
            cases=(
                Case(
                    "clocks of one GPU are locked low",
                    _clock("1980e6x39 1410e6x59 1980e6x19", "0.3x39 0.42x59 0.3x19"),
                    told=(Told("job:7", 600, 1500),),
                ),
                Case(
                    "heat holds them down: a cause of its own",
                    _clock("1980e6x39 1410e6x59 1980e6x19", "0.3x39 0.42x59 0.3x19", "0x39 1x59 0x19"),
                    also=("gpu_sw_thermal",),
                ),
                Case("nobody waits for it", _clock("1980e6x39 1410e6x59 1980e6x19", "0.3x119")),
            ),
            why="One GPU of the job has a far lower SM clock than the middle one, without a reason; the others wait.",
        ),
    ),
)
