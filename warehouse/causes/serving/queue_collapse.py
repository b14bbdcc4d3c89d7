"""Request queue collapsed."""

from warehouse.model.cause import Cause
from warehouse.model.state import State

CAUSE = Cause(
    title="Request queue collapsed",
    rank=74,
    state=State.UNUSABLE,
    owner="serving",
    signature=(
        "vllm:num_requests_waiting grows and p99 time to first token is outside its objective while "
        "generated tokens per second stay flat."
    ),
    duration="minutes",
    blast="endpoint",
    source="vLLM documentation, MLPerf latency limits",
    first_step="Shed or route load away first, then add replicas.",
)
