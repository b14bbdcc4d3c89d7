"""KV cache exhausted."""

from warehouse.causes import vllm
from warehouse.causes.examples import dcgm, series
from warehouse.model.cause import Case, Cause, Detector, Threshold, Told
from warehouse.model.state import State

# Requests and token intervals outside their objectives: the larger share, since a preempted prefill shows in the time
# to the first token and a preempted decode in that to the next.
_LATE = " or ".join(
    f"({vllm.late_share(histogram, slo, 'endpoint, le')})"
    for histogram, slo in ((vllm.FIRST_TOKEN, "first_token_s"), *((name, "next_token_s") for name in vllm.NEXT_TOKEN))
)


def _full(usage: str = "vllm:kv_cache_usage_perc", slow: int = 0) -> dict[str, str]:
    """Gives an endpoint whose cache is full from the tenth minute to the twentieth."""
    return {
        **vllm.said(usage, "0.62x39 0.99x39 0.7x39"),
        **vllm.said("vllm:num_preemptions_total", vllm.counter((40, 0), (40, 3), (40, 0))),
        **vllm.first_token((40, 30, 0), (40, 30 - slow, slow), (40, 30, 0)),
        **vllm.next_token((40, 30, 0), (40, 30, 0), (40, 30, 0)),
    }


# As dcgm-exporter names the pod that holds a GPU.
_BY_DCGM = {
    series("DCGM_FI_DEV_GPU_TEMP", dcgm(index), exported_pod="chat-0", exported_namespace="serving"): "60x119"
    for index in (0, 1)
}


CAUSE = Cause(
    title="KV cache exhausted",
    rank=74,
    state=State.UNUSABLE,
    owner="serving",
    signature=(
        "vllm:kv_cache_usage_perc (older: vllm:gpu_cache_usage_perc) is above 0.95 while vllm:num_preemptions_total "
        "rises: running requests lose their cache and are computed again."
    ),
    duration="minutes",
    blast="endpoint",
    source="vLLM documentation; field experience, no figure",
    first_step="Add a replica or lower the number of sequences per replica.",
    payer="tenant",
    runbook=(
        "Look at vllm:kv_cache_usage_perc and rate(vllm:num_preemptions_total[5m]) of every replica: one, or all.",
        "If one replica alone is full, take it out of the load balancer and let it drain.",
        "If all are full, add a replica, or limit what comes in at the gateway.",
        "Compare vllm:request_prompt_tokens with yesterday: longer prompts need more cache at the same request rate.",
        "Restart with a lower --max-num-seqs, or a higher --gpu-memory-utilization where memory is free.",
        "Watch until the preemptions stop and the times to first and next token are within their objectives.",
    ),
    other_sources=("vLLM's log, which warns of preemptions", "a person: import evidence"),
    detectors=(
        Detector(
            key="kv_cache_full",
            version=1,
            # Preemptions first: their name is the same in every version.
            expr=(
                "sum by (endpoint) (rate(vllm:num_preemptions_total[$window])) > $min_preemptions_per_s "
                "and on (endpoint) max by (endpoint) (max_over_time(vllm:kv_cache_usage_perc[$window]) "
                "or max_over_time(vllm:gpu_cache_usage_perc[$window])) > $min_usage_ratio"
            ),
            scope="endpoint",
            state=State.UNUSABLE,
            min_duration_ms=120_000,
            window_ms=125_000,
            window_of="max",
            # Preemptions come in bursts.
            stitch_ms=120_000,
            lost_expr=f"clamp(max by (endpoint) ({_LATE}), 0, 1)",
            thresholds=(
                Threshold("min_usage_ratio", 0.95, "of the cache", "above it, new tokens find no block; our judgement"),
                Threshold(
                    "min_preemptions_per_s",
                    0.05,
                    "preemptions/s",
                    "three a minute; a single one now and then costs little; our judgement",
                ),
                vllm.FIRST_TOKEN_SLO,
                vllm.NEXT_TOKEN_SLO,
            ),
            cases=(
                Case(
                    "full for ten minutes, and every request still within its objectives",
                    _full() | vllm.on_gpus(120),
                    told=(Told("chat-0", 600, 1200, lost_ppm=0),),
                ),
                Case(
                    "full and late, by the older name, placed by dcgm-exporter",
                    _full("vllm:gpu_cache_usage_perc", slow=6) | _BY_DCGM,
                    told=(Told("chat-0", 600, 1200),),
                    also=("endpoint_first_token_late",),
                ),
                Case(
                    "full without a preemption: it fits",
                    vllm.said("vllm:kv_cache_usage_perc", "0.62x39 0.99x39 0.7x39")
                    | vllm.said("vllm:num_preemptions_total", "7x119")
                    | vllm.on_gpus(120),
                ),
                Case(
                    "a preemption now and then",
                    vllm.said("vllm:kv_cache_usage_perc", "0.97x119")
                    | vllm.said("vllm:num_preemptions_total", "0x39 1x39 2x39")
                    | vllm.on_gpus(120),
                ),
            ),
            why="The KV cache is full and requests are preempted: their tokens are computed twice.",
        ),
    ),
)
