"""Network adapter fault."""

from warehouse.causes.examples import dcgm, series
from warehouse.causes.ports import (
    ACTIVE,
    DOWN,
    DOWN_COARSE,
    FULL_RATE,
    LOST,
    MANY_DOWN,
    MIN_BUSY,
    MIN_PORTS,
    PORT,
    RATE,
    WORKING,
    busy,
    port,
    ports,
)
from warehouse.model.cause import Case, Cause, Detector, Told
from warehouse.model.state import State

# Rates of active ports with the kind of their adapter: a node may have slower adapters for storage.
_RATES = (
    f"(max by ({PORT}) ({RATE}) * on (node, device) group_left (board_id)"
    f" max by (node, device, board_id) (node_infiniband_info) and on ({PORT}) {ACTIVE})"
)
_NOMINAL = f"quantile by (node, board_id) (0.5, {_RATES})"
# A port that trained at a lower rate was lost before; one that is meant to be slower was not.
_SLOW = f"({_RATES} < on (node, board_id) group_left () {_NOMINAL} and on ({PORT}) {LOST} > 0)"


def _rates(values: tuple[str, ...], lost: tuple[str, ...]) -> dict[str, str]:
    found = ports(("4x119",) * len(values), lost)
    for number, rate in enumerate(values):
        found[series(RATE, port(number))] = rate
        found[series("node_infiniband_info", node="n1", device=f"mlx5_{number}", board_id="MT_0000000838")] = "1x119"
    return found


_DOWN = Detector(
    key="nic_port_down",
    version=1,
    expr=f"count by (node) ({DOWN}) unless on (node) {MANY_DOWN} and on (node) {WORKING}",
    coarse=DOWN_COARSE,
    scope="node",
    state=State.DEGRADED,
    min_duration_ms=120_000,
    stitch_ms=120_000,
    basis="inferred",
    lost_expr=f"clamp(count by (node) ({DOWN}) / on (node) count by (node) ({DOWN} or {ACTIVE}), 0, 1)",
    thresholds=(MIN_PORTS, MIN_BUSY),
    cases=(
        Case(
            "one of four for ten minutes",
            {**ports(("4x119", "4x39 1x39 4x39", "4x119", "4x119"), ("0x119", "0x39 1x79")), **busy()},
            told=(Told("n1", 600, 1200, lost_ppm=250_000),),
            also=("nic_link_lost",),
        ),
        Case(
            "on a node of dcgm-exporter, a port that stays in INIT",
            {
                **ports(("4x119", "4x39 2x79"), ("0x119", "0x39 1x79")),
                series("DCGM_FI_DEV_GPU_UTIL", dcgm(0)): "97x119",
            },
            told=(Told("n1", 600, None, lost_ppm=500_000),),
            also=("nic_link_lost",),
        ),
        Case("a port that was never cabled", {**ports(("4x119", "1x119"), ("0x119", "0x119")), **busy()}),
        Case(
            "a node without work",
            {**ports(("4x119", "4x39 1x79"), ("0x119", "0x39 1x79")), **busy("0x119")},
            also=("nic_link_lost",),
        ),
        Case(
            "one minute",
            {**ports(("4x119", "4x39 1x3 4x79"), ("0x119", "0x39 1x79")), **busy()},
            also=("nic_link_lost",),
        ),
    ),
    why="A port that was active is not, while others of the node are; the lost part is its share of them.",
)

_RATE_LOW = Detector(
    key="nic_rate_low",
    version=1,
    expr=f"count by (node) ({_SLOW}) and on (node) {WORKING}",
    coarse=(
        f"min by (node) (min_over_time({RATE}[$span])) < on (node) max by (node) (max_over_time({RATE}[$span])) "
        f"and on (node) max by (node) (max_over_time({LOST}[$span])) > 0"
    ),
    scope="node",
    state=State.DEGRADED,
    min_duration_ms=120_000,
    stitch_ms=120_000,
    basis="inferred",
    lost_expr=f"clamp(1 - avg by (node) ({_RATES} / on (node, board_id) group_left () {_NOMINAL}), 0, 1)",
    thresholds=(MIN_BUSY,),
    cases=(
        Case(
            "one of four trained at a quarter",
            {**_rates((f"{FULL_RATE}x39 1.25e10x79", *(f"{FULL_RATE}x119",) * 3), ("0x39 1x79",)), **busy()},
            told=(Told("n1", 600, None, lost_ppm=187_500),),
            also=("nic_link_lost",),
        ),
        Case(
            "one of four is meant to be slower",
            {**_rates(("2.5e10x119", *(f"{FULL_RATE}x119",) * 3), ("0x119",)), **busy()},
        ),
        Case(
            "the same on a node without work",
            {**_rates((f"{FULL_RATE}x39 1.25e10x79", *(f"{FULL_RATE}x119",) * 3), ("0x39 1x79",)), **busy("0x119")},
            also=("nic_link_lost",),
        ),
    ),
    why="A port came back at a lower rate than the node's others of the same kind; the lost part is the missing rate.",
)

_FLAP = Detector(
    key="nic_link_lost",
    version=1,
    expr=f"count by (node) (increase({LOST}[310s]) > 0) == 1",
    scope="node",
    state=State.DOWN,
    min_duration_ms=0,
    momentary=True,
    cases=(
        Case(
            "one port, once",
            ports(("4x119", "4x119"), ("0x39 1x79", "0x119")),
            told=(Told("n1", 600, 600),),
        ),
        Case("counted before, and never since", ports(("4x119", "4x119"), ("5x119", "0x119"))),
    ),
    why="One port of the node lost its link; what went over it was sent again, or failed.",
)

CAUSE = Cause(
    title="Network adapter fault",
    rank=42,
    state=State.DOWN,
    owner="fabric",
    signature=(
        "A port that was active has node_infiniband_state_id below 4 while others of the node are active, or came"
        " back at a"
        " lower rate than those; degraded while the node works. A link that is lost and comes back is an event."
    ),
    duration="hours",
    blast="node",
    source="Llama 3 (7 interruptions), InfiniteHBD trace (30 faults, median 12 h)",
    first_step="Drain the node, reset the adapter, and swap cable and transceiver before the adapter itself.",
    payer="provider",
    runbook=(
        "Find the port: `ibstat` on the node, or node_infiniband_state_id by device.",
        "Look at the other end: when the switch port or its neighbours are down too, it is the switch or the cable.",
        "Read the kernel log for mlx5 lines: a firmware fault of the adapter says so there.",
        "Drain the node, then reset the adapter (`mlxfwreset -d DEVICE reset`).",
        "Swap transceiver and cable before the adapter, and test with `ib_write_bw` to a healthy node.",
        "Compare the adapter's firmware with the fleet (node_infiniband_info) when several fail alike.",
    ),
    other_sources=("kernel log", "subnet manager", "log of the collective library", "a person: import evidence"),
    detectors=(_DOWN, _RATE_LOW, _FLAP),
)
