"""Where installed time went on its way to good: by class and state, by cause, and over the calendar.

An amount stands in `cost` where the window has one currency, and in `costs` by currency where it has several.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal

from sqlalchemy import Connection

from warehouse.causes import load_causes
from warehouse.model.state import PPM, GpuTimeClass, State
from warehouse.views import exact
from warehouse.views.question import Question
from warehouse.views.tiles import CHARGED, Area, areas

Costs = Mapping[str, Decimal]


@dataclass(frozen=True, slots=True)
class Part:
    """One step from installed to good; `cost` is None where no price is known."""

    gpu_class: GpuTimeClass
    state: State
    gpu_ms: int
    cost: Decimal | None
    costs: Costs = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CauseLoss:
    """The charged loss of one cause; `code` None is loss that has no cause."""

    code: str | None
    title: str
    lost_gpu_ms: int
    cost: Decimal | None
    costs: Costs = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Bucket:
    """A day or month: installed time, and the six classes that sum to it."""

    key: str
    installed_gpu_ms: int
    classes: Mapping[GpuTimeClass, int]


_Step = tuple[GpuTimeClass, State]


def bridge(connection: Connection, question: Question, classes: Mapping[str, int]) -> list[Part]:
    """Gives the steps from installed to good; good itself is the one with the state productive.

    Args:
        connection: the snapshot that `classes` was read from.
        question: the same question.
        classes: the six classes that `goodput` gave.

    Laws: the parts sum to installed; the parts of a class sum to that class in `goodput`; the costs of the charged
    classes sum to its `cost_of_loss`, in each currency.
    """
    sums: dict[_Step, int] = defaultdict(int)
    money: dict[str, dict[_Step, int]] = {currency: defaultdict(int) for currency in question.currencies}
    for area in areas(connection, question, "state"):
        for key, part in _split(area):
            sums[key] += part
            if area.price is not None:
                money[area.price.currency][key] += part * area.price.units
    shown = _amounts(money)
    steps = []
    for name in GpuTimeClass:
        keys = sorted((key for key in sums if key[0] is name), key=lambda key: key[1].value)
        sizes = exact.parts([sums[key] for key in keys], exact.LOST, classes[name.value])
        steps += [Part(*key, size, *_costs(shown[key], question)) for key, size in zip(keys, sizes, strict=True)]
    return steps


def cause_losses(connection: Connection, question: Question) -> list[CauseLoss]:
    """Gives the charged loss per cause, the largest first; loss without a cause comes last and is always there.

    Law: the costs sum to the `cost_of_loss` of `goodput`, in each currency.
    """
    sums: dict[str | None, int] = {None: 0}
    money: dict[str, dict[str | None, int]] = {currency: {} for currency in question.currencies}
    for area in areas(connection, question, "cause"):
        if area.gpu_class not in CHARGED:
            continue
        key = None if area.key == "none" else area.key
        sums[key] = sums.get(key, 0) + area.lost
        if area.price is not None:
            of = money[area.price.currency]
            of[key] = of.get(key, 0) + area.money
    keys = sorted(sums, key=lambda key: (key is None, -sums[key], key or ""))
    lost = exact.parts([sums[key] for key in keys], exact.LOST)
    shown: dict[str | None, dict[str, Decimal]] = {key: {} for key in keys}
    for currency, of in money.items():
        amounts = exact.amounts([of.get(key, 0) for key in keys], currency)
        for key, amount in zip(keys, amounts, strict=True):
            if key in of or (not sums[key] and question.currency is not None):
                shown[key][currency] = amount
    return [CauseLoss(key, _title(key), ms, *_costs(shown[key], question)) for key, ms in zip(keys, lost, strict=True)]


def calendar(connection: Connection, question: Question, by: str) -> list[Bucket]:
    """Gives a bucket per `day` or `month` of the window; the classes of a bucket sum to its installed time."""
    installed: dict[str, int] = defaultdict(int)
    sums: dict[str, dict[GpuTimeClass, int]] = defaultdict(lambda: dict.fromkeys(GpuTimeClass, 0))
    for area in areas(connection, question, by):
        installed[area.key] += area.gpu_ppm
        for (name, _), part in _split(area):
            sums[area.key][name] += part
    buckets = []
    for key in sorted(installed):
        # A bucket is a whole number of GPU-ms whatever is shared in it.
        whole = exact.rounded(installed[key], PPM)
        sizes = exact.parts(list(sums[key].values()), exact.LOST, whole)
        buckets.append(Bucket(key, whole, dict(zip(GpuTimeClass, sizes, strict=True))))
    return buckets


def _split(area: Area) -> Iterable[tuple[_Step, int]]:
    """Splits an area into its class and what of it was good, in GPU-ms x 1e12."""
    lost = area.not_good
    if lost:
        yield (area.gpu_class, State(area.state)), lost
    if kept := area.gpu_ppm * PPM - lost:
        yield (GpuTimeClass.GOOD, State.PRODUCTIVE), kept


def _amounts(money: Mapping[str, Mapping[_Step, int]]) -> Mapping[_Step, dict[str, Decimal]]:
    """Rounds the charged amounts so that they sum to the headline, and the rest among themselves; by currency."""
    shown: dict[_Step, dict[str, Decimal]] = defaultdict(dict)
    for currency, sums in money.items():
        for charged in (True, False):
            keys = [key for key in sums if (key[0] in CHARGED) is charged]
            for key, amount in zip(keys, exact.amounts([sums[key] for key in keys], currency), strict=True):
                shown[key][currency] = amount
    return shown


def _costs(shown: Costs, question: Question) -> tuple[Decimal | None, Costs]:
    """Gives what stands in `cost` and in `costs`."""
    if question.currency is not None:
        return shown.get(question.currency), {}
    return None, shown


def _title(code: str | None) -> str:
    if code is None:
        return "Overhead without a cause"
    found = load_causes().get(code)
    return code if found is None else found.title
