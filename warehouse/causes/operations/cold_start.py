"""Cold start."""

from warehouse.causes.examples import dcgm, gpu, series
from warehouse.model.cause import Case, Cause, Detector, Threshold, Told
from warehouse.model.state import State

# Ready at some moment since, or started too long ago: no start any more, whatever it waits for.
_STARTING = (
    'max by (namespace, pod) (max_over_time(kube_pod_status_ready{condition="true"}[${most_s}s])) == 0 '
    "and on (namespace, pod) time() - max by (namespace, pod) (kube_pod_start_time) < $most_s"
)
_HELD = "max by (node, slot, uuid) (gpuminutes_gpu_workload_info)"
_POD = {"pod": "train-0", "namespace": "ml"}


def _pod(ready: str, started: str) -> dict[str, str]:
    """Gives a pod as kube-state-metrics says it."""
    return {
        series("kube_pod_status_ready", _POD, condition="true"): ready,
        series("kube_pod_start_time", _POD): started,
    }


def _held(values: str) -> dict[str, str]:
    """Gives the pod's hold on both GPUs of a node, as our exporter says it."""
    return {series("gpuminutes_gpu_workload_info", {**gpu(i), **_POD}, kind="k8s"): values for i in (0, 1)}


def _loading(memory: str, utilisation: str, held: str) -> dict[str, str]:
    """Gives one GPU of a job."""
    return {
        series("gpuminutes_gpu_workload_info", gpu(0), job_id="7", kind="slurm"): held,
        series("gpuminutes_gpu_memory_bytes", gpu(0), state="used"): memory,
        series("gpuminutes_gpu_utilization_ratio", gpu(0)): utilisation,
    }


_NOT_READY = Detector(
    key="pod_starting",
    version=1,
    expr=(f'max by (node, slot, uuid) (gpuminutes_gpu_workload_info{{pod!=""}} and on (namespace, pod) ({_STARTING}))'),
    coarse=(
        'count by (node) (present_over_time(gpuminutes_gpu_workload_info{pod!=""}[$span]) and on (namespace, pod) '
        '(min_over_time(kube_pod_status_ready{condition="true"}[$span]) == 0))'
    ),
    max_steps=240,
    scope="gpu",
    state=State.STARTUP,
    min_duration_ms=30_000,
    severity="info",
    thresholds=(
        Threshold(
            "most_s",
            1801,
            "s",
            "Meta saw 5 to 20 min of set-up; what takes over half an hour is stuck, and no start; our judgement",
        ),
    ),
    cases=(
        Case(
            "eight minutes from the pod's start to its readiness",
            _pod("_x40 0x31 1x40", "_x40 600x71") | _held("_x40 1x71"),
            told=(Told("n1/0", 600, 1080), Told("n1/1", 600, 1080)),
        ),
        Case(
            "the same, where dcgm-exporter names the pod",
            _pod("_x40 0x31 1x40", "_x40 600x71")
            | {
                series("DCGM_FI_DEV_GPU_TEMP", dcgm(0), exported_pod="train-0", exported_namespace="ml"): "_x40 50x71",
                series("DCGM_FI_DEV_GPU_TEMP", dcgm(0)): "40x39",
            },
            told=(Told("n1/0", 600, 1080),),
        ),
        Case("ready once, then a failing probe", _pod("1x79 0x39", "-90x119") | _held("1x119")),
        Case("not ready for two hours: stuck", _pod("0x79", "-7200x79") | _held("1x79")),
        Case("another pod starts, on no GPU of ours", _pod("_x40 0x31 1x40", "_x40 600x71")),
    ),
    why="The pod that holds this GPU has not been ready since it started.",
)

_FILLING = Detector(
    key="memory_filling",
    version=1,
    expr=(
        'max by (node, slot, uuid) (deriv(gpuminutes_gpu_memory_bytes{state="used"}[$window])) > $min_bytes_per_s '
        "and on (node, slot, uuid) max by (node, slot, uuid) (max_over_time(gpuminutes_gpu_utilization_ratio[$window]))"
        f" < $max_utilisation_ratio and on (node, slot, uuid) {_HELD}"
    ),
    # Samples are 5 s apart or more, so that this slope moves one of them by five times its second; among n samples that
    # makes a deviation of at least that part of 1 / sqrt(n): more than a hundredth of a second even in days.
    coarse=(
        'count by (node) (stddev_over_time(gpuminutes_gpu_memory_bytes{state="used"}[$span]) > $min_bytes_per_s / 100 '
        "and on (node, slot, uuid) min_over_time(gpuminutes_gpu_utilization_ratio[$span]) < $max_utilisation_ratio)"
    ),
    window_ms=125_000,
    # The slope is half late on both sides; work that begins ends it at once.
    window_of="mean",
    max_steps=240,
    basis="inferred",
    scope="gpu",
    state=State.STARTUP,
    min_duration_ms=60_000,
    # Between two shards that are read, memory stands still.
    stitch_ms=120_000,
    severity="info",
    thresholds=(
        Threshold(
            "min_bytes_per_s",
            10_000_000,
            "bytes/s",
            "18 GB a GPU in half an hour; the 0.5 GB of a bare CUDA context stay below it; our judgement",
        ),
        Threshold("max_utilisation_ratio", 0.05, "ratio", "copies from the host are no kernel; our judgement"),
    ),
    cases=(
        Case(
            "70 GB of weights in eight minutes, then the first step",
            _loading("5e8x39 1e9+2e9x31 6.5e10x39", "0x71 0.98x39", "_x40 1x71"),
            told=(Told("n1/0", 600, 1080),),
        ),
        Case(
            "weights and nothing running, as dcgm-exporter says it",
            {
                series("DCGM_FI_DEV_FB_USED", dcgm(0)): "500x39 1000+1900x31 61800x39",
                series("DCGM_FI_DEV_GPU_UTIL", dcgm(0)): "0x39",
                series("DCGM_FI_DEV_GPU_UTIL", dcgm(0), hpc_job="7"): "_x40 0x31 98x39",
            },
            told=(Told("n1/0", 600, 1080),),
        ),
        Case(
            "memory grows while it computes",
            _loading("5e8x39 1e9+2e9x31 6.5e10x39", "0.9x110", "1x110"),
        ),
        Case(
            "a process starts: a CUDA context and no more",
            _loading("0x39 5e8x39", "0x79", "1x79"),
        ),
        Case("allocated and left alone", _loading("5e8x59", "0x59", "1x59")),
        Case(
            "a test of the operator: nobody holds it",
            {name: text for name, text in _loading("5e8x39 1e9+2e9x31 6.5e10x39", "0x110", "").items() if text},
        ),
    ),
    why="Memory fills while nothing runs: weights are being loaded. Neither download nor compilation shows so.",
)

CAUSE = Cause(
    title="Cold start",
    rank=65,
    state=State.STARTUP,
    owner="operations",
    signature=(
        "Start-up seconds of a job or pod: image, weights, compilation, set-up of collectives. In series: a pod that "
        "holds GPUs and was never ready, or memory that fills while nothing runs."
    ),
    duration="1 to 20 min",
    blast="job or endpoint",
    source="Meta (5 to 20 min of set-up), Google goodput (STARTUP)",
    first_step="Look at which phase is long; cache images and weights on the node when it is the download.",
    opens_incident=False,
    payer="tenant",
    runbook=(
        "Find the phase: kubectl describe pod shows pull and start times, the job's log the loading of weights.",
        "If the pull is long, compare the image's size with the registry's rate, and keep the image on the nodes.",
        'If the weights are long, watch gpuminutes_gpu_memory_bytes{state="used"}: how many bytes a second arrive.',
        "If neither moves, look for compilation in the log, and keep its cache between starts.",
        "If it does not end within half an hour, treat it as stuck: read the pod's events and its readiness probe.",
    ),
    other_sources=("job progress: the first step", "Kubernetes events", "Slurm accounting: the job's start"),
    detectors=(_NOT_READY, _FILLING),
)
