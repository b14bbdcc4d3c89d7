"""Goodput, availability and the cost of loss of a window, with the rows of one grouping. Parts sum to the whole."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from sqlalchemy import Connection, text

from warehouse.ledger.laws import LawBroken, installed_gpu_ms
from warehouse.model.state import ALLOCATED, PPM, UNAVAILABLE, GpuTimeClass, State
from warehouse.model.time import format_instant
from warehouse.views import counts, exact
from warehouse.views.question import Question
from warehouse.views.tiles import CHARGED, GROUPINGS, Area, areas, total

__all__ = ["GROUPINGS", "goodput"]

_MAINTENANCE = frozenset({State.MAINTENANCE})


def goodput(connection: Connection, question: Question, by: str = "state") -> dict[str, object]:
    """Gives the answer in the shape of `goodput --format json`.

    Laws: the six classes sum to `installed_gpu_ms`, and so do the rows' `gpu_ms`; the rows' `lost_gpu_ms` sum to
    lost time; for groupings other than state and class the rows' `cost_of_loss` sum to the headline, in each currency.

    Raises:
        LawBroken: when the tiles do not sum to the area of tenure.
    """
    found = areas(connection, question, by)
    installed = installed_gpu_ms(question.tenure, question.window)
    booked = sum(area.gpu_ppm for area in found)
    if booked != installed * PPM:
        raise LawBroken("conservation", f"tiles by {by} sum to {booked} / {PPM} GPU-ms, tenure is {installed}")
    classes = _classes(found, installed)
    whole = installed * PPM
    allocated, unavailable = total(found, ALLOCATED), total(found, UNAVAILABLE)
    planned = total(found, _MAINTENANCE)
    good = whole * PPM - sum(area.not_good for area in found)
    presumed = sum(area.gpu_ppm for area in found if area.basis == "presumed")
    return {
        "window": {"from": format_instant(question.window.start_ms), "to": format_instant(question.window.end_ms)},
        **({} if question.site is None else {"site": question.site}),
        "revision": question.rev,
        "provisional": question.provisional,
        "currency": question.currency,
        "price_card": question.card,
        "installed_gpu_ms": installed,
        "allocated_gpu_ms": exact.rounded(allocated, PPM),
        "classes": {name.value: classes[name] for name in GpuTimeClass},
        "goodput_of_installed": exact.ratio(good, whole * PPM),
        "goodput_of_allocated": exact.ratio(good, allocated * PPM),
        "availability": exact.ratio(whole - unavailable, whole),
        "availability_excluding_planned": exact.ratio(whole - unavailable + planned, whole),
        "presumed_share": exact.ratio(presumed, whole),
        **_headline_cost(found, question),
        "unpriced_gpu_ms": exact.rounded(sum(area.gpu_ppm for area in found if area.price is None), PPM),
        "contested_gpu_ms": exact.rounded(sum(area.gpu_ppm for area in found if area.basis == "conflict"), PPM),
        "declared_late_gpu_ms": exact.rounded(_declared_late(connection, found), PPM),
        "rows": _rows(connection, question, by, found, classes),
    }


def _classes(found: Iterable[Area], installed: int) -> dict[GpuTimeClass, int]:
    """Splits each partial entry: the kept part is good, the lost part is its class; rounded to sum exactly."""
    sums: dict[GpuTimeClass, int] = dict.fromkeys(GpuTimeClass, 0)
    for area in found:
        sums[area.gpu_class] += area.not_good
        sums[GpuTimeClass.GOOD] += area.gpu_ppm * PPM - area.not_good
    return dict(zip(GpuTimeClass, exact.parts(list(sums.values()), exact.LOST, installed), strict=True))


def _headline_cost(found: Iterable[Area], question: Question) -> dict[str, object]:
    """Gives the cost of loss; where the window has several currencies, one amount of each and no sum of them."""
    sums = dict.fromkeys(question.currencies, 0)
    for area in found:
        if area.price is not None and area.gpu_class in CHARGED:
            sums[area.price.currency] += area.money
    shown = {currency: str(exact.amount(money, currency)) for currency, money in sums.items()}
    return cost_fields(shown, question)


def cost_fields(shown: Mapping[str, str], question: Question) -> dict[str, object]:
    """Gives the fields that say an amount: `cost_of_loss` in one currency, `costs` beside it where there are several.

    Args:
        shown: currency -> amount; a currency in which nothing has a price is absent.
        question: what was asked.
    """
    if len(question.currencies) > 1:
        return {"cost_of_loss": None, "costs": {name: shown[name] for name in question.currencies if name in shown}}
    return {"cost_of_loss": None if question.currency is None else shown.get(question.currency)}


def _declared_late(connection: Connection, found: Iterable[Area]) -> int:
    """Gives planned GPU-ms x 1e6 whose plan was declared after it began."""
    planned: dict[int, int] = defaultdict(int)
    for area in found:
        if area.plan is not None:
            planned[area.plan] += area.gpu_ppm
    if not planned:
        return 0
    late = connection.execute(
        text("select id from evidence where id = any(:ids) and declared_at > start_at"), {"ids": list(planned)}
    ).scalars()
    return sum(planned[number] for number in late)


def _rows(
    connection: Connection, question: Question, by: str, found: Sequence[Area], classes: dict[GpuTimeClass, int]
) -> list[dict[str, object]]:
    keys, gpu_ms = _keyed_areas(found, by, classes)
    lost_sums: dict[str, int] = dict.fromkeys(keys, 0)
    for area in found:
        if area.state != State.UNKNOWN:
            lost_sums[_key(area, by)] += area.lost
    lost = exact.parts(list(lost_sums.values()), exact.LOST)
    costs = _costs(keys, gpu_ms, found, by, question)
    incidents = counts.incidents_by(connection, question, by)
    return [
        {
            "key": key,
            "gpu_ms": gpu_ms[key],
            "lost_gpu_ms": lost_ms,
            **cost_fields(costs[key], question),
            "incidents": incidents.get(key, 0),
        }
        for key, lost_ms in zip(keys, lost, strict=True)
    ]


def _costs(
    keys: Sequence[str], gpu_ms: Mapping[str, int], found: Iterable[Area], by: str, question: Question
) -> dict[str, dict[str, str]]:
    """Gives each row its amount per currency; the rows of the cost of loss sum to it, the rest among themselves."""
    pure = by in ("state", "class")
    money: dict[str, dict[str, int]] = {currency: dict.fromkeys(keys, 0) for currency in question.currencies}
    priced: dict[str, set[str]] = {currency: set() for currency in question.currencies}
    charged: set[str] = set()
    for area in found:
        key = _key(area, by)
        if area.gpu_class in CHARGED:
            charged.add(key)
        if area.price is None:
            continue
        # The kept part of a partial state is good time, and priced like the rest of it.
        priced[area.price.currency].update({key} | ({GpuTimeClass.GOOD.value} if by == "class" else set()))
        if pure or area.gpu_class in CHARGED:
            money[area.price.currency][key] += area.money
    costs: dict[str, dict[str, str]] = {key: {} for key in keys}
    for currency, sums in money.items():
        for wanted in (True, False):
            part = [key for key in keys if (key in charged) is wanted]
            for key, amount in zip(part, exact.amounts([sums[key] for key in part], currency), strict=True):
                if key in priced[currency] or (not gpu_ms[key] and len(money) == 1):
                    costs[key][currency] = str(amount)
    return costs


def _key(area: Area, by: str) -> str:
    if by == "class":
        return area.gpu_class.value
    return area.state if by == "state" else area.key


def _keyed_areas(
    found: Sequence[Area], by: str, classes: Mapping[GpuTimeClass, int]
) -> tuple[list[str], dict[str, int]]:
    """Gives the keys in reading order and the area of each, rounded so that they sum to installed."""
    if by == "class":
        return [name.value for name in GpuTimeClass], {name.value: classes[name] for name in GpuTimeClass}
    sums: dict[str, int] = defaultdict(int)
    lost: dict[str, int] = defaultdict(int)
    for area in found:
        key = _key(area, by)
        sums[key] += area.gpu_ppm
        if area.gpu_class in CHARGED:
            lost[key] += area.lost
    keys: list[str]
    if by == "state":
        keys = [state.value for state in State if state.value in sums]
    elif by in ("day", "month"):
        keys = sorted(sums)
    else:
        # The costliest first; what belongs to nothing comes last and is always shown.
        keys = sorted(sums, key=lambda key: (key == "none", -lost[key], key))
    shown = exact.parts([sums[key] for key in keys], PPM)
    return keys, dict(zip(keys, shown, strict=True))
