"""The command line: bad input is one line and 2, an asked-for end is 0, and nothing is left behind."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from exporter import __version__
from exporter.collectors import discover
from tests.exporter.conftest import StartExporter
from tests.exporter.fake_nvml.script import FakeDriver
from tests.exporter.harness import Page, environment, run_exporter

BARE = environment(None, None)


def one_line(stderr: str) -> str:
    """The single line of an error message."""
    assert stderr.count("\n") == 1, stderr
    return stderr.rstrip("\n")


@pytest.mark.parametrize(
    ("options", "part"),
    [
        (["--web.listen-address=nowhere"], "'nowhere' is not HOST:PORT"),
        (["--web.listen-address=127.0.0.1:99999"], "is not HOST:PORT"),
        (["--web.listen-address=::1:9844"], "brackets"),
        (["--web.listen-address=host.invalid:9844"], "cannot listen on host.invalid:9844"),
        (["--web.telemetry-path=metrics"], "must begin with /"),
        (["--collector.nvml.interval=0.005"], "is not a number of seconds between 1 and 3600"),
        (["--collector.nvml.interval=soon"], "'soon' is not a number of seconds between 1 and 3600"),
        (["--no-collector.nothing"], "unrecognized arguments: --no-collector.nothing"),
        (["--collector.nvml.intervall=5"], "did you mean --collector.nvml.interval?"),
        (["--web.telemetry-path=/-/ready"], "a page that is not taken"),
        (["--web.telemetry-path=/gpu?x"], "is not a path"),
        (["--log.level=loud"], "'loud' is none of debug, info, warning, error"),
        (["--simulate=/nonexistent.json"], "/nonexistent.json"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(options: list[str], part: str) -> None:
    ran = run_exporter(*options, env=BARE)
    assert ran.returncode == 2
    assert part in one_line(ran.stderr)


def test_a_broken_inventory_file_is_one_line_and_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "inventory.json"
    path.write_text("{")
    ran = run_exporter("--once", f"--path.inventory={path}", env=BARE)
    assert ran.returncode == 2
    assert f"inventory file {path}" in one_line(ran.stderr)
    assert path.read_text() == "{"


def test_a_port_in_use_is_one_line_and_exit_code_2() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        ran = run_exporter(f"--web.listen-address={address}", env=BARE)
    assert ran.returncode == 2
    assert one_line(ran.stderr) == (f"gpu-minutes-exporter: cannot listen on {address}: address already in use")


def test_version() -> None:
    ran = run_exporter("--version", env=BARE)
    assert (ran.returncode, ran.stdout) == (0, f"gpu-minutes-exporter {__version__}\n")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_an_asked_for_end_is_clean(start: StartExporter, number: signal.Signals) -> None:
    exporter = start()
    exporter.wait(lambda page: page.find("gpu_up"))
    children = exporter.children()
    assert len(children) == 2
    assert exporter.stop(number) == 0
    assert "Traceback" not in "".join(exporter.log)
    assert not [pid for pid in children if Path(f"/proc/{pid}").exists()]


@pytest.mark.parametrize("delay_s", [0.0, 0.0, 0.001, 0.01, 0.05, 0.2])
def test_a_signal_right_after_the_start_is_heeded(start: StartExporter, delay_s: float) -> None:
    """Nothing of the start is a moment in which it is lost."""
    exporters = [start("--no-collector.xid") for _ in range(2)]
    time.sleep(delay_s)
    assert [exporter.stop() for exporter in exporters] == [0, 0]


def test_it_ends_cleanly_while_the_driver_hangs(start: StartExporter, driver: FakeDriver) -> None:
    exporter = start()
    exporter.wait(lambda page: page.find("gpu_up"))
    driver.gpu(0).hang("power")
    exporter.wait(lambda page: page.value("nvml_worker_stuck") == 1)
    began_s = time.monotonic()
    assert exporter.stop() == 0
    assert time.monotonic() - began_s < 5


def _gone(pid: int) -> bool:
    """Ended, or ended and not yet collected by whoever adopted it."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"
    except OSError:
        return True


@pytest.mark.parametrize("hung", [False, True], ids=["idle", "hung"])
def test_children_go_with_a_parent_that_is_killed(start: StartExporter, driver: FakeDriver, hung: bool) -> None:
    """Also those that sit in the driver and would not see the pipe close."""
    exporter = start()
    exporter.wait(lambda page: page.find("gpu_up"))
    if hung:
        driver.gpu(0).hang("power")
        exporter.wait(lambda page: page.value("nvml_worker_stuck") == 1)
    children = exporter.children()
    assert len(children) == 2
    os.kill(exporter.process.pid, signal.SIGKILL)
    exporter.process.wait(10)
    end_s = time.monotonic() + 5
    while not all(map(_gone, children)) and time.monotonic() < end_s:
        time.sleep(0.05)
    assert all(map(_gone, children))


def test_a_collector_can_be_left_out(env: dict[str, str]) -> None:
    page = Page(
        run_exporter("--once", "--no-collector.xid", "--no-collector.kmsg", "--no-collector.psi", env=env).stdout
    )
    names = {dict(key)["collector"] for key in page.find("collect_success")}
    assert names == {name for name, its in discover().items() if its.enabled} - {"xid", "kmsg", "psi"}
    assert not page.find("gpu_xid_events_total")
    assert not page.find("node_pressure_stall_seconds_total")


def test_the_base_install_is_enough_and_the_parent_never_touches_the_driver(env: dict[str, str]) -> None:
    code = (
        "import json, sys; from exporter.cli import main; main(['--once']); "
        "maps = open('/proc/self/maps').read(); "
        "print('\\n@' + json.dumps([sorted(sys.modules), 'nvidia-ml' in maps]))"
    )
    ran = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
    modules, mapped = json.loads(ran.stdout.rsplit("\n@", 1)[1])
    tops = {name.split(".")[0] for name in modules}
    # What the interpreter itself loads at its start, the hooks of editable installs among it.
    bare = subprocess.run(
        [sys.executable, "-c", "import sys; print(' '.join(sys.modules))"],
        capture_output=True,
        text=True,
        check=True,
    )
    tops.discard("__mp_main__")  # multiprocessing's other name for __main__
    own = tops - set(sys.stdlib_module_names) - {name.split(".")[0] for name in bare.stdout.split()}
    assert own == {"exporter", "prometheus_client"}
    assert mapped is False
    assert 'gpuminutes_gpu_up{slot="0000:19:00"' in ran.stdout


def test_a_slot_is_retired_by_command_and_the_running_exporter_forgets_it(
    start: StartExporter, driver: FakeDriver, tmp_path: Path
) -> None:
    keep = f"--path.inventory={tmp_path / 'inventory.json'}"
    exporter = start(keep)
    exporter.wait(lambda page: page.find("gpus_visible") and page.value("gpus_visible") == 2)
    driver.state.gpus = 1
    driver.gpu(1).every_return = 15
    exporter.wait(lambda page: page.value("gpu_up", uuid=driver.uuid(1)) == 0)
    ran = run_exporter("--inventory.retire=0000:27:00.0", keep, env=BARE)
    assert (ran.returncode, ran.stderr) == (0, "")
    held, note, _ = ran.stdout.split("\n")
    assert held == f"0000:27:00 is retired; it held {driver.uuid(1)} NVIDIA H100 80GB HBM3"
    assert note == "If a GPU answers there, it is back at once."
    page = exporter.wait(lambda page: not page.find("gpu_up", uuid=driver.uuid(1)))
    assert page.value("gpus_expected") == 1


@pytest.mark.parametrize(
    ("options", "part"),
    [
        (["--inventory.retire=0000:27:00"], "needs the file of the running exporter"),
        (["--inventory.retire=0000:27:00", "--path.inventory={}/none.json"], "none.json does not exist"),
        (["--inventory.retire=third", "--path.inventory={}/i.json"], "a slot is written like 0000:19:00"),
        (["--inventory.retire=0000:27:00", "--path.inventory={}/i.json"], "has no slot 0000:27:00; it has none"),
    ],
)
def test_a_slot_that_cannot_be_retired_is_one_line(options: list[str], part: str, tmp_path: Path) -> None:
    (tmp_path / "i.json").write_text('{"version": 2, "slots": []}')
    ran = run_exporter(*(option.format(tmp_path) for option in options), env=BARE)
    assert ran.returncode == 2
    assert part in one_line(ran.stderr)


def test_a_full_disk_under_the_page_is_one_line(env: dict[str, str]) -> None:
    with Path("/dev/full").open("w") as full:
        line = [sys.executable, "-m", "exporter.cli", "--once", "--log.level=error"]
        ran = subprocess.run(line, env=env, stdout=full, stderr=subprocess.PIPE, text=True, check=False, timeout=30)
    assert ran.returncode == 2
    assert one_line(ran.stderr) == "gpu-minutes-exporter: cannot write the page: No space left on device"
