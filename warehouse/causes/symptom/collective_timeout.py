"""Collective operation hangs."""

from warehouse.causes.jobs import dcgm_job, each, each_in_span, job, per_job
from warehouse.model.cause import Case, Cause, Detector, Threshold, Told
from warehouse.model.state import State


def _busy_but(utilisation: str, quiet: str) -> str:
    """Gives the condition per job from the utilisation of a GPU, and from 1 or 0 for whether it does no work."""
    return (
        f"{per_job('min', f'min by (uuid) ({utilisation})')} > $min_utilisation_ratio "
        f"and on (job_id) avg by (job_id) ({each(quiet)}) > $min_quiet_share"
    )


def _busy_at_idle_power(utilisation: str, power: str) -> str:
    limit = 'max by (uuid) (gpuminutes_gpu_power_limit_watts{kind="enforced"})'
    return _busy_but(utilisation, f"max by (uuid) ({power}) / on (uuid) {limit} < bool $max_power_ratio")


def _busy_without_work(utilisation: str, most: str) -> str:
    """Gives the condition from a function over families: no tensor work, no memory traffic, nothing over PCIe.

    What a GPU sends over NVLink it reads from its memory, so that the traffic of memory covers it.
    """
    limits = (
        ("gpuminutes_gpu_tensor_active_ratio", "$max_tensor_ratio"),
        ("gpuminutes_gpu_dram_active_ratio", "$max_memory_ratio"),
        ("gpuminutes_gpu_pcie_bytes_per_second", "$max_pcie_bytes_per_s"),
    )
    quiet = " * on (uuid) ".join(f"(max by (uuid) ({most % name}) < bool {limit})" for name, limit in limits)
    return _busy_but(utilisation, quiet)


def _some_gpu(quiet: str) -> str:
    """Gives jobs of which some GPU is busy and fulfils a condition at some time of the look."""
    busy = "max by (uuid) (max_over_time(gpuminutes_gpu_utilization_ratio[$span])) > $min_utilisation_ratio"
    return f"count by (job_id) ({each_in_span(f'{busy} and on (uuid) {quiet}')})"


_BUSY = Threshold(
    "min_utilisation_ratio",
    0.9,
    "ratio",
    "a kernel that waits in a collective keeps utilisation at 1.0; our judgement",
)
_SHARE = Threshold(
    "min_quiet_share",
    0.5,
    "of the job's GPUs",
    "the one that is stuck in a kernel of its own may draw full power; our judgement",
)


def _power(powers: tuple[str, ...], utilisation: str = "1x99") -> dict[str, str]:
    """Gives a job with one GPU per power."""
    return job(
        {
            "gpuminutes_gpu_utilization_ratio": (utilisation,),
            "gpuminutes_gpu_power_watts": powers,
            "gpuminutes_gpu_power_limit_watts{kind=enforced}": ("700x99",),
        }
    )


def _activity(tensor: str, memory: str, pcie: str = "5e9x39 2e6x39 5e9x19") -> dict[str, str]:
    """Gives a job whose GPUs are busy all the time."""
    return job(
        {
            "gpuminutes_gpu_utilization_ratio": ("1x99",),
            "gpuminutes_gpu_tensor_active_ratio": (tensor,),
            "gpuminutes_gpu_dram_active_ratio": (memory,),
            "gpuminutes_gpu_pcie_bytes_per_second{dir=tx}": (pcie,),
        }
    )


CAUSE = Cause(
    title="Collective operation hangs",
    rank=90,
    state=State.HUNG,
    owner="operations",
    signature=(
        "A watchdog or NCCL timeout in the log, or all GPUs of a job busy at near idle power, or without tensor work, "
        "memory and PCIe traffic, with no step completed; stands only until a cause is linked."
    ),
    duration="5 to 30 min",
    blast="job",
    source="Llama 3 (7 interruptions), Meta, Acme (Acme figure recalled, not checked at the source)",
    first_step="Find the rank that did not enter the collective; its node or GPU carries the cause.",
    payer="nobody",
    runbook=(
        "Find the odd rank: the GPU of the job whose power or gpuminutes_gpu_sm_active_ratio differs from all others.",
        "Dump where every rank stands: `py-spy dump --pid PID` on each node, or the flight recorder of the framework.",
        "On the odd rank's node, look for Xids, blocked threads and link faults: `dmesg -T | tail`,"
        " `gpuminutes_node_blocked_tasks`, `gpuminutes_gpu_nvlink_errors_total`, `ibstat`.",
        "If ranks wait for a save or for data, it is storage: look at gpuminutes_nfs_ops_total of that node.",
        "Drain the odd node, then end the job so that it restarts elsewhere: `scontrol requeue JOB`.",
        "Link the cause when it is known: `gpu-minutes incident attribute ID CAUSE`.",
    ),
    other_sources=("job log: watchdog and NCCL timeouts", "job progress: no step", "Slurm accounting"),
    detectors=(
        Detector(
            key="job_hang",
            version=1,
            expr=_busy_at_idle_power(
                utilisation="min_over_time(gpuminutes_gpu_utilization_ratio[$window])",
                power="max_over_time(gpuminutes_gpu_power_watts[$window])",
            ),
            coarse=_some_gpu(
                "max by (uuid) (min_over_time(gpuminutes_gpu_power_watts[$span])) / on (uuid)"
                ' max by (uuid) (max_over_time(gpuminutes_gpu_power_limit_watts{kind="enforced"}[$span]))'
                " < $max_power_ratio"
            ),
            # The windows above become true late by up to their own length, so the edges are dated without them.
            onset_expr=_busy_at_idle_power(
                utilisation="gpuminutes_gpu_utilization_ratio", power="gpuminutes_gpu_power_watts"
            ),
            # Not a multiple of common scrape intervals, so that servers with closed and with left-open range
            # selectors see the same samples.
            window_ms=125_000,
            # Four joined selectors over every GPU: an hour of 15-second steps in one query stays far from the
            # engine's limit on samples, a day of them was refused.
            max_steps=240,
            basis="inferred",
            severity="page",
            thresholds=(
                _BUSY,
                Threshold(
                    "max_power_ratio",
                    0.45,
                    "of the enforced limit",
                    "a waiting kernel draws a third or so of it, a computing one two thirds; our judgement",
                ),
                _SHARE,
            ),
            cases=(
                Case(
                    "all ranks wait for ten minutes",
                    _power(("620x39 160x39 620x19", "620x39 160x39 620x19")),
                    told=(Told("job:7", 600, 1200),),
                ),
                Case("a save of three minutes", _power(("620x39 160x11 620x39", "620x39 160x11 620x39"))),
                Case("a job that does nothing", _power(("90x99", "90x99"), utilisation="0x99")),
                Case("half of the ranks compute", _power(("620x39 160x39 620x19", "620x99"))),
                Case(
                    "dcgm-exporter alone",
                    dcgm_job(
                        {
                            "DCGM_FI_DEV_GPU_UTIL": ("100x99",),
                            "DCGM_FI_DEV_POWER_USAGE": ("620x39 160x39 620x19",),
                            "DCGM_FI_DEV_ENFORCED_POWER_LIMIT": ("700x99",),
                        }
                    ),
                    told=(Told("job:7", 600, 1200),),
                ),
            ),
            scope="job",
            state=State.HUNG,
            # The definition of hung asks for 5 min without progress.
            min_duration_ms=300_000,
            why="All GPUs of the job are busy while most draw near idle power: they wait for each other.",
        ),
        Detector(
            key="job_hang_no_work",
            version=1,
            expr=_busy_without_work(
                utilisation="min_over_time(gpuminutes_gpu_utilization_ratio[$window])",
                most="max_over_time(%s[$window])",
            ),
            coarse=_some_gpu(
                "max by (uuid) (min_over_time(gpuminutes_gpu_dram_active_ratio[$span])) < $max_memory_ratio"
            ),
            onset_expr=_busy_without_work(utilisation="gpuminutes_gpu_utilization_ratio", most="%s"),
            window_ms=125_000,
            max_steps=120,
            basis="inferred",
            severity="page",
            thresholds=(
                _BUSY,
                Threshold("max_tensor_ratio", 0.01, "ratio", "a waiting kernel has no use for them"),
                Threshold(
                    "max_memory_ratio", 0.02, "ratio", "it reads one flag over and over; any other work moves more"
                ),
                Threshold(
                    "max_pcie_bytes_per_s",
                    1e8,
                    "bytes/s",
                    "the input of a job is more; our judgement",
                ),
                _SHARE,
            ),
            cases=(
                Case(
                    "all ranks wait for ten minutes",
                    _activity("0.4x39 0x39 0.4x19", "0.5x39 0.004x39 0.5x19"),
                    told=(Told("job:7", 600, 1200),),
                ),
                Case(
                    "work without tensor pipes",
                    _activity("0x99", "0.5x99"),
                ),
                Case(
                    "a copy from the host",
                    _activity("0.4x39 0x39 0.4x19", "0.5x39 0.015x39 0.5x19", pcie="2e10x99"),
                ),
                Case(
                    "dcgm-exporter alone",
                    dcgm_job(
                        {
                            "DCGM_FI_DEV_GPU_UTIL": ("100x99",),
                            "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE": ("0.4x39 0x39 0.4x19",),
                            "DCGM_FI_PROF_DRAM_ACTIVE": ("0.5x39 0.004x39 0.5x19",),
                            "DCGM_FI_PROF_PCIE_TX_BYTES": ("5e9x39 2e6x39 5e9x19",),
                        }
                    ),
                    told=(Told("job:7", 600, 1200),),
                ),
            ),
            scope="job",
            state=State.HUNG,
            min_duration_ms=300_000,
            why="All GPUs of the job are busy, and most neither compute nor move data: they wait for each other.",
        ),
    ),
)
