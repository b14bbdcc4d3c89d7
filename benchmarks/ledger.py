"""`python -m benchmarks.ledger`: the month's race, every side in a process of its own."""

from __future__ import annotations

import json
import platform
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks import month
from benchmarks.page import table, write_block

GPUS = 10_000
GROWTH = (1_000, 10_000, 100_000)
HERE = Path(__file__).parent


def main() -> None:
    """Measures, compares the answers, and writes the page; different answers end with exit 1 and no page."""
    with tempfile.TemporaryDirectory(prefix="gm-bench-") as folder:
        python = _install_polars(Path(folder))
        sides = {
            "sweep": _run("sweep", GPUS),
            "DuckDB": _run("minutes", GPUS),
            "Polars": _run("polars", GPUS, str(python)),
        }
    for name, side in sides.items():
        if side["totals"] != sides["sweep"]["totals"]:
            sys.exit(f"the sides disagree: sweep {sides['sweep']['totals']}, {name} {side['totals']}")
    grown = [(gpus, _run("sweep", gpus), _run("ledger", gpus)) for gpus in GROWTH]
    write_block("month", _race(sides) + "\n\n" + _growth(grown))


def _run(side: str, gpus: int, *more: str) -> dict[str, Any]:
    sys.stderr.write(f"{side}, {gpus} GPUs ...\n")
    command = [sys.executable, "-m", "benchmarks.sides", side, str(gpus), *more]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    answer: dict[str, Any] = json.loads(result.stdout)
    return answer


def _install_polars(folder: Path) -> Path:
    """Makes an environment with Polars, by hash; gives its Python."""
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    python = folder / "bin" / "python"
    command = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--require-hashes"]
    if subprocess.run([*command, "-r", str(HERE / "requirements-polars.txt")], check=False).returncode != 0:
        sys.exit("benchmarks.ledger: Polars cannot be installed; the page stays as it is")
    return python


def _race(sides: dict[str, dict[str, Any]]) -> str:
    sweep, duckdb, polars = sides["sweep"], sides["DuckDB"], sides["Polars"]
    all_three = (sweep, duckdb, polars)
    rows = [
        ("rows made", f"{sweep['rows']:,} entries", *(f"{s['rows']:,} GPU-minutes" for s in (duckdb, polars))),
        ("CPU", f"{sweep['cpu_s']:.2f} s", *(f"{s['cpu_s']:.1f} s" for s in (duckdb, polars))),
        ("wall", f"{sweep['wall_s']:.2f} s", *(f"{s['wall_s']:.1f} s" for s in (duckdb, polars))),
        ("peak memory", *(f"{s['peak_mb']:.0f} MB" for s in all_three)),
        ("of it before the work", *(f"{s['base_mb']:.0f} MB" for s in all_three)),
    ]
    return "\n".join(
        [
            table(("", "claim sweep", "per minute, DuckDB", f"per minute, Polars {polars['version']}"), rows),
            "",
            f"- **CPU ratio: {duckdb['cpu_s'] / sweep['cpu_s']:.0f}x less than DuckDB's, "
            f"{polars['cpu_s'] / sweep['cpu_s']:.0f}x less than Polars's**; all three give the same GPU-minutes in "
            "every state.",
        ]
    )


def _growth(grown: list[tuple[int, dict[str, Any], dict[str, Any]]]) -> str:
    rows = [
        (
            f"{gpus:,} GPUs",
            f"{sweep['rows']:,}",
            f"{sweep['cpu_s']:.2f} s",
            f"{ledger['first_wall_s']:.1f} s",
            f"{ledger['again_wall_s']:.1f} s",
            f"{ledger['again_cpu_s']:.1f} s",
            f"{ledger['peak_mb']:.0f} MB",
        )
        for gpus, sweep, ledger in grown
    ]
    head = (
        "25,000 claims, one month",
        "entries",
        "sweep, CPU",
        "booked first, wall",
        "derived again, wall",
        "of it our CPU",
        "peak of our process",
    )
    return "\n".join(
        [
            "From stored evidence to stored entries, end to end, on an embedded PostgreSQL:",
            "",
            table(head, rows),
            "",
            "- Booked first: evidence is grouped into incidents, swept, written under the constraint, chained. Derived "
            "again: read, swept, compared with what stands; nothing differs, so nothing is written.",
            f"- {platform.python_implementation()} {platform.python_version()}, {platform.machine()}, two shared "
            f"cores; seed {month.SEED}, one run a side.",
        ]
    )


if __name__ == "__main__":
    main()
