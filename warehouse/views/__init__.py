"""What people read: every figure comes from the ledger at a named revision. The only door for dashboard and reports.

The functions take an open read-only connection and a revision, and give plain dicts whose shape is the interface of
`--format json`.
"""

from __future__ import annotations

from warehouse.views.audit import audit, chain_at
from warehouse.views.corrected import corrections
from warehouse.views.goodput import GROUPINGS, goodput
from warehouse.views.incidents import incident, incidents
from warehouse.views.ledger import BrokenLaw, EmptyLedger, Ledger
from warehouse.views.lists import fleet, rates, simulated, sites
from warehouse.views.losses import Bucket, CauseLoss, Part, bridge, calendar, cause_losses
from warehouse.views.marginal import marginal
from warehouse.views.node import node_day
from warehouse.views.plans import maintenance
from warehouse.views.postings import POSTING_GROUPINGS, period_books, period_months
from warehouse.views.question import Question, ask, reading_zone
from warehouse.views.stays import STAY_COLUMNS, empty_slots, stays
from warehouse.views.tiles import CHARGED

__all__ = [
    "CHARGED",
    "GROUPINGS",
    "POSTING_GROUPINGS",
    "STAY_COLUMNS",
    "BrokenLaw",
    "Bucket",
    "CauseLoss",
    "EmptyLedger",
    "Ledger",
    "Part",
    "Question",
    "ask",
    "audit",
    "bridge",
    "calendar",
    "cause_losses",
    "chain_at",
    "corrections",
    "empty_slots",
    "fleet",
    "goodput",
    "incident",
    "incidents",
    "maintenance",
    "marginal",
    "node_day",
    "period_books",
    "period_months",
    "rates",
    "reading_zone",
    "simulated",
    "sites",
    "stays",
]
