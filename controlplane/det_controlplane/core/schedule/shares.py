"""How many slots each job is offered under fair share (facts §5.5)."""

from dataclasses import dataclass
from math import floor


@dataclass(frozen=True, slots=True)
class Claim:
    """What one job asks for. `fixed` slots are held by allocations that cannot be preempted."""

    job_id: str
    submitted_at: float
    weight: float
    demand: int
    smallest: int  # slots of its smallest allocation, running or pending
    fixed: int


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
    shares = dict.fromkeys((c.job_id for c in claims), 0)
    in_order = sorted(claims, key=lambda c: (c.demand, c.submitted_at, c.job_id))
    capacity = max(0, capacity)
    while True:
        capacity = _hand_out(in_order, shares, capacity)
        stuck = [c for c in in_order if c.demand and shares[c.job_id] < c.smallest]
        if capacity or not stuck:
            return shares
        # The youngest gives up what is of no use to it, so that somebody else can run.
        stuck.sort(key=lambda c: (c.submitted_at, c.job_id))
        while stuck and not capacity:
            youngest = stuck.pop()
            capacity = shares[youngest.job_id]
            shares[youngest.job_id] = 0
            in_order.remove(youngest)


def _hand_out(claims: list[Claim], shares: dict[str, int], capacity: int) -> int:
    """Rounds of weighted portions until all is given or nobody wants more; returns what is left."""
    hungry = [c for c in claims if shares[c.job_id] < c.demand]
    while capacity and hungry:
        weights = sum(c.weight for c in hungry)
        portion = capacity / weights
        for claim in hungry:
            wanted = claim.demand - shares[claim.job_id]
            given = min(max(1, floor(portion * claim.weight)), wanted, capacity)
            shares[claim.job_id] += given
            capacity -= given
        hungry = [c for c in hungry if shares[c.job_id] < c.demand]
    return capacity
