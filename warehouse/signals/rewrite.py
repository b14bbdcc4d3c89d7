"""One use of a family of ours in PromQL, said of another exporter's series: for detectors.

`promql` answers with every exporter at once and makes every label exact, which costs ten functions over every series.
A detector asks one exporter at a time and reads the few hits in Python, so here a PCI address stays as it is written,
and a function over a range goes around the foreign series where its unit allows it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from dataclasses import replace as replaced
from typing import Final

from exporter import metrics as m
from exporter.family import Family
from warehouse.signals.alias import NO_UUID, Alias, Dialect, Mask, Workload
from warehouse.signals.promql import (
    JOINED,
    Matcher,
    bits_reached,
    first_of,
    foreign_selector,
    labelled,
    mask_bits,
    missing_pattern,
    ranged,
    replace,
    select,
    with_matcher,
)

# Functions over a range that scale as their samples do, so that a unit may be changed behind them.
SCALING: Final = frozenset(
    {"rate", "irate", "increase", "delta", "idelta", "deriv"}
    | {f"{name}_over_time" for name in ("min", "max", "avg", "sum", "last", "stddev", "quantile")}
)
# Functions that only count: no unit at all.
COUNTING: Final = frozenset({"changes", "resets", "count_over_time", "present_over_time"})

# DCGM's INT32 stand-ins (exporter.screen.BLANKS): where no span of the family excludes them.
_BLANK_FROM, _BLANK_TO = 2147483632, 2147483635

# Families of which every GPU that answers has one, so that their labels name all GPUs and workloads.
EVERYWHERE: Final = (m.GPU_TEMPERATURE, m.GPU_POWER, m.GPU_UTILIZATION)


@dataclass(frozen=True, slots=True)
class Use:
    """A family as an expression uses it: its matchers, and the function over a range around it, if any.

    `before` and `behind` are the other arguments of that function, `range` what stands in the brackets. Of one that is
    used `loosely` more than the truth will do: a bit counts as set where the largest mask reaches it.
    `hosts` are matchers that exclude each other: series that one of them selects are meant.
    """

    family: Family
    matchers: tuple[Matcher, ...] = ()
    function: str = ""
    range: str = ""
    before: str = ""
    behind: str = ""
    offset: str = ""
    loosely: bool = False
    hosts: tuple[str, ...] = ()

    def around(self, series: str) -> str:
        """Gives the function around a selector, or the selector alone; of some hosts, where they are named."""
        if self.hosts:
            parts = [replaced(self, hosts=()).around(with_matcher(series, host)) for host in self.hosts]
            return f"({' or '.join(parts)})"
        if not self.function:
            return series + self.offset
        return f"{self.function}({self.before}{series}[{self.range}]{self.offset}{self.behind})"


def rewrite(use: Use, dialect: Dialect, node_labels: Sequence[str]) -> str | None:
    """Gives the same of another exporter's series, with labels `node`, `uuid`, `slot` and the family's own.

    `slot` is what the exporter writes, or its number of the GPU behind `index:`.

    Returns:
        PromQL, None where the exporter does not say it.
    """
    try:
        rows = list(_workloads(use, dialect)) if use.family is m.GPU_WORKLOAD_INFO else list(_rows(use, dialect))
    except ValueError:
        return None
    if not rows:
        return None
    text = f"({' or '.join(rows)})" if len(rows) > 1 else rows[0]
    if dialect.slot_info:
        by = dialect.uuid[0]
        info = f"topk by ({by}) (1, {dialect.slot_info})"
        text = f"({text} * on ({by}) group_left ({dialect.slot}) {info})"
    own = use.family.labels[2:]
    by = ", ".join(("node", "uuid", "slot", *own))
    if use.family is m.GPU_WORKLOAD_INFO and not use.function:
        # The labels are read off families of readings, whose values are no part of what is said.
        return f"group by ({by}) ({identified(text, dialect, node_labels)})"
    return f"max by ({by}) ({identified(text, dialect, node_labels)})"


def _rows(use: Use, dialect: Dialect) -> Iterable[str]:
    for row in dialect.rows:
        if isinstance(row, Mask) and row.family is use.family:
            if use.loosely and use.function == "max_over_time":
                yield from bits_reached(row, dialect, use.matchers, use.around)
            elif use.function:
                return
            else:
                yield from mask_bits(row, dialect, use.matchers)
        elif isinstance(row, Alias) and row.family is use.family:
            found = _alias(row, use, dialect)
            if found is not None:
                yield found


def _alias(row: Alias, use: Use, dialect: Dialect) -> str | None:
    if use.function and use.function not in SCALING | COUNTING:
        return None
    series = foreign_selector(row.name, dialect, use.family, row.labels, use.matchers)
    if series is None:
        return None
    if row.per_instance:
        series = with_matcher(series, f'{dialect.instance}=""')
    value = use.around(series)
    counts = use.function in COUNTING
    if dialect.blanks and row.span is None and not counts:
        value = f"({value} unless {value} >= {_BLANK_FROM} <= {_BLANK_TO})"
    if row.times != 1 and not counts:
        value = f"{value} * {row.times}"
    if row.per != 1 and not counts:
        value = f"{value} / {row.per}"
    if row.percent_above is not None:
        if use.function:
            return None
        value = f"({value} and on (job, instance) ({row.name} > {row.percent_above:g}))"
    gauge = not use.function or use.function.endswith("_over_time")
    value = ranged(value, row.span) if gauge and not counts else value
    return labelled(f"({value})", use.family, row.labels)


def _workloads(use: Use, dialect: Dialect) -> Iterable[str]:
    if use.function and use.function not in COUNTING:
        return
    names = [row.name for row in dialect.rows if isinstance(row, Alias) and row.family in EVERYWHERE]
    for workload in dialect.workloads:
        for name in workload.labels[workload.key]:
            asked = [f'__name__=~"{"|".join(names)}"', f'{name}!~"{missing_pattern()}"']
            made = _workload_matchers(use, workload)
            if made is None:
                continue
            value = use.around(select("", [*asked, *made]))
            if use.function:
                # A function drops the name, and what only differed in it would stand twice.
                alone = (use.around(select(one, [*asked[1:], *made])) for one in names)
                value = f"({' or '.join(alone)})"
            for label in use.family.labels[3:]:
                sources = workload.labels.get(label, ())
                value = first_of(value, label, sources) if sources else replace(value, label, "", "", "")
            yield replace(value, "kind", workload.kind, "", "")


def _workload_matchers(use: Use, workload: Workload) -> list[str] | None:
    """Gives the conditions as the exporter's labels know them; None where this kind of workload never fulfils them."""
    found = []
    for matcher in use.matchers:
        sources = workload.labels.get(matcher.label, ())
        if len(sources) == 1:
            found.append(str(Matcher(sources[0], matcher.op, matcher.value)))
        elif sources:
            # Several labels may hold it; only "there is one" can be asked, and that the key is asked already.
            if matcher.label != workload.key or matcher.allows("") or not matcher.allows("x"):
                raise ValueError(str(matcher))
        elif matcher.label == "kind":
            if not matcher.allows(workload.kind):
                return None
        elif matcher.label in use.family.labels:
            if not matcher.allows(""):
                return None
        else:
            found.append(str(matcher))
    return found


def identified(value: str, dialect: Dialect, node_labels: Sequence[str]) -> str:
    """Gives a series of another exporter with labels `node`, `uuid` and `slot` beside its own."""
    last = (NO_UUID, dialect.index) if dialect.index else None
    value = first_of(value, "slot", (dialect.slot,), last)
    value = first_of(value, "uuid", dialect.uuid)
    if dialect.uuid_prefix:
        value = replace(value, "uuid", dialect.uuid_prefix + "$1", "uuid", f"(?:{dialect.uuid_prefix})?(.*)")
    return host(value, node_labels)


def host(value: str, labels: Sequence[str], name: str = "node") -> str:
    """Gives a value whose label `node` is the first of several labels that is not empty, without a port."""
    if tuple(labels) == (name,):
        return value
    if len(labels) == 1:
        return replace(value, name, "$1", labels[0], "([^;:]*).*")
    names = ", ".join(f'"{label}"' for label in labels)
    # Into a label of its own, which is then taken away again: see `first_of`.
    joined = replace(f'label_join({value}, "{JOINED}", ";", {names})', name, "$1", JOINED, ";*([^;:]*).*")
    return replace(joined, JOINED, "", JOINED, ".*")


_MATCHER = re.compile(r'\s*([a-zA-Z_]\w*)\s*(=~|!~|!=|=)\s*"((?:[^"\\]|\\.)*)"\s*(?:,|$)')


def hosts_alone(matcher: str, labels: Sequence[str]) -> tuple[str, ...]:
    """Gives matchers for series of some nodes only, one for each label that may name the host; they exclude each other.

    Args:
        matcher: `node=~"..."`, or "" for all nodes.
        labels: as for `host`: the first that is not empty names it.
    """
    if not matcher:
        return ()
    pattern = matcher.removeprefix('node=~"').removesuffix('"')
    return tuple(
        ",".join((*(f'{before}=""' for before in labels[:at]), f'{label}=~"(?:{pattern})(?::.*)?"'))
        for at, label in enumerate(labels)
    )


def parse_matchers(text: str) -> tuple[Matcher, ...]:
    """Gives the matchers between the braces of a selector.

    Raises:
        ValueError: for what is no list of matchers.
    """
    found, at = [], 0
    while at < len(text):
        match = _MATCHER.match(text, at)
        if match is None:
            raise ValueError(f"'{text}' is no list of matchers")
        label, op, value = match.groups()
        found.append(Matcher(label, op, re.sub(r"\\(.)", r"\1", value)))  # type: ignore[arg-type]
        at = match.end()
    return tuple(found)
