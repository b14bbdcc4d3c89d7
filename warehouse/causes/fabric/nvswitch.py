"""NVSwitch or fabric manager fault."""

from warehouse.causes.examples import dcgm, gpu, series
from warehouse.causes.xids import GPU
from warehouse.model.cause import Case, Cause, Detector, Told, Witness
from warehouse.model.state import State

_STATE, _STATUS = "gpuminutes_gpu_fabric_state", "gpuminutes_gpu_fabric_status"
_DCGM_STATE = "DCGM_FI_DEV_FABRIC_MANAGER_STATUS"
_SXIDS = ("DCGM_FI_DEV_NVSWITCH_FATAL_ERRORS", "DCGM_FI_DEV_SXID_FATAL_ERROR")
_BEFORE = " or ".join(f"max by (node) ({name} offset 125s)" for name in _SXIDS)
_SHOWN = " or ".join(f"max by (node) ({name} > 0)" for name in _SXIDS)


def _switch(number: int) -> dict[str, str]:
    return {"Hostname": "n1", "nvswitch": f"nvswitch{number}"}


_NOT_DONE = Detector(
    key="fabric_not_registered",
    version=1,
    expr=f"{_STATE} > 0 < 3",
    scope="gpu",
    state=State.DOWN,
    # After a boot, registration takes a minute or two.
    min_duration_ms=300_000,
    severity="page",
    witnesses=(Witness(_STATE, "", ("node", "slot"), ">", "0"), Witness(_STATE, "", ("node", "slot"), "<", "3")),
    cases=(
        Case(
            "in progress for ten minutes", {series(_STATE, gpu(0)): "3x39 2x39 3x39"}, told=(Told("n1/0", 600, 1200),)
        ),
        Case("as DCGM says it", {series(_DCGM_STATE, dcgm(1)): "3x39 1x79"}, told=(Told("n1/1", 600, None),)),
        Case("two minutes after a boot", {series(_STATE, gpu(0)): "3x39 1x3 2x3 3x39"}),
        Case("a board without a fabric", {series(_STATE, gpu(0)): "0x79", series(_STATE, gpu(1)): "0x79"}),
    ),
    why="The GPU is not registered with the NVLink fabric: no job can use its links, all else looks well.",
)

_FAILED = Detector(
    key="fabric_registration_failed",
    version=1,
    expr=f"{_STATUS} > 0",
    scope="gpu",
    state=State.DOWN,
    min_duration_ms=60_000,
    severity="page",
    witnesses=(Witness(_STATUS, "", ("node", "slot"), ">", "0"),),
    cases=(
        Case("it ended with an error", {series(_STATUS, gpu(1)): "0x39 999x39 0x39"}, told=(Told("n1/1", 600, 1200),)),
        Case("it ended well", {series(_STATUS, gpu(0)): "0x39", series(_STATE, gpu(0)): "3x39"}),
    ),
    why="The registration with the NVLink fabric ended with an error.",
)

_FAILED_DCGM = Detector(
    key="fabric_registration_failed_dcgm",
    version=1,
    # dcgmFabricManagerStatus_t: 4 is failure; what lies above is unrecognised or an NVML too old to say it.
    expr=f"max by ({GPU}) ({_DCGM_STATE} == 4)",
    scope="gpu",
    state=State.DOWN,
    min_duration_ms=60_000,
    severity="page",
    cases=(
        Case("it failed", {series(_DCGM_STATE, dcgm(0)): "3x39 4x39 3x39"}, told=(Told("n1/0", 600, 1200),)),
        Case("an NVML too old to say", {series(_DCGM_STATE, dcgm(0)): "6x79"}),
    ),
    why="DCGM says that the registration with the NVLink fabric failed.",
)

_SXID = Detector(
    key="nvswitch_sxid_dcgm",
    version=1,
    # The value is the last fatal SXid of a switch and stays; only a change that was seen is an event.
    # Not by `!=`: VictoriaMetrics takes a value that is not there for a different one.
    expr=(
        f"({_SHOWN}) unless on (node) (({_SHOWN}) == on (node) ({_BEFORE})) and on (node) group by (node) ({_BEFORE})"
    ),
    scope="node",
    state=State.DOWN,
    min_duration_ms=0,
    momentary=True,
    severity="page",
    cases=(
        Case("a switch reports 20034", {series(_SXIDS[0], _switch(2)): "0x39 20034x39"}, told=(Told("n1", 600, 600),)),
        Case("by its new name", {series(_SXIDS[1], _switch(0)): "0x39 12020x39"}, told=(Told("n1", 600, 600),)),
        Case("an old one that stands since long", {series(_SXIDS[0], _switch(2)): "20034x79"}),
        Case("one that is not fatal", {series("DCGM_FI_DEV_NVSWITCH_NON_FATAL_ERRORS", _switch(2)): "0x39 11012x39"}),
    ),
    why="DCGM shows a fatal SXid of an NVSwitch of this node.",
)

CAUSE = Cause(
    title="NVSwitch or fabric manager fault",
    rank=40,
    state=State.DOWN,
    owner="fabric",
    signature=(
        "gpuminutes_gpu_fabric_state is 1 or 2 for five minutes or gpuminutes_gpu_fabric_status is not 0, DCGM's fabric"
        " status is 4, or a fatal SXid is logged."
    ),
    duration="10 to 60 min",
    blast="node, or the rack on NVL72",
    source="NVIDIA Fabric Manager guide",
    first_step="Restart Fabric Manager on the drained node; replace the tray when the SXid comes back.",
    payer="provider",
    runbook=(
        "Drain the node, or the rack on NVL72: CUDA does not start on GPUs that wait for the fabric.",
        "Look at `systemctl status nvidia-fabricmanager` and its log, and at `nvidia-smi -q` under Fabric.",
        "Compare the versions of the driver and of Fabric Manager: they must be the same.",
        "Look for SXids in the kernel log and look up whether they are fatal in the Fabric Manager guide.",
        "Restart Fabric Manager on the drained node, then reset all its GPUs; reboot when that is no help.",
        "Replace the baseboard or the switch tray when the same SXid comes back.",
    ),
    other_sources=("kernel log", "log of Fabric Manager", "BMC log", "a person: import evidence"),
    detectors=(_NOT_DONE, _FAILED, _FAILED_DCGM, _SXID),
)
