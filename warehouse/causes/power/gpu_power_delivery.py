"""GPU board power missing."""

from warehouse.causes import xids
from warehouse.causes.examples import gpu, series
from warehouse.model.cause import Case, Cause, Detector, Told
from warehouse.model.state import State

_CODES = (54,)
_ROW = series(xids.LAST, gpu(0), xid="54")
_BOOT = 'node_boot_time_seconds{node="n1"}'

CAUSE = Cause(
    title="GPU board power missing",
    rank=12,
    state=State.DOWN,
    owner="facility",
    signature=(
        "Xid 54, auxiliary power is not connected: counts until the node boots. dcgm-exporter shows the event alone."
    ),
    duration="hours",
    blast="GPU or node",
    source="NVIDIA Xid catalogue (CHECK_MECHANICALS) and DCGM error codes",
    first_step="Drain the node and check the auxiliary power cables of the board.",
    payer="provider",
    runbook=(
        "Confirm it in the kernel log: `journalctl -k | grep 'Xid.*: 54'`, and note the PCI address.",
        "Drain the node: the GPU runs at a reduced clock or not at all, and its jobs wait for it.",
        "Power the node off and reseat the auxiliary power cables of that board, at both ends.",
        "Read the supplies and the board's voltages with `ipmitool sdr type Voltage` after the boot.",
        "Load the GPU and see that power and clock rise; replace cable or board where the Xid comes back.",
    ),
    other_sources=("kernel log", "BMC event log", "a person: import evidence"),
    detectors=(
        Detector(
            key="gpu_power_missing",
            version=1,
            expr=xids.since_boot(xids.last(_CODES)),
            scope="gpu",
            state=State.DOWN,
            min_duration_ms=30_000,
            # That it is unfit until then is concluded: cables are plugged in with the power off.
            basis="inferred",
            dated_by_value=True,
            clears=("node_boot_time_seconds",),
            severity="page",
            cases=(
                Case("it stands until the end", {_ROW: "_x39 597x59"}, told=(Told("n1/0", 597, None),)),
                Case(
                    "the cable is plugged in and the node boots",
                    {_ROW: "_x39 597x39 stale _x38", _BOOT: "-90000x79 1160x38"},
                    told=(Told("n1/0", 597, 1200),),
                    also=("node_rebooted",),
                ),
                Case(
                    "one of before the boot, told again from the log",
                    {_ROW: "_x39 -900x59", _BOOT: "-400x99"},
                    also=("node_rebooted",),
                ),
            ),
            why="The board says that its auxiliary power is missing.",
        ),
        xids.event_dcgm(
            "gpu_power_missing_dcgm",
            _CODES,
            State.DOWN,
            "dcgm-exporter shows that a board's auxiliary power is missing.",
        ),
    ),
)
