"""Where few can be hit, only those are asked finely; nobody else is judged by the part of them that was asked."""

from __future__ import annotations

from pathlib import Path

from tests.detect.fleet import SCRAPE_MS, Fleet, Truth, address_of, between, never
from tests.detect.server import Server, Signals
from warehouse.detect.observe import observe
from warehouse.detect.site import Site
from warehouse.detect.words import Settings
from warehouse.evidence.prometheus import PrometheusClient, Series
from warehouse.model.cause import Detector
from warehouse.model.state import State
from warehouse.model.time import MS_PER_MINUTE, Window, parse_instant

HOUR = Window(parse_instant("2026-03-12T10:00:00Z"), parse_instant("2026-03-12T11:00:00Z"))
FLEET = Fleet(("n1", "n2", "n3", "n4"), gpus=2)


class Listening(PrometheusClient):
    """A client that remembers what was asked over a range."""

    asked: list[str]

    def query_range(self, expr: str, window: Window, step_ms: int, *more: int) -> list[Series]:
        """As the client's own."""
        self.asked.append(expr)
        return super().query_range(expr, window, step_ms, *more)


def hold(signals: Signals, job: str, gpus: tuple[tuple[str, int], ...], quiet: Truth) -> None:
    """Adds the readings of a job's GPUs: busy all hour, near idle power while they are quiet."""
    for tick in range(HOUR.length_ms // SCRAPE_MS):
        at_ms = HOUR.start_ms + tick * SCRAPE_MS + 2_000
        for node, position in gpus:
            labels = {"node": node, "slot": address_of(position), "uuid": f"GPU-{node}-{position}"}
            signals.put("gpuminutes_gpu_up", at_ms, 1.0, **labels)
            signals.put("gpuminutes_gpu_utilization_ratio", at_ms, 1.0, **labels)
            signals.put("gpuminutes_gpu_power_watts", at_ms, 160.0 if quiet(at_ms) else 620.0, **labels)
            signals.put("gpuminutes_gpu_power_limit_watts", at_ms, 700.0, kind="enforced", **labels)
            signals.put("gpuminutes_gpu_workload_info", at_ms, 1.0, kind="slurm", job_id=job, **labels)
            if position == 0:
                signals.put("up", at_ms, 1.0, job="gpu-minutes", node=node)


_HELD = 'gpuminutes_gpu_workload_info{job_id!=""}'
QUIET_JOB = Detector(
    key="quiet_job",
    version=1,
    expr=f"avg by (job_id) ({_HELD} * on (uuid) group_left () gpuminutes_gpu_power_watts) < 300",
    # The mean of the lowest readings is at most the mean at any instant.
    coarse=(
        f"avg by (job_id) (max by (uuid, job_id) (max_over_time({_HELD}[$span])) * on (uuid) group_left () "
        "min by (uuid) (min_over_time(gpuminutes_gpu_power_watts[$span]))) < 300"
    ),
    scope="job",
    state=State.HUNG,
    min_duration_ms=60_000,
    why="The mean power of the job's GPUs is low.",
)


def test_a_job_that_shares_a_node_with_a_found_one_is_not_judged_by_its_part(
    any_server: Server, tmp_path: Path
) -> None:
    """Job 2 has one quiet GPU beside job 1, and two that compute: on the nodes of job 1 alone it would look quiet."""
    signals, quiet = Signals(), between(HOUR.start_ms + 20 * MS_PER_MINUTE, HOUR.start_ms + 32 * MS_PER_MINUTE)
    hold(signals, "1", (("n1", 0), ("n1", 1), ("n2", 0)), quiet)
    hold(signals, "2", (("n2", 1),), quiet)
    hold(signals, "2", (("n3", 0), ("n3", 1)), never)
    hold(signals, "3", (("n4", 0), ("n4", 1)), never)
    settings = Settings(site=Site(custom=(("symptom/collective_timeout", QUIET_JOB),)))
    with any_server(tmp_path, signals) as address, Listening(address, timeout_s=30) as client:
        client.asked = []
        seen = observe(HOUR, client, FLEET, [], settings, {"quiet_job"})
        fine = [expr for expr in client.asked if "group_left" in expr]
        assert [(item.job, item.scope) for item in seen.evidence] == [("1", "n1+n2/0")]
        assert fine and all('node=~"n1|n2"' in expr for expr in fine)
