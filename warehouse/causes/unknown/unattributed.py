"""No cause found."""

from warehouse.model.cause import Cause

CAUSE = Cause(
    title="No cause found",
    rank=99,
    state=None,
    owner="operations",
    signature="Time was lost and no evidence says why.",
    duration="any",
    blast="any",
    source="InfiniteHBD trace (24.7 % unknown), Meta RSC (NODE_FAIL without a failed check)",
    first_step=("Look through the evidence around the onset; if there is none, leave it: unknown is an honest answer."),
    payer="nobody",
    runbook=(
        "List what else stands near the onset: `gpu-minutes incident show ID`, and the neighbours in rack and job.",
        "Read the kernel's log and the BMC's event log of one node: `journalctl -k --since ...`, `ipmitool sel elist`.",
        "Ask who changed something in the 15 minutes before.",
        "If something is found, charge it: `gpu-minutes incident attribute ID CAUSE`; if not, leave it as it is.",
    ),
    other_sources=("a person: import evidence, or a ruling on the incident",),
)
