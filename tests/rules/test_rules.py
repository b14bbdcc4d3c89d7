"""The rules of the catalogue: accepted by promtool, the same numbers as the detectors, and as a site sets them."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
import yaml

from tests.conftest import Answer, Cli
from warehouse.causes import load_causes
from warehouse.detect.observe import urgent
from warehouse.detect.site import Site
from warehouse.rules.alerting import HEARTBEAT, alert_name

DETECTORS = {d.key: d for cause in load_causes().values() for d in cause.detectors if d.fan_in is None}


def rules_of(answer: Answer) -> dict[str, dict[str, object]]:
    """Gives the alerts of a printed file by name."""
    assert answer.code == 0, answer.err
    groups = yaml.safe_load(answer.out)["groups"]
    return {rule["alert"]: rule for group in groups for rule in group["rules"] if "alert" in rule}


def test_promtool_accepts_them_and_every_detector_has_one(cli: Cli, tmp_path: Path) -> None:
    answer = cli("rules", "--runbooks", "https://wiki.example/runbooks/")
    file = tmp_path / "gpu-minutes.yml"
    file.write_text(answer.out)
    done = subprocess.run(["promtool", "check", "rules", str(file)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    alerts = rules_of(answer)
    assert alerts.keys() == {HEARTBEAT, *map(alert_name, DETECTORS)}
    dead = alerts["GpuMinutesNodeUnreachable"]
    assert dead["labels"] == {
        "severity": "page",
        "gpu_minutes_detector": "node_unreachable",
        "cause": "host/node_unreachable",
        "state": "down",
        "owner": "hardware",
    }
    assert dead["annotations"]["runbook_url"] == "https://wiki.example/runbooks/host.md#node_unreachable"  # type: ignore[index]


def test_a_site_sets_numbers_labels_and_jobs(cli: Cli, tmp_path: Path) -> None:
    site = tmp_path / "site.toml"
    site.write_text(
        'exporters = ["ours"]\n[jobs]\nnode = ["hosts"]\n[labels]\nnode_exporter = ["host"]\n'
        "[detectors.job_hang]\nmin_duration_s = 600\nmax_power_ratio = 0.3\n"
        "[detectors.gpu_no_answer]\nenabled = false\n"
    )
    answer = cli("rules", "--site-file", site)
    alerts = rules_of(answer)
    assert alerts["GpuMinutesJobHang"]["for"] == "600s"
    assert "GpuMinutesGpuNoAnswer" not in alerts
    assert 'label_replace(up{job="hosts"}, "node", "$1", "host"' in str(alerts["GpuMinutesNodeUnreachable"]["expr"])
    assert "DCGM" not in answer.out
    assert "< bool 0.3" in answer.out.replace("\n", "")
    listed = json.loads(cli("rules", "--list", "--format", "json", "--site-file", site).out)
    power = next(row for row in listed if row["setting"] == "max_power_ratio" and row["detector"] == "job_hang")
    assert (power["value"], power["default"]) == (0.3, 0.45)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[detector.x]", "unknown section [detector]; there are custom, detectors, endpoints, exporters, jobs, labels"),
        ("[detectors.nope]", "[detectors.nope]: no such detector; `gpu-minutes rules --list` names them"),
        (
            "[detectors.job_hang]\nmax_powr = 1",
            "[detectors.job_hang] max_powr: unknown; there are enabled, max_power_ratio, min_duration_s, "
            "min_quiet_share, min_utilisation_ratio",
        ),
        ("[detectors.job_hang]\nmax_power_ratio = 'x'", "[detectors.job_hang] max_power_ratio: 'x' is not a number"),
        ("[jobs]\nnode = 'x'", "[jobs] node: must be a list of names, such as ['a', 'b']"),
        ("exporters = ['nvml']", "exporters: 'nvml' is unknown; there are dcgm, nvidia_smi, ours"),
        ("[labels", "is no TOML: "),
    ],
)
def test_a_bad_site_file_is_one_clear_line(cli: Cli, tmp_path: Path, text: str, said: str) -> None:
    site = tmp_path / "site.toml"
    site.write_text(text)
    answer = cli("rules", "--site-file", site)
    assert answer.code == 2
    assert answer.err.startswith(f"gpu-minutes: {site}: {said}") and len(answer.err.splitlines()) == 1


def test_a_site_s_own_detector_stands_beside_the_catalogue_s(cli: Cli, tmp_path: Path) -> None:
    site = tmp_path / "site.toml"
    site.write_text(
        '[custom.scratch_full]\nexpr = \'node_filesystem_avail_bytes{mountpoint="/scratch"} < 1e9\'\nscope = "node"\n'
        'cause = "storage/full_or_quota"\nmin_duration_s = 120\n'
    )
    alert = rules_of(cli("rules", "--site-file", site))["GpuMinutesScratchFull"]
    assert alert["for"] == "120s" and alert["labels"]["cause"] == "storage/full_or_quota"  # type: ignore[index]
    site.write_text('[custom.job_hang]\nexpr = "up"\n[custom.x]\nscope = "rack"\ncause = "no/such"\nexpr = "up"\n')
    answer = cli("rules", "--site-file", site)
    assert answer.code == 2
    assert [line.split(": ", 2)[2] for line in answer.err.splitlines()] == [
        "[custom.job_hang]: must be a name of its own in small letters, digits and _",
        "[custom.x] cause: 'no/such' is not in the catalogue (docs/causes.md)",
        "[custom.x] scope: must be one of endpoint, gpu, job, node",
    ]


def test_urgent_is_what_should_wake_somebody_and_is_known_soon() -> None:
    keys = urgent(Site())
    assert {"node_unreachable", "hall_power_loss", "gpu_off_bus", "gpu_off_bus_xid"} <= keys
    # A hang must last five minutes, a brake only slows, and a straggler wakes nobody.
    assert keys.isdisjoint({"job_hang", "power_brake", "straggler_low_clock", "domain_hw_thermal"})
