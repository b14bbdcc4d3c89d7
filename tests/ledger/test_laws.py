"""The conservation laws over random claims, against the oracle that looks at one instant at a time."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.ledger.oracle import verdict
from warehouse.ledger.laws import LawBroken, check_conservation, check_one_state, installed_gpu_ms
from warehouse.ledger.sweep import cut, merge_slots, sweep
from warehouse.model.entry import Claim, Entry
from warehouse.model.fleet import TenureBlock
from warehouse.model.slots import normalise
from warehouse.model.state import PARTIAL, PPM, State
from warehouse.model.time import Window

SLOTS, END = 8, 24
WINDOW = Window(0, END)


@st.composite
def spans(draw: st.DrawFn, top: int) -> tuple[int, int]:
    low = draw(st.integers(0, top - 1))
    return low, draw(st.integers(low + 1, top))


@st.composite
def claim_lists(draw: st.DrawFn) -> list[Claim]:
    claims = []
    for number in range(draw(st.integers(0, 14))):
        state = draw(st.sampled_from([s for s in State if s is not State.UNKNOWN]))
        start, end = draw(spans(END))
        ranges = normalise(draw(st.lists(spans(SLOTS), min_size=1, max_size=3)))
        lost = draw(st.integers(1, 1_000_000)) if state in PARTIAL else None
        basis = draw(st.sampled_from(["measured", "presumed"])) if state is State.PRODUCTIVE else "measured"
        claims.append(
            Claim(ranges, start, end, state, str(number), "s", lost_ppm=lost, evidence_id=number, basis=basis)
        )
    return claims


@st.composite
def mixed_claims(draw: st.DrawFn) -> list[Claim]:
    """Gives evidence as above, and allocations of a few jobs with shares, often overlapping and often too much."""
    claims = draw(claim_lists())
    for number in range(100, 100 + draw(st.integers(0, 8))):
        start, end = draw(spans(END))
        claims.append(
            Claim(
                normalise([draw(spans(SLOTS))]), start, end, State.PRODUCTIVE, str(number), "allocations",
                attempt_id=draw(st.integers(0, 1)) * 1_000 + number, basis="presumed", job=draw(st.sampled_from("jkl")),
                share_ppm=draw(st.sampled_from([None, 1, 250_000, 500_000, 500_001, 999_999])),
            )
        )  # fmt: skip
    return claims


@st.composite
def tenures(draw: st.DrawFn) -> list[TenureBlock]:
    blocks = []
    for slot in range(SLOTS):
        if draw(st.booleans()):
            start, end = draw(spans(END))
            blocks.append(TenureBlock(((slot, slot + 1),), start, end, "m", False))
    return blocks or [TenureBlock(((0, SLOTS),), 0, END, "m", False)]


def floors(blocks: list[TenureBlock]) -> list[Claim]:
    return [
        Claim(b.slots, b.start_ms, b.end_ms or END, State.UNKNOWN, str(i), "tenure", floor=True)
        for i, b in enumerate(blocks)
    ]


def at(entries: list[Entry], slot: int, at_ms: int) -> list[Entry]:
    return [e for e in entries if e.slot_from <= slot < e.slot_to and e.start_ms <= at_ms < e.end_ms]


@given(mixed_claims(), tenures())
@settings(max_examples=400, deadline=None)
def test_every_instant_has_the_claim_and_the_holders_that_the_rules_name(
    claims: list[Claim], blocks: list[TenureBlock]
) -> None:
    everything = [*claims, *floors(blocks)]
    entries = sweep(everything, WINDOW)
    for slot in range(SLOTS):
        for at_ms in range(END):
            expected = verdict(everything, slot, at_ms)
            found = at(entries, slot, at_ms)
            if expected is None:
                assert found == []
            else:
                (entry,) = found
                p = entry.payload
                assert (
                    p.state.value, p.lost_ppm, p.evidence_id, p.basis, p.rule == "conflict", p.attempt_id, p.held_ppm,
                    p.sharers,
                ) == expected  # fmt: skip
    check_conservation(entries, blocks, WINDOW)
    check_one_state(entries)


@given(mixed_claims(), tenures())
@settings(max_examples=150, deadline=None)
def test_shares_never_exceed_the_whole_and_name_their_holders(claims: list[Claim], blocks: list[TenureBlock]) -> None:
    of_id = {c.attempt_id: c for c in claims if c.attempt_id is not None}
    for entry in sweep([*claims, *floors(blocks)], WINDOW):
        p = entry.payload
        named = p.sharers if p.sharers is not None else () if p.attempt_id is None else (p.attempt_id,)
        held = sum(of_id[name].share_ppm or PPM for name in named)
        assert len({of_id[name].job for name in named}) == len(named)
        assert list(named) == sorted(named)
        if p.attempt_id is None:
            assert p.held_ppm is None and (not named or held > PPM)
            assert p.rule != "conflict" or named
        else:
            assert held <= PPM and p.attempt_id in named and p.rule != "conflict"
            assert p.held_ppm == (held if held < PPM else None)


@given(mixed_claims(), tenures(), st.randoms(use_true_random=False))
@settings(max_examples=150, deadline=None)
def test_order_and_duplication_are_irrelevant(
    claims: list[Claim], blocks: list[TenureBlock], rng: random.Random
) -> None:
    everything = [*claims, *floors(blocks)]
    shuffled = everything + [c for c in everything if rng.random() < 0.5]
    rng.shuffle(shuffled)
    assert sweep(shuffled, WINDOW) == sweep(everything, WINDOW)


@given(mixed_claims(), tenures(), st.integers(1, END - 1))
@settings(max_examples=150, deadline=None)
def test_a_day_derived_alone_is_the_day_of_the_whole(
    claims: list[Claim], blocks: list[TenureBlock], middle: int
) -> None:
    everything = [*claims, *floors(blocks)]
    whole = cut(sweep(everything, WINDOW), [middle])
    parts = sweep(everything, Window(0, middle)) + sweep(everything, Window(middle, END))
    assert whole == parts


@given(mixed_claims(), tenures())
@settings(max_examples=150, deadline=None)
def test_no_two_entries_could_be_merged(claims: list[Claim], blocks: list[TenureBlock]) -> None:
    entries = sweep([*claims, *floors(blocks)], WINDOW)
    assert merge_slots(entries) == entries
    for entry in entries:
        for slot in range(entry.slot_from, entry.slot_to):
            for later in at(entries, slot, entry.end_ms):
                assert later.payload != entry.payload


@given(claim_lists(), spans(END), spans(SLOTS))
@settings(max_examples=150, deadline=None)
def test_a_further_down_claim_never_lowers_the_loss(
    claims: list[Claim], span: tuple[int, int], slots: tuple[int, int]
) -> None:
    # Only without windows: a window may rightly own the new fault, and planned time is not unplanned loss.
    claims = [c for c in claims if c.state not in (State.MAINTENANCE, State.STRANDED)]
    base = floors([TenureBlock(((0, SLOTS),), 0, END, "m", False)])
    before = sweep([*claims, *base], WINDOW)
    more = Claim((slots,), *span, State.DOWN, "99", "s", evidence_id=99)
    after = sweep([*claims, more, *base], WINDOW)

    def down(entries: list[Entry]) -> int:
        return sum(e.gpu_ms for e in entries if e.payload.state is State.DOWN)

    assert down(after) >= down(before)


def test_the_laws_see_what_they_guard() -> None:
    block = TenureBlock(((0, 2),), 0, 10, "m", False)
    (entry,) = sweep(floors([block]), Window(0, 10))
    with pytest.raises(LawBroken, match=r"conservation: 10 GPU-ms booked, 20 installed"):
        check_conservation([entry._replace(slot_to=1)], [block], Window(0, 10))
    with pytest.raises(LawBroken, match=r"one state: slot 1 twice at 1970-01-01T00:00:00.005Z"):
        check_one_state([entry, entry._replace(slot_from=1, start_ms=5)])
    assert installed_gpu_ms([block], Window(5, 50)) == 10
