"""`python -m benchmarks.exporter`: our exporter and nvitop-exporter side by side over the same fake driver library.

Both run in one throw-away environment (same Python, same prometheus_client, same nvidia-ml-py), each on a state file
of its own with the same healthy GPUs, both with cycles of 5 s. Both collect beside the scrape, so a scrape is the
writing of the page alone; what collecting costs is measured at rest.
"""

from __future__ import annotations

import contextlib
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.http import free_port, scrape
from benchmarks.page import table, write_block
from benchmarks.processes import Size, cpu_s, family, rest_cpu_s, size
from tests.exporter.fake_nvml.script import FakeDriver
from tests.exporter.harness import build_library, environment

HERE = Path(__file__).parent
NUMBERS = (8, 64)
INTERVAL_S = 5.0
REST_S = 60.0  # two slow cycles of ours
SCRAPES = {8: 1_000, 64: 200}
BLOCKS = 10  # the two take turns, so that a noisy neighbour meets both
NVLINKS = 18  # of an H100 (nvidia-smi nvlink)

PLAIN = ""
# As Prometheus 3 writes it (scrape/scrape.go, acceptHeader), with its default formats.
PROMETHEUS = (
    "Accept: application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,"
    "application/openmetrics-text;version=0.0.1;q=0.5,text/plain;version=1.0.0;escaping=allow-utf-8;q=0.4,"
    "text/plain;version=0.0.4;q=0.3,*/*;q=0.2\r\n"
    "Accept-Encoding: gzip\r\n"
)


@dataclass(slots=True)
class Side:
    """One exporter that serves.

    Attributes:
        name: as the table has it.
        process: the one that was started.
        port: where it serves, on loopback.
        log: what it said.
        rest_cpu_s: CPU time a second while nobody scrapes.
        scrape_cpu_s: CPU time of one scrape above that, by headers.
        latency_s: of every scrape, by headers.
    """

    name: str
    process: subprocess.Popen[bytes]
    port: int
    log: Path
    rest_cpu_s: float = 0.0
    scrape_cpu_s: dict[str, float] = field(default_factory=dict)
    latency_s: dict[str, list[float]] = field(default_factory=dict)

    def cpu_s(self) -> float:
        """CPU time of all its processes."""
        return cpu_s(family(self.process.pid))

    def sizes(self) -> list[Size]:
        """Its processes."""
        return [size(pid) for pid in family(self.process.pid)]


@dataclass(frozen=True, slots=True)
class Result:
    """What one side came to with one number of GPUs."""

    side: Side
    sizes: list[Size]
    page: str
    bytes_by_headers: dict[str, int]

    @property
    def series(self) -> list[str]:
        """The lines of its page that are samples."""
        return [line for line in self.page.splitlines() if line and not line.startswith("#")]

    @property
    def without_value(self) -> int:
        """Samples that say NaN."""
        return sum(line.endswith(" NaN") for line in self.series)


def main() -> None:
    """Measures and writes the block; ends with exit 1 when the peer cannot be installed."""
    with tempfile.TemporaryDirectory(prefix="gm-bench-") as name:
        folder = Path(name)
        python = install(folder / "env")
        build_library(folder, more=[HERE / "nvitop.c"])
        results = [result for gpus in NUMBERS for result in race(folder, python, gpus)]
        default_cpu_s = rest_at_default(folder, python)
        missing = sorted(set(re.findall(r"undefined symbol: (\w+)", _logs(folder))))
        versions = _versions(python)
    write_block("exporter", block(results, default_cpu_s, missing, versions))


def install(folder: Path) -> Path:
    """Makes an environment with the peer and what ours needs, by hash; gives its Python."""
    _tell("installing nvitop-exporter into a folder of its own")
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    python = folder / "bin" / "python"
    command = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--require-hashes"]
    done = subprocess.run([*command, "-r", str(HERE / "requirements-nvitop.txt")], check=False)
    if done.returncode != 0:
        sys.exit("benchmarks.exporter: nvitop-exporter cannot be installed; its block stays as it is")
    return python


@contextlib.contextmanager
def serving(folder: Path, name: str, command: Sequence[str], gpus: int) -> Iterator[Side]:
    """Starts one exporter over `gpus` healthy GPUs; `{port}` in its command is a free port."""
    driver = FakeDriver(folder / f"{name}-{gpus}.state", gpus)
    for index in range(gpus):
        _busy_links(driver, index)
    port = free_port()
    env = environment(folder, driver.path) | {"PYTHONPATH": str(HERE.parent)}
    log = folder / f"{name}-{gpus}.log"
    with log.open("wb") as to:
        process = subprocess.Popen([part.format(port=port) for part in command], env=env, stdout=to, stderr=to)
    side = Side(name, process, port, log)
    try:
        _wait(side, gpus)
        yield side
    finally:
        process.terminate()
        process.wait(20)


def commands(python: Path, interval_s: float = INTERVAL_S) -> dict[str, list[str]]:
    """Command line by side."""
    script = python.parent / "nvitop-exporter"
    ours = ("--web.listen-address=127.0.0.1:{port}", f"--collector.nvml.interval={interval_s:g}")
    return {
        "ours": [str(python), "-m", "exporter.cli", *ours],
        "nvitop-exporter": [str(python), str(script), "--port={port}", f"--interval={interval_s:g}"],
    }


def race(folder: Path, python: Path, gpus: int) -> list[Result]:
    """Both sides at the same time: at rest, then scraped in turns."""
    _tell(f"{gpus} GPUs: start")
    with contextlib.ExitStack() as running:
        sides = [
            running.enter_context(serving(folder, name, command, gpus)) for name, command in commands(python).items()
        ]
        time.sleep(3 * INTERVAL_S)  # rates need two cycles
        _tell(f"{gpus} GPUs: {REST_S:.0f} s at rest")
        _rest(sides)
        for headers in (PLAIN, PROMETHEUS):
            _tell(f"{gpus} GPUs: {SCRAPES[gpus]} scrapes of each")
            _scrape_in_turns(sides, SCRAPES[gpus], headers)
        return [_result(side) for side in sides]


def rest_at_default(folder: Path, python: Path) -> float:
    """What the peer uses at rest with 8 GPUs and its own default interval of a second: CPU seconds a second."""
    _tell(f"nvitop-exporter at its default interval: {REST_S:.0f} s at rest")
    command = commands(python, 1.0)["nvitop-exporter"]
    with serving(folder, "nvitop-default", command, NUMBERS[0]) as side:
        time.sleep(3.0)
        _rest([side])
        return side.rest_cpu_s


def _rest(sides: Sequence[Side]) -> None:
    pids = [list(family(side.process.pid)) for side in sides]
    before = [rest_cpu_s(of_side) for of_side in pids]
    began_s = time.monotonic()
    time.sleep(REST_S)
    for side, of_side, was in zip(sides, pids, before, strict=True):
        side.rest_cpu_s = (rest_cpu_s(of_side) - was) / (time.monotonic() - began_s)


def _scrape_in_turns(sides: Sequence[Side], count: int, headers: str) -> None:
    for side in sides:
        for _ in range(20):
            scrape(side.port, headers)
    used_s = dict.fromkeys((side.name for side in sides), 0.0)
    for _ in range(BLOCKS):
        for side in sides:
            cpu, began_s = side.cpu_s(), time.monotonic()
            latency_s = side.latency_s.setdefault(headers, [])
            for _ in range(count // BLOCKS):
                latency_s.append(scrape(side.port, headers)[0])
            used_s[side.name] += side.cpu_s() - cpu - side.rest_cpu_s * (time.monotonic() - began_s)
    for side in sides:
        side.scrape_cpu_s[headers] = used_s[side.name] / count


def _result(side: Side) -> Result:
    sent = {headers: len(scrape(side.port, headers)[1]) for headers in (PLAIN, PROMETHEUS)}
    return Result(side, side.sizes(), scrape(side.port)[1].decode(), sent)


def _wait(side: Side, gpus: int) -> None:
    """Waits until a page shows every GPU."""
    shown = re.compile(r"^(?:gpuminutes_gpu_power_watts|gpu_power_usage_W)\{", re.MULTILINE)
    end_s = time.monotonic() + 60
    while time.monotonic() < end_s:
        time.sleep(0.2)
        with contextlib.suppress(OSError):
            if len(shown.findall(scrape(side.port)[1].decode())) == gpus:
                return
    raise RuntimeError(f"{side.name} does not serve {gpus} GPUs:\n{side.log.read_text()[-2000:]}")


def _busy_links(driver: FakeDriver, index: int) -> None:
    """Links with traffic, one counter each (field ids of nvml.h: link count 91, data out and in 138 and 139)."""
    gpu = driver.gpu(index)
    gpu.set_field(91, NVLINKS, kind=1)
    for link in range(NVLINKS):
        gpu.set_field(138, 10**9 + link, scope=link)
        gpu.set_field(139, 10**9 + link, scope=link)


def _logs(folder: Path) -> str:
    return "\n".join(path.read_text(errors="replace") for path in folder.glob("nvitop*.log"))


def _versions(python: Path) -> dict[str, str]:
    names = ("nvitop-exporter", "prometheus-client", "nvidia-ml-py")
    code = f"import importlib.metadata as m; print(*(m.version(name) for name in {names!r}))"
    said = subprocess.run([str(python), "-c", code], capture_output=True, text=True, check=True).stdout.split()
    return dict(zip(names, said, strict=True)) | {"python": sys.version.split()[0]}


def _tell(message: str) -> None:
    sys.stderr.write(f"exporter: {message} ...\n")


def block(results: Sequence[Result], default_cpu_s: float, missing: Sequence[str], versions: dict[str, str]) -> str:
    """The table and the lines under it."""

    def percentile(result: Result, which: int, headers: str = PLAIN) -> str:
        return f"{statistics.quantiles(result.side.latency_s[headers], n=100)[which - 1] * 1000:.1f} ms"

    rows: list[tuple[str, list[str]]] = [
        ("series", [f"{len(r.series):,}" for r in results]),
        ("of them NaN", [f"{r.without_value:,}" for r in results]),
        ("page", [f"{r.bytes_by_headers[PLAIN] / 1000:.0f} kB" for r in results]),
        ("scrape, p50", [percentile(r, 50) for r in results]),
        ("scrape, p99", [percentile(r, 99) for r in results]),
        ("CPU of a scrape", [f"{r.side.scrape_cpu_s[PLAIN] * 1000:.1f} ms" for r in results]),
        ("CPU of a scrape, per 100 series", [f"{_per_100(r) * 1000:.2f} ms" for r in results]),
        ("scrape as Prometheus asks, p50", [percentile(r, 50, PROMETHEUS) for r in results]),
        ("CPU of it", [f"{r.side.scrape_cpu_s[PROMETHEUS] * 1000:.1f} ms" for r in results]),
        ("bytes of it", [f"{r.bytes_by_headers[PROMETHEUS] / 1000:.0f} kB" for r in results]),
        ("CPU at rest", [f"{r.side.rest_cpu_s * 100:.2f} % of a core" for r in results]),
        ("processes", [str(len(r.sizes)) for r in results]),
        ("RSS of all", [f"{sum(s.resident_mb for s in r.sizes):.0f} MB" for r in results]),
        ("PSS of all", [f"{sum(s.proportional_mb for s in r.sizes):.0f} MB" for r in results]),
    ]
    head = ["", *(f"{r.side.name}, {gpus} GPUs" for r, gpus in zip(results, _each_twice(NUMBERS), strict=True))]
    ours, theirs = results[0], results[1]
    lines = [
        "",
        *(_ratio(gpus, *results[2 * at : 2 * at + 2]) for at, gpus in enumerate(NUMBERS)),
        f"- Each process of ours, {NUMBERS[0]} GPUs: "
        f"RSS {', '.join(f'{s.resident_mb:.0f} MB' for s in ours.sizes)}; "
        f"the one of nvitop-exporter: {theirs.sizes[0].resident_mb:.0f} MB.",
        f"- nvitop-exporter at its default interval of 1 s, {NUMBERS[0]} GPUs: {default_cpu_s * 100:.2f} % of a core "
        f"at rest; ours has {INTERVAL_S:g} s by default.",
        f"- Symbols that nvitop asked and the fake library lacks: {', '.join(missing) or 'none'}.",
        f"- {', '.join(f'{SCRAPES[n]:,} scrapes with {n} GPUs' for n in NUMBERS)}, for each side and kind of request, "
        f"{BLOCKS} turns; nvitop-exporter {versions['nvitop-exporter']}, prometheus-client "
        f"{versions['prometheus-client']}, nvidia-ml-py {versions['nvidia-ml-py']}, CPython {versions['python']}; "
        "two shared cores.",
    ]
    return table(head, [(name, *cells) for name, cells in rows]) + "\n" + "\n".join(lines)


def _each_twice(numbers: Sequence[int]) -> list[int]:
    return [number for number in numbers for _ in range(2)]


def _per_100(result: Result) -> float:
    return result.side.scrape_cpu_s[PLAIN] * 100 / len(result.series)


def _ratio(gpus: int, ours: Result, theirs: Result) -> str:
    """What ours costs of what theirs costs: a page, a series, and a page as Prometheus asks for it."""
    page = ours.side.scrape_cpu_s[PLAIN] / theirs.side.scrape_cpu_s[PLAIN]
    series = _per_100(ours) / _per_100(theirs)
    asked = ours.side.scrape_cpu_s[PROMETHEUS] / theirs.side.scrape_cpu_s[PROMETHEUS]
    wall = statistics.median(ours.side.latency_s[PLAIN]) / statistics.median(theirs.side.latency_s[PLAIN])
    return (
        f"- **{gpus} GPUs: {len(ours.series):,} series for {page:.2f}x the CPU** of {len(theirs.series):,} series of "
        f"nvitop-exporter ({wall:.2f}x the time at p50); {series:.2f}x a series; {asked:.2f}x as Prometheus asks."
    )


if __name__ == "__main__":
    main()
