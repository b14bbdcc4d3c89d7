"""Object store errors."""

from warehouse.model.cause import Cause
from warehouse.model.state import State

CAUSE = Cause(
    title="Object store errors",
    rank=53,
    state=State.STARVED,
    owner="storage",
    signature="The application's own counters of failed object store requests rise.",
    duration="minutes to hours",
    blast="jobs",
    source="Acme (10 faults) (Acme figure recalled, not checked at the source)",
    first_step="Read the error codes: throttling asks for a back-off, 5xx for the store's operators.",
)
