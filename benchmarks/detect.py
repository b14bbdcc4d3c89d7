"""`python -m benchmarks.detect [--nodes N] [--day]`: what detection costs at 10,000 GPUs, and that backfill is live.

A fleet is replayed into a real Prometheus by remote write, healthy but for a script of troubles, and observed by the
product's own code: minute by minute, and again as one hour. With `--day`, a hundred nodes over a day with troubles of
chance are observed minute by minute, hour by hour and at once, and all three must give the same bytes.
"""

from __future__ import annotations

import argparse
import platform
import random
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import httpx

from benchmarks.http import free_port
from benchmarks.looks import Cost, Looked, MeteredClient, as_the_worker_does, attributed, canonical, cut, digest, look
from benchmarks.page import table, write_block
from benchmarks.processes import size
from benchmarks.remote_write import Writer
from benchmarks.replay import Farm, Replay
from benchmarks.troubles import Trouble, drawn
from exporter import metrics as m
from warehouse.causes import load_causes
from warehouse.detect import render
from warehouse.detect.words import Settings
from warehouse.model.time import MS_PER_DAY, MS_PER_HOUR, MS_PER_MINUTE, MS_PER_SECOND, Window, parse_instant

START_MS: Final = parse_instant("2026-03-02T09:50:00Z")
NODES: Final = 1_250
# As `gpu-minutes run` does: the urgent detectors every minute, every one every five.
WHOLE_MS: Final = 5 * MS_PER_MINUTE
BEFORE_MS: Final = 10 * MS_PER_MINUTE
# Samples of the last scrapes may still be on their way: the last look ends before the replay does.
AFTER_MS: Final = MS_PER_MINUTE
SEED: Final = 20_260_302
DAY_NODES: Final = 100
DAY_TROUBLES: Final = 40

# Families of the exporter that are replayed whether or not a detector reads them: an engine carries them all.
_ALSO: Final = (
    m.GPU_UP, m.GPU_UTILIZATION, m.GPU_POWER, m.GPU_POWER_LIMIT, m.GPU_CLOCK, m.GPU_CLOCK_EVENT_ACTIVE,
    m.GPU_XID_EVENTS, m.GPU_REMAPPED_ROWS, m.GPU_ROW_REMAP_PENDING, m.GPU_ROW_REMAP_FAILED, m.GPU_NVLINK_ERRORS,
    m.GPU_PCIE_REPLAYS, m.GPU_TEMPERATURE, m.GPU_WORKLOAD_INFO, m.GPU_ALLOCATED, m.GPU_MEMORY, m.NODE_BLOCKED_TASKS,
    m.NODE_PRESSURE_STALL, m.NFS_OPS, m.NFS_OP_SECONDS,
)  # fmt: skip


def farm(nodes: int) -> Farm:
    """Gives a farm: a job of 128 nodes and others of 64, or halves of what is left where it is small.

    The last twentieth is idle, but for a few nodes that serve.
    """
    jobs, left = [], nodes * 19 // 20
    for size_ in (128, *(64,) * 100):
        if left < 2:
            break
        jobs.append(min(size_, max(1, left // 2)) if nodes < 200 else min(size_, left))
        left -= jobs[-1]
    return Farm(tuple(f"n{number:04}" for number in range(nodes)), 100, tuple(jobs), max(1, min(4, nodes // 20)))


def families() -> frozenset[str]:
    """Gives the names of all series that the catalogue's detectors read, and of those that are replayed besides."""
    found = {family.name for family in _ALSO}
    for cause in load_causes().values():
        for detector in cause.detectors:
            texts = (detector.expr, detector.onset_expr, detector.coarse, detector.lost_expr, *detector.clears)
            found |= {name for text in texts for name in render.names(text)}
            found |= {witness.metric for witness in detector.witnesses}
    return frozenset(found)


def script(place: Farm) -> list[Trouble]:
    """Gives the troubles of the hour: one of each size, from a GPU to a hall."""
    names, first_job = place.nodes, next(iter(place.job_nodes.values()))

    def at(minute: float, minutes: float) -> Window:
        start_ms = START_MS + BEFORE_MS + round(minute * MS_PER_MINUTE)
        return Window(start_ms, start_ms + round(minutes * MS_PER_MINUTE))

    # The last whole hall but one: no part of the job that hangs.
    hall = names[-2 * place.hall : -place.hall] if len(names) > 3 * place.hall else names[-5:-1]
    middle = len(names) // 2
    return [
        Trouble("node_dead", at(5.1, 12.0), frozenset({names[middle]})),
        Trouble("gpu_lost", at(8.3, 22.0), frozenset({names[middle + 1]}), frozenset({5})),
        Trouble("hang", at(12.2, 11.0), frozenset(first_job)),
        Trouble("power_brake", at(26.4, 6.0), frozenset(names[middle + 2 : middle + 4])),
        Trouble("io_stall", at(34.7, 7.0), frozenset(names[middle + 4 : middle + 6])),
        Trouble("node_dead", at(44.5, 9.0), frozenset(hall)),
    ]


@contextmanager
def prometheus(folder: Path) -> Iterator[tuple[str, int]]:
    """Gives the address and the process of an empty Prometheus that takes remote writes, on loopback."""
    port = free_port()
    (folder / "prometheus.yml").write_text("global: {scrape_interval: 15s}\n")
    command = ["prometheus", f"--config.file={folder / 'prometheus.yml'}", f"--storage.tsdb.path={folder / 'data'}"]
    command += ["--storage.tsdb.retention.time=100y", "--web.enable-remote-write-receiver"]
    with (folder / "log.txt").open("w") as log:
        server = subprocess.Popen([*command, f"--web.listen-address=127.0.0.1:{port}"], stdout=log, stderr=log)
    try:
        _wait(f"http://127.0.0.1:{port}/-/ready", server)
        yield f"http://127.0.0.1:{port}", server.pid
    finally:
        server.terminate()
        server.wait(60)


def _wait(url: str, server: subprocess.Popen[bytes]) -> None:
    end_s = time.monotonic() + 30
    while server.poll() is None and time.monotonic() < end_s:
        try:
            if httpx.get(url, trust_env=False).status_code == 200:
                return
        except httpx.TransportError:
            pass
        time.sleep(0.1)
    sys.exit("detect: the Prometheus does not become ready")


def fill(address: str, replay: Replay) -> str:
    """Writes a replay into a server; gives in words how many samples, and how fast."""
    writer, began = Writer(address), time.perf_counter()
    for piece in replay.write(writer):
        _tell(f"replayed to {(piece.end_ms - replay.window.start_ms) / MS_PER_HOUR:.1f} h, {replay.series:,} series")
    writer.close()
    took_s = time.perf_counter() - began
    return f"{writer.samples:,} samples in {took_s:.0f} s, {writer.samples / took_s:,.0f} a second"


def _tell(text: str) -> None:
    sys.stderr.write(f"detect: {text}\n")


def hour(nodes: int, minutes: int = 60) -> str:
    """Replays the hour and observes it twice; gives the block of the page."""
    place = farm(nodes)
    window = Window(START_MS, START_MS + BEFORE_MS + minutes * MS_PER_MINUTE + AFTER_MS)
    asked = Window(window.start_ms + BEFORE_MS, window.end_ms - AFTER_MS)
    replay = Replay(place, window, script(place), families())
    with tempfile.TemporaryDirectory(prefix="gm-detect-") as name, prometheus(Path(name)) as (address, server):
        filled = fill(address, replay)
        _tell(filled)
        sides = []
        for looks in (as_the_worker_does(asked, MS_PER_MINUTE, WHOLE_MS), cut(asked, MS_PER_HOUR)):
            with MeteredClient(address, 120.0, server) as client, attributed(client):
                sides.append((look(looks, client, place, Settings(), server), client))
                _tell(f"{len(sides[-1][0].walls_s)} looks, {sum(sides[-1][0].walls_s):.1f} s")
        memory_mb = size(server).resident_mb
    (live, _), (back, _) = sides
    _differences(live, back)
    lines = [
        _figures([side for side, _ in sides], asked.length_ms / MS_PER_SECOND),
        f"- {nodes * 8:,} GPUs, {replay.series:,} series; {filled}; {memory_mb:,.0f} MB of memory of the server after.",
        f"- Evidence of both: {len(live.evidence)}, SHA-256 {digest(live.evidence)} and {digest(back.evidence)}.",
        f"- Blind: {', '.join(sorted(live.blind)) or 'none'}.",
        f"- {platform.python_implementation()} {platform.python_version()}, {platform.machine()}, two shared cores.",
        "",
        _costliest(sides[0][1], sides[1][1]),
        "",
        _slowest(sides[0][1], "minute by minute"),
        "",
        _slowest(sides[1][1], "one hour"),
    ]
    for item in live.evidence:
        _tell(f"{item.start_ms - asked.start_ms:>9} {item.key} {item.state} {item.cause} {item.lost_ppm}")
    for finding in sorted(live.findings | back.findings)[:20]:
        _tell(f"finding: {finding}")
    return "\n".join(lines)


def _figures(sides: Sequence[Looked], seconds: float) -> str:
    rows = [
        ("looks", *(f"{len(side.walls_s)}" for side in sides)),
        ("a look, median", *(f"{statistics.median(side.walls_s):.2f} s" for side in sides)),
        ("a look, longest", *(f"{max(side.walls_s):.2f} s" for side in sides)),
        ("questions of a look, median", *(f"{statistics.median(side.questions):.0f}" for side in sides)),
        ("questions of a look, most", *(f"{max(side.questions)}" for side in sides)),
        ("CPU of Prometheus", *(f"{side.server_s:.1f} s" for side in sides)),
        ("of a core, over that time", *(f"{100 * side.server_s / seconds:.2f} %" for side in sides)),
        ("CPU of the observer", *(f"{side.own_s:.1f} s" for side in sides)),
        ("of a core, over that time", *(f"{100 * side.own_s / seconds:.2f} %" for side in sides)),
    ]
    return table(("", "as the worker looks", "all at once"), rows) + "\n"


def _costliest(live: MeteredClient, back: MeteredClient) -> str:
    ranked = sorted(live.by_detector.items(), key=lambda pair: -pair[1].cpu_s)[:12]
    rows = [
        (key, f"{cost.times}", f"{cost.wall_s:.2f} s", f"{cost.cpu_s:.2f} s", f"{_of(back, key).cpu_s:.2f} s")
        for key, cost in ranked
    ]
    return table(("detector", "questions", "waited", "CPU of Prometheus", "of it for all at once"), rows)


def _of(client: MeteredClient, key: str) -> Cost:
    return client.by_detector.get(key, Cost())


def _slowest(client: MeteredClient, title: str) -> str:
    ranked = sorted(client.by_words.items(), key=lambda pair: -pair[1].cpu_s)[:15]
    lines = [f"Costliest questions, {title}:", ""]
    for (key, words), cost in ranked:
        each_ms = 1_000 * cost.cpu_s / cost.times
        lines.append(f"- {cost.cpu_s:.2f} s CPU, {cost.times} times {each_ms:.0f} ms, {key}: `{words[:300]}`")
    return "\n".join(lines)


def _differences(left: Looked, right: Looked) -> int:
    ours, theirs = set(canonical(left.evidence)), set(canonical(right.evidence))
    for line in sorted(ours - theirs):
        _tell(f"only in the first: {line}")
    for line in sorted(theirs - ours):
        _tell(f"only in the second: {line}")
    return len(ours ^ theirs)


def day(nodes: int, troubles: int, hours: int, seed: int) -> str:
    """Replays a day with troubles of chance and observes it in minutes, in hours and at once."""
    place = farm(nodes)
    asked = Window(START_MS + BEFORE_MS, START_MS + BEFORE_MS + hours * MS_PER_HOUR)
    window = Window(START_MS, asked.end_ms + AFTER_MS)
    found = drawn(random.Random(seed), troubles, asked, place.nodes, place.job_nodes, list(place.endpoints))
    rows = []
    with tempfile.TemporaryDirectory(prefix="gm-detect-") as name, prometheus(Path(name)) as (address, server):
        filled = fill(address, Replay(place, window, found, families()))
        _tell(filled)
        sides = []
        for title, looks in (
            ("as the worker looks", as_the_worker_does(asked, MS_PER_MINUTE, WHOLE_MS)),
            ("minutes", cut(asked, MS_PER_MINUTE)),
            ("hours", cut(asked, MS_PER_HOUR)),
            ("at once", cut(asked, MS_PER_DAY)),
        ):
            with MeteredClient(address, 300.0, server) as client:
                side = look(looks, client, place, Settings(), server)
            sides.append(side)
            rows.append(
                (title, f"{len(side.walls_s)}", f"{sum(side.walls_s):.1f} s", f"{side.server_s:.1f} s",
                 f"{len(side.evidence)}", digest(side.evidence)[:16])
            )  # fmt: skip
            _tell(" ".join(rows[-1]))
    wrong = sum(_differences(sides[0], side) for side in sides[1:])
    head = ("a day in", "looks", "waited", "CPU of Prometheus", "evidence", "SHA-256")
    causes = len({item.cause for item in sides[0].evidence})
    lines = [
        table(head, rows),
        "",
        f"- {nodes * 8:,} GPUs, {hours} hours, {troubles} troubles of {len({t.kind for t in found})} kinds; {filled}; "
        f"evidence of {causes} causes; seed {seed}.",
    ]
    if wrong:
        sys.exit("detect: backfill and live differ\n" + "\n".join(lines))
    return "\n".join(lines)


def main(arguments: Sequence[str]) -> None:
    """Runs the hour, or the day; the page is written where the sizes are the real ones."""
    parser = argparse.ArgumentParser(prog="benchmarks.detect", description=re.sub(r"\s+", " ", __doc__ or ""))
    parser.add_argument("--nodes", type=int, help="fewer, to try it: the page is left alone")
    parser.add_argument("--minutes", type=int, default=60, help="of the hour, to try it")
    parser.add_argument("--day", action="store_true", help="a day in minutes, in hours and at once")
    parser.add_argument("--hours", type=int, default=24, help="of the day")
    parser.add_argument("--troubles", type=int, default=DAY_TROUBLES, help="of the day")
    parser.add_argument("--seed", type=int, default=SEED, help="of the day's troubles")
    said = parser.parse_args(arguments)
    if said.day:
        block = day(said.nodes or DAY_NODES, said.troubles, said.hours, said.seed)
    else:
        block = hour(said.nodes or NODES, said.minutes)
    if arguments:
        sys.stdout.write(block + "\n")
    else:
        write_block("detect", block)


if __name__ == "__main__":
    main(sys.argv[1:])
