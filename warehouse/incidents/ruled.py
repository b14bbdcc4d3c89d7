"""What people's rulings mean for grouping: who is kept apart, who is held together, who is charged with what."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from warehouse.model.ruling import Name, Ruling


def in_order(rulings: Iterable[Ruling]) -> list[Ruling]:
    """Gives the rulings as they were made, each once."""
    return sorted(set(rulings), key=lambda ruling: ruling.id)


def labels(rulings: Sequence[Ruling]) -> dict[Name, int]:
    """Gives the split that keeps a piece of evidence apart, as things stand now; 0 or no entry means none.

    The newest split that names it counts, until a newer merge brings it back to evidence that stayed behind in that
    split: then it is where that evidence is.
    """
    found: dict[Name, int] = {}
    splits = {ruling.id: ruling for ruling in rulings if ruling.kind == "split"}
    for ruling in rulings:
        if ruling.kind == "split":
            found |= dict.fromkeys(ruling.apart, ruling.id)
        if ruling.kind != "merge":
            continue
        for name in sorted(ruling.about, key=lambda n: (found.get(n, 0), n)):
            # Downwards only, so that it ends; who comes first has found his place when a later one looks there.
            while (split := splits.get(found.get(name, 0))) and (back := split.rest & ruling.about):
                place = min(found.get(other, 0) for other in back)
                if place >= split.id:
                    break
                found[name] = place
    return found


def bonds(rulings: Sequence[Ruling], apart: Mapping[Name, int]) -> Iterator[set[Name]]:
    """Yields sets of evidence that rulings hold together: what was merged, and both sides of a split.

    A split that is newer than the bond cuts it.
    """
    for ruling in rulings:
        if ruling.kind not in ("merge", "split"):
            continue
        for side in (ruling.apart, ruling.rest):
            parts: dict[int, set[Name]] = defaultdict(set)
            for name in side:
                split = apart.get(name, 0)
                parts[split if split > ruling.id else 0].add(name)
            yield from parts.values()


def decisive(members: Iterable[Name], rulings: Sequence[Ruling], apart: Mapping[Name, int]) -> Ruling | None:
    """Gives the ruling that says what this evidence is charged with: the newest one on the cause of any of it.

    A merge keeps the cause of the incident that stayed, and says nothing of what was split off again. Where that cause
    was a person's word, the word itself is given: it holds the reason.
    """
    names = set(members)
    standing = [
        ruling
        for ruling in rulings
        if (ruling.kind == "attribute" and not names.isdisjoint(ruling.about))
        or (ruling.kind == "merge" and any(apart.get(name, 0) <= ruling.id for name in names & ruling.about))
    ]
    if not standing:
        return None
    newest = standing[-1]
    words = [r for r in standing if r.kind == "attribute" and r.cause == newest.cause]
    return words[-1] if newest.kind == "merge" and words else newest
