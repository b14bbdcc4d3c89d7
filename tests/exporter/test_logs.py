"""One record is one line, whatever it holds, in the exporter and in its driver processes."""

from __future__ import annotations

import json
import logging
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from exporter.logs import Json, Logfmt, record_fields
from tests.exporter.conftest import StartExporter
from tests.exporter.harness import environment, request

UGLY = 'a "b" \\ c\nlevel=error msg="forged"\r\x1b[31m\u2028\x85\x00 é \ud800 %s'


def record(message: str = UGLY, error: bool = False) -> logging.LogRecord:
    info = None
    if error:
        try:
            raise RuntimeError(message)
        except RuntimeError:
            info = sys.exc_info()
    return logging.LogRecord("exporter.x", logging.WARNING, __file__, 1, message, (), info)


def logfmt(line: str) -> dict[str, str]:
    """Reads a line back."""
    found = re.findall(r'(\w+)=("(?:[^"\\]|\\.)*"|[^ "]*)(?: |$)', line)
    assert " ".join(f"{key}={value}" for key, value in found) == line
    return {key: json.loads(value) if value.startswith('"') else value for key, value in found}


@pytest.mark.parametrize(("formatter", "read"), [(Logfmt(), logfmt), (Json(), json.loads)], ids=["logfmt", "json"])
@pytest.mark.parametrize("error", [False, True], ids=["message", "traceback"])
def test_a_record_is_one_line_that_says_all_of_it(
    formatter: logging.Formatter, read: Callable[[str], dict[str, str]], error: bool
) -> None:
    line = formatter.format(record(error=error))
    assert len(line.splitlines()) == 1 and line.isascii() and line.isprintable()
    fields = read(line)
    assert fields == record_fields(record(error=error)) | {"ts": fields["ts"]} | (
        {"traceback": fields["traceback"]} if error else {}
    )
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", fields["ts"])
    assert (fields["level"], fields["logger"], fields["msg"]) == ("warning", "exporter.x", UGLY)
    if error:
        assert fields["traceback"].startswith("Traceback (most recent call last):\n")


_CODE = """
import threading, warnings
from exporter.logs import configure
configure("info", {form!r})
def fail(): raise RuntimeError("in a\\nthread")
thread = threading.Thread(target=fail)
thread.start()
thread.join()
warnings.warn("two\\nlines")
raise ValueError("in main")
"""


@pytest.mark.parametrize("form", ["logfmt", "json"])
def test_what_nobody_caught_is_one_line_each(form: str) -> None:
    ran = subprocess.run([sys.executable, "-c", _CODE.format(form=form)], capture_output=True, text=True, check=False)
    assert ran.returncode == 1
    lines = [json.loads(line) if form == "json" else logfmt(line) for line in ran.stderr.splitlines()]
    assert [(line["level"], line["msg"].split(":")[0]) for line in lines] == [
        ("critical", "uncaught"),
        ("warning", "<string>"),
        ("critical", "uncaught"),
    ]
    assert "RuntimeError: in a\nthread" in lines[0]["traceback"] and "ValueError: in main" in lines[2]["traceback"]


def test_a_driver_process_logs_like_its_parent() -> None:
    """One that cannot even open its pipe."""
    command = [sys.executable, "-m", "exporter.worker", "snapshots", "--fd=999", f"--parent={os.getpid()}"]
    ran = subprocess.run([*command, "--log-format=json"], capture_output=True, text=True, check=False)
    lines = [json.loads(line) for line in ran.stderr.splitlines()]  # one of the main thread, one of a destructor
    assert lines and {line["level"] for line in lines} == {"critical"}
    assert all("OSError" in line["traceback"] for line in lines)


def test_children_are_told_the_format_and_the_level(start: StartExporter) -> None:
    exporter = start("--log.format=json", "--log.level=debug", "--no-collector.xid")
    exporter.wait(lambda page: page.find("gpu_up"))
    request(exporter.port, '/"?\\')
    (child,) = exporter.children()
    told = Path(f"/proc/{child}/cmdline").read_text().split("\0")
    assert {"--log-level=debug", "--log-format=json"} <= set(told)
    exporter.stop()
    lines = [json.loads(line) for line in exporter.log]
    assert {"ts", "level", "logger", "msg"} == set(lines[0])
    assert [line for line in lines if line["level"] == "debug" and " 404 " in line["msg"]]


@pytest.mark.parametrize(("level", "heard"), [("info", True), ("error", False)])
def test_the_level_is_the_least_that_is_logged(level: str, heard: bool) -> None:
    code = f"import logging; from exporter.logs import configure; configure({level!r}, 'logfmt'); logging.info('hello')"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment(None, None))
    assert ("hello" in ran.stderr) is heard
