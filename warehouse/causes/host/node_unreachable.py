"""Node unreachable."""

from warehouse.model.cause import Case, Cause, Detector, Told, Witness
from warehouse.model.state import State

CAUSE = Cause(
    title="Node unreachable",
    rank=20,
    state=State.DOWN,
    owner="hardware",
    signature=(
        "Two witnesses are silent: the scrape of our exporter and that of node_exporter both fail; kube-"
        "state-metrics says not Ready, or Slurm says DOWN or NODE_FAIL."
    ),
    duration="minutes to hours",
    blast="node",
    source=(
        "Meta RSC (NODE_FAIL); Acme (16 faults, 14.3 % of GPU time) (Acme figure recalled, not checked at the source)"
    ),
    first_step=(
        "Open the BMC console: if the host is dead, power-cycle it; if it lives, look at its management network."
    ),
    detectors=(
        Detector(
            key="node_unreachable",
            version=1,
            expr='up{job="gpu-minutes"} == 0 and on (node) up{job="node"} == 0',
            scope="node",
            state=State.DOWN,
            min_duration_ms=30_000,
            severity="page",
            witnesses=(
                Witness("up", 'job="gpu-minutes"', ("node",)),
                Witness("up", 'job="node"', ("node",)),
            ),
            cases=(
                Case(
                    "both exporters silent for four minutes",
                    {'up{job="gpu-minutes",node="n1"}': "1x39 0x15 1x20", 'up{job="node",node="n1"}': "1x39 0x15 1x20"},
                    told=(Told("n1", 600, 840),),
                ),
                Case(
                    "the exporter alone is silent: the node lives",
                    {'up{job="gpu-minutes",node="n1"}': "1x39 0x15 1x20", 'up{job="node",node="n1"}': "1x75"},
                    also=("exporter_silent",),
                ),
            ),
            why="The exporter and node_exporter are both silent: two witnesses say that the node is gone.",
        ),
    ),
)
