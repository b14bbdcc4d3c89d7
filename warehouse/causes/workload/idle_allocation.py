"""Allocated but idle."""

from warehouse.causes.examples import dcgm, gpu, series
from warehouse.model.cause import Case, Cause, Detector, Threshold, Told
from warehouse.model.state import State

_HELD = "max by (node, slot, uuid) (gpuminutes_gpu_allocated) == 1"


def _idle(family: str) -> str:
    return f"max by (uuid) (max_over_time({family}[$window])) < $max_activity_ratio"


def _held(busy: str, engine: str = "", allocated: str = "1x159") -> dict[str, str]:
    """Gives a GPU that somebody holds."""
    found = {
        series("gpuminutes_gpu_allocated", gpu(0)): allocated,
        series("gpuminutes_gpu_utilization_ratio", gpu(0)): busy,
    }
    return found | ({series("gpuminutes_gpu_engine_active_ratio", gpu(0)): engine} if engine else {})


_LEAST = Threshold("max_activity_ratio", 0.01, "ratio", "a forgotten notebook shows 0; jobstats and our judgement")

CAUSE = Cause(
    title="Allocated but idle",
    rank=73,
    state=State.IDLE_ALLOCATED,
    owner="workload",
    signature=(
        "A GPU is held (gpuminutes_gpu_allocated, or a workload's labels) and neither its utilisation nor its engine "
        "activity reaches 1 % for more than 15 min; a hang keeps utilisation at 100 %."
    ),
    duration="hours",
    blast="job",
    source="field experience, no figure; jobstats",
    first_step="Ask the owner whether the allocation is still needed before releasing it.",
    opens_incident=False,
    payer="tenant",
    runbook=(
        "See who holds it: `gpuminutes_gpu_workload_info` of that uuid, then `scontrol show job JOB` or"
        " `kubectl get pod -n NAMESPACE POD`.",
        "Look for processes: `gpuminutes_gpu_processes` at 0 means that nothing was started at all.",
        "Check that the job does not merely wait for data: `gpuminutes_job_pressure_stall_seconds_total`.",
        "Ask the owner; where the site's policy allows it, end the job: `scancel JOB` or `kubectl delete pod POD`.",
    ),
    other_sources=("job progress", "Slurm accounting", "Kubernetes events"),
    detectors=(
        Detector(
            key="idle_allocated",
            version=1,
            # Engine activity is a mean over all time and sees kernels that fall between samples of the utilisation;
            # where there is none, the utilisation speaks alone.
            expr=(
                f"{_HELD} and on (uuid) {_idle('gpuminutes_gpu_utilization_ratio')} unless on (uuid)"
                " max by (uuid) (max_over_time(gpuminutes_gpu_engine_active_ratio[$window])) >= $max_activity_ratio"
            ),
            coarse=(
                "max by (node) (max_over_time(gpuminutes_gpu_allocated[$span])) == 1 and on (node)"
                " min by (node) (min_over_time(gpuminutes_gpu_utilization_ratio[$span])) < $max_activity_ratio"
            ),
            scope="gpu",
            state=State.IDLE_ALLOCATED,
            # The definition of idle_allocated.
            min_duration_ms=900_000,
            window_ms=125_000,
            window_of="min",
            max_steps=240,
            severity="info",
            thresholds=(_LEAST,),
            cases=(
                Case("nothing runs for twenty minutes", _held("0.9x39 0x79 0.9x39"), told=(Told("n1/0", 600, 1800),)),
                Case("a break of ten minutes", _held("0.9x39 0x39 0.9x79")),
                Case("short kernels that the samples miss", _held("0.9x39 0x79 0.9x39", engine="0.04x159")),
                Case("nobody holds it", _held("0x159", allocated="0x159")),
                Case("a collective that hangs", _held("1x159", engine="1x159")),
            ),
            why="The GPU is held, and no kernel ran on it.",
        ),
        Detector(
            key="idle_allocated_dcgm",
            version=1,
            expr=(
                "group by (node, slot, uuid) (DCGM_FI_DEV_GPU_UTIL"
                '{exported_pod=~".+"} or DCGM_FI_DEV_GPU_UTIL{pod=~".+",exported_pod=""} or'
                ' DCGM_FI_DEV_GPU_UTIL{hpc_job=~".+"}) and on (uuid) max by (uuid)'
                " (max_over_time(DCGM_FI_DEV_GPU_UTIL[$window])) < 100 * $max_activity_ratio unless on (uuid)"
                " max by (uuid) (max_over_time(DCGM_FI_PROF_GR_ENGINE_ACTIVE[$window])) >= $max_activity_ratio"
            ),
            scope="gpu",
            state=State.IDLE_ALLOCATED,
            min_duration_ms=900_000,
            window_ms=125_000,
            window_of="min",
            max_steps=240,
            severity="info",
            thresholds=(_LEAST,),
            cases=(
                Case(
                    "a pod holds it and nothing runs",
                    {series("DCGM_FI_DEV_GPU_UTIL", dcgm(0), exported_pod="notebook-0"): "90x39 0x79 90x39"},
                    told=(Told("n1/0", 600, 1800),),
                ),
                Case("nobody holds it", {series("DCGM_FI_DEV_GPU_UTIL", dcgm(0)): "90x39 0x79 90x39"}),
            ),
            why="A pod or job holds the GPU, and no kernel ran on it.",
        ),
    ),
)
