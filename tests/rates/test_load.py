"""Rate cards: a price a line, what stays without one, and that booked time keeps the price that it has."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path

import pytest
from sqlalchemy import Engine

from tests.conftest import Cli
from tests.store.ledgers import GPUS, START, act, at, open_engine, prove, said, take_in, with_fleet
from warehouse import pipeline, views
from warehouse.errors import BadInput
from warehouse.ledger.tariff import price_blocks
from warehouse.model.fleet import NodeSpec
from warehouse.model.rate import RateSpec
from warehouse.model.state import State
from warehouse.store import fleet, rates, revisions
from warehouse.views.priced import cost_of_loss

HEAD = "card,model,currency,per_gpu_hour,effective_from,effective_to,contract,basis\n"


def rate(price: int, start: float = 0, end: float | None = None, **more: str) -> RateSpec:
    """Gives a rate of H100 on the card `list` in USD, unless it is told otherwise; times in hours."""
    named = {"card": "list", "model": "H100", "currency": "USD"} | more
    end_ms = None if end is None else at(end)
    return RateSpec(
        named["card"], named["model"], named["currency"], Decimal(price), at(start), end_ms, named.get("contract"),
        named.get("basis"),
    )  # fmt: skip


def load(engine: Engine, *specs: RateSpec) -> pipeline.Done:
    return pipeline.load_rates(engine, specs, act("rates"))


def loss(engine: Engine, card: str = "list", rev: int | None = None) -> dict[str, Decimal]:
    """Gives the cost of all booked loss by a card's prices of a revision, per currency."""
    with engine.connect() as connection:
        rev = revisions.newest_rev(connection) if rev is None else rev
        blocks = price_blocks(
            fleet.tenure_blocks(connection, rev), rates.read(connection, rev), fleet.sites(connection, rev), card
        )
        costs = cost_of_loss(connection, blocks, rev).costs
    return {currency: Decimal(amount.numerator) / amount.denominator for currency, amount in costs.items()}


def two_sites(url: str) -> Engine:
    """Gives a ledger with a site in USD, whose second node is under the contract `gold`, and one in EUR."""
    engine = open_engine(url)
    nodes = [
        NodeSpec("s", "h", "r", "a1", GPUS, "H100", START, currency="USD"),
        NodeSpec("s", "h", "r", "a2", GPUS, "H100", START, contract="gold", currency="USD"),
        NodeSpec("t", "h", "r", "b1", GPUS, "H100", START, currency="EUR"),
    ]
    pipeline.load_fleet(engine, nodes, act("fleet"))
    return engine


def test_contract_and_currency_pick_the_price_of_each_gpu(any_database_url: str) -> None:
    engine = two_sites(any_database_url)
    load(engine, rate(2), rate(3, currency="EUR"), rate(1, contract="gold"))
    take_in(engine, *(said(n, State.DOWN, 0, 10, n, cause="host/dram") for n in ("a1", "a2", "b1")))
    # USD: 40 GPU-hours at 2 and 40 under the contract at 1; EUR: 40 at 3.
    assert loss(engine) == {"USD": Decimal(120), "EUR": Decimal(120)}


def test_a_line_has_one_price_at_a_time_and_other_lines_do_not_meet_it(database_url: str) -> None:
    engine = two_sites(database_url)
    load(engine, rate(2), rate(1, contract="gold"), rate(3, currency="EUR"), rate(4, card="power"))
    with pytest.raises(BadInput, match=r"^card list, H100, contract gold, USD: from .* overlaps the stored 1 from"):
        load(engine, rate(9, 5, contract="gold"))
    assert load(engine, rate(9, 5, contract="tin"), rate(8, model="B200")).rates_added == 2


@pytest.mark.parametrize("basis", ["list", "contracted", "effective", "an example", ""])
def test_every_basis_is_kept(cli: Cli, tmp_path: Path, basis: str) -> None:
    assert cli("db", "upgrade").code == 0
    (tmp_path / "r.csv").write_text(HEAD + f"list,H100,USD,2,2026-01-01,,gold,{basis}\n")
    assert (
        cli("rates", "load", "r.csv").out
        == "1 rates added, 0 already there; revision 1\ncontract gold: no GPU has it\n"
    )
    (row,) = json.loads(cli("rates", "show", "--format", "json").out)["rates"]
    assert (row["contract"], row["basis"]) == ("gold", basis or None)
    (tmp_path / "again.csv").write_text(cli("rates", "show", "--format", "csv").out)
    assert "nothing changed" in cli("rates", "load", "again.csv").out


def test_loading_says_what_has_no_price_and_which_contract_nobody_has(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "fleet.csv").write_text(
        "site,hall,rack,node,gpus,model,commissioned\ns,h,r,a,4,H100,2026-01-01\ns,h,r,b,8,B200,2026-01-03\n"
        "s,h,r,c,8,B200,2026-01-03\n"
    )
    (tmp_path / "r.csv").write_text(HEAD + "list,H100,USD,2,2026-01-02,2026-06-01,,\nlist,H100,USD,1,2026-01-01,,x,\n")
    assert cli("db", "upgrade").code == cli("fleet", "load", "fleet.csv").code == 0
    told = (
        "card list: no price for 4 GPUs, H100, from 2026-01-01T00:00:00Z until 2026-01-02T00:00:00Z\n"
        "card list: no price for 16 GPUs, B200, from 2026-01-03T00:00:00Z\n"
        "card list: no price for 4 GPUs, H100, from 2026-06-01T00:00:00Z\n"
        "contract x: no GPU has it\n"
    )
    assert cli("rates", "load", "r.csv").out == "2 rates added, 0 already there; revision 2\n" + told
    assert cli("rates", "load", "r.csv").out == "2 rates, all of them already in the ledger; nothing changed\n" + told


def test_show_has_all_columns_and_takes_a_card_and_a_revision(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "r.csv").write_text(HEAD + "list,H100,USD,2.50,2026-01-01,2026-02-01,gold,list\n")
    (tmp_path / "p.csv").write_text(HEAD + "power,H100,USD,0.25,2026-01-01,,,power\n")
    for command in (("db", "upgrade"), ("rates", "load", "r.csv"), ("rates", "load", "p.csv")):
        assert cli(*command).code == 0
    first = HEAD + "list,H100,USD,2.5,2026-01-01T00:00:00Z,2026-02-01T00:00:00Z,gold,list\n"
    second = "power,H100,USD,0.25,2026-01-01T00:00:00Z,,,power\n"
    assert cli("rates", "show", "--format", "csv").out == first + second
    assert cli("rates", "show", "--card", "list", "--format", "csv").out == first
    assert cli("rates", "show", "--as-of", 1, "--format", "csv").out == first
    unknown = cli("rates", "show", "--card", "power", "--as-of", 1)
    assert (unknown.code, unknown.err) == (2, "gpu-minutes: --card: there is no rate card 'power'; known are list\n")


def test_a_site_without_a_currency_is_never_given_a_choice_of_two(database_url: str) -> None:
    engine = with_fleet(database_url)
    load(engine, rate(2))
    with pytest.raises(BadInput, match="card list, H100, EUR: has a price in USD at the same time, and site s names"):
        load(engine, rate(3, currency="EUR"))
    assert load(engine, rate(3, model="B200", currency="EUR"), rate(3, card="other", currency="EUR")).rates_added == 2


def test_the_figure_of_a_closed_range_never_moves_by_a_later_price(database_url: str) -> None:
    engine = with_fleet(database_url)
    take_in(engine, said("1", State.DOWN, 0, 10, "a1", cause="host/dram"))
    first = load(engine, rate(2, 0, 10))
    before = headline(engine)
    assert before["cost_of_loss"] == "80.00"
    load(engine, rate(9, 10))
    assert headline(engine) | {"revision": first.rev} == before
    # Booking everything anew looks prices up by the time that they are for, never by the present.
    take_in(engine, said("2", State.DOWN, 20, 21, "a1", cause="host/dram"))
    pipeline.book(engine, act("derive"))
    assert headline(engine)["cost_of_loss"] == "80.00"
    assert loss(engine) == {"USD": Decimal(80 + 4 * 9)}


def headline(engine: Engine) -> dict[str, object]:
    with engine.connect() as connection:
        revision = revisions.latest(connection)
        assert revision is not None
        return views.goodput(connection, views.ask(connection, revision, START, at(10)))


@pytest.mark.parametrize(
    ("specs", "told"),
    [
        ([rate(2, 0, 5), rate(3, 5)], "3 USD in place of 2 USD from 2026-01-01T05:00:00Z"),
        ([rate(2, 0, 5)], "no price in place of 2 USD from 2026-01-01T05:00:00Z"),
    ],
)
def test_loading_never_changes_the_price_of_what_is_booked(database_url: str, specs: list[RateSpec], told: str) -> None:
    engine = with_fleet(database_url)
    take_in(engine, said("1", State.DOWN, 0, 10, "a1", cause="host/dram"))
    done = load(engine, rate(2))
    with pytest.raises(BadInput, match=f"card list, H100: {told} would change what is booked; .* rates reprice"):
        load(engine, *specs)
    assert loss(engine) == {"USD": Decimal(80)}
    # Behind what is booked, or where there was none, a price may come as it likes.
    assert load(engine, rate(2, 0, 10), rate(3, 10), rate(1, model="B200")).rev == done.rev + 1
    with engine.connect() as connection:
        assert all(proof.holds for proof in prove(connection))


def test_a_contract_price_in_the_past_does_not_slip_in_before_the_general_one(database_url: str) -> None:
    engine = two_sites(database_url)
    load(engine, rate(2))
    take_in(engine, said("1", State.DOWN, 0, 10, "a2", cause="host/dram"))
    with pytest.raises(BadInput, match="1 USD in place of 2 USD from 2026-01-01T00:00:00Z would change what is booked"):
        load(engine, rate(1, contract="gold"))
    load(engine, rate(1, 10, contract="gold"))
    assert loss(engine) == {"USD": Decimal(80)}


def test_what_has_no_price_stays_unpriced_and_is_no_default(database_url: str) -> None:
    engine = two_sites(database_url)
    load(engine, rate(2, 0, 4))
    take_in(engine, *(said(n, State.DOWN, 0, 10, n, cause="host/dram") for n in ("a1", "b1")))
    # Of a1 four hours have a price, of b1 none: its site is in EUR.
    assert loss(engine) == {"USD": Decimal(32)}
