"""Rulings above the rules: who is held together, kept apart and charged, in whatever order evidence comes."""

from __future__ import annotations

import random
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.incidents.test_group import CAUSES, said, shape
from warehouse.incidents.group import group
from warehouse.model.evidence import Evidence
from warehouse.model.incident import Incident
from warehouse.model.ruling import Name, Ruling, name_of

CODES = ["host/dram", "power/psu", None, "symptom/collective_timeout"]


def ruling(number: int, kind: str, about: str, apart: str = "", cause: str | None = None) -> Ruling:
    """A ruling on evidence of `ops` whose keys are single letters."""
    names, off = (frozenset(("ops", key) for key in keys) for keys in (about, apart))
    return Ruling(kind, 1, names, f"author {number}", f"reason {number}", 0, cause, off, number)


# Three in a chain: b holds a and c together.
CHAIN = [said("a", 0, 5), said("b", 5, 9), said("c", 9, 12)]
FAR = said("z", 500, 600, (8, 16), cause="power/psu")


def test_an_attribution_holds_for_what_joins_later() -> None:
    psu = ruling(1, "attribute", "a", cause="power/psu")
    assert shape(group([CHAIN[0]], CAUSES, (), [psu])) == [("power/psu", ["a"])]
    (late,) = group(CHAIN, CAUSES, (), [psu])
    assert (late.cause, late.set_by, late.reason) == ("power/psu", "author 1", "reason 1")
    assert late.contributing == ("host/dram",)


def test_the_newest_word_counts_and_a_withdrawn_one_leaves_it_to_the_rules() -> None:
    words = [
        ruling(1, "attribute", "ab", cause="power/psu"),
        ruling(2, "attribute", "b", cause="fabric/nic"),
        ruling(3, "attribute", "abc"),
    ]
    assert [group(CHAIN, CAUSES, (), words[:n])[0].cause for n in range(4)] == [
        "host/dram", "power/psu", "fabric/nic", "host/dram",
    ]  # fmt: skip
    (withdrawn,) = group(CHAIN, CAUSES, (), words)
    assert (withdrawn.set_by, withdrawn.reason) == ("rules", "stated by its evidence")


def test_a_split_makes_two_though_it_takes_the_bridge() -> None:
    split = ruling(1, "split", "abc", apart="b")
    assert shape(group(CHAIN, CAUSES, (), [split])) == [("host/dram", ["a", "c"]), ("host/dram", ["b"])]
    # What comes later and touches both joins those that stayed.
    late = said("d", 0, 12)
    assert shape(group([*CHAIN, late], CAUSES, (), [split])) == [("host/dram", ["a", "d", "c"]), ("host/dram", ["b"])]


def test_a_split_keeps_together_what_it_names_though_the_causes_differ() -> None:
    merge = ruling(1, "merge", "abcz", cause="host/dram")
    (one,) = group([*CHAIN, FAR], CAUSES, (), [merge])
    assert (one.cause, one.contributing, len(one.members)) == ("host/dram", ("power/psu",), 4)
    split = ruling(2, "split", "abcz", apart="bz")
    # Of several causes the one nearest to the root is the rules' word: a lost supply explains lost memory.
    assert shape(group([*CHAIN, FAR], CAUSES, (), [merge, split])) == [
        ("host/dram", ["a", "c"]),
        ("power/psu", ["b", "z"]),
    ]


def test_a_newer_merge_undoes_a_split_also_for_what_comes_later() -> None:
    split = ruling(1, "split", "abc", apart="c")
    late = said("d", 12, 13)
    assert shape(group([*CHAIN, late], CAUSES, (), [split])) == [
        ("host/dram", ["a", "b"]),
        ("host/dram", ["c"]),
        ("host/dram", ["d"]),
    ]
    again = ruling(2, "merge", "abc", cause="host/dram")
    assert shape(group([*CHAIN, late], CAUSES, (), [split, again])) == [("host/dram", ["a", "b", "c", "d"])]


def test_a_merge_with_another_leaves_a_split_as_it_is() -> None:
    rulings = [ruling(1, "split", "abc", apart="c"), ruling(2, "merge", "cz", cause="power/psu")]
    assert shape(group([*CHAIN, FAR], CAUSES, (), rulings)) == [("host/dram", ["a", "b"]), ("power/psu", ["c", "z"])]


def test_a_merge_keeps_the_reason_of_the_word_whose_cause_it_keeps() -> None:
    rulings = [ruling(1, "attribute", "z", cause="fabric/nic"), ruling(2, "merge", "abcz", cause="fabric/nic")]
    (one,) = group([*CHAIN, FAR], CAUSES, (), rulings)
    assert (one.cause, one.set_by, one.reason) == ("fabric/nic", "author 1", "reason 1")
    assert one.contributing == ("host/dram", "power/psu")


def test_rulings_on_evidence_that_is_not_there_bind_nothing() -> None:
    rulings = [ruling(1, "merge", "xy", cause="power/psu"), ruling(2, "attribute", "w", cause="power/psu")]
    assert shape(group(CHAIN, CAUSES, (), rulings)) == shape(group(CHAIN, CAUSES))


def test_a_revised_piece_keeps_its_ruling() -> None:
    rulings = [ruling(1, "merge", "abcz", cause="power/psu")]
    moved = replace(CHAIN[1], start_ms=10**9, end_ms=2 * 10**9, revision=2, cause="fabric/nic")
    (one,) = group([CHAIN[0], CHAIN[2], moved, FAR], CAUSES, (), rulings)
    assert (one.cause, one.contributing) == ("power/psu", ("fabric/nic", "host/dram"))


Partition = set[frozenset[Name]]


def _partition(found: list[Incident]) -> Partition:
    return {_names(incident) for incident in found}


def _names(incident: Incident) -> frozenset[Name]:
    return frozenset(name_of(member) for member in incident.members)


@st.composite
def evidence_sets(draw: st.DrawFn) -> list[Evidence]:
    """A dozen pieces on few slots, so that many touch."""
    found = []
    for number in range(draw(st.integers(2, 12))):
        start = draw(st.integers(0, 40))
        low = draw(st.integers(0, 5))
        length = draw(st.one_of(st.integers(0, 12), st.none()))
        source = draw(st.sampled_from(["ops", "detector"]))
        end = None if length is None else start + length
        cause = draw(st.sampled_from(CODES))
        found.append(said(str(number), start, end, (low, low + 2), cause=cause, source=source))
    return found


def _next_ruling(data: st.DataObject, number: int, found: list[Incident]) -> Ruling | None:
    """A ruling that somebody could make who sees these incidents."""
    kind = data.draw(st.sampled_from(["attribute", "merge", "split"]))
    one, other = (data.draw(st.sampled_from(found)) for _ in range(2))
    names = _names(one)
    if kind == "attribute":
        cause = data.draw(st.sampled_from(["fabric/nic", "host/dram", None]))
        return Ruling(kind, 1, names, "a", "r", 0, cause, id=number)
    if kind == "merge":
        return None if one == other else Ruling(kind, 1, names | _names(other), "a", "r", 0, one.cause, id=number)
    apart = data.draw(st.sets(st.sampled_from(sorted(names)), min_size=1))
    return None if apart == names else Ruling(kind, 1, names, "a", "r", 0, None, frozenset(apart), number)


@settings(deadline=None, max_examples=150)
@given(evidence_sets(), st.data())
def test_every_ruling_does_what_it_says_and_order_never_matters(evidence: list[Evidence], data: st.DataObject) -> None:
    rulings: list[Ruling] = []
    found = group(evidence, CAUSES)
    for number in range(1, data.draw(st.integers(1, 7)) + 1):
        made = _next_ruling(data, number, found)
        if made is None:
            continue
        before, found = found, group(evidence, CAUSES, (), [*rulings, made])
        rulings.append(made)
        if made.kind == "attribute":
            assert _partition(found) == _partition(before)
            if made.cause is not None:
                assert {i.cause for i in found if _names(i) == made.about} == {made.cause}
        elif made.kind == "split":
            assert _partition(found) == _partition(before) - {made.about} | {made.apart, made.rest}
        else:
            (whole,) = [i for i in found if made.about <= _names(i)]
            assert whole.cause == made.cause
            assert all(any(part <= one for one in _partition(found)) for part in _partition(before))
        # Each piece of evidence that opens an incident is in exactly one.
        assert sorted(n for i in found for n in _names(i)) == sorted(map(name_of, evidence))
    rng = random.Random(data.draw(st.integers(0, 2**16)))
    shuffled, words = [*evidence, *evidence[:3]], [*rulings, *rulings[:2]]
    rng.shuffle(shuffled)
    rng.shuffle(words)
    assert group(shuffled, CAUSES, (), words) == found


@settings(deadline=None, max_examples=150)
@given(evidence_sets(), st.data())
def test_splitting_again_restores_what_a_merge_joined(evidence: list[Evidence], data: st.DataObject) -> None:
    before = group(evidence, CAUSES)
    if len(before) < 2:
        return
    one, into = data.draw(st.permutations(before))[:2]
    about = _names(one) | _names(into)
    word = Ruling("attribute", 1, _names(one), "a", "why one", 0, "fabric/nic", id=1)
    rulings = [word] if data.draw(st.booleans()) else []
    standing = group(evidence, CAUSES, (), rulings)
    merge = Ruling("merge", 2, about, "b", "one fault", 0, into.cause, id=2)
    assert len(group(evidence, CAUSES, (), [*rulings, merge])) == len(before) - 1
    split = Ruling("split", 2, about, "c", "two after all", 0, None, _names(one), 3)
    after = group(evidence, CAUSES, (), [*rulings, merge, split])
    assert [(i.cause, i.members, i.contributing) for i in after] == [
        (i.cause, i.members, i.contributing) for i in standing
    ]
