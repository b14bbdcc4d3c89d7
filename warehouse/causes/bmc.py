"""Alarms of a node's management controller as detectors, by the kind of sensor."""

from __future__ import annotations

from warehouse.causes.examples import series
from warehouse.model.cause import Case, Detector, Threshold, Told
from warehouse.model.state import State

CRITICAL = 2.0
WARNING = 1.0


def alarm(key: str, kinds: str, kind: str, state: State, why: str, least: float = CRITICAL) -> Detector:
    """Gives a detector of sensors of some kinds that are in alarm, as ipmi_exporter says it.

    An alarm is an event and has no length: a part in alarm takes no GPU from anybody by itself. What it takes is told
    by others, and this says why.

    Args:
        key: of the detector.
        kinds: values of the label `type`, as FreeIPMI names the types of sensors, with `|` between them.
        kind: one of them, for the examples.
        state: the usual one of the cause.
        why: one sentence for the evidence.
        least: the least state of a sensor that counts: 1 warning, 2 critical.
    """
    sensor = {"id": "47", "name": f"{kind} 1", "type": kind, "node": "n1"}
    return Detector(
        key=key,
        version=1,
        expr=f'ipmi_sensor_state{{type=~"{kinds}"}} >= $least_state',
        scope="node",
        state=state,
        min_duration_ms=0,
        momentary=True,
        thresholds=(
            Threshold(
                "least_state", least, "state", "0 nominal, 1 warning, 2 critical (ipmi_exporter, docs/metrics.md)"
            ),
        ),
        cases=(
            Case(
                "the sensor turns critical and stays",
                {series("ipmi_sensor_state", sensor): "0x39 2x59"},
                told=(Told("n1", 600, 600),),
            ),
            Case(
                "a sensor of another kind is critical, and this one at most warns"
                if least > WARNING
                else "another kind of sensor",
                {
                    series("ipmi_sensor_state", {**sensor, "type": "Entity Presence"}): "0x39 2x59",
                    series("ipmi_sensor_state", sensor): "0x39 1x19 0x39" if least > WARNING else "0x99",
                },
            ),
        ),
        why=why,
    )
