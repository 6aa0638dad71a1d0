"""The spot market of the reference month: when a zone has machines of a type.

By default, spells are drawn from the law of `core.provision.spot_spells`, with the factors of a public trace: six weeks
from 2023-02-15, one V100 at AWS, the data of "Can't Be Late" (NSDI 2024). With the files of such a trace, its own ticks
are replayed.
"""

import json
import math
import random
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from det_controlplane.core.provision.offers import Offer
from det_controlplane.core.provision.spot_spells import hours_until_end

HOUR = 3600.0
Factors = tuple[float, float]
# How much more often spells of availability, and the spells between them, end than the law says.
PLENTY: Mapping[str, Factors] = {
    "us-west-2a": (0.87, 1.72), "us-west-2b": (0.77, 1.48), "us-west-2c": (0.87, 1.74),
}  # fmt: skip
SCARCITY: Mapping[str, Factors] = {
    "us-east-1c": (1.42, 1.26), "us-east-1d": (1.34, 1.19), "us-east-1f": (1.21, 1.39),
}  # fmt: skip
# The part of the time in which a zone had a machine.
SHARES = {
    "us-west-2a": 0.88, "us-west-2b": 0.90, "us-west-2c": 0.89,
    "us-east-1c": 0.47, "us-east-1d": 0.45, "us-east-1f": 0.59,
}  # fmt: skip


class DrawnSpells:
    """Draws the spells of each zone and type. Only the seed determines them."""

    def __init__(self, zones: Mapping[str, Factors], seed: int) -> None:
        self._zones, self._seed = zones, seed
        self._random: dict[str, random.Random] = {}
        self._changes: dict[str, list[float]] = {}  # an available spell begins with each odd one

    def state(self, offer: Offer, at: float) -> tuple[bool, float]:
        """Return whether a zone has a type at a time, and until when that stays so."""
        key = f"{offer.zone} {offer.machine_type}"
        numbers = self._random.setdefault(key, random.Random(f"{self._seed}/{key}"))
        changes = self._changes.setdefault(key, [0.0])
        factors = self._zones[offer.zone]
        while changes[-1] <= at:
            factor = factors[0] if len(changes) % 2 else factors[1]
            changes.append(changes[-1] + HOUR * hours_until_end(numbers.random(), factor))
        place = bisect_right(changes, at)
        return place % 2 == 1, changes[place]


class TracedSpells:
    """Replays the ticks of trace files. Each type starts at another tick, and the trace repeats."""

    def __init__(self, folder: Path, zones: Iterable[str], types: Sequence[str]) -> None:
        self._ticks: dict[str, list[int]] = {}
        self._tick_s: dict[str, float] = {}
        for zone in zones:
            files = sorted(folder.rglob(f"{zone}_*.json"))
            if not files:
                raise SystemExit(f"{folder}: there is no trace of {zone} ({zone}_….json)")
            document = json.loads(files[0].read_text())
            self._ticks[zone] = document["data"]
            self._tick_s[zone] = document["metadata"]["gap_seconds"]
        self._starts = {name: n / len(types) for n, name in enumerate(types)}

    def state(self, offer: Offer, at: float) -> tuple[bool, float]:
        """Return whether a zone has a type at a time, and until when that stays so."""
        ticks, tick_s = self._ticks[offer.zone], self._tick_s[offer.zone]
        now = math.floor(at / tick_s)
        start = int(self._starts[offer.machine_type] * len(ticks))
        here = bool(ticks[(start + now) % len(ticks)])
        length = next(
            (
                n
                for n in range(1, len(ticks))
                if bool(ticks[(start + now + n) % len(ticks)]) != here
            ),
            len(ticks),
        )
        return here, (now + length) * tick_s
