"""Which price holds: small cases by hand, and laws against a second opinion that looks at one instant at a time."""

from __future__ import annotations

from decimal import Decimal

from hypothesis import given, settings
from hypothesis import strategies as st

from warehouse.ledger.repricing import replaced
from warehouse.ledger.tariff import PriceBlock, ambiguous, moved, price_blocks, unpriced
from warehouse.model.fleet import Site, TenureBlock
from warehouse.model.rate import RateLine, RateSpec

SLOTS, INSTANTS = range(6), range(14)


def site(low: int, high: int, currency: str | None, number: int = 1) -> Site:
    return Site(number, f"s{number}", ((low, high),), "UTC", currency)


def rate(price: int, start: int, end: int | None = None, **more: str) -> RateSpec:
    said = {"card": "list", "model": "H100", "currency": "USD"} | more
    contract = said.get("contract")
    return RateSpec(said["card"], said["model"], said["currency"], Decimal(price), start, end, contract)


def tenure(low: int, high: int, start: int, end: int | None, contract: str | None = None) -> TenureBlock:
    return TenureBlock(((low, high),), start, end, "H100", False, contract)


def said(blocks: list[PriceBlock], slot: int, at: int) -> tuple[str, Decimal] | None:
    """Gives the one price of an instant; two would be a broken law."""
    here = [b for b in blocks if b.start_ms <= at < b.end_ms and any(low <= slot < high for low, high in b.slots)]
    assert len(here) <= 1
    return (here[0].currency, here[0].per_gpu_hour) if here else None


def picture(blocks: list[PriceBlock], slot: int, instants: int) -> str:
    """Gives a digit an instant, a dot where nothing has a price."""
    found = [said(blocks, slot, at) for at in range(instants)]
    return "".join("." if price is None else str(price[1]) for price in found)


def test_the_own_contract_goes_before_the_general_price_and_its_holes_take_the_general_one() -> None:
    blocks = price_blocks(
        [tenure(0, 1, 0, 9, "gold"), tenure(1, 2, 0, 9, "tin"), tenure(2, 3, 0, 9)],
        [rate(2, 1, 7), rate(1, 2, 4, contract="gold"), rate(3, 5, 9, contract="gold")],
        [site(0, 3, "USD")],
        "list",
    )
    assert picture(blocks, 0, 9) == ".21123333"
    assert picture(blocks, 1, 9) == ".222222.."
    assert picture(blocks, 2, 9) == ".222222.."
    assert {block.contract for block in blocks} == {"gold", "tin", None}


def test_the_currency_of_the_site_picks() -> None:
    rates = [rate(2, 0, currency="USD"), rate(3, 0, currency="EUR")]
    blocks = price_blocks(
        [tenure(0, 3, 0, 2)], rates, [site(0, 1, "USD", 1), site(1, 2, "EUR", 2), site(2, 3, "JPY", 3)], "list"
    )
    assert [said(blocks, slot, 0) for slot in range(3)] == [("USD", Decimal(2)), ("EUR", Decimal(3)), None]


def test_a_site_without_a_currency_takes_the_only_one_and_none_where_two_would_do() -> None:
    rates = [rate(2, 0, 6, currency="USD"), rate(3, 4, 9, currency="EUR")]
    blocks = price_blocks([tenure(0, 1, 0, None)], rates, [site(0, 1, None)], "list")
    assert picture(blocks, 0, 10) == "2222..333."
    assert list(ambiguous([tenure(0, 1, 0, None)], rates, [site(0, 1, None)])) == [(site(0, 1, None), *rates)]
    assert list(ambiguous([tenure(0, 1, 0, None)], rates, [site(0, 1, "USD")])) == []
    assert list(ambiguous([tenure(0, 1, 0, 4)], rates, [site(0, 1, None)])) == []


def test_two_contracts_that_nobody_can_pick_from_do_not_fall_back_on_the_general_price() -> None:
    rates = [rate(1, 0, contract="c"), rate(2, 0, 3, contract="c", currency="EUR"), rate(7, 0)]
    blocks = price_blocks([tenure(0, 1, 0, 5, "c")], rates, [site(0, 1, None)], "list")
    assert picture(blocks, 0, 5) == "...11"


def test_what_no_rate_covers_is_said_with_its_gpus_and_its_time() -> None:
    blocks = [tenure(0, 2, 0, None), tenure(4, 6, 0, None), tenure(2, 4, 3, 9, "gold")]
    gaps = unpriced(blocks, [rate(2, 5, 8)], [site(0, 3, "USD", 1), site(3, 6, "USD", 2)], "list")
    assert [(g.slots, g.start_ms, g.end_ms, g.contract) for g in gaps] == [
        (((0, 2), (4, 6)), 0, 5, None),
        (((2, 4),), 3, 5, "gold"),
        (((0, 2), (4, 6)), 8, None, None),
        (((2, 4),), 8, 9, "gold"),
    ]
    assert unpriced(blocks, [rate(2, 0)], [site(0, 6, None)], "list") == []


def test_another_card_prices_nothing() -> None:
    assert price_blocks([tenure(0, 1, 0, 9)], [rate(2, 0, card="power")], [site(0, 1, "USD")], "list") == []


CONTRACTS, CURRENCIES = (None, "gold"), ("EUR", "USD")
spans = st.lists(st.tuples(st.integers(0, 12), st.integers(1, 6), st.booleans()), max_size=3)


@st.composite
def rate_lists(draw: st.DrawFn) -> list[RateSpec]:
    """Rates whose lines do not overlap; the last of a line may be open."""
    found = []
    for contract in CONTRACTS:
        for currency in CURRENCIES:
            at = 0
            for start, length, is_open in draw(spans):
                if start < at:
                    continue
                at = start + length
                price = draw(st.integers(1, 3))
                found.append(RateSpec("list", "H100", currency, Decimal(price), start, at, contract))
                if is_open:
                    found[-1] = RateSpec("list", "H100", currency, Decimal(price), start, None, contract)
                    break
    return draw(st.permutations(found))


@st.composite
def fleets(draw: st.DrawFn) -> tuple[list[TenureBlock], list[Site]]:
    blocks = []
    for low in (0, 2, 4):
        at = 0
        for start, length, is_open in draw(spans):
            if start < at:
                continue
            at = start + length
            blocks.append(tenure(low, low + 2, start, None if is_open else at, draw(st.sampled_from(CONTRACTS))))
            if is_open:
                break
    cut = draw(st.integers(1, 5))
    picks = st.sampled_from((None, *CURRENCIES))
    return blocks, [site(0, cut, draw(picks), 1), site(cut, 6, draw(picks), 2)]


def holds(start: int, end: int | None, at: int) -> bool:
    return start <= at and (end is None or at < end)


def oracle(
    blocks: list[TenureBlock], rates: list[RateSpec], sites: list[Site], slot: int, at: int
) -> tuple[bool, tuple[str, Decimal] | None]:
    """Tells whether a GPU is installed at an instant, and its price."""
    here = [b for b in blocks if holds(b.start_ms, b.end_ms, at) and b.slots[0][0] <= slot < b.slots[0][1]]
    if not here:
        return False, None
    (block,) = here
    (place,) = [s for s in sites if s.slots[0][0] <= slot < s.slots[0][1]]
    active = [r for r in rates if holds(r.start_ms, r.end_ms, at) and place.currency in (None, r.currency)]
    own = [r for r in active if block.contract is not None and r.contract == block.contract]
    tier = own or [r for r in active if r.contract is None]
    return True, (tier[0].currency, tier[0].per_gpu_hour) if len(tier) == 1 else None


@settings(max_examples=60)
@given(fleets(), rate_lists())
def test_every_instant_has_the_price_that_its_rates_say_or_none(
    fleet: tuple[list[TenureBlock], list[Site]], rates: list[RateSpec]
) -> None:
    blocks = price_blocks(fleet[0], rates, fleet[1], "list")
    gaps = unpriced(fleet[0], rates, fleet[1], "list")
    for slot in SLOTS:
        for at in INSTANTS:
            installed, price = oracle(*fleet[:1], rates, fleet[1], slot, at)
            assert said(blocks, slot, at) == price
            bare = [g for g in gaps if holds(g.start_ms, g.end_ms, at) and any(a <= slot < b for a, b in g.slots)]
            assert len(bare) == (installed and price is None)


@settings(max_examples=60)
@given(fleets(), rate_lists(), rate_lists(), st.integers(0, 14))
def test_moved_is_every_instant_that_had_a_price_and_has_another(
    fleet: tuple[list[TenureBlock], list[Site]], old: list[RateSpec], new: list[RateSpec], until: int
) -> None:
    before, after = (price_blocks(fleet[0], rates, fleet[1], "list") for rates in (old, new))
    moves = moved(before, after, until)
    for slot in SLOTS:
        for at in INSTANTS:
            here = [
                m for m in moves if m.start_ms <= at < m.end_ms and any(a <= slot < b for a, b in m.old.slots)
            ]  # fmt: skip
            was, now = said(before, slot, at), said(after, slot, at)
            assert len(here) == (at < until and was is not None and was != now)
            for move in here:
                assert (move.new is None) == (now is None)


def at_instant(rates: list[RateSpec], line: RateLine, at: int) -> Decimal | None:
    here = [r.per_gpu_hour for r in rates if r.line == line and holds(r.start_ms, r.end_ms, at)]
    assert len(here) <= 1
    return here[0] if here else None


@settings(max_examples=60)
@given(rate_lists(), rate_lists())
def test_repricing_puts_the_new_over_the_old_and_tells_exactly_what_differs(
    stored: list[RateSpec], specs: list[RateSpec]
) -> None:
    standing, changes = replaced(stored, specs)
    for line in {r.line for r in (*stored, *specs)}:
        for at in INSTANTS:
            old, new = at_instant(stored, line, at), at_instant(specs, line, at)
            assert at_instant(standing, line, at) == (old if new is None else new)
            told = [c for c in changes if c.new.line == line and holds(c.start_ms, c.end_ms, at)]
            assert len(told) == (new is not None and new != old)
            for change in told:
                assert (change.old.per_gpu_hour if change.old else None, change.new.per_gpu_hour) == (old, new)
    assert replaced(standing, specs) == (standing, [])


def test_repricing_cuts_one_rate_into_what_remains_before_and_after() -> None:
    stored = [RateSpec("list", "H100", "USD", Decimal(2), 0, None, None, "list", 7)]
    standing, changes = replaced(stored, [rate(3, 4, 6)])
    assert sorted((r.start_ms, r.end_ms, int(r.per_gpu_hour), r.basis) for r in standing if r.end_ms) == [
        (0, 4, 2, "list"),
        (4, 6, 3, None),
    ]
    assert [(r.start_ms, r.basis) for r in standing if r.end_ms is None] == [(6, "list")]
    assert [(c.old, c.start_ms, c.end_ms) for c in changes] == [(stored[0], 4, 6)]


def test_the_same_price_on_another_basis_is_a_change_and_other_cuts_are_none() -> None:
    old = RateSpec("list", "H100", "USD", Decimal(2), 0, None, None, "list")
    new = RateSpec("list", "H100", "USD", Decimal(2), 0, None, None, "contracted")
    assert replaced([old], [new])[0] == [new]
    halves = [rate(2, 0, 5), rate(2, 5)]
    assert replaced(halves, [rate(2, 0)]) == (halves, [])
