"""Observing through a proxy that spoils answers: the same evidence as ever, or an error; never something between."""

from __future__ import annotations

import pytest

from tests.detect import cases
from tests.evidence import proxy as faults
from tests.evidence.proxy import Fault, proxy
from warehouse.detect.observe import observe
from warehouse.detect.words import Observation, Settings
from warehouse.evidence.prometheus import Failure, PrometheusClient, PrometheusError
from warehouse.evidence.transport import Patience

QUICK = Patience(tries=2, first_s=0.01, total_s=5)


def look(client: PrometheusClient) -> Observation:
    """Observes the hour in which nodes fail."""
    return observe(cases.NODES, client, cases.NODES_FLEET, [], Settings())


FINAL: dict[str, tuple[Fault, Failure]] = {
    "partial": (faults.saying(warnings=["store b: no answer"]), Failure.PARTIAL),
    "html": (faults.html, Failure.MALFORMED),
    "half": (faults.half, Failure.MALFORMED),
    "500": (faults.busy(500), Failure.UNREACHABLE),
}


@pytest.mark.parametrize("name", FINAL)
def test_nothing_is_concluded_when_any_one_answer_is_not_whole(any_prometheus: str, name: str) -> None:
    fault, kind = FINAL[name]
    with proxy(any_prometheus) as before, PrometheusClient(before.address, 10, patience=QUICK) as client:
        whole = look(client)
        questions = len(before.seen)
        assert whole.evidence and questions > 5
        for number in range(questions):
            before.faults = [faults.well] * number + [fault]
            with pytest.raises(PrometheusError) as caught:
                look(client)
            assert caught.value.kind is kind and not before.faults, number


def test_what_passes_changes_nothing(any_prometheus: str) -> None:
    with proxy(any_prometheus) as before, PrometheusClient(before.address, 10, patience=QUICK) as client:
        whole = look(client)
        for fault in (faults.down, faults.busy(503), faults.broken_off):
            # Every second answer is spoiled; each question is asked twice.
            before.faults = [fault, faults.well] * 200
            assert look(client) == whole
            before.faults.clear()
        assert client.traffic().retries == sum(client.traffic().failures.values()) > 20
