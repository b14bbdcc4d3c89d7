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
)
