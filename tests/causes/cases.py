"""The catalogue's worked examples as samples, for promtool and for a real Prometheus that the evaluator asks."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from tests.detect.fleet import Fleet
from tests.detect.server import Signals
from warehouse.causes import load_causes
from warehouse.causes.examples import ADDRESSES, dcgm, gpu, series
from warehouse.model.cause import Case, Detector
from warehouse.model.time import MS_PER_HOUR, Window, parse_instant

STEP_MS = 15_000
NODES = ("n1", "n2", "n3", "n4", "n5")
# Every example has a stretch of its own, far enough from the next that no look reaches into it.
_FIRST_MS = parse_instant("2025-06-02T00:00:00Z")
_APART_MS = 9 * MS_PER_HOUR
# Samples of good time before and behind, so that no edge of an example is an edge of what is known.
_MARGIN = 8
STALE = "stale"
# Every node booted ten days before its example, in seconds after the example's start.
_BOOTED_S = -864_000.0

Value = float | None | str


@dataclass(frozen=True)
class Example:
    """A case of a detector, with the stretch of time that it has to itself."""

    code: str
    detector: Detector
    case: Case
    number: int

    @property
    def name(self) -> str:
        """Gives what a test is called by."""
        return f"{self.detector.key}: {self.case.name}"

    @property
    def start_ms(self) -> int:
        """Gives the instant of its first sample."""
        return _FIRST_MS + self.number * _APART_MS

    @property
    def steps(self) -> int:
        """Gives the number of samples of its longest series."""
        return max(len(values) for values in self.values().values())

    @property
    def window(self) -> Window:
        """Gives the time of its samples."""
        return Window(self.start_ms, self.start_ms + self.steps * STEP_MS)

    @property
    def fleet(self) -> Fleet:
        """Gives the nodes that its series name, two GPUs each."""
        named = sorted(
            {match for name in self.case.series for match in re.findall(r'(?:node|Hostname)="([^"]+)"', name)}
        )
        return Fleet(tuple(named) or ("n1",), gpus=len(ADDRESSES), rack="r1")

    def values(self) -> dict[str, list[Value]]:
        """Gives the samples of each series; None where there is none."""
        return {canonical(name): list(expand(text)) for name, text in self.case.series.items()}

    def whole(self) -> dict[str, list[Value]]:
        """Gives the samples of the case, and of everything else on its nodes: all well."""
        said = self.values()
        steps = max(len(values) for values in said.values())
        found: dict[str, list[Value]] = {}
        # A node is watched by one exporter of GPUs: that whose series the case has.
        others = {match for name in said for match in re.findall(r'Hostname="([^"]+)"', name)}
        for node in self.fleet.nodes:
            for job in ("dcgm-exporter" if node in others else "gpu-minutes", "node"):
                found[series("up", job=job, node=node)] = [1.0] * steps
            found[series("node_boot_time_seconds", node=node)] = [_BOOTED_S] * steps
            for index in range(len(ADDRESSES)):
                if node in others:
                    found[series("DCGM_FI_DEV_GPU_TEMP", dcgm(index, node))] = [40.0] * steps
                else:
                    found[series("gpuminutes_gpu_up", gpu(index, node))] = [1.0] * steps
        return {canonical(name): values for name, values in found.items()} | said


def examples() -> list[Example]:
    """Gives every case of the catalogue."""
    found = [
        (code, detector, case)
        for code, cause in load_causes().items()
        for detector in cause.detectors
        for case in detector.cases
    ]
    return [Example(code, detector, case, number) for number, (code, detector, case) in enumerate(found)]


def signals_of(cases: list[Example]) -> Signals:
    """Gives the samples of all examples, each at its own time."""
    signals = Signals(block_hours=9_000)
    for example in cases:
        for name, values in example.whole().items():
            family, labels = parse(name)
            for step, value in enumerate(values):
                at_ms = example.start_ms + step * STEP_MS
                if isinstance(value, float):
                    signals.put(family, at_ms, _dated(family, value, example), **labels)
    return signals


# Families whose values are Unix times: in an example they are seconds after its start.
_TIMES = ("_timestamp_seconds", "boot_time_seconds", "start_time_seconds", "kube_pod_start_time")


def _dated(family: str, value: float, example: Example) -> float:
    recent = family.endswith(_TIMES) and value < 1_000_000_000
    return value + example.start_ms / 1000 if recent else value


def expand(text: str) -> Iterator[Value]:
    """Gives the values of promtool's notation: `1x3`, `0+2x5`, `_x4`, `stale`."""
    for word in text.split():
        if word == STALE:
            yield STALE
        elif match := re.fullmatch(r"_(?:x(\d+))?", word):
            yield from [None] * int(match[1] or 1)
        else:
            match = re.fullmatch(r"(-?[\d.]+(?:e-?\d+)?)(?:([+-][\d.]+(?:e-?\d+)?)?x(\d+))?", word)
            assert match, f"'{word}' is no value of promtool's notation"
            first, step, times = float(match[1]), float(match[2] or 0), int(match[3] or 0)
            yield from (first + step * number for number in range(times + 1))


def parse(name: str) -> tuple[str, dict[str, str]]:
    """Gives the name and the labels of a series."""
    family, _, inside = name.partition("{")
    return family, dict(re.findall(r'([a-zA-Z_]\w*)="((?:[^"\\]|\\.)*)"', inside))


def canonical(name: str) -> str:
    """Gives a series with its labels in order, so that two spellings are one."""
    family, labels = parse(name)
    return series(family, labels)
