"""Series that no exporter has and that a site pushes itself, by this convention: what detectors may read of them.

They begin like ours, so that one name finds everything, but no exporter writes them and none stands in for them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

PUSHED_PREFIX: Final = "gpuminutes_canary_"


@dataclass(frozen=True, slots=True)
class Pushed:
    """A family that a site pushes: its name, type and labels, and what its values mean."""

    name: str
    type: str
    labels: tuple[str, ...]
    help: str


PUSHED: Final = (
    Pushed(
        "gpuminutes_canary_score",
        "gauge",
        ("endpoint", "suite"),
        "Share of a suite's canary prompts that the endpoint answered acceptably in the last run, 0 to 1.",
    ),
    Pushed(
        "gpuminutes_canary_run_timestamp_seconds",
        "gauge",
        ("endpoint", "suite"),
        "Unix time of that run; a gateway keeps an old score for ever, so a score without a recent run says nothing.",
    ),
)
