"""Network switch or cable fault."""

from warehouse.causes.examples import dcgm, gpu, series
from warehouse.causes.ports import BUSY, DOWN, DOWN_COARSE, LOST, MANY_DOWN, MIN_PORTS, busy, ports
from warehouse.model.cause import Case, Cause, Detector, Threshold, Told
from warehouse.model.state import State

_TENSOR = "gpuminutes_gpu_tensor_active_ratio"
_CHANGES = "node_network_carrier_changes_total"
# Names that the kernel and udev give to hardware: pods, bridges and bonds come and go.
_HARDWARE = '{device=~"en.*|eth.*|ib.*"}'

# Tensor activity where it is known: a job that waits for its peers keeps the GPUs busy. Asked as what is there, since
# an exporter that does not watch this node says nothing, too.
_STILL = f"(avg by (node) ({_TENSOR}) or avg by (node) ({BUSY})) < $max_active_ratio"


def _ethernet(values: tuple[str, ...], device: str = "ens1{}np0") -> dict[str, str]:
    return {
        series(_CHANGES, node="n1", device=device.format(f"f{number}")): value for number, value in enumerate(values)
    }


_DOWN = Detector(
    key="fabric_ports_down",
    version=1,
    expr=f"count by (node) ({DOWN}) and on (node) {MANY_DOWN} and on (node) {_STILL}",
    coarse=DOWN_COARSE,
    scope="node",
    state=State.DOWN,
    min_duration_ms=60_000,
    stitch_ms=60_000,
    severity="page",
    thresholds=(
        MIN_PORTS,
        Threshold("max_active_ratio", 0.05, "ratio", "a job that computes does not need these ports; our judgement"),
    ),
    cases=(
        Case(
            "both ports for ten minutes",
            {
                **ports(("4x39 1x39 4x39",) * 2, ("0x39 1x79",) * 2),
                **busy(),
                series(_TENSOR, gpu(0)): "0.4x39 0x39 0.4x39",
            },
            told=(Told("n1", 600, 1200),),
            also=("fabric_links_lost",),
        ),
        Case(
            "three of four, on a node of dcgm-exporter",
            {
                **ports((*("4x39 1x79",) * 3, "4x119"), (*("0x39 1x79",) * 3, "0x119")),
                series("DCGM_FI_DEV_GPU_UTIL", dcgm(0)): "0x119",
                series("DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", dcgm(1)): "0x119",
            },
            told=(Told("n1", 600, None),),
            also=("fabric_links_lost",),
        ),
        Case(
            "a job on this node alone computes on",
            {
                **ports(("4x39 1x39 4x39",) * 2, ("0x39 1x79",) * 2),
                **busy(),
                series(_TENSOR, gpu(0)): "0.4x119",
                series(_TENSOR, gpu(1)): "0.4x119",
            },
            also=("fabric_links_lost",),
        ),
        Case("ports that were never cabled", {**ports(("4x119", "1x119", "1x119"), ("0x119",) * 3), **busy()}),
    ),
    why="Most ports of the node to the fabric are down at once: what they have in common has failed.",
)

_FLAP = Detector(
    key="fabric_links_lost",
    version=1,
    expr=f"count by (node) (increase({LOST}[310s]) > 0) >= $min_ports",
    scope="node",
    state=State.HUNG,
    min_duration_ms=0,
    momentary=True,
    thresholds=(MIN_PORTS,),
    cases=(
        Case(
            "two ports within a minute",
            ports(("4x119",) * 3, ("0x39 1x79", "0x43 1x75", "0x119")),
            told=(Told("n1", 660, 660),),
            also=("nic_link_lost",),
        ),
        Case("one port", ports(("4x119",) * 2, ("0x39 1x79", "0x119")), also=("nic_link_lost",)),
    ),
    why="Several ports of the node lost their links within minutes.",
)

_CARRIER = Detector(
    key="ethernet_links_lost",
    version=1,
    # A counter starts anew with the boot, and links come up after it.
    expr=(
        f"count by (node) (increase({_CHANGES}{_HARDWARE}[310s]) > 0) >= $min_ports "
        "unless on (node) (time() - max by (node) (node_boot_time_seconds) < $boot_seconds)"
    ),
    scope="node",
    state=State.HUNG,
    min_duration_ms=0,
    momentary=True,
    thresholds=(
        MIN_PORTS,
        Threshold("boot_seconds", 900, "s", "links come up in the first minutes after a boot; our judgement"),
    ),
    cases=(
        Case("two ports at once", _ethernet(("2x39 4x79", "2x39 4x79", "2x119")), told=(Told("n1", 600, 600),)),
        Case("one port", _ethernet(("2x39 4x79", "2x119"))),
        Case("ports of pods", _ethernet(("2x39 4x79", "2x39 4x79"), device="veth{}")),
        Case(
            "after a boot",
            {**_ethernet(("2x39 4x79", "2x39 4x79")), series("node_boot_time_seconds", node="n1"): "300x119"},
            also=("node_rebooted",),
        ),
    ),
    why="Several network ports of the node lost their carrier within minutes.",
)

CAUSE = Cause(
    title="Network switch or cable fault",
    rank=40,
    state=State.HUNG,
    owner="fabric",
    signature=(
        "Most InfiniBand ports of a node that were active are down at once while nothing computes on it; several"
        " ports lose"
        " their links within minutes (node_infiniband_link_downed_total, node_network_carrier_changes_total) is an"
        " event."
    ),
    duration="minutes to hours; cables median 47 h in the InfiniteHBD trace",
    blast="pod or rail",
    source="Llama 3 (35 interruptions), Meta RSC (InfiniBand links)",
    first_step="Map the ports to their leaf switch; swap the one cable, or move jobs off the leaf.",
    payer="provider",
    runbook=(
        "List the ports that went down by time and map them to switches (`iblinkinfo`, LLDP or the cabling plan).",
        "Ask whether they share one leaf, one line card, one bundle or one power feed.",
        "Look at the switch: its own log, its temperature and power, a firmware upgrade or a reboot.",
        "Move jobs off the nodes behind the switch and drain them; multi-node jobs there cannot go on.",
        "Swap the cable when it is one, the transceiver next, the switch port last.",
        "Test with an all-reduce over the rail before the nodes go back.",
    ),
    other_sources=("log of the switch", "subnet manager", "log of the collective library", "a person: import evidence"),
    detectors=(_DOWN, _FLAP, _CARRIER),
)
