"""The page about the exporter: its commands run, its flags, files and metrics exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from exporter.cli import build_parser
from exporter.collectors import discover
from exporter.errors import REASONS
from exporter.metrics import FAMILIES
from tests.exporter.conftest import StartExporter, driver, env, library, start  # noqa: F401 - fixtures
from tests.exporter.fake_nvml.script import FakeDriver
from tests.exporter.harness import Page, run_exporter

ROOT = Path(__file__).parent.parent.parent
PAGE = (ROOT / "docs" / "exporter.md").read_text(encoding="utf-8")
STATE = "/var/lib/gpu-minutes"


def commands() -> list[list[str]]:
    """Every command of a console block, in words."""
    blocks = re.findall(r"```console\n(.*?)```", PAGE, re.DOTALL)
    return [line.removeprefix("$ ").split() for block in blocks for line in block.splitlines()]


def test_the_commands_are_those_that_are_run_below() -> None:
    assert [words[0] for words in commands()] == ["pip", *["gpu-minutes-exporter"] * 3]


def test_its_commands_do_what_it_says(
    start: StartExporter,  # noqa: F811 - the fixture
    driver: FakeDriver,  # noqa: F811
    env: dict[str, str],  # noqa: F811
    tmp_path: Path,
) -> None:
    once, serve, retire = ([word.replace(STATE, str(tmp_path)) for word in words[1:]] for words in commands()[1:])
    assert Page(run_exporter(*once, env=env).stdout).value("gpus_visible") == 2
    exporter = start(*serve)
    exporter.wait(lambda page: page.find("gpus_visible") and page.value("gpus_visible") == 2)
    driver.gpu(0).every_return = 15
    exporter.wait(lambda page: page.value("gpu_up", uuid=driver.uuid(0)) == 0)
    ran = run_exporter(*retire, env=env)
    assert (ran.returncode, ran.stderr) == (0, "")
    exporter.wait(lambda page: not page.find("gpu_up", uuid=driver.uuid(0)))


def test_every_flag_exists() -> None:
    known = {flag for action in build_parser(discover())._actions for flag in action.option_strings}
    named = set(re.findall(r"--(?:collector|web|log|config|path|inventory)[.][a-z.-]*[a-z]", PAGE))
    assert len(named) > 15
    assert named <= known


def test_every_metric_and_reason_exists() -> None:
    fields = {family.field for family in FAMILIES} | {family.name for family in FAMILIES}
    assert set(re.findall(r"`((?:gpuminutes_|gpu_|nvml_)[a-z_]+)", PAGE)) <= fields
    reasons = {"no_data", "not_supported", "no_permission", "not_found", "suspended", "suspect", "gone", "timeout"}
    assert {reason for reason in reasons if f"`{reason}`" in PAGE or f'"{reason}"' in PAGE} == reasons <= REASONS


@pytest.mark.parametrize("target", sorted(set(re.findall(r"\]\((?!http)([^)#]+)\)", PAGE))))
def test_every_link_leads_somewhere(target: str) -> None:
    assert (ROOT / "docs" / target).exists()


def test_its_configuration_of_prometheus_is_one() -> None:
    (block,) = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    (job,) = yaml.safe_load(block)["scrape_configs"]
    (targets,) = job["static_configs"]
    assert job["job_name"] == "gpu-minutes"  # the job and the label that the detectors look for
    assert set(targets["labels"]) == {"node"}
