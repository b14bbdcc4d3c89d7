"""The files of the demo's past: written once, then imported as a user's files would be."""

from __future__ import annotations

import csv
import json
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from zoneinfo import ZoneInfo

from sqlalchemy import Engine

from warehouse import pipeline
from warehouse.demo.fleet import FLEET_COLUMNS, RATE_COLUMNS, SITE, fleet_rows, rate_rows
from warehouse.demo.history import history_window, make_history
from warehouse.demo.record import ALLOCATION_COLUMNS, EVIDENCE_COLUMNS
from warehouse.demo.scenario import make_scenario
from warehouse.evidence.fleet_csv import read_fleet
from warehouse.evidence.rates_csv import read_rates
from warehouse.evidence.sources import load_sources
from warehouse.model.evidence import Evidence
from warehouse.model.statement import Batch
from warehouse.model.time import Window, format_instant, parse_instant
from warehouse.store import evidence

SEED = 20_240_330
SCENARIO = "scenario.json"
_WINDOW = "window.json"
_UTC = ZoneInfo("UTC")


def write_files(folder: Path, now_ms: int) -> Window:
    """Writes fleet, rates, history and scenario, unless they are there; gives the window of the history.

    `window.json` is written last and whole: where it stands, the others are complete.
    """
    if (folder / _WINDOW).exists():
        known = json.loads((folder / _WINDOW).read_text(encoding="utf-8"))
        return Window(parse_instant(known["from"]), parse_instant(known["to"]))
    folder.mkdir(parents=True, exist_ok=True)
    window = history_window(now_ms)
    record = make_history(random.Random(SEED), window)
    _write_csv(folder / "fleet.csv", FLEET_COLUMNS, fleet_rows(window.start_ms))
    _write_csv(folder / "rates.csv", RATE_COLUMNS, rate_rows(window.start_ms))
    _write_csv(folder / "evidence.csv", EVIDENCE_COLUMNS, record.evidence)
    _write_csv(folder / "allocations.csv", ALLOCATION_COLUMNS, record.allocations)
    _write_json(folder / SCENARIO, make_scenario(random.Random(SEED), record.running))
    bounds = {"site": SITE, "from": format_instant(window.start_ms), "to": format_instant(window.end_ms)}
    _write_json(folder / f"{_WINDOW}.new", bounds)
    (folder / f"{_WINDOW}.new").rename(folder / _WINDOW)
    return window


def load_files(engine: Engine, folder: Path, act: Callable[[str, str], pipeline.Act]) -> pipeline.Done | None:
    """Loads fleet, rates and history through the pipeline; gives what the history did, None where it was there.

    Args:
        engine: the demo's ledger.
        folder: where the files are.
        act: gives the head of a revision from its kind and reason.
    """
    sources = load_sources()
    batches = [sources[name].read(str(folder / f"{name}.csv"), _UTC, {}) for name in ("evidence", "allocations")]
    statements = tuple(statement for batch in batches for statement in batch.statements)
    names = [(s.said.source, s.said.key) for s in statements if isinstance(s.said, Evidence)]
    with engine.connect() as connection:
        if evidence.heads(connection, names[:1]):
            return None  # all of it is there: it is stored in one transaction, and may have been corrected since
    pipeline.load_fleet(engine, read_fleet(str(folder / "fleet.csv")), act("fleet", "demo: simulated fleet"))
    pipeline.load_rates(engine, read_rates(str(folder / "rates.csv"), _UTC), act("rates", "demo: illustrative rates"))
    refused = tuple(line for batch in batches for line in batch.refused)
    batch = Batch(statements, sum(batch.rows for batch in batches), refused=refused)
    return pipeline.take_in(engine, batch, act("import", "demo: simulated history"))


def _write_csv(path: Path, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    with path.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows(rows)


def _write_json(path: Path, document: object) -> None:
    path.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
