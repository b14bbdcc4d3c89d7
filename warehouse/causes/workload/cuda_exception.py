"""CUDA exception in the job."""

from warehouse.model.cause import Cause
from warehouse.model.state import State

CAUSE = Cause(
    title="CUDA exception in the job",
    rank=70,
    state=State.LOST_WORK,
    owner="workload",
    signature="Xid 13, 31, 43 or 69 alone on one GPU, and the job leaves with an error.",
    duration="minutes",
    blast="job",
    source="NVIDIA Xid catalogue, ByteRobust (36 % CUDA errors)",
    first_step=("Send the stack to the job's owner; if the same GPU repeats it under other jobs, suspect the GPU."),
)
