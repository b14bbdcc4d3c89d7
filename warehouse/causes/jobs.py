"""What detectors about jobs share: PromQL from GPUs to the jobs on them, and examples of jobs."""

from __future__ import annotations

from collections.abc import Mapping

from warehouse.causes.examples import ADDRESSES, dcgm, gpu, series

# Workload labels sit on this family alone. Taken as the many side, so that two jobs that share one GPU by time slicing
# cannot break the match for the whole fleet.
_JOBS = 'max by (uuid, job_id) (gpuminutes_gpu_workload_info{job_id!=""})'
_JOBS_IN_SPAN = 'max by (uuid, job_id) (present_over_time(gpuminutes_gpu_workload_info{job_id!=""}[$span]))'

POWER_OF_LIMIT = (
    "max by (uuid) (gpuminutes_gpu_power_watts) / on (uuid)"
    ' max by (uuid) (gpuminutes_gpu_power_limit_watts{kind="enforced"})'
)
# GPUs that somebody holds, by any exporter that names the holder.
HELD = "max by (node, slot, uuid) (gpuminutes_gpu_workload_info)"
# A held GPU that does not compute: it rests, or waits in a kernel.
HELD_QUIET = f"{HELD} == 1 and on (uuid) {POWER_OF_LIMIT} < $max_power_ratio"


def each(expr: str) -> str:
    """Gives an expression of one value a GPU as one value a GPU and job."""
    return f"{_JOBS} * on (uuid) group_left () ({expr})"


def each_in_span(expr: str) -> str:
    """Gives the same of GPUs and the jobs that held them at any time of the look."""
    return f"{_JOBS_IN_SPAN} * on (uuid) group_left () ({expr})"


def per_job(aggregation: str, expr: str) -> str:
    """Gives an expression of one value a GPU as one value a job, by an aggregation of PromQL."""
    return f"{aggregation} by (job_id) ({each(expr)})"


# Matching GPUs with jobs costs four times as much as matching nodes with jobs, for 10,000 GPUs as for ten; so what is
# asked of every rank at every step goes by node. A node that several jobs share belongs to none of them here.
_ON = 'max by (node, job_id) (gpuminutes_gpu_workload_info{job_id!=""})'
_ALONE_ON = f"({_ON} unless on (node) count by (node) ({_ON}) > 1)"
_ON_IN_SPAN = 'max by (node, job_id) (present_over_time(gpuminutes_gpu_workload_info{job_id!=""}[$span]))'


def lowest(expr: str, on: str = _ALONE_ON) -> str:
    """Gives the least of one value a GPU per job that has its nodes to itself."""
    return f"min by (job_id) ({on} * on (node) group_left () min by (node) ({expr}))"


def highest(expr: str, on: str = _ALONE_ON) -> str:
    """Gives the most of one value a GPU per job that has its nodes to itself."""
    return f"max by (job_id) ({on} * on (node) group_left () max by (node) ({expr}))"


def middle(expr: str, on: str = _ALONE_ON) -> str:
    """Gives the middle node's middle GPU per job that has its nodes to itself."""
    return f"quantile by (job_id) (0.5, {on} * on (node) group_left () quantile by (node) (0.5, {expr}))"


def low_in_span(family: str) -> str:
    """Gives the least per job over the look, at or below what `lowest` gives at any time of it."""
    return lowest(f"min_over_time({family}[$span])", _ON_IN_SPAN)


def middle_in_span(family: str, of: str) -> str:
    """Gives the middle per job of the least ("min") or the most ("max") over the look."""
    return middle(f"{of}_over_time({family}[$span])", _ON_IN_SPAN)


def high_in_span(family: str) -> str:
    """Gives the most per job over the look."""
    return highest(f"max_over_time({family}[$span])", _ON_IN_SPAN)


def nodes_of(jobs: str) -> str:
    """Gives the nodes of jobs, so that a detector asks of these alone."""
    return f"{_ON_IN_SPAN} and on (job_id) ({jobs})"


def job(families: Mapping[str, tuple[str, ...]], nodes: tuple[str, ...] = ("n1",)) -> dict[str, str]:
    """Gives the series of one Slurm job over all GPUs of its nodes: per family the values of each GPU, in order.

    A family may carry labels of its own; fewer values than GPUs: the last holds for the rest.
    """
    found = {}
    gpus = [(node, index) for node in nodes for index in range(len(ADDRESSES))]
    for number, (node, index) in enumerate(gpus):
        labels = gpu(index, node)
        longest = 0
        for family, values in families.items():
            name, _, inside = family.partition("{")
            own = dict(part.split("=") for part in inside.rstrip("}").split(",") if part)
            found[series(name, labels, **own)] = said = values[min(number, len(values) - 1)]
            longest = max(longest, _steps(said))
        found[series("gpuminutes_gpu_workload_info", labels, job_id="7", kind="slurm")] = f"1x{longest - 1}"
    return found


def dcgm_job(families: Mapping[str, tuple[str, ...]], nodes: tuple[str, ...] = ("n1",)) -> dict[str, str]:
    """Gives the same as dcgm-exporter writes it, with the number of the Slurm job on every series."""
    gpus = [(node, index) for node in nodes for index in range(len(ADDRESSES))]
    return {
        series(name, dcgm(index, node), hpc_job="7"): values[min(number, len(values) - 1)]
        for name, values in families.items()
        for number, (node, index) in enumerate(gpus)
    }


def _steps(values: str) -> int:
    return sum(int(word.rpartition("x")[2]) + (not word.startswith("_")) for word in values.split())
