"""Registry, DNS, login or clock service failed."""

from warehouse.causes.examples import dcgm, gpu, series
from warehouse.model.cause import Case, Cause, Detector, Threshold, Told, Witness
from warehouse.model.state import State

_NO_IMAGE = 'kube_pod_container_status_waiting_reason{reason=~"ImagePullBackOff|ErrImagePull"}'


def _pods(*waits: tuple[str, str]) -> dict[str, str]:
    """Gives pods in namespaces, the first of which holds a GPU, and whether they wait for their image."""
    found = {
        series(
            "kube_pod_container_status_waiting_reason",
            namespace=namespace, pod=f"train-{number}", container="main", reason="ImagePullBackOff",
        ): values
        for number, (namespace, values) in enumerate(waits)
    }  # fmt: skip
    held = {"namespace": waits[0][0], "pod": "train-0", "container": "main", "kind": "k8s"}
    return found | {series("gpuminutes_gpu_workload_info", gpu(0), **held): "1x119"}


CAUSE = Cause(
    title="Registry, DNS, login or clock service failed",
    rank=63,
    state=State.STARTUP,
    owner="platform",
    signature=(
        "Pods of several namespaces cannot pull their images at once (kube_pod_container_status_waiting_reason), or "
        "node_timex_sync_status falls to 0; failing names and logins show in logs alone."
    ),
    duration="minutes to hours",
    blast="fleet",
    source=(
        "Llama 3 (2 interruptions), Acme (147 connection errors) (Acme figure recalled, not checked at the source)"
    ),
    first_step="Find the one shared service that failing starts have in common and restore it.",
    payer="provider",
    runbook=(
        "Read what fails: `kubectl get events -A --field-selector reason=Failed` or the last lines of a job's log.",
        "From an affected node, try each service: `crictl pull IMAGE`, `dig REGISTRY`, `getent passwd USER`,"
        " `chronyc tracking`.",
        "If one node alone fails, drain it; if all do, call the owner of that service.",
        "If the registry limits requests, point the nodes to a mirror or spread the starts.",
        "When it is back, see that waiting pods start by themselves; delete those that back off for 5 min.",
    ),
    other_sources=("Kubernetes events", "job log", "kernel log", "Alertmanager", "a person: import evidence"),
    detectors=(
        Detector(
            key="images_cannot_be_pulled",
            version=1,
            # A wrong name in one pod is its owner's; several tenants at once have the registry in common.
            expr=(
                'max by (node, slot, uuid, namespace, pod) (gpuminutes_gpu_workload_info{pod!=""}) == 1'
                f" and on (namespace, pod) ({_NO_IMAGE} == 1)"
                f" and on () (count(count by (namespace) ({_NO_IMAGE} == 1)) >= $min_namespaces)"
            ),
            scope="gpu",
            state=State.STARTUP,
            min_duration_ms=120_000,
            stitch_ms=120_000,
            basis="inferred",
            max_steps=240,
            thresholds=(
                Threshold("min_namespaces", 2, "namespaces", "one alone may have a wrong name; our judgement"),
            ),
            cases=(
                Case(
                    "two tenants wait for images",
                    _pods(("ml", "0x39 1x39 0x39"), ("web", "0x35 1x47 0x35")),
                    told=(Told("n1/0", 600, 1200),),
                ),
                Case("one tenant has a wrong name", _pods(("ml", "0x39 1x39 0x39"), ("ml", "0x39 1x39 0x39"))),
                Case(
                    "dcgm-exporter alone",
                    {
                        name: values
                        for name, values in _pods(("ml", "0x39 1x39 0x39"), ("web", "0x35 1x47 0x35")).items()
                        if name.startswith("kube_")
                    }
                    | {
                        series(
                            "DCGM_FI_DEV_GPU_UTIL", dcgm(0), exported_namespace="ml", exported_pod="train-0"
                        ): "0x119"
                    },
                    told=(Told("n1/0", 600, 1200),),
                    also=("idle_allocated_dcgm",),
                ),
            ),
            why="The pod that holds this GPU cannot pull its image, and neither can pods of another namespace.",
        ),
        Detector(
            key="clock_unsynchronised",
            version=1,
            # A clock that drifts stops no GPU; what fails because of it (logins, certificates) comes later.
            # A kernel that was never told of its synchronisation says 0 for ever; only a fall is an event.
            expr=(
                "node_timex_sync_status == 0 and on (node)"
                " max by (node) (max_over_time(node_timex_sync_status[$window])) == 1"
            ),
            scope="node",
            state=State.STARTUP,
            min_duration_ms=0,
            window_ms=125_000,
            window_of="max",
            momentary=True,
            severity="info",
            witnesses=(Witness("node_timex_sync_status", "", ("node",)),),
            cases=(
                Case(
                    "the time server is gone",
                    {series("node_timex_sync_status", node="n1"): "1x39 0x39 1x39"},
                    told=(Told("n1", 600, 600),),
                ),
                Case("a kernel that was never told", {series("node_timex_sync_status", node="n1"): "0x119"}),
            ),
            why="The kernel's clock lost its source: counted, no time of a GPU is lost by it.",
        ),
    ),
)
