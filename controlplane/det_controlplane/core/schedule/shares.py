"""Compute how many slots each job is offered under fair share (docs/concepts/scheduling.md#fair-share)."""

from math import floor
from typing import NamedTuple


class Claim(NamedTuple):
    """Describe the slots that a job asks for. Claims compare in the order in which they are offered slots."""

    demand: int
    submitted_at: float
    job_id: str
    weight: float
    smallest: int  # slots of its smallest allocation, running or pending
    fixed: int  # slots held by allocations that cannot be preempted


def offers(claims: list[Claim], capacity: int) -> dict[str, int]:
    """Return slots by job. What cannot be taken away counts towards the share of its job."""
    offered: dict[str, int] = {}
    while True:
        shares = _share(claims, max(0, capacity - sum(offered.values())))
        above = {c.job_id: c.fixed for c in claims if c.fixed > shares[c.job_id]}
        if not above:
            return offered | shares
        offered |= above
        claims = [c for c in claims if c.job_id not in above]


def _share(claims: list[Claim], capacity: int) -> dict[str, int]:
    """Return slots by job, as if nothing ran yet."""
    sharing = _Sharing(claims)
    left = sharing.hand_out(capacity)
    for claim in sorted(claims, key=lambda c: (c.submitted_at, c.job_id), reverse=True):
        if left:
            break
        if sharing.offered[claim.job_id] < claim.smallest:
            # The youngest job gives up what is of no use to it, so that others can run.
            left = sharing.hand_out(sharing.drop(claim))
    return sharing.offered


class _Sharing:
    def __init__(self, claims: list[Claim]) -> None:
        self.offered = {claim.job_id: 0 for claim in claims}
        self._unsatisfied = {claim.job_id: claim for claim in sorted(claims) if claim.demand}
        self._weights = sum(claim.weight for claim in self._unsatisfied.values())

    def hand_out(self, capacity: int) -> int:
        """Offer rounds of weighted portions until all is given or all jobs are satisfied; return the rest."""
        while capacity and self._unsatisfied:
            portion = capacity / self._weights
            satisfied: list[Claim] = []
            for claim in self._unsatisfied.values():
                missing = claim.demand - self.offered[claim.job_id]
                given = min(max(1, floor(portion * claim.weight)), missing, capacity)
                self.offered[claim.job_id] += given
                capacity -= given
                if given == missing:
                    satisfied.append(claim)
                if not capacity:
                    break
            for claim in satisfied:
                self._remove(claim)
        return capacity

    def drop(self, claim: Claim) -> int:
        """Return the slots that the job had been offered."""
        if claim.job_id in self._unsatisfied:
            self._remove(claim)
        given, self.offered[claim.job_id] = self.offered[claim.job_id], 0
        return given

    def _remove(self, claim: Claim) -> None:
        del self._unsatisfied[claim.job_id]
        self._weights -= claim.weight
