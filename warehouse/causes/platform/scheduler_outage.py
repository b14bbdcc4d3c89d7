"""Scheduler outage."""

from warehouse.causes.examples import gpu, series
from warehouse.model.cause import Case, Cause, Detector, Told
from warehouse.model.state import State

_FREE = "max by (node, slot, uuid) (gpuminutes_gpu_allocated) == 0"


def _free(**up: str) -> dict[str, str]:
    """Gives one free and one held GPU, and scrapes by job."""
    scrapes = {
        series("up", job=job.replace("_", "-"), instance=f"ctl{number}:8080"): values
        for job, said in up.items()
        for number, values in enumerate(said.split(";"))
    }
    held = {series("gpuminutes_gpu_allocated", gpu(index)): f"{index}x119" for index in (0, 1)}
    return scrapes | held


def _outage(job: str) -> str:
    """Gives the free GPUs while not one scrape of the scheduler answers."""
    return f'{_FREE} and on () (max(up{{job="{job}"}}) == 0)'


def _rarely(job: str) -> str:
    return (
        "min by (node) (min_over_time(gpuminutes_gpu_allocated[$span])) == 0"
        f' and on () (count(min_over_time(up{{job="{job}"}}[$span]) == 0))'
    )


CAUSE = Cause(
    title="Scheduler outage",
    rank=62,
    state=State.IDLE_BLOCKED,
    owner="platform",
    signature=(
        'Every scrape of Slurm\'s controller (`up{job="slurm"}`) or of the API servers (`up{job="apiserver"}`) fails, '
        "so that no free GPU can be given out; kube-state-metrics alone being down proves nothing."
    ),
    duration="minutes to hours",
    blast="fleet",
    source="field experience, no figure",
    first_step="Restore the scheduler before anything else: running jobs go on, freed GPUs stay empty.",
    payer="provider",
    runbook=(
        "Ask it from a login node: `scontrol ping` or `kubectl get --raw /readyz?verbose`.",
        "If it answers, the exporter is dead and not the scheduler: restart that, and correct the incident.",
        "On the controller, read why it stopped: `journalctl -u slurmctld -n 200`, or API server and etcd.",
        "Look at its disk and memory: a full StateSaveLocation or etcd quota stops it at once.",
        "Start it, or move to the backup: `scontrol takeover`; then see jobs start: `squeue -t R --sort=-S | head`.",
    ),
    other_sources=("Alertmanager", "Kubernetes events", "a person: import evidence"),
    detectors=(
        Detector(
            key="slurm_silent",
            version=1,
            expr=_outage("slurm"),
            coarse=_rarely("slurm"),
            scope="gpu",
            state=State.IDLE_BLOCKED,
            min_duration_ms=300_000,
            basis="inferred",
            severity="page",
            cases=(
                Case(
                    "the controller is gone for ten minutes",
                    _free(slurm="1x39 0x39 1x39"),
                    told=(Told("n1/0", 600, 1200),),
                ),
                Case("one of two controllers is gone", _free(slurm="1x39 0x39 1x39;1x119")),
                Case("a restart", _free(slurm="1x39 0x7 1x71")),
            ),
            why="Nothing of Slurm's controller answers, and this GPU is free: nobody can give it out.",
        ),
        Detector(
            key="apiserver_silent",
            version=1,
            expr=_outage("apiserver"),
            coarse=_rarely("apiserver"),
            scope="gpu",
            state=State.IDLE_BLOCKED,
            min_duration_ms=300_000,
            basis="inferred",
            severity="page",
            cases=(
                Case(
                    "all API servers are gone for ten minutes",
                    _free(apiserver="1x39 0x39 1x39;1x35 0x43 1x39"),
                    told=(Told("n1/0", 600, 1200),),
                ),
                Case("kube-state-metrics alone is gone", _free(apiserver="1x119", kube_state_metrics="1x39 0x39 1x39")),
            ),
            why="No API server answers, and this GPU is free: nobody can give it out.",
        ),
    ),
)
