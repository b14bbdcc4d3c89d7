"""File system outage."""

from warehouse.model.cause import Cause
from warehouse.model.state import State

CAUSE = Cause(
    title="File system outage",
    rank=50,
    state=State.STARVED,
    owner="storage",
    signature=(
        "I/O stalls come near 1 s per second and NFS or Lustre operations stop on at least half of the "
        "clients; node_filesystem_device_error is set."
    ),
    duration="10 min to hours, with check and journal replay",
    blast="every client",
    source="field experience, no figure; Meta RSC (file system mounts)",
    first_step="Ask storage for the state of the servers and hold restarts until mounts answer again.",
)
