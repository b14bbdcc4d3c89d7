"""GPU fell off the bus."""

from warehouse.causes.examples import dcgm, gpu, series
from warehouse.causes.xids import GPU, rows, shown_dcgm, since_boot
from warehouse.causes.xids import last as last_xid
from warehouse.model.cause import Case, Cause, Detector, Told, Witness
from warehouse.model.state import State

_EXPECTED, _UP = "gpuminutes_gpus_expected", "gpuminutes_gpu_up"
_NAMED = f"count by (node) (count by (node, slot) ({_UP}))"
_HELD = "DCGM_FI_DEV_XID_ERRORS"

# Of a node whose other GPUs are still on the page: one that is not any more, and was two minutes ago. Temperature is in
# every list of counters that dcgm-exporter ships, under its name before or after DCGM 4.6.
# Two scrapes are enough to see that it is gone, also where no stale marker was written.
_NAMES = ("DCGM_FI_DEV_GPU_TEMP", "DCGM_FI_DEV_GPU_TEMP_CELSIUS")
_NOW = " or ".join(f"last_over_time({name}[35s])" for name in _NAMES)
_EARLIER = " or ".join(f"last_over_time({name}[35s] offset 125s)" for name in _NAMES)
_VANISHED = f"max by ({GPU}) ({_EARLIER}) unless on (node, slot) ({_NOW}) and on (node) group by (node) ({_NOW})"
# One that is there again where others were all the time: a page that comes back whole says nothing about it.
_CAME_BACK = (
    f"group by (node) (({_NOW}) unless on (node, slot) ({_EARLIER}) and on (node) group by (node) ({_EARLIER}))"
    " * 0 + time()"
)
# All series of one page have as many samples as each other: a GPU with fewer was gone for a while. Summed per GPU,
# since a pod that comes or goes begins another series.
_COUNTED = " or ".join(f"count_over_time({name}[$span])" for name in _NAMES)
_SAMPLES = f"sum by ({GPU}) ({_COUNTED})"


def _temperatures(values: str, other: str = "41x119") -> dict[str, str]:
    return {series("DCGM_FI_DEV_GPU_TEMP", dcgm(0)): values, series("DCGM_FI_DEV_GPU_TEMP", dcgm(1)): other}


_ANSWERS = Detector(
    key="gpu_off_bus",
    version=1,
    expr=(
        "gpuminutes_gpu_up == 0 and on (node, uuid, slot) "
        'gpuminutes_gpu_down_reason{reason=~"lost|reset_required|missing|driver"} == 1'
    ),
    scope="gpu",
    state=State.DOWN,
    min_duration_ms=30_000,
    severity="page",
    witnesses=(Witness(_UP, "", ("node", "slot")),),
    cases=(
        Case(
            "one of two is lost for five minutes",
            {
                series(_UP, gpu(0)): "1x39 0x19 1x20",
                series("gpuminutes_gpu_down_reason", gpu(0), reason="lost"): "_x40 1x19 _x21",
            },
            told=(Told("n1/0", 600, 900),),
        ),
        Case(
            "no answer in time is no proof of a loss",
            {
                series(_UP, gpu(0)): "1x39 0x19 1x20",
                series("gpuminutes_gpu_down_reason", gpu(0), reason="timeout"): "_x40 1x19 _x21",
            },
            also=("gpu_no_answer",),
        ),
    ),
    why="The exporter answers and says that the driver has lost this GPU.",
)

_XID = Detector(
    key="gpu_off_bus_xid",
    version=1,
    # The exporter's memory of it ends with the boot, or with the exporter: the fault only with the boot.
    expr=since_boot(last_xid([79])),
    scope="gpu",
    state=State.DOWN,
    min_duration_ms=30_000,
    severity="page",
    dated_by_value=True,
    clears=("node_boot_time_seconds",),
    cases=(
        Case(
            "until the node has booted, though the exporter starts anew before",
            {**rows({79: "_x40 597x19 _x60"}), series("node_boot_time_seconds", node="n1"): "-5000x79 1190x40"},
            told=(Told("n1/0", 597, 1200),),
            also=("node_rebooted",),
        ),
        Case("no boot, no end", rows({79: "_x40 597x79"}, index=1), told=(Told("n1/1", 597, None),)),
        Case(
            "one from before the boot, told again",
            {**rows({79: "_x40 -90x39"}), series("node_boot_time_seconds", node="n1"): "-30x79"},
            also=("node_rebooted",),
        ),
        Case("what follows other faults", rows({45: "_x40 597x39", 154: "_x40 597x39"})),
    ),
    why="The driver logged Xid 79: the GPU fell off the bus, and comes back with a boot at the earliest.",
)

_XID_DCGM = Detector(
    key="gpu_off_bus_xid_dcgm",
    version=1,
    expr=shown_dcgm([79]),
    scope="gpu",
    state=State.DOWN,
    min_duration_ms=30_000,
    severity="page",
    clears=("node_boot_time_seconds",),
    cases=(
        Case(
            "the gauge shows it until another code comes, the fault lasts",
            {series(_HELD, dcgm(0)): "0x39 79x9 154x49"},
            told=(Told("n1/0", 600, None),),
        ),
        Case(
            "by its new name", {series("DCGM_FI_DEV_XID_ERROR", dcgm(1)): "0x39 79x39"}, told=(Told("n1/1", 600, None),)
        ),
        Case(
            "by the count of five minutes, until the boot",
            {
                series("DCGM_EXP_XID_ERRORS_COUNT", dcgm(1), xid="79", window_size_in_ms="300000"): "_x40 1x19 _x60",
                series("node_boot_time_seconds", node="n1"): "-5000x79 1190x40",
            },
            told=(Told("n1/1", 600, 1200),),
            also=("node_rebooted",),
        ),
        Case("what follows other faults", {series(_HELD, dcgm(0)): "0x39 45x39"}),
    ),
    why="dcgm-exporter shows Xid 79: the GPU fell off the bus, and comes back with a boot at the earliest.",
)

_NEVER_SEEN = Detector(
    key="gpus_missing",
    version=1,
    # GPUs that were seen once have a row of their own, up or down; these have none, so nobody can say which slot.
    expr=f"max by (node) ({_EXPECTED}) > on (node) {_NAMED}",
    coarse=(
        f"max by (node) (max_over_time({_EXPECTED}[$span])) > on (node) "
        "max by (node) (min_over_time(gpuminutes_gpus_visible[$span]))"
    ),
    scope="node",
    state=State.DEGRADED,
    # A start of the exporter takes a cycle or two before it names all GPUs.
    min_duration_ms=300_000,
    lost_expr=f"clamp(1 - {_NAMED} / on (node) max by (node) ({_EXPECTED}), 0, 1)",
    cases=(
        Case(
            "three where four should be",
            {
                series(_EXPECTED, node="n1"): "3x39 4x59 3x20",
                series("gpuminutes_gpus_visible", node="n1"): "3x120",
                series(_UP, node="n1", slot="0000:3c:00", uuid="GPU-n1-2"): "1x120",
            },
            told=(Told("n1", 600, 1500, lost_ppm=250_000),),
        ),
        Case(
            "two, and one of them is down: that has a row of its own",
            {
                series(_EXPECTED, node="n1"): "2x120",
                series("gpuminutes_gpus_visible", node="n1"): "2x39 1x59 2x20",
                series(_UP, gpu(0)): "1x39 0x59 1x20",
                series("gpuminutes_gpu_down_reason", gpu(0), reason="missing"): "_x40 1x59 _x21",
            },
            also=("gpu_off_bus",),
        ),
        Case(
            "an exporter that has just started",
            {series(_EXPECTED, node="n1"): "3x3 2x60", series("gpuminutes_gpus_visible", node="n1"): "2x64"},
        ),
    ),
    why="The node answers with fewer GPUs than it should have, and the exporter has never seen the others.",
)

_GONE_DCGM = Detector(
    key="gpu_vanished_dcgm",
    version=1,
    expr=_VANISHED,
    coarse=f"min by (node) ({_SAMPLES}) < on (node) max by (node) ({_SAMPLES})",
    scope="gpu",
    state=State.DOWN,
    min_duration_ms=60_000,
    severity="page",
    clears=("node_boot_time_seconds", _CAME_BACK),
    cases=(
        Case(
            "one of two is off the page for ten minutes",
            _temperatures("40x39 _x40 40x39"),
            told=(Told("n1/0", 600, 1200),),
        ),
        Case("and stays away", _temperatures("40x39 _x80", other="41x119"), told=(Told("n1/0", 600, None),)),
        Case(
            "another board in the same place",
            {
                series("DCGM_FI_DEV_GPU_TEMP", {**dcgm(0), "UUID": "GPU-new"}): "_x40 40x79",
                **_temperatures("40x39 _x80"),
            },
        ),
        Case(
            "the exporter says nothing at all for a while", _temperatures("40x39 _x20 40x59", other="41x39 _x20 41x59")
        ),
    ),
    why="dcgm-exporter still names the node's other GPUs, and no longer this one.",
)

CAUSE = Cause(
    title="GPU fell off the bus",
    rank=30,
    state=State.DOWN,
    owner="hardware",
    signature=(
        "Xid 79 since the last boot, or gpuminutes_gpu_up is 0 with reason lost, reset_required, missing or driver"
        " while"
        " the node's other GPUs answer, or a GPU is gone from dcgm-exporter's page while others stay."
    ),
    duration="hours to days",
    blast="node, since its repair takes all 8 GPUs",
    source="NVIDIA Xid catalogue (RESTART_BM); Meta RSC (43 % and 63 % of PCIe errors come with it)",
    first_step=("Drain the node, power-cycle it fully, and reseat or replace the board when the GPU is lost again."),
    payer="provider",
    runbook=(
        "Read the kernel log around the onset (`dmesg -T | grep -i xid`) and note the PCI address and what came"
        " before.",
        "Compare `nvidia-smi -L` with `lspci -d 10de:`: a GPU that is in neither is lost to the bus, not to the"
        " driver.",
        "Drain the node in the scheduler, so that no job starts on the GPUs that are left.",
        "Switch the node off and on through the BMC; a warm reboot often does not bring the GPU back.",
        "Look for AER lines of the slot and at the power supplies in the BMC log before blaming the board.",
        "Order a replacement when the same slot is lost again within 28 days.",
    ),
    other_sources=(
        "kernel log",
        "BMC log",
        "Slurm node state",
        "Kubernetes device plugin",
        "a person: import evidence",
    ),
    detectors=(_ANSWERS, _XID, _XID_DCGM, _NEVER_SEEN, _GONE_DCGM),
)
