"""Kernel panic or surprise reboot."""

from warehouse.causes.examples import gpu, on_both, series
from warehouse.model.cause import Case, Cause, Detector, Threshold, Told, Witness
from warehouse.model.state import State

_BOOT = 'node_boot_time_seconds{node="n1"}'
_OURS, _NODE = 'up{job="gpu-minutes",node="n1"}', 'up{job="node",node="n1"}'
_IO = series("gpuminutes_node_pressure_stall_seconds_total", node="n1", resource="io", kind="full")
_NFS = series("gpuminutes_node_blocked_task_oldest_seconds", {"class": "nfs", "node": "n1"})

_JUST_BOOTED = "on (node) time() - node_boot_time_seconds < $recent_s"


def _recent(default: float, why: str) -> Threshold:
    return Threshold("recent_s", default, "s since the boot", f"{why}; our judgement")


_REBOOTED = Detector(
    key="node_rebooted",
    version=1,
    expr="node_boot_time_seconds > time() - $recent_s",
    scope="node",
    state=State.DOWN,
    min_duration_ms=0,
    # The series says when the kernel started and not since when the node was gone: the boot is an event.
    dated_by_value=True,
    momentary=True,
    # So that the look reaches back to a boot which the exporter was slow to tell of.
    stitch_ms=900_000,
    thresholds=(_recent(900, "a node whose exporter starts later than that was down, which others tell"),),
    cases=(
        Case(
            "a node is gone for five minutes and comes back with a new kernel start",
            {
                _OURS: "1x39 0x19 1x59",
                _NODE: "1x39 0x19 1x59",
                _BOOT: "-90000x39 stale _x18 845x59",
            },
            told=(Told("n1", 845, 845),),
            also=("node_unreachable",),
        ),
        Case(
            "gone for five minutes, and the same kernel all the time: the network",
            {
                _OURS: "1x39 0x19 1x59",
                _NODE: "1x39 0x19 1x59",
                _BOOT: "-90000x39 stale _x18 -90000x59",
            },
            also=("node_unreachable",),
        ),
    ),
    why="The kernel of the node started anew.",
)

_EXPORTER_WAIT = Detector(
    key="reboot_exporter_wait",
    version=1,
    expr=f'up{{job="gpu-minutes"}} == 0 and on (node) up{{job="node"}} == 1 and {_JUST_BOOTED}',
    scope="node",
    state=State.RECOVERING,
    min_duration_ms=60_000,
    witnesses=(Witness("up", 'job="gpu-minutes"', ("node",)), Witness("up", 'job="node"', ("node",), value="1")),
    thresholds=(_recent(1800, "large GPU servers boot in 5 to 20 min; later the exporter itself is broken"),),
    cases=(
        Case(
            "the machine is back five minutes before its GPUs can be asked",
            {
                _OURS: "1x39 0x39 1x39",
                _NODE: "1x39 0x19 1x59",
                _BOOT: "-90000x39 stale _x18 845x59",
            },
            told=(Told("n1", 900, 1200),),
            also=("exporter_silent", "node_rebooted", "node_unreachable"),
        ),
        Case(
            "an exporter that dies on a machine which booted yesterday",
            {_OURS: "1x39 0x39 1x39", _NODE: "1x119", _BOOT: "-90000x119"},
            also=("exporter_silent",),
        ),
    ),
    why="The node has booted, and its GPU exporter does not answer yet.",
)


def _storage(rate: str = "rate") -> str:
    """Gives PromQL for nodes that booted not long ago, wait for their file systems and do no work."""
    return (
        f'({rate}(gpuminutes_node_pressure_stall_seconds_total{{resource="io",kind="full"}}[$window]) '
        "> $min_stalled_ratio "
        f"or on (node) {rate}(node_pressure_io_stalled_seconds_total[$window]) > $min_stalled_ratio "
        'or on (node) gpuminutes_node_blocked_task_oldest_seconds{class="nfs"} > $min_blocked_s) '
        f"and {_JUST_BOOTED} "
        "unless on (node) max by (node) (gpuminutes_gpu_allocated) == 1 "
        "unless on (node) max by (node) (gpuminutes_gpu_utilization_ratio) > 0"
    )


_STORAGE_WAIT = Detector(
    key="reboot_storage_wait",
    version=1,
    expr=_storage(),
    onset_expr=_storage("irate"),
    # A day on top holds the whole span of any look.
    coarse="max_over_time(node_boot_time_seconds[$span]) > time() - $recent_s - 86400",
    window_ms=125_000,
    stitch_ms=120_000,
    scope="node",
    state=State.RECOVERING,
    min_duration_ms=120_000,
    basis="inferred",
    thresholds=(
        _recent(14_400, "checking and replaying a large file system takes up to hours"),
        Threshold(
            "min_stalled_ratio",
            0.5,
            "of the time",
            "in which every task that could run waits for I/O (kernel, Documentation/accounting/psi.rst, full); "
            "our judgement",
        ),
        Threshold(
            "min_blocked_s",
            60,
            "s",
            "an NFS client that waits longer has lost its server: the first retransmission comes after 60 s by default "
            "(nfs(5), timeo over TCP)",
        ),
    ),
    cases=(
        Case(
            "a journal is replayed for ten minutes after the boot",
            {_BOOT: "-120x119", _IO: "3x39 3+14x40 563x39"},
            told=(Told("n1", 615, 1200),),
            also=("node_rebooted",),
        ),
        Case(
            "tasks hang in NFS for ten minutes after the boot",
            {_BOOT: "-1200x119", _NFS: "0x39 75+15x39 0x39"},
            told=(Told("n1", 600, 1200),),
        ),
        Case(
            "the same hang on a node that has been up for a day is no recovery",
            {_BOOT: "-90000x119", _NFS: "0x39 75+15x39 0x39"},
        ),
        Case(
            "a job that reads its weights soon after the boot",
            {
                _BOOT: "-1200x119",
                _IO: "3x39 3+14x40 563x39",
                **on_both("gpuminutes_gpu_allocated", "1x119"),
                series("gpuminutes_gpu_utilization_ratio", gpu(0)): "0x119",
            },
            also=("idle_allocated",),
        ),
    ),
    why="The node has booted, no work is on it, and its file systems are not ready yet.",
)

CAUSE = Cause(
    title="Kernel panic or surprise reboot",
    rank=21,
    state=State.DOWN,
    owner="hardware",
    signature=(
        "node_boot_time_seconds says a new start of the kernel while no maintenance was declared; until exporter and "
        "file systems are ready the node is recovering. How long it was gone before is seen as an unreachable node."
    ),
    duration="5 to 20 min",
    blast="node",
    source="InfiniteHBD trace (1 fault), Meta RSC",
    first_step="Read the crash dump or the last BMC console lines before the node takes work again.",
    payer="provider",
    runbook=(
        "Read who did it: `last -x reboot shutdown`, and the end of the last boot's log with `journalctl -b -1 -e`.",
        "Look for a crash dump in /var/crash, and at the BMC with `ipmitool sel elist` for power, heat or a watchdog.",
        "Keep the node drained while an Xid, a machine check or a memory error stands in that log, and go on there.",
        "Count the boots of the week: changes(node_boot_time_seconds[7d]); a second one without a reason is hardware.",
        "Run the acceptance test, see that all GPUs are visible, and give the node back.",
    ),
    other_sources=("kernel log and crash dump", "BMC event log", "Slurm accounting", "a person: import evidence"),
    detectors=(_REBOOTED, _EXPORTER_WAIT, _STORAGE_WAIT),
)
