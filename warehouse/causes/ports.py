"""InfiniBand ports of a node in PromQL, as node_exporter names them, and as series of worked examples."""

from __future__ import annotations

from collections.abc import Iterable

from warehouse.causes.examples import gpu, series
from warehouse.model.cause import Threshold

STATE, RATE = "node_infiniband_state_id", "node_infiniband_rate_bytes_per_second"
LOST, WAIT = "node_infiniband_link_downed_total", "node_infiniband_port_transmit_wait_total"
BUSY = "gpuminutes_gpu_utilization_ratio"
PORT = "node, device, port"

# 4 is active (InfiniBand's PortState); a port that was never cabled was never lost either, nor active an hour ago.
ACTIVE = f"{STATE} == 4"
DOWN = f"({STATE} < 4 and on ({PORT}) ({LOST} > 0 or {STATE} offset 1h == 4))"
DOWN_COARSE = f"min by (node) (min_over_time({STATE}[$span])) < 4"
# More are down than are active, and not only one: what the ports have in common has failed.
MANY_DOWN = (
    f"(count by (node) ({DOWN}) >= $min_ports unless on (node) "
    f"(count by (node) ({ACTIVE}) >= on (node) count by (node) ({DOWN})))"
)
WORKING = f"max by (node) ({BUSY}) > $min_utilisation_ratio"

MIN_PORTS = Threshold("min_ports", 2, "ports", "one port alone may be its adapter's or its cable's; our judgement")
MIN_BUSY = Threshold(
    "min_utilisation_ratio", 0.05, "ratio", "a node without work loses nothing by its network; our judgement"
)

# 400 Gb/s.
FULL_RATE = "5e10"


def port(number: int, node: str = "n1") -> dict[str, str]:
    """Gives the labels of the one port of an adapter."""
    return {"node": node, "device": f"mlx5_{number}", "port": "1"}


def busy(values: str = "0.9x119", node: str = "n1") -> dict[str, str]:
    """Gives the utilisation of both GPUs of a node."""
    return {series(BUSY, gpu(index, node)): values for index in range(2)}


def ports(states: Iterable[str], lost: Iterable[str], node: str = "n1") -> dict[str, str]:
    """Gives the states of a node's ports and how often each was lost."""
    found = {series(STATE, port(number, node)): values for number, values in enumerate(states)}
    return found | {series(LOST, port(number, node)): values for number, values in enumerate(lost)}
