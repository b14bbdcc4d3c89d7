"""Slow reads starve the job."""

from warehouse.causes.examples import series
from warehouse.causes.jobs import HELD, dcgm_job, job, per_job
from warehouse.model.cause import Case, Cause, Detector, Threshold, Told
from warehouse.model.state import State

_STALLED = 'gpuminutes_job_pressure_stall_seconds_total{resource="io",kind="full"}'
# Nodes whose NFS calls spend more time on writing: a save, not a read.
_WRITES = (
    'sum by (node) (rate(gpuminutes_nfs_op_seconds_total{op=~"WRITE|COMMIT"}[$window])) >'
    ' sum by (node) (rate(gpuminutes_nfs_op_seconds_total{op="READ"}[$window]))'
)
_SHARE = f"avg by (job_id) (rate({_STALLED}[$window]) unless on (node) ({_WRITES}))"
_BUSY = per_job("avg", "max by (uuid) (avg_over_time(gpuminutes_gpu_utilization_ratio[$window]))")

_MIN_SHARE = Threshold("min_stall_share", 0.3, "of the time", "a loader that is ahead leaves it near 0; our judgement")
_MAX_BUSY = Threshold(
    "max_utilisation_ratio", 0.8, "ratio", "what waits for data for a third of the time cannot be busier; our judgement"
)


def _reads(stalled: str, busy: str, read: str = "0+30x119", write: str = "0x119") -> dict[str, str]:
    """Gives a job on one node, how long its tasks stalled, and the node's NFS time."""
    nfs = {
        series("gpuminutes_nfs_op_seconds_total", node="n1", mount="/data", op=op): values
        for op, values in (("READ", read), ("WRITE", write))
    }
    waits = {"node": "n1", "job_id": "7", "resource": "io", "kind": "full"}
    stall = {series("gpuminutes_job_pressure_stall_seconds_total", waits): stalled}
    return nfs | stall | job({"gpuminutes_gpu_utilization_ratio": (busy,)})


def _node(stalled: str, busy: str) -> dict[str, str]:
    """Gives the same of a node of which only node_exporter and dcgm-exporter speak."""
    return {series("node_pressure_io_stalled_seconds_total", node="n1"): stalled} | dcgm_job(
        {"DCGM_FI_DEV_GPU_UTIL": (busy,)}
    )


CAUSE = Cause(
    title="Slow reads starve the job",
    rank=52,
    state=State.STARVED,
    owner="storage",
    signature=(
        "All tasks of a job stall on I/O for over 30 % of the time (gpuminutes_job_pressure_stall_seconds_total); "
        "its nodes spend more time in reads than in writes, and its GPUs are less busy than that leaves room for."
    ),
    duration="minutes to days",
    blast="jobs",
    source="field experience, no figure; Google goodput (DATA_LOADING_SYNC); Lablup",
    first_step=("Compare read latency across clients: one slow client is its own fault, all slow is the server's."),
    payer="provider",
    runbook=(
        'Compare time per read by client: `rate(gpuminutes_nfs_op_seconds_total{op="READ"}[5m]) /'
        ' rate(gpuminutes_nfs_ops_total{op="READ"}[5m])`.',
        "If one client stands out, test its path: `nfsiostat 5 /data`, `ethtool -S IFACE | grep -iE 'drop|err'`.",
        "If all do, ask storage for the load of the servers and who reads most.",
        "If none does, look at the local disk: `rate(gpuminutes_disk_io_busy_seconds_total[5m])` near 1.",
        "If the disks are at rest too, tell the owner that the loader is too small: more workers, larger shards.",
    ),
    other_sources=("job progress: time that a step waits for data", "a person: import evidence"),
    detectors=(
        Detector(
            key="job_starved_by_reads",
            version=1,
            expr=f"{_SHARE} > $min_stall_share and on (job_id) {_BUSY} < $max_utilisation_ratio",
            # 125 s of the share above are at least 30 s for the least share that makes sense to set.
            coarse=f"max by (job_id) (increase({_STALLED}[$span])) > 60 * $min_stall_share",
            scope="job",
            state=State.STARVED,
            min_duration_ms=300_000,
            window_ms=125_000,
            window_of="mean",
            stitch_ms=120_000,
            basis="inferred",
            max_steps=240,
            lost_expr=f"clamp({_SHARE}, 0, 1)",
            thresholds=(_MIN_SHARE, _MAX_BUSY),
            cases=(
                Case(
                    "half of the time goes to waiting for data",
                    _reads("0x39 0+7.5x39 292.5x39", "1x39 0.5x39 1x39"),
                    told=(Told("job:7", 600, 1200),),
                ),
                Case(
                    "a save that takes as long",
                    _reads("0x39 0+7.5x39 292.5x39", "1x39 0.5x39 1x39", read="0x119", write="0+30x119"),
                ),
                Case("it stalls and stays busy: the loader is ahead", _reads("0x39 0+7.5x39 292.5x39", "1x119")),
                Case("a job that rests without any stall", _reads("0x119", "1x39 0.5x39 1x39")),
            ),
            why="All tasks of the job wait for I/O for much of the time, mostly in reads, and its GPUs are not busy.",
        ),
        Detector(
            key="node_starved_by_reads",
            version=1,
            # The node's own figure, where no job's is told: half of the time, since what else runs there counts in.
            expr=(
                f"{HELD} == 1 and on (uuid) max by (uuid) (avg_over_time(gpuminutes_gpu_utilization_ratio[$window]))"
                " < $max_utilisation_ratio and on (node)"
                " rate(node_pressure_io_stalled_seconds_total[$window]) > $min_stall_share"
            ),
            coarse=("max by (node) (increase(node_pressure_io_stalled_seconds_total[$span])) > 60 * $min_stall_share"),
            scope="gpu",
            state=State.STARVED,
            min_duration_ms=300_000,
            window_ms=125_000,
            window_of="mean",
            stitch_ms=120_000,
            basis="inferred",
            max_steps=240,
            lost_expr=(
                "clamp(max by (node, slot, uuid) (gpuminutes_gpu_workload_info) * on (node) group_left ()"
                " rate(node_pressure_io_stalled_seconds_total[$window]), 0, 1)"
            ),
            thresholds=(
                Threshold("min_stall_share", 0.5, "of the time", "more than half of all time; our judgement"),
                Threshold("max_utilisation_ratio", 0.5, "ratio", "the rest of that time; our judgement"),
            ),
            cases=(
                Case(
                    "all tasks of the node wait four fifths of the time",
                    _node("0x39 0+12x39 468x39", "99x39 15x39 99x39"),
                    told=(Told("n1/0", 600, 1200), Told("n1/1", 600, 1200)),
                ),
                Case("a busy disk beside a job that computes", _node("0x39 0+12x39 468x39", "99x119")),
            ),
            why="All tasks of the node wait for I/O more than half of the time, and this held GPU is not busy.",
        ),
    ),
)
