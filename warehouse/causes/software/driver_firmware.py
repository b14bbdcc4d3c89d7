"""Driver or firmware regression."""

from warehouse.causes.examples import dcgm, gpu, series
from warehouse.model.cause import Case, Cause, Detector, Threshold, Told
from warehouse.model.state import State

# Not those that NVIDIA's catalogue lays at the application's door: 13, 31, 43 and 69, and 45, which follows any other.
_OF_THE_SYSTEM = 'gpuminutes_gpu_xid_last_timestamp_seconds{xid!~"13|31|43|45|69"}'
# One row a node is enough: a node has one driver.
_NODES = 'max by (node, model, driver) (gpuminutes_gpu_info{index="0"})'
_HIT = f"{_NODES} and on (node) max by (node) ({_OF_THE_SYSTEM}) > time() - $recent_s"


def _others(of: str) -> str:
    """Gives, per model and driver, the count of nodes of the same model under other drivers."""
    return f"(count by (model) ({of}) - on (model) group_right () count by (model, driver) ({of}))"


# One more hit than was seen is granted to the others, so that a few quiet nodes prove nothing.
_FAR_ABOVE = (
    f"count by (model, driver) ({_HIT}) >= $min_nodes and on (model, driver) "
    f"count by (model, driver) ({_HIT}) / count by (model, driver) ({_NODES}) "
    f"> $times * ({_others(_HIT)} + 1) / {_others(_NODES)}"
)


def _fleet(drivers: tuple[str, ...], hit: dict[int, int]) -> dict[str, str]:
    """Gives nodes n0, n1... by their drivers, and by number when an Xid 61 came, in seconds."""
    found = {}
    for number, driver in enumerate(drivers):
        at = gpu(0, f"n{number}")
        found[series("gpuminutes_gpu_info", at, driver=driver, model="NVIDIA H100", index="0")] = "1x119"
        if number in hit:
            missing = hit[number] // 15
            found[series("gpuminutes_gpu_xid_last_timestamp_seconds", at, xid="61")] = (
                f"_x{missing} {hit[number]}x{119 - missing}"
            )
    return found


_NEW, _OLD = "590.48.01", "570.124.06"

_COHORT = Detector(
    key="driver_cohort",
    version=1,
    expr=f"max by (node) (({_HIT}) and on (model, driver) ({_FAR_ABOVE}))",
    # Of no node by name, since shares are of the whole fleet: then everyone is asked. A look is shorter than a day.
    coarse=f"count(count by (node) (max_over_time({_OF_THE_SYSTEM}[$span]) > time() - 2 * $recent_s)) >= $min_nodes",
    scope="node",
    state=State.DOWN,
    # It says that these Xids belong together. What each of them cost, its own cause's detectors say.
    momentary=True,
    basis="inferred",
    min_duration_ms=30_000,
    max_steps=240,
    thresholds=(
        Threshold("recent_s", 86_400, "s", "a day: rare faults need time to show a pattern; our judgement"),
        Threshold("min_nodes", 3, "nodes of one driver", "fewer are chance; our judgement"),
        Threshold("times", 4, "times the share of the others", "one that is twice as high is weather; our judgement"),
    ),
    cases=(
        Case(
            "three of four nodes with the new driver, none of six with the old",
            _fleet((_NEW,) * 4 + (_OLD,) * 6, {0: 600, 1: 900, 2: 1200}),
            told=(Told("n0", 1200, 1200), Told("n1", 1200, 1200), Told("n2", 1200, 1200)),
        ),
        Case(
            "as many under the old driver",
            _fleet((_NEW,) * 4 + (_OLD,) * 6, {0: 600, 1: 900, 2: 1200, 4: 600, 5: 900, 6: 1200}),
        ),
        Case("one driver everywhere: nothing to compare", _fleet((_NEW,) * 4, {0: 600, 1: 900, 2: 1200})),
        Case(
            "two nodes under another driver prove little", _fleet((_NEW,) * 4 + (_OLD,) * 2, {0: 600, 1: 900, 2: 1200})
        ),
        Case(
            "long ago",
            _fleet((_NEW,) * 4 + (_OLD,) * 6, {})
            | {
                series("gpuminutes_gpu_xid_last_timestamp_seconds", gpu(0, f"n{number}"), xid="61"): "-90000x119"
                for number in (0, 1, 2)
            },
        ),
    ),
    why="Nodes of this driver version have far more Xids than others of the same model, and this is one of them.",
)

_GPU = "node, slot, uuid"
_XIDS = f'max by ({_GPU}) (gpuminutes_gpu_xid_last_timestamp_seconds{{xid=~"38|66|67|78"}})'

_OWN_XID = Detector(
    key="driver_xid",
    version=1,
    expr=f"{_XIDS} > time() - $recent_s",
    scope="gpu",
    state=State.DOWN,
    # NVIDIA says to ignore the first three by themselves: counted, and no time of the GPU.
    momentary=True,
    dated_by_value=True,
    min_duration_ms=30_000,
    severity="info",
    thresholds=(Threshold("recent_s", 125, "s", "the row stays: an event is of the last scrapes; our judgement"),),
    cases=(
        Case(
            "Xid 38 on one GPU",
            {series("gpuminutes_gpu_xid_last_timestamp_seconds", gpu(1), xid="38"): "_x40 595x79"},
            told=(Told("n1/1", 595, 595),),
        ),
        Case(
            "Xid 66 of yesterday",
            {series("gpuminutes_gpu_xid_last_timestamp_seconds", gpu(1), xid="66"): "-86400x119"},
        ),
    ),
    why="The driver reported an error of its own (Xid 38, 66, 67 or 78).",
)


def _held(name: str) -> str:
    """Gives the series of dcgm-exporter where it shows one of the four codes."""
    return f"{name} == 38 or {name} >= 66 <= 67 or {name} == 78"


_BY_DCGM = ("DCGM_FI_DEV_XID_ERRORS", "DCGM_FI_DEV_XID_ERROR")
_BEFORE = tuple(f"{name} offset 125s" for name in _BY_DCGM)
_OWN_XID_DCGM = Detector(
    key="driver_xid_dcgm",
    version=1,
    # The series holds the last code for good: an event is its turn to one of these, and a repeated one is not seen.
    expr=(
        f"max by ({_GPU}) ({' or '.join(map(_held, _BY_DCGM))}) "
        f"unless on ({_GPU}) max by ({_GPU}) ({' or '.join(map(_held, _BEFORE))}) "
        f"and on ({_GPU}) group by ({_GPU}) ({' or '.join(_BEFORE)})"
    ),
    coarse=f"count by (node) ({' or '.join(f'max_over_time({name}[$span]) >= 38' for name in _BY_DCGM)})",
    scope="gpu",
    state=State.DOWN,
    momentary=True,
    min_duration_ms=30_000,
    severity="info",
    cases=(
        Case(
            "Xid 67 on one GPU, as dcgm-exporter holds it",
            {series("DCGM_FI_DEV_XID_ERRORS", dcgm(0)): "0x39 67x79"},
            told=(Told("n1/0", 600, 600),),
        ),
        Case("one that has stood since long ago", {series("DCGM_FI_DEV_XID_ERRORS", dcgm(0)): "66x119"}),
        Case("Xid 45 follows other faults", {series("DCGM_FI_DEV_XID_ERRORS", dcgm(0)): "0x39 45x79"}),
    ),
    why="dcgm-exporter shows an error of the driver itself (Xid 38, 66, 67 or 78).",
)

CAUSE = Cause(
    title="Driver or firmware regression",
    rank=61,
    state=State.DOWN,
    owner="platform",
    signature=(
        "The rate of Xids goes with one driver version, or Xid 38, 66, 67 or 78. Both are events that are counted; "
        "the time is told by the causes of the single Xids."
    ),
    duration="days",
    blast="nodes of one version",
    source="Meta (system processor regression); NVIDIA Xid catalogue",
    first_step="Compare Xid rates by driver version and pin the fleet to the last good one.",
    runbook=(
        'Count nodes by version: count by (model, driver) (gpuminutes_gpu_info{index="0"}).',
        "Count those with an Xid: gpuminutes_gpu_xid_last_timestamp_seconds > time() - 86400, joined on node.",
        "Rule out what goes with the version: hall, delivery of boards, firmware (label vbios), workload.",
        "Stop the rollout of that version, and pin the nodes that are not on it yet.",
        "Drain one bad node, put the last good version on it, and watch it for as long as the fault took to show.",
        "Report it to NVIDIA with nvidia-bug-report.sh from a node that failed and was not rebooted.",
    ),
    other_sources=("kernel log", "changes.csv: the rollout", "a person: import evidence"),
    detectors=(_COHORT, _OWN_XID, _OWN_XID_DCGM),
)
