"""Nobody was watching."""

from warehouse.causes.examples import gpu, on_both, series
from warehouse.model.cause import Case, Cause, Detector, Told, Witness
from warehouse.model.state import State

CAUSE = Cause(
    title="Nobody was watching",
    rank=63,
    state=State.UNKNOWN,
    owner="platform",
    signature=(
        "The source of the metrics is itself silent: no exporter or Prometheus sample for 3 intervals, "
        "or the exporter is dead while another source shows the node alive."
    ),
    duration="minutes to hours",
    blast="whatever the gap covers",
    source="our own judgement",
    first_step=(
        "Restart the exporter or Prometheus; the time stays unknown unless another source tells what happened."
    ),
    payer="nobody",
    runbook=(
        "See what is silent: the targets page of Prometheus, or `up == 0`; many at once point to Prometheus itself.",
        "On one node, ask the exporter: `systemctl status gpu-minutes-exporter` and its page on the loopback.",
        "If gpuminutes_nvml_worker_stuck is 1, do not restart it: a call into the driver hangs; try `timeout 10"
        " nvidia-smi` and read `dmesg -T | grep -E 'NVRM|Xid'`.",
        "If the driver does not answer either, drain the node and reboot it.",
        "When it is back, import what others saw of that time; what nobody saw stays unknown.",
    ),
    other_sources=("kernel log", "Slurm accounting", "Kubernetes events", "a person: import evidence"),
    detectors=(
        Detector(
            key="exporter_silent",
            version=1,
            # Without a second witness the right side is empty, and one witness is no proof of down.
            expr='up{job="gpu-minutes"} == 0 unless on (node) up{job="node"} == 0',
            scope="node",
            state=State.UNKNOWN,
            min_duration_ms=30_000,
            witnesses=(Witness("up", 'job="gpu-minutes"', ("node",)),),
            cases=(
                Case(
                    "the exporter alone is silent",
                    {'up{job="gpu-minutes",node="n1"}': "1x39 0x15 1x20", 'up{job="node",node="n1"}': "1x75"},
                    told=(Told("n1", 600, 840),),
                ),
                Case("one scrape lost", {'up{job="gpu-minutes",node="n1"}': "1x39 0 1x20"}),
            ),
            why="Only the exporter is silent: node_exporter answers, or there is none to ask.",
        ),
        Detector(
            key="gpu_no_answer",
            version=1,
            expr=(
                "gpuminutes_gpu_up == 0 and on (node, uuid, slot) "
                'gpuminutes_gpu_down_reason{reason=~"timeout|unknown"} == 1'
            ),
            scope="gpu",
            state=State.UNKNOWN,
            min_duration_ms=30_000,
            witnesses=(Witness("gpuminutes_gpu_up", "", ("node", "slot")),),
            cases=(
                Case(
                    "a driver that hangs",
                    {
                        series("gpuminutes_gpu_up", gpu(1)): "1x39 0x19 1x20",
                        series("gpuminutes_gpu_down_reason", gpu(1), reason="timeout"): "_x40 1x19 _x21",
                    },
                    told=(Told("n1/1", 600, 900),),
                ),
                Case(
                    "a GPU that is lost",
                    {
                        series("gpuminutes_gpu_up", gpu(1)): "1x39 0x19 1x20",
                        series("gpuminutes_gpu_down_reason", gpu(1), reason="lost"): "_x40 1x19 _x21",
                    },
                    also=("gpu_off_bus",),
                ),
            ),
            why="The driver gave no answer about this GPU, which proves neither up nor down.",
        ),
        Detector(
            key="driver_silent",
            version=1,
            # Before the first answer there is no GPU that could be down: then this alone says that the driver hangs.
            expr=(
                "max by (node) (gpuminutes_nvml_worker_stuck == 1"
                ' or gpuminutes_collect_success{collector="nvml"} == 0)'
                " unless on (node) max by (node) (gpuminutes_gpu_up == 0)"
                " unless on (node) max by (node) (gpuminutes_gpu_up == 1)"
            ),
            scope="node",
            state=State.UNKNOWN,
            min_duration_ms=60_000,
            cases=(
                Case(
                    "the driver hangs since the boot",
                    {
                        series("gpuminutes_nvml_worker_stuck", node="n1"): "0x9 1x39 0x19",
                        series("gpuminutes_collect_success", node="n1", collector="nvml"): "1x9 0x39 1x19",
                    }
                    | on_both("gpuminutes_gpu_up", "_x50 1x19"),
                    told=(Told("n1", 150, 750),),
                ),
                Case(
                    "it hangs later: each GPU says so itself",
                    {series("gpuminutes_nvml_worker_stuck", node="n1"): "0x39 1x19 0x20"}
                    | on_both("gpuminutes_gpu_up", "1x39 0x19 1x20")
                    | on_both("gpuminutes_gpu_down_reason", "_x40 1x19 _x21", reason="timeout"),
                    also=("gpu_no_answer",),
                ),
                Case(
                    "another collector fails",
                    {series("gpuminutes_collect_success", node="n1", collector="nfs"): "1x39 0x19 1x20"},
                ),
            ),
            why="The exporter waits for the driver and knows nothing of any GPU of this node.",
        ),
    ),
)
