"""`make soak`: a day of the exporter in minutes; memory and file descriptors must stay flat, faults leave no trace.

The day is compressed 120 times (`benchmarks.compressed`). Its first quarter is a storm of faults, one after the other;
the other three are calm, so that the processes that are judged live long. Scrapes come back to back all day.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks import compressed
from benchmarks.faults import FAULTS, Fault, Scene, hit, normal, shape
from benchmarks.flat import Census, Judgement, judge
from benchmarks.http import free_port, scrape
from benchmarks.page import table, write_block
from tests.exporter.fake_nvml.script import FUNCTIONS, FakeDriver
from tests.exporter.harness import Page, build_library, environment

SCRAPES = 100_000
GPUS = 8
STORM = 0.25  # of the day
_CENSUSES = 400  # over the day
_PATIENCE_S = 60.0  # until a fault is seen, or gone; a backoff of the driver process lasts up to 30 s
_FAST = FUNCTIONS.index("utilization")  # asked once a GPU and cycle


class Day:
    """One exporter under load.

    Args:
        scene: its driver and folders.
        port: where it serves.
        scrapes: how many the day has; the driver cycles of the day go with them.
    """

    def __init__(self, scene: Scene, port: int, scrapes: int) -> None:
        self.scene = scene
        self.census = Census(scene.pid)
        self.latency_s: list[float] = []
        self.back_s: dict[str, list[float]] = {fault.name: [] for fault in FAULTS}
        self._port = port
        self._scrapes = scrapes
        self._cycles = max(1, compressed.DAY_CYCLES * scrapes // SCRAPES)
        self._first_cycle = self._calls()
        self._counted = 0
        self._began_s = self._told_s = time.monotonic()

    @property
    def cycles(self) -> int:
        """Driver cycles since the day began."""
        return self._calls() - self._first_cycle

    @property
    def seconds(self) -> float:
        """How long it has lasted."""
        return time.monotonic() - self._began_s

    @property
    def progress(self) -> float:
        """How much of the day has passed: of its scrapes or of its cycles, whichever is behind."""
        return min(len(self.latency_s) / self._scrapes, self.cycles / self._cycles)

    def _calls(self) -> int:
        return int(self.scene.driver.gpu(0).calls[_FAST])

    def scrape(self) -> bytes:
        """One scrape; readings change with each, an XID comes with every hundredth."""
        number = len(self.latency_s)
        gpu = self.scene.driver.gpu(number % GPUS)
        gpu.power_mw = 200_000 + number % 500_000
        gpu.energy_mj += 1_000 + number % 977
        gpu.temperature_c = 40 + number % 40
        if number % 100 == 0:
            self.scene.driver.raise_xid(number // 100 % GPUS, (31, 13, 43, 79, 94)[number // 100 % 5])
        took_s, body = scrape(self._port)
        self.latency_s.append(took_s)
        self._tell()
        return body

    def census_if_due(self) -> None:
        """Notes the sizes of all processes, `_CENSUSES` times a day."""
        progress = self.progress
        if progress * _CENSUSES >= self._counted:
            self._counted += 1
            self.census.take(progress)

    def until(
        self, condition: Callable[[Page], bool], what: str, explain: Callable[[Page], str] = lambda page: page.text
    ) -> float:
        """Scrapes until a page is as wanted; gives the seconds that took.

        Args:
            condition: whether it is.
            what: is waited for, for the message when it does not come.
            explain: what the last page says of it.

        Raises:
            SystemExit: it does not become so.
        """
        began_s = time.monotonic()
        while True:
            body = self.scrape()
            if len(self.latency_s) % 10 == 0 and condition(Page(body.decode())):
                return time.monotonic() - began_s
            if time.monotonic() - began_s > _PATIENCE_S:
                sys.exit(f"soak: {what} has not come within {_PATIENCE_S:.0f} s:\n{explain(Page(body.decode()))}")

    def meet(self, fault: Fault) -> None:
        """One fault from beginning to end: seen, and then gone without a trace."""
        before = shape(self._settled())
        fault.begin(self.scene)
        uuid = hit(self.scene)
        self.until(lambda page: fault.seen(page, uuid), fault.name)
        fault.end(self.scene)
        took_s = self.until(
            lambda page: normal(page) and shape(page) == before,
            f"the end of: {fault.name}",
            lambda page: "\n".join(f"{name} {sorted(labels)}" for name, labels in shape(page) ^ before) or page.text,
        )
        self.back_s[fault.name].append(took_s)

    def _settled(self) -> Page:
        found: list[Page] = []

        def keep(page: Page) -> bool:
            found[:] = [page]
            return normal(page)

        self.until(keep, "a normal page")
        return found[0]

    def _tell(self) -> None:
        if not sys.stderr.isatty() or time.monotonic() - self._told_s < 0.5:
            return
        self._told_s = time.monotonic()
        sys.stderr.write(
            f"\rsoak: {self.progress:6.1%}  {len(self.latency_s):,} scrapes  {self.cycles:,} driver cycles  "
            f"{sum(map(len, self.back_s.values()))} faults  {self.seconds:.0f} s "
        )
        sys.stderr.flush()


def live(day: Day) -> None:
    """The whole day: a storm of faults, three calm quarters, each fault once more at the end."""
    day.until(lambda page: normal(page) and sum(page.find("gpu_up").values()) == GPUS, "the first page")
    while day.progress < STORM:
        for fault in FAULTS:
            day.meet(fault)
            day.census_if_due()
    while day.progress < 1.0:
        day.scrape()
        day.census_if_due()
        if len(day.latency_s) % 1_000 == 0:
            _change_jobs(day.scene, len(day.latency_s) // 1_000)
    day.census.take(1.0)
    day.census.end()
    for path in day.scene.jobs.iterdir():
        path.unlink()
    day.until(lambda page: not page.find("gpu_workload_info"), "the end of all jobs")
    for fault in FAULTS:
        day.meet(fault)


def _change_jobs(scene: Scene, number: int) -> None:
    """What a scheduler does all day: another job on another GPU."""
    path = scene.jobs / str(number % GPUS)
    if path.exists():
        path.unlink()
    else:
        path.write_text(f"{1_000 + number}\n")


def main() -> None:
    """Lives through the day and writes the block; growth, or a fault that leaves a trace, ends with exit 1."""
    parser = argparse.ArgumentParser(prog="benchmarks.soak", description=__doc__)
    parser.add_argument("--scrapes", type=int, default=SCRAPES, help="fewer, to try it: the block is not written")
    scrapes = parser.parse_args().scrapes
    with tempfile.TemporaryDirectory(prefix="gm-soak-") as name:
        folder = Path(name)
        jobs = folder / "jobs"
        jobs.mkdir()
        driver = FakeDriver(folder / "state", GPUS)
        env = environment(build_library(folder), driver.path)
        port = free_port()
        options = (f"--web.listen-address=127.0.0.1:{port}", f"--collector.job.directory={jobs}", *compressed.OPTIONS)
        with (folder / "log").open("wb") as log:
            command = [sys.executable, "-m", "benchmarks.compressed", *options]
            process = subprocess.Popen(command, env=env, stderr=log)
        try:
            _wait(port, process)
            day = Day(Scene(driver, process.pid, jobs), port, scrapes)
            live(day)
        finally:
            process.terminate()
            process.wait(20)
        if sys.stderr.isatty():
            sys.stderr.write("\n")
    judgements = judge(day.census, STORM)
    text = block(day, judgements)
    wrong = [fault for judgement in judgements for fault in judgement.wrong]
    if wrong:
        sys.exit(f"soak: not flat: {'; '.join(wrong)}\n{text}")
    if scrapes >= SCRAPES:
        write_block("soak", text)
    else:
        sys.stdout.write(text + "\n")


def _wait(port: int, process: subprocess.Popen[bytes]) -> None:
    end_s = time.monotonic() + 30
    while process.poll() is None and time.monotonic() < end_s:
        try:
            scrape(port)
            return
        except OSError:
            time.sleep(0.1)
    sys.exit("soak: the exporter does not serve")


def block(day: Day, judgements: list[Judgement]) -> str:
    """The table and the lines under it."""
    rows = [
        (
            one.role,
            f"{one.second_mb:.1f} MB",
            f"{one.last_mb:.1f} MB",
            f"{one.slope_mb:+.2f} MB",
            f"{one.files[0]} to {one.files[1]}",
            f"{one.threads[0]} to {one.threads[1]}",
        )
        for one in judgements
    ]
    head = ("process", "RSS, second quarter", "last quarter", "fit, a day", "open files", "threads")
    cuts = statistics.quantiles(day.latency_s, n=100)
    faults = ", ".join(f"{name} ({len(times)}, {max(times):.1f} s)" for name, times in day.back_s.items() if times)
    hours = day.cycles / compressed.DAY_CYCLES * 24
    lines = [
        "",
        f"- {len(day.latency_s):,} scrapes of {GPUS} GPUs back to back in {day.seconds / 60:.1f} min, p50 "
        f"{cuts[49] * 1000:.1f} ms, p99 {cuts[98] * 1000:.1f} ms; {day.cycles:,} driver cycles, as many as in "
        f"{hours:.1f} h.",
        f"- Faults, how often, and the longest time until the page was as before: {faults}.",
        f"- Fake driver library, CPython {sys.version.split()[0]}, two shared cores.",
    ]
    return table(head, rows) + "\n" + "\n".join(lines)


if __name__ == "__main__":
    main()
