"""Expands claims to one row per GPU and minute in Polars, a day at a time; run by a Python that has Polars.

Reads JSON from standard input: claims as [slot from, to, minute from, to, rank], `days`, `lost` (the rank of lost work)
and `replaced` (the ranks that it may replace); writes counts by rank, CPU, wall and memory as JSON. Standard library
and Polars alone, since it does not run in our environment.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from collections import Counter

import polars as pl

DAY = 1_440


def main() -> None:
    """Counts the best rank of each GPU-minute, with the one rule that stands outside the rank."""
    given = json.load(sys.stdin)
    columns = ["slot_from", "slot_to", "minute_from", "minute_to", "rank"]
    claims = pl.DataFrame(given["claims"], schema=dict.fromkeys(columns, pl.Int32), orient="row")
    base_mb = _peak_mb()
    cpu, wall = time.process_time(), time.perf_counter()
    totals: Counter[int] = Counter()
    for day in range(given["days"]):
        totals.update(_day(claims, day * DAY, given["lost"], given["replaced"]))
    answer = {
        "totals": {str(rank): count for rank, count in totals.items()},
        "rows": totals.total(),
        "cpu_s": time.process_time() - cpu,
        "wall_s": time.perf_counter() - wall,
        "peak_mb": _peak_mb(),
        "base_mb": base_mb,
        "version": pl.__version__,
    }
    sys.stdout.write(json.dumps(answer) + "\n")


def _day(claims: pl.DataFrame, low: int, lost: int, replaced: list[int]) -> dict[int, int]:
    rank = pl.col("rank")
    cells = (
        claims.lazy()
        .filter((pl.col("minute_from") < low + DAY) & (pl.col("minute_to") > low))
        .select(
            pl.int_ranges("slot_from", "slot_to", dtype=pl.Int32).alias("slot"),
            pl.int_ranges(
                pl.max_horizontal("minute_from", pl.lit(low, pl.Int32)),
                pl.min_horizontal("minute_to", pl.lit(low + DAY, pl.Int32)),
                dtype=pl.Int32,
            ).alias("minute"),
            rank,
        )
        .explode("slot")
        .explode("minute")
        .group_by("slot", "minute")
        .agg(rank.filter(rank != lost).min().alias("best"), (rank == lost).any().alias("hit"))
        .select(
            pl.when(pl.col("hit") & pl.col("best").is_in(replaced)).then(lost).otherwise(pl.col("best")).alias("rank")
        )
        .group_by("rank")
        .len()
        .collect(engine="streaming")
    )
    return dict(cells.iter_rows())


def _peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


if __name__ == "__main__":
    main()
