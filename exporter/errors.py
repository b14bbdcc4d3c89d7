"""One exception tree for the exporter; foreign errors are mapped to it at the edge."""

from __future__ import annotations

from typing import Literal, get_args

Reason = Literal[
    "blank",
    "directory",
    "driver",
    "format",
    "gone",
    "internal",
    "lost",
    "missing",
    "no_data",
    "no_permission",
    "not_found",
    "not_supported",
    "not_written",
    "out_of_range",
    "overwritten",
    "released",
    "reset_required",
    "suspect",
    "suspended",
    "timeout",
    "too_many",
    "unknown",
    "unknown_device",
    "worker",
]
"""The closed set behind every `reason` label."""

REASONS: frozenset[str] = frozenset(get_args(Reason))


class ExporterError(Exception):
    """Base of every error that the exporter raises itself."""


class ConfigError(ExporterError):
    """Bad input from the operator: shown as one line, exit code 2."""


class CollectError(ExporterError):
    """A collector's cycle failed.

    Attributes:
        reason: value of the `reason` label of the error counter.
    """

    def __init__(self, reason: Reason, message: str) -> None:
        super().__init__(message)
        self.reason: Reason = reason


class DriverError(ExporterError):
    """An NVML call returned something else than success.

    Attributes:
        code: the NVML return code.
    """

    def __init__(self, code: int) -> None:
        super().__init__(f"NVML return code {code}")
        self.code = code
