"""A price changed backwards: on purpose, with a reason, as a revision of its own that rewrites no entry."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import pytest
from sqlalchemy import Engine, text

from tests.conftest import Cli
from tests.rates.test_load import HEAD, load, loss, rate, two_sites
from tests.store.ledgers import at, entry_rows, prove, said, take_in, with_fleet
from warehouse import pipeline
from warehouse.acts import reprice as acts
from warehouse.errors import BadInput
from warehouse.model.rate import RateSpec
from warehouse.model.state import State
from warehouse.store import rates, revisions


def outage(url: str) -> Engine:
    """Gives a ledger that lost 40 GPU-hours in the first ten hours, at 2 USD."""
    engine = with_fleet(url)
    take_in(engine, said("1", State.DOWN, 0, 10, "a1", cause="host/dram"))
    load(engine, rate(2, basis="list"))
    return engine


def reprice(engine: Engine, *specs: RateSpec, reason: str = "the lessor's invoice") -> acts.Repriced:
    return acts.reprice(engine, specs, pipeline.Act("reprice", "tester", reason, at(480)))


def spans(engine: Engine, rev: int | None = None) -> list[tuple[float | None, float | None, int, str | None]]:
    """Gives (start, end, price, basis) of the rates that stand, in hours since the fleet's start."""
    with engine.connect() as connection:
        stored = rates.read(connection, revisions.newest_rev(connection) if rev is None else rev)

    def hours(at_ms: int | None) -> float | None:
        return None if at_ms is None else (at_ms - at(0)) / (at(1) - at(0))

    return [(hours(r.start_ms), hours(r.end_ms), int(r.per_gpu_hour), r.basis) for r in stored]


def test_it_replaces_the_span_keeps_the_rest_and_rewrites_no_entry(any_database_url: str) -> None:
    engine = outage(any_database_url)
    entries = entry_rows(engine)
    found = reprice(engine, rate(5, 4, 6))
    assert spans(engine) == [(0, 4, 2, "list"), (4, 6, 5, None), (6, None, 2, "list")]
    # 4 GPUs x 2 h x (5 - 2) USD more.
    (effect,) = found.effects
    assert (effect.before.costs, effect.after.costs) == ({"USD": Fraction(80)}, {"USD": Fraction(104)})
    assert loss(engine) == {"USD": Decimal(104)}
    assert entry_rows(engine) == entries
    assert (found.done.opened, found.done.closed) == (0, 0)
    with engine.connect() as connection:
        written = revisions.latest(connection)
        assert written is not None
        assert (written.rev, written.kind, written.author, written.reason) == (
            found.done.rev, "reprice", "tester", "the lessor's invoice",
        )  # fmt: skip
        assert all(proof.holds for proof in prove(connection))
    # The revision before keeps its prices.
    assert spans(engine, found.done.rev - 1) == [(0, None, 2, "list")]
    assert loss(engine, rev=found.done.rev - 1) == {"USD": Decimal(80)}


def test_what_the_file_says_already_writes_nothing(database_url: str) -> None:
    engine = outage(database_url)
    done = reprice(engine, rate(5, 4, 6)).done
    again = reprice(engine, rate(5, 4, 6))
    assert (again.done.changed, again.done.rev, again.changes, again.effects) == (False, done.rev, (), ())
    # Nor does a file that cuts the same prices otherwise.
    assert not reprice(engine, rate(5, 4, 5), rate(5, 5, 6)).done.changed
    with engine.connect() as connection:
        newest = revisions.latest(connection)
        assert newest is not None
        assert newest.rev == done.rev


def test_it_swallows_several_rates_and_fills_the_hole_between_them(database_url: str) -> None:
    engine = with_fleet(database_url)
    take_in(engine, said("1", State.DOWN, 0, 10, "a1", cause="host/dram"))
    load(engine, rate(2, 0, 3), rate(4, 5, 8))
    found = reprice(engine, rate(3, 1, 9))
    assert spans(engine) == [(0, 1, 2, None), (1, 9, 3, None)]
    told = [(c.old and int(c.old.per_gpu_hour), int(c.new.per_gpu_hour), c.start_ms, c.end_ms) for c in found.changes]
    assert told == [(2, 3, at(1), at(3)), (None, 3, at(3), at(5)), (4, 3, at(5), at(8)), (None, 3, at(8), at(9))]
    (effect,) = found.effects
    # Before: 4 GPUs x (3 h x 2 + 3 h x 4) = 72 on 24 GPU-hours; after: 4 x (1 h x 2 + 8 h x 3) = 104 on 36.
    assert (effect.before.costs["USD"], effect.after.costs["USD"]) == (72, 104)
    hour = at(1) - at(0)
    assert (effect.before.priced, effect.after.priced) == (24 * hour, 36 * hour)


def test_only_its_own_line_is_touched(database_url: str) -> None:
    engine = two_sites(database_url)
    take_in(engine, *(said(n, State.DOWN, 0, 10, n, cause="host/dram") for n in ("a1", "a2", "b1")))
    load(engine, rate(2), rate(3, currency="EUR"), rate(1, contract="gold"), rate(7, card="power"))
    found = reprice(engine, rate(5, contract="gold"))
    assert loss(engine) == {"USD": Decimal(80 + 200), "EUR": Decimal(120)}
    assert [effect.card for effect in found.effects] == ["list"]
    assert loss(engine, "power") == {"USD": Decimal(560)}


def test_a_failure_leaves_nothing_behind(database_url: str) -> None:
    engine = outage(database_url)
    with pytest.raises(BadInput, match="--reason is blank"):
        reprice(engine, rate(5), reason=" ")
    with pytest.raises(BadInput, match="site s names no currency"):
        reprice(engine, rate(5), rate(3, currency="EUR"))
    assert spans(engine) == [(0, None, 2, "list")]


def test_the_end_of_the_act_is_told_which_time_has_other_prices(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = outage(database_url)
    told: list[object] = []
    real = acts.finish

    def finish(*words: object, **more: object) -> pipeline.Done:
        told.append((more["book"], words[4]))
        return real(*words, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(acts, "finish", finish)
    reprice(engine, rate(5, 4, 6), rate(2, 6, 7, basis="list"))
    assert told == [(False, [(at(4), at(6))])]


def test_the_command_says_old_and_new_price_and_what_it_does_to_the_loss(cli: Cli, tmp_path: Path) -> None:
    files = {
        "fleet.csv": "site,hall,rack,node,gpus,model,commissioned\ns,h,r,a1,4,H100,2026-01-01\n",
        "said.csv": "source,id,start,end,scope,state,cause\n"
        "ops,1,2026-01-01T00:00:00Z,2026-01-01T10:00:00Z,a1,down,host/dram\n",
        "old.csv": HEAD + "list,H100,USD,2,2026-01-01T02:00:00Z,,,list\n",
        "new.csv": HEAD + "list,H100,USD,2.5,2026-01-01,2026-01-01T06:00:00Z,,contracted\n",
    }
    for name, content in files.items():
        (tmp_path / name).write_text(content)
    for command in ("db upgrade", "fleet load fleet.csv", "import evidence said.csv", "rates load old.csv"):
        assert cli(*command.split()).code == 0
    missing = cli("rates", "reprice", "new.csv")
    assert (missing.code, missing.out) == (2, "")
    assert "Missing option '--reason'" in missing.err
    blank = cli("rates", "reprice", "new.csv", "--reason", " ")
    assert (blank.code, blank.err) == (2, "gpu-minutes: --reason is blank; say why the price changes backwards\n")
    # Before: 8 h x 4 x 2 = 64; after: 6 h x 4 x 2.5 + 4 h x 4 x 2 = 92.
    assert cli("rates", "reprice", "new.csv", "--reason", "signed late").out == (
        "card list, H100, USD: no price -> 2.5, from 2026-01-01T00:00:00Z until 2026-01-01T02:00:00Z\n"
        "card list, H100, USD: 2 (list) -> 2.5 (contracted), from 2026-01-01T02:00:00Z until 2026-01-01T06:00:00Z\n"
        "card list, cost of all booked loss: 64.00 -> 92.00 USD (+28.00)\n"
        "card list, lost GPU-minutes with a price: 1,920 -> 2,400\n"
        "revision 4; no entry changed, and revision 3 keeps its prices\n"
    )
    assert cli("rates", "reprice", "new.csv", "--reason", "again").out == (
        "1 rates, all of them say what stands already; nothing changed\n"
    )
    assert '"cost_of_loss": "64.00"' in cli("goodput", "--as-of", 3, "--format", "json").out
    assert '"cost_of_loss": "92.00"' in cli("goodput", "--format", "json").out


def test_revisions_of_rates_only_close(database_url: str) -> None:
    engine = outage(database_url)
    rev = reprice(engine, rate(5, 4, 6)).done.rev
    with engine.connect() as connection:
        rows = connection.execute(text("select lower(revs), upper(revs) from rate order by id")).all()
    assert [tuple(row) for row in rows] == [(3, rev), (rev, None), (rev, None), (rev, None)]
