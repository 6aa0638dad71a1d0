"""How many slots each job is offered under fair share (facts §5.5)."""

from math import floor
from operator import attrgetter
from typing import NamedTuple


class Claim(NamedTuple):
    """What one job asks for; a tuple, because there are as many as jobs.

    `fixed` slots are held by allocations that cannot be preempted."""

    job_id: str
    submitted_at: float
    weight: float
    demand: int
    smallest: int  # slots of its smallest allocation, running or pending
    fixed: int


_smallest_first = attrgetter("demand", "submitted_at", "job_id")
_oldest_first = attrgetter("submitted_at", "job_id")


def offers(claims: list[Claim], capacity: int) -> dict[str, int]:
    """Slots by job. What cannot be taken away counts towards the share of its job."""
    offered: dict[str, int] = {}
    open_claims = claims
    while True:
        shares = _fill(open_claims, capacity - sum(offered.values()))
        above = [c for c in open_claims if c.fixed > shares[c.job_id]]
        if not above:
            return offered | shares
        offered.update({c.job_id: c.fixed for c in above})
        open_claims = [c for c in open_claims if c.job_id not in offered]


def _fill(claims: list[Claim], capacity: int) -> dict[str, int]:
    filling = _Filling(claims)
    left = filling.hand_out(max(0, capacity))
    if left:
        return filling.shares
    for claim in sorted(claims, key=_oldest_first, reverse=True):
        # It gives up what is of no use to it, so that somebody else can run.
        if filling.shares[claim.job_id] < claim.smallest:
            left = filling.hand_out(filling.drop(claim))
            if left:
                break
    return filling.shares


class _Filling:
    def __init__(self, claims: list[Claim]) -> None:
        in_order = sorted(claims, key=_smallest_first)
        self.shares = dict.fromkeys((c.job_id for c in claims), 0)
        self._hungry = {c.job_id: c for c in in_order if c.demand}
        self._weights = sum(c.weight for c in self._hungry.values())

    def hand_out(self, capacity: int) -> int:
        """Rounds of weighted portions until all is given or nobody wants more; returns the rest."""
        while capacity and self._hungry:
            capacity = self._one_round(capacity)
        return capacity

    def drop(self, claim: Claim) -> int:
        """The slots it had been offered."""
        if self._hungry.pop(claim.job_id, None):
            self._weights -= claim.weight
        freed = self.shares[claim.job_id]
        self.shares[claim.job_id] = 0
        return freed

    def _one_round(self, capacity: int) -> int:
        portion = capacity / self._weights
        satisfied: list[Claim] = []
        for claim in self._hungry.values():
            wanted = claim.demand - self.shares[claim.job_id]
            given = min(max(1, floor(portion * claim.weight)), wanted, capacity)
            self.shares[claim.job_id] += given
            capacity -= given
            if given == wanted:
                satisfied.append(claim)
            if not capacity:
                break
        for claim in satisfied:
            del self._hungry[claim.job_id]
            self._weights -= claim.weight
        return capacity
