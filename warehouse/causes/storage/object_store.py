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
    payer="provider",
    runbook=(
        "Find the failing code in the job's log: 403 is a credential, 429 and 503 ask for a back-off, other 5xx are the"
        " store's.",
        "Try one object from an affected node: `curl -sS -o /dev/null -w '%{http_code} %{time_total}\\n' URL`.",
        "Look at the store's own status page and at the quota of requests of this account.",
        "For throttling, have the owner lower the number of readers or spread keys over more prefixes.",
    ),
    other_sources=("job log", "job progress", "Alertmanager: the store's own alerts", "a person: import evidence"),
)
