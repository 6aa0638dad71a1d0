"""How many slots each job is offered under fair share (facts §5.5)."""

from math import floor
from operator import attrgetter
from typing import NamedTuple


class Claim(NamedTuple):
    """What one job asks for; a tuple in the order of who is offered slots first, because there are as many as jobs.

    `fixed` slots are held by allocations that cannot be preempted."""

    demand: int
    submitted_at: float
    job_id: str
    weight: float
    smallest: int  # slots of its smallest allocation, running or pending
    fixed: int


_oldest_first = attrgetter("submitted_at", "job_id")


def offers(claims: list[Claim], capacity: int) -> dict[str, int]:
    """Slots by job. What cannot be taken away counts towards the share of its job."""
    offered: dict[str, int] = {}
    open_claims = claims
    while True:
        shares = _fill(open_claims, capacity - sum(offered.values()))
        above = [c for c in open_claims if c.fixed and c.fixed > shares[c.job_id]]
        if not above:
            return offered | shares
        offered.update({c.job_id: c.fixed for c in above})
        open_claims = [c for c in open_claims if c.job_id not in offered]


def _fill(claims: list[Claim], capacity: int) -> dict[str, int]:
    filling = _Filling(claims)
    left = filling.hand_out(max(0, capacity))
    if left:
        return filling.by_job()
    for at in filling.youngest_first():
        # It gives up what is of no use to it, so that somebody else can run.
        if filling.too_little(at):
            left = filling.hand_out(filling.drop(at))
            if left:
                break
    return filling.by_job()


class _Filling:
    """Claims by their places in one order, the smallest first: columns, because there are as many as jobs."""

    def __init__(self, claims: list[Claim]) -> None:
        self._claims = sorted(claims)
        self._wanted = [c.demand for c in self._claims]  # and not given yet
        self._weight = [c.weight for c in self._claims]
        self._hungry = [at for at, wanted in enumerate(self._wanted) if wanted]
        self._dropped: set[int] = set()  # some of them are still listed as hungry
        self._unsatisfied = len(self._hungry)
        self._weights = sum([self._weight[at] for at in self._hungry])

    def by_job(self) -> dict[str, int]:
        return {
            c.job_id: 0 if at in self._dropped else c.demand - wanted
            for at, (c, wanted) in enumerate(zip(self._claims, self._wanted, strict=True))
        }

    def youngest_first(self) -> list[int]:
        ages = list(map(_oldest_first, self._claims))
        return sorted(range(len(ages)), key=ages.__getitem__, reverse=True)

    def too_little(self, at: int) -> bool:
        claim = self._claims[at]
        return claim.demand - self._wanted[at] < claim.smallest

    def hand_out(self, capacity: int) -> int:
        """Rounds of weighted portions until all is given or nobody wants more; returns the rest."""
        while capacity and self._unsatisfied:
            capacity = self._one_round(capacity)
        return capacity

    def drop(self, at: int) -> int:
        """The slots it had been offered."""
        if self._wanted[at]:
            self._weights -= self._weight[at]
            self._unsatisfied -= 1
        self._dropped.add(at)
        return self._claims[at].demand - self._wanted[at]

    def _one_round(self, capacity: int) -> int:
        portion = capacity / self._weights
        still: list[int] = []
        satisfied: list[int] = []
        passed = 0
        for at in self._hungry:
            passed += 1
            if at in self._dropped:
                continue
            given = min(max(1, floor(portion * self._weight[at])), self._wanted[at], capacity)
            self._wanted[at] -= given
            capacity -= given
            (still if self._wanted[at] else satisfied).append(at)
            if not capacity:
                break
        self._hungry[:passed] = still
        self._unsatisfied -= len(satisfied)
        for at in satisfied:
            self._weights -= self._weight[at]
        return capacity
