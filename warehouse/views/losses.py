"""Where installed time went on its way to good: by class and state, by cause, and over the calendar."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

from sqlalchemy import Connection

from warehouse.causes import load_causes
from warehouse.ledger.price import cost, displayed_parts, largest_remainder
from warehouse.model.state import PPM, GpuTimeClass, State
from warehouse.views.question import Question
from warehouse.views.tiles import (
    CHARGED,
    Area,
    PricedArea,
    areas,
    gpu_class,
    not_good_ms_ppm,
    priced_areas,
)


@dataclass(frozen=True, slots=True)
class Part:
    """One step from installed to good; `cost` is None where no price is known."""

    gpu_class: GpuTimeClass
    state: State
    gpu_ms: int
    cost: Decimal | None


@dataclass(frozen=True, slots=True)
class CauseLoss:
    """The charged loss of one cause; `code` None is loss that has no cause."""

    code: str | None
    title: str
    lost_gpu_ms: int
    cost: Decimal | None


@dataclass(frozen=True, slots=True)
class Bucket:
    """A day or month: installed time, and the six classes that sum to it."""

    key: str
    installed_gpu_ms: int
    classes: Mapping[GpuTimeClass, int]


def bridge(connection: Connection, question: Question, classes: Mapping[str, int]) -> list[Part]:
    """Gives the steps from installed to good; good itself is the one with the state productive.

    Args:
        connection: the snapshot that `classes` was read from.
        question: the same question.
        classes: the six classes that `goodput` gave.

    Laws: the parts sum to installed; the parts of a class sum to that class in `goodput`; the costs of the charged
    classes sum to its `cost_of_loss`.
    """
    exact: dict[tuple[GpuTimeClass, State], int] = defaultdict(int)
    money: dict[tuple[GpuTimeClass, State], Fraction] = defaultdict(Fraction)
    for area in areas(connection, question, "state"):
        for key, part in _split(area):
            exact[key] += part
    for priced in priced_areas(connection, question, "state"):
        for key, part in _split(priced):
            money[key] += cost(part, priced.per_gpu_hour)
    shown = _amounts(money, question.currency)
    parts = []
    for name in GpuTimeClass:
        keys = sorted((key for key in exact if key[0] is name), key=lambda key: key[1].value)
        sizes = largest_remainder([Fraction(exact[key], PPM) for key in keys], classes[name.value])
        parts += [Part(*key, size, shown.get(key)) for key, size in zip(keys, sizes, strict=True)]
    return parts


def cause_losses(connection: Connection, question: Question) -> list[CauseLoss]:
    """Gives the charged loss per cause, the largest first; loss without a cause comes last and is always there.

    Law: the costs sum to the `cost_of_loss` of `goodput`.
    """
    exact: dict[str | None, int] = {None: 0}
    money: dict[str | None, Fraction] = defaultdict(Fraction)
    for area in areas(connection, question, "cause"):
        if gpu_class(area) in CHARGED:
            key = _cause(area.key)
            exact[key] = exact.get(key, 0) + area.lost_ms_ppm
    for priced in priced_areas(connection, question, "cause"):
        if gpu_class(priced) in CHARGED:
            money[_cause(priced.key)] += cost(priced.lost_ms_ppm, priced.per_gpu_hour)
    keys = sorted(exact, key=lambda key: (key is None, -exact[key], key or ""))
    lost = largest_remainder([Fraction(exact[key], PPM) for key in keys], round(Fraction(sum(exact.values()), PPM)))
    shown: list[Decimal | None] = [None] * len(keys)
    if question.currency is not None:
        rounded = displayed_parts([money[key] for key in keys], question.currency)
        shown = [a if key in money or not exact[key] else None for key, a in zip(keys, rounded, strict=True)]
    return [CauseLoss(key, _title(key), ms, amount) for key, ms, amount in zip(keys, lost, shown, strict=True)]


def calendar(connection: Connection, question: Question, by: str) -> list[Bucket]:
    """Gives a bucket per `day` or `month` of the window; the classes of a bucket sum to its installed time."""
    installed: dict[str, int] = defaultdict(int)
    exact: dict[str, dict[GpuTimeClass, int]] = defaultdict(lambda: dict.fromkeys(GpuTimeClass, 0))
    for area in areas(connection, question, by):
        installed[area.key] += area.gpu_ms
        for (name, _), part in _split(area):
            exact[area.key][name] += part
    buckets = []
    for key in sorted(installed):
        sizes = largest_remainder([Fraction(exact[key][name], PPM) for name in GpuTimeClass], installed[key])
        buckets.append(Bucket(key, installed[key], dict(zip(GpuTimeClass, sizes, strict=True))))
    return buckets


def _split(area: Area | PricedArea) -> list[tuple[tuple[GpuTimeClass, State], int]]:
    """Splits an area into its class and what of it was good, in GPU-ms x 1,000,000."""
    state = State(area.state)
    lost = not_good_ms_ppm(area)
    kept = area.gpu_ms * PPM - lost
    parts = [((gpu_class(area), state), lost)] if lost else []
    return parts + ([((GpuTimeClass.GOOD, State.PRODUCTIVE), kept)] if kept else [])


def _amounts(
    money: Mapping[tuple[GpuTimeClass, State], Fraction], currency: str | None
) -> dict[tuple[GpuTimeClass, State], Decimal]:
    """Rounds the charged amounts so that they sum to the headline, and the rest among themselves."""
    if currency is None:
        return {}
    shown: dict[tuple[GpuTimeClass, State], Decimal] = {}
    for charged in (True, False):
        keys = [key for key in money if (key[0] in CHARGED) is charged]
        shown |= dict(zip(keys, displayed_parts([money[key] for key in keys], currency), strict=True))
    return shown


def _cause(key: str) -> str | None:
    return None if key == "none" else key


def _title(code: str | None) -> str:
    if code is None:
        return "Overhead without a cause"
    found = load_causes().get(code)
    return code if found is None else found.title
