"""GPU memory exhausted by the job."""

from warehouse.model.cause import Cause
from warehouse.model.state import State

CAUSE = Cause(
    title="GPU memory exhausted by the job",
    rank=71,
    state=State.LOST_WORK,
    owner="workload",
    signature=(
        "The job's log says out of memory, used GPU memory was at its maximum before the exit, and there is no Xid."
    ),
    duration="minutes",
    blast="job",
    source="Acme (14 faults) (Acme figure recalled, not checked at the source)",
    first_step="Tell the owner; a smaller batch or activation checkpointing gets the job going again.",
    payer="tenant",
    runbook=(
        "Confirm it in the job's log: `grep -i 'out of memory' LOG`; a kill by the host's kernel is another cause.",
        'See how full the board was before the exit: `gpuminutes_gpu_memory_bytes{state="used"}` against `total`.',
        "Look for a neighbour: more than one process in `gpuminutes_gpu_processes`, or a workload by time slicing.",
        "Tell the owner the peak; a smaller batch, activation checkpointing or sharding brings it down.",
    ),
    other_sources=("job log", "Slurm accounting: exit code", "Kubernetes events"),
)
