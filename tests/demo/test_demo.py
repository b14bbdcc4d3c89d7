"""The demo from end to end: started as a user starts it, looked at from outside, stopped and killed."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

_COMMAND = [sys.executable, "-P", "-c", "from warehouse.cli import main; main()"]
_MARK = "GPU_MINUTES_TEST_MARK"

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


class Demo:
    """A demo in a home of its own; every process that it starts can be found again."""

    def __init__(self, home: Path, **env: str) -> None:
        self.home = home
        self.mark = uuid.uuid4().hex
        self.env = {name: value for name, value in os.environ.items() if not name.startswith("GPU_MINUTES_")}
        self.env |= {"GPU_MINUTES_HOME": str(home), _MARK: self.mark, **env}
        self.process: subprocess.Popen[bytes] | None = None
        self.log = home.parent / "demo.out"

    def start(self) -> float:
        """Starts it and waits for the addresses; gives the seconds that it took."""
        began_s = time.monotonic()
        with self.log.open("wb") as out:
            self.process = subprocess.Popen([*_COMMAND, "demo"], env=self.env, stdout=out, stderr=subprocess.STDOUT)
        self.until(lambda: "Ctrl-C stops all of it" in self.printed(), 180)
        return time.monotonic() - began_s

    def printed(self) -> str:
        return self.log.read_text()

    def url(self, name: str) -> str:
        found = re.search(rf"^  {name} +(http://127\.0\.0\.1:\d+)$", self.printed(), re.MULTILINE)
        assert found, self.printed()
        return found[1]

    def until(self, condition: Callable[[], object], seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while not condition():
            assert self.process is None or self.process.poll() is None, self.printed()
            assert time.monotonic() < deadline, f"{self.printed()}\nleft: {self.left()}"
            time.sleep(0.3)

    def left(self) -> list[str]:
        """Command lines of all processes of this demo that live: by its mark, or by its folder (PostgreSQL)."""
        found = []
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                state = (folder / "stat").read_text().rpartition(")")[2].split()[0]
                line = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                environ = (folder / "environ").read_bytes()
            except OSError:
                continue  # it has just ended
            if state not in "ZX" and (f"{_MARK}={self.mark}".encode() in environ or f"{self.home}/" in line):
                found.append(f"{folder.name} {line}")
        return found

    def ask(self, *words: str) -> Any:
        """Asks the demo's ledger."""
        answer = self.command(*words, "--format", "json", home=self.home / "demo")
        assert answer.returncode == 0, answer.stderr
        return json.loads(answer.stdout)

    def command(self, *words: str, home: Path | None = None) -> subprocess.CompletedProcess[str]:
        env = self.env | {"GPU_MINUTES_HOME": str(home or self.home)}
        env.pop("GPU_MINUTES_DATABASE_URL", None)
        return subprocess.run([*_COMMAND, *words], env=env, capture_output=True, text=True, timeout=120)

    def stop(self, number: signal.Signals) -> int:
        assert self.process is not None
        self.process.send_signal(number)
        return self.process.wait(90)

    def clear_away(self) -> None:
        """For a test that failed: the watchdog does the rest."""
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        deadline = time.monotonic() + 60
        while self.left() and time.monotonic() < deadline:
            time.sleep(0.3)


@pytest.fixture
def demo(tmp_path: Path) -> Iterator[Demo]:
    found = Demo(tmp_path / "home")
    yield found
    found.clear_away()


def get(url: str) -> tuple[int, str]:
    with urllib.request.urlopen(url, timeout=10) as answer:
        return answer.status, answer.read().decode()


def past(demo: Demo) -> tuple[str, str]:
    window = json.loads((demo.home / "demo" / "history" / "window.json").read_text())
    return window["from"], window["to"]


def goodput_of_the_past(demo: Demo) -> dict[str, Any]:
    start, end = past(demo)
    answer: dict[str, Any] = demo.ask("goodput", "--from", start, "--to", end)
    del answer["revision"]
    return answer


def test_from_start_to_end(demo: Demo) -> None:
    print(f"seconds to the page: {demo.start():.1f}")
    assert get(demo.url("dashboard") + "/_stcore/health") == (200, "ok")
    running = " ".join(demo.left())
    for part in ("demo", "watchdog", "exporter.cli", "prometheus", " run ", " dashboard ", "streamlit", "postgres"):
        assert part in running, f"{part} cannot be found, so its end could not be seen"
    incidents = demo.ask("incidents")["incidents"]
    assert any(i["cause"] == "facility/data_hall_power_loss" for i in incidents)
    before = goodput_of_the_past(demo)
    _refuses_a_second(demo)
    _sees_a_live_incident(demo)
    assert demo.stop(signal.SIGINT) == 0
    printed = demo.printed().split("\nstopping\n")[1]
    assert printed.splitlines() == [
        f"stopped {name}" for name in ("the dashboard", "the worker", "Prometheus", "the exporter", "the database")
    ]
    assert demo.left() == []

    _goes_on_where_it_was(demo, before)
    assert demo.stop(signal.SIGKILL) == -signal.SIGKILL
    demo.process = None
    demo.until(lambda: not demo.left(), 20)

    removed = demo.command("demo", "clean")
    assert (removed.returncode, removed.stderr) == (0, "")
    assert not (demo.home / "demo").exists()
    assert demo.left() == []


def _refuses_a_second(demo: Demo) -> None:
    assert demo.process is not None
    for words in (("demo",), ("demo", "clean")):
        refused = demo.command(*words)
        said = f"a demo already runs under {demo.home}/demo (process {demo.process.pid}); stop it first"
        assert (refused.returncode, refused.stderr) == (2, f"gpu-minutes: {said}\n")


def _sees_a_live_incident(demo: Demo) -> None:
    began_s = time.monotonic()
    _, end = past(demo)
    live: list[Any] = []

    def found() -> bool:
        live[:] = [i for i in demo.ask("incidents", "--from", end)["incidents"] if i["start"] > end]
        return bool(live)

    demo.until(found, 150)
    print(f"seconds from there to the first live incident: {time.monotonic() - began_s:.1f}")
    shown = demo.ask("incident", "show", str(live[0]["id"]))
    assert {item["source"] for item in shown["evidence"]} == {"detector"}
    up = json.loads(get(demo.url("Prometheus") + "/api/v1/query?query=count%20by%20(job)%20(up)")[1])
    assert {row["metric"]["job"]: row["value"][1] for row in up["data"]["result"]} == {
        "gpu-minutes": "32",
        "node": "32",
    }


def _goes_on_where_it_was(demo: Demo, before: dict[str, Any]) -> None:
    incidents = len(demo.ask("incidents")["incidents"])
    assert demo.command("db", "stop", home=demo.home / "demo").returncode == 0
    demo.start()
    assert "already in the ledger" in demo.printed()
    assert goodput_of_the_past(demo) == before
    assert len(demo.ask("incidents")["incidents"]) >= incidents
    assert demo.command("check", home=demo.home / "demo").returncode == 0


def test_without_prometheus_it_says_what_to_install_and_shows_the_past(tmp_path: Path) -> None:
    bare = tmp_path / "bin"
    bare.mkdir()
    for folder in os.environ["PATH"].split(os.pathsep):
        for program in Path(folder).glob("*"):
            if program.name != "prometheus" and not (bare / program.name).exists():
                (bare / program.name).symlink_to(program)
    demo = Demo(tmp_path / "home", PATH=str(bare), GPU_MINUTES_DATABASE_URL="postgresql://nowhere.invalid/x")
    try:
        demo.start()
        assert "apt-get install --no-install-recommends prometheus" in demo.printed()
        assert "GPU_MINUTES_DATABASE_URL is set; the demo ignores it and uses its own" in demo.printed()
        assert get(demo.url("dashboard") + "/_stcore/health") == (200, "ok")
        assert len(demo.ask("incidents")["incidents"]) >= 12
        assert demo.stop(signal.SIGTERM) == 0
        assert demo.left() == []
    finally:
        demo.clear_away()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
@pytest.mark.parametrize("delay_s", [0.0, 1.0, 2.5])
def test_an_early_end_leaves_nothing(demo: Demo, number: signal.Signals, delay_s: float) -> None:
    with demo.log.open("wb") as out:
        demo.process = subprocess.Popen([*_COMMAND, "demo"], env=demo.env, stdout=out, stderr=subprocess.STDOUT)
    demo.until(lambda: "everything here is simulated" in demo.printed(), 60)
    time.sleep(delay_s)
    assert demo.stop(number) == (0 if number == signal.SIGINT else -number)
    demo.process = None
    demo.until(lambda: not demo.left(), 20)
    assert demo.command("incidents", home=demo.home / "demo").returncode in (0, 2)  # 2: still empty
    assert demo.command("db", "stop", home=demo.home / "demo").returncode == 0


def test_what_the_disk_refuses_is_one_line(demo: Demo) -> None:
    (demo.home / "demo").mkdir(parents=True)
    (demo.home / "demo" / "logs").write_text("in the way")
    answer = demo.command("demo")
    said = f"gpu-minutes: the demo cannot go on: {demo.home}/demo/logs: File exists\n"
    assert (answer.returncode, answer.stderr) == (1, said)
    assert demo.left() == []
