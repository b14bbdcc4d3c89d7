"""Bad configuration change."""

from warehouse.causes.examples import gpu, series
from warehouse.model.cause import Case, Cause, Detector, Threshold, Told
from warehouse.model.state import State

_REASONS = 'reason=~"CreateContainerConfigError|InvalidImageName"'
# Pods that hold GPUs alone: what fails elsewhere in the cluster costs no GPU time.
_HOLDING = (
    'gpuminutes_gpu_workload_info{pod!=""} and on (namespace, pod) '
    f"kube_pod_container_status_waiting_reason{{{_REASONS}}} == 1"
)


def _pods(count: int, waits: str, reason: str = "CreateContainerConfigError") -> dict[str, str]:
    """Gives pods that each hold both GPUs of a node while a container waits."""
    found = {}
    for number in range(count):
        pod = {"namespace": "ml", "pod": f"train-{number}"}
        found[series("kube_pod_container_status_waiting_reason", pod, container="main", reason=reason)] = waits
        found |= {
            series("gpuminutes_gpu_workload_info", {**gpu(index, f"n{number}"), **pod}, kind="k8s"): "_x40 1x79"
            for index in (0, 1)
        }
    return found


CAUSE = Cause(
    title="Bad configuration change",
    rank=60,
    state=State.LOST_WORK,
    owner="platform",
    signature=(
        "A commit, deploy or configuration event comes at most 15 min before several jobs fail, or "
        "before one error class shows on many nodes. Series show one of these classes: pods that hold GPUs and cannot "
        "start for their configuration."
    ),
    duration="5 to 60 min",
    blast="fleet",
    source=(
        "field reports of outages of 5 to 10 min from a wrong file; Acme (568 missing files) (Acme "
        "figure recalled, not checked at the source)"
    ),
    first_step="Roll the newest change back first and ask questions afterwards.",
    runbook=(
        "List what changed in the quarter of an hour before: changes.csv, the deploy log, kubectl rollout history.",
        "Roll the newest of it back; do not wait until it is proven.",
        "Read why a pod waits: kubectl describe pod POD names the missing secret, map or image.",
        "Check that failed jobs start again: kube_pod_container_status_waiting_reason goes back to 0.",
        "Import the change as evidence with its time, so that the failures before and after it are told apart.",
    ),
    other_sources=("changes.csv", "job ends: Slurm accounting", "Kubernetes events", "a person: import evidence"),
    detectors=(
        Detector(
            key="pods_refused_by_config",
            version=1,
            expr=(
                f"max by (node, slot, uuid) ({_HOLDING}) "
                f"and on () count(count by (namespace, pod) ({_HOLDING})) >= $min_pods"
            ),
            coarse=(
                'count by (node) (present_over_time(gpuminutes_gpu_workload_info{pod!=""}[$span]) and on (namespace, '
                f"pod) (max_over_time(kube_pod_container_status_waiting_reason{{{_REASONS}}}[$span]) == 1))"
            ),
            max_steps=240,
            scope="gpu",
            state=State.STARTUP,
            basis="inferred",
            min_duration_ms=60_000,
            severity="page",
            thresholds=(
                Threshold("min_pods", 3, "pods at once", "one or two are their owner's mistake; our judgement"),
            ),
            cases=(
                Case(
                    "a secret that three pods need is gone",
                    _pods(3, "_x40 1x39 0x39"),
                    told=tuple(Told(f"n{node}/{index}", 600, 1200) for node in range(3) for index in (0, 1)),
                ),
                Case("one pod names a map that there is not", _pods(1, "_x40 1x39 0x39")),
                Case(
                    "one that holds GPUs, and two that hold none",
                    _pods(3, "_x40 1x39 0x39")
                    | {name: "_x120" for number in (1, 2) for name in _pods(3, "") if f'"n{number}"' in name},
                ),
                Case("three pods whose containers are being made", _pods(3, "_x40 1x39 0x39", "ContainerCreating")),
            ),
            why="The pod holds this GPU and cannot start for its configuration, as others cannot at the same time.",
        ),
    ),
)
