"""Fixtures: the driver library, scripted drivers, serving exporters."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.exporter.cycles import Cycles
from tests.exporter.fake_nvml.script import FakeDriver, Gpu
from tests.exporter.harness import FAST, Exporter, build_library, environment
from tests.exporter.surveys import HandSurvey

StartExporter = Callable[..., Exporter]


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder with the fake driver library."""
    return build_library(tmp_path_factory.mktemp("fake_nvml"))


@pytest.fixture
def driver(tmp_path: Path) -> FakeDriver:
    """A scripted driver with two healthy GPUs."""
    return FakeDriver(tmp_path / "driver_state", gpus=2)


@pytest.fixture
def env(library: Path, driver: FakeDriver) -> dict[str, str]:
    """Environment in which the exporter finds the scripted driver."""
    return environment(library, driver.path)


@pytest.fixture
def survey(env: dict[str, str]) -> Iterator[HandSurvey]:
    """Cycles by hand over the scripted driver."""
    found = HandSurvey(env)
    yield found
    found.close()


@pytest.fixture
def start(env: dict[str, str]) -> Iterator[StartExporter]:
    """Starts exporters with fast cycles over the scripted driver; ends them after the test."""
    with ExitStack() as running:

        def run(*options: str) -> Exporter:
            exporter = Exporter((*FAST, *options), env)
            running.callback(exporter.stop)
            return exporter

        yield run


@pytest.fixture
def cycles(env: dict[str, str]) -> Iterator[Cycles]:
    """A driver process over the scripted driver, asked for one cycle after another."""
    with Cycles(env) as running:
        yield running


@pytest.fixture
def gpu(driver: FakeDriver) -> Gpu:
    """The first GPU of the scripted driver."""
    return driver.gpu(0)
