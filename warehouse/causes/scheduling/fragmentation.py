"""Free GPUs in the wrong places."""

from warehouse.causes.examples import gpu, series
from warehouse.model.cause import Case, Cause, Detector, Threshold, Told
from warehouse.model.state import State

# Nobody holds it, and nobody has closed its node for new work.
_FREE = (
    "max by (node, slot, uuid) (gpuminutes_gpu_allocated) == 0"
    " unless on (node) max by (node) (kube_node_spec_unschedulable) == 1"
)
_FREE_IN_SPAN = "min by (node) (min_over_time(gpuminutes_gpu_allocated[$span])) == 0"

_WAITS_FOR_GPUS = (
    "max by (namespace, pod) (kube_pod_status_unschedulable) == 1 and on (namespace, pod)"
    ' max by (namespace, pod) (kube_pod_container_resource_requests{resource="nvidia_com_gpu"}) > 0'
)

# Jobs that may start: Slurm's own figures from 25.11 on count what is held apart, an exporter of squeue leaves out what
# waits for another job. Neither says who asks for GPUs.
_QUEUED = (
    "max by (partition) (slurm_partition_jobs_pending) - on (partition) max by (partition) (slurm_partition_jobs_hold)"
)


def _free(allocated: str = "1x19 0x79 1x19") -> dict[str, str]:
    return {
        series("gpuminutes_gpu_allocated", gpu(0)): allocated,
        series("gpuminutes_gpu_allocated", gpu(1)): "1x119",
    }


def _pod(unschedulable: str, asked: str = "8") -> dict[str, str]:
    """Gives a pod that found no node."""
    pod = {"namespace": "ml", "pod": "train-0"}
    return {
        series("kube_pod_status_unschedulable", pod): unschedulable,
        series("kube_pod_container_resource_requests", pod, resource="nvidia_com_gpu", unit="integer"): f"{asked}x119",
    }


def _queue(pending: str, hold: str = "0x119") -> dict[str, str]:
    """Gives the queue of a partition as Slurm itself says it."""
    return {
        series("slurm_partition_jobs_pending", partition="gpu"): pending,
        series("slurm_partition_jobs_hold", partition="gpu"): hold,
    }


CAUSE = Cause(
    title="Free GPUs in the wrong places",
    rank=67,
    state=State.IDLE_BLOCKED,
    owner="scheduling",
    signature=(
        "Pods that ask for GPUs find no node (kube_pod_status_unschedulable), or a Slurm queue holds jobs that may "
        "start, while gpuminutes_gpu_allocated is 0 on open nodes for more than 10 min."
    ),
    duration="minutes to hours",
    blast="fleet",
    source="Meta RSC, Google (scheduling goodput)",
    first_step="Compare the waiting shapes with the free shapes; defragment or let small jobs fill in.",
    opens_incident=False,
    payer="provider",
    runbook=(
        "Ask the scheduler why: `squeue -t PD -o '%i %P %b %r'` or `kubectl describe pod POD | tail`.",
        "Count free GPUs by node: `count by (node) (gpuminutes_gpu_allocated == 0)`, and compare with what is asked.",
        "If quota, priority or a reservation holds the work back, it is policy: tell its owner.",
        "If shapes do not fit, move or end small preemptible jobs that spread over many nodes, or shorten the backfill"
        " limit.",
        "If GPUs fit and nothing starts, look at the scheduler itself: `sdiag` or its pod's log.",
    ),
    other_sources=("Slurm accounting: why a job waits", "Kubernetes events: FailedScheduling"),
    detectors=(
        Detector(
            key="gpus_free_pods_wait",
            version=1,
            expr=f"{_FREE} and on () (count({_WAITS_FOR_GPUS}) >= $min_waiting)",
            coarse=f"{_FREE_IN_SPAN} and on () (count(max_over_time(kube_pod_status_unschedulable[$span]) == 1))",
            scope="gpu",
            state=State.IDLE_BLOCKED,
            min_duration_ms=600_000,
            max_steps=240,
            severity="info",
            thresholds=(Threshold("min_waiting", 1, "pods", "one that waits is demand"),),
            cases=(
                Case(
                    "a pod for eight waits, one GPU is free",
                    _free() | _pod("0x19 1x79 0x19"),
                    told=(Told("n1/0", 300, 1500),),
                ),
                Case("the pod asks for no GPU", _free() | _pod("0x19 1x79 0x19", asked="0")),
                Case("free for five minutes between two jobs", _free("1x19 0x19 1x79") | _pod("0x19 1x79 0x19")),
                Case(
                    "the node is closed for new work",
                    _free() | _pod("0x19 1x79 0x19") | {series("kube_node_spec_unschedulable", node="n1"): "1x119"},
                ),
            ),
            why="A pod that asks for GPUs finds no node, and this GPU is free on an open node.",
        ),
        Detector(
            key="gpus_free_jobs_wait",
            version=1,
            expr=f"{_FREE} and on () (sum({_QUEUED} or slurm_queue_pending) >= $min_waiting)",
            coarse=(
                f"{_FREE_IN_SPAN} and on () (count(max_over_time(slurm_partition_jobs_pending[$span]) > 0"
                " or max_over_time(slurm_queue_pending[$span]) > 0))"
            ),
            scope="gpu",
            state=State.IDLE_BLOCKED,
            min_duration_ms=600_000,
            basis="inferred",
            max_steps=240,
            severity="info",
            thresholds=(
                Threshold(
                    "min_waiting",
                    1,
                    "jobs",
                    "one that may start is demand; set it higher, or switch this off, where a queue also has CPU jobs",
                ),
            ),
            cases=(
                Case(
                    "a queue and one free GPU",
                    _free() | _queue("0x19 4x79 0x19"),
                    told=(Told("n1/0", 300, 1500),),
                ),
                Case("all that waits is held", _free() | _queue("0x19 4x79 0x19", hold="0x19 4x79 0x19")),
                Case(
                    "an exporter of squeue",
                    _free() | {"slurm_queue_pending": "0x19 4x79 0x19"},
                    told=(Told("n1/0", 300, 1500),),
                ),
            ),
            why="The queue holds jobs that may start, and this GPU is free.",
        ),
    ),
)
