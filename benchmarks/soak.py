"""`make soak`: one exporter over the fake driver, scraped many times; memory and file descriptors must stay flat."""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from pathlib import Path

from tests.exporter.fake_nvml.script import FakeDriver
from tests.exporter.harness import FAST, Exporter, build_library, environment, request

SCRAPES = 20_000
WARM_UP = 2_000
GPUS = 8
PAGE = Path(__file__).parent.parent / "docs" / "benchmarks.md"
BEGIN, END = "<!-- soak: begin -->", "<!-- soak: end -->"

# What a process may gain between the end of the warm-up and the end: the interpreter's own noise, not a leak.
MOST_GROWTH_MB = 4.0


def main() -> None:
    """Scrapes, raises XIDs and changes values all along, and writes the page; growth ends with exit 1 and no page."""
    with tempfile.TemporaryDirectory(prefix="gm-soak-") as folder:
        driver = FakeDriver(Path(folder) / "state", GPUS)
        exporter = Exporter(FAST, environment(build_library(Path(folder)), driver.path))
        try:
            exporter.wait(lambda page: list(page.find("gpus_visible").values()) == [GPUS])
            _scrape(exporter, driver, WARM_UP)
            before = _sizes(exporter)
            seconds = _scrape(exporter, driver, SCRAPES)
            after = _sizes(exporter)
        finally:
            exporter.stop()
    grown = {pid: after[pid][0] - before[pid][0] for pid in before if pid in after}
    if set(before) != set(after) or max(grown.values()) > MOST_GROWTH_MB or _open_files(before) != _open_files(after):
        sys.exit(f"not flat: before {before}, after {after}")
    table = _table(seconds, before, after)
    sys.stdout.write(table)
    text = PAGE.read_text(encoding="utf-8")
    head, tail = text.split(BEGIN)[0], text.split(END)[1]
    PAGE.write_text(f"{head}{BEGIN}\n{table}{END}{tail}", encoding="utf-8")


def _scrape(exporter: Exporter, driver: FakeDriver, count: int) -> list[float]:
    seconds = []
    for number in range(count):
        driver.gpu(number % GPUS).power_mw = 200_000 + number % 500_000
        if number % 100 == 0:
            driver.raise_xid(number % GPUS, 31)
        began = time.perf_counter()
        status, _, _ = request(exporter.port, "/metrics")
        seconds.append(time.perf_counter() - began)
        assert status == 200
    return seconds


def _sizes(exporter: Exporter) -> dict[int, tuple[float, int]]:
    """Gives resident MB and open file descriptors by process, the parent first."""
    time.sleep(2)  # the last connection is closed, the last cycle is over
    found = {}
    for pid in (exporter.process.pid, *exporter.children()):
        status = Path(f"/proc/{pid}/status").read_text()
        resident_kb = int(next(line for line in status.splitlines() if line.startswith("VmRSS")).split()[1])
        found[pid] = (resident_kb / 1024, len(list(Path(f"/proc/{pid}/fd").iterdir())))
    return found


def _open_files(sizes: dict[int, tuple[float, int]]) -> list[int]:
    return [files for _, files in sizes.values()]


def _table(seconds: list[float], before: dict[int, tuple[float, int]], after: dict[int, tuple[float, int]]) -> str:
    names = ["parent", *(f"driver child {n}" for n in range(1, len(after)))]
    lines = ["| process | resident before | after | open files |", "| --- | --: | --: | --: |"]
    for name, pid in zip(names, after, strict=True):
        lines.append(f"| {name} | {before[pid][0]:.1f} MB | {after[pid][0]:.1f} MB | {after[pid][1]} |")
    cuts = statistics.quantiles(seconds, n=100)
    lines += [
        "",
        f"- {len(seconds):,} scrapes of {GPUS} GPUs after {WARM_UP:,} to warm up; p50 {cuts[49] * 1000:.1f} ms, "
        f"p99 {cuts[98] * 1000:.1f} ms; fake driver library, two shared cores.",
        "",
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
