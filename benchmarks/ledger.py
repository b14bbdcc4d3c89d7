"""`python -m benchmarks.ledger`: the month's race, every side in a process of its own."""

from __future__ import annotations

import json
import platform
import subprocess
import sys
from typing import Any

from benchmarks import month
from benchmarks.page import table, write_block

GPUS = 10_000


def main() -> None:
    """Measures, compares the answers, and writes the page; different answers end with exit 1 and no page."""
    minutes = _run("minutes", GPUS)
    sweep = _run("sweep", GPUS)
    stored = _run("store", GPUS)
    wide = _run("sweep", 10 * GPUS)
    if sweep["totals"] != minutes["totals"]:
        sys.exit(f"the two sides disagree: {sweep['totals']} and {minutes['totals']}")
    write_block("month", _block(sweep, minutes, stored, wide))


def _run(side: str, gpus: int) -> dict[str, Any]:
    sys.stderr.write(f"{side}, {gpus} GPUs ...\n")
    command = [sys.executable, "-m", "benchmarks.sides", side, str(gpus)]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    answer: dict[str, Any] = json.loads(result.stdout)
    return answer


def _block(sweep: dict[str, Any], minutes: dict[str, Any], stored: dict[str, Any], wide: dict[str, Any]) -> str:
    ratio = minutes["cpu_s"] / sweep["cpu_s"]
    growth = wide["cpu_s"] / sweep["cpu_s"]
    rows = [
        ("claims in", f"{sweep['claims']:,}", f"{sweep['claims']:,}"),
        ("rows made", f"{sweep['rows']:,} entries", f"{minutes['rows']:,} GPU-minutes"),
        ("CPU", f"{sweep['cpu_s']:.2f} s", f"{minutes['cpu_s']:.1f} s"),
        ("wall", f"{sweep['wall_s']:.2f} s", f"{minutes['wall_s']:.1f} s"),
        ("peak memory", f"{sweep['peak_mb']:.0f} MB", f"{minutes['peak_mb']:.0f} MB"),
        ("of it before the work", f"{sweep['base_mb']:.0f} MB", f"{minutes['base_mb']:.0f} MB"),
    ]
    lines = [
        table(("", "claim sweep", "per-minute expansion, DuckDB"), rows),
        "",
        f"- **CPU ratio: {ratio:.0f}x** less for the sweep; both give the same GPU-minutes in every state.",
        f"- Ten times the GPUs under the same claims: {growth:.2f}x the CPU ({wide['rows']:,} entries).",
        f"- Storing the {stored['rows']:,} entries by binary COPY under the exclusion constraint, embedded PostgreSQL: "
        f"{stored['store_wall_s']:.1f} s, {stored['rows'] / stored['store_wall_s']:,.0f} rows/s; "
        f"peak {stored['peak_mb']:.0f} MB for sweep and store together.",
        f"- {platform.python_implementation()} {platform.python_version()}, {platform.machine()}, two shared cores; "
        f"seed {month.SEED}, one run a side.",
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
