"""The driver library and a scripted driver, as the exporter's tests have them."""

from __future__ import annotations

from tests.exporter.conftest import driver, library

__all__ = ["driver", "library"]
