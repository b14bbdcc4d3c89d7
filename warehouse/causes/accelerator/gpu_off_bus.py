"""GPU fell off the bus."""

from warehouse.causes.examples import gpu, series
from warehouse.model.cause import Case, Cause, Detector, Told, Witness
from warehouse.model.state import State

CAUSE = Cause(
    title="GPU fell off the bus",
    rank=30,
    state=State.DOWN,
    owner="hardware",
    signature=(
        "Xid 79, or gpuminutes_gpu_up is 0 with reason lost, reset_required, missing or driver while the"
        " node's other GPUs answer."
    ),
    duration="hours to days",
    blast="node, since its repair takes all 8 GPUs",
    source="NVIDIA Xid catalogue (RESTART_BM); Meta RSC (43 % and 63 % of PCIe errors come with it)",
    first_step=("Drain the node, power-cycle it fully, and reseat or replace the board when the GPU is lost again."),
    detectors=(
        Detector(
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
            witnesses=(Witness("gpuminutes_gpu_up", "", ("node", "slot")),),
            cases=(
                Case(
                    "one of two is lost for five minutes",
                    {
                        series("gpuminutes_gpu_up", gpu(0)): "1x39 0x19 1x20",
                        series("gpuminutes_gpu_down_reason", gpu(0), reason="lost"): "_x40 1x19 _x21",
                    },
                    told=(Told("n1/0", 600, 900),),
                ),
                Case(
                    "no answer in time is no proof of a loss",
                    {
                        series("gpuminutes_gpu_up", gpu(0)): "1x39 0x19 1x20",
                        series("gpuminutes_gpu_down_reason", gpu(0), reason="timeout"): "_x40 1x19 _x21",
                    },
                    also=("gpu_no_answer",),
                ),
            ),
            why="The exporter answers and says that the driver has lost this GPU.",
        ),
    ),
)
