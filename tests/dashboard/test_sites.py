"""Several sites and currencies on the pages: a selector, and amounts beside each other that are never added."""

from __future__ import annotations

from tests.dashboard.conftest import Visit, text_of
from tests.views.ledgers import both_currencies
from tests.views.test_sites import down_everywhere


def test_pages_show_each_currency_and_one_site_alone(database_url: str, visit: Visit) -> None:
    engine = down_everywhere(database_url)
    both_currencies(engine)
    at = visit(database_url)
    costs = {metric.label: metric.value for metric in at.metric}["Cost of loss"]
    assert costs == "€12 + $12"
    assert "at a cost of €12 + $12" in text_of(at)
    assert "€12.00 + $12.00" in text_of(at)
    picker = next(box for box in at.selectbox if box.label == "Site")
    assert picker.options == ["All sites", "ber", "nyc"]
    picker.set_value("nyc")
    next(button for button in at.button if button.label == "Show").click().run()
    assert at.query_params["site"] == "nyc"
    assert {metric.label: metric.value for metric in at.metric}["Cost of loss"] == "$12"
    page = text_of(visit(database_url, "incident", id="7"))
    assert "€12.00 + $12.00" in page and "/ 60 × 3 EUR per GPU-hour" in page
    there = visit(database_url, "incident", id="7", site="ber")
    assert {metric.label: metric.value for metric in there.metric}["Cost of loss"] == "€12.00"


def test_an_unknown_site_is_explained(database_url: str, visit: Visit) -> None:
    down_everywhere(database_url)
    at = visit(database_url, site="par")
    assert "there is no site 'par'" in at.error[0].value.replace("\\", "")
    assert "known are ber, nyc" in at.error[0].value
