"""Which GPUs this node should have: what was seen before, kept on disk if the operator names a file.

Without it, a GPU that fell off the bus before a restart would simply not exist.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path

from exporter.errors import ConfigError
from exporter.readings import Identity

_VERSION = 1


class Inventory:
    """The GPUs ever seen, one per slot.

    Laws: one entry per slot and one per uuid; an entry is replaced by another GPU in its slot, or by itself
    in another slot, and is never dropped for not answering.

    Args:
        path: JSON file to keep it in, or None to remember only while the process lives.

    Raises:
        ConfigError: the file exists and cannot be read as an inventory, or its folder does not.
    """

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self._by_slot: dict[str, Identity] = {}
        self._unwritten = False
        if path is not None and not path.parent.is_dir():
            raise ConfigError(f"inventory file {path}: there is no folder {path.parent}")
        if path is not None and path.exists():
            try:
                document = json.loads(path.read_text(encoding="utf-8"))
                if document["version"] != _VERSION:
                    raise ValueError(f"version {document['version']!r}")
                for row in document["gpus"]:
                    identity = Identity(**row)
                    self._by_slot[identity.slot] = identity
            except (OSError, ValueError, TypeError, KeyError) as exc:
                raise ConfigError(f"inventory file {path}: {type(exc).__name__}: {exc}") from exc

    @property
    def gpus(self) -> tuple[Identity, ...]:
        """All entries, by slot."""
        return tuple(identity for _, identity in sorted(self._by_slot.items()))

    def update(self, seen: Iterable[Identity]) -> None:
        """Takes in GPUs that answered; writes the file if anything changed.

        Raises:
            OSError: the file could not be written; what was seen is remembered, and the next call tries again.
        """
        changed = dict(self._by_slot)
        for identity in seen:
            for slot in [s for s, known in changed.items() if known.uuid == identity.uuid]:
                del changed[slot]
            changed[identity.slot] = identity
        self._unwritten = self._unwritten or changed != self._by_slot
        self._by_slot = changed
        if self._unwritten and self._path is not None:
            self._write(self._path)
        self._unwritten = False

    def _write(self, path: Path) -> None:
        """Replaces the file in one step, on disk before it counts."""
        document = {"version": _VERSION, "gpus": [asdict(identity) for identity in self.gpus]}
        scratch = path.with_name(path.name + ".new")
        with scratch.open("w", encoding="utf-8") as file:
            json.dump(document, file, indent=1)
            file.flush()
            os.fsync(file.fileno())
        scratch.replace(path)
