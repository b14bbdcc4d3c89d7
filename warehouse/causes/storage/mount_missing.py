"""Mount missing on some nodes."""

from warehouse.causes.examples import on_both, series
from warehouse.model.cause import Case, Cause, Detector, Threshold, Told
from warehouse.model.state import State

_WATCHED = 'gpuminutes_collect_success{collector="nfs"} == 1'
_SERVED = 'fstype=~"nfs|nfs4|lustre|gpfs|beegfs|ceph|wekafs"'
_SCRAPED = 'node_scrape_collector_success{collector="filesystem"} == 1'

_NODES = ("n1", "n2", "n3", "n4", "n5")

_THRESHOLDS = (
    Threshold(
        "min_share",
        0.7,
        "of the nodes",
        "a mount that this many hold belongs on every node; homes that are mounted on demand stay below; our judgement",
    ),
    Threshold(
        "max_utilisation_ratio",
        0.05,
        "ratio",
        "a node that computes is not down, whatever it lacks; our judgement",
    ),
)


def _gone(name: str, asked: str, watched: str, where: str) -> str:
    """Gives nodes that held a common mount and do not now, while somebody looks and no GPU of theirs computes.

    Three points in the past instead of a range: a lookup at an instant costs one sample a series. A node that has been
    without it for a day is not told any more.
    """
    held = f"present_over_time({name}{{{asked}}}[$window])"
    earlier = " or ".join(f"{name}{{{asked}}} offset {ago}" for ago in ("30m", "6h", "1d"))
    common = f"count by ({where}) ({held}) > $min_share * scalar(count({watched}))"
    return (
        f"({earlier}) unless on (node, {where}) {held}"
        f" and on ({where}) ({common}) and on (node) ({watched})"
        " unless on (node) max by (node) (gpuminutes_gpu_utilization_ratio) > $max_utilisation_ratio"
    )


def _nfs(one: str, others: str = "0+9x259", watched: str = "1x259", busy: str = "0x259") -> dict[str, str]:
    """Gives five nodes that mount /data; what the first one says stands apart."""
    found = {}
    for node in _NODES:
        mount = {"node": node, "mount": "/data", "op": "GETATTR"}
        found[series("gpuminutes_nfs_ops_total", mount)] = one if node == "n1" else others
        found[series("gpuminutes_collect_success", node=node, collector="nfs")] = watched if node == "n1" else "1x259"
    return found | on_both("gpuminutes_gpu_utilization_ratio", busy)


def _lustre(one: str, others: str = "0x259") -> dict[str, str]:
    """Gives five nodes that mount Lustre, as node_exporter sees it."""
    found = {}
    for node in _NODES:
        mount = {"node": node, "device": "10.0.0.5@o2ib:/fs1", "mountpoint": "/fs1", "fstype": "lustre"}
        found[series("node_filesystem_device_error", mount)] = one if node == "n1" else others
        found[series("node_scrape_collector_success", node=node, collector="filesystem")] = "1x259"
    return found | on_both("gpuminutes_gpu_utilization_ratio", "0x259")


CAUSE = Cause(
    title="Mount missing on some nodes",
    rank=51,
    state=State.DOWN,
    owner="storage",
    signature=(
        "The series of a mount that most nodes hold (gpuminutes_nfs_ops_total, node_filesystem_device_error) end on a "
        "node that is alive, while its peers keep theirs and no GPU of it computes."
    ),
    duration="minutes",
    blast="node",
    source="Meta RSC (mount check)",
    first_step="Remount on the nodes named, and keep them drained until the mount check passes.",
    payer="provider",
    runbook=(
        "Drain the node so that no job starts without its files: `scontrol update nodename=NODE state=drain"
        " reason=mount` or `kubectl cordon NODE`.",
        "See what is mounted: `findmnt -t nfs,nfs4,lustre,ceph` and compare with a peer of the same rack.",
        "Read why it went: `journalctl -b -u '*.mount' -u autofs` and `dmesg -T | grep -iE 'nfs|lustre'`.",
        "Mount it: `mount -a`, or restart the client's service; where that fails, reboot the node.",
        "Run the node's mount check, then give it back: `state=resume` or `kubectl uncordon NODE`.",
    ),
    other_sources=("kernel log", "Slurm events: a drain reason of the node health check", "a person: import evidence"),
    detectors=(
        Detector(
            key="mount_missing",
            version=1,
            expr=_gone("gpuminutes_nfs_ops_total", 'op="GETATTR"', _WATCHED, "mount"),
            scope="node",
            state=State.DOWN,
            min_duration_ms=120_000,
            window_ms=125_000,
            window_of="min",
            basis="inferred",
            max_steps=240,
            thresholds=_THRESHOLDS,
            cases=(
                Case(
                    "one of five lost /data for ten minutes",
                    _nfs("0+9x199 _x40 0+9x19"),
                    told=(Told("n1", 3000, 3600),),
                ),
                Case("the collector failed and saw nothing", _nfs("0+9x199 _x40 0+9x19", watched="1x199 0x39 1x19")),
                Case("its job computes on", _nfs("0+9x199 _x40 0+9x19", busy="1x259")),
                Case("all but one gave the mount up", _nfs("0+9x259", others="0+9x199 _x60")),
            ),
            why="A mount that this node held and most nodes hold is gone, while the node is alive and at rest.",
        ),
        Detector(
            key="mount_missing_node_exporter",
            version=1,
            expr=_gone("node_filesystem_device_error", _SERVED, _SCRAPED, "mountpoint"),
            scope="node",
            state=State.DOWN,
            min_duration_ms=120_000,
            window_ms=125_000,
            window_of="min",
            basis="inferred",
            max_steps=240,
            thresholds=_THRESHOLDS,
            cases=(
                Case(
                    "one of five lost Lustre for ten minutes",
                    _lustre("0x199 _x40 0x19"),
                    told=(Told("n1", 3000, 3600),),
                ),
                Case("all have it", _lustre("0x259")),
            ),
            why="A served file system that this node held and most nodes hold is gone, while the node is at rest.",
        ),
    ),
)
