"""Slow reads starve the job."""

from warehouse.model.cause import Cause
from warehouse.model.state import State

CAUSE = Cause(
    title="Slow reads starve the job",
    rank=52,
    state=State.STARVED,
    owner="storage",
    signature=(
        "The share of a step spent waiting for data is above its threshold while NFS time per operation "
        "is up and GPU activity is down."
    ),
    duration="minutes to days",
    blast="jobs",
    source="field experience, no figure; Google goodput (DATA_LOADING_SYNC); Lablup",
    first_step=("Compare read latency across clients: one slow client is its own fault, all slow is the server's."),
)
