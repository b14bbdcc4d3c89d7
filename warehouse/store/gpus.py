"""GPUs by name, and the tenure of single slots: what an act on GPUs reads and writes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, text

from warehouse.store.fleet import copy_tenure
from warehouse.store.rows import copy_in, instant, reserve, revisions_from, span


@dataclass(frozen=True, slots=True)
class Gpu:
    """A GPU; without uuid and serial it is one that no source has named."""

    id: int
    model: str
    uuid: str | None = None
    serial: str | None = None

    @property
    def named(self) -> bool:
        """Tells whether it can be told from others."""
        return self.uuid is not None or self.serial is not None

    def __str__(self) -> str:
        return self.uuid or self.serial or "a GPU without a name"


@dataclass(frozen=True, slots=True)
class Stay:
    """What holds of a slot over `[start_ms, end_ms)`: which GPU sits in it, None for none.

    `commissioned_ms` and `said_model` are the node's: since when it stands, and with which model it came.
    """

    slot: int
    start_ms: int
    end_ms: int | None
    gpu_id: int | None
    stranded: bool
    contract: str | None
    commissioned_ms: int
    said_model: str
    why: str | None = None


def uuids(connection: Connection, at_ms: int) -> dict[str, int]:
    """Gives the slot of every GPU whose UUID is known, as the fleet stands at an instant."""
    rows = connection.execute(
        text(
            "select g.uuid, t.slot from tenure t join gpu g on g.id = t.gpu_id "
            "where upper_inf(t.revs) and g.uuid is not null and t.during @> cast(:at as timestamptz)"
        ),
        {"at": instant(at_ms)},
    )
    return {row.uuid: row.slot for row in rows}


_STAYS = """
select t.id, t.slot, ms_of(lower(t.during)) as start_ms,
  case when upper_inf(t.during) then null else ms_of(upper(t.during)) end as end_ms, t.gpu_id, t.stranded, t.contract,
  ms_of(coalesce(t.commissioned::timestamptz, lower(t.during))) as commissioned_ms,
  coalesce(t.said_model, g.model) as said_model, t.why
from tenure t left join gpu g on g.id = t.gpu_id
where upper_inf(t.revs) and (t.slot = any(:slots) or t.gpu_id = any(:gpus))
"""


def stays(connection: Connection, slots: Iterable[int], gpus: Iterable[int]) -> dict[Stay, int]:
    """Gives what holds of these slots, and wherever else these GPUs sit, with the ids of the rows."""
    rows = connection.execute(text(_STAYS), {"slots": sorted(slots), "gpus": sorted(gpus)})
    return {
        Stay(
            r.slot, r.start_ms, r.end_ms, r.gpu_id, r.stranded, r.contract, r.commissioned_ms, r.said_model, r.why
        ): r.id
        for r in rows
    }  # fmt: skip


def known(connection: Connection, uuids: Iterable[str], serials: Iterable[str]) -> list[Gpu]:
    """Gives the stored GPUs that have one of these uuids or serials."""
    rows = connection.execute(
        text("select id, model, uuid, serial from gpu where uuid = any(:uuids) or serial = any(:serials) order by id"),
        {"uuids": sorted(uuids), "serials": sorted(serials)},
    )
    return [Gpu(r.id, r.model, r.uuid, r.serial) for r in rows]


def by_id(connection: Connection, ids: Iterable[int]) -> dict[int, Gpu]:
    """Gives GPUs by their ids."""
    rows = connection.execute(
        text("select id, model, uuid, serial from gpu where id = any(:ids)"), {"ids": sorted(set(ids))}
    )
    return {r.id: Gpu(r.id, r.model, r.uuid, r.serial) for r in rows}


def next_ids(connection: Connection, count: int) -> list[int]:
    """Gives ids for GPUs that are about to be named."""
    return reserve(connection, "gpu", count)


def write(
    connection: Connection, named: Sequence[Gpu], closed: Sequence[int], opened: Sequence[Stay], rev: int
) -> None:
    """Stores newly named GPUs, closes rows of tenure by id and opens others in their place."""
    copy_in(
        connection, "gpu", ("id", "model", "uuid", "serial", "revs"), ("int4", "text", "text", "text", "int8range"),
        [(gpu.id, gpu.model, gpu.uuid, gpu.serial, revisions_from(rev)) for gpu in named],
    )  # fmt: skip
    connection.execute(
        text("update tenure set revs = int8range(lower(revs), :rev) where id = any(:ids)"),
        {"rev": rev, "ids": list(closed)},
    )
    copy_tenure(
        connection,
        [
            (
                span(s.start_ms, s.end_ms), revisions_from(rev), s.gpu_id, s.slot, s.stranded, s.contract,
                instant(s.commissioned_ms), s.said_model, s.why,
            )
            for s in opened
        ],
    )  # fmt: skip
