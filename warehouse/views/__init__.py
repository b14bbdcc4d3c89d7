"""What people read: every figure comes from the ledger at a named revision. The only door for dashboard and reports.

The functions take an open read-only connection and a revision, and give plain dicts whose shape is the interface of
`--format json`.
"""

from __future__ import annotations

from warehouse.views.goodput import GROUPINGS, goodput
from warehouse.views.incidents import incident, incidents
from warehouse.views.ledger import BrokenLaw, EmptyLedger, Ledger
from warehouse.views.lists import fleet, rates, simulated, sites
from warehouse.views.losses import Bucket, CauseLoss, Part, bridge, calendar, cause_losses
from warehouse.views.node import node_day
from warehouse.views.question import Question, ask, reading_zone
from warehouse.views.tiles import CHARGED

__all__ = [
    "CHARGED",
    "GROUPINGS",
    "BrokenLaw",
    "Bucket",
    "CauseLoss",
    "EmptyLedger",
    "Ledger",
    "Part",
    "Question",
    "ask",
    "bridge",
    "calendar",
    "cause_losses",
    "fleet",
    "goodput",
    "incident",
    "incidents",
    "node_day",
    "rates",
    "reading_zone",
    "simulated",
    "sites",
]
