"""Data hall lost power."""

from warehouse.model.cause import Case, Cause, Detector, FanIn, Told
from warehouse.model.state import State

_JOBS = ("gpu-minutes", "node")


def _dark(*onsets: int) -> dict[str, str]:
    """Gives five nodes of one rack, of which the first ones are silent for ten minutes after so many scrapes."""
    found: dict[str, str] = {}
    for number in range(5):
        up = f"1x{onsets[number] - 1} 0x39 1x{79 - onsets[number]}" if number < len(onsets) else "1x119"
        found |= {f'up{{job="{job}",node="n{number + 1}"}}': up for job in _JOBS}
    return found


def _dark_told(*onsets: int) -> tuple[Told, ...]:
    return tuple(Told(f"n{number + 1}", 15 * at, 15 * at + 600) for number, at in enumerate(onsets))


def _recovering(*boots_s: int) -> dict[str, str]:
    """Gives five nodes of one rack, of which the first ones booted and wait for their file systems for ten minutes."""
    found = {}
    for number in range(5):
        node = f"n{number + 1}"
        if number < len(boots_s):
            found[f'node_boot_time_seconds{{node="{node}"}}'] = f"{boots_s[number]}x99"
            found[f'gpuminutes_node_blocked_task_oldest_seconds{{class="nfs",node="{node}"}}'] = "0x39 75+15x39 0x19"
        else:
            found[f'up{{job="node",node="{node}"}}'] = "1x99"
    return found


CAUSE = Cause(
    title="Data hall lost power",
    rank=10,
    state=State.DOWN,
    owner="facility",
    signature=(
        "At least 80 % of a domain's nodes, and at least three, become unreachable within 60 s; afterwards, on half "
        "of them, file systems that are not back yet hold up nodes that have just booted."
    ),
    duration="10 min to 8 h, plus the recovery of storage",
    blast="hall or row",
    source="field experience, no figure; InfiniteHBD trace for single supplies (mean 439 h, median 351 h)",
    first_step=(
        "Call the facility desk, confirm which feeds are dead, and hold the job queue until storage has recovered."
    ),
    payer="provider",
    runbook=(
        "Confirm with the facility desk which feeds, breakers or UPS are dead, and when they come back.",
        "Rule out the network: ping a BMC of the domain and a machine on the other side of its switch.",
        "Hold the queue, `scontrol update partitionname=P state=DOWN` or cordon the nodes, so that no job starts.",
        "Bring back storage and the network before the compute nodes, and watch its journal replay or fsck to the end.",
        "Power the nodes on in groups, and compare gpuminutes_gpus_visible with gpuminutes_gpus_expected on each.",
        "Run the acceptance test on every node of the domain before the queue is opened.",
    ),
    other_sources=("PDU and BMC readings", "building management system", "changes.csv", "a person: import evidence"),
    detectors=(
        Detector(
            key="hall_power_loss",
            version=1,
            expr="",
            scope="node",
            state=State.DOWN,
            min_duration_ms=0,
            severity="page",
            fan_in=FanIn(
                of="node_unreachable",
                share_ppm=800_000,
                within_ms=60_000,
                at_least=3,
                why=(
                    "Four fifths of a domain's nodes, at least three, fall silent within 60 s: machines do not fail "
                    "together, what feeds them does; our judgement."
                ),
            ),
            cases=(
                Case("four of five nodes within 45 s", _dark(40, 41, 43, 43), told=_dark_told(40, 41, 43, 43)),
                Case("three of five are three dead nodes", _dark(40, 41, 43)),
                Case("all five, one a minute and a half after the other", _dark(10, 16, 22, 28, 34)),
            ),
            why="Most nodes of one domain lost power at once.",
        ),
        Detector(
            key="hall_recovery",
            version=1,
            expr="",
            scope="node",
            state=State.RECOVERING,
            min_duration_ms=0,
            fan_in=FanIn(
                of="reboot_storage_wait",
                share_ppm=500_000,
                within_ms=600_000,
                at_least=3,
                why=(
                    "Half of a domain's nodes, at least three, have booted and begin to wait for their file systems "
                    "within 10 min of each other: the domain comes back from one outage; our judgement."
                ),
            ),
            cases=(
                Case(
                    "three of five nodes are back and wait for storage",
                    _recovering(-2000, -2100, -2300),
                    told=tuple(Told(f"n{number}", 600, 1200) for number in (1, 2, 3)),
                ),
                Case("two nodes have booted and wait: two nodes", _recovering(-2000, -2500)),
            ),
            why="The domain's power is back, and its nodes wait for storage.",
        ),
    ),
)
