"""A site's objective must be one that a histogram can tell: anything else would make the detector silent for good."""

from __future__ import annotations

from pathlib import Path

import pytest

from warehouse.causes import load_causes
from warehouse.detect.site_file import read_site
from warehouse.errors import BadInput


def written(folder: Path, line: str) -> Path:
    """Gives a site's file with one line for the detector of late first tokens."""
    path = folder / "site.toml"
    path.write_text(f"[detectors.endpoint_first_token_late]\n{line}\n")
    return path


def test_a_bound_of_the_buckets_is_taken(tmp_path: Path) -> None:
    site = read_site(written(tmp_path, "first_token_s = 1"))
    detectors = {d.key: d for cause in load_causes().values() for d in cause.detectors}
    assert site.thresholds(detectors["endpoint_first_token_late"])["first_token_s"] == 1


def test_what_lies_between_two_bounds_is_refused_with_those_that_there_are(tmp_path: Path) -> None:
    with pytest.raises(BadInput) as caught:
        read_site(written(tmp_path, "first_token_s = 2.0"))
    assert len(caught.value.lines) == 1
    assert "[detectors.endpoint_first_token_late] first_token_s: 2.0 is none of 0.001, " in caught.value.lines[0]
    assert caught.value.lines[0].endswith("1, 2.5, 5, 7.5, 10")
