"""Series of worked examples, named as the exporters name them: for the cases of detectors, data alone."""

from __future__ import annotations

from collections.abc import Mapping

# Addresses of the GPUs of every example's nodes, in order; two each.
ADDRESSES = ("0000:1a:00", "0000:2b:00")


def gpu(index: int, node: str = "n1") -> dict[str, str]:
    """Gives the labels of a GPU as our exporter and the scrape of it write them."""
    return {"node": node, "slot": ADDRESSES[index], "uuid": f"GPU-{node}-{index}"}


def dcgm(index: int, node: str = "n1") -> dict[str, str]:
    """Gives the labels of a GPU as dcgm-exporter writes them."""
    return {
        "Hostname": node,
        "UUID": f"GPU-{node}-{index}",
        "gpu": str(index),
        "pci_bus_id": f"0000{ADDRESSES[index].upper()}.0",
    }


def series(name: str, labels: Mapping[str, str] | None = None, /, **more: str) -> str:
    """Gives a series in promtool's notation."""
    inside = ",".join(f'{label}="{value}"' for label, value in sorted({**(labels or {}), **more}.items()))
    return f"{name}{{{inside}}}" if inside else name


def on_both(name: str, values: str, /, node: str = "n1", **more: str) -> dict[str, str]:
    """Gives the same values for both GPUs of a node."""
    return {series(name, gpu(index, node), **more): values for index in range(len(ADDRESSES))}
