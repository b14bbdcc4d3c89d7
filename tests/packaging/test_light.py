"""The base install, as on a GPU node: the exporter, two small packages and nothing else."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from importlib.metadata import distribution
from pathlib import Path

import pytest

from tests.packaging.conftest import Environment

SCRIPT = """
import sys
from exporter.cli import main
code = main(["--once"])
known = set(sys.stdlib_module_names) | {"exporter", "prometheus_client", "pynvml"}
# Not modules of anyone: the program itself, and a hook that some distributions put into every interpreter.
known |= {"__main__", "__mp_main__", "sitecustomize"}
print("foreign:", *sorted({name.split(".")[0] for name in sys.modules} - known))
sys.exit(code)
"""


@pytest.fixture(scope="session")
def light(
    wheel: Path, environment: Callable[[str], Environment], tmp_path_factory: pytest.TempPathFactory
) -> Environment:
    """The wheel, prometheus-client and nvidia-ml-py in a fresh environment."""
    fresh = environment("light")
    fresh.install(wheel)
    shown = tmp_path_factory.mktemp("two-packages")
    for name in ("prometheus-client", "nvidia-ml-py"):
        for file in distribution(name).files or []:
            if ".." not in file.parts and "__pycache__" not in file.parts:
                (shown / file).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(Path(str(file.locate())), shown / file)
    fresh.show(shown)
    return fresh


def test_the_exporter_prints_a_page(light: Environment) -> None:
    page = light.run("gpu-minutes-exporter", "--once").stdout
    assert "# TYPE gpuminutes_" in page


def test_the_exporter_imports_nothing_else(light: Environment) -> None:
    assert light.run("python", "-c", SCRIPT).stdout.splitlines()[-1] == "foreign:"


def test_the_exporter_says_what_its_web_configuration_needs(light: Environment) -> None:
    command = [light.home / "bin/gpu-minutes-exporter", "--web.config.file=/nonexistent.yml"]
    result = subprocess.run(command, capture_output=True, text=True, env={"PATH": os.environ["PATH"]})
    assert (result.returncode, result.stdout) == (2, "")
    (line,) = result.stderr.splitlines()
    assert line.endswith("pip install 'gpu-minutes[web]'")


def test_the_ledger_says_what_to_install(light: Environment) -> None:
    result = subprocess.run([light.home / "bin/gpu-minutes", "goodput"], capture_output=True, text=True)
    assert (result.returncode, result.stdout) == (2, "")
    (line,) = result.stderr.splitlines()
    assert line.endswith(
        "is not installed; the base install is the exporter alone: pip install 'gpu-minutes[warehouse]'"
    )
