"""What a file says before the fleet has placed it: evidence, allocations and plans with their scope still in words."""

from __future__ import annotations

from dataclasses import dataclass

from warehouse.model.evidence import Allocation, Evidence
from warehouse.model.fleet import NodeSpec
from warehouse.model.plan import Plan


@dataclass(frozen=True, slots=True)
class Statement:
    """One row: `said` has no slots yet; `where` names file and line for whoever must mend it."""

    where: str
    said: Evidence | Allocation | Plan


@dataclass(frozen=True, slots=True)
class Batch:
    """What one import brings: nodes first (for sources that carry their fleet), then statements about them.

    `rows` counts what was read; `notes` are lines for the closing summary; `refused` are the rows that could not be
    read, each as a line that names file, line, column and reason.
    """

    statements: tuple[Statement, ...]
    rows: int
    nodes: tuple[NodeSpec, ...] = ()
    notes: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()
