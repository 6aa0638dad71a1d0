"""Choose how many idle machines a pool keeps for work that has not come yet, within an amount of money a day.

Starts come at random with the rate of the hour. A start takes a warm machine, and the pool rents another one, which
needs a time S until it is ready. With k warm machines a start waits if k or more of them are still on the way. So the
k-th machine saves the waits of the starts that find exactly k - 1 on the way:

    rate * P(Poisson(rate * S) = k - 1)   in an hour

Each is worth S hours of waiting. The machine costs at most its hourly price.

The plan of a day takes the hours and machines with the most value for their price until the money is spent.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate
from typing import NamedTuple

HOUR_S, DAY_S = 3600.0, 86_400.0
# A decision may come so late, and a machine may take so long to end.
TAIL_H = 1 / 6
_END_H = 1 / 30  # how long a cloud takes to end a machine
# An idle machine is kept warm only if it costs at most so much more than the cheapest offer.
MOST_DEARER = 1.25
_MOST_MACHINES = 20


@dataclass(frozen=True, slots=True)
class WarmPolicy:
    """The operator's bound on the cost of warm machines, and the value of an hour that a person waits."""

    max_usd_day: float
    waiting_usd_hour: float = 10.0


class StartRate(NamedTuple):
    """Hold how many jobs an hour of the day started, on average, by the slots of each trial. Hours are UTC."""

    is_weekend: bool
    hour: int
    slots: int
    per_hour: float


@dataclass(frozen=True, slots=True)
class WarmLedger:
    """The cost of warm machines on the current day, up to a time, and their cost per hour since then."""

    at: float
    spent_usd: float = 0.0
    usd_hour: float = 0.0

    def until(self, now: float) -> "WarmLedger":
        """Return the ledger at a later time. It begins again at midnight UTC."""
        midnight = now - now % DAY_S
        spent_usd = self.spent_usd if self.at >= midnight else 0.0
        hours = max(0.0, now - max(self.at, midnight)) / HOUR_S
        return WarmLedger(now, spent_usd + self.usd_hour * hours, self.usd_hour)

    def costing(self, usd_hour: float, ended_usd_hour: float = 0.0) -> "WarmLedger":
        """Return the ledger with the cost from now on. Machines that end now cost a little more."""
        return WarmLedger(self.at, self.spent_usd + ended_usd_hour * _END_H, usd_hour)


@dataclass(frozen=True, slots=True)
class WarmHistory:
    """The usual starts of a pool's work, the measured time to the first step, and the money spent today."""

    rates: tuple[StartRate, ...]
    startup_h: float
    ledger: WarmLedger


class WarmOffer(NamedTuple):
    """The cheapest machine of a pool."""

    usd_hour: float
    slots: int


class WarmChoice(NamedTuple):
    """The number of warm machines now, why, and when to choose again. `next_at` is None if nothing will change soon."""

    machines: int
    sentence: str
    next_at: float | None = None


def choose_warm(
    policy: WarmPolicy, history: WarmHistory, offer: WarmOffer, now: float
) -> WarmChoice:
    """Return how many idle machines the pool keeps at this time."""
    hours = planned(policy, history, offer, now)
    hour = int(now % DAY_S // HOUR_S)
    wanted, ledger = hours[hour], history.ledger.until(now)
    next_hour = now - now % HOUR_S + HOUR_S
    # A plan of later hours wakes no idle cluster: only the current and the next hour are looked at.
    is_near = wanted or hours[(hour + 1) % 24]
    rate = _rate(history.rates, offer, now)
    when = f"{hour}–{hour + 1} o'clock UTC has {rate:.1f} starts/hour"
    if not wanted:
        text = f"no machine is kept warm: {when}"
        return WarmChoice(0, text, next_hour if is_near else None)
    left_usd = policy.max_usd_day - ledger.spent_usd
    tail_usd = offer.usd_hour * MOST_DEARER * TAIL_H
    machines = min(wanted, max(0, math.floor(left_usd / tail_usd)))
    if not machines:
        text = f"no machine is kept warm: ${ledger.spent_usd:.2f} of at most ${policy.max_usd_day:g} are spent today"
        return WarmChoice(0, text, next_hour)
    usd_day = sum(hours) * offer.usd_hour
    text = (
        f"{machines} {'machine is' if machines == 1 else 'machines are'} kept warm: {when}; costs"
        f" ${usd_day:.2f}/day of at most ${policy.max_usd_day:g}"
    )
    most_usd_hour = max(ledger.usd_hour, machines * offer.usd_hour * MOST_DEARER)
    spent_at = now + (left_usd - machines * tail_usd) / most_usd_hour * HOUR_S
    return WarmChoice(machines, text, min(next_hour, max(spent_at, now + 60)))


def planned(
    policy: WarmPolicy, history: WarmHistory, offer: WarmOffer, now: float
) -> Sequence[int]:
    """Return the warm machines of each hour of the day that `now` is in."""
    midnight = now - now % DAY_S
    values = []
    for hour in range(24):
        rate = _rate(history.rates, offer, midnight + hour * HOUR_S)
        for machine, usd in enumerate(_values(rate, history.startup_h, policy.waiting_usd_hour)):
            if usd > offer.usd_hour:
                values.append((-usd, hour, machine))
    hours, spent_usd = [0] * 24, 0.0
    for _, hour, _ in sorted(values):
        if spent_usd + offer.usd_hour > policy.max_usd_day:
            break
        hours[hour] += 1
        spent_usd += offer.usd_hour
    return hours


@lru_cache(maxsize=1024)
def _values(rate: float, startup_h: float, waiting_usd_hour: float) -> tuple[float, ...]:
    """Return the saving per hour of each further warm machine. The values never rise.

    With frequent starts the first machines alone save little, and have the mean value of a larger group.
    """
    waits = [rate * _poisson(machine, rate * startup_h) for machine in range(_MOST_MACHINES)]
    values: list[float] = []
    for first in range(_MOST_MACHINES):
        sums = accumulate(waits[first:])
        most = max(total / count for count, total in enumerate(sums, start=1))
        values.append(min([*values[-1:], waiting_usd_hour * startup_h * most]))
    return tuple(values)


def _rate(rates: Iterable[StartRate], offer: WarmOffer, at: float) -> float:
    """Return the starts in an hour that fit on one machine."""
    hour, day = int(at % DAY_S // HOUR_S), int(at // DAY_S)
    is_weekend = (day + 3) % 7 >= 5  # the first day of the epoch was a Thursday
    return sum(
        rate.per_hour
        for rate in rates
        if rate.hour == hour and rate.is_weekend == is_weekend and rate.slots <= offer.slots
    )


def _poisson(count: int, mean: float) -> float:
    return math.exp(-mean) * mean**count / math.factorial(count)
