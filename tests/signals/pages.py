"""Pages for tests: the samples, and pages made at random of everything that a dcgm-exporter may write."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

from exporter.screen import BLANKS
from warehouse.signals import load_dialects
from warehouse.signals.page import Raw, read_page
from warehouse.signals.translate import Translation, translate

DATA = Path(__file__).parent / "data"
INVALID = "dcgm_mig_string_value_INVALID.prom"
SAMPLES = sorted(path.name for path in DATA.glob("*.prom") if path.name != INVALID)

ROWS = {row.name: row for dialect in load_dialects() for row in dialect.rows}


def sample_page(name: str) -> list[Raw]:
    """Gives the samples of a file."""
    return read_page((DATA / name).read_bytes(), name)


def told(page: str) -> Translation:
    """Translates a page given as text."""
    return translate(read_page(page.encode(), "page"))


def values(translation: Translation, family: str) -> dict[tuple[str, ...], float]:
    """Gives the samples of one family by its labels."""
    return {s.labels: s.value for s in translation.samples if s.family.name == "gpuminutes_" + family}


def reasons(said: Translation) -> Counter[tuple[str, str]]:
    """Gives how often each name was refused for each reason."""
    return Counter((refusal.name, refusal.reason) for refusal in said.refusals)


def assert_counted(said: Translation) -> None:
    """Every sample is counted once."""
    assert said.read == said.used + said.repeated + len(said.refusals) + len(said.events) + said.unknown


_VALUES = (0.0, 1.0, 0.5, 3.0, 37.0, 99.0, 100.0, 511.0, 4096.0, 126272101025.0, 4294967295.0, -1.0, *sorted(BLANKS))
_ADDRESSES = ("", "00000000:1A:00.0", "0000000B:AB:0F.0", "00010000:ff:1e.0", "0008:01:00.0", "nowhere")


def random_page(rng: random.Random, names: list[str]) -> list[Raw]:
    """Gives one page: some names, some GPUs, perhaps MIG, pods, jobs, links; old and new labels; blanks and junk."""
    lower, instances = rng.random() < 0.5, rng.choice([(), ("3", "5")])
    gpus = []
    for index in range(rng.randint(1, 3)):
        labels = {"gpu": str(index)}
        if rng.random() < 0.85:
            labels[rng.choice(["UUID", "UUID", "uuid"])] = f"GPU-{rng.randrange(16**8):08x}"
        labels["pci_bus_id"] = rng.choice(_ADDRESSES)
        gpus.append(labels | {"hostname" if lower else "Hostname": rng.choice(["node-a", "node-b", ""])})
    page: dict[tuple[str, frozenset[tuple[str, str]]], Raw] = {}
    for name in rng.sample(names, min(len(names), 25)):
        for gpu in gpus:
            for instance in (*instances, "", "N/A") if rng.random() < 0.5 else ("",):
                for _ in range(rng.choice([1, 1, 3])):
                    labels = gpu | {"GPU_I_ID": instance} | _workload(rng)
                    labels = {label: text for label, text in labels.items() if text}
                    raw = Raw(name, labels, rng.choice(_VALUES))
                    page.setdefault((name, frozenset(labels.items())), raw)
    return list(page.values())


def _workload(rng: random.Random) -> dict[str, str]:
    kind = rng.random()
    if kind < 0.3:
        prefix = rng.choice(["", "exported_"])
        pod = rng.choice(["pod-0", "pod-1", "pod-2", "ERROR - FAILED TO CONVERT TO STRING"])
        return {prefix + "pod": pod, prefix + "namespace": "ns", prefix + "container": "main", "pod_name": "old"}
    if kind < 0.4:
        return {"hpc_job": str(rng.randrange(3))}
    return {"nvlink": "3"} if kind < 0.45 else {}
