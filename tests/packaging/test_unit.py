"""The systemd unit: understood by systemd, its command line by the exporter, and what it promises is in it."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from exporter.cli import build_parser, parse_flags
from exporter.collectors import discover
from exporter.options import PREFIX, all_options, choose
from tests.packaging.conftest import ROOT

UNIT = ROOT / "deploy/systemd/gpu-minutes-exporter.service"
_LINE = re.compile(r"([A-Za-z]+)=(.*)")


def directives(text: str) -> dict[str, dict[str, list[str]]]:
    """Values by section and name; a line that is neither is an error."""
    found: dict[str, dict[str, list[str]]] = {}
    for line in text.splitlines():
        if not line or line.startswith("#"):
            continue
        if line.startswith("["):
            section = found.setdefault(line.strip("[]"), {})
            continue
        match = _LINE.fullmatch(line)
        assert match is not None, line
        section.setdefault(match[1], []).append(match[2])
    return found


SERVICE = directives(UNIT.read_text())["Service"]


def test_systemd_understands_every_line(tmp_path: Path) -> None:
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        pytest.skip("systemd-analyze is missing; install it: apt-get install systemd")
    (command,) = SERVICE["ExecStart"]
    unit = tmp_path / UNIT.name
    # The program is not installed here; nothing else is changed.
    unit.write_text(UNIT.read_text().replace(f"ExecStart={shlex.split(command)[0]}", "ExecStart=/bin/true"))
    ran = subprocess.run([analyze, "verify", "--man=no", unit], capture_output=True, text=True, timeout=60, check=False)
    assert (ran.returncode, ran.stdout + ran.stderr) == (0, "")
    # It does notice a line that makes no sense.
    unit.write_text(unit.read_text().replace("KillMode=control-group", "KillMod=control-group"))
    ran = subprocess.run([analyze, "verify", "--man=no", unit], capture_output=True, text=True, timeout=60, check=False)
    assert "KillMod" in ran.stderr


def test_the_exporter_takes_its_flags_and_variables() -> None:
    (command,) = SERVICE["ExecStart"]
    program, *flags = shlex.split(command)
    assert Path(program).name == "gpu-minutes-exporter"
    environ = dict(line.split("=", 1) for line in SERVICE["Environment"])
    comments = re.findall(rf"^#\s+({PREFIX}\w+)=(.*)$", UNIT.read_text(), re.MULTILINE)
    assert len(comments) == 2
    options = all_options(discover())
    chosen = choose(vars(parse_flags(build_parser(discover()), flags)), environ | dict(comments), options)
    named = {option.name: value for option, (value, _) in chosen.items()}
    assert named["path.inventory"] == Path("%S/gpu-minutes-exporter/inventory.json")
    assert SERVICE["StateDirectory"] == ["gpu-minutes-exporter"]
    assert named["web.listen-address"] == (":9844",)


@pytest.mark.pain(29)
def test_no_process_in_the_driver_is_ever_killed() -> None:
    """SIGTERM comes first and last; there is time, and there is memory, so that nobody else kills it either."""
    assert SERVICE["KillSignal"] == ["SIGTERM"] and SERVICE["SendSIGKILL"] == ["no"]
    assert SERVICE["KillMode"] == ["control-group"]
    assert int(SERVICE["TimeoutStopSec"][0]) >= 60
    assert SERVICE["OOMPolicy"] == ["continue"] and int(SERVICE["OOMScoreAdjust"][0]) < 0
    (high,), (most,) = SERVICE["MemoryHigh"], SERVICE["MemoryMax"]
    assert high.endswith("M") and most.endswith("M")
    # Two driver processes just below the size at which they are started anew, and 100 MiB for all the others.
    grown = next(option for option in all_options(discover()) if option.name == "collector.nvml.recycle-megabytes")
    assert int(most[:-1]) > int(high[:-1]) >= 2 * grown.default + 100
    assert "WatchdogSec" not in SERVICE and SERVICE["Restart"] == ["always"]


def test_it_runs_without_rights_but_those_that_it_names() -> None:
    assert SERVICE["DynamicUser"] == ["yes"] and "User" not in SERVICE
    assert SERVICE["NoNewPrivileges"] == ["yes"]
    assert SERVICE["AmbientCapabilities"] == SERVICE["CapabilityBoundingSet"] == ["CAP_SYSLOG"]
    assert SERVICE["ProtectSystem"] == ["strict"]
    assert SERVICE["DevicePolicy"] == ["closed"]
    assert SERVICE["DeviceAllow"] == ["char-195 rw", "char-nvidia* rw", "/dev/kmsg r"]
    assert SERVICE["SystemCallFilter"] == ["@system-service"]
    # These would hide the GPUs, the kernel's log or other processes.
    assert not {"PrivateDevices", "ProtectKernelLogs", "ProtectProc", "ProcSubset", "PrivateUsers"} & set(SERVICE)


def test_nobody_has_to_be_root_to_read_it() -> None:
    assert not os.access(UNIT, os.X_OK)
