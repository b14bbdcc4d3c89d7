"""What a person decides about incidents: another cause, one of two, two of one, or a note for who reads later."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace

from sqlalchemy import Connection, Engine

from warehouse.causes import load_causes
from warehouse.errors import BadInput
from warehouse.grouping import group_ruled
from warehouse.model.cause import known
from warehouse.model.incident import BY_RULES
from warehouse.model.ruling import Name, Ruling
from warehouse.pipeline import Act, Done, finish, next_revision
from warehouse.store import evidence, incidents, progress, revisions, rulings
from warehouse.store.revisions import Revision

_NAMED = 10


@dataclass(frozen=True, slots=True)
class Ruled:
    """What a ruling did: the cause of the incident before and after it, and the incident that a split made."""

    done: Done
    incident_id: int
    cause_before: str
    cause: str
    split_id: int | None = None
    split_cause: str | None = None


Decide = Callable[[Connection, Sequence[Name], str], Ruling]


def attribute(engine: Engine, incident_id: int, cause: str | None, act: Act) -> Ruled:
    """Charges an incident with a cause; None withdraws what people said of it, and the rules decide again.

    Raises:
        BadInput: for a cause that cannot be charged, or an incident that cannot be ruled on; then nothing is stored.
    """
    if cause is not None and known(load_causes(), cause).is_symptom:
        raise BadInput(f"{cause} is a symptom, which is never charged; name the cause that is behind it")

    def decide(connection: Connection, held: Sequence[Name], _: str) -> Ruling:
        if cause is None and incidents.charge_of(connection, incident_id)[1] == BY_RULES:
            raise BadInput(f"nobody attributed INC-{incident_id}; its cause is what the rules say already")
        return _ruling("attribute", incident_id, held, act, cause)

    return _rule(engine, incident_id, act, decide)


def merge(engine: Engine, incident_id: int, into: int, act: Act) -> Ruled:
    """Makes one incident of two: `into` keeps its number and its charged cause. No total changes.

    Raises:
        BadInput: where one of them cannot be ruled on; then nothing is stored.
    """
    if incident_id == into:
        raise BadInput(f"INC-{into} cannot be merged into itself")

    def decide(connection: Connection, held: Sequence[Name], cause: str) -> Ruling:
        return _ruling("merge", into, [*held, *_held(connection, incident_id)], act, cause)

    return _rule(engine, into, act, decide)


def split(engine: Engine, incident_id: int, named: Sequence[str], act: Act) -> Ruled:
    """Makes the named evidence (SOURCE/KEY) an incident of its own; the rest keeps the number. No total changes.

    Raises:
        BadInput: where the incident does not hold what is named, or holds nothing else; then nothing is stored.
    """

    def decide(connection: Connection, held: Sequence[Name], _: str) -> Ruling:
        apart = _named(incident_id, held, named)
        if len(apart) == len(held):
            raise BadInput(f"INC-{incident_id} holds nothing but that evidence; a split has to leave some of it")
        return replace(_ruling("split", incident_id, held, act, None), apart=apart)

    return _rule(engine, incident_id, act, decide)


def note(engine: Engine, incident_id: int, act: Act) -> Ruled:
    """Keeps a note, which is the act's reason, on an incident. It books nothing.

    Raises:
        BadInput: where there is no such incident.
    """
    return _rule(engine, incident_id, act, lambda _, held, __: _ruling("note", incident_id, held, act, None))


def _rule(engine: Engine, incident_id: int, act: Act, decide: Decide) -> Ruled:
    with engine.begin() as connection:
        revisions.lock_writer(connection)
        rev, before = next_revision(connection)
        held = _held(connection, incident_id)
        cause_before = incidents.charge_of(connection, incident_id)[0]
        ruling = decide(connection, held, cause_before)
        if ruling.kind != "note" and progress.pending_since(connection) is not None:
            raise BadInput("an import left time to be booked, which may change this incident; first: gpu-minutes book")
        if _said_already(connection, ruling):
            return Ruled(Done(rev - 1, False), incident_id, cause_before, cause_before)
        ruling = replace(ruling, id=rulings.write(connection, ruling, rev))
        done = _book(connection, ruling, act, rev, before)
        cause = incidents.charge_of(connection, incident_id)[0]
        if not ruling.apart:
            return Ruled(done, incident_id, cause_before, cause)
        ids = [e.id for e in evidence.heads(connection, ruling.apart).values() if e.id is not None]
        split_id, split_cause = next(iter(incidents.incident_of(connection, ids).values()))
        return Ruled(done, incident_id, cause_before, cause, split_id, split_cause)


def _book(connection: Connection, ruling: Ruling, act: Act, rev: int, before: Revision | None) -> Done:
    """Groups and books what the ruling touches. The horizon stays: a ruling tells nothing about the time since."""
    head = replace(ruling, id=0, about=frozenset(), apart=frozenset())
    digest = revisions.digest([head, sorted(ruling.about), sorted(ruling.apart)])
    if ruling.kind == "note":
        return finish(connection, act, rev, before, [], digest, book=False)
    touched = group_ruled(connection, ruling, rev)
    horizon_ms = before.horizon_ms if before else None
    return finish(connection, act, rev, before, touched, digest, book=horizon_ms is not None, seen_ms=horizon_ms)


def _ruling(kind: str, incident_id: int, held: Sequence[Name], act: Act, cause: str | None) -> Ruling:
    return Ruling(kind, incident_id, frozenset(held), act.author, act.reason, act.now_ms, cause)


def _said_already(connection: Connection, ruling: Ruling) -> bool:
    """Tells whether this is the newest word about the same evidence already, so that a script may run twice."""
    known_words = [r for r in rulings.standing(connection) if r.about & ruling.about]
    return bool(known_words) and replace(known_words[-1], id=0, at_ms=ruling.at_ms) == ruling


def _held(connection: Connection, incident_id: int) -> list[Name]:
    """Gives the evidence of an incident that can be ruled on."""
    if not incidents.known(connection, incident_id):
        raise BadInput(f"there is no incident INC-{incident_id}; list them: gpu-minutes incidents")
    into = incidents.went_into(connection, incident_id)
    if into != incident_id:
        raise BadInput(f"INC-{incident_id} was merged into INC-{into}; rule on that one")
    held = incidents.evidence_of(connection, incident_id)
    if not held:
        raise BadInput(f"INC-{incident_id} has no evidence any more: corrections left nothing of it to rule on")
    return held


def _named(incident_id: int, held: Sequence[Name], words: Collection[str]) -> frozenset[Name]:
    """Gives the evidence that the words SOURCE/KEY name."""
    by_word: dict[str, list[Name]] = {}
    for name in held:
        by_word.setdefault("/".join(name), []).append(name)
    faults = []
    for word in dict.fromkeys(words):
        if word not in by_word:
            shown = ", ".join(list(by_word)[:_NAMED])
            more = f" and {len(by_word) - _NAMED} more" if len(by_word) > _NAMED else ""
            faults.append(f"--evidence {word[:80]}: INC-{incident_id} holds no such evidence; it holds {shown}{more}")
        elif len(by_word[word]) > 1:
            faults.append(f"--evidence {word[:80]}: names two pieces of evidence of INC-{incident_id}")
    if faults:
        raise BadInput(*faults)
    if not words:
        raise BadInput("name the evidence to split off: --evidence SOURCE/KEY")
    return frozenset(by_word[word][0] for word in words)
