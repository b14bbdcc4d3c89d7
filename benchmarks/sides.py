"""The sides of the month's race, each run alone in a process of its own; each prints one JSON line."""

from __future__ import annotations

import json
import resource
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from benchmarks import month
from warehouse.ledger.sweep import cut, sweep
from warehouse.model.state import REPLACED_BY_LOST_WORK, STATE_RANK, State
from warehouse.model.time import MS_PER_MINUTE, day_cuts


def run_sweep(gpus: int, store: bool) -> dict[str, object]:
    """Sweeps the month, cuts it at midnights, and stores it under the exclusion constraint when asked."""
    claims = month.claims(gpus)
    base_mb = _peak_mb()
    cpu, wall = time.process_time(), time.perf_counter()
    entries = cut(sweep(claims, month.WINDOW), day_cuts(month.WINDOW))
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    totals: Counter[str] = Counter()
    for entry in entries:
        totals[entry.payload.state.value] += entry.gpu_ms // MS_PER_MINUTE
    result: dict[str, object] = {
        "claims": len(claims) - 1,
        "rows": len(entries),
        "cpu_s": cpu,
        "wall_s": wall,
        "peak_mb": _peak_mb(),
        "base_mb": base_mb,
        "totals": dict(totals),
    }
    if store:
        result["store_wall_s"] = _store(entries)
        result["peak_mb"] = _peak_mb()
    return result


def _store(entries: list[object]) -> float:
    """Loads the entries into an embedded server; the claims of this input name no evidence, so neither do the rows."""
    from warehouse.config import Config
    from warehouse.model.entry import Entry
    from warehouse.store import connect, migrate
    from warehouse.store import entries as store

    with tempfile.TemporaryDirectory(prefix="gm-bench-") as home:
        config = Config(Path(home), None, None)
        engine = connect.open_engine(config)
        migrate.upgrade(engine)
        with engine.begin() as connection:
            connection.exec_driver_sql("alter table ledger_entry drop constraint ck_ledger_entry_nothing_invented")
        wall = time.perf_counter()
        with engine.begin() as connection:
            store.change(connection, [], (entry for entry in entries if isinstance(entry, Entry)), 1)
        wall = time.perf_counter() - wall
        engine.dispose()
        connect.stop_embedded(config)
    return wall


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
    side, size = sys.argv[1], int(sys.argv[2])
    answer = run_minutes(size) if side == "minutes" else run_sweep(size, store=side == "store")
    sys.stdout.write(json.dumps(answer) + "\n")
