"""Every worked example of the catalogue, twice: as a case of promtool, and through the evaluator; the same answer."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.causes.cases import Example, examples, signals_of
from tests.detect.server import SERVERS
from warehouse.causes import load_causes
from warehouse.causes.examples import ADDRESSES, dcgm
from warehouse.detect.needs import may_be_true
from warehouse.detect.observe import catalogue, observe
from warehouse.detect.render import IDENTITY, Form, alert_expr, forms
from warehouse.detect.site import Site
from warehouse.detect.stitch import detector_of, name_in_key
from warehouse.detect.words import Settings
from warehouse.evidence.prometheus import PrometheusClient
from warehouse.model.cause import Detector, Told
from warehouse.model.time import MS_PER_SECOND

EXAMPLES = examples()
SCRAPE_MS = 15_000
# How far an edge may lie from the truth: one scrape, and one more where it stays on the grid of evaluation.
MOST_OFF_S = 30


@pytest.fixture(scope="module", params=sorted(SERVERS))
def client(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[PrometheusClient]:
    """Gives a client of each kind of server in turn; it knows every example."""
    server, folder = SERVERS[request.param], tmp_path_factory.mktemp("examples")
    with server(folder, signals_of(EXAMPLES)) as address, PrometheusClient(address, 60) as found:
        yield found


def test_every_detector_has_an_example_that_is_told_and_one_that_is_not() -> None:
    for cause in load_causes().values():
        for detector in cause.detectors:
            if detector.fan_in is not None:
                continue
            assert any(case.told for case in detector.cases), f"{detector.key} has no example that is told"
            assert any(not case.told for case in detector.cases), f"{detector.key} has no example that is not told"


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_the_evaluator_tells_what_the_example_says(client: PrometheusClient, example: Example) -> None:
    """Also: nothing else speaks up, save what the example names."""
    # What none of its series could make true is not asked: the server knows those of all examples.
    names = {name.partition("{")[0] for name in example.whole()}
    keys = {d.key for _, d in catalogue(Site()) if d.fan_in or any(may_be_true(form.expr, names) for form in _forms(d))}
    seen = observe(example.window, client, example.fleet, [], Settings(), keys)
    mine = [item for item in seen.evidence if (detector_of(item) or "") == _speaker(example.detector)]
    mine = [item for item in mine if item.cause == example.code]
    found = [
        (name_in_key(item), (item.start_ms - example.start_ms) / MS_PER_SECOND,
         None if item.end_ms is None else (item.end_ms - example.start_ms) / MS_PER_SECOND)
        for item in mine
    ]  # fmt: skip
    wanted = [(_about(example.detector, told), told.start_s, told.end_s) for told in example.case.told]
    assert [about for about, _, _ in sorted(found)] == [about for about, _, _ in sorted(wanted)], found
    for (_, start_s, end_s), (_, true_start_s, true_end_s) in zip(sorted(found), sorted(wanted), strict=True):
        assert abs(start_s - true_start_s) <= MOST_OFF_S, (found, wanted)
        assert (end_s is None) == (true_end_s is None), (found, wanted)
        if end_s is not None and true_end_s is not None:
            assert abs(end_s - true_end_s) <= MOST_OFF_S, (found, wanted)
    for item, told in zip(mine, example.case.told, strict=True):
        if told.lost_ppm is not None:
            assert item.lost_ppm == told.lost_ppm
        assert item.earliest_start_ms is None or item.earliest_start_ms <= item.start_ms
    others = {detector_of(item) or item.key for item in seen.evidence} - {_speaker(example.detector)}
    assert others == set(example.case.also) - {_speaker(example.detector)}
    strange = [f for f in seen.findings if "no label" in f.message or "can be placed" in f.message]
    assert strange == []


@cache
def _all_forms() -> dict[str, list[Form]]:
    return {d.key: forms(d, Site(), SCRAPE_MS, 600_000) for _, d in catalogue(Site()) if d.fan_in is None}


def _forms(detector: Detector) -> list[Form]:
    return _all_forms()[detector.key]


def _speaker(detector: Detector) -> str:
    return detector.fan_in.of if detector.fan_in else detector.key


def _about(detector: Detector, told: Told) -> str:
    return f"endpoint:{told.about}" if detector.scope == "endpoint" else told.about


@pytest.mark.parametrize("key", sorted({example.detector.key for example in EXAMPLES if not example.detector.fan_in}))
def test_promtool_agrees(tmp_path: Path, key: str) -> None:
    """The alert fires for those that the example tells, while it lasts, and for nobody before and after."""
    mine = [example for example in EXAMPLES if example.detector.key == key]
    detector = mine[0].detector
    rule = {"alert": key, "expr": alert_expr(detector, Site(), SCRAPE_MS), "for": f"{detector.min_duration_ms}ms"}
    rules = tmp_path / "rules.yml"
    rules.write_text(json.dumps({"groups": [{"name": "g", "rules": [rule]}]}))
    tests = [
        {
            "name": example.case.name,
            "interval": "15s",
            "input_series": [{"series": name, "values": _text(values)} for name, values in example.whole().items()],
            "promql_expr_test": [_checked(detector, example, at_s) for at_s in _instants(example)],
        }
        for example in mine
    ]
    file = tmp_path / "tests.yml"
    file.write_text(json.dumps({"rule_files": [str(rules)], "evaluation_interval": "15s", "tests": tests}))
    done = subprocess.run(["promtool", "test", "rules", str(file)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def _instants(example: Example) -> list[int]:
    """Gives when to ask: in the last quarter of each episode, before it and well behind it; else now and then."""
    detector, asked = example.detector, []
    behind_s = (detector.window_ms + 60_000) / 1000
    last_s = example.steps * 15 - 15
    for told in example.case.told:
        end_s = last_s if told.end_s is None else told.end_s
        length_s = end_s - told.start_s
        soon_s = told.start_s + detector.min_duration_ms / 1000 + 45
        # An event, or a fault that outlives its series, is asked about soon after it began.
        late_s = soon_s if detector.momentary or detector.clears else end_s - min(30, length_s / 4)
        asked += [told.start_s - 30, late_s]
        if told.end_s is not None and not detector.momentary and not detector.clears:
            asked.append(told.end_s + behind_s)
    if not example.case.told:
        asked = [last_s / 4, last_s / 2, last_s * 3 / 4, last_s]
    # For how long the alert of an event fires is not known: nothing is asked while that of another may.
    asked = [at_s for at_s in asked if all(at_s < told.start_s or _known_to_fire(detector, told, at_s)
                                           for told in example.case.told)]  # fmt: skip
    return sorted({int(at_s) // 15 * 15 for at_s in asked if 0 <= at_s <= last_s})


def _known_to_fire(detector: Detector, told: Told, at_s: float) -> bool:
    return not detector.momentary or _just_seen(detector, told, int(at_s))


def _checked(detector: Detector, example: Example, at_s: int) -> dict[str, object]:
    by = ", ".join(IDENTITY[detector.scope])
    firing = [
        told
        for told in example.case.told
        if told.start_s <= at_s and (told.end_s is None or at_s <= told.end_s or _just_seen(detector, told, at_s))
    ]
    return {
        "expr": f'group by ({by}) (ALERTS{{alertname="{detector.key}",alertstate="firing"}})',
        "eval_time": f"{at_s}s",
        "exp_samples": [{"labels": _labels(example, told), "value": 1} for told in firing],
    }


def _just_seen(detector: Detector, told: Told, at_s: int) -> bool:
    """Tells whether an event is so fresh that its alert fires; it is not known for how long it does."""
    return detector.momentary and at_s <= told.start_s + detector.min_duration_ms / 1000 + 60


def _labels(example: Example, told: Told) -> str:
    if example.detector.scope == "gpu":
        node, _, index = told.about.partition("/")
        # An alert carries the address as its exporter spells it.
        foreign = any(f'Hostname="{node}"' in name for name in example.case.series)
        slot = dcgm(int(index), node)["pci_bus_id"] if foreign else ADDRESSES[int(index)]
        return f'{{node="{node}", slot="{slot}"}}'
    label = IDENTITY[example.detector.scope][0]
    return f'{{{label}="{told.about.removeprefix("job:")}"}}'


def _text(values: list[float | str | None]) -> str:
    return " ".join("_" if value is None else value if isinstance(value, str) else repr(value) for value in values)
