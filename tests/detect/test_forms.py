"""The forms of a detector: whose labels name the host, and what happens where an exporter says less."""

from __future__ import annotations

from warehouse.detect.render import forms
from warehouse.detect.site import Site
from warehouse.model.cause import Detector
from warehouse.model.state import State

SCRAPE_MS = 15_000
SPAN_MS = 600_000


def detector(expr: str, scope: str = "gpu", coarse: str = "") -> Detector:
    """Gives a detector of one expression."""
    return Detector("seen", 1, expr, scope, State.DEGRADED, 60_000, "why", coarse=coarse)


def test_a_bmcs_series_are_read_with_the_labels_that_the_site_names() -> None:
    asked = detector('ipmi_sensor_state{type="Power Supply"} > 0', "node")
    (form,) = forms(asked, Site(), SCRAPE_MS, SPAN_MS)
    assert '"joined", ";", "node", "instance"' in form.expr
    assert form.names == {"ipmi_sensor_state"}
    (named,) = forms(asked, Site(labels={**Site().labels, "ipmi": ("host",)}), SCRAPE_MS, SPAN_MS)
    assert '"host"' in named.expr and '"instance"' not in named.expr


def test_a_mask_is_asked_coarsely_by_its_size_and_finely_by_its_bit() -> None:
    """DCGM packs the reasons into one number, whose bits no function over a range tells apart."""
    flag = 'gpuminutes_gpu_clock_event_active{reason="power_brake"}'
    asked = detector(f"{flag} == 1", coarse=f"max_over_time({flag}[$span]) == 1")
    found = {form.teller: form for form in forms(asked, Site(), SCRAPE_MS, SPAN_MS)}
    assert found["ours"].coarse == f"max_over_time({flag}[600s]) == 1"
    assert "[600s]) >= bool 128" in found["dcgm"].coarse and "/ 128) % 2" in found["dcgm"].expr


def test_who_cannot_be_asked_coarsely_is_asked_finely() -> None:
    flag = 'gpuminutes_gpu_clock_event_active{reason="power_brake"}'
    asked = detector(f"{flag} == 1", coarse=f"min_over_time({flag}[$span]) == 0")
    found = {form.teller: form for form in forms(asked, Site(), SCRAPE_MS, SPAN_MS)}
    assert found["ours"].coarse and found["dcgm"].coarse == ""
    assert "DCGM_FI_DEV_CLOCKS_EVENT_REASONS" in found["dcgm"].expr


def test_a_function_over_a_mask_says_nothing_where_the_truth_is_asked() -> None:
    flag = 'gpuminutes_gpu_clock_event_active{reason="power_brake"}'
    found = forms(detector(f"max_over_time({flag}[10m]) == 1"), Site(), SCRAPE_MS, SPAN_MS)
    assert "dcgm" not in {form.teller for form in found}
