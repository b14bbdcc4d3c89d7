"""From a detector to a site's PromQL: whose series, whose labels, and what happens where an exporter says less."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from tests.detect.server import Signals, prometheus
from warehouse.causes import load_causes
from warehouse.causes.examples import dcgm
from warehouse.detect.render import Only, forms
from warehouse.detect.site import Site
from warehouse.evidence.prometheus import PrometheusClient
from warehouse.model.cause import Detector
from warehouse.model.state import State
from warehouse.model.time import parse_instant

AT_MS = parse_instant("2026-03-02T00:00:00Z")
SCRAPE_MS = 15_000
SPAN_MS = 600_000


def detector(expr: str, scope: str = "gpu", coarse: str = "") -> Detector:
    """Gives a detector of one expression."""
    return Detector("seen", 1, expr, scope, State.DEGRADED, 60_000, "why", coarse=coarse)


def test_raw_series_of_dcgm_carry_our_labels_beside_their_own(tmp_path: Path) -> None:
    some = next(d for cause in load_causes().values() for d in cause.detectors if d.key == "gpu_off_bus")
    raw = replace(some, expr="DCGM_FI_DEV_XID_ERRORS == 79", witnesses=())
    (form,) = forms(raw, Site(), 15_000, 60_000)
    assert form.teller == "dcgm"
    signals = Signals()
    for index, code in enumerate((79.0, 0.0)):
        signals.put("DCGM_FI_DEV_XID_ERRORS", AT_MS, code, err_code=str(int(code)), **dcgm(index))
    with prometheus(tmp_path, signals) as address, PrometheusClient(address, 60) as client:
        (found,) = client.query(form.expr, AT_MS + 1_000)
    labels = {label: found.labels[label] for label in ("node", "slot", "uuid", "err_code")}
    assert labels == {"node": "n1", "slot": "00000000:1A:00.0", "uuid": "GPU-n1-0", "err_code": "79"}


def test_series_of_another_exporter_are_narrowed_to_nodes_by_whichever_label_names_the_host(tmp_path: Path) -> None:
    """Translated or raw, bare or over a range; the first label that is not empty decides, as everywhere."""
    signals = Signals()
    at_ms = [AT_MS + step * SCRAPE_MS for step in range(9)]
    for step in at_ms:
        for host in ({"Hostname": "n1"}, {"Hostname": "n2"}, {"hostname": "n1"}, {"node": "n1", "Hostname": "n9"}):
            labels = {**dcgm(0), "Hostname": "", **host}
            labels["UUID"] = "GPU-" + "-".join(host.values()) + str(len(host)) + min(host)
            said = {label: text for label, text in labels.items() if text}
            signals.put("DCGM_FI_DEV_POWER_USAGE", step, 100.0, **said)
            signals.put("DCGM_FI_DEV_XID_ERRORS", step, 79.0, **said)
    with prometheus(tmp_path, signals) as address, PrometheusClient(address, 60) as client:
        for expr in (
            "gpuminutes_gpu_power_watts < 200",
            "max_over_time(gpuminutes_gpu_power_watts[60s]) < 200",
            "DCGM_FI_DEV_XID_ERRORS == 79",
            "max_over_time(DCGM_FI_DEV_XID_ERRORS[60s]) == 79",
        ):
            forms_of = {f.teller: f for f in forms(detector(expr), Site(), SCRAPE_MS, SPAN_MS, Only('node=~"n1|n7"'))}
            found = client.query(forms_of["dcgm"].expr, at_ms[-1])
            assert sorted((s.labels["node"], s.labels["uuid"]) for s in found) == [
                ("n1", "GPU-n1-n92Hostname"), ("n1", "GPU-n11Hostname"), ("n1", "GPU-n11hostname"),
            ], expr  # fmt: skip
