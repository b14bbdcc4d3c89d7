"""Bad configuration change."""

from warehouse.model.cause import Cause
from warehouse.model.state import State

CAUSE = Cause(
    title="Bad configuration change",
    rank=60,
    state=State.LOST_WORK,
    owner="platform",
    signature=(
        "A commit, deploy or configuration event comes at most 15 min before several jobs fail, or "
        "before one error class shows on many nodes."
    ),
    duration="5 to 60 min",
    blast="fleet",
    source=(
        "field reports of outages of 5 to 10 min from a wrong file; Acme (568 missing files) (Acme "
        "figure recalled, not checked at the source)"
    ),
    first_step="Roll the newest change back first and ask questions afterwards.",
)
