"""Many nodes of one domain at one time become the domain's fault: on plain evidence and a small building."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import permutations

import pytest

from warehouse.detect.fan_in import fan_in
from warehouse.model.cause import FanIn
from warehouse.model.evidence import Evidence
from warehouse.model.slots import SlotRanges
from warehouse.model.state import State

HALL = "facility/data_hall_power_loss"
RULE = FanIn(of="node_unreachable", share_ppm=800_000, within_ms=60_000, at_least=3, why="a hall")
AT_MS = 1_000_000


@dataclass(frozen=True)
class Building:
    """Domains and their nodes: the resolver of these tests."""

    inside: Mapping[str, tuple[str, ...]]

    def node(self, name: str) -> SlotRanges | None:
        """Places nothing."""
        return None

    def gpu(self, node: str, position: int) -> SlotRanges | None:
        """Places nothing."""
        return None

    def position(self, node: str, uuid: str) -> int | None:
        """Places nothing."""
        return None

    def domains(self, node: str) -> tuple[str, ...]:
        """Gives the domains that name the node."""
        return tuple(domain for domain, nodes in self.inside.items() if node in nodes)

    def size(self, domain: str) -> int:
        """Gives the number of nodes that the domain names."""
        return len(self.inside[domain])


def nodes(first: int, last: int) -> tuple[str, ...]:
    """Gives the names of nodes from one number to another."""
    return tuple(f"n{number}" for number in range(first, last + 1))


ROW = Building({"rack:r1": nodes(1, 5), "rack:r2": nodes(6, 10), "row:a": nodes(1, 10)})


def lost(node: str, start_ms: int = AT_MS) -> Evidence:
    """Gives evidence that a node is gone."""
    return Evidence(
        "detector", f"det:node_unreachable@1:{node}:x", start_ms, None, node, ((0, 8),), State.DOWN,
        cause="host/node_unreachable",
    )  # fmt: skip


def judged(
    begun: Mapping[str, int], building: Building = ROW, rule: FanIn = RULE, since_ms: int = 0
) -> dict[str, tuple[str | None, str | None]]:
    """Gives the cause and the words of each node's evidence, by its onset."""
    items = [lost(node, start_ms) for node, start_ms in begun.items()]
    told = fan_in(items, list(begun.items()), rule, HALL, building, since_ms)
    return {item.scope: (item.cause, item.detail) for item in told}


def causes(*args: object, **more: object) -> dict[str, str | None]:
    """Gives the cause of each node's evidence."""
    return {node: cause for node, (cause, _) in judged(*args, **more).items()}  # type: ignore[arg-type]


def together(names: tuple[str, ...], apart_ms: int = 1_000) -> dict[str, int]:
    """Gives onsets that follow each other."""
    return {name: AT_MS + number * apart_ms for number, name in enumerate(names)}


def test_a_domain_that_goes_dark_is_the_domains_fault_and_keeps_every_nodes_edges() -> None:
    begun = together(nodes(1, 4))
    items = [lost(node, start_ms) for node, start_ms in begun.items()]
    told = fan_in(items, list(begun.items()), RULE, HALL, ROW, 0)
    assert told == [replace(item, cause=HALL, detail="4 of 5 nodes of rack:r1 within 60 s") for item in items]


def test_seventy_nine_percent_are_not_enough_and_eighty_are() -> None:
    hall = Building({"hall:h1": nodes(1, 100)})
    assert set(causes(together(nodes(1, 79), 100), hall).values()) == {"host/node_unreachable"}
    assert set(causes(together(nodes(1, 80), 100), hall).values()) == {HALL}


def test_two_nodes_are_two_nodes_however_small_the_domain_is() -> None:
    small = Building({"rack:r1": nodes(1, 2)})
    assert set(causes(together(nodes(1, 2)), small).values()) == {"host/node_unreachable"}


def test_a_node_without_a_domain_stays_a_node() -> None:
    begun = {**together(nodes(1, 5)), "stranger": AT_MS}
    assert causes(begun)["stranger"] == "host/node_unreachable"
    assert causes(begun)["n1"] == HALL


def test_the_widest_domain_that_has_enough_is_named() -> None:
    assert judged(together(nodes(1, 9), 100))["n1"] == (HALL, "9 of 10 nodes of row:a within 60 s")
    assert judged(together(nodes(1, 7), 100))["n1"] == (HALL, "5 of 5 nodes of rack:r1 within 60 s")
    # Two of the second rack are too few for it, and seven of ten too few for the row.
    assert judged(together(nodes(1, 7), 100))["n6"][0] == "host/node_unreachable"


def test_onsets_exactly_the_rules_time_apart_are_together_and_one_millisecond_more_is_not() -> None:
    near = {"n1": AT_MS, "n2": AT_MS, "n3": AT_MS, "n4": AT_MS + 60_000}
    assert set(causes(near).values()) == {HALL}
    far = {**near, "n4": AT_MS + 60_001}
    assert set(causes(far).values()) == {"host/node_unreachable"}


def test_late_nodes_are_not_of_the_outage_and_do_not_undo_it() -> None:
    begun = {**together(nodes(1, 4)), "n5": AT_MS + 300_000}
    found = causes(begun)
    assert found.pop("n5") == "host/node_unreachable"
    assert set(found.values()) == {HALL}


def test_nodes_that_fall_one_by_one_are_no_outage_of_the_domain() -> None:
    """Each has a neighbour within the minute, and no minute holds enough of them."""
    assert set(causes(together(nodes(1, 5), 40_000)).values()) == {"host/node_unreachable"}


def test_one_node_that_flaps_is_one_node() -> None:
    onsets = [("n1", AT_MS + number * 5_000) for number in range(5)]
    told = fan_in([lost("n1")], onsets, RULE, HALL, ROW, 0)
    assert [item.cause for item in told] == ["host/node_unreachable"]


def test_who_was_seen_counts_whether_or_not_it_is_told_now() -> None:
    told = fan_in([lost("n1")], list(together(nodes(1, 5)).items()), RULE, HALL, ROW, 0)
    assert [item.cause for item in told] == [HALL]


def test_what_began_before_its_neighbours_can_be_seen_stays_as_it_was_judged() -> None:
    begun = together(nodes(1, 5))
    assert set(causes(begun, since_ms=AT_MS + 10_000).values()) == {"host/node_unreachable"}
    items = [replace(lost(node), cause=HALL, detail="as told") for node in begun]
    assert fan_in(items, [], RULE, HALL, ROW, AT_MS + 1) == items


def test_gpus_speak_for_their_nodes_and_count_once_a_node() -> None:
    items = [lost(f"{node}/{index}") for node in nodes(1, 4) for index in range(8)]
    onsets = [(item.scope.partition("/")[0], AT_MS) for item in items]
    assert {item.cause for item in fan_in(items, onsets, RULE, HALL, ROW, 0)} == {HALL}
    few = [(node, at_ms) for node, at_ms in onsets if node in nodes(1, 2)]
    assert {item.cause for item in fan_in(items, few, RULE, HALL, ROW, 0)} == {"host/node_unreachable"}


def test_the_order_of_what_was_seen_does_not_matter() -> None:
    begun = {"n1": AT_MS, "n2": AT_MS + 30_000, "n3": AT_MS + 59_000, "n4": AT_MS + 61_000, "n5": AT_MS + 10_000}
    items = [lost(node, start_ms) for node, start_ms in begun.items()]
    answers = {
        tuple(item.cause for item in fan_in(items, order, RULE, HALL, ROW, 0)) for order in permutations(begun.items())
    }
    assert answers == {(HALL, HALL, HALL, HALL, HALL)}


@pytest.mark.parametrize("seed", range(20))
def test_it_says_what_counting_every_minute_says(seed: int) -> None:
    """The oracle: some stretch of a minute that holds the onset holds enough different nodes."""
    chance = random.Random(seed)
    begun = {node: AT_MS + chance.randrange(150_000) for node in chance.sample(nodes(1, 10), chance.randint(3, 10))}
    for node, cause in causes(begun).items():
        at_ms = begun[node]
        starts = {start for start in begun.values() if start <= at_ms <= start + RULE.within_ms}
        enough = any(
            hit >= 3 and hit * 10 >= 8 * ROW.size(domain)
            for domain in ROW.domains(node)
            for start in starts
            for hit in [sum(start <= begun.get(other, -1) <= start + 60_000 for other in ROW.inside[domain])]
        )
        assert cause == (HALL if enough else "host/node_unreachable"), (node, begun)


def test_what_was_judged_with_more_in_sight_stays_when_an_older_window_is_seen_again() -> None:
    onsets = list(together(nodes(1, 5)).items())
    whole = fan_in([lost("n1")], onsets, RULE, HALL, ROW, 0)
    some = onsets[:4]
    assert fan_in(whole, some, RULE, HALL, ROW, 0, until_ms=AT_MS + 10_000) == whole
    assert fan_in([lost("n1")], some, RULE, HALL, ROW, 0, until_ms=AT_MS + 10_000)[0].cause == HALL
