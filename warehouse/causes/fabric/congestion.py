"""Network congestion."""

from warehouse.causes.examples import dcgm, series
from warehouse.causes.ports import ACTIVE, DOWN, FULL_RATE, MIN_BUSY, PORT, RATE, WAIT, WORKING, busy, port, ports
from warehouse.model.cause import Case, Cause, Detector, Threshold, Told
from warehouse.model.state import State


def _share(range_: str) -> str:
    """Gives PromQL for the part of its time in which a port had data to send and could not."""
    return (
        f"max by ({PORT}) (rate({WAIT}[{range_}])) * $bytes_per_tick"
        f" / on ({PORT}) (max by ({PORT}) ({RATE}) and on ({PORT}) {ACTIVE})"
    )


_WORST = f"max by (node) ({_share('$window')})"

# Half of the port's time: 3.125e9 ticks of 8 bytes a second at 5e10 bytes a second, 4.6875e10 in a scrape of 15 s.
_HALF = "0+0x39 4.6875e10+4.6875e10x59 2.8125e12x39"


def _network(waits: str, states: tuple[str, ...] = ("4x139", "4x139")) -> dict[str, str]:
    found = ports(states, ("0x139",) * len(states))
    for number in range(len(states)):
        found[series(RATE, port(number))] = f"{FULL_RATE}x139"
        found[series(WAIT, port(number))] = waits if number == 0 else "0x139"
    return found


CAUSE = Cause(
    title="Network congestion",
    rank=43,
    state=State.DEGRADED,
    owner="fabric",
    signature=(
        "A port of a working node waits for a large part of its time to send (node_infiniband_port_transmit_wait_total)"
        " with all links up; whether steps take longer, the job alone knows."
    ),
    duration="minutes to days",
    blast="jobs on the path",
    source="Meta (50 to 75 % of bandwidth lost), C4",
    first_step="Find the hot ports, then check adaptive routing and which jobs share the path.",
    payer="provider",
    runbook=(
        "Ask the job whether its steps take longer than yesterday: waiting that is hidden behind compute costs"
        " nothing.",
        "Find the hot ports: the rate of node_infiniband_port_transmit_wait_total by node and device.",
        "Look for a slow or lost link on the path first: traffic that moved over makes the others hot.",
        "Check that adaptive routing is on in the subnet manager, and which jobs share the leaf and spine.",
        "Place the jobs apart, or lower the traffic of the one that is bursting (checkpoints, data loading).",
    ),
    other_sources=("job progress", "counters of the switch", "a person: import evidence"),
    detectors=(
        Detector(
            key="fabric_congestion",
            version=1,
            expr=f"{_WORST} > $min_share unless on (node) ({DOWN}) and on (node) {WORKING}",
            coarse=(
                f"max by (node) (max by ({PORT}) (increase({WAIT}[$span])) * $bytes_per_tick"
                # Of 310 s at the least share; half of it, for what lies before the look.
                f" / on ({PORT}) max by ({PORT}) (max_over_time({RATE}[$span])) > $min_share * 155)"
            ),
            window_ms=310_000,
            window_of="mean",
            scope="node",
            state=State.DEGRADED,
            min_duration_ms=300_000,
            stitch_ms=300_000,
            severity="info",
            basis="inferred",
            # A synchronous job waits for its slowest port.
            lost_expr=f"clamp({_WORST}, 0, 1)",
            thresholds=(
                Threshold(
                    "min_share", 0.25, "of a port's time", "well above the bursts of a sound fabric; our judgement"
                ),
                Threshold(
                    "bytes_per_tick",
                    8,
                    "bytes",
                    "what recent NVIDIA switches count a tick as (NVIDIA, congestion on InfiniBand links); adapters of"
                    " other makes differ: `perfquery -c` shows it",
                ),
                MIN_BUSY,
            ),
            cases=(
                Case(
                    "one port waits half of its time for a quarter of an hour",
                    {**_network(_HALF), **busy("0.9x139")},
                    told=(Told("n1", 600, 1500),),
                ),
                Case(
                    "on a node of dcgm-exporter",
                    {**_network(_HALF), series("DCGM_FI_DEV_GPU_UTIL", dcgm(0)): "99x139"},
                    told=(Told("n1", 600, 1500),),
                ),
                Case("a node without work", {**_network(_HALF), **busy("0x139")}),
                Case("a tenth of its time", {**_network("0+9.375e9x139"), **busy("0.9x139")}),
                Case("a burst of a minute", {**_network("0x39 1.875e11x99"), **busy("0.9x139")}),
            ),
            why="A port had data to send and could not for a large part of its time; that part is taken as lost.",
        ),
    ),
)
