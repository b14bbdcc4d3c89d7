"""Who owns one instant of one slot, and who holds it, when several claims are active there.

The owner gives the state: a slot is one thing in health. The holders are the jobs whose allocations are active, and
they may share it. Source of the rules: the state rank (`warehouse.model.state`), the two rules that stand outside it,
and docs/decisions/0016-shares-and-conflicts.md.
"""

from __future__ import annotations

from warehouse.model.entry import Claim, Payload
from warehouse.model.state import OWNED_BY_WINDOW, PPM, REPLACED_BY_LOST_WORK, STATE_RANK, State

Active = tuple[Claim, ...]

_OUTSIDE_RANK = OWNED_BY_WINDOW | {State.LOST_WORK}
# How every allocation's claim sorts; what sorts before it knows more than that somebody held the GPU.
_PRESUMED_WORK = (STATE_RANK[State.PRODUCTIVE], True)


def resolve(active: Active) -> Payload | None:
    """Gives what the ledger says of an instant, or None where no GPU is installed.

    Args:
        active: every claim that covers the instant, sorted by `Claim.order`; tenure (`floor`) sorts last.
    """
    if not active or not active[-1].floor:
        return None
    attempt_id = None
    for claim in active:
        if claim.attempt_id is not None:
            if attempt_id is not None or claim.share_ppm is not None:
                return _resolve_shared(active)
            attempt_id = claim.attempt_id
    winner = active[0]
    if winner.state not in _OUTSIDE_RANK:
        # Nobody holds it, or one allocation as a whole: nearly every instant ends here.
        return winner.payload("claim", attempt_id)
    winner, rule = _owner(active)
    return winner.payload(rule, attempt_id)


def _owner(active: Active) -> tuple[Claim, str]:
    """Gives the claim that owns the instant, and the rule by which it does.

    The best rank wins, except that

    - a maintenance window owns what began inside it: `down` and `recovering` with an onset at or after the
      window's start yield to it, while a fault that was already open keeps the instant;
    - `lost_work` replaces only productive, degraded, starved and checkpoint time; over anything else, silence
      included, the other claim stays: no work can be lost where none was known to be done.
    """
    winner = active[0]
    if winner.state in OWNED_BY_WINDOW:
        # Only these outrank a window, so only then can a window own the instant of a better rank.
        standing = _without_owned(active)
        if standing[0] is not winner:
            return standing[0], "window"
    elif winner.state is State.LOST_WORK:
        under = next(claim for claim in active if claim.state is not State.LOST_WORK)
        return (winner, "lost_work") if under.state in REPLACED_BY_LOST_WORK else (under, "claim")
    return winner, "claim"


def _without_owned(active: Active) -> Active:
    windows = [claim.onset_ms for claim in active if claim.state is State.MAINTENANCE]
    if not windows:
        return active
    earliest = min(onset for onset in windows if onset is not None)
    return tuple(
        claim
        for claim in active
        if not (claim.state in OWNED_BY_WINDOW and claim.onset_ms is not None and claim.onset_ms >= earliest)
    )


def _resolve_shared(active: Active) -> Payload:
    """Gives what is said of an instant with several allocations, or with one that holds a part.

    Jobs that claim more than the whole contest the GPU: nobody holds it, and their word that it worked is worth
    nothing. What knows better than such a word keeps the state; else the instant is unknown.
    """
    holders = _holders(active)
    held_ppm = sum(map(_share, holders))
    sharers = None
    if len(holders) > 1 or held_ppm < PPM:
        sharers = tuple(sorted(claim.attempt_id for claim in holders if claim.attempt_id is not None))
    if held_ppm <= PPM:
        winner, rule = _owner(active)
        return winner.payload(rule, holders[0].attempt_id, held_ppm if held_ppm < PPM else None, sharers)
    # Without the contesting words: work that nobody can name cannot be lost either.
    winner, rule = _owner(tuple(claim for claim in active if claim.attempt_id is None))
    if winner.order[:2] < _PRESUMED_WORK:
        return winner.payload(rule, None, None, sharers)
    return Payload(State.UNKNOWN, 0, None, None, None, None, "none", "conflict", None, sharers)


def _holders(active: Active) -> list[Claim]:
    """Gives one claim per job, in order: of several rows of one job the largest share counts, then the first."""
    by_job: dict[str | None, Claim] = {}
    for claim in active:
        if claim.attempt_id is None:
            continue
        known = by_job.get(claim.job)
        if known is None or _share(claim) > _share(known):
            by_job[claim.job] = claim
    return sorted(by_job.values(), key=lambda claim: claim.order)


def _share(claim: Claim) -> int:
    return PPM if claim.share_ppm is None else claim.share_ppm
