"""The axes by themselves: every slot of a rectangle lands in its segment, gaps are bridged, prices cut."""

from __future__ import annotations

from collections import Counter
from decimal import Decimal

from hypothesis import given
from hypothesis import strategies as st

from warehouse.ledger.tariff import price_blocks
from warehouse.model.fleet import Site, TenureBlock
from warehouse.model.rate import RateSpec
from warehouse.model.slots import normalise
from warehouse.model.time import Window
from warehouse.views.axis import Axes, bridged, spread

_RANGES = st.lists(st.tuples(st.integers(0, 60), st.integers(1, 20)), min_size=1, max_size=6).map(
    lambda pairs: normalise((low, low + width) for low, width in pairs)
)
_WINDOW = Window(0, 1_000)


@given(
    st.lists(st.integers(1, 79), max_size=10), st.lists(st.tuples(st.integers(0, 79), st.integers(1, 80)), max_size=8)
)
def test_rectangles_are_spread_slot_by_slot(cuts: list[int], rectangles: list[tuple[int, int]]) -> None:
    places = [(low, low + 1, str(low)) for low in sorted({0, *cuts})]
    axes = Axes(_WINDOW, (), (), places)
    wanted: Counter[int] = Counter()
    given_ms = [(low, min(low + width, 80), 7 + low) for low, width in rectangles]
    for low, high, ms in given_ms:
        for slot in range(low, high):
            wanted[axes.segment(slot)] += ms
    assert Counter(spread(axes, given_ms)) == wanted


@given(_RANGES, _RANGES)
def test_only_what_no_gpu_ever_sat_in_is_bridged(
    one: tuple[tuple[int, int], ...], other: tuple[tuple[int, int], ...]
) -> None:
    blocks = [TenureBlock(one, 0, 5, "A", False), TenureBlock(other, 5, None, "B", False)]
    installed = {slot for low, high in (*one, *other) for slot in range(low, high)}
    for before, after in zip(blocks, bridged(blocks), strict=True):
        old = {slot for low, high in before.slots for slot in range(low, high)}
        new = {slot for low, high in after.slots for slot in range(low, high)}
        assert new & installed == old


def test_a_cell_has_the_model_and_price_of_its_gpus() -> None:
    tenure = [
        TenureBlock(((0, 4), (8, 12)), 0, None, "A", False),
        TenureBlock(((16, 20),), 100, 400, "A", False),
        TenureBlock(((16, 20),), 600, None, "B", False),
    ]
    rates = [
        RateSpec("list", "A", "USD", Decimal(2), 0, 500, id=1),
        RateSpec("list", "A", "USD", Decimal(3), 500, id=2),
    ]
    sites = [Site(1, "s", ((0, 32),), "UTC", None)]
    axes = Axes(_WINDOW, tenure, price_blocks(tenure, rates, sites, "list"))
    # The hole between the two nodes needs no cut; in time there are the rate's, and the one where a GPU is replaced.
    assert axes.slot_cuts == [16]
    assert axes.time_cuts == [500, 600]
    found = {(slot, at): axes.cell(axes.segment(slot), axes.span(at)) for slot in (0, 9, 17) for at in (200, 550, 700)}
    units = {key: None if cell.price is None else cell.price.units // 10**8 for key, cell in found.items()}
    assert units == {
        (0, 200): 2, (0, 550): 3, (0, 700): 3, (9, 200): 2, (9, 550): 3, (9, 700): 3,
        (17, 200): 2, (17, 550): 2, (17, 700): None,
    }  # fmt: skip
    assert (found[17, 200].model, found[17, 700].model) == ("A", "B")
