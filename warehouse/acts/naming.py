"""Which GPU a row means: by its uuid where it has one, else by its serial; a name never means two GPUs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from sqlalchemy import Connection

from warehouse.errors import Finding
from warehouse.model.fleet import Placing, StoredNode
from warehouse.store import gpus
from warehouse.store.gpus import Gpu, Stay


@dataclass(frozen=True, slots=True)
class Placed:
    """A row with its slot, and with its GPU once that is known; None where the slot stands empty."""

    placing: Placing
    node: StoredNode
    slot: int
    gpu: Gpu | None = None

    @property
    def name(self) -> str:
        """Gives the slot in words."""
        return f"{self.placing.node}/{self.placing.index}"

    @property
    def where(self) -> str:
        """Gives file and line."""
        return self.placing.where

    @property
    def column(self) -> str:
        """Gives the column that names the GPU."""
        return "serial" if self.placing.uuid is None and self.placing.serial is not None else "uuid"


Refusal = tuple[str, str]


def identify(
    connection: Connection,
    placed: Sequence[Placed],
    names: Iterable[Gpu],
    stored: Iterable[Stay],
    about: Mapping[int, Gpu],
) -> tuple[list[Placed], list[Gpu], list[Finding]]:
    """Gives the rows with their GPUs, in order of time, the GPUs that no row named before, and what is unclear.

    Args:
        connection: gives new GPUs their ids.
        placed: the rows with their slots.
        names: stored GPUs that have a uuid or a serial of the rows.
        stored: what holds of the slots so far.
        about: the GPUs of `stored`.
    """
    ordered = sorted(placed, key=lambda item: (item.placing.start_ms, item.slot))
    registry = _Registry(names, _models(ordered, stored, about))
    findings = []
    found: list[Placed] = []
    # The rows that say most come first: one may give the serial or the model that another leaves out.
    for item in sorted(ordered, key=_silence):
        if item.placing.empty:
            found.append(item)
            continue
        gpu, refusal = registry.find(item)
        if refusal is not None:
            findings.append(Finding(f"{item.where}, column {refusal[0]}", refusal[1]))
        else:
            found.append(replace(item, gpu=gpu))
    ids = gpus.next_ids(connection, 0 if findings else len(registry.fresh))
    final = {gpu.id: replace(gpu, id=id_) for gpu, id_ in zip(registry.fresh.values(), ids, strict=False)}
    found = [i if i.gpu is None else replace(i, gpu=final.get(i.gpu.id, i.gpu)) for i in found]
    return sorted(found, key=lambda item: (item.placing.start_ms, item.slot)), list(final.values()), findings


def _silence(item: Placed) -> tuple[bool, bool, bool]:
    return item.placing.uuid is None, item.placing.serial is None, item.placing.model is None


def _models(
    placed: Iterable[Placed], stored: Iterable[Stay], about: Mapping[int, Gpu]
) -> dict[tuple[int, int], set[str]]:
    """Gives, per slot and commissioning, every model that it holds or has held, as far as it was said."""
    found: dict[tuple[int, int], set[str]] = defaultdict(set)
    for stay in stored:
        key = stay.slot, stay.commissioned_ms
        found[key].add(stay.said_model)
        if stay.gpu_id is not None:
            found[key].add(about[stay.gpu_id].model)
    for item in placed:
        if item.placing.model is not None:
            found[item.slot, item.node.start_ms].add(item.placing.model)
    return found


class _Registry:
    """The GPUs known by name: the stored ones, and those that the rows name for the first time, with negative ids."""

    def __init__(self, names: Iterable[Gpu], models: Mapping[tuple[int, int], set[str]]) -> None:
        self._models = models
        self._by_uuid: dict[str, Gpu] = {}
        self._by_serial: dict[str, list[Gpu]] = defaultdict(list)
        self.fresh: dict[int, Gpu] = {}
        for gpu in names:
            self._note(gpu)

    def _note(self, gpu: Gpu) -> None:
        if gpu.uuid is not None:
            self._by_uuid[gpu.uuid] = gpu
        if gpu.serial is not None:
            self._by_serial[gpu.serial].append(gpu)

    def find(self, item: Placed) -> tuple[Gpu | None, Refusal | None]:
        """Gives the GPU that a row means, or the column and the reason why that is unclear."""
        uuid, serial = item.placing.uuid, item.placing.serial
        same_serial = self._by_serial.get(serial, []) if serial is not None else []
        if uuid is not None:
            gpu = self._by_uuid.get(uuid)
            if gpu is None and any(other.uuid is None for other in same_serial):
                reason = f"the GPU with serial {serial} is known without a uuid; leave uuid blank for it in every row"
                return None, ("uuid", reason)
        elif len(same_serial) > 1:
            some = ", ".join(sorted(str(gpu) for gpu in same_serial)[:3])
            return None, ("uuid", f"is blank, and {len(same_serial)} GPUs have serial {serial}; write one of {some}")
        else:
            gpu = same_serial[0] if same_serial else None
        model, refusal = self._model(item, gpu)
        if refusal is not None:
            return None, refusal
        if gpu is None:
            gpu = Gpu(-1 - len(self.fresh), model, uuid, serial)
            self.fresh[gpu.id] = gpu
            self._note(gpu)
        elif serial is not None and serial != gpu.serial:
            known = "without a serial" if gpu.serial is None else f"with serial {gpu.serial}"
            return None, ("serial", f"GPU {gpu} is known {known}, not with {serial}; a GPU keeps its serial")
        return gpu, None

    def _model(self, item: Placed, gpu: Gpu | None) -> tuple[str, Refusal | None]:
        """Gives the row's model: the one it names, else the only one of the slot, which must be that of the GPU."""
        said = item.placing.model
        seen = self._models[item.slot, item.node.start_ms]
        if said is None and len(seen) > 1:
            if gpu is not None:
                return gpu.model, None
            some = " and ".join(sorted(seen))
            return "", ("model", f"is blank, and {item.name} has held {some}; write the model of {item.column}")
        model = next(iter(seen)) if said is None else said
        if gpu is None or gpu.model == model:
            return model, None
        if said is not None:
            return "", ("model", f"GPU {gpu} is known as {gpu.model}, not {said}; a GPU keeps its model")
        reason = f"is blank, but GPU {gpu} is of {gpu.model} and {item.name} has only held {model}"
        return "", ("model", f"{reason}; write {gpu.model} if that is meant")
