"""The inventory of GPUs: what it remembers, when it writes, and the two ways in which a GPU leaves it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from exporter.errors import ConfigError
from exporter.inventory import Inventory
from exporter.readings import Identity

A = Identity("GPU-a", "0000:19:00", 0)
B = Identity("GPU-b", "0000:27:00", 1)


class Clock:
    """Unix time that a test turns."""

    def __init__(self) -> None:
        self.now_s = 1_000_000.0

    def __call__(self) -> float:
        return self.now_s


def test_the_inventory_survives_and_a_swapped_gpu_takes_its_slot(tmp_path: Path) -> None:
    path = tmp_path / "inventory.json"
    Inventory(path).update([A, B])
    swapped = Identity("GPU-new", B.slot, 1)
    inventory = Inventory(path)
    assert inventory.gpus == (A, B)
    inventory.update([swapped])
    assert Inventory(path).gpus == (A, swapped)


def test_a_gpu_that_moved_leaves_its_old_slot() -> None:
    inventory = Inventory()
    inventory.update([A, B])
    moved = Identity(A.uuid, "0000:99:00", 0)
    inventory.update([moved])
    assert inventory.gpus == (B, moved)


def test_a_write_that_failed_is_tried_again(tmp_path: Path) -> None:
    folder = tmp_path / "state"
    folder.mkdir()
    inventory = Inventory(folder / "inventory.json")
    folder.rmdir()
    with pytest.raises(OSError, match="No such file"):
        inventory.update([A])
    assert inventory.gpus == (A,)
    folder.mkdir()
    inventory.update([A])
    assert Inventory(folder / "inventory.json").gpus == (A,)


def test_a_file_that_cannot_be_looked_at_costs_no_gpu_that_answers(tmp_path: Path) -> None:
    path = tmp_path / "inventory.json"
    inventory = Inventory(path)
    inventory.update([A])
    path.unlink()
    path.symlink_to(path.name)
    inventory.update([A, B])
    assert inventory.gpus == (A, B)
    assert Inventory(path).gpus == (A, B)


def test_a_file_that_cannot_be_looked_at_is_refused_at_the_start(tmp_path: Path) -> None:
    path = tmp_path / "inventory.json"
    path.symlink_to(path.name)
    with pytest.raises(ConfigError, match="mend it or move it away"):
        Inventory(path)


def test_a_folder_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="there is no folder"):
        Inventory(tmp_path / "gone" / "inventory.json")


def test_it_writes_when_a_gpu_changes_and_once_an_hour(tmp_path: Path) -> None:
    path, clock = tmp_path / "inventory.json", Clock()
    inventory = Inventory(path, clock)
    inventory.update([A])
    first = path.stat()
    clock.now_s += 3599
    inventory.update([A])
    assert path.stat().st_ino == first.st_ino
    clock.now_s += 1
    inventory.update([A])
    (row,) = json.loads(path.read_text())["slots"]
    assert (row["first_seen_s"], row["last_seen_s"]) == (1_000_000.0, 1_003_600.0)
    inventory.update([A, B])
    assert [row["gpu"]["uuid"] for row in json.loads(path.read_text())["slots"]] == ["GPU-a", "GPU-b"]


def test_a_gpu_that_is_silent_keeps_the_time_of_its_last_answer(tmp_path: Path) -> None:
    path, clock = tmp_path / "inventory.json", Clock()
    Inventory(path, clock).update([A, B])
    clock.now_s += 50
    inventory = Inventory(path, clock)
    inventory.update([A])
    seen_s = {entry.gpu.uuid: (entry.first_seen_s, entry.last_seen_s) for entry in inventory.entries}
    assert seen_s == {"GPU-a": (1_000_000.0, 1_000_050.0), "GPU-b": (1_000_000.0, 1_000_000.0)}


def test_a_swapped_gpu_begins_anew_in_its_slot() -> None:
    clock = Clock()
    inventory = Inventory(None, clock)
    inventory.update([A])
    clock.now_s += 50
    inventory.update([Identity("GPU-new", A.slot, 0)])
    assert [(e.gpu.uuid, e.first_seen_s) for e in inventory.entries] == [("GPU-new", 1_000_050.0)]


def test_a_retired_slot_is_forgotten_by_a_process_that_runs(tmp_path: Path) -> None:
    path = tmp_path / "inventory.json"
    running = Inventory(path)
    running.update([A, B])
    assert Inventory(path).retire(B.slot) == B
    running.update([A])
    assert running.gpus == (A,)
    assert Inventory(path).gpus == (A,)


def test_a_retired_slot_that_answers_is_back(tmp_path: Path) -> None:
    path = tmp_path / "inventory.json"
    running = Inventory(path)
    running.update([A, B])
    Inventory(path).retire(B.slot)
    running.update([A, B])
    assert running.gpus == Inventory(path).gpus == (A, B)


def test_retiring_what_is_not_there_names_what_is(tmp_path: Path) -> None:
    path = tmp_path / "inventory.json"
    Inventory(path).update([A, B])
    with pytest.raises(ConfigError, match=f"no slot 0000:99:00; it has {A.slot}, {B.slot}"):
        Inventory(path).retire("0000:99:00")


@pytest.mark.parametrize("harm", ["removed", "broken"])
def test_a_file_that_someone_removed_or_broke_is_written_anew(tmp_path: Path, harm: str) -> None:
    path = tmp_path / "inventory.json"
    running = Inventory(path)
    running.update([A, B])
    if harm == "removed":
        path.unlink()
    else:
        path.write_text("{")
    running.update([A])
    assert running.gpus == Inventory(path).gpus == (A, B)


@pytest.mark.parametrize("text", ["{", "[]", '{"version": 1, "gpus": []}', '{"version": 2, "slots": [{}]}'])
def test_a_file_that_is_no_inventory_is_refused_and_left_as_it_is(tmp_path: Path, text: str) -> None:
    path = tmp_path / "inventory.json"
    path.write_text(text)
    with pytest.raises(ConfigError, match=r"inventory\.json: .*mend it or move it away"):
        Inventory(path)
    assert path.read_text() == text
