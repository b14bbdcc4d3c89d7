"""Planned maintenance."""

from warehouse.causes.examples import on_both, series
from warehouse.model.cause import Case, Cause, Detector, Told
from warehouse.model.state import State

_TAINTED = 'kube_node_spec_taint{key=~".*maintenance.*"}'


def _tainted(values: str, key: str) -> dict[str, str]:
    """Gives a cordoned node with a taint."""
    return {
        series("kube_node_spec_unschedulable", node="n1"): "0x39 1x79 0x39",
        series("kube_node_spec_taint", node="n1", key=key, effect="NoSchedule"): values,
    }


CAUSE = Cause(
    title="Planned maintenance",
    rank=64,
    state=State.MAINTENANCE,
    owner="operations",
    signature=(
        "A maintenance window or reservation was declared, or the node is unschedulable with a ticket. Series show a "
        "taint or a reservation that calls itself maintenance; a bare cordon tells neither a plan nor its end."
    ),
    duration="hours",
    blast="as declared",
    source="Llama 3 (47 interruptions)",
    first_step="Nothing to repair; check that the window ends when it was said to.",
    opens_incident=False,
    runbook=(
        "Compare the window with the work: gpu-minutes maintenance lists what was declared.",
        "Look whether the node is empty: gpuminutes_gpu_allocated is 0 on all of its GPUs.",
        "If the work runs late, move the window's end before it passes; what is late is downtime.",
        "When it is done, take away the taint or the reservation, and uncordon the node.",
    ),
    other_sources=("maintenance.csv: declared windows", "Slurm accounting: MAINT reservations", "a person"),
    detectors=(
        Detector(
            key="maintenance_taint",
            version=1,
            # Says what somebody wrote on the node, from when it was empty; not when it was declared, nor its end.
            expr=(
                f"max by (node) ({_TAINTED}) == 1 and on (node) max by (node) (kube_node_spec_unschedulable) == 1 "
                "and on (node) max by (node) (gpuminutes_gpu_allocated) == 0"
            ),
            coarse=f"count by (node) (max_over_time({_TAINTED}[$span]))",
            scope="node",
            state=State.MAINTENANCE,
            min_duration_ms=60_000,
            severity="info",
            cases=(
                Case(
                    "tainted, cordoned and empty for twenty minutes",
                    _tainted("_x40 1x79 stale _x39", "ops.example.com/maintenance")
                    | on_both("gpuminutes_gpu_allocated", "1x39 0x79 1x39"),
                    told=(Told("n1", 600, 1800),),
                ),
                Case(
                    "its jobs run to their end first",
                    _tainted("_x40 1x79 stale _x39", "ops.example.com/maintenance")
                    | on_both("gpuminutes_gpu_allocated", "1x159"),
                ),
                Case(
                    "a bare cordon",
                    _tainted("_x40 1x79 stale _x39", "node.kubernetes.io/unschedulable")
                    | on_both("gpuminutes_gpu_allocated", "0x159"),
                    also=("cordoned_and_empty",),
                ),
            ),
            why="The node is cordoned and empty, and its taint says maintenance.",
        ),
        Detector(
            key="slurm_maintenance",
            version=1,
            # Slurm shows this state for nodes of a MAINT reservation that are neither down, drained nor at work.
            # Over a range, since the series of the state before lives on for minutes where no staleness marker ends it.
            expr='max by (node) (max_over_time(slurm_node_cpu_total{status=~"maint.*"}[$window])) > 0',
            window_ms=125_000,
            window_of="max",
            # Exporters of Slurm are asked once a minute or so.
            stitch_ms=120_000,
            scope="node",
            state=State.MAINTENANCE,
            min_duration_ms=60_000,
            severity="info",
            cases=(
                Case(
                    "a reservation of twenty minutes",
                    {
                        'slurm_node_cpu_total{node="n1",status="idle"}': "192x39 stale _x79 192x39",
                        'slurm_node_cpu_total{node="n1",status="maint"}': "_x40 192x79 stale _x39",
                    },
                    told=(Told("n1", 600, 1800),),
                ),
                Case(
                    "an ordinary reservation",
                    {'slurm_node_cpu_total{node="n1",status="reserved"}': "192x79"},
                ),
            ),
            why="Slurm says that the node is in a maintenance reservation.",
        ),
    ),
)
