"""Maintenance without a window."""

from warehouse.causes.examples import on_both, series
from warehouse.model.cause import Case, Cause, Detector, Told
from warehouse.model.state import State

_TAINTED = 'kube_node_spec_taint{key=~".*maintenance.*"}'


def _cordon(values: str) -> dict[str, str]:
    """Gives what kube-state-metrics says of the node's spec."""
    return {series("kube_node_spec_unschedulable", node="n1"): values}


CAUSE = Cause(
    title="Maintenance without a window",
    rank=64,
    state=State.DOWN,
    owner="operations",
    signature="A node is cordoned or drained and no window was declared, or a window ran past its end.",
    duration="hours",
    blast="node",
    source="Llama 3 (32 interruptions)",
    first_step=("Ask whoever drained the node for the reason and an end; declare the rest of the work as a window."),
    runbook=(
        "Read who cordoned it and why: kubectl describe node NODE, or scontrol show node NODE (Reason, SlurmUser).",
        "If a health check did it, follow the cause that it names; this entry yields to it.",
        "If nobody knows, run dcgmi diag -r 2 on the node and read dmesg; put it back if both are clean.",
        "If work goes on, declare it: gpu-minutes maintenance, with the end that was promised.",
        "Put the node back: kubectl uncordon NODE, or scontrol update nodename=NODE state=resume.",
    ),
    other_sources=("Slurm: the reason of a drain", "Kubernetes audit log", "a window that ended: maintenance.csv"),
    detectors=(
        Detector(
            key="cordoned_and_empty",
            version=1,
            # A cordoned node that still works loses nothing. Where nobody says who holds the GPUs, it stays silent.
            expr=(
                "max by (node) (kube_node_spec_unschedulable) == 1 "
                "and on (node) max by (node) (gpuminutes_gpu_allocated) == 0 "
                f"unless on (node) {_TAINTED}"
            ),
            coarse="count by (node) (max_over_time(kube_node_spec_unschedulable[$span]) == 1)",
            scope="node",
            state=State.DOWN,
            # A cordon of a minute is a rollout's.
            min_duration_ms=120_000,
            cases=(
                Case(
                    "cordoned, drained ten minutes later, and put back",
                    _cordon("0x19 1x119 0x19") | on_both("gpuminutes_gpu_allocated", "1x59 0x99"),
                    told=(Told("n1", 900, 2100),),
                ),
                Case(
                    "cordoned while its jobs run on",
                    _cordon("0x19 1x139") | on_both("gpuminutes_gpu_allocated", "1x159"),
                ),
                Case("cordoned, and nobody says who holds its GPUs", _cordon("0x19 1x139")),
                Case("a minute", _cordon("0x39 1x3 0x39") | on_both("gpuminutes_gpu_allocated", "0x83")),
            ),
            why="The node is cordoned and no GPU of it is held: nothing can run there, and nobody declared why.",
        ),
        Detector(
            key="slurm_drained",
            version=1,
            # Long names of states as sinfo prints them; draining nodes still work.
            # Over a range, since the series of the state before lives on for minutes where no staleness marker ends it.
            expr='max by (node) (max_over_time(slurm_node_cpu_total{status=~"drained.*"}[$window])) > 0',
            window_ms=125_000,
            window_of="max",
            # Exporters of Slurm are asked once a minute or so.
            stitch_ms=120_000,
            scope="node",
            state=State.DOWN,
            min_duration_ms=120_000,
            cases=(
                Case(
                    "drained for twenty minutes",
                    {
                        'slurm_node_cpu_total{node="n1",status="mixed"}': "192x39 _x120",
                        'slurm_node_cpu_total{node="n1",status="drained"}': "_x40 192x79 stale _x39",
                        'slurm_node_cpu_total{node="n1",status="idle"}': "_x120 192x39",
                    },
                    told=(Told("n1", 600, 1800),),
                ),
                Case(
                    "draining: its jobs run on",
                    {
                        'slurm_node_cpu_total{node="n1",status="mixed"}': "192x39 stale",
                        'slurm_node_cpu_total{node="n1",status="draining"}': "_x40 192x79",
                    },
                ),
            ),
            why="Slurm has drained the node: nothing runs there, and whether a window was declared it does not say.",
        ),
    ),
)
