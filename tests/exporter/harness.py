"""Runs the real exporter as a process and reads its pages with Prometheus's official parser."""

from __future__ import annotations

import contextlib
import http.client
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from exporter.collectors import discover
from tests.exporter.fake_nvml.layout import header
from tests.exporter.fake_nvml.script import FUNCTIONS, State

HERE = Path(__file__).parent
PROC = HERE / "data" / "proc"
SYS = HERE / "data" / "sys"
CGROUP = HERE / "data" / "cgroup_v2"
ROOTS = (f"--path.procfs={PROC}", f"--path.sysfs={SYS}", f"--path.cgroup={CGROUP}")
"""A kernel that is always the same."""
KMSG = HERE / "data" / "kmsg"
PREFIX = "gpuminutes_"
ALLOCATION = ("gpu_allocated", "gpu_workload_info")
FAST = ("--collector.nvml.interval=1", "--collector.nvml.slow-interval=1", "--collector.nvml.deadline=1")


def build_library(folder: Path, without: Iterable[str] = (), more: Iterable[Path] = ()) -> Path:
    """Compiles the fake driver library into `folder`; gives the folder.

    Args:
        folder: where it goes.
        without: symbols that it shall lack, as an older driver does.
        more: further C files to compile into it.
    """
    compiler = shutil.which("gcc")
    if compiler is None:
        raise RuntimeError("gcc is missing: install it with `apt-get install gcc libc6-dev`")
    source = HERE / "fake_nvml"
    (folder / "layout.h").write_text(header(State, FUNCTIONS))
    flags = ["-shared", "-fPIC", "-O1", "-Wall", "-Wextra", "-Werror", f"-I{folder}", f"-I{source}"]
    flags += [f"-D{symbol}=absent_{symbol}" for symbol in without]
    sources = map(str, (*sorted(source.glob("*.c")), *more))
    command = [compiler, *flags, "-o", str(folder / "libnvidia-ml.so.1"), *sources]
    built = subprocess.run(command, capture_output=True, text=True, check=False)
    if built.returncode != 0:
        raise RuntimeError(f"{source} does not compile:\n{built.stderr}")
    return folder


class Page:
    """A parsed page: samples by name and labels."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.families = {family.name: family for family in text_string_to_metric_families(text)}
        self._values: dict[tuple[str, frozenset[tuple[str, str]]], float] = {}
        for family in self.families.values():
            for sample in family.samples:
                key = (sample.name, frozenset(sample.labels.items()))
                assert key not in self._values, f"twice on the page: {sample}"
                self._values[key] = sample.value

    def find(self, name: str, **labels: str) -> dict[frozenset[tuple[str, str]], float]:
        """Samples of a family (name without prefix) that have these labels."""
        wanted = set(labels.items())
        return {k[1]: v for k, v in self._values.items() if k[0] == PREFIX + name and wanted <= k[1]}

    def value(self, name: str, **labels: str) -> float:
        """The one sample of a family that has these labels."""
        found = self.find(name, **labels)
        assert len(found) == 1, f"{name} {labels}: {len(found)} samples"
        return next(iter(found.values()))

    def labels(self, name: str, **labels: str) -> dict[str, str]:
        """Labels of the one sample of a family that has these labels."""
        found = self.find(name, **labels)
        assert len(found) == 1, f"{name} {labels}: {len(found)} samples"
        return dict(next(iter(found)))

    def reasons(self, uuid: str = "") -> dict[str, str]:
        """Reason by field that is not available, without who holds the GPU: that is not asked of the driver."""
        rows = [dict(key) for key in self.find("field_unavailable", uuid=uuid)]
        return {row["field"]: row["reason"] for row in rows if row["field"] not in ALLOCATION}


def alone(name: str) -> tuple[str, ...]:
    """Options that leave out every collector but this one."""
    return tuple(f"--no-collector.{other}" for other in discover() if other != name)


def environment(library: Path | None, state: Path | None) -> dict[str, str]:
    """The environment of an exporter: only its own driver library, or none."""
    env = {k: v for k, v in os.environ.items() if k not in ("LD_LIBRARY_PATH", "FAKE_NVML_STATE")}
    if library is not None:
        env["LD_LIBRARY_PATH"] = str(library)
    if state is not None:
        env["FAKE_NVML_STATE"] = str(state)
    return env


def command(*options: str) -> list[str]:
    """Command line of the exporter under test; it reads a kernel log without XIDs unless another is named."""
    return [sys.executable, "-m", "exporter.cli", f"--collector.kmsg.path={KMSG}", *options]


def run_exporter(*options: str, env: dict[str, str], timeout_s: float = 30) -> subprocess.CompletedProcess[str]:
    """Runs the exporter to its end."""
    line = command(*options)
    return subprocess.run(line, env=env, capture_output=True, text=True, timeout=timeout_s, check=False)


def request(
    port: int, path: str, headers: dict[str, str] | None = None, method: str = "GET"
) -> tuple[int, dict[str, str], str]:
    """One request on loopback: status, headers, body."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        connection.request(method, path, headers=headers or {})
        response = connection.getresponse()
        return response.status, dict(response.getheaders()), response.read().decode()
    finally:
        connection.close()


class Exporter:
    """A serving exporter on a free port of loopback."""

    def __init__(self, options: Iterable[str], env: dict[str, str]) -> None:
        line = command("--web.listen-address=127.0.0.1:0", *options)
        self.process = subprocess.Popen(line, env=env, stderr=subprocess.PIPE, text=True)
        assert self.process.stderr is not None
        self.log: list[str] = []
        for text in self.process.stderr:
            self.log.append(text)
            found = re.search(r"listening on 127\.0\.0\.1:(\d+)", text)
            if found:
                self.port = int(found[1])
                return
        raise AssertionError(f"the exporter did not start:\n{''.join(self.log)}")

    def page(self, path: str = "/metrics") -> Page:
        """The page now."""
        status, _, body = request(self.port, path)
        assert status == 200, body
        return Page(body)

    def wait(self, condition: Callable[[Page], object], timeout_s: float = 15) -> Page:
        """The first page for which `condition` holds."""
        end_s = time.monotonic() + timeout_s
        while True:
            page = self.page()
            if condition(page):
                return page
            if time.monotonic() > end_s:
                raise AssertionError(f"the condition did not come true:\n{page.text}")
            time.sleep(0.1)

    def children(self) -> list[int]:
        """Process ids of its children."""
        found: list[int] = []
        for task in Path(f"/proc/{self.process.pid}/task").iterdir():
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # the thread has just ended
                found += map(int, (task / "children").read_text().split())
        return sorted(found)

    def command_line(self, pid: int) -> bytes:
        """Command line of one of them, empty if it has ended."""
        try:
            return Path(f"/proc/{pid}/cmdline").read_bytes()
        except (FileNotFoundError, ProcessLookupError):
            return b""

    def stop_and_read_log(self) -> str:
        """Ends it, and gives all that it logged."""
        self.stop()
        return "".join(self.log)

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Sends a signal, waits for the end, gives the exit code."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        code = self.process.wait(20)
        assert self.process.stderr is not None
        if not self.process.stderr.closed:
            self.log.extend(self.process.stderr)
            self.process.stderr.close()
        return code
