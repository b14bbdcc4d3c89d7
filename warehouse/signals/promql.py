"""One family of ours as PromQL, from whatever Prometheus has: ours, and where ours is silent the other exporters'.

The same tables as `translate`, and the same answer: blanks filtered, units ours, labels ours, one row a board, with
`job` and `instance` of the scrape target kept. PromQL has no lower case: a PCI address gets the letters a to f behind
it, and each step puts one of them in the place of a capital.

Two differences are left. PromQL cannot say why it left a sample out. And a PCI address of fewer digits than NVML
prints, or of more than seven capitals, which no exporter has been seen to write, is not read here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from exporter.family import Family, Span
from exporter.metrics import GPU_WORKLOAD_INFO
from exporter.screen import BLANKS
from warehouse.signals import OURS, load_dialects
from warehouse.signals.alias import (
    MASK_BITS,
    MISSING_TEXTS,
    NO_UUID,
    NODE_LABELS,
    Alias,
    Dialect,
    From,
    Mask,
    Row,
    Workload,
)
from warehouse.signals.translate import MOST_PERCENT, TOO_LARGE

TARGET = ("job", "instance")
IDENTITY = ("node", "uuid", "slot")
"""Labels that are made of others, so that no matcher reaches them inside a foreign selector."""

# Holds the sources of a label while one is chosen; the aggregation around it drops it.
JOINED: Final = "joined"

Operator = Literal["=", "!=", "=~", "!~"]

# What NVML prints: eight digits of domain, of which four are kept unless more are needed (exporter/slot.py).
_ADDRESS: Final = r"(?:PCI:)?0{0,4}([0-9a-fA-F]{4,8}):([0-9a-fA-F]{2}):([01][0-9a-fA-F])(?:\\.[0-7])?"
# Four digits of domain, two of bus and one of device may be letters.
_MOST_CAPITALS: Final = 7
_ALPHABET: Final = ";abcdef"
_CAPITAL: Final = "(.*)(?:{})".format(
    "|".join(f"{letter.upper()}(.*)" + _ALPHABET.replace(letter, f"({letter})") for letter in _ALPHABET[1:])
)
# Of the groups, the odd ones hold the small letter and the even ones what follows the capital.
_SMALL: Final = (
    "$1" + "".join(f"${{{n}}}" for n in range(3, 14, 2)) + "".join(f"${{{n}}}" for n in range(2, 14, 2)) + _ALPHABET
)


@dataclass(frozen=True, slots=True)
class Matcher:
    """One condition on a label of ours, as in a selector; regular expressions are anchored, as Prometheus does."""

    label: str
    op: Operator
    value: str

    def __str__(self) -> str:
        return f"{self.label}{self.op}{_quoted(self.value)}"

    def allows(self, value: str) -> bool:
        """Tells whether a label with this value is selected."""
        if self.op in ("=", "!="):
            return (value == self.value) == (self.op == "=")
        return bool(re.fullmatch(self.value, value)) == (self.op == "=~")


def expression(family: Family, matchers: Sequence[Matcher] = ()) -> str:
    """Gives PromQL for a family of ours.

    Series of ours come first, as they are; others stand in for a GPU (and the family's own labels) that ours says
    nothing about. They have the labels `job`, `instance`, `node`, `uuid`, `slot` and the family's own.

    Args:
        family: a family of the contract.
        matchers: conditions on labels of ours or of the scrape target. On `node`, `uuid` and `slot` only `=` can be
            asked, since other exporters spell them otherwise.

    Raises:
        ValueError: when a matcher cannot be written; with what to do.
    """
    ours = select(family.name, map(str, matchers))
    if not family.per_gpu:
        return ours
    alike = f" or on ({', '.join(('uuid', *family.labels[2:]))}) "
    foreign = [_dialect(dialect, family, matchers) for dialect in load_dialects() if dialect.name != OURS]
    text = alike.join(part for part in foreign if part)
    if not text:
        return ours
    for matcher in matchers:
        if matcher.label in IDENTITY and matcher.op != "=":
            raise ValueError(f"{matcher.label}{matcher.op} cannot be asked of other exporters; use = or join on it")
    # An empty label is a missing one, as on the vector of one element without labels.
    text = f"{_lower_case(f'({text})')} unless on (uuid) vector(1)"
    for matcher in matchers:
        if matcher.label in IDENTITY:
            text = f"({text}) and on ({matcher.label}) {_one(matcher)}"
    return f"{ours}{alike}({text})"


def _dialect(dialect: Dialect, family: Family, matchers: Sequence[Matcher]) -> str:
    """Gives what one exporter says, with our labels, the highest of several rows about one key; "" for nothing."""
    rows = [part for row in dialect.rows for part in _row(row, dialect, family, matchers)]
    if family is GPU_WORKLOAD_INFO:
        rows += [part for workload in dialect.workloads for part in _workload(workload, dialect, matchers)]
    if not rows:
        return ""
    # `or` compares all labels but the name: a field under two names is said by the first.
    text = f"({' or '.join(rows)})"
    if dialect.slot_info:
        text = with_slot(text, dialect)
    return f"max by ({', '.join((*TARGET, *IDENTITY, *family.labels[2:]))}) ({_identity(text, dialect)})"


def _row(row: Row, dialect: Dialect, family: Family, matchers: Sequence[Matcher]) -> Iterable[str]:
    if isinstance(row, Mask) and row.family is family:
        yield from mask_bits(row, dialect, matchers)
    elif isinstance(row, Alias) and family in (row.family, row.mig):
        labels: tuple[str | From, ...] = row.labels
        if family is row.mig:
            labels = (From(dialect.instance, needed=True), *labels)
        selector = foreign_selector(row.name, dialect, family, labels, matchers)
        if selector is None:
            return
        if row.per_instance and family is not row.mig:
            selector = with_matcher(selector, f'{dialect.instance}=""')
        value = _clean(selector, dialect)
        if row.times != 1:
            value = f"({value}) * {row.times}"
        if row.per != 1:
            value = f"({value}) / {row.per}"
        if row.percent_above is not None:
            above = f"{row.name} > {row.percent_above:g} <= {MOST_PERCENT:g}"
            value = f"(({value}) and on ({', '.join(TARGET)}) ({above}))"
        yield labelled(ranged(value, row.span), family, labels)


def mask_bits(row: Mask, dialect: Dialect, matchers: Sequence[Matcher]) -> Iterable[str]:
    own = row.family.labels[2]
    asked = [matcher for matcher in matchers if matcher.label == own]
    for bit in range(MASK_BITS):
        word = row.words[bit] if bit < len(row.words) else f"bit_{bit}"
        if not all(matcher.allows(word) for matcher in asked):
            continue
        selector = foreign_selector(row.name, dialect, row.family, (word,), matchers)
        assert selector is not None
        clean = ranged(_clean(selector, dialect), (0.0, 2.0**MASK_BITS - 1))
        value = f"floor(({clean} and {selector} % 1 == 0) / {2**bit}) % 2"
        if bit >= len(row.words):
            value += " == 1"
        yield labelled(value, row.family, (word,))


def bits_reached(
    row: Mask, dialect: Dialect, matchers: Sequence[Matcher], around: Callable[[str], str]
) -> Iterable[str]:
    """Gives for each bit where the largest of some masks reaches it: where it was set, and where a higher one was.

    No function over a range tells the bits of masks apart.
    """
    asked = [matcher for matcher in matchers if matcher.label == row.family.labels[2]]
    for bit, word in enumerate(row.words):
        if all(matcher.allows(word) for matcher in asked):
            selector = foreign_selector(row.name, dialect, row.family, (word,), matchers)
            assert selector is not None
            yield labelled(f"({around(selector)} >= bool {2**bit})", row.family, (word,))


def _workload(row: Workload, dialect: Dialect, matchers: Sequence[Matcher]) -> Iterable[str]:
    """Gives the workloads that labels of any series of the dialect name, whatever its value."""
    constants = {label: "" for label in GPU_WORKLOAD_INFO.labels[3:] if label not in row.labels} | {"kind": row.kind}
    if not all(matcher.allows(constants[matcher.label]) for matcher in matchers if matcher.label in constants):
        return
    for matcher in matchers:
        if matcher.label in row.labels and matcher.op != "=":
            raise ValueError(f"{matcher.label}{matcher.op} cannot be asked of other exporters; use = or join on it")
    made = {*IDENTITY, *constants, *row.labels}
    outer = [str(matcher) for matcher in matchers if matcher.label not in made]
    found = []
    for name in row.labels[row.key]:
        selector = select("", [f'__name__=~"{dialect.prefix}.+"', f'{name}!~"{missing_pattern()}"', *outer])
        # `up` has the labels of the target itself: its pod is the exporter's, and no workload.
        found.append(f"({selector} unless on ({', '.join((*TARGET, name))}) up)")
    value = f"({' or '.join(found)})"
    for label, names in row.labels.items():
        value = first_of(value, label, names, missing=missing_pattern())
    told = (*TARGET, *NODE_LABELS, *dialect.uuid, dialect.index, dialect.slot, *row.labels)
    text = replace(f"group by ({', '.join(told)}) ({value})", "kind", row.kind, "", "")
    for matcher in matchers:
        if matcher.label in row.labels:
            text = f"({text} and on ({matcher.label}) {_one(matcher)})"
    yield text


def foreign_selector(
    name: str, dialect: Dialect, family: Family, labels: Sequence[str | From], matchers: Sequence[Matcher]
) -> str | None:
    """Gives the selector of a foreign series with what can be asked inside it; None where nothing can match."""
    own = dict(zip(family.labels[2:], labels, strict=True))
    inside = [f'{label}=""' for label in dialect.aside]
    inside += [f'{dialect.uuid[0]}!="{dialect.uuid_unknown}"'] if dialect.uuid_unknown else []
    inside += [f'{label.label}!~"{missing_pattern()}"' for label in labels if isinstance(label, From) and label.needed]
    for matcher in matchers:
        source = own.get(matcher.label)
        if isinstance(source, str):
            if not matcher.allows(source):
                return None
        elif isinstance(source, From):
            if source.prefix or matcher.allows(""):
                raise ValueError(f"{matcher} cannot be asked of {dialect.title}; join on {matcher.label} instead")
            inside += [str(Matcher(source.label, matcher.op, matcher.value)), f'{source.label}!~"{missing_pattern()}"']
        elif matcher.label not in IDENTITY:
            inside.append(str(matcher))
    return select(name, inside)


def _clean(selector: str, dialect: Dialect) -> str:
    """Drops what is no number and what stands for a missing value, in the foreign unit."""
    text = f"{selector} > -Inf < {TOO_LARGE:.0f}"
    if dialect.blanks:
        text += "".join(f" != {blank:.0f}" for blank in sorted(BLANKS) if blank < TOO_LARGE)
    return text


def ranged(value: str, span: Span | None) -> str:
    return value if span is None else f"{value} >= {span[0]!r} <= {span[1]!r}"


def labelled(value: str, family: Family, labels: Sequence[str | From]) -> str:
    """Gives a value with the family's own labels."""
    for ours, source in zip(family.labels[2:], labels, strict=True):
        if isinstance(source, str):
            value = replace(value, ours, source, "", "")
            continue
        if source.label != ours or source.prefix:
            value = replace(value, ours, source.prefix + "$1", source.label, f"(?:{source.prefix})?(.*)")
        value = _without_missing(value, ours, source.prefix)
    return value


def with_slot(value: str, dialect: Dialect) -> str:
    """Gives a value with the label that says the PCI address, from the one series that has it."""
    by = ", ".join((*TARGET, dialect.uuid[0]))
    # One of them, should there be several: a query that fails helps nobody.
    info = f"topk by ({by}) (1, {dialect.slot_info})"
    return f"({value} * on ({by}) group_left ({dialect.slot}) {info} or on ({by}) {value})"


def _identity(value: str, dialect: Dialect) -> str:
    """Gives a value with `node`, `uuid` and `slot` made of what the dialect says; `slot` has the alphabet behind it."""
    if dialect.index:
        value = first_of(value, "uuid", dialect.uuid, (NO_UUID, dialect.index))
    else:
        value = first_of(value, "uuid", dialect.uuid)
    if dialect.uuid_prefix:
        value = replace(value, "uuid", dialect.uuid_prefix + "$1", "uuid", f"(?:{dialect.uuid_prefix})?(.*)")
        value = _without(value, "uuid", dialect.uuid_prefix)
    value = first_of(value, "node", NODE_LABELS)
    return replace(value, "slot", "$1:$2:$3" + _ALPHABET, dialect.slot, f"{_ADDRESS}|.*")


def _one(matcher: Matcher) -> str:
    """Gives one element that has the wanted label and no other."""
    return replace("vector(1)", matcher.label, matcher.value.replace("$", "$$"), "", "")


def _lower_case(value: str) -> str:
    """Gives a value whose `slot` has no capitals, and no alphabet behind it any more."""
    for _ in range(_MOST_CAPITALS):
        value = replace(value, "slot", _SMALL, "slot", _CAPITAL)
    return replace(value, "slot", "$1", "slot", f"(?:::|(.*)){_ALPHABET}")


def first_of(
    value: str, label: str, sources: Sequence[str], last: tuple[str, str] | None = None, missing: str = ""
) -> str:
    """Gives a value whose label is the first of several that says something.

    Args:
        value: PromQL.
        label: the label to make.
        sources: where to look, in order.
        last: a prefix and the label that it stands before, when all of them say nothing.
        missing: what says nothing, a regular expression that matches the empty text too.
    """
    if last is None and len(sources) == 1 and not missing:
        return value if sources[0] == label else replace(value, label, "$1", sources[0], "(.*)")
    prefix = last[0] if last else ""
    names = ", ".join(map(_quoted, (*sources, last[1]) if last else sources))
    # Into a label of its own: VictoriaMetrics 1.79 writes over a source that is the destination too, and then reads it.
    joined = f'label_join({value}, "{JOINED}", "{";" + prefix}", {names})'
    nothing = f"(?:{missing})" if missing else ""
    between = nothing + ";" + prefix
    # The longest run of nothing first: a source that says nothing is not to be taken for one that does.
    ways = [between * n + "([^;]+)" + (";.*" if last or n + 1 < len(sources) else "") for n in range(len(sources))]
    if last:
        ways.append(between * (len(sources) - 1) + f"{nothing};({prefix}.+)")
    ways.append(between * (len(sources) - 1) + nothing if missing else "[;:a-z]*")
    found = "".join(f"${{{n}}}" for n in range(1, len(ways)))
    return replace(joined, label, found, JOINED, "|".join(reversed(ways)) if missing else "|".join(ways))


def _without_missing(value: str, label: str, prefix: str = "") -> str:
    """Gives a value without the label where that says that there is none, or nothing but the prefix."""
    return _without(value, label, f"{missing_pattern()}|{prefix}" if prefix else missing_pattern())


def _without(value: str, label: str, pattern: str) -> str:
    return replace(value, label, "$1", label, f"(?:{pattern})|(.*)")


def replace(value: str, label: str, template: str, source: str, pattern: str) -> str:
    """Gives a value with a label made of another one.

    The pattern must match whatever the other label may be: where VictoriaMetrics 1.79 finds no match for a label that
    is not there yet, it takes what lies behind the last one.
    """
    return f'label_replace({value}, "{label}", "{_escaped(template)}", "{source}", "{pattern}")'


def missing_pattern() -> str:
    """Gives a regular expression that matches every text that says there is none."""
    return "|".join(re.escape(text).replace("\\", "\\\\") for text in sorted(MISSING_TEXTS))


def select(name: str, matchers: Iterable[str]) -> str:
    inside = ",".join(matchers)
    return f"{name}{{{inside}}}" if inside else name


def with_matcher(selector: str, matcher: str) -> str:
    return f"{selector[:-1]},{matcher}}}" if selector.endswith("}") else f"{selector}{{{matcher}}}"


def _quoted(text: str) -> str:
    return f'"{_escaped(text)}"'


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
