"""The fleet of the demo: two halls of four racks of four nodes, and what a GPU-hour of it costs."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from warehouse.model.time import MS_PER_DAY, format_instant

SITE = "demo-site"
MODEL = "H100-SXM (simulated)"
GPUS_PER_NODE = 8

RACKS_BY_HALL: dict[str, tuple[str, ...]] = {
    "hall-a": ("a1", "a2", "a3", "a4"),
    "hall-b": ("b1", "b2", "b3", "b4"),
}
NODES_PER_RACK = 4

FLEET_COLUMNS = ("site", "hall", "rack", "node", "gpus", "model", "commissioned", "power_domain")
RATE_COLUMNS = ("card", "model", "currency", "per_gpu_hour", "effective_from", "basis")

# Round figures of the order of what clouds ask for such a GPU; illustrative, no one's quote.
_USD_PER_GPU_HOUR = {"list": "2.99", "contract": "2.10"}
_BASIS = "illustrative, for the demo only"


def nodes_of(*racks: str) -> tuple[str, ...]:
    """Gives the nodes of racks, in topology order."""
    return tuple(f"{rack}-n{number}" for rack in racks for number in range(1, NODES_PER_RACK + 1))


ALL_NODES = nodes_of(*(rack for racks in RACKS_BY_HALL.values() for rack in racks))


def scope_of(nodes: Collection[str]) -> str:
    """Gives the shortest scope of some nodes: whole racks by name, the rest one by one."""
    words: list[str] = []
    for racks in RACKS_BY_HALL.values():
        for rack in racks:
            inside = [node for node in nodes_of(rack) if node in nodes]
            words += [f"rack:{rack}"] if len(inside) == NODES_PER_RACK else inside
    return "+".join(words)


def fleet_rows(commissioned_ms: int) -> list[Sequence[str]]:
    """Gives the lines of fleet.csv; every node has stood there since one instant."""
    since = format_instant(commissioned_ms)
    return [
        (SITE, hall, rack, node, str(GPUS_PER_NODE), MODEL, since, f"{hall}-feed")
        for hall, racks in RACKS_BY_HALL.items()
        for rack in racks
        for node in nodes_of(rack)
    ]


def rate_rows(commissioned_ms: int) -> list[Sequence[str]]:
    """Gives the lines of rates.csv, good from the midnight before."""
    since = format_instant(commissioned_ms // MS_PER_DAY * MS_PER_DAY)
    return [(card, MODEL, "USD", price, since, _BASIS) for card, price in _USD_PER_GPU_HOUR.items()]
