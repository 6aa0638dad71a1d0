"""Choose the allocations that run under fair share (docs/concepts/scheduling.md#fair-share)."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from heapq import merge
from itertools import accumulate
from typing import NamedTuple

from .model import Job

_EXACT_TO = 6  # decimals of a share, so that equal shares stay equal despite rounding


class Piece(NamedTuple):
    """An allocation that a job wants, and that can be refused or taken away."""

    allocation_id: str
    slots: int
    waits: bool = False
    stays: bool = False  # it runs, and was not asked to leave


@dataclass(frozen=True, slots=True)
class Claim:
    """The demand of a job: slots that cannot be preempted, and pieces, longest kept first."""

    job: Job
    fixed: int
    pieces: Sequence[Piece]
    stretch: int = 0  # slots that waiting elastic gangs would use beyond their minimum

    @property
    def demand(self) -> int:
        return self.fixed + self.stretch + sum(piece.slots for piece in self.pieces)


def fair_shares(claims: Iterable[Claim], capacity: float) -> dict[str, float]:
    """Return slots by job in proportion to weight, at most the demand, at least the slots that cannot be preempted."""
    waiting = sorted(claims, key=lambda c: (c.demand / c.job.weight, c.job.submitted_at, c.job.id))
    shares: dict[str, float] = {}
    while True:
        filled = _fill(waiting, max(0.0, capacity))
        above = {c.job.id: c.fixed for c in waiting if c.fixed > filled[c.job.id]}
        if not above:
            return shares | filled
        shares |= above
        capacity -= sum(above.values())
        waiting = [claim for claim in waiting if claim.job.id not in above]


def _fill(claims: Sequence[Claim], capacity: float) -> dict[str, float]:
    """Divide the capacity by weight, without giving a claim more slots than it demands.

    Claims are sorted by their demand per weight, so that each smaller demand is met before a larger one.
    """
    weights = list(accumulate(claim.job.weight for claim in reversed(claims)))[::-1]
    shares, level = {}, None
    for claim, weight in zip(claims, weights, strict=True):
        if level is None and claim.demand * weight > capacity * claim.job.weight:
            level = capacity / weight
        share = claim.demand if level is None else level * claim.job.weight
        shares[claim.job.id] = round(share, _EXACT_TO)
        capacity -= share
    return shares


def choose(claims: Iterable[Claim], shares: dict[str, float], capacity: int) -> set[str]:
    """Return the ids of the running pieces: pieces within shares first, then others that fit."""
    claims = list(claims)
    packing = _Packing(capacity - sum(claim.fixed for claim in claims))
    candidates = sorted(_candidates(claims, shares))
    left_out = [candidate for candidate in candidates if not packing.add(candidate)]
    for candidate in left_out:
        packing.replace(candidate)
    for candidate in candidates:
        packing.add(candidate)
    return packing.chosen


class _Candidate(NamedTuple):
    """A piece with its rank. Candidates compare in the order in which they are chosen."""

    uncovered: float  # the part of the piece that lies beyond its job's share
    level: float  # for a piece beyond its share: the job's slots with half of the piece, by weight
    moves: bool  # of a piece wholly beyond: it does not run already
    submitted_at: float
    job_id: str
    place: int
    piece: Piece
    covered: float  # slots of the piece within its job's share


def _candidates(claims: Iterable[Claim], shares: dict[str, float]) -> Iterator[_Candidate]:
    for claim in claims:
        job, before, share = claim.job, claim.fixed, shares[claim.job.id]
        for place, piece in enumerate(claim.pieces):
            slots = piece.slots
            covered = float(slots)
            if share < before + slots:
                covered = round(max(share - before, 0.0), _EXACT_TO)
            level = 0.0 if covered else (before + slots / 2) / job.weight
            moves = not covered and not piece.stays
            yield _Candidate(
                1 - covered / slots, level, moves, job.submitted_at, job.id, place, piece, covered
            )
            before += slots


class _Packing:
    """The pieces chosen so far, and the slots that are left."""

    def __init__(self, room: int) -> None:
        self.chosen: set[str] = set()
        self._room = room
        # Chosen ones that do not run yet, by size and in the order of their ranks.
        self._waiting: defaultdict[int, list[_Candidate]] = defaultdict(list)

    def add(self, candidate: _Candidate) -> bool:
        """Choose a piece if there is room."""
        piece = candidate.piece
        if piece.slots <= self._room and piece.allocation_id not in self.chosen:
            self._room -= piece.slots
            self.chosen.add(piece.allocation_id)
            if piece.waits:
                self._waiting[piece.slots].append(candidate)
        return piece.allocation_id in self.chosen

    def replace(self, candidate: _Candidate) -> None:
        """Replace smaller pieces that wait by a large piece, if it covers more of its share than they do.

        Otherwise a large allocation could never win against small ones, whatever its share."""
        piece, room, gain = candidate.piece, self._room, candidate.covered
        if not (gain or piece.stays):
            return
        others = []
        for other in self._smaller_than(piece.slots):
            if room >= piece.slots or gain < 0:
                break
            others.append(other)
            room += other.piece.slots
            gain = round(gain - other.covered, _EXACT_TO)
        if room >= piece.slots and (gain > 0 or (gain == 0 and piece.stays)):
            for other in others:
                self._remove(other)
            self.add(candidate)

    def _smaller_than(self, slots: int) -> Iterator[_Candidate]:
        """Yield chosen pieces that wait, the last of the ranks first."""
        smaller = [reversed(same) for size, same in self._waiting.items() if size < slots]
        return merge(*smaller, reverse=True)

    def _remove(self, candidate: _Candidate) -> None:
        piece = candidate.piece
        self._waiting[piece.slots].pop()
        self.chosen.remove(piece.allocation_id)
        self._room += piece.slots
