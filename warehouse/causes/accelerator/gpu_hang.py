"""GPU stopped answering its work."""

from warehouse.causes.examples import ADDRESSES, dcgm, gpu, series
from warehouse.causes.xids import GPU, event, event_dcgm, recovery
from warehouse.model.cause import Case, Cause, Detector, Threshold, Told
from warehouse.model.state import State

# Idle timeout of a channel, GPU stopped processing, context switch timeout, fatal timeout (NVIDIA Xid catalogue). After
# the first an application is started anew; the others need a reset.
_CODES = (8, 46, 109, 158)

_BUSY, _SM = "gpuminutes_gpu_utilization_ratio", "gpuminutes_gpu_sm_active_ratio"

_IDLE_INSIDE = (
    f"min by ({GPU}) (min_over_time({_BUSY}[$window])) > $min_utilisation_ratio "
    f"and on ({GPU}) max by ({GPU}) (max_over_time({_SM}[$window])) < $max_sm_active_ratio "
    f"and on (node) max by (node) (min_over_time({_SM}[$window])) > $min_peer_ratio"
)
_IDLE_NOW = (
    f"min by ({GPU}) ({_BUSY}) > $min_utilisation_ratio "
    f"and on ({GPU}) max by ({GPU}) ({_SM}) < $max_sm_active_ratio "
    f"and on (node) max by (node) ({_SM}) > $min_peer_ratio"
)
_COARSE = (
    f"max by (node) (max by ({GPU}) (max_over_time({_BUSY}[$span])) > $min_utilisation_ratio "
    f"and on ({GPU}) min by ({GPU}) (min_over_time({_SM}[$span])) < $max_sm_active_ratio) "
    f"and on (node) max by (node) (max_over_time({_SM}[$span])) > $min_peer_ratio"
)


def _node(sm: tuple[str, str], busy: str = "1x119") -> dict[str, str]:
    found = {series(_BUSY, gpu(index)): busy for index in range(len(ADDRESSES))}
    return found | {series(_SM, gpu(index)): values for index, values in enumerate(sm)}


def _node_dcgm(sm: tuple[str, str]) -> dict[str, str]:
    found = {series("DCGM_FI_DEV_GPU_UTIL", dcgm(index)): "100x119" for index in range(len(ADDRESSES))}
    return found | {series("DCGM_FI_PROF_SM_ACTIVE", dcgm(index)): values for index, values in enumerate(sm)}


_INSIDE = Detector(
    key="gpu_hang_idle_inside",
    version=1,
    expr=_IDLE_INSIDE,
    onset_expr=_IDLE_NOW,
    coarse=_COARSE,
    # No multiple of common scrape intervals, so that servers with closed and with left-open ranges see the same.
    window_ms=125_000,
    max_steps=240,
    scope="gpu",
    state=State.HUNG,
    # The definition of hung asks for five minutes without progress.
    min_duration_ms=300_000,
    basis="inferred",
    thresholds=(
        Threshold("min_utilisation_ratio", 0.9, "ratio", "the driver sees a kernel all the time; our judgement"),
        Threshold(
            "max_sm_active_ratio",
            0.005,
            "ratio",
            "less than one multiprocessor of 148 (B200, 0.007): no kernel runs anywhere, whatever the driver sees",
        ),
        Threshold(
            "min_peer_ratio",
            0.1,
            "ratio",
            "another GPU of the node computes, so the profiling counters are alive; our judgement",
        ),
    ),
    cases=(
        Case(
            "one stands still for ten minutes while the other computes",
            _node(("0.6x39 0x39 0.6x39", "0.6x119")),
            told=(Told("n1/0", 600, 1200),),
        ),
        Case("as DCGM says it", _node_dcgm(("0.6x119", "0.6x39 0x79")), told=(Told("n1/1", 600, None),)),
        Case("both wait: that is the job's, or the counters are dead", _node(("0.6x39 0x79", "0.6x39 0x79"))),
        Case("one waits in a collective: that keeps a few multiprocessors busy", _node(("0.6x39 0.06x79", "0.6x119"))),
        Case("one idles, and the driver says so too", {**_node(("0x119", "0.6x119")), series(_BUSY, gpu(0)): "0x119"}),
        Case("three minutes", _node(("0.6x39 0x11 0.6x39", "0.6x119"))),
    ),
    why="The driver calls the GPU busy and no multiprocessor works, while another GPU of the node computes.",
)

CAUSE = Cause(
    title="GPU stopped answering its work",
    rank=32,
    state=State.HUNG,
    owner="hardware",
    signature=(
        "Xid 8, 46, 109 or 158, for as long as the driver then asks for a reset; or utilisation at 100 % with no"
        " multiprocessor active on one GPU while another GPU of its node computes."
    ),
    duration="10 to 60 min",
    blast="job",
    source="Llama 3 (faulty GPU class)",
    first_step="Take stack dumps of the ranks, then kill the job and reset the GPU that stopped first.",
    payer="provider",
    runbook=(
        "Take stack dumps of the job's ranks on the node (`py-spy dump --native --pid PID`): one differs from the"
        " others.",
        "Read the kernel log for the first Xid of the hour; what stops later waits for what stopped first.",
        "Kill the job, and reset the GPU (`nvidia-smi -r -i INDEX`) once no process holds it.",
        "Run `dcgmi diag -r 3` on the GPU before new work.",
        "Replace the board when it stops under different jobs; look at the job when it stops on different boards.",
    ),
    other_sources=("kernel log", "job progress", "log of the framework", "a person: import evidence"),
    detectors=(
        event("gpu_hang_xid", _CODES, State.HUNG, "The GPU did not answer its work in time."),
        event_dcgm(
            "gpu_hang_xid_dcgm", _CODES, State.HUNG, "dcgm-exporter shows that the GPU did not answer its work."
        ),
        recovery(
            "gpu_hang_reset",
            _CODES[1:],
            "The GPU did not answer its work, and the driver asks for a reset.",
            also=("gpu_hang_xid",),
        ),
        _INSIDE,
    ),
)
