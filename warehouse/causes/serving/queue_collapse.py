"""Request queue collapsed."""

from warehouse.causes import vllm
from warehouse.model.cause import Case, Cause, Detector, Threshold, Told
from warehouse.model.state import State

_WAITING = "sum by (endpoint) (vllm:num_requests_waiting)"
# As long as what is being served: a new request waits for a whole round of the batch.
_LONG_QUEUE = (
    f"{_WAITING} > $min_waiting and on (endpoint) "
    f"{_WAITING} > on (endpoint) $min_queue_ratio * sum by (endpoint) (vllm:num_requests_running)"
)
_GENERATED = "sum by (endpoint) (rate(vllm:generation_tokens_total[$window]))"
_FLAT = (
    f"{_GENERATED} <= on (endpoint) "
    "$max_token_growth * sum by (endpoint) (rate(vllm:generation_tokens_total[$window] offset $window))"
)
_ENOUGH_FIRST = f"sum by (endpoint) (rate({vllm.FIRST_TOKEN}_count[$window])) > $min_requests_per_s"
_FIRST_SHARE = vllm.late_share(vllm.FIRST_TOKEN, "first_token_s")
# Of requests where vLLM times them, else of the intervals between tokens.
_NEXT_SHARE = vllm.first_of([vllm.late_share(name, "next_token_s") for name in vllm.NEXT_TOKEN])


def _queue(waiting: str, *late: tuple[int, float, float]) -> dict[str, str]:
    """Gives an endpoint with 20 requests in its batch and 9,000 tokens a scrape, whatever waits."""
    samples = sum(phase[0] for phase in late)
    return {
        **vllm.said("vllm:num_requests_waiting", waiting),
        **vllm.said("vllm:num_requests_running", f"20x{samples - 1}"),
        **vllm.said("vllm:generation_tokens_total", vllm.counter((samples, 9000))),
        **vllm.first_token(*late),
        **vllm.on_gpus(samples),
    }


_COLLAPSE = Detector(
    key="endpoint_queue_collapse",
    version=1,
    expr=(
        f"{_LONG_QUEUE} "
        "and on (endpoint) sum by (endpoint) (deriv(vllm:num_requests_waiting[$window])) > $min_growth_per_s "
        f"and on (endpoint) {_FLAT} and on (endpoint) {_FIRST_SHARE} > $max_late_share"
    ),
    # A queue that is full grows no more: growth tells which queues collapsed, their length how long it lasted.
    onset_expr=_LONG_QUEUE,
    scope="endpoint",
    state=State.UNUSABLE,
    min_duration_ms=120_000,
    window_ms=310_000,
    stitch_ms=60_000,
    severity="page",
    lost_expr=f"clamp({_FIRST_SHARE}, 0, 1)",
    thresholds=(
        Threshold("min_waiting", 10, "requests", "fewer are a burst; our judgement"),
        Threshold(
            "min_queue_ratio",
            1,
            "of the running requests",
            "as many wait as are served: each waits for a whole round; our judgement",
        ),
        Threshold("min_growth_per_s", 0.05, "requests/s", "three more a minute, over five of them; our judgement"),
        Threshold("max_token_growth", 1.1, "times", "a tenth more than before is no more output; our judgement"),
        vllm.FIRST_TOKEN_SLO,
        vllm.MOST_LATE,
    ),
    cases=(
        Case(
            "the queue grows for twenty minutes while no more tokens come out",
            _queue("0x39 8+8x79 0x39", (42, 30, 0), (78, 0, 30), (40, 30, 0)),
            told=(Told("chat-0", 630, 1800),),
            also=("endpoint_first_token_late",),
        ),
        Case(
            "a burst that drains within a minute",
            _queue("0x39 60 45 30 15 0x75", (40, 30, 0), (4, 27, 3), (76, 30, 0)),
        ),
        Case(
            "a queue that is long and served in time",
            _queue("0x39 8+8x79", (120, 30, 0)),
        ),
    ),
    why="Requests queue up faster than they are served, and the first token comes too late for them.",
)

_FIRST_LATE = Detector(
    key="endpoint_first_token_late",
    version=1,
    expr=f"{_ENOUGH_FIRST} and on (endpoint) {_FIRST_SHARE} > $max_late_share",
    scope="endpoint",
    state=State.UNUSABLE,
    min_duration_ms=300_000,
    window_ms=125_000,
    window_of="max",
    stitch_ms=120_000,
    severity="page",
    lost_expr=f"clamp({_FIRST_SHARE}, 0, 1)",
    thresholds=(vllm.FIRST_TOKEN_SLO, vllm.MOST_LATE, vllm.LEAST_REQUESTS),
    cases=(
        Case(
            "every third first token is late for ten minutes",
            vllm.first_token((40, 30, 0), (40, 20, 10), (40, 30, 0)) | vllm.on_gpus(120),
            told=(Told("chat-0", 600, 1200),),
        ),
        Case(
            "one in five is late all the time: a fifth is lost",
            vllm.first_token((80, 24, 6)) | vllm.on_gpus(80),
            told=(Told("chat-0", 15, None, lost_ppm=200_000),),
        ),
        Case("one in two hundred is late", vllm.first_token((80, 199, 1)) | vllm.on_gpus(80)),
        Case("late, and hardly anybody asks", vllm.first_token((80, 1, 1)) | vllm.on_gpus(80)),
    ),
    why="More requests than may be wait too long for their first token.",
)

_NEXT_LATE = Detector(
    key="endpoint_next_token_late",
    version=1,
    expr=f"{_ENOUGH_FIRST} and on (endpoint) {_NEXT_SHARE} > $max_late_share",
    scope="endpoint",
    state=State.UNUSABLE,
    min_duration_ms=300_000,
    window_ms=125_000,
    window_of="max",
    stitch_ms=120_000,
    lost_expr=f"clamp({_NEXT_SHARE}, 0, 1)",
    thresholds=(vllm.NEXT_TOKEN_SLO, vllm.MOST_LATE, vllm.LEAST_REQUESTS),
    cases=(
        Case(
            "every second request decodes too slowly for ten minutes",
            vllm.first_token((120, 30, 0))
            | vllm.next_token((40, 30, 0), (40, 15, 15), (40, 30, 0))
            | vllm.on_gpus(120),
            told=(Told("chat-0", 600, 1200),),
        ),
        Case(
            "token intervals by the oldest name, a quarter late all the time",
            vllm.first_token((80, 30, 0))
            | vllm.next_token((80, 3000, 1000), name=vllm.NEXT_TOKEN[2])
            | vllm.on_gpus(80),
            told=(Told("chat-0", 15, None, lost_ppm=250_000),),
        ),
        Case(
            "a thousandth of the requests decodes slowly",
            vllm.first_token((80, 1000, 0)) | vllm.next_token((80, 999, 1)) | vllm.on_gpus(80),
        ),
    ),
    why="More requests than may be get their tokens too slowly.",
)

_STALLED = Detector(
    key="endpoint_stalled",
    version=1,
    expr=(
        f"{_GENERATED} == 0 and on (endpoint) sum by (endpoint) (min_over_time(vllm:num_requests_running[$window])) > 0"
    ),
    scope="endpoint",
    state=State.UNUSABLE,
    # The definition of hung asks for 5 min without progress.
    min_duration_ms=300_000,
    window_ms=125_000,
    window_of="min",
    severity="page",
    cases=(
        Case(
            "the engine stands still with requests in its batch",
            vllm.said("vllm:num_requests_running", "20x119")
            | vllm.said("vllm:num_requests_waiting", "0x39 4+4x39 0x39")
            | vllm.said("vllm:generation_tokens_total", vllm.counter((40, 9000), (40, 0), (40, 9000)))
            | vllm.on_gpus(120),
            told=(Told("chat-0", 600, 1200),),
        ),
        Case(
            "nobody asks for anything",
            vllm.said("vllm:num_requests_running", "20x39 0x39 20x39")
            | vllm.said("vllm:generation_tokens_total", vllm.counter((40, 9000), (40, 0), (40, 9000)))
            | vllm.on_gpus(120),
        ),
        Case(
            "a long prompt: two minutes without a token",
            vllm.said("vllm:num_requests_running", "1x119")
            | vllm.said("vllm:generation_tokens_total", vllm.counter((40, 900), (8, 0), (72, 900)))
            | vllm.on_gpus(120),
        ),
    ),
    why="Requests are in the batch and no token comes out: the engine stands still.",
)

CAUSE = Cause(
    title="Request queue collapsed",
    rank=74,
    state=State.UNUSABLE,
    owner="serving",
    signature=(
        "vllm:num_requests_waiting grows past what runs and p99 time to first token is outside its objective while "
        "generated tokens per second stay flat; or an objective is missed without a queue; or no token comes out."
    ),
    duration="minutes",
    blast="endpoint",
    source="vLLM documentation, MLPerf latency limits",
    first_step="Shed or route load away first, then add replicas.",
    payer="tenant",
    runbook=(
        "Shed load at the gateway, or send it to another pool, until vllm:num_requests_waiting falls.",
        "Compare vllm:num_requests_waiting of all replicas: one that stands out is sick, all together are overloaded.",
        "If no token comes out of a replica, read its log, save a stack with py-spy dump, and restart the pod.",
        "Look for a cause below: gpuminutes_gpu_clock_event_active, Xids and gpuminutes_gpu_up of the replica's GPUs.",
        "If all is well below, add replicas, and compare prompt lengths and request rates with the day before.",
        "Watch until the 99th percentile of vllm:time_to_first_token_seconds is back within its objective.",
    ),
    other_sources=("access log of the gateway", "a person: import evidence"),
    detectors=(_COLLAPSE, _FIRST_LATE, _NEXT_LATE, _STALLED),
)
