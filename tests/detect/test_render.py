"""Detectors in PromQL for a site: what is read as it is still says which GPU it is about."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from tests.detect.server import Signals, prometheus
from warehouse.causes import load_causes
from warehouse.causes.examples import dcgm
from warehouse.detect.render import forms
from warehouse.detect.site import Site
from warehouse.evidence.prometheus import PrometheusClient
from warehouse.model.time import parse_instant

AT_MS = parse_instant("2026-03-02T00:00:00Z")


def test_raw_series_of_dcgm_carry_our_labels_beside_their_own(tmp_path: Path) -> None:
    some = next(d for cause in load_causes().values() for d in cause.detectors if d.key == "gpu_off_bus")
    detector = replace(some, expr="DCGM_FI_DEV_XID_ERRORS == 79", witnesses=())
    (form,) = forms(detector, Site(), 15_000, 60_000)
    assert form.teller == "dcgm"
    signals = Signals()
    for index, code in enumerate((79.0, 0.0)):
        signals.put("DCGM_FI_DEV_XID_ERRORS", AT_MS, code, err_code=str(int(code)), **dcgm(index))
    with prometheus(tmp_path, signals) as address, PrometheusClient(address, 60) as client:
        (found,) = client.query(form.expr, AT_MS + 1_000)
    labels = {label: found.labels[label] for label in ("node", "slot", "uuid", "err_code")}
    assert labels == {"node": "n1", "slot": "00000000:1A:00.0", "uuid": "GPU-n1-0", "err_code": "79"}
