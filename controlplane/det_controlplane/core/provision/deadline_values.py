"""Compute the expected cost of finishing before a deadline, by dynamic programming.

The table gives the cost of the rest of the work if every later decision is the best one, by the time left, the slack
and the state of the market. Slack is the time left minus the work left. Waiting and starting use up slack; running
keeps it; it never grows. Work on demand always finishes, so the cost is finite if the slack covers the next start.

Prices are parts of the price on demand, times are hours.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import ceil, exp
from typing import NamedTuple

from .spot_spells import end_probability

# Spells have phases: their ages from 0, 0.5, 2 and 8 hours on.
PHASES = range(4)
_PHASE_STARTS_H = (0.0, 0.5, 2.0, 8.0)
_TYPICAL_AGES_H = (0.2, 1.1, 4.0, 16.0)
_PHASE_LENGTHS_H = (0.5, 1.5, 6.0)
STEPS = 48
SLACK_LEVELS = 24
IMPOSSIBLE = 1e6

Row = list[float]  # a cost for each level of slack
Table = list[list[Row]]  # by the steps left and the phase of the spell


def phase_of(age_h: float) -> int:
    return sum(age_h >= start for start in _PHASE_STARTS_H[1:])


class Grid(NamedTuple):
    """The steps of the table in time and slack, and the slack that a start takes."""

    step_h: float
    slack_step_h: float
    restart_h: float


class Odds(NamedTuple):
    """Assumptions of a table about the spot market."""

    price: float
    loss: float  # factor on the end of a held machine
    vanishing: float  # factor on the end of all offers
    returning: float  # factor on the return of some offer
    another: float  # probability that another offer is there when a held machine is lost
    another_phase: int


@dataclass(frozen=True)
class Values:
    """Costs by steps left, phase of the spell and level of slack."""

    grid: Grid
    waiting: Table  # the work waits, no spot offer is available
    offered: Table  # the work waits, a spot offer is available
    on_demand_alone: Table  # runs on demand, no spot offer is available
    on_demand_offered: Table  # runs on demand, a spot offer is available
    spot: Table

    def at(self, table: Table, phase: int, left_h: float, slack_h: float) -> float:
        """Return a cost between the points of the table."""
        if slack_h < -1e-9:
            return IMPOSSIBLE
        steps = max(0.0, left_h / self.grid.step_h)
        low = min(int(steps), len(table) - 1)
        high = min(low + 1, len(table) - 1)
        part = steps - int(steps)
        level = slack_h / self.grid.slack_step_h + 1e-9
        return (1 - part) * _between(table[low][phase], level) + part * _between(
            table[high][phase], level
        )


@lru_cache(maxsize=256)
def cost_table(grid: Grid, odds: Odds) -> Values:
    """Return the costs for up to `STEPS` steps. Equal arguments give the same table without work."""
    h = grid.step_h
    loss = [end_probability(age, h, odds.loss) for age in _TYPICAL_AGES_H]
    vanishing = [end_probability(age, h, odds.vanishing) for age in _TYPICAL_AGES_H]
    returning = [end_probability(age, h, odds.returning) for age in _TYPICAL_AGES_H]
    next_phase = [*(1 - exp(-h / length) for length in _PHASE_LENGTHS_H), 0.0]
    idle_shift = _shift_of(h / grid.slack_step_h)
    start_shift = _shift_of(grid.restart_h / grid.slack_step_h)
    spot_start, demand_start = odds.price * grid.restart_h, grid.restart_h
    done: Row = [0.0] * SLACK_LEVELS
    finished = [done for _ in PHASES]
    values = Values(grid, [finished], [finished], [finished], [finished], [finished])

    def unchanged(rows: Sequence[Row], phase: int, row: Row, probability: float) -> Row:
        """Mix the rows of the spell's phase and its next phase with the row after its end."""
        older = next_phase[phase] * (1 - probability)
        same = 1 - probability - older
        later = rows[min(phase + 1, PHASES[-1])]
        return [
            probability * a + older * b + same * c
            for a, b, c in zip(row, later, rows[phase], strict=True)
        ]

    for step in range(1, STEPS + 1):
        waiting, offered = values.waiting[-1], values.offered[-1]
        alone, beside, spot = (
            values.on_demand_alone[-1],
            values.on_demand_offered[-1],
            values.spot[-1],
        )
        work = (step * h - i * grid.slack_step_h for i in range(SLACK_LEVELS))
        hours = [min(h, left) for left in work if left > 0]
        levels = len(hours)  # with work
        lost = _mix(offered[odds.another_phase], waiting[0], odds.another)
        run_spot = [_plus(hours, odds.price, unchanged(spot, p, lost, loss[p])) for p in PHASES]
        run_alone = [
            _plus(hours, 1.0, unchanged(alone, p, beside[0], returning[p])) for p in PHASES
        ]
        run_beside = [
            _plus(hours, 1.0, unchanged(beside, p, alone[0], vanishing[p])) for p in PHASES
        ]
        idle = [
            _shifted(unchanged(waiting, p, offered[0], returning[p]), idle_shift, 0.0, levels)
            for p in PHASES
        ]
        start_spot = [_shifted(row, start_shift, spot_start, levels) for row in run_spot]
        start_alone = [_shifted(row, start_shift, demand_start, levels) for row in run_alone]
        start_beside = [_shifted(row, start_shift, demand_start, levels) for row in run_beside]
        values.waiting.append([_least(idle[p], start_alone[p]) for p in PHASES])
        values.offered.append([_least(start_spot[p], start_beside[p]) for p in PHASES])
        values.on_demand_alone.append([_least(idle[p], run_alone[p]) for p in PHASES])
        values.on_demand_offered.append([_least(run_beside[p], start_spot[p]) for p in PHASES])
        values.spot.append(run_spot)
    return values


def _mix(one: Row, other: Row, part: float) -> Row:
    return [part * a + (1 - part) * b for a, b in zip(one, other, strict=True)]


def _least(one: Row, other: Row) -> Row:
    return list(map(min, one, other))


def _plus(hours: Row, price: float, then: Row) -> Row:
    """Add the price of a step to the costs after it. Finished work is free."""
    costs = [price * used + cost for used, cost in zip(hours, then, strict=False)]
    return costs + [0.0] * (SLACK_LEVELS - len(costs))


class _Shift(NamedTuple):
    """A distance in levels of slack: the levels below it, and the part of a level that it lacks to the next one."""

    below: int
    part: float


def _shift_of(levels: float) -> _Shift:
    below = ceil(levels - 1e-9)
    return _Shift(below, below - levels)


def _shifted(row: Row, shift: _Shift, price: float, levels: int) -> Row:
    """Return the costs after slack is used up, for a price, at the levels that have work."""
    part = shift.part
    below = row[: max(0, levels - shift.below)]
    rows = zip(below, row[1:], strict=False)
    if part < 1e-6:
        costs = [price + low for low, _ in rows]
    else:
        costs = [
            price + (low if low >= IMPOSSIBLE / 2 else low + part * (high - low))
            for low, high in rows
        ]
    impossible = [IMPOSSIBLE] * min(shift.below, levels)
    return impossible + costs + [0.0] * (SLACK_LEVELS - levels)


def _between(row: Row, level: float) -> float:
    """Interpolate. Below a possible level the lower one counts, because there the work may be late."""
    if level < -1e-9:
        return IMPOSSIBLE
    low = min(int(level + 1e-9), len(row) - 1)
    part = level - low
    if part < 1e-6 or low == len(row) - 1 or row[low] >= IMPOSSIBLE / 2:
        return row[low]
    return (1 - part) * row[low] + part * row[low + 1]
