"""The sides of the month's race, each run alone in a process of its own; each prints one JSON line."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from benchmarks import month
from warehouse.ledger.sweep import cut, sweep
from warehouse.model.state import REPLACED_BY_LOST_WORK, STATE_RANK, State
from warehouse.model.time import MS_PER_MINUTE, day_cuts


def run_sweep(gpus: int) -> dict[str, object]:
    """Sweeps the month and cuts it at midnights, in memory."""
    claims = month.claims(gpus)
    base_mb = _peak_mb()
    cpu, wall = time.process_time(), time.perf_counter()
    entries = cut(sweep(claims, month.WINDOW), day_cuts(month.WINDOW))
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    totals: Counter[str] = Counter()
    for entry in entries:
        totals[entry.payload.state.value] += entry.gpu_ms // MS_PER_MINUTE
    return {
        "claims": len(claims) - 1,
        "rows": len(entries),
        "cpu_s": cpu,
        "wall_s": wall,
        "peak_mb": _peak_mb(),
        "base_mb": base_mb,
        "totals": dict(totals),
    }


def run_ledger(gpus: int) -> dict[str, object]:
    """From 25,000 stored pieces of evidence to stored entries and a revision: what `gpu-minutes book` does.

    The server is another process; its memory is its own and bounded by its settings.
    """
    from warehouse import pipeline
    from warehouse.config import Config
    from warehouse.model.evidence import Evidence
    from warehouse.model.fleet import NodeSpec
    from warehouse.model.statement import Batch, Statement
    from warehouse.pipeline import Act
    from warehouse.store import connect, migrate

    now_ms = month.WINDOW.end_ms
    nodes = [
        NodeSpec("s", "h", f"r{n // 8:04}", f"n{n:05}", 8, "H100", month.START_MS, now_ms) for n in range(gpus // 8)
    ]
    said = [
        Statement("bench", Evidence("bench", c.key, c.start_ms, c.end_ms, "bench", c.slots, c.state))
        for c in month.claims(gpus)
        if not c.floor
    ]
    with tempfile.TemporaryDirectory(prefix="gm-bench-") as home:
        config = Config(Path(home), None, None)
        engine = connect.open_engine(config)
        migrate.upgrade(engine)
        act = Act("import", "bench", "benchmark", now_ms)
        pipeline.load_fleet(engine, nodes, act)
        pipeline.take_in(engine, Batch(tuple(said), len(said)), act, book=False)
        base_mb = _peak_mb()
        del said, nodes
        result: dict[str, object] = {"base_mb": base_mb}
        for name in ("first", "again"):
            cpu, wall = time.process_time(), time.perf_counter()
            done = pipeline.book(engine, Act("derive", "bench", "benchmark", now_ms), until_ms=now_ms)
            result[f"{name}_cpu_s"] = time.process_time() - cpu
            result[f"{name}_wall_s"] = time.perf_counter() - wall
            result[f"{name}_rows"] = done.opened
        result["peak_mb"] = _peak_mb()
        engine.dispose()
        connect.stop_embedded(config)
    return result


def run_polars(gpus: int, python: str) -> dict[str, object]:
    """Gives the claims to `polars_minutes.py` under a Python that has Polars."""
    claims = [
        (
            c.slots[0][0],
            c.slots[0][1],
            (c.start_ms - month.START_MS) // MS_PER_MINUTE,
            (c.end_ms - month.START_MS) // MS_PER_MINUTE,
            STATE_RANK[c.state],
        )
        for c in month.claims(gpus)
    ]
    given = {
        "claims": claims,
        "days": month.DAYS,
        "lost": _RANK_LOST,
        "replaced": [STATE_RANK[state] for state in REPLACED_BY_LOST_WORK],
    }
    command = [python, str(Path(__file__).parent / "polars_minutes.py")]
    done = subprocess.run(command, input=json.dumps(given), capture_output=True, text=True, check=True)
    answer: dict[str, object] = json.loads(done.stdout)
    names = {str(rank): state.value for state, rank in STATE_RANK.items()}
    totals = answer["totals"]
    assert isinstance(totals, dict)
    return answer | {"totals": {names[rank]: count for rank, count in totals.items()}}


def run_minutes(gpus: int) -> dict[str, object]:
    """Expands claims to one row per GPU and minute in DuckDB, a day at a time, and keeps the best rank of each."""
    import duckdb

    claims = month.claims(gpus)
    base_mb = _peak_mb()
    cpu, wall = time.process_time(), time.perf_counter()
    database = duckdb.connect()
    database.execute("set threads = 2")
    database.execute("create table claim (slot_from int, slot_to int, minute_from int, minute_to int, rank int)")
    rows = [
        (
            claim.slots[0][0],
            claim.slots[0][1],
            (claim.start_ms - month.START_MS) // MS_PER_MINUTE,
            (claim.end_ms - month.START_MS) // MS_PER_MINUTE,
            STATE_RANK[claim.state],
        )
        for claim in claims
    ]
    import pandas

    frame = pandas.DataFrame(rows, columns=["slot_from", "slot_to", "minute_from", "minute_to", "rank"])
    database.register("frame", frame)
    database.execute("insert into claim select * from frame")
    totals: Counter[int] = Counter()
    cells = 0
    for day in range(month.DAYS):
        low, high = day * 1_440, (day + 1) * 1_440
        for rank, count in database.execute(_DAY, {"low": low, "high": high, "lost": _RANK_LOST}).fetchall():
            totals[rank] += count
            cells += count
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    names = {rank: state.value for state, rank in STATE_RANK.items()}
    return {
        "rows": cells,
        "cpu_s": cpu,
        "wall_s": wall,
        "peak_mb": _peak_mb(),
        "base_mb": base_mb,
        "totals": {names[rank]: count for rank, count in totals.items()},
    }


_RANK_LOST = STATE_RANK[State.LOST_WORK]
_REPLACED = ", ".join(str(STATE_RANK[state]) for state in sorted(REPLACED_BY_LOST_WORK))
_DAY = f"""
with cell as (
  select s.slot, m.minute, min(rank) filter (where rank <> $lost) as best, bool_or(rank = $lost) as lost
  from claim,
    lateral (select unnest(range(slot_from, slot_to)) as slot) s,
    lateral (select unnest(range(greatest(minute_from, $low), least(minute_to, $high))) as minute) m
  where minute_from < $high and minute_to > $low group by s.slot, m.minute)
select case when lost and best in ({_REPLACED}) then $lost else best end as rank, count(*) from cell group by 1
"""


def _peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


if __name__ == "__main__":
    side, size, *more = sys.argv[1:]
    sides = {"sweep": run_sweep, "minutes": run_minutes, "ledger": run_ledger, "polars": run_polars}
    sys.stdout.write(json.dumps(sides[side](int(size), *more)) + "\n")
