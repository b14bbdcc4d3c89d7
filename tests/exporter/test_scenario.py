"""What a wrong scenario of the simulated fleet is told."""

from __future__ import annotations

from pathlib import Path

import pytest

from exporter.errors import ConfigError
from tests.exporter.test_simulate import scenario


@pytest.mark.parametrize(
    ("changes", "part"),
    [
        ({"nodes": []}, "nodes is empty"),
        ({"nodes": ["a/b"]}, "'a/b' is no node name"),
        ({"nodes": ["n1", "n1", "n2", "n3"]}, "nodes holds a name twice"),
        ({"gpus_per_node": 0}, "gpus_per_node is no whole number from 1 to 16"),
        ({"gpus": 8}, "unknown key 'gpus'"),
        ({"jobs": [{"job": "1", "nodes": ["n9"]}], "faults": []}, "jobs[0]: nodes: no node 'n9'"),
        (
            {"jobs": [{"job": "1", "nodes": ["n1"]}, {"job": "2", "nodes": ["n1"]}], "faults": []},
            "n1 already runs 1",
        ),
        ({"faults": [{"at_s": 1, "duration_s": 1, "kind": "fire", "nodes": ["n1"]}]}, "kind is not one of"),
        ({"faults": [{"at_s": 1, "duration_s": 1, "kind": "gpu_lost", "nodes": ["n1"]}]}, "needs gpu"),
        ({"faults": [{"at_s": 1, "duration_s": 1, "kind": "hang", "nodes": ["n3"]}]}, "runs a job"),
        ({"faults": [{"at_s": 899, "duration_s": 2, "kind": "thermal", "nodes": ["n3"]}]}, "after repeat_s"),
        ({"faults": [{"at_s": -1, "duration_s": 0, "kind": "thermal", "nodes": ["n3"]}]}, "duration_s is no"),
        ({"repeat_s": True}, "repeat_s is no number"),
        ({"model": 3}, "model is no text"),
    ],
)
def test_a_wrong_scenario_names_what_is_wrong(tmp_path: Path, changes: dict[str, object], part: str) -> None:
    with pytest.raises(ConfigError) as caught:
        scenario(tmp_path, **changes)
    assert part in str(caught.value)
    assert "\n" not in str(caught.value)


def test_all_problems_are_told_at_once(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"gpus_per_node.*seed"):
        scenario(tmp_path, gpus_per_node=99, seed=-1)
