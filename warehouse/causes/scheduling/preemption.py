"""Preempted by other work."""

from warehouse.model.cause import Cause
from warehouse.model.state import State

CAUSE = Cause(
    title="Preempted by other work",
    rank=66,
    state=State.LOST_WORK,
    owner="scheduling",
    signature=("Slurm reports PREEMPTED or a pod is evicted; the cause of the work that pushed it out is linked."),
    duration="minutes",
    blast="the job that had to leave",
    source="Meta RSC (16 % of goodput lost to failures)",
    first_step="Follow the link to the job that pushed this one out: its cause is the one to fix.",
    payer="provider",
    runbook=(
        "Find the job that pushed this one out: `sacct -j JOB --duplicates -o State,End` and the scheduler's log then.",
        "Ask why that job started just then: a requeue after a fault is the cause to charge.",
        "See that the victim is queued again and its checkpoint is whole: `squeue -j JOB`.",
        "If one job is requeued again and again, hold it: `scontrol requeuehold JOB`.",
    ),
    other_sources=("Slurm accounting: PREEMPTED", "Kubernetes events: Preempted", "job progress"),
)
