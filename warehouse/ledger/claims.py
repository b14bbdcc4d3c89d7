"""Turns tenure, evidence and allocations into the claims that the sweep resolves."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from warehouse.model.entry import Claim
from warehouse.model.evidence import Allocation, Evidence
from warehouse.model.fleet import TenureBlock
from warehouse.model.state import PARTIAL, State


def tenure_claims(blocks: Iterable[TenureBlock], horizon_ms: int) -> Iterator[Claim]:
    """Yields one floor per block, and a claim of `stranded` where the fleet file says so."""
    for block in blocks:
        end_ms = horizon_ms if block.end_ms is None else min(block.end_ms, horizon_ms)
        if block.start_ms >= end_ms:
            continue
        key = f"{block.slots[0][0]}/{block.start_ms}"
        yield Claim(block.slots, block.start_ms, end_ms, State.UNKNOWN, key, "fleet", floor=True)
        if block.stranded:
            yield Claim(block.slots, block.start_ms, end_ms, State.STRANDED, key, "fleet", cause="capacity/stranded")


def evidence_claims(
    evidence: Iterable[Evidence],
    charge: Callable[[Evidence], tuple[int | None, str | None]],
    horizon_ms: int,
) -> Iterator[Claim]:
    """Yields a claim per piece of evidence that lasts; zero length is worth nothing.

    Args:
        evidence: stored evidence; what is open reaches to the horizon.
        charge: gives the incident and the cause that a piece of evidence is charged to.
        horizon_ms: nothing is booked beyond it.
    """
    for e in evidence:
        end_ms = _end(e.end_ms, horizon_ms)
        if e.start_ms >= end_ms or not e.slots:
            continue
        incident_id, cause = charge(e)
        # A partial state without a stated loss counts whole: the size of that loss is our inference.
        inferred = e.lost_ppm is None and e.state in PARTIAL
        yield Claim(
            e.slots, e.start_ms, end_ms, e.state, e.key, e.source, lost_ppm=e.lost_ppm, cause=cause,
            incident_id=incident_id, evidence_id=e.id, basis="inferred" if inferred else e.basis,
            onset_ms=e.onset_ms,
        )  # fmt: skip


def allocation_claims(allocations: Iterable[Allocation], horizon_ms: int) -> Iterator[Claim]:
    """Yields `productive`, only presumed, for allocated time: any measured word beats it.

    The claim carries the job and its share, so that the sweep can tell who holds a GPU.
    """
    for a in allocations:
        end_ms = _end(a.end_ms, horizon_ms)
        if a.start_ms < end_ms and a.slots:
            # The scope and the end make the key one of its kind: a job may hold overlapping rows.
            key = f"{a.job}/{a.attempt}/{a.scope}/{end_ms}"
            yield Claim(
                a.slots, a.start_ms, end_ms, State.PRODUCTIVE, key, "allocations", attempt_id=a.id, basis="presumed",
                job=a.job, share_ppm=a.share_ppm,
            )  # fmt: skip


def _end(end_ms: int | None, horizon_ms: int) -> int:
    return horizon_ms if end_ms is None else min(end_ms, horizon_ms)
