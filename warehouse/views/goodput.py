"""Goodput, availability and the cost of loss of a window, with the rows of one grouping. Parts sum to the whole."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from decimal import Decimal
from fractions import Fraction

from sqlalchemy import Connection

from warehouse.ledger.laws import LawBroken, installed_gpu_ms
from warehouse.ledger.price import cost, displayed, displayed_parts, largest_remainder
from warehouse.model.state import ALLOCATED, PPM, UNAVAILABLE, GpuTimeClass, State
from warehouse.model.time import format_instant
from warehouse.store import fleet
from warehouse.views import counts
from warehouse.views.question import Question
from warehouse.views.tiles import (
    CHARGED,
    PARTS,
    Area,
    PricedArea,
    areas,
    gpu_class,
    not_good_ms_ppm,
    priced_areas,
)

GROUPINGS = tuple(PARTS)

_RATIO_DIGITS = 4


def goodput(connection: Connection, question: Question, by: str = "state") -> dict[str, object]:
    """Gives the answer in the shape of `goodput --format json`.

    Laws: the six classes sum to `installed_gpu_ms`, and so do the rows' `gpu_ms`; the rows' `lost_gpu_ms` sum to
    lost time; for groupings other than state and class the rows' `cost_of_loss` sum to the headline.

    Raises:
        LawBroken: when the tiles do not sum to the area of tenure.
    """
    found = areas(connection, question, by)
    priced = priced_areas(connection, question, by)
    installed = sum(area.gpu_ms for area in found)
    tenure = installed_gpu_ms(fleet.tenure_blocks(connection, question.rev), question.window)
    if installed != tenure:
        raise LawBroken("conservation", f"tiles by {by} sum to {installed} GPU-ms, tenure is {tenure}")
    classes = _classes(found, installed)
    good = classes[GpuTimeClass.GOOD]
    allocated = _area(found, ALLOCATED)
    presumed = sum(area.gpu_ms for area in found if area.presumed)
    charged = sum((_price(p) for p in priced if gpu_class(p) in CHARGED), Fraction(0))
    cost_of_loss = None if question.currency is None else displayed(charged, question.currency)
    return {
        "window": {"from": format_instant(question.window.start_ms), "to": format_instant(question.window.end_ms)},
        "revision": question.rev,
        "provisional": question.provisional,
        "currency": question.currency,
        "price_card": question.card,
        "installed_gpu_ms": installed,
        "allocated_gpu_ms": allocated,
        "classes": {name.value: classes[name] for name in GpuTimeClass},
        "goodput_of_installed": _ratio(good, installed),
        "goodput_of_allocated": _ratio(good, allocated),
        "availability": _ratio(installed - _area(found, UNAVAILABLE), installed),
        "presumed_share": _ratio(presumed, installed),
        "cost_of_loss": None if cost_of_loss is None else str(cost_of_loss),
        "unpriced_gpu_ms": installed - sum(p.gpu_ms for p in priced),
        "rows": _rows(connection, question, by, found, priced, classes),
    }


def _classes(found: Iterable[Area], installed: int) -> dict[GpuTimeClass, int]:
    """Splits each partial entry: the kept part is good, the lost part is its class; rounded to sum exactly."""
    exact: dict[GpuTimeClass, int] = dict.fromkeys(GpuTimeClass, 0)
    for area in found:
        exact[gpu_class(area)] += not_good_ms_ppm(area)
        exact[GpuTimeClass.GOOD] += area.gpu_ms * PPM - not_good_ms_ppm(area)
    rounded = largest_remainder([Fraction(exact[name], PPM) for name in GpuTimeClass], installed)
    return dict(zip(GpuTimeClass, rounded, strict=True))


def _price(area: PricedArea) -> Fraction:
    return cost(not_good_ms_ppm(area), area.per_gpu_hour)


def _area(found: Iterable[Area], states: frozenset[State]) -> int:
    return sum(area.gpu_ms for area in found if State(area.state) in states)


def _ratio(part: int, whole: int) -> str | None:
    """Gives part / whole with four decimals, half-even; None where there is no whole to speak of."""
    if whole == 0:
        return None
    units = round(Fraction(part, whole) * 10**_RATIO_DIGITS)
    return f"{units // 10**_RATIO_DIGITS}.{units % 10**_RATIO_DIGITS:0{_RATIO_DIGITS}d}"


def _rows(
    connection: Connection,
    question: Question,
    by: str,
    found: Sequence[Area],
    priced: Sequence[PricedArea],
    classes: dict[GpuTimeClass, int],
) -> list[dict[str, object]]:
    pure = by in ("state", "class")
    keys, gpu_ms = _keyed_areas(found, by, classes)
    lost_exact: dict[str, int] = defaultdict(int)
    for area in found:
        if area.state != State.UNKNOWN:
            lost_exact[_key(area, by)] += area.lost_ms_ppm
    total_lost = round(Fraction(sum(lost_exact.values()), PPM))
    lost = largest_remainder([Fraction(lost_exact[key], PPM) for key in keys], total_lost)
    money: dict[str, Fraction] = defaultdict(Fraction)
    has_price: set[str] = set()
    charged: set[str] = set()
    for p in priced:
        if pure or gpu_class(p) in CHARGED:
            money[_key(p, by)] += _price(p)
        if gpu_class(p) in CHARGED:
            charged.add(_key(p, by))
        # The kept part of a partial state is good time, and priced like the rest of it.
        has_price.update({_key(p, by)} | ({GpuTimeClass.GOOD.value} if by == "class" else set()))
    costs: list[str | None] = [None] * len(keys)
    if question.currency is not None:
        shown = _amounts(keys, money, charged, question.currency)
        costs = [str(shown[key]) if key in has_price or not gpu_ms[key] else None for key in keys]
    incidents = counts.incidents_by(connection, question, by)
    return [
        {
            "key": key,
            "gpu_ms": gpu_ms[key],
            "lost_gpu_ms": lost_ms,
            "cost_of_loss": amount,
            "incidents": incidents.get(key, 0),
        }
        for key, lost_ms, amount in zip(keys, lost, costs, strict=True)
    ]


def _amounts(keys: Sequence[str], money: dict[str, Fraction], charged: set[str], currency: str) -> dict[str, Decimal]:
    """Rounds the rows of the cost of loss so that they sum to it as it is shown, and the rest among themselves."""
    shown: dict[str, Decimal] = {}
    for wanted in (True, False):
        part = [key for key in keys if (key in charged) is wanted]
        shown |= dict(zip(part, displayed_parts([money[key] for key in part], currency), strict=True))
    return shown


def _key(area: Area | PricedArea, by: str) -> str:
    return gpu_class(area).value if by == "class" else area.key


def _keyed_areas(found: Iterable[Area], by: str, classes: dict[GpuTimeClass, int]) -> tuple[list[str], dict[str, int]]:
    """Gives the keys in reading order and the whole area of each."""
    if by == "class":
        return [name.value for name in GpuTimeClass], {name.value: classes[name] for name in GpuTimeClass}
    gpu_ms: dict[str, int] = defaultdict(int)
    for area in found:
        gpu_ms[area.key] += area.gpu_ms
    if by == "state":
        return [state.value for state in State if state.value in gpu_ms], gpu_ms
    if by in ("day", "month"):
        return sorted(gpu_ms), gpu_ms
    lost: dict[str, int] = defaultdict(int)
    for area in found:
        if gpu_class(area) in CHARGED:
            lost[area.key] += area.lost_ms_ppm
    # The costliest first; what belongs to nothing comes last and is always shown.
    return sorted(gpu_ms, key=lambda key: (key == "none", -lost[key], key)), gpu_ms
