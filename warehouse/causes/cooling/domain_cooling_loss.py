"""Cooling lost in a rack or row."""

from warehouse.causes.examples import gpu, series
from warehouse.model.cause import Case, Cause, Detector, FanIn, Told
from warehouse.model.state import State

_SHARE_PPM, _WITHIN_MS, _AT_LEAST = 500_000, 300_000, 3
_WHY = (
    "Half of a domain's nodes, at least three, have GPUs that are held back by heat within 5 min: what they share is "
    "not cooled; our judgement."
)


def _hot(reason: str, *onsets: int) -> dict[str, str]:
    """Gives five nodes of one rack, of which the first ones turn hot for ten minutes after so many scrapes."""
    found = {}
    for number in range(5):
        node = f"n{number + 1}"
        held = f"0x{onsets[number] - 1} 1x39 0x19" if number < len(onsets) else "0x99"
        found[series("gpuminutes_gpu_clock_event_active", gpu(0, node), reason=reason)] = held
        found[series("gpuminutes_gpu_utilization_ratio", gpu(0, node))] = "0.98x99"
    return found


def _told(*onsets: int) -> tuple[Told, ...]:
    return tuple(Told(f"n{number + 1}/0", 15 * at, 15 * at + 600) for number, at in enumerate(onsets))


def _of_heat(key: str, of: str, reason: str) -> Detector:
    return Detector(
        key=key,
        version=1,
        expr="",
        scope="gpu",
        state=State.DEGRADED,
        min_duration_ms=0,
        severity="page",
        fan_in=FanIn(of, _SHARE_PPM, _WITHIN_MS, _AT_LEAST, _WHY),
        cases=(
            Case("three of five nodes turn hot within four minutes", _hot(reason, 40, 44, 56), told=_told(40, 44, 56)),
            Case("two hot nodes are two hot nodes", _hot(reason, 40, 44)),
            Case("one after the other, far apart", _hot(reason, 10, 32, 54)),
        ),
        why="Heat holds back the GPUs of many nodes of one domain at once.",
    )


CAUSE = Cause(
    title="Cooling lost in a rack or row",
    rank=10,
    state=State.DEGRADED,
    owner="facility",
    signature=(
        "On half of a domain's nodes, and at least three, the thermal clock events of gpu_thermal begin within 5 min; "
        "machines that then switch off are seen as unreachable nodes."
    ),
    duration="5 min to hours",
    blast="rack or row",
    source=(
        "Acme paper (a month 5 C warmer had more failures) (Acme figure recalled, not checked at the "
        "source); field experience, no figure"
    ),
    first_step=(
        "Call the facility desk about the cooling unit and shed load in the row before the machines cut "
        "out by themselves."
    ),
    payer="provider",
    runbook=(
        "Name the domain: the evidence says how many nodes of which rack or row turned hot together.",
        "Read the unit's supply temperature, flow and alarms with the facility desk, and the inlet of three nodes with "
        "`ipmitool sdr type Temperature`.",
        "Stop new jobs on the domain's nodes, and checkpoint and stop running ones, the hottest first.",
        "Cap the rest with `nvidia-smi -pl WATTS` until gpuminutes_gpu_temperature_celsius falls.",
        "Give the nodes back only when supply temperature and flow have been steady for half an hour.",
    ),
    other_sources=("building management system", "BMC temperatures", "a person: import evidence"),
    detectors=(
        _of_heat("domain_hw_thermal", "gpu_hw_thermal", "hw_thermal"),
        _of_heat("domain_sw_thermal", "gpu_sw_thermal", "sw_thermal"),
    ),
)
