"""What vLLM says of an endpoint: expressions over it, and its series for worked examples.

Names as in vllm/v1/metrics/loggers.py, where the older ones are marked deprecated. Every engine of a server has series
of its own, so that everything is summed by endpoint. That more than one request in a hundred is over a bound says the
same as that the 99th percentile is over it, from two series instead of all of a histogram's.
"""

from __future__ import annotations

from collections.abc import Sequence

from warehouse.causes.examples import ADDRESSES, gpu, series
from warehouse.model.cause import Threshold

FIRST_TOKEN = "vllm:time_to_first_token_seconds"
# Per request where vLLM has it, else per interval between two tokens, by its newer and its older name.
NEXT_TOKEN = (
    "vllm:request_time_per_output_token_seconds",
    "vllm:inter_token_latency_seconds",
    "vllm:time_per_output_token_seconds",
)

# Bounds of the buckets that every version has: a share can be told at these alone.
_FIRST_BOUNDS = (0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0)
_NEXT_BOUNDS = (0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5)

FIRST_TOKEN_SLO = Threshold(
    "first_token_s",
    2.5,
    "s",
    "MLPerf's server scenario asks 2 s of Llama 2 70B, recalled; the next bound of the buckets; set your own objective",
    _FIRST_BOUNDS,
)
NEXT_TOKEN_SLO = Threshold(
    "next_token_s",
    0.2,
    "s",
    "MLPerf's server scenario asks 200 ms of Llama 2 70B, recalled; set your own objective",
    _NEXT_BOUNDS,
)
MOST_LATE = Threshold(
    "max_late_share",
    0.01,
    "of requests",
    "MLPerf holds the 99th percentile to its limits: one in a hundred may be late",
)
LEAST_REQUESTS = Threshold("min_requests_per_s", 0.5, "requests/s", "a share of fewer says too little; our judgement")


def late_share(histogram: str, slo: str, by: str = "endpoint") -> str:
    """Gives the share of observations above an objective, 0 to 1, which is a bound of the buckets.

    With `le` in `by`, shares of two histograms can stand side by side in one vector.
    """
    # Clients write the bound 1 as `1` or as `1.0`.
    within = f'sum by ({by}) (rate({histogram}_bucket{{le=~"${slo}([.]0)?"}}[$window]))'
    return f"1 - {within} / on (endpoint) group_left () sum by (endpoint) (rate({histogram}_count[$window]))"


def first_of(parts: Sequence[str]) -> str:
    """Gives, per endpoint, the first of several expressions that says something."""
    return "(" + " or ".join(f"({part})" for part in parts) + ")"


def counter(*phases: tuple[int, float]) -> str:
    """Gives a counter in promtool's notation, by phases of (samples, increase at each sample)."""
    words, at = [], 0.0
    for samples, step in phases:
        words.append(f"{at + step:g}+{step:g}x{samples - 1}")
        at += samples * step
    return " ".join(words)


def said(name: str, values: str, pod: str = "chat-0", /, **more: str) -> dict[str, str]:
    """Gives a series of vLLM as the scrape of its pod writes it."""
    labels = {"engine": "0", "model_name": "llama", "pod": pod, "namespace": "serving", "job": "vllm"}
    return {series(name, {**labels, **more}): values}


def histogram(
    name: str, bounds: Sequence[str], *phases: tuple[int, float, float], pod: str = "chat-0"
) -> dict[str, str]:
    """Gives a histogram by phases of (samples, fast and slow observations at each sample).

    Fast ones lie below the first bound, slow ones between the last two.
    """
    found: dict[str, str] = {}
    for bound in (*bounds, "+Inf"):
        slow = bound in (bounds[-1], "+Inf")
        values = counter(*((samples, fast + late * slow) for samples, fast, late in phases))
        found |= said(f"{name}_bucket", values, pod, le=bound)
    return found | said(f"{name}_count", counter(*((samples, fast + late) for samples, fast, late in phases)), pod)


def first_token(*phases: tuple[int, float, float]) -> dict[str, str]:
    """Gives times to first token, the slow ones of 5 to 10 seconds."""
    return histogram(FIRST_TOKEN, ("1.0", "2.5", "5.0", "10.0"), *phases)


def next_token(*phases: tuple[int, float, float], name: str = NEXT_TOKEN[0]) -> dict[str, str]:
    """Gives times per output token, the slow ones of 0.4 to 0.5 seconds."""
    return histogram(name, ("0.05", "0.2", "0.4", "0.5"), *phases)


def on_gpus(samples: int, pod: str = "chat-0") -> dict[str, str]:
    """Gives the pod on both GPUs of a node, as our exporter writes it."""
    workload = {"kind": "k8s", "pod": pod, "namespace": "serving", "container": "vllm"}
    return {
        series("gpuminutes_gpu_workload_info", {**gpu(index), **workload}): f"1x{samples - 1}"
        for index in range(len(ADDRESSES))
    }
