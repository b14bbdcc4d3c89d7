"""File system outage."""

from warehouse.causes.examples import series
from warehouse.causes.jobs import HELD_QUIET, dcgm_job, job
from warehouse.model.cause import Case, Cause, Detector, Threshold, Told
from warehouse.model.state import State

# Types of file systems that other machines serve; a local disk has a cause of its own.
_SERVED = 'fstype=~"nfs|nfs4|lustre|gpfs|beegfs|ceph|wekafs"'

_QUIET = Threshold(
    "max_power_ratio",
    0.45,
    "of the enforced limit",
    "a GPU that waits, at rest or in a kernel, draws a third or so of it; our judgement",
)


def _blocked(oldest: str, tasks: str, power: str) -> dict[str, str]:
    """Gives a node with a job on both GPUs and threads that wait for NFS."""
    waits = {
        series("gpuminutes_node_blocked_task_oldest_seconds", {"node": "n1", "class": "nfs"}): oldest,
        series("gpuminutes_node_blocked_tasks", {"node": "n1", "class": "nfs"}): tasks,
    }
    drawn = {"gpuminutes_gpu_power_watts": (power,), "gpuminutes_gpu_power_limit_watts{kind=enforced}": ("700x99",)}
    return waits | job(drawn)


def _error(error: str, power: str, fstype: str = "nfs4") -> dict[str, str]:
    """Gives a node of which only node_exporter and dcgm-exporter speak."""
    drawn = {"DCGM_FI_DEV_POWER_USAGE": (power,), "DCGM_FI_DEV_ENFORCED_POWER_LIMIT": ("700x99",)}
    mount = {"node": "n1", "device": "10.0.0.5:/data", "mountpoint": "/data", "fstype": fstype}
    return {series("node_filesystem_device_error", mount): error} | dcgm_job(drawn)


CAUSE = Cause(
    title="File system outage",
    rank=50,
    state=State.STARVED,
    owner="storage",
    signature=(
        "A thread sleeps in one NFS call for over a minute (gpuminutes_node_blocked_task_oldest_seconds), or "
        "node_filesystem_device_error is set for a served file system, while the GPUs held on that node do not compute."
    ),
    duration="10 min to hours, with check and journal replay",
    blast="every client",
    source="field experience, no figure; Meta RSC (file system mounts)",
    first_step="Ask storage for the state of the servers and hold restarts until mounts answer again.",
    payer="provider",
    runbook=(
        'Count the clients that wait: `count(gpuminutes_node_blocked_task_oldest_seconds{class="nfs"} > 60)`; one'
        " client points to its own network or mount, many to the server.",
        "On one client, find the server that does not answer: `dmesg -T | grep -i 'not responding'` and"
        " `cat /proc/self/mountstats`; never `ls` or `df` the mount, your shell would hang too.",
        "Test the path to that server: `ping` its address and `rpcinfo -t SERVER nfs 4`.",
        "Call storage with the server's name and the time of the first blocked client, and hold new starts.",
        "When calls end again, see that gpuminutes_node_blocked_tasks falls to 0; reboot clients where it stays.",
        "Let jobs go on that wait by themselves; restart those whose collectives timed out meanwhile.",
    ),
    other_sources=("kernel log", "Alertmanager", "a person: import evidence"),
    detectors=(
        Detector(
            key="filesystem_blocked",
            version=1,
            # The oldest sleep is one unbroken wait in one call: a server that is merely slow ends its calls.
            # A hung mount that the job does not use leaves its GPUs at work, and that is no loss.
            expr=(
                f"{HELD_QUIET} and on (node)"
                ' gpuminutes_node_blocked_task_oldest_seconds{class="nfs"} > $min_blocked_s'
            ),
            # It began when the first call did not end, which is that many seconds before the above is true.
            onset_expr=f'{HELD_QUIET} and on (node) gpuminutes_node_blocked_tasks{{class="nfs"}} > 0',
            coarse=(
                "max by (node) (max_over_time(gpuminutes_node_blocked_task_oldest_seconds{"
                'class="nfs"}[$span])) > $min_blocked_s'
            ),
            scope="gpu",
            state=State.STARVED,
            min_duration_ms=120_000,
            stitch_ms=60_000,
            basis="inferred",
            max_steps=240,
            severity="page",
            thresholds=(
                _QUIET,
                Threshold(
                    "min_blocked_s",
                    60,
                    "s",
                    "the first retransmission timeout of NFS over TCP (nfs(5), timeo=600): a call that lives longer "
                    "was not answered at all",
                ),
            ),
            cases=(
                Case(
                    "the server is gone for ten minutes",
                    _blocked("0x39 0+15x39 0x19", "0x39 9x39 0x19", "620x39 150x39 620x19"),
                    told=(Told("n1/0", 600, 1200), Told("n1/1", 600, 1200)),
                ),
                Case(
                    "an archive that the job does not use hangs",
                    _blocked("0x39 0+15x39 0x19", "0x39 1x39 0x19", "620x99"),
                ),
                Case(
                    "slow calls that all end",
                    _blocked("0x39 15x39 0x19", "0x39 9x39 0x19", "620x39 150x39 620x19"),
                ),
                Case(
                    "nobody holds the GPUs",
                    {
                        name: values
                        for name, values in _blocked("0x39 0+15x39 0x19", "0x39 1x39 0x19", "90x99").items()
                        if not name.startswith("gpuminutes_gpu_workload_info")
                    },
                ),
            ),
            why="A thread of the node waits in one NFS call without an end, and this held GPU does not compute.",
        ),
        Detector(
            key="filesystem_no_answer",
            version=1,
            expr=f"{HELD_QUIET} and on (node) node_filesystem_device_error{{{_SERVED}}} == 1",
            coarse=f"max by (node) (max_over_time(node_filesystem_device_error{{{_SERVED}}}[$span])) == 1",
            scope="gpu",
            state=State.STARVED,
            min_duration_ms=120_000,
            stitch_ms=60_000,
            basis="inferred",
            max_steps=240,
            severity="page",
            thresholds=(_QUIET,),
            cases=(
                Case(
                    "node_exporter gets no answer from a mount, GPUs wait",
                    _error("0x39 1x39 0x19", "620x39 150x39 620x19"),
                    told=(Told("n1/0", 600, 1200), Told("n1/1", 600, 1200)),
                ),
                Case("the same, and the job computes on", _error("0x39 1x39 0x19", "620x99")),
                Case(
                    "a local disk",
                    _error("0x39 1x39 0x19", "620x39 150x39 620x19", fstype="ext4"),
                    also=("local_disk_error",),
                ),
            ),
            why="node_exporter gets no answer from a served file system, and this held GPU does not compute.",
        ),
    ),
)
