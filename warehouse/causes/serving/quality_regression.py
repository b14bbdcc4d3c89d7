"""Answers got worse."""

from warehouse.causes import vllm
from warehouse.causes.examples import series
from warehouse.model.cause import Case, Cause, Detector, Threshold, Told
from warehouse.model.state import State

_RECENT = "and on (endpoint, suite) time() - gpuminutes_canary_run_timestamp_seconds < $max_age_s"


def _canary(score: str, run: str, suite: str = "facts") -> dict[str, str]:
    """Gives what a canary pushes: its score, and when it ran."""
    return {
        series("gpuminutes_canary_score", endpoint="chat-0", suite=suite): score,
        series("gpuminutes_canary_run_timestamp_seconds", endpoint="chat-0", suite=suite): run,
    }


CAUSE = Cause(
    title="Answers got worse",
    rank=75,
    state=State.UNUSABLE,
    owner="serving",
    signature=(
        "An evaluation or canary score falls below its threshold after a deploy: gpuminutes_canary_score, which the "
        "site pushes."
    ),
    duration="hours to days",
    blast="endpoint",
    source="field experience, no figure",
    first_step="Roll back to the last model or image that passed the evaluation.",
    payer="tenant",
    runbook=(
        "Ask the endpoint one failing canary prompt by hand, at temperature 0, and compare it with the stored answer.",
        "List what changed since the score fell: kubectl rollout history, the model's revision, sampling defaults.",
        "Roll back to the last model or image whose suite passed, and run the canary again.",
        "If one replica alone answers badly, take it out, and run dcgmi diag -r 3 on its GPUs: suspect corruption.",
        "Tell whoever used the answers since the score fell: they were served all the same.",
    ),
    other_sources=("an evaluation after each deploy", "complaints of users", "a person: import evidence"),
    detectors=(
        Detector(
            key="canary_failing",
            version=1,
            expr=f"min by (endpoint) (gpuminutes_canary_score < $min_score {_RECENT})",
            scope="endpoint",
            state=State.UNUSABLE,
            # Two runs of a canary that runs every five minutes or more often: one bad run is chance.
            min_duration_ms=600_000,
            severity="page",
            lost_expr=f"clamp(1 - min by (endpoint) (gpuminutes_canary_score {_RECENT}), 0, 1)",
            thresholds=(
                Threshold("min_score", 0.9, "of the prompts", "depends on the suite: set your own; our judgement"),
                Threshold("max_age_s", 3600, "s", "a canary that has not run for an hour says nothing; our judgement"),
            ),
            cases=(
                Case(
                    "two of five prompts fail after a deploy",
                    _canary("0.98x39 0.6x79 0.98x39", "0+15x159") | vllm.on_gpus(160),
                    told=(Told("chat-0", 600, 1800, lost_ppm=400_000),),
                ),
                Case(
                    "one of two suites fails",
                    _canary("0.98x159", "0+15x159")
                    | _canary("0.95x39 0.5x79 0.95x39", "0+15x159", "sums")
                    | vllm.on_gpus(160),
                    told=(Told("chat-0", 600, 1800, lost_ppm=500_000),),
                ),
                Case(
                    "a score that the gateway kept from a canary that died long ago",
                    _canary("0.6x79", "-4000x79") | vllm.on_gpus(80),
                ),
                Case("one bad run", _canary("0.98x39 0.6x19 0.98x39", "0+15x99") | vllm.on_gpus(100)),
            ),
            why="The canary's score is under its threshold: the endpoint answers, and answers badly.",
        ),
    ),
)
