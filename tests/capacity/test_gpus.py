"""GPUs that change their slots: swaps, spares, repairs, empty slots; in any order, and refused where impossible."""

from __future__ import annotations

import itertools
import random

import pytest

from tests.capacity.ledgers import Fact, day, place, placing, tenure, with_nodes
from tests.conftest import _fresh_database
from tests.store.ledgers import act, goodput, prove, rows, said, take_in, tiling
from warehouse import pipeline
from warehouse.acts.install import install
from warehouse.errors import BadInput
from warehouse.model.fleet import NodeSpec
from warehouse.model.state import State
from warehouse.model.time import MS_PER_DAY
from warehouse.store.scopes import Resolver

INVENTORY: tuple[Fact, ...] = (("n1/0", 0, "A"), ("n1/1", 0, "B"), ("n2/0", 0, "C"), ("spare/0", 0, "S"))
# One story: each step is a file that makes sense alone.
REPAIR: tuple[Fact, ...] = (("n1/0", 2, "S"), ("spare/0", 2, ""))
BACK: tuple[Fact, ...] = (("spare/0", 5, "A"),)
SWAP: tuple[Fact, ...] = (("n1/1", 6, "C"), ("n2/0", 6, "B"))
GONE: tuple[Fact, ...] = (("n2/1", 3, ""),)
STILL_GONE: tuple[Fact, ...] = (("n2/1", 7, ""),)
NEW: tuple[Fact, ...] = (("n2/1", 8, "N"),)
BRIEFLY: tuple[Fact, ...] = (("n2/1", 4, "X"), ("n2/1", 4.5, ""))
STEPS = (INVENTORY, REPAIR, BACK, SWAP, GONE, STILL_GONE, NEW, BRIEFLY)
# By hand: slots of n1 are 0 and 1, of n2 8 and 9, of the spare node 16; a node's block has eight slots.
STORY = [
    (0, 0, 2, "A", "H100"), (0, 2, None, "S", "H100"),
    (1, 0, 6, "B", "H100"), (1, 6, None, "C", "H100"),
    (8, 0, 6, "C", "H100"), (8, 6, None, "B", "H100"),
    (9, 0, 3, None, "H100"), (9, 3, 4, "", None), (9, 4, 4.5, "X", "H100"), (9, 4.5, 7, "", None), (9, 7, 8, "", None),
    (9, 8, None, "N", "H100"),
    (16, 0, 2, "S", "H100"), (16, 2, 5, "", None), (16, 5, None, "A", "H100"),
]  # fmt: skip


def holds(engine: object) -> None:
    with engine.connect() as connection:  # type: ignore[attr-defined]
        proofs = prove(connection)
    assert all(proof.holds for proof in proofs), proofs


def test_a_story_of_swaps_spares_and_repairs(any_database_url: str) -> None:
    engine = with_nodes(any_database_url)
    take_in(engine, said("1", State.DOWN, 0, 10 * 24, "n1/0"), said("2", State.DOWN, 0, 10 * 24, "n2/1"))
    for step in STEPS:
        assert place(engine, *step).changed
    assert tenure(engine) == STORY
    answer = goodput(engine)
    # Ten days of five slots, less what stood empty: three days of the spare slot, and of n2/1 days 3 to 4 and 4.5 to 8.
    assert answer["installed_gpu_ms"] == (50 - 3 - 1 - 3.5) * MS_PER_DAY
    # n1/0 was down throughout, whoever sat in it; n2/1 only while somebody did.
    assert rows(answer)["down"]["gpu_ms"] == (10 + 10 - 4.5) * MS_PER_DAY
    holds(engine)
    again = place(engine, *itertools.chain(*STEPS))
    assert (again.changed, again.repeated) == (False, sum(map(len, STEPS)))
    assert pipeline.book(engine, act("derive")).changed is False


@pytest.mark.parametrize("seed", range(4))
def test_any_order_of_telling_gives_the_same_tenure(database_url: str, seed: int) -> None:
    engine = with_nodes(database_url)
    take_in(engine, said("1", State.DOWN, 0, 10 * 24, "n1+n2/1"))
    left = random.Random(seed).sample(STEPS, k=len(STEPS))
    # A step that would leave a GPU in two slots for the moment waits until what frees it was told.
    while left:
        waiting = []
        for step in left:
            facts = random.Random(seed).sample(step, k=len(step))
            try:
                place(engine, *facts)
            except BadInput as refused:
                assert "would sit in two slots" in str(refused)
                waiting.append(step)
        assert len(waiting) < len(left)
        left = waiting
    assert tenure(engine) == STORY
    holds(engine)


def test_one_file_in_any_order_is_one_file(database_url: str, embedded_server: str) -> None:
    tilings = []
    for url, seed in ((database_url, 1), (_fresh_database(embedded_server), 2)):
        engine = with_nodes(url)
        take_in(engine, said("1", State.DOWN, 0, 10 * 24, "n1+n2/1"))
        facts = list(itertools.chain(*STEPS))
        place(engine, *random.Random(seed).sample(facts, k=len(facts)))
        assert tenure(engine) == STORY
        tilings.append(tiling(engine))
    assert tilings[0] == tilings[1]


def test_a_node_out_of_which_all_was_taken_since_the_first_day(database_url: str) -> None:
    engine = with_nodes(database_url)
    take_in(engine, said("1", State.DOWN, 0, 10 * 24, "n1"))
    slots = ("n1/0", "n1/1", "n2/0", "n2/1", "spare/0")
    place(engine, *((slot, 0, "") for slot in slots))
    holds(engine)
    place(engine, ("n1/1", 4, "A"))
    assert goodput(engine)["installed_gpu_ms"] == 6 * MS_PER_DAY
    assert rows(goodput(engine))["down"]["gpu_ms"] == 6 * MS_PER_DAY
    holds(engine)


def test_an_index_means_the_same_slot_while_others_stand_empty(database_url: str) -> None:
    engine = with_nodes(database_url)
    place(engine, ("n1/0", 2, ""))
    take_in(engine, said("1", State.DOWN, 3 * 24, 4 * 24, "n1/1"), said("2", State.DOWN, 5 * 24, 6 * 24, "n1"))
    # The second word covers the empty slot as well, which is worth nothing while it is empty.
    assert rows(goodput(engine))["down"]["gpu_ms"] == 2 * MS_PER_DAY
    with engine.connect() as connection:
        assert Resolver(connection, day(3)).gpu("n1", 1) == ((1, 2),)
    place(engine, ("n1/0", 5.5, "A"))
    assert rows(goodput(engine))["down"]["gpu_ms"] == 2.5 * MS_PER_DAY
    holds(engine)


REFUSED = [
    ([("n1/1", 5, "S")], "uuid: S would sit in two slots from 2026-01-06T00:00:00Z: still in spare/0, since "
     "2026-01-04T00:00:00Z, and in n1/1; add a row that says what spare/0 holds"),
    ([("n1/1", 5, "X"), ("n2/1", 4, "X")], "X would sit in two slots from 2026-01-06T00:00:00Z: still in n2/1, since "
     "2026-01-05T00:00:00Z, and in n1/1"),
    ([("n7/1", 5, "X")], "column node: unknown node 'n7'"),
    ([("n1/2", 5, "X")], "column index: node n1 has GPUs 0 to 1"),
    ([("n1/1", -1, "X")], "column from: nothing is installed in n1 at 2025-12-31T00:00:00Z"),
    ([("n1/1", 15, "X")], "column from: nothing is installed in n1 at 2026-01-16T00:00:00Z; the fleet file has it from "
     "2026-01-01T00:00:00Z to 2026-01-16T00:00:00Z"),
    ([("n1/1", 21, "X")], "column from: 2026-01-22T00:00:00Z is in the future"),
    ([("n1/1", 5, "X"), ("n1/1", 5, "Y")], "says something else of n1/1 at this instant than gpus.csv n1/1 5"),
    ([("n1/0", 0, "Z")], "in the ledger n1/0 holds A since 2026-01-01T00:00:00Z; --revise records a correction"),
    ([("spare/0", 2, "A")], "in the ledger spare/0 stands empty since 2026-01-03T00:00:00Z"),
]  # fmt: skip


@pytest.mark.parametrize(("facts", "reason"), REFUSED, ids=[reason[:40] for _, reason in REFUSED])
def test_what_cannot_be_is_refused_whole(database_url: str, facts: list[Fact], reason: str) -> None:
    engine = with_nodes(database_url, day(15))
    place(engine, *INVENTORY)
    place(engine, ("spare/0", 2, ""), ("spare/0", 3, "S"))
    before = tenure(engine)
    with pytest.raises(BadInput) as refused:
        place(engine, ("n2/0", 4, "good"), *facts)
    assert len(refused.value.lines) == 1
    assert reason in str(refused.value)
    assert str(refused.value).startswith("gpus.csv ")
    assert tenure(engine) == before


NAMES = [
    ({"uuid": "A", "serial": "9"}, "column serial: GPU A is known with serial 1, not with 9"),
    ({"uuid": "A", "model": "H200"}, "column model: GPU A is known as H100, not H200"),
    ({"uuid": "B", "serial": "2"}, "column serial: GPU B is known without a serial"),
    ({"uuid": "", "serial": "7"}, "column uuid: is blank, and 2 GPUs have serial 7; write one of D1, D2"),
    ({"uuid": "U", "serial": "3"}, "column uuid: the GPU with serial 3 is known without a uuid"),
    ({"uuid": "", "serial": "3", "model": "B200"}, "column model: GPU 3 is known as H100, not B200"),
]


@pytest.mark.parametrize(("row", "reason"), NAMES)
def test_a_name_means_one_gpu(database_url: str, row: dict[str, str], reason: str) -> None:
    engine = with_nodes(database_url)
    place(
        engine, placing("n1/0", 0, "A", serial="1"), placing("n1/1", 0, "B"), placing("n2/0", 0, "", serial="3"),
        placing("n2/1", 0, "D1", serial="7"), placing("spare/0", 0, "D2", serial="7"),
    )  # fmt: skip
    with pytest.raises(BadInput) as refused:
        place(engine, placing("n1/0", 3, **row))  # type: ignore[arg-type]
    assert reason in str(refused.value)


def test_a_serial_finds_the_gpu_that_has_a_uuid_as_well(database_url: str) -> None:
    engine = with_nodes(database_url)
    done = place(
        engine, placing("n1/0", 0, "A", serial="1"), placing("n1/0", 3, ""), placing("n2/0", 4, "", serial="1")
    )
    assert (done.placed, done.emptied, done.named) == (3, 1, 1)
    assert [row for row in tenure(engine) if row[3] == "A"] == [(0, 0, 3, "A", "H100"), (8, 4, None, "A", "H100")]


def test_another_model_is_said_and_never_guessed(database_url: str) -> None:
    engine = with_nodes(database_url)
    place(engine, placing("n1/0", 2, "A", model="H200"))
    take_in(engine, said("1", State.DOWN, 0, 10 * 24, "n2"))
    by_model = rows(goodput(engine, by="model"))
    assert by_model["H200"]["gpu_ms"] == 8 * MS_PER_DAY
    assert by_model["H100"]["gpu_ms"] == 42 * MS_PER_DAY
    with pytest.raises(BadInput, match="model: is blank, and n1/0 has held H100 and H200; write the model"):
        place(engine, placing("n1/0", 4, "B"))
    with pytest.raises(BadInput, match="is of H200 and n2/0 has only held H100; write H200 if that is meant"):
        place(engine, placing("n1/0", 5, ""), placing("n2/0", 5, "A"))
    place(engine, placing("n1/0", 5, ""), placing("n2/0", 5, "A", model="H200"))
    assert rows(goodput(engine, by="model"))["H200"]["gpu_ms"] == 8 * MS_PER_DAY
    assert goodput(engine)["installed_gpu_ms"] == 45 * MS_PER_DAY
    holds(engine)


def test_a_correction_is_a_further_revision(database_url: str) -> None:
    engine = with_nodes(database_url)
    take_in(engine, said("1", State.DOWN, 0, 10 * 24, "n1"))
    wrong = place(engine, ("n1/0", 4, ""))
    assert goodput(engine)["installed_gpu_ms"] == 44 * MS_PER_DAY
    place(engine, ("n1/0", 4, "A"), revise=True)
    assert goodput(engine)["installed_gpu_ms"] == 50 * MS_PER_DAY
    assert goodput(engine, wrong.rev)["installed_gpu_ms"] == 44 * MS_PER_DAY
    assert tenure(engine)[:2] == [(0, 0, 4, None, "H100"), (0, 4, None, "A", "H100")]
    holds(engine)


def test_only_the_days_that_change_are_derived(database_url: str) -> None:
    engine = with_nodes(database_url)
    take_in(engine, said("1", State.DOWN, 0, 10 * 24, "n1+n2"))
    before = tiling(engine)
    place(engine, *INVENTORY)  # names alone change no day
    assert tiling(engine) == before
    place(engine, ("n1/0", 4, ""), ("n1/0", 5, "A"))
    changed = [entry for entry in tiling(engine) if entry not in before]
    assert changed
    assert all("2026-01-05" in str(entry[1]) for entry in changed)


def test_twins_of_two_sites_need_their_site(database_url: str) -> None:
    engine = with_nodes(database_url)
    pipeline.load_fleet(engine, [NodeSpec("t", "h", "r", "n1", 2, "H100", day(0))], act("fleet"))
    with pytest.raises(BadInput, match="column site: node n1 stands in 2 sites; write s or t"):
        place(engine, ("n1/0", 1, "A"))
    place(engine, placing("n1/0", 1, "A", site="t"))
    with pytest.raises(BadInput, match="still in site:t/n1/0"):
        place(engine, placing("n1/0", 2, "A", site="s"))
    with pytest.raises(BadInput, match="unknown node 'n2' in site t"):
        install(engine, [placing("n2/0", 2, "X", site="t")], act("fleet"))
