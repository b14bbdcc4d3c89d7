"""Error in the job's script."""

from warehouse.model.cause import Cause
from warehouse.model.state import State

CAUSE = Cause(
    title="Error in the job's script",
    rank=71,
    state=State.STARTUP,
    owner="workload",
    signature="The job leaves within its first 5 min, without an Xid.",
    duration="1 to 15 min",
    blast="job",
    source="Acme (1,890 of 2,575 script faults) (Acme figure recalled, not checked at the source)",
    first_step="Send the last log lines to the owner; a short test queue catches these for less.",
    payer="tenant",
    runbook=(
        "Look at when it left: `sacct -j JOB -o Start,End,ExitCode` or `kubectl describe pod POD`.",
        "Read the last 50 lines of the job's log; a missing file, module or argument names itself.",
        "If many jobs of different owners fail alike, stop: suspect a change to an image, a module or a mount.",
        "Send the owner those lines, and point to the short test queue.",
    ),
    other_sources=("Slurm accounting: exit code and length", "Kubernetes events", "job log"),
)
