"""KV cache exhausted."""

from warehouse.model.cause import Cause
from warehouse.model.state import State

CAUSE = Cause(
    title="KV cache exhausted",
    rank=74,
    state=State.UNUSABLE,
    owner="serving",
    signature="vllm:kv_cache_usage_perc is above 0.95 while vllm:num_preemptions_total rises.",
    duration="minutes",
    blast="endpoint",
    source="vLLM documentation; field experience, no figure",
    first_step="Add a replica or lower the number of sequences per replica.",
)
