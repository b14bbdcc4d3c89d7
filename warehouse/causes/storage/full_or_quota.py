"""Storage full or over quota."""

from warehouse.causes.examples import series
from warehouse.causes.jobs import HELD_QUIET, dcgm_job, job
from warehouse.model.cause import Case, Cause, Detector, Threshold, Told
from warehouse.model.state import State

_SERVED = 'fstype=~"nfs|nfs4|lustre|gpfs|beegfs|ceph|wekafs"'
_BYTES = f"node_filesystem_avail_bytes{{{_SERVED}}}"
_FILES = f"node_filesystem_files_free{{{_SERVED}}}"
# Some file systems count no files at all and say 0 of 0.
_COUNTS_FILES = f"node_filesystem_files{{{_SERVED}}} > 0"
# One that had no room before, or cannot be written to, holds data sets and no checkpoints.
_RAN_FULL = (
    f"{_BYTES} < $min_free_bytes and ({_BYTES} offset 1h >= $min_free_bytes or {_BYTES} offset 6h >= $min_free_bytes)"
)
_RAN_OUT = (
    f"{_FILES} < $min_free_files and ({_FILES} offset 1h >= $min_free_files or {_FILES} offset 6h >= $min_free_files)"
    f" and {_COUNTS_FILES}"
)
_FULL = f"({_RAN_FULL} or {_RAN_OUT}) unless node_filesystem_readonly{{{_SERVED}}} == 1"
_MOUNT = {"node": "n1", "device": "10.0.0.5:/ckpt", "mountpoint": "/ckpt", "fstype": "nfs4"}
# It fills after 70 min and is freed half an hour later.
_FILLS = "8e12x279 1e6x119 4e12x39"
_STOPS = "620x279 90x119 620x39"


def _path(power: str, **families: str) -> dict[str, str]:
    drawn = {"gpuminutes_gpu_power_watts": (power,), "gpuminutes_gpu_power_limit_watts{kind=enforced}": ("700x439",)}
    return {series(f"node_filesystem_{name}", _MOUNT): values for name, values in families.items()} | job(drawn)


CAUSE = Cause(
    title="Storage full or over quota",
    rank=54,
    state=State.DOWN,
    owner="storage",
    signature=(
        "A served file system ran out of free bytes or inodes within six hours (node_filesystem_avail_bytes, "
        "node_filesystem_files_free) and held GPUs of that node do not compute; a quota shows in no series."
    ),
    duration="hours",
    blast="jobs",
    source="ByteRobust (disk space)",
    first_step="Free or grant space on the checkpoint path first, then restart the job.",
    payer="tenant",
    runbook=(
        "See which path is full: `node_filesystem_avail_bytes` and `node_filesystem_files_free` by mountpoint.",
        "If the path has room, look at quotas: `quota -s -u USER`, `lfs quota -h -u USER PATH` or `mmlsquota`.",
        "Find what grew: `du -x --max-depth=1 PATH | sort -n | tail`, on one client only.",
        "Ask the owner which old checkpoints may go; delete nothing of others without their word.",
        "Grant space where deleting takes too long, then restart the job from its last durable checkpoint.",
    ),
    other_sources=(
        "job log: no space left on device, disk quota exceeded",
        "Slurm accounting",
        "a person: import evidence",
    ),
    detectors=(
        Detector(
            key="storage_full",
            version=1,
            expr=f"{HELD_QUIET} and on (node) ({_FULL})",
            coarse=(
                f"max by (node) (min_over_time({_BYTES}[$span]) < $min_free_bytes"
                f" or min_over_time({_FILES}[$span]) < $min_free_files)"
            ),
            scope="gpu",
            # The GPU is well and the job goes nowhere: a job that leaves frees its GPUs, and this one still holds them.
            state=State.HUNG,
            min_duration_ms=300_000,
            basis="inferred",
            max_steps=240,
            thresholds=(
                Threshold(
                    "max_power_ratio",
                    0.45,
                    "of the enforced limit",
                    "a GPU that waits draws a third or so; our judgement",
                ),
                Threshold("min_free_bytes", 1e9, "bytes", "no checkpoint of a training job fits; our judgement"),
                Threshold("min_free_files", 1, "inodes", "no file can be made"),
            ),
            cases=(
                Case(
                    "the path fills and the job stands",
                    _path(_STOPS, avail_bytes=_FILLS, readonly="0x439"),
                    told=(Told("n1/0", 4200, 6000), Told("n1/1", 4200, 6000)),
                ),
                Case("the path fills and the job computes on", _path("620x439", avail_bytes=_FILLS, readonly="0x439")),
                Case("a data set that was always full", _path(_STOPS, avail_bytes="0x439", readonly="0x439")),
                Case(
                    "a file system that counts no files",
                    _path(_STOPS, avail_bytes="8e12x439", files="0x439", files_free="0x439", readonly="0x439"),
                ),
                Case(
                    "no inodes are left, dcgm-exporter alone",
                    {
                        series(f"node_filesystem_{name}", _MOUNT): values
                        for name, values in (("files", "1e6x439"), ("files_free", "9000x279 0x119 9000x39"))
                    }
                    | dcgm_job(
                        {"DCGM_FI_DEV_POWER_USAGE": (_STOPS,), "DCGM_FI_DEV_ENFORCED_POWER_LIMIT": ("700x439",)}
                    ),
                    told=(Told("n1/0", 4200, 6000), Told("n1/1", 4200, 6000)),
                ),
            ),
            why="A file system of this node ran full, and this GPU is held and does not compute.",
        ),
    ),
)
