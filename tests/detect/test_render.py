"""From a detector to a site's PromQL: whose series, whose labels, and what happens where an exporter says less."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from tests.detect.server import Signals, prometheus
from warehouse.causes import load_causes
from warehouse.causes.examples import dcgm
from warehouse.detect.render import forms
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


def test_raw_series_of_dcgm_name_the_node_and_the_gpu() -> None:
    (form,) = forms(detector("DCGM_FI_DEV_XID_ERRORS == 54"), Site(), SCRAPE_MS, SPAN_MS)
    assert form.teller == "dcgm"
    for label, sources in (("node", '"Hostname"'), ("slot", "pci_bus_id"), ("uuid", '"UUID"')):
        assert f'"{label}"' in form.expr and sources in form.expr, label


def test_a_bmcs_series_are_read_with_the_labels_that_the_site_names() -> None:
    asked = detector('ipmi_sensor_state{type="Power Supply"} > 0', "node")
    (form,) = forms(asked, Site(), SCRAPE_MS, SPAN_MS)
    assert '"node", ";", "node", "instance"' in form.expr
    assert form.names == {"ipmi_sensor_state"}
    (named,) = forms(asked, Site(labels={**Site().labels, "ipmi": ("host",)}), SCRAPE_MS, SPAN_MS)
    assert '"host"' in named.expr and '"instance"' not in named.expr


def test_who_cannot_be_asked_coarsely_is_asked_finely() -> None:
    """DCGM packs the reasons into one number, of which no function over a range can be taken."""
    flag = 'gpuminutes_gpu_clock_event_active{reason="power_brake"}'
    asked = detector(f"{flag} == 1", coarse=f"max_over_time({flag}[$span]) == 1")
    found = {form.teller: form for form in forms(asked, Site(), SCRAPE_MS, SPAN_MS)}
    assert found["ours"].coarse == f"max_over_time({flag}[600s]) == 1"
    assert found["dcgm"].coarse == "" and "DCGM_FI_DEV_CLOCKS_EVENT_REASONS" in found["dcgm"].expr


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
