"""Host ran out of memory."""

from warehouse.causes.examples import series
from warehouse.model.cause import Case, Cause, Detector, Told
from warehouse.model.state import State

_KILLS = series("node_vmstat_oom_kill", node="n1")

CAUSE = Cause(
    title="Host ran out of memory",
    rank=24,
    state=State.LOST_WORK,
    owner="hardware",
    signature=(
        "node_vmstat_oom_kill rises: the kernel killed a process, of the machine or of a container. An event: the work "
        "that is lost with it begins at the last checkpoint, which the job's own marks say."
    ),
    duration="minutes",
    blast="job",
    source="Acme (data loader killed) (Acme figure recalled, not checked at the source), ByteRobust, Philly",
    first_step="Find the killed process in the kernel log; give the job more memory or fewer loader workers.",
    payer="tenant",
    runbook=(
        "Find whom the kernel killed: `journalctl -k | grep -iE 'oom-kill|out of memory'` names process and cgroup.",
        "Tell a limit from a full machine: `constraint=CONSTRAINT_MEMCG` in that line is the job's own limit.",
        "On Kubernetes confirm it with `kubectl describe pod POD`: OOMKilled, exit code 137.",
        "Give the job more memory, or have it run fewer data loader workers, and start it from its last checkpoint.",
        "Where the machine itself was full, look for what leaked: node_memory_MemAvailable_bytes over the day.",
    ),
    other_sources=("kernel log", "Kubernetes events", "Slurm accounting (OUT_OF_MEMORY)", "job progress"),
    detectors=(
        Detector(
            key="host_oom_kill",
            version=1,
            expr="increase(node_vmstat_oom_kill[$window]) > 0",
            window_ms=125_000,
            window_of="max",
            scope="node",
            state=State.LOST_WORK,
            min_duration_ms=0,
            momentary=True,
            # A burst of kills is one event.
            stitch_ms=120_000,
            cases=(
                Case("one kill", {_KILLS: "4x39 5x59"}, told=(Told("n1", 600, 600),)),
                Case("three kills in a minute are one event", {_KILLS: "4x39 5 6 7x57"}, told=(Told("n1", 600, 600),)),
                Case("kills of long ago", {_KILLS: "17x99"}),
                Case("a reboot sets the counter back", {_KILLS: "17x39 0x59"}),
            ),
            why="The kernel killed a process of the node for want of memory.",
        ),
    ),
)
