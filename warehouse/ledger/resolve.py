"""Who owns one instant of one slot, when several claims are active there.

Source of the rules: the state rank (`warehouse.model.state`) and the two rules that stand outside it.
"""

from __future__ import annotations

from warehouse.model.entry import Claim, Payload
from warehouse.model.state import OWNED_BY_WINDOW, REPLACED_BY_LOST_WORK, State

Active = tuple[Claim, ...]


def resolve(active: Active) -> Payload | None:
    """Gives what the ledger says of an instant, or None where no GPU is installed.

    Args:
        active: every claim that covers the instant, sorted by `Claim.order`; tenure (`floor`) sorts last.

    The best rank wins, except that

    - a maintenance window owns what began inside it: `down` and `recovering` with an onset at or after the
      window's start yield to it, while a fault that was already open keeps the instant;
    - `lost_work` replaces only productive, degraded, starved and checkpoint time; over anything else, silence
      included, the other claim stays: no work can be lost where none was known to be done.
    """
    if not active or not active[-1].floor:
        return None
    winner, rule = active[0], "claim"
    if winner.state in OWNED_BY_WINDOW:
        # Only these outrank a window, so only then can a window own the instant of a better rank.
        standing = _without_owned(active)
        if standing[0] is not winner:
            winner, rule = standing[0], "window"
    elif winner.state is State.LOST_WORK:
        under = next(claim for claim in active if claim.state is not State.LOST_WORK)
        if under.state in REPLACED_BY_LOST_WORK:
            rule = "lost_work"
        else:
            winner = under
    for claim in active:
        if claim.attempt_id is not None:
            return winner.payload(rule, claim.attempt_id)
    return winner.payload(rule, None)


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
