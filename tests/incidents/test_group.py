"""Which evidence is one incident."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from warehouse.causes import load_causes
from warehouse.incidents.group import group
from warehouse.model.cause import Detector, FanIn
from warehouse.model.evidence import Evidence
from warehouse.model.incident import Incident
from warehouse.model.state import State

CAUSES = load_causes()
MINUTE = 60_000


def said(
    key: str, start: int, end: int | None, slots: tuple[int, int] = (0, 8), state: State = State.DOWN,
    cause: str | None = "host/dram", source: str = "ops",
) -> Evidence:  # fmt: skip
    end_ms = None if end is None else end * MINUTE
    return Evidence(source, key, start * MINUTE, end_ms, "n", (slots,), state, cause)


def shape(incidents: list[Incident]) -> list[tuple[str, list[str]]]:
    return [(i.cause, [m.key for m in i.members]) for i in incidents]


@pytest.mark.parametrize(
    ("why", "evidence", "expected"),
    [
        ("apart in time", [said("1", 0, 5), said("2", 6, 9)], [("host/dram", ["1"]), ("host/dram", ["2"])]),
        ("touching", [said("1", 0, 5), said("2", 5, 9)], [("host/dram", ["1", "2"])]),
        ("other slots", [said("1", 0, 5), said("2", 0, 5, (8, 16))], [("host/dram", ["1"]), ("host/dram", ["2"])]),
        ("other cause", [said("1", 0, 5), said("2", 0, 5, cause="power/psu")],
         [("host/dram", ["1"]), ("power/psu", ["2"])]),
        ("outage, then recovery, then restart",
         [said("1", 0, 5), said("2", 5, 9, state=State.RECOVERING), said("3", 9, 12, state=State.STARTUP)],
         [("host/dram", ["1", "2", "3"])]),
        ("a bridge joins what stood apart", [said("1", 0, 5), said("2", 9, 12), said("3", 4, 10)],
         [("host/dram", ["1", "3", "2"])]),
        ("a detector's flaps within ten minutes",
         [said("1", 0, 5, source="detector"), said("2", 14, 20, source="detector"),
          said("3", 31, 32, source="detector")],
         [("host/dram", ["1", "2"]), ("host/dram", ["3"])]),
        ("a symptom is never charged", [said("1", 0, 5, cause="symptom/collective_timeout")],
         [("unknown/unattributed", ["1"])]),
        ("no cause named", [said("1", 0, 5, cause=None)], [("unknown/unattributed", ["1"])]),
        ("a zero-length fault is an incident", [said("1", 3, 3)], [("host/dram", ["1"])]),
        ("still open", [said("1", 0, None), said("2", 900, 901)], [("host/dram", ["1", "2"])]),
        ("a cold start is no incident", [said("1", 0, 5, state=State.STARTUP, cause="operations/cold_start")], []),
        ("idle and maintenance are none",
         [said("1", 0, 5, state=State.IDLE, cause=None), said("2", 0, 5, state=State.MAINTENANCE, cause=None)], []),
    ],
)  # fmt: skip
def test_groups(why: str, evidence: list[Evidence], expected: list[tuple[str, list[str]]]) -> None:
    assert shape(group(evidence, CAUSES)) == expected, why


def test_an_overrun_belongs_to_the_window() -> None:
    window = said("w", 0, 10, state=State.MAINTENANCE, cause=None)
    assert shape(group([said("1", 5, 20, cause=None)], CAUSES, [window])) == [
        ("operations/unplanned_maintenance", ["1"])
    ]
    assert shape(group([said("1", 5, None, cause=None)], CAUSES, [window])) == [
        ("operations/unplanned_maintenance", ["1"])
    ]
    # What ended before the window did, or hit GPUs that were in no window, is no overrun.
    assert shape(group([said("1", 5, 8, cause=None)], CAUSES, [window])) == [("unknown/unattributed", ["1"])]
    assert shape(group([said("1", 5, 20, (0, 16), cause=None)], CAUSES, [window])) == [("unknown/unattributed", ["1"])]
    assert shape(group([said("1", -5, 20, cause=None)], CAUSES, [window])) == [("unknown/unattributed", ["1"])]


@pytest.mark.parametrize("seed", range(20))
def test_order_does_not_matter(seed: int) -> None:
    rng = random.Random(seed)
    evidence = [
        said(str(n), start := rng.randrange(100), start + rng.randrange(30), (low := rng.randrange(20), low + 4),
             cause=rng.choice(["host/dram", "power/psu", None]), source=rng.choice(["ops", "detector"]))
        for n in range(30)
    ]  # fmt: skip
    shuffled = evidence + rng.sample(evidence, 10)
    rng.shuffle(shuffled)
    assert shape(group(shuffled, CAUSES)) == shape(group(evidence, CAUSES))


def test_what_takes_a_domain_at_one_time_is_one_incident_without_a_common_slot() -> None:
    """Also where the last member is told of first; what began later, or what a file says, stands by itself."""
    rule = Detector("hall", 1, "", "node", State.DOWN, 0, "why", fan_in=FanIn("node", 800_000, MINUTE, 3, "why"))
    causes = {**CAUSES, "host/dram": replace(CAUSES["host/dram"], detectors=(rule,))}
    nodes = [said(str(n), n % 2, 30, (8 * n, 8 * n + 8), source="detector") for n in range(4)]
    late = said("9", 5, 30, (80, 88), source="detector")
    filed = said("8", 0, 30, (72, 80))
    for evidence in ([*nodes, late, filed], [filed, late, *reversed(nodes)]):
        assert shape(group(evidence, causes)) == [
            ("host/dram", ["0", "2", "1", "3"]),
            ("host/dram", ["8"]),
            ("host/dram", ["9"]),
        ]
