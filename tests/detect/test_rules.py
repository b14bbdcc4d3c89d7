"""Each detector's expression under `promtool test rules`: where it is true, where it is not."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from warehouse.causes import load_causes
from warehouse.causes.symptom.collective_timeout import ONSET_EXPR

EXPRESSIONS = {found.key: found.expr for cause in load_causes().values() for found in cause.detectors} | {
    "job_hang_onset": ONSET_EXPR
}

A = 'job="gpu-minutes",node="a"'
GPU = 'job="gpu-minutes",node="a",slot="0000:1a:00",uuid="GPU-1"'
UP, NODE, GPU_UP = f"up{{{A}}}", 'up{job="node",node="a"}', f"gpuminutes_gpu_up{{{GPU}}}"


@dataclass(frozen=True)
class Case:
    """Series in promtool's notation at one sample a minute, and the labels that are true after ten minutes."""

    name: str
    detector: str
    series: dict[str, str]
    hits: tuple[str, ...]


def reason(text: str) -> dict[str, str]:
    """Gives a GPU that is not up, for this reason."""
    return {GPU_UP: "0x20", f'gpuminutes_gpu_down_reason{{{GPU},reason="{text}"}}': "1x20"}


def job(*powers_w: str, utilisation: str = "1x20", sharer: bool = False) -> dict[str, str]:
    """Gives a job with one GPU per power; with `sharer`, a second job on the first GPU by time slicing."""
    series = {}
    for number, power in enumerate(powers_w):
        labels = f'node="a",slot="{number}",uuid="GPU-{number}"'
        series[f"gpuminutes_gpu_utilization_ratio{{{labels}}}"] = utilisation
        series[f"gpuminutes_gpu_power_watts{{{labels}}}"] = power
        series[f'gpuminutes_gpu_power_limit_watts{{{labels},kind="enforced"}}'] = "700x20"
        series[f'gpuminutes_gpu_power_limit_watts{{{labels},kind="default"}}'] = "100x20"
        series[f'gpuminutes_gpu_workload_info{{{labels},job_id="7",kind="slurm"}}'] = "1x20"
    if sharer:
        series['gpuminutes_gpu_workload_info{node="a",slot="0",uuid="GPU-0",job_id="8",kind="k8s"}'] = "1x20"
    return series


HIT_GPU = f"{{{GPU}}}"
CASES = [
    Case("both silent", "node_unreachable", {UP: "0x20", NODE: "0x20"}, (f"{{{A}}}",)),
    Case("exporter alone", "node_unreachable", {UP: "0x20", NODE: "1x20"}, ()),
    Case("no witness", "node_unreachable", {UP: "0x20"}, ()),
    Case("other node", "node_unreachable", {UP: "0x20", 'up{job="node",node="b"}': "0x20"}, ()),
    Case("exporter alone", "exporter_silent", {UP: "0x20", NODE: "1x20"}, (f"{{{A}}}",)),
    Case("no witness", "exporter_silent", {UP: "0x20"}, (f"{{{A}}}",)),
    Case("both silent", "exporter_silent", {UP: "0x20", NODE: "0x20"}, ()),
    Case("all well", "exporter_silent", {UP: "1x20", NODE: "0x20"}, ()),
    *(Case(text, "gpu_off_bus", reason(text), (HIT_GPU,)) for text in ("lost", "reset_required", "missing", "driver")),
    *(Case(text, "gpu_off_bus", reason(text), ()) for text in ("timeout", "unknown")),
    *(Case(text, "gpu_no_answer", reason(text), (HIT_GPU,)) for text in ("timeout", "unknown")),
    *(Case(text, "gpu_no_answer", reason(text), ()) for text in ("lost", "driver")),
    Case("no reason", "gpu_off_bus", {GPU_UP: "0x20"}, ()),
    Case("all quiet", "job_hang", job("150x20", "150x20"), ('{job_id="7"}',)),
    Case("most quiet", "job_hang", job("150x20", "150x20", "650x20"), ('{job_id="7"}',)),
    Case("half quiet", "job_hang", job("150x20", "650x20"), ()),
    Case("one GPU idle", "job_hang", job("150x20", utilisation="0x20"), ()),
    Case("power dropped a minute ago", "job_hang", job("650x9 150x11"), ()),
    Case("power dropped a minute ago", "job_hang_onset", job("650x9 150x11"), ('{job_id="7"}',)),
    Case("a GPU shared by two jobs", "job_hang", job("150x20", sharer=True), ('{job_id="7"}', '{job_id="8"}')),
]


def test_every_detector_has_cases_that_hit_and_cases_that_do_not() -> None:
    detectors = EXPRESSIONS.keys() - {"job_hang_onset"}
    assert {case.detector for case in CASES if case.hits} >= detectors
    assert {case.detector for case in CASES if not case.hits} >= detectors


@pytest.mark.parametrize("detector", sorted(EXPRESSIONS))
def test_promtool_agrees(tmp_path: Path, detector: str) -> None:
    """One rule per detector; JSON is YAML, so no renderer of our own stands between the case and promtool."""
    rules = tmp_path / "rules.yml"
    rules.write_text(
        json.dumps({"groups": [{"name": "g", "rules": [{"alert": detector, "expr": EXPRESSIONS[detector]}]}]})
    )
    subprocess.run(["promtool", "check", "rules", str(rules)], check=True, capture_output=True)
    tests = [
        {
            "name": case.name,
            "interval": "1m",
            "input_series": [{"series": series, "values": values} for series, values in case.series.items()],
            "promql_expr_test": [
                {
                    "expr": f'ALERTS{{alertname="{detector}"}} * 0',
                    "eval_time": "10m",
                    "exp_samples": [
                        {"labels": labels[:-1] + f',alertname="{detector}",alertstate="firing"}}', "value": 0}
                        for labels in case.hits
                    ],
                }
            ],
        }
        for case in CASES
        if case.detector == detector
    ]
    file = tmp_path / "tests.yml"
    file.write_text(json.dumps({"rule_files": [str(rules)], "evaluation_interval": "1m", "tests": tests}))
    done = subprocess.run(["promtool", "test", "rules", str(file)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
