"""Alert and recording rules from the catalogue: the same expressions, thresholds and durations as the detectors.

An alert makes people and the worker look sooner; the ledger is written from what the detectors then find. So a rule
that is silenced, inhibited or lost changes no figure.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby

from warehouse.detect.observe import catalogue
from warehouse.detect.render import IDENTITY, alert_expr
from warehouse.detect.site import Site
from warehouse.model.cause import Cause, Detector
from warehouse.model.time import MS_PER_SECOND

HEARTBEAT = "GpuMinutesHeartbeat"
"""An alert that always fires: where it is missing, alerts do not arrive."""

DETECTOR_LABEL = "gpu_minutes_detector"
"""Names the detector of an alert, so that whoever receives it knows what to look at."""

Rule = dict[str, object]


@dataclass(frozen=True, slots=True)
class RuleSettings:
    """How rules are written: the interval of the scrapes, of their evaluation, and where the runbooks are."""

    scrape_ms: int
    every_ms: int
    runbooks: str


def rule_file(site: Site, settings: RuleSettings) -> dict[str, list[Rule]]:
    """Gives the rule file as Prometheus reads it: a group per category of causes, and one for the heartbeat.

    What joins several series of each GPU is recorded first, so that it is evaluated once and asking for a day of it is
    cheap; the alert reads the recording.
    """
    groups: list[Rule] = [_group("gpu-minutes", [_heartbeat()], settings)]
    judged = sorted(catalogue(site), key=lambda one: one[0].code)
    for category, members in groupby(judged, key=lambda one: one[0].code.partition("/")[0]):
        rules = [rule for cause, d in members if d.fan_in is None for rule in _rules(cause, d, site, settings)]
        if rules:
            groups.append(_group(f"gpu-minutes-{category}", rules, settings))
    return {"groups": groups}


def alert_name(key: str) -> str:
    """Gives the name of a detector's alert."""
    return "GpuMinutes" + "".join(word.capitalize() for word in key.split("_"))


def recorded_name(detector: Detector) -> str:
    """Gives the name under which a detector's answer is recorded."""
    return f"{detector.scope}:gpuminutes_{detector.key}:true"


def _rules(cause: Cause, detector: Detector, site: Site, settings: RuleSettings) -> list[Rule]:
    expr = alert_expr(detector, site, settings.scrape_ms)
    if not expr:
        return []
    if not detector.coarse:
        return [_alert(cause, detector, expr, site, settings)]
    name = recorded_name(detector)
    return [{"record": name, "expr": expr}, _alert(cause, detector, name, site, settings)]


def _alert(cause: Cause, detector: Detector, expr: str, site: Site, settings: RuleSettings) -> Rule:
    category, _, name = cause.code.partition("/")
    where = ", ".join(f"{label} {{{{ $labels.{label} }}}}" for label in IDENTITY[detector.scope])
    rule: Rule = {"alert": alert_name(detector.key), "expr": expr}
    lasting_ms = site.min_duration_ms(detector)
    if lasting_ms:
        rule["for"] = f"{lasting_ms // MS_PER_SECOND}s"
    rule["labels"] = {
        "severity": detector.severity,
        DETECTOR_LABEL: detector.key,
        "cause": cause.code,
        "state": str(detector.state),
        "owner": cause.owner,
    }
    rule["annotations"] = {
        "summary": f"{cause.title}: {where}",
        "description": f"{detector.why} First: {cause.first_step}",
        "runbook_url": f"{settings.runbooks}{category}.md#{name}",
    }
    return rule


def _heartbeat() -> Rule:
    return {
        "alert": HEARTBEAT,
        "expr": "vector(1)",
        "labels": {"severity": "none"},
        "annotations": {"summary": "Alerts reach their receivers. This one always fires; its absence is the alarm."},
    }


def _group(name: str, rules: list[Rule], settings: RuleSettings) -> Rule:
    return {"name": name, "interval": f"{settings.every_ms // MS_PER_SECOND}s", "rules": rules}
