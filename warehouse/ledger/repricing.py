"""A price changed backwards: what of the stored rates remains, what is new, and where the price is another one now."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from warehouse.model.rate import RateSpec
from warehouse.model.time import LAST_MS


@dataclass(frozen=True, slots=True)
class PriceChange:
    """Over [start, end) the line of `new` costs what `new` says and no longer what `old` said; None: had no price."""

    old: RateSpec | None
    new: RateSpec
    start_ms: int
    end_ms: int | None


def replaced(stored: Sequence[RateSpec], specs: Iterable[RateSpec]) -> tuple[list[RateSpec], list[PriceChange]]:
    """Puts rates over those that are stored, each over the whole of its span.

    Args:
        stored: rates that stand; those of a line do not overlap.
        specs: the rates to come; those of a line do not overlap either. One that says what stands already changes
            nothing, however the standing rows are cut.

    Returns:
        The rates that stand afterwards, and what is different, in order of line and time.
    """
    standing = list(stored)
    changes: list[PriceChange] = []
    for spec in sorted(specs, key=_order):
        met = [rate for rate in standing if rate.line == spec.line and rate.overlaps(spec)]
        differing = _differences(sorted(met, key=_order), spec)
        if not differing:
            continue
        changes += differing
        standing = [rate for rate in standing if rate not in met]
        standing += [part for rate in met for part in _remains(rate, spec)]
        standing.append(spec)
    return standing, changes


def _order(rate: RateSpec) -> tuple[str, str, str, str, int]:
    return (rate.card, rate.model, rate.contract or "", rate.currency, rate.start_ms)


def _remains(rate: RateSpec, spec: RateSpec) -> list[RateSpec]:
    """Gives what of a rate lies before and after another one."""
    parts = []
    if rate.start_ms < spec.start_ms:
        parts.append(replace(rate, end_ms=spec.start_ms, id=None))
    if spec.end_ms is not None and (rate.end_ms is None or rate.end_ms > spec.end_ms):
        parts.append(replace(rate, start_ms=spec.end_ms, id=None))
    return parts


def _differences(met: Sequence[RateSpec], spec: RateSpec) -> list[PriceChange]:
    """Gives where a rate says something else than those that it meets, in order of time."""
    found = []
    at = spec.start_ms
    until = _end(spec.end_ms)
    for rate in met:
        start, end = max(rate.start_ms, spec.start_ms), min(_end(rate.end_ms), until)
        if at < start:
            found.append(_change(None, spec, at, start))
        if (rate.per_gpu_hour, rate.basis) != (spec.per_gpu_hour, spec.basis):
            found.append(_change(rate, spec, start, end))
        at = end
    if at < until:
        found.append(_change(None, spec, at, until))
    return found


def _change(old: RateSpec | None, spec: RateSpec, start_ms: int, end_ms: int) -> PriceChange:
    return PriceChange(old, spec, start_ms, None if end_ms == LAST_MS else end_ms)


def _end(end_ms: int | None) -> int:
    return LAST_MS if end_ms is None else end_ms
