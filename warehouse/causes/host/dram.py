"""Host memory fault."""

from warehouse.causes.bmc import alarm
from warehouse.causes.examples import series
from warehouse.model.cause import Case, Cause, Detector, Told
from warehouse.model.state import State

_TOTAL = series("node_edac_uncorrectable_errors_total", node="n1", controller="0")
_CORRECTED = series("node_edac_correctable_errors_total", node="n1", controller="0")

CAUSE = Cause(
    title="Host memory fault",
    rank=21,
    state=State.DOWN,
    owner="hardware",
    signature=(
        "node_edac_uncorrectable_errors_total rises, or the BMC calls a memory module critical: events; a node that "
        "the error takes down is seen as unreachable."
    ),
    duration="hours to days",
    blast="node",
    source="Llama 3 (2 interruptions)",
    first_step="Drain the node and have the module named by the error counters replaced.",
    payer="provider",
    runbook=(
        "Find the module: `ras-mc-ctl --errors`, `ipmitool sel elist`, node_edac_csrow_uncorrectable_errors_total.",
        "Find who was hit: `journalctl -k | grep -i 'memory failure'` names the process that the kernel killed.",
        "Drain the node; a job that went on after the error may have computed with what was in that page.",
        "Compare `free -g` with the order list: a module that the firmware switched off is missing there.",
        "Replace the module, run a memory test over night, and give the node back.",
    ),
    other_sources=("kernel log", "BMC event log", "node health check (memory size)", "a person: import evidence"),
    detectors=(
        Detector(
            key="host_memory_error",
            version=1,
            expr="increase(node_edac_uncorrectable_errors_total[$window]) > 0",
            window_ms=125_000,
            window_of="max",
            scope="node",
            state=State.DOWN,
            min_duration_ms=0,
            # Where the node survives it, it works on without that page: the error is an event.
            momentary=True,
            stitch_ms=120_000,
            cases=(
                Case("one uncorrectable error", {_TOTAL: "0x39 1x59"}, told=(Told("n1", 600, 600),)),
                Case(
                    "corrected errors by the thousand, and one uncorrectable of long ago",
                    {_TOTAL: "1x99", _CORRECTED: "0+40x99"},
                ),
                Case("the counters start anew with the node", {_TOTAL: "3x39 0x59"}),
            ),
            why="The memory controller counted an error that it could not correct.",
        ),
        alarm("bmc_memory", "Memory", "Memory", State.DOWN, "The BMC calls a memory module critical."),
    ),
)
