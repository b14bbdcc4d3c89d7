"""The scenario file of the simulated fleet: what it may say, read and checked as a whole.

    {"nodes": ["node-01", "node-02"], "gpus_per_node": 8, "model": "NVIDIA H100 80GB HBM3 (simulated)",
     "jobs": [{"job": "4711", "nodes": ["node-01"]}],
     "faults": [{"at_s": 60, "duration_s": 120, "kind": "gpu_lost", "nodes": ["node-01"], "gpu": 3},
                {"at_s": 300, "duration_s": 60, "kind": "hang", "nodes": ["node-01"]}],
     "repeat_s": 900, "seed": 7}

Only `nodes` is required. Times count from the start of the process; with `repeat_s` all faults come again in
every period. Kinds: node_down (no answer; a new boot id afterwards), gpu_lost (needs `gpu`), hang (every node
of the jobs on `nodes`), thermal and power_cap (`gpu`, or every GPU of the node).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

from exporter.errors import ConfigError

FaultKind = Literal["node_down", "gpu_lost", "hang", "thermal", "power_cap"]
"""Strongest first: where faults overlap, the one named earlier here holds."""
FAULT_KINDS: tuple[FaultKind, ...] = get_args(FaultKind)

SIMULATED = "(simulated)"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
_JOB = re.compile(r"[!-~]{1,128}")
_MAX_GPUS_PER_NODE = 16


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault, in every period.

    Attributes:
        kind: what happens.
        at_s: begin, from the start of the period.
        end_s: end, likewise.
        nodes: where; a hang holds on every node of the jobs that run on these.
        gpu: NVML index, None for every GPU of the node.
    """

    kind: FaultKind
    at_s: float
    end_s: float
    nodes: frozenset[str]
    gpu: int | None


@dataclass(frozen=True, slots=True)
class Scenario:
    """A simulated fleet.

    Attributes:
        nodes: names, in file order.
        gpus_per_node: how many GPUs each has.
        model: product name; it always says that it is simulated.
        job_by_node: job id of each node that runs one.
        faults: what goes wrong.
        repeat_s: length of a period, None if nothing repeats.
        seed: everything that looks random follows from it.
    """

    nodes: tuple[str, ...]
    gpus_per_node: int = 8
    model: str = f"NVIDIA H100 80GB HBM3 {SIMULATED}"
    job_by_node: Mapping[str, str] = field(default_factory=dict)
    faults: tuple[Fault, ...] = ()
    repeat_s: float | None = None
    seed: int = 0


def read_scenario(path: Path) -> Scenario:
    """Reads a scenario file.

    Raises:
        ConfigError: it is missing, no JSON, or wrong; every problem is named, in one line.
    """
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as exc:
        raise ConfigError(f"scenario {path}: {exc}") from exc
    problems: list[str] = []
    scenario = _Reader(problems).scenario(document)
    if problems:
        raise ConfigError(f"scenario {path}: {'; '.join(problems)}")
    return scenario


class _Reader:
    """Reads a document; what is wrong is collected, not raised, so that all of it is told at once."""

    def __init__(self, problems: list[str]) -> None:
        self._problems = problems

    def scenario(self, document: object) -> Scenario:
        known = ("nodes", "gpus_per_node", "model", "jobs", "faults", "repeat_s", "seed")
        top = self._object(document, "the file", known)
        nodes = self._names(top.get("nodes"), "nodes")
        gpus = self._number(top.get("gpus_per_node", 8), "gpus_per_node", 1, _MAX_GPUS_PER_NODE, whole=True)
        repeat_s = top.get("repeat_s")
        if repeat_s is not None:
            repeat_s = self._number(repeat_s, "repeat_s", 1, 1e9)
        model = top.get("model", Scenario.__dataclass_fields__["model"].default)
        if not isinstance(model, str) or not model:
            self._problems.append("model is no text")
            model = ""
        job_by_node = self._jobs(top.get("jobs", []), nodes)
        return Scenario(
            nodes=nodes,
            gpus_per_node=int(gpus),
            model=model if SIMULATED in model else f"{model} {SIMULATED}",
            job_by_node=job_by_node,
            faults=tuple(self._faults(top.get("faults", []), nodes, job_by_node, int(gpus), repeat_s)),
            repeat_s=repeat_s,
            seed=int(self._number(top.get("seed", 0), "seed", 0, 2**63, whole=True)),
        )

    def _object(self, value: object, where: str, known: tuple[str, ...]) -> dict[str, Any]:
        if not isinstance(value, dict):
            self._problems.append(f"{where} is no object")
            return {}
        for key in value:
            if key not in known:
                self._problems.append(f"{where}: unknown key {key!r}")
        return value

    def _list(self, value: object, where: str) -> list[Any]:
        if isinstance(value, list):
            return value
        self._problems.append(f"{where} is no list")
        return []

    def _names(self, value: object, where: str) -> tuple[str, ...]:
        names = self._list(value, where)
        if not names:
            self._problems.append(f"{where} is empty")
        bad = [name for name in names if not isinstance(name, str) or not _NAME.fullmatch(name)]
        if bad:
            self._problems.append(f"{where}: {bad[0]!r} is no node name")
            return ()
        if len(set(names)) != len(names):
            self._problems.append(f"{where} holds a name twice")
        return tuple(dict.fromkeys(names))

    def _number(self, value: object, where: str, low: float, high: float, whole: bool = False) -> float:
        kinds = (int,) if whole else (int, float)
        if isinstance(value, bool) or not isinstance(value, kinds) or not low <= value <= high:
            self._problems.append(f"{where} is no {'whole ' if whole else ''}number from {low:g} to {high:g}")
            return low
        return value

    def _known_nodes(self, value: object, where: str, nodes: tuple[str, ...]) -> frozenset[str]:
        names = self._names(value, where)
        for name in names:
            if name not in nodes:
                self._problems.append(f"{where}: no node {name!r}")
        return frozenset(names)

    def _jobs(self, value: object, nodes: tuple[str, ...]) -> dict[str, str]:
        job_by_node: dict[str, str] = {}
        for position, entry in enumerate(self._list(value, "jobs")):
            where = f"jobs[{position}]"
            row = self._object(entry, where, ("job", "nodes"))
            job = row.get("job")
            if not isinstance(job, str) or not _JOB.fullmatch(job):
                self._problems.append(f"{where}: job is no job id")
                continue
            for node in sorted(self._known_nodes(row.get("nodes"), f"{where}: nodes", nodes)):
                if node in job_by_node:
                    self._problems.append(f"{where}: {node} already runs {job_by_node[node]}")
                job_by_node[node] = job
        return job_by_node

    def _faults(
        self,
        value: object,
        nodes: tuple[str, ...],
        job_by_node: Mapping[str, str],
        gpus: int,
        repeat_s: float | None,
    ) -> Iterator[Fault]:
        for position, entry in enumerate(self._list(value, "faults")):
            where = f"faults[{position}]"
            row = self._object(entry, where, ("at_s", "duration_s", "kind", "nodes", "gpu"))
            kind = row.get("kind")
            if kind not in FAULT_KINDS:
                self._problems.append(f"{where}: kind is not one of {', '.join(FAULT_KINDS)}")
                continue
            at_s = self._number(row.get("at_s"), f"{where}: at_s", 0, 1e9)
            end_s = at_s + self._number(row.get("duration_s"), f"{where}: duration_s", 1e-3, 1e9)
            if repeat_s is not None and end_s > repeat_s:
                self._problems.append(f"{where} ends after repeat_s")
            hit = self._known_nodes(row.get("nodes"), f"{where}: nodes", nodes)
            gpu = row.get("gpu")
            if gpu is not None:
                gpu = int(self._number(gpu, f"{where}: gpu", 0, gpus - 1, whole=True))
            if (kind == "gpu_lost") and gpu is None:
                self._problems.append(f"{where}: gpu_lost needs gpu")
            if kind in ("node_down", "hang") and gpu is not None:
                self._problems.append(f"{where}: {kind} holds for whole nodes, so gpu has no meaning")
            if kind == "hang":
                hung = {job_by_node[node] for node in hit if node in job_by_node}
                if not hung:
                    self._problems.append(f"{where}: hang needs a node that runs a job")
                hit = frozenset(node for node, job in job_by_node.items() if job in hung)
            yield Fault(kind, at_s, end_s, hit, gpu)
