"""Which series an expression cannot do without: read off its words, not by a parser of PromQL."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Set
from functools import lru_cache
from itertools import product

from warehouse.detect.render import USE

Names = frozenset[str]


@lru_cache(maxsize=4096)
def needs(expr: str) -> frozenset[Names]:
    """Gives the sets of series names of which one must be there whole, or else the expression can never be true.

    `or` gives a choice, everything else asks for both sides; what stands behind `unless` only takes away. Of `up`, the
    job that is asked stands beside the name.
    """
    choices = _parts(expr, "or")
    if len(choices) > 1:
        return _least(names for choice in choices for names in needs(choice))
    sides = _parts(_parts(expr, "unless")[0], "and")
    if len(sides) > 1:
        return _least(frozenset().union(*chosen) for chosen in product(*map(needs, sides)))
    inside, outside = [], ""
    for text, nested in _levels(sides[0]):
        if nested:
            inside.append(needs(text))
        else:
            outside += text
    text = sides[0] if USE.fullmatch(sides[0].strip()) else outside  # a function over a range is one use
    plain = {at for at, _ in _depths(text)}
    own = frozenset(_name(match) for match in USE.finditer(text) if match.start() in plain)
    return _least(own.union(*chosen) for chosen in product(*inside))


def may_be_true(expr: str, names: Set[str]) -> bool:
    """Tells whether an expression may be true where there are only these series; `up` is everywhere."""
    return any(all(name in names or name.startswith("up") for name in needed) for needed in needs(expr))


def _least(found: Iterable[Names]) -> frozenset[Names]:
    """Gives the sets without those that hold another one whole."""
    sets = frozenset(found)
    return frozenset(one for one in sets if not any(other < one for other in sets))


def _name(match: re.Match[str]) -> str:
    name = match["inner"] or match["bare"]
    job = re.search(r'\bjob=~?"[^"]*"', match["asked"] or match["matchers"] or "")
    return f"up{{{job[0]}}}" if name == "up" and job else name


def _parts(text: str, word: str) -> list[str]:
    """Cuts a text at a word that stands outside of all brackets and quotes."""
    cuts, behind = [0], len(word) + 2
    for at, depth in _depths(text):
        if depth == 0 and text[at : at + behind].lower() in (f" {word} ", f"\n{word} ", f" {word}(", f"){word} "):
            cuts += [at, at + behind - 1]
    edges = [*cuts, len(text)]
    return [text[start:end] for start, end in zip(edges[::2], edges[1::2], strict=True)]


def _levels(text: str) -> Iterator[tuple[str, bool]]:
    """Yields what stands outside of round brackets, and what each outermost pair of them holds."""
    start, before = 0, 0
    for at, depth in _depths(text):
        if depth == 1 and before == 0:
            yield text[start:at], False
            start = at + 1
        elif depth == 0 and before == 1:
            yield text[start:at], True
            start = at + 1
        before = depth
    yield text[start:], False


def _depths(text: str) -> Iterator[tuple[int, int]]:
    """Yields every place outside of quotes with the number of round brackets around it; a bracket counts itself."""
    depth, quoted, skip = 0, False, False
    for at, letter in enumerate(text):
        if skip:
            skip = False
        elif quoted:
            skip, quoted = letter == "\\", letter != '"'
        elif letter == '"':
            quoted = True
        else:
            depth += (letter == "(") - (letter == ")")
            yield at, depth
