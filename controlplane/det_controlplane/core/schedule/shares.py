"""Choose the allocations that run under fair share (docs/concepts/scheduling.md#fair-share)."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import NamedTuple

from .model import Job

_EXACT_TO = 6  # decimals of a share: equal shares stay equal whatever was summed before them


class Piece(NamedTuple):
    """An allocation that a job wants, and that can be refused or taken away."""

    allocation_id: str
    slots: int
    waits: bool = False
    stays: bool = False  # it runs, and was not asked to leave


@dataclass(frozen=True, slots=True)
class Claim:
    """What a job wants: slots that cannot be taken away, and pieces, those that it keeps longest first."""

    job: Job
    fixed: int
    pieces: Sequence[Piece]

    @property
    def demand(self) -> int:
        return self.fixed + sum(piece.slots for piece in self.pieces)


def fair_shares(claims: Iterable[Claim], capacity: float) -> dict[str, float]:
    """Return slots by job: in proportion to weight, at most what it wants, at least what it cannot give up."""
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
    """Return shares for claims in the order in which a rising level of slots per weight meets their demands."""
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
    """Return the ids of the pieces that run: those within shares first, then what else has room."""
    claims = list(claims)
    packing = _Packing(capacity - sum(claim.fixed for claim in claims))
    ranked = sorted(_candidates(claims, shares))
    left_out = [candidate for candidate in ranked if not packing.add(candidate)]
    for candidate in left_out:
        packing.replace(candidate)
    for candidate in ranked:
        packing.add(candidate)
    return packing.chosen


class _Candidate(NamedTuple):
    """A piece with its rank. Candidates compare in the order in which they are chosen."""

    uncovered: float  # the part of the piece that lies beyond its job's share
    level: float  # of a piece wholly beyond: what its job holds with half of it, by weight
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
        self._waiting: list[_Candidate] = []  # chosen ones that do not run yet, by rank

    def add(self, candidate: _Candidate) -> bool:
        """Choose a piece if there is room."""
        piece = candidate.piece
        if piece.slots <= self._room and piece.allocation_id not in self.chosen:
            self._room -= piece.slots
            self.chosen.add(piece.allocation_id)
            if piece.waits:
                self._waiting.append(candidate)
        return piece.allocation_id in self.chosen

    def replace(self, candidate: _Candidate) -> None:
        """Choose a piece instead of waiting ones of which less is within shares.

        If it runs, and they are smaller, it stays where as much of them is. Else a large allocation would never hold
        against small ones, whatever its share.
        """
        wanted, room, lost, largest, count = candidate.piece, self._room, 0.0, 0, 0
        while room < wanted.slots and count < len(self._waiting):
            count += 1
            other = self._waiting[-count]
            room += other.piece.slots
            lost += other.covered
            largest = max(largest, other.piece.slots)
        gain = round(candidate.covered - lost, _EXACT_TO)
        keeps = gain == 0 and wanted.stays and largest < wanted.slots
        if room >= wanted.slots and (gain > 0 or keeps):
            while count:
                piece, count = self._waiting.pop().piece, count - 1
                self.chosen.remove(piece.allocation_id)
                self._room += piece.slots
            self.add(candidate)
