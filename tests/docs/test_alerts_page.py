"""The page about alerts: its commands print what it says, its configuration delivers, its codes and flags are all."""

from __future__ import annotations

import dataclasses
import re
import subprocess
import time
from pathlib import Path

import pytest

from tests.alertmanager import alertmanager
from tests.alerts.serving import serving
from tests.alerts.test_alertmanager import said
from tests.docs.consoles import ROOT, blocks, run_page, steps
from warehouse.alerts.receive import DEFAULT_IGNORED, DEFAULT_SOURCE
from warehouse.cli.commands import serve
from warehouse.model.alert import Reading

PAGE = (ROOT / "docs" / "alerts.md").read_text(encoding="utf-8")
CONFIG = (ROOT / "deploy" / "alertmanager.yml").read_text(encoding="utf-8")
TOKEN = "/etc/gpu-minutes/alertmanager.token"
ADDRESS = "127.0.0.1:9845"


def commands() -> list[str]:
    return [command for kind, block in blocks(PAGE) if kind == "console" for command, _ in steps(block)]


@pytest.mark.slow
def test_every_command_prints_what_the_page_says(database_url: str, tmp_path: Path) -> None:
    """`serve` runs to the end of the test, on a free port; `pip install` is what the packaging tests do."""
    token = str(tmp_path / "alertmanager.token")
    parts = re.split(r"```console\n\$ pip install.*?```", PAGE, flags=re.DOTALL)
    assert len(parts) == 2
    before, after = (part.replace(TOKEN, token) for part in parts)
    ran = run_page(before, database_url)
    assert Path(token).read_text().startswith("gpm_")
    assert Path(token).stat().st_mode & 0o077 == 0
    with serving(database_url, tmp_path) as served:
        assert served.process.stdout is not None
        said_first = f"API on {served.url} (Ctrl-C ends it)\n"
        assert served.process.stdout.readline() == said_first
        ran += run_page(after.replace(f"http://{ADDRESS}", served.url), database_url)
    assert said_first.replace(served.url, f"http://{ADDRESS}") in PAGE
    assert len(ran) == len(commands()) - 2 > 7


@pytest.mark.slow
def test_the_configuration_delivers(database_url: str, tmp_path: Path) -> None:
    assert f"```yaml\n{CONFIG}```" in PAGE
    with serving(database_url, tmp_path) as served:
        config = CONFIG.replace(f"http://{ADDRESS}", served.url).replace(TOKEN, str(served.credentials))
        assert config.count(served.url) == config.count(str(served.credentials)) == 1
        path = tmp_path / "checked.yml"
        path.write_text(config)
        checked = subprocess.run(["amtool", "check-config", str(path)], capture_output=True, text=True)
        assert checked.returncode == 0, checked.stdout + checked.stderr
        with alertmanager(tmp_path, config) as manager:
            manager.post(said("page", "n1", alertname="GpuMinutesHeartbeat"))
            deadline = time.monotonic() + 15
            while not served.rows("select 1 from alert_episode where state = 'open'"):
                assert time.monotonic() < deadline, manager.log()[-2000:]
                time.sleep(0.1)


def test_the_heartbeat_is_a_rule(tmp_path: Path) -> None:
    (rule,) = re.findall(r"```yaml\n(groups:.*?)```", PAGE, re.DOTALL)
    path = tmp_path / "rules.yml"
    path.write_text(rule)
    checked = subprocess.run(["promtool", "check", "rules", str(path)], capture_output=True, text=True)
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_names_and_defaults_are_those_of_the_program() -> None:
    assert f"API on http://{serve._DEFAULT} " in PAGE
    assert re.search(rf"`{DEFAULT_SOURCE}` unless said otherwise", PAGE)
    assert all(f"`{label}`" in PAGE for label in DEFAULT_IGNORED)
    flags = {field.name for field in dataclasses.fields(Reading) if field.type == "bool"}
    assert set(re.findall(r"^\| `([a-z_]+)` \|", PAGE, re.MULTILINE)) == flags


def test_every_code_that_is_answered_is_on_the_page() -> None:
    sources = "".join(path.read_text() for path in (ROOT / "warehouse" / "api").rglob("*.py"))
    answered = set(re.findall(r"(?:HTTPException\(|status_code=)\s*(\d{3})", sources)) | {"200"}
    assert {int(code) for code in re.findall(r"^\| (\d{3}) \|", PAGE, re.MULTILINE)} == {int(code) for code in answered}


@pytest.mark.parametrize("target", sorted(set(re.findall(r"\]\((?!http)([^)#]+)\)", PAGE))))
def test_every_link_leads_somewhere(target: str) -> None:
    assert (ROOT / "docs" / target).exists()
