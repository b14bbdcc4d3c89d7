"""The scenario of the exporter: the same fleet from now on, and what goes wrong in every hour of it."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence

from warehouse.demo.fleet import ALL_NODES, GPUS_PER_NODE, MODEL

_PERIOD_S = 3_600
_TURN_S = 900

# A detector wants 30 s of silence or loss, and 5 min of a hang; the first silence begins after two scrapes of health.
_FIRST_AT_S = 20
_DOWN_S = 100
_LOST_AT_S, _LOST_S = 45, 240
_HANG_AT_S, _HANG_S = 150, 560
_HOT_AT_S, _HOT_S = 300, 240


def make_scenario(rng: random.Random, running: Mapping[str, Sequence[str]]) -> dict[str, object]:
    """Gives the scenario: four turns an hour, each with a lost node, a lost GPU, a hung job and a hot node.

    Args:
        rng: chooses who is hit.
        running: nodes of each job; a hang takes a whole training job, the rest hits other nodes.
    """
    trainers = sorted(job for job in running if job.startswith("finetune"))
    services = sorted(node for job, nodes in running.items() if job.startswith("serve") for node in nodes)
    large = sorted(node for job, nodes in running.items() if job.startswith("pretrain") for node in nodes)
    faults: list[dict[str, object]] = []
    for base_s in range(0, _PERIOD_S, _TURN_S):
        gpu = rng.randrange(GPUS_PER_NODE)
        lost, hot = rng.sample(large, 2)
        faults += [
            _fault(base_s + _FIRST_AT_S, _DOWN_S, "node_down", rng.choice(services)),
            _fault(base_s + _LOST_AT_S, _LOST_S, "gpu_lost", lost, gpu),
            _fault(base_s + _HANG_AT_S, _HANG_S, "hang", running[rng.choice(trainers)][0]),
            _fault(base_s + _HOT_AT_S, _HOT_S, "thermal", hot),
        ]
    return {
        "nodes": list(ALL_NODES),
        "gpus_per_node": GPUS_PER_NODE,
        "model": MODEL,
        "jobs": [{"job": job, "nodes": list(nodes)} for job, nodes in sorted(running.items())],
        "faults": faults,
        "repeat_s": _PERIOD_S,
        "seed": rng.randrange(2**32),
    }


def _fault(at_s: int, duration_s: int, kind: str, node: str, gpu: int | None = None) -> dict[str, object]:
    found: dict[str, object] = {"at_s": at_s, "duration_s": duration_s, "kind": kind, "nodes": [node]}
    return found if gpu is None else {**found, "gpu": gpu}
