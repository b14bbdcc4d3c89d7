"""GPU fault, kind not stated: the source names the family and nothing more."""

from __future__ import annotations

from warehouse.causes.examples import dcgm, gpu, series
from warehouse.causes.xids import ACTION, GPU, LAST, NEEDS_RESET, SAME, answered, demanded
from warehouse.model.cause import Case, Cause, Detector, Told, Witness
from warehouse.model.state import State

_ASKS = "The driver asks for a reset or a reboot, and no Xid of a known kind says why."
_ACTION_DCGM = ("DCGM_FI_DEV_GET_GPU_RECOVERY_ACTION", "DCGM_FI_DEV_GPU_RECOVERY_ACTION")
_CAPACITY, _ALLOCATABLE = "kube_node_status_capacity", "kube_node_status_allocatable"
_GPUS = '{resource="nvidia_com_gpu"}'


def _kube(node: str, resource: str, capacity: str, allocatable: str) -> dict[str, str]:
    return {
        series(_CAPACITY, node=node, resource=resource, unit="integer"): capacity,
        series(_ALLOCATABLE, node=node, resource=resource, unit="integer"): allocatable,
    }


_RECOVERY = Detector(
    key="gpu_needs_recovery",
    version=1,
    expr=f"{demanded()} unless on ({GPU}) {answered(NEEDS_RESET)}",
    coarse=f"max by (node) (max_over_time({ACTION}[$span])) > 0",
    scope="gpu",
    state=State.DOWN,
    min_duration_ms=60_000,
    witnesses=(Witness(ACTION, "", ("node", "slot"), ">", "0"),),
    thresholds=(SAME,),
    cases=(
        Case(
            "a reset is asked for, and done after ten minutes",
            {series(ACTION, gpu(0)): "0x39 1x39 0x39"},
            told=(Told("n1/0", 600, 1200),),
        ),
        Case("a reboot is asked for", {series(ACTION, gpu(1)): "0x39 2x39"}, told=(Told("n1/1", 600, None),)),
        Case("to be drained, its jobs may end", {series(ACTION, gpu(0)): "0x39 4x39 3x39 0x9"}),
        Case(
            "an Xid says why",
            {
                series(ACTION, gpu(0)): "0x39 1x39 0x39",
                series(LAST, gpu(0), xid="119"): "_x40 597x79",
                series(LAST, gpu(0), xid="154"): "_x40 598x39 1195x39",
            },
            also=("gsp_timeout_xid", "gsp_timeout_reset"),
        ),
    ),
    why=_ASKS,
)

_RECOVERY_DCGM = Detector(
    key="gpu_needs_recovery_dcgm",
    version=1,
    expr=" or ".join(f"({demanded(name)})" for name in _ACTION_DCGM),
    coarse=" or ".join(f"max by (node) (max_over_time({name}[$span])) > 0" for name in _ACTION_DCGM),
    scope="gpu",
    state=State.DOWN,
    min_duration_ms=60_000,
    cases=(
        Case(
            "a reset is asked for, and done after ten minutes",
            {series(_ACTION_DCGM[0], dcgm(0)): "0x39 1x39 0x39"},
            told=(Told("n1/0", 600, 1200),),
        ),
        Case("by its new name", {series(_ACTION_DCGM[1], dcgm(1)): "0x39 7x39"}, told=(Told("n1/1", 600, None),)),
        Case("DCGM has no value for it", {series(_ACTION_DCGM[0], dcgm(0)): "0x39 2147483634x39"}),
    ),
    why="dcgm-exporter shows that the driver asks for a reset or a reboot of this GPU.",
)

_UNHEALTHY = Detector(
    key="gpu_unallocatable",
    version=1,
    # The kubelet counts every device in the capacity, and only those that their plugin calls healthy as allocatable.
    expr=f"max by (node) ({_CAPACITY}{_GPUS}) > on (node) max by (node) ({_ALLOCATABLE}{_GPUS})",
    scope="node",
    state=State.DEGRADED,
    min_duration_ms=120_000,
    # Which GPU it is, Kubernetes does not say: the node as a whole has lost this part.
    lost_expr=f"clamp(1 - max by (node) ({_ALLOCATABLE}{_GPUS}) / on (node) max by (node) ({_CAPACITY}{_GPUS}), 0, 1)",
    cases=(
        Case(
            "one of eight is unhealthy for ten minutes",
            _kube("n1", "nvidia_com_gpu", "8x119", "8x39 7x39 8x39"),
            told=(Told("n1", 600, 1200, lost_ppm=125_000),),
        ),
        Case("a plugin that starts takes back what it had", _kube("n1", "nvidia_com_gpu", "8x79", "8x39 0x3 8x35")),
        Case("another kind of device", _kube("n1", "rdma_shared_devices", "8x79", "8x39 7x39")),
    ),
    why="The device plugin holds back GPUs of this node as unhealthy.",
)

CAUSE = Cause(
    title="GPU fault, kind not stated by the source",
    rank=34,
    state=State.DOWN,
    owner="hardware",
    signature=(
        "A human or vendor record says GPU failure (Xid without number, unknown device error) and no more; the"
        " driver asks"
        " for a reset (gpuminutes_gpu_recovery_action 1, 2, 6 or 7) and no Xid says why; Kubernetes has fewer GPUs"
        " allocatable than the node holds."
    ),
    duration="h - days",
    blast="GPU/node",
    source="InfiniteHBD trace: 54 of 158 GPU faults carry no finer description",
    first_step="Look for the Xid in the kernel log of that hour, then restate the evidence with the finer cause.",
    payer="provider",
    runbook=(
        "Read `dmesg -T | grep -iE 'xid|nvrm'` of the node around the onset.",
        "Look at `nvidia-smi -q` for the recovery action, ECC errors and remapped rows of each GPU.",
        "On Kubernetes, read the log of the device plugin: it names the GPU that it took out and why.",
        "Drain the node and do what the driver asks for: reset the GPU, or reboot.",
        "Restate the evidence with the finer cause once it is known.",
    ),
    other_sources=("kernel log", "Slurm node reason", "vendor ticket", "a person: import evidence"),
    detectors=(_RECOVERY, _RECOVERY_DCGM, _UNHEALTHY),
)
