"""CUDA exception in the job."""

from warehouse.causes.examples import dcgm, gpu, series
from warehouse.model.cause import Case, Cause, Detector, Threshold, Told
from warehouse.model.state import State

# What a program can do to itself (NVIDIA's catalogue of Xids: RESTART_APP, CHECK_APP, IGNORE), and 45, which follows
# any other.
_OF_PROGRAMS = "13|31|43|69"
_LAST = "gpuminutes_gpu_xid_last_timestamp_seconds"
_NEW = "> time() - $recent_s"

_CODES = " or ".join(f"DCGM_FI_DEV_XID_ERRORS == {code}" for code in _OF_PROGRAMS.split("|"))


def _xid(code: str, values: str, index: int = 0) -> dict[str, str]:
    """Gives when an XID was last seen; the row begins with the first."""
    return {series(_LAST, gpu(index), xid=code): values}


CAUSE = Cause(
    title="CUDA exception in the job",
    rank=70,
    state=State.LOST_WORK,
    owner="workload",
    signature="Xid 13, 31, 43 or 69 alone on one GPU (gpuminutes_gpu_xid_last_timestamp_seconds), and the job leaves.",
    duration="minutes",
    blast="job",
    source="NVIDIA Xid catalogue, ByteRobust (36 % CUDA errors)",
    first_step=("Send the stack to the job's owner; if the same GPU repeats it under other jobs, suspect the GPU."),
    payer="tenant",
    runbook=(
        "See which job ran there: `gpuminutes_gpu_workload_info` of that uuid at the time of the event.",
        "Read the kernel's line for the unit and the process: `dmesg -T | grep 'NVRM: Xid'`.",
        "Ask whether the same GPU did it under other jobs: `changes(gpuminutes_gpu_xid_last_timestamp_seconds"
        '{xid=~"13|31"}[7d])`; if so, drain it and run `dcgmi diag -r 3`.',
        "Send the owner the line and the time; `CUDA_LAUNCH_BLOCKING=1` or compute-sanitizer names the kernel.",
    ),
    other_sources=("kernel log", "Slurm accounting: exit code", "Kubernetes events", "job log"),
    detectors=(
        Detector(
            key="cuda_exception",
            version=1,
            expr=(
                f'max by (node, slot, uuid) ({_LAST}{{xid=~"{_OF_PROGRAMS}"}} {_NEW})'
                f' unless on (node, slot) max by (node, slot) ({_LAST}{{xid!~"{_OF_PROGRAMS}|45"}} {_NEW})'
            ),
            scope="gpu",
            state=State.LOST_WORK,
            min_duration_ms=0,
            dated_by_value=True,
            momentary=True,
            severity="info",
            thresholds=(
                Threshold(
                    "recent_s",
                    100,
                    "s",
                    "events of one fault lie within seconds (Delta folds 5 s), 45 within 60 s; our judgement",
                ),
            ),
            cases=(
                Case("a kernel reads where it must not", _xid("31", "_x40 595x79"), told=(Told("n1/0", 595, 595),)),
                Case(
                    "two within the hour",
                    _xid("13", "_x40 595x79 1795x39"),
                    told=(Told("n1/0", 595, 595), Told("n1/0", 1795, 1795)),
                ),
                Case(
                    "a memory error stops the program: no exception of its own",
                    _xid("43", "_x40 596x79") | _xid("48", "_x40 595x79"),
                    also=("hbm_uncorrectable_xid",),
                ),
                Case("one of yesterday", _xid("31", "-86400x119")),
            ),
            why="The driver stopped a program for what it did, and nothing else was wrong with the GPU.",
        ),
        Detector(
            key="cuda_exception_dcgm",
            version=1,
            # The gauge keeps the last code until its exporter restarts: only a change is an event, and a repeat of the
            # same code is not seen (NVIDIA/dcgm-exporter issue 500).
            expr=(
                f"max by (node, slot, uuid) ({_CODES}) and on (node, slot)"
                " max by (node, slot) (changes(DCGM_FI_DEV_XID_ERRORS[$window])) > 0"
            ),
            scope="gpu",
            state=State.LOST_WORK,
            min_duration_ms=0,
            window_ms=125_000,
            window_of="max",
            momentary=True,
            severity="info",
            cases=(
                Case(
                    "the last code becomes 31",
                    {series("DCGM_FI_DEV_XID_ERRORS", dcgm(0)): "0x39 31x79"},
                    told=(Told("n1/0", 600, 600),),
                ),
                Case("a code of long ago", {series("DCGM_FI_DEV_XID_ERRORS", dcgm(0)): "13x119"}),
                Case(
                    "the last code becomes 79",
                    {series("DCGM_FI_DEV_XID_ERRORS", dcgm(0)): "0x39 79x79"},
                    also=("gpu_off_bus_xid_dcgm",),
                ),
            ),
            why="The last error that DCGM names became one that a program causes itself.",
        ),
    ),
)
