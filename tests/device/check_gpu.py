"""The report of `tests/device/check_gpu.sh`: what only a real GPU can answer, as Markdown; progress goes to stderr."""

from __future__ import annotations

import argparse
import contextlib
import math
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import pynvml
from prometheus_client.parser import text_string_to_metric_families

from benchmarks.http import free_port, scrape
from benchmarks.processes import family, size
from exporter.metrics import FAMILIES
from exporter.nvml.call import open_driver
from exporter.survey import Survey
from tests.device import facts
from tests.device.watch import Watch

_SCRAPES = 200
_FAST_CYCLES = 20
_SECRET = re.compile(r'((?:uuid|serial|hostname|boot_id|mig_uuid)=")[^"]*"')
_EXPORTER = [sys.executable, "-m", "exporter.cli"]


def faults(page: str, count: int) -> list[str]:
    """What is wrong with a page of the exporter, in words; [] if nothing is.

    Args:
        page: its text.
        count: how many GPUs the driver counts; each must stand on it, and be up.
    """
    found: list[str] = []
    known = {family.name for family in FAMILIES}
    seen: set[tuple[str, frozenset[tuple[str, str]]]] = set()
    up: list[float] = []
    try:
        for parsed in text_string_to_metric_families(page):
            for sample in parsed.samples:
                key = (sample.name, frozenset(sample.labels.items()))
                if sample.name not in known:
                    found.append(f"{sample.name} is not in the contract")
                if key in seen:
                    found.append(f"{sample.name} {sample.labels} stands twice")
                if not math.isfinite(sample.value):
                    found.append(f"{sample.name} {sample.labels} is {sample.value}")
                if sample.name == "gpuminutes_gpu_up":
                    up.append(sample.value)
                seen.add(key)
    except ValueError as exc:
        found.append(f"the page cannot be parsed: {exc}")
    if sum(up) < count:
        found.append(f"{count} GPUs by the driver's count, {len(up)} on the page, {up.count(1.0)} of them up")
    return found


def cycles() -> Iterator[str]:
    """How long a cycle over all GPUs takes; the clock is driven by hand, so that each kind comes when asked."""
    now_s = 0.0
    survey = Survey(30.0, 600.0, lambda: now_s)
    times: dict[str, list[float]] = {"first": [], "fast": [], "slow": [], "static": []}
    steps = [("first", 0.0), *[("fast", 1.0)] * _FAST_CYCLES, ("slow", 30.0), ("slow", 30.0), ("slow", 30.0)]
    for kind, step_s in [*steps, ("static", 600.0), ("static", 600.0)]:
        now_s += step_s
        began_s = time.perf_counter()
        snapshot = survey.cycle()
        times[kind].append(time.perf_counter() - began_s)
        if snapshot.code != 0:
            yield f"A {kind} cycle failed: NVML return code {snapshot.code}."
            return
        time.sleep(0.02)
    yield f"All {len(snapshot.gpus)} GPUs, in the driver process."
    yield ""
    yield "| cycle | runs | median | longest |"
    yield "| --- | --: | --: | --: |"
    for kind, took_s in times.items():
        yield f"| {kind} | {len(took_s)} | {statistics.median(took_s) * 1e3:.2f} ms | {max(took_s) * 1e3:.2f} ms |"


def support() -> Iterator[str]:
    """The return code of every function and field id that the exporter uses, from the first cycle of a survey."""
    watch = Watch()
    watch.begin()
    try:
        Survey(30.0, 600.0, lambda: 0.0).cycle()
    finally:
        watch.end()
    yield "| function | calls | returned | a call |"
    yield "| --- | --: | --- | --: |"
    for name, calls in sorted(watch.functions.items()):
        yield f"| {name} | {calls.count} | {calls.describe()} | {calls.took_s / calls.count * 1e6:.0f} us |"
    yield ""
    yield "| field id | name | scopes | returned |"
    yield "| --: | --- | --: | --- |"
    names = {value: name for name, value in vars(pynvml).items() if name.startswith("NVML_FI_DEV_")}
    rows: dict[tuple[int, str], int] = {}
    for (number, _), calls in sorted(watch.fields.items()):
        rows[number, calls.describe()] = rows.get((number, calls.describe()), 0) + 1
    for (number, returned), scopes in rows.items():
        yield f"| {number} | {names.get(number, '?').removeprefix('NVML_FI_DEV_')} | {scopes} | {returned} |"


def once(count: int) -> tuple[str, list[str]]:
    """One page, and what is wrong with it."""
    ran = subprocess.run([*_EXPORTER, "--once"], capture_output=True, text=True, timeout=60, check=False)
    wrong = faults(ran.stdout, count)
    if ran.returncode != 0:
        wrong.append(f"--once ended with {ran.returncode}: {ran.stderr[-500:]}")
    return ran.stdout, wrong


def page_lines(page: str) -> Iterator[str]:
    """The samples of a page; what names a machine is blotted out."""
    lines = [line for line in page.splitlines() if line and not line.startswith("#")]
    yield f"{len(lines)} series, {len(page):,} bytes; uuid, serial, host name and boot id are blotted out."
    yield ""
    yield "```"
    yield from (_SECRET.sub(r'\1..."', line) for line in lines)
    yield "```"


def serving(count: int, wrong: list[str]) -> Iterator[str]:
    """The exporter as it runs on a node: memory of each process, latency of scrapes. Adds to `wrong` what is."""
    port = free_port()
    command = [*_EXPORTER, f"--web.listen-address=127.0.0.1:{port}"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        page = _first_page(port, process)
        if page is None:
            wrong.append("the exporter does not serve a GPU within 30 s")
            return
        time.sleep(6.0)  # a second cycle: rates are there
        took_s = [scrape(port)[0] for _ in range(_SCRAPES)]
        page = scrape(port)[1].decode()
        wrong += [f"served page: {fault}" for fault in faults(page, count)]
        cuts = statistics.quantiles(took_s, n=100)
        series = sum(1 for line in page.splitlines() if line and not line.startswith("#"))
        yield f"{series} series, {len(page):,} bytes; {_SCRAPES} scrapes, each on a connection of its own: "
        yield f"p50 {cuts[49] * 1e3:.2f} ms, p99 {cuts[98] * 1e3:.2f} ms."
        yield ""
        yield "| process | RSS | PSS | open files | threads |"
        yield "| --- | --: | --: | --: | --: |"
        for pid in family(process.pid):
            words = Path(f"/proc/{pid}/cmdline").read_bytes().decode().split("\0")
            name = next((word for word in ("snapshots", "events") if word in words), "parent")
            one = size(pid)
            yield (
                f"| {name} | {one.resident_mb:.1f} MB | {one.proportional_mb:.1f} MB | {one.open_files} "
                f"| {one.threads} |"
            )
    finally:
        process.terminate()
        try:
            code = process.wait(20)
        except subprocess.TimeoutExpired:
            code = -1
        if code != 0:
            wrong.append(f"the exporter ended with {code} on SIGTERM")


def _first_page(port: int, process: subprocess.Popen[bytes]) -> str | None:
    end_s = time.monotonic() + 30
    while process.poll() is None and time.monotonic() < end_s:
        with contextlib.suppress(OSError):
            page = scrape(port)[1].decode()
            if "gpuminutes_gpu_up{" in page:
                return page
        time.sleep(0.2)
    return None


@contextlib.contextmanager
def loaded(seconds: float) -> Iterator[int | None]:
    """A process that keeps GPU 0 busy; gives its pid, None where none can be made."""
    command = [sys.executable, "-m", "tests.device.load", str(seconds)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    busy = process.stdout.readline().strip() == "busy"
    try:
        yield process.pid if busy else None
    finally:
        process.wait(seconds + 30)
        process.stdout.close()


def section(title: str, lines: Iterable[str]) -> None:
    """Prints one section; a defect in it costs that section alone."""
    sys.stderr.write(f"check_gpu: {title} ...\n")
    print(f"### {title}\n")
    try:
        for line in lines:
            print(line)
    except Exception as exc:  # the edge: the other sections must still be told
        print(f"This section broke: {exc!r}")
    print(flush=True)


def main() -> int:
    """Prints the report; gives 1 if the page of the exporter is broken, 0 otherwise."""
    parser = argparse.ArgumentParser(prog="check_gpu", description=__doc__)
    parser.add_argument("--window", type=float, default=8.0, help="seconds over which counters are compared")
    window_s = parser.parse_args().window
    try:
        open_driver()
        count = pynvml.nvmlDeviceGetCount()
        handle = pynvml.nvmlDeviceGetHandleByIndex(0)
    except Exception as exc:
        print(f"The driver does not answer: {exc!r}")
        return 1
    section("Machine", facts.machine(handle, count))
    section("Cycles", cycles())
    section("Support", support())
    section("Links", facts.link_scopes(handle))
    section("Events", facts.event_types(handle))
    idle = [("idle", time.monotonic(), window_s)]
    section("Counters of held clocks, idle", facts.counter_units(handle, idle))
    section("GPM, idle", facts.gpm_windows(handle, (0.05, 0.2, 1.0)))
    with loaded(window_s + 4.0) as pid:
        what = "without load" if pid is None else "busy"
        section(f"GPM, {what}", facts.gpm_windows(handle, (0.2, 1.0)))
        section(f"Processes, {what}", facts.processes(handle, pid))
        busy = [(what, time.monotonic(), window_s)]
        section(f"Counters of held clocks, {what}", facts.counter_units(handle, busy))
    page, wrong = once(count)
    section("One page", page_lines(page))
    section("Serving", serving(count, wrong))
    section("Verdict", wrong or ["The page is sound."])
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
