"""Checkpoint writes stall."""

from warehouse.causes.examples import series
from warehouse.causes.jobs import POWER_OF_LIMIT, job, per_job
from warehouse.model.cause import Case, Cause, Detector, Threshold, Told
from warehouse.model.state import State

_OPS = '{op=~"WRITE|COMMIT"}'


def _rate(family: str) -> str:
    return f"sum by (node) (rate({family}{_OPS}[$window]))"


_WRITING = _rate("gpuminutes_nfs_op_seconds_total")
_ENDED = _rate("gpuminutes_nfs_ops_total")
# Since the mount: at an instant, and the saves of all that time outweigh the present one.
_USUAL = (
    f"sum by (node) (gpuminutes_nfs_op_seconds_total{_OPS}) / on (node) sum by (node) (gpuminutes_nfs_ops_total{_OPS})"
)
_SLOW = (
    f"({_WRITING} / on (node) {_ENDED} > on (node) $min_times * ({_USUAL})"
    f" or {_rate('gpuminutes_nfs_retrans_total')} > on (node) $min_resent_share * {_ENDED})"
    f" and on (node) {_WRITING} > $min_in_flight"
)


_HELD = 'gpuminutes_gpu_workload_info{job_id!=""}'
# Every GPU of the job was quiet at some time of the look, and some node of it wrote for long.
_COARSE = (
    f"max by (job_id) (max by (uuid, job_id) (present_over_time({_HELD}[$span])) * on (uuid) group_left () ("
    "max by (uuid) (min_over_time(gpuminutes_gpu_power_watts[$span])) / on (uuid) "
    'max by (uuid) (max_over_time(gpuminutes_gpu_power_limit_watts{kind="enforced"}[$span])))) < $max_power_ratio'
    f" and on (job_id) max by (job_id) (max by (node, job_id) (present_over_time({_HELD}[$span])) and on (node) "
    f"sum by (node) (increase(gpuminutes_nfs_op_seconds_total{_OPS}[$span])) > 60 * $min_in_flight)"
)


def _save(seconds: str, ops: str, power: str, resent: str = "0x119") -> dict[str, str]:
    """Gives a job that saves over NFS."""
    written = {
        series(f"gpuminutes_nfs_{family}", node="n1", mount="/ckpt", op="WRITE"): values
        for family, values in (("op_seconds_total", seconds), ("ops_total", ops), ("retrans_total", resent))
    }
    drawn = {"gpuminutes_gpu_power_watts": (power,), "gpuminutes_gpu_power_limit_watts{kind=enforced}": ("700x119",)}
    return written | job(drawn)


CAUSE = Cause(
    title="Checkpoint writes stall",
    rank=52,
    state=State.CHECKPOINT,
    owner="storage",
    signature=(
        "NFS writes of a node take ten times as long as over the life of its mounts, or are sent again, with several "
        "in flight, while no GPU of the job computes."
    ),
    duration="minutes",
    blast="job",
    source="Lablup (NFS calls), Llama 3 (write bursts)",
    first_step="See how many jobs save at once and spread their saves before touching the server.",
    payer="provider",
    runbook=(
        'Count the nodes that write: `count(sum by (node) (rate(gpuminutes_nfs_ops_total{op="WRITE"}[5m])) > 100)`.',
        "If several jobs save at once, ask their owners to move their saves apart, or to save less often.",
        "Look for lost packets: `rate(gpuminutes_nfs_retrans_total[5m])` and `nstat -az TcpRetransSegs` on a writer.",
        "Ask storage for the write latency and free space of the servers behind the checkpoint path.",
        "Leave the job alone while writes still end; if none ends for 10 minutes, treat it as a file system outage.",
    ),
    other_sources=("job progress: checkpoint_start without checkpoint_durable", "a person: import evidence"),
    detectors=(
        Detector(
            key="checkpoint_stalled",
            version=1,
            expr=(
                'max by (job_id) (max by (node, job_id) (gpuminutes_gpu_workload_info{job_id!=""})'
                f" and on (node) ({_SLOW}))"
                f" and on (job_id) {per_job('max', POWER_OF_LIMIT)} < $max_power_ratio"
            ),
            coarse=_COARSE,
            scope="job",
            state=State.CHECKPOINT,
            min_duration_ms=180_000,
            window_ms=125_000,
            window_of="mean",
            stitch_ms=120_000,
            basis="inferred",
            max_steps=240,
            thresholds=(
                Threshold("min_times", 10, "times the usual", "load alone doubles it or triples it; our judgement"),
                Threshold(
                    "min_resent_share",
                    0.01,
                    "of the calls",
                    "over TCP a call is sent again after 60 s only; our judgement",
                ),
                Threshold("min_in_flight", 1, "calls", "someone is waiting for a write all the time; our judgement"),
                Threshold(
                    "max_power_ratio", 0.45, "of the enforced limit", "no rank computes while it waits; our judgement"
                ),
            ),
            cases=(
                Case(
                    "writes of 10 ms take 2 s for ten minutes",
                    _save(
                        "9000+15x39 9600+480x39 28800+15x39",
                        "900000+1500x39 960000+240x39 970000+1500x39",
                        "620x39 150x39 620x39",
                    ),
                    told=(Told("job:7", 600, 1200),),
                ),
                Case(
                    "a save at the usual speed",
                    _save(
                        "9000+15x39 9600+480x39 28800+15x39",
                        "900000+1500x39 960000+48000x39 2900000+1500x39",
                        "620x39 150x39 620x39",
                    ),
                ),
                Case(
                    "slow writes in the background of a job that computes",
                    _save(
                        "9000+15x39 9600+480x39 28800+15x39", "900000+1500x39 960000+240x39 970000+1500x39", "620x119"
                    ),
                ),
                Case(
                    "calls are sent again",
                    _save(
                        "9000+15x39 9600+480x39 28800+15x39",
                        "900000+1500x39 960000+48000x39 2900000+1500x39",
                        "620x39 150x39 620x39",
                        resent="0x39 0+2000x39 78000x39",
                    ),
                    told=(Told("job:7", 600, 1200),),
                ),
            ),
            why="NFS writes of the job's nodes take far longer than ever or are sent again, and no GPU of it computes.",
        ),
    ),
)
