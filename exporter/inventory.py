"""Which GPUs this node should have: what was seen before, kept on disk if the operator names a file.

Without it, a GPU that fell off the bus before a restart would simply not exist. A GPU leaves the inventory in two ways
alone: another one sits in its slot, or the operator retires the slot.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from exporter.errors import ConfigError
from exporter.readings import Identity

_VERSION = 2
_WRITE_INTERVAL_S = 3600.0
"""`last_seen_s` alone is no reason to write more often than this."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A GPU of the inventory.

    Attributes:
        gpu: last known identity.
        first_seen_s: Unix time of its first answer in this slot.
        last_seen_s: Unix time of its last answer.
    """

    gpu: Identity
    first_seen_s: float
    last_seen_s: float


class Inventory:
    """The GPUs ever seen, one per slot.

    Laws: one entry per slot and one per uuid; an entry is replaced by another GPU in its slot, or by itself
    in another slot, and is never dropped for not answering.

    Args:
        path: JSON file to keep it in, or None to remember only while the process lives.
        clock: Unix seconds.

    Raises:
        ConfigError: the file exists and cannot be read as an inventory, or its folder does not.
    """

    def __init__(self, path: Path | None = None, clock: Callable[[], float] = time.time) -> None:
        self._path = path
        self._clock = clock
        self._entries: dict[str, Entry] = {}
        self._written_s = 0.0  # Unix time of the last write by this process
        self._stamp: tuple[int, int] | None = None  # of the file as this process last knew it
        self._unwritten = False
        if path is not None:
            if not path.parent.is_dir():
                raise ConfigError(f"inventory file {path}: there is no folder {path.parent}")
            self._load(path)

    @property
    def gpus(self) -> tuple[Identity, ...]:
        """All GPUs, by slot."""
        return tuple(entry.gpu for entry in self.entries)

    @property
    def entries(self) -> tuple[Entry, ...]:
        """All entries, by slot."""
        return tuple(entry for _, entry in sorted(self._entries.items()))

    def update(self, seen: Iterable[Identity]) -> None:
        """Takes in GPUs that answered; writes the file if a GPU came, moved or changed, and once an hour.

        What an operator retired in the file meanwhile is forgotten, unless it answers. A file that was removed or
        broken is written anew: what this process knows is better.

        Raises:
            OSError: the file could not be written; what was seen is remembered, and the next call tries again.
        """
        gpus, now_s = tuple(seen), self._clock()
        if self._path is None:
            self._take(gpus, now_s)
            return
        self._read_again(self._path)
        if self._take(gpus, now_s) or now_s - self._written_s >= _WRITE_INTERVAL_S:
            with _locked(self._path):
                self._read_again(self._path)  # an operator may have retired a slot just now
                self._take(gpus, now_s)
                if self._entries:
                    self._write(self._path)
            self._written_s = now_s
            self._unwritten = False

    def _take(self, seen: Iterable[Identity], now_s: float) -> bool:
        """Takes in GPUs that answered; gives whether the file should say something new."""
        entries = dict(self._entries)
        changed = self._unwritten
        for gpu in seen:
            known = entries.get(gpu.slot)
            first_s = known.first_seen_s if known is not None and known.gpu.uuid == gpu.uuid else now_s
            changed = changed or known is None or known.gpu != gpu
            for slot in [s for s, entry in entries.items() if entry.gpu.uuid == gpu.uuid and s != gpu.slot]:
                del entries[slot]
            entries[gpu.slot] = Entry(gpu, first_s, now_s)
        self._entries = entries
        self._unwritten = changed
        return changed

    def _read_again(self, path: Path) -> None:
        try:
            stamp = _stamp(path)
            if stamp == self._stamp:
                return
            if stamp is None:
                raise ConfigError("removed")
            self._load(path)
        except (ConfigError, OSError):  # it cannot even be looked at: no reason to forget who has just answered
            self._unwritten = True

    def retire(self, slot: str) -> Identity:
        """Takes a slot out of the file, for good; a running exporter sees it in its next cycle.

        Raises:
            ConfigError: there is no such slot; the known ones are named.
            OSError: the file could not be written.
        """
        assert self._path is not None
        with _locked(self._path):
            self._load(self._path)
            if slot not in self._entries:
                known = ", ".join(sorted(self._entries)) or "none"
                raise ConfigError(f"inventory file {self._path} has no slot {slot}; it has {known}")
            retired = self._entries.pop(slot)
            self._write(self._path)
        return retired.gpu

    def _load(self, path: Path) -> None:
        """Takes over what the file says; a file that is not there is an inventory without GPUs."""
        try:
            stamp = _stamp(path)
            if stamp is None:
                self._entries, self._stamp = {}, None
                return
            document = json.loads(path.read_text(encoding="utf-8"))
            if document["version"] != _VERSION:
                raise ValueError(f"version {document['version']!r}, not {_VERSION}")
            rows = [
                Entry(Identity(**row["gpu"]), float(row["first_seen_s"]), float(row["last_seen_s"]))
                for row in document["slots"]
            ]
        except (OSError, ValueError, TypeError, KeyError) as exc:
            raise ConfigError(f"inventory file {path}: {type(exc).__name__}: {exc}; mend it or move it away") from exc
        self._entries = {entry.gpu.slot: entry for entry in rows}
        self._stamp = stamp

    def _write(self, path: Path) -> None:
        """Replaces the file in one step, on disk before it counts."""
        document = {"version": _VERSION, "slots": [asdict(entry) for entry in self.entries]}
        scratch = path.with_name(path.name + ".new")
        with scratch.open("w", encoding="utf-8") as file:
            json.dump(document, file, indent=1)
            file.flush()
            os.fsync(file.fileno())
        scratch.replace(path)
        folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(folder)  # or the new name may not survive a power cut
        finally:
            os.close(folder)
        self._stamp = _stamp(path)


def _stamp(path: Path) -> tuple[int, int] | None:
    """What changes when the file does, None if there is none; every write makes a new inode."""
    try:
        status = path.stat()
    except FileNotFoundError:
        return None
    return status.st_ino, status.st_mtime_ns


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Holds the inventory for one writer; the lock goes with the process."""
    with path.with_name(path.name + ".lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
