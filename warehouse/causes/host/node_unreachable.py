"""Node unreachable."""

from warehouse.model.cause import Case, Cause, Detector, Told, Witness
from warehouse.model.state import State

_OURS, _NODE = 'up{job="gpu-minutes",node="n1"}', 'up{job="node",node="n1"}'
_DCGM = 'up{job="dcgm-exporter",Hostname="n1"}'


def _ready(values: str, status: str = "true") -> dict[str, str]:
    labels = f'condition="Ready",instance="10.2.0.7:8080",job="kube-state-metrics",node="n1",status="{status}"'
    return {f"kube_node_status_condition{{{labels}}}": values}


CAUSE = Cause(
    title="Node unreachable",
    rank=20,
    state=State.DOWN,
    owner="hardware",
    signature=(
        "Two witnesses: the scrape of our exporter and that of node_exporter both fail; or, where there is no "
        "node_exporter, our exporter is silent and kube-state-metrics says not Ready. Slurm's DOWN and NODE_FAIL come "
        "with its accounting."
    ),
    duration="minutes to hours",
    blast="node",
    source=(
        "Meta RSC (NODE_FAIL); Acme (16 faults, 14.3 % of GPU time) (Acme figure recalled, not checked at the source)"
    ),
    first_step=(
        "Open the BMC console: if the host is dead, power-cycle it; if it lives, look at its management network."
    ),
    payer="provider",
    runbook=(
        "Count the silent nodes of its rack: `up{job='node'} == 0`; several at once are power or a switch.",
        "Ping the node and its BMC, and open the console: `ipmitool -I lanplus -H BMC sol activate`.",
        "Read why it stopped: `ipmitool sel elist | tail`, and the last lines on the console.",
        "Power-cycle a dead host, `ipmitool chassis power cycle`; of a living one, look at the management network.",
        "After the boot read `journalctl -b -1 -e`, and drain the node where it names a fault.",
        "See that all GPUs are visible and the acceptance test passes before it takes work.",
    ),
    other_sources=(
        "Slurm accounting (NODE_FAIL, DOWN)",
        "Kubernetes events",
        "BMC event log",
        "changes.csv",
        "a person: import evidence",
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
                    {_OURS: "1x39 0x15 1x20", _NODE: "1x39 0x15 1x20"},
                    told=(Told("n1", 600, 840),),
                ),
                Case(
                    "dcgm-exporter and node_exporter silent for four minutes",
                    {_DCGM: "1x39 0x15 1x20", _NODE: "1x39 0x15 1x20"},
                    told=(Told("n1", 600, 840),),
                ),
                Case(
                    "the exporter alone is silent: the node lives",
                    {_OURS: "1x39 0x15 1x20", _NODE: "1x75"},
                    also=("exporter_silent",),
                ),
            ),
            why="The exporter and node_exporter are both silent: two witnesses say that the node is gone.",
        ),
        Detector(
            key="node_unreachable_kube",
            version=1,
            # A node_exporter, where there is one, is the better witness: it runs beside Kubernetes.
            expr=(
                'kube_node_status_condition{condition="Ready",status="true"} == 0 '
                'and on (node) up{job="gpu-minutes"} == 0 unless on (node) up{job="node"}'
            ),
            scope="node",
            state=State.DOWN,
            min_duration_ms=60_000,
            severity="page",
            cases=(
                Case(
                    "no node_exporter, our exporter silent, not Ready",
                    {_OURS: "1x39 0x39 1x39", _NODE: "_x119", **_ready("1x41 0x39 1x37")},
                    told=(Told("n1", 630, 1200),),
                    also=("exporter_silent",),
                ),
                Case(
                    "not Ready while the node's own exporters answer: its pods run on",
                    {_OURS: "1x119", _NODE: "_x119", **_ready("1x39 0x39 1x39")},
                ),
                Case(
                    "a silent exporter on a node that is Ready",
                    {_OURS: "1x39 0x39 1x39", _NODE: "_x119", **_ready("1x119")},
                    also=("exporter_silent",),
                ),
                Case(
                    "node_exporter says it already",
                    {_OURS: "1x39 0x39 1x39", _NODE: "1x39 0x39 1x39", **_ready("1x41 0x39 1x37")},
                    also=("node_unreachable",),
                ),
            ),
            why="The exporter is silent, and Kubernetes has lost the node's kubelet.",
        ),
    ),
)
