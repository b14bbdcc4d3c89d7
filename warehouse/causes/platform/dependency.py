"""Registry, DNS, login or clock service failed."""

from warehouse.model.cause import Cause
from warehouse.model.state import State

CAUSE = Cause(
    title="Registry, DNS, login or clock service failed",
    rank=63,
    state=State.STARTUP,
    owner="platform",
    signature="Image pulls back off, names do not resolve, logins fail, or node_timex_sync_status is 0.",
    duration="minutes to hours",
    blast="fleet",
    source=(
        "Llama 3 (2 interruptions), Acme (147 connection errors) (Acme figure recalled, not checked at the source)"
    ),
    first_step="Find the one shared service that failing starts have in common and restore it.",
)
