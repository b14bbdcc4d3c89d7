"""Framework bug."""

from warehouse.model.cause import Cause
from warehouse.model.state import State

CAUSE = Cause(
    title="Framework bug",
    rank=71,
    state=State.LOST_WORK,
    owner="workload",
    signature="All ranks leave with an error and nothing in the infrastructure speaks against it.",
    duration="minutes",
    blast="job",
    source="Llama 3 (54 interruptions)",
    first_step="Collect the first rank's stack trace and hand it to the owners of the framework.",
    payer="tenant",
    runbook=(
        "Check that nothing else stands against the time: `gpu-minutes incidents` around the exit, Xids, drains.",
        "Find the rank that left first: `sacct -j JOB -o JobID,ExitCode,End,NodeList` or `kubectl get pods -o wide`.",
        "Take that rank's stack trace, and the versions of framework, CUDA and NCCL from its log.",
        "Search the framework's issues for the last line of the trace, then hand all of it to its owners.",
        "Restart from the last durable checkpoint; pin the version before, if the fault came with a change.",
    ),
    other_sources=("Slurm accounting: exit code", "Kubernetes events", "job log", "changes.csv", "job progress"),
)
