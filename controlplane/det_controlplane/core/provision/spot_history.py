"""Remember the spells in which spot offers are available, from launches, refusals and reclaims."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from .offers import Capacity, Offer, Scope
from .spot_spells import EndCounts, SpotOffer

_NO_ENDS = EndCounts()

# An offer may have changed its state several times in a longer time without observations.
MOST_UNOBSERVED_S = 3600.0
# Old observations lose half of their weight in so long.
_HALF_LIFE_S = 14 * 86400.0
# A running machine counts as an observation so often.
_HELD_OBSERVED_S = 600.0


@dataclass(frozen=True, slots=True)
class SpotSpell:
    """The current spell of a spot offer, and the ends of its earlier spells. Times are seconds since the epoch."""

    is_available: bool
    since: float
    observed_at: float
    available: EndCounts = _NO_ENDS
    unavailable: EndCounts = _NO_ENDS

    def offer(self, name: str, price: float, is_available: bool, now: float) -> SpotOffer:
        """Return the offer for a decision. The age is zero if the state was not observed for long."""
        is_known = is_available == self.is_available and now - self.observed_at <= MOST_UNOBSERVED_S
        age_h = (now - self.since) / 3600 if is_known else 0.0
        return SpotOffer(name, price, is_available, age_h, self.available, self.unavailable)


def after_observation(
    spell: SpotSpell | None, is_available: bool, now: float, *, was_held: bool = False
) -> SpotSpell:
    """Return the spell after an observation. `was_held` says that a machine of the offer ran since the last one."""
    if spell is None:
        return SpotSpell(is_available, now, now)
    unobserved_s = max(0.0, now - spell.observed_at)
    kept = 0.5 ** (unobserved_s / _HALF_LIFE_S)
    available, unavailable = _faded(spell.available, kept), _faded(spell.unavailable, kept)
    if unobserved_s > MOST_UNOBSERVED_S and not was_held:
        return SpotSpell(is_available, now, now, available, unavailable)
    age_h = max(0.0, spell.observed_at - spell.since) / 3600
    before = SpotOffer("", 0.0, spell.is_available, age_h, available, unavailable)
    offer = before.after(unobserved_s / 3600, is_available)
    since = spell.since if is_available == spell.is_available else now
    return SpotSpell(is_available, since, now, offer.available, offer.unavailable)


def _faded(counts: EndCounts, kept: float) -> EndCounts:
    return EndCounts(counts.seen * kept, counts.expected * kept)


def is_of(rented: Offer, offer: Offer) -> bool:
    """Return whether a rented machine is one of an offer, which may name no zone."""
    zone = rented.zone if offer.zone else ""
    return Scope.of(rented)._replace(zone=zone) == Scope.of(offer)


def observed_spells(
    offers: Iterable[Offer],
    machines: Collection[Offer],
    reclaims: Collection[tuple[Scope, float]],
    spells: Mapping[Scope, SpotSpell],
    now: float,
) -> dict[Scope, SpotSpell]:
    """Return the spells that running machines and reclaims change. `machines` are the offers of the spot machines."""
    changed = {}
    for offer in offers:
        scope = Scope.of(offer)
        if offer.capacity is not Capacity.SPOT or scope in changed:
            continue
        spell = before = spells.get(scope)
        for reclaimed, time in sorted(reclaims, key=lambda reclaim: reclaim[1]):
            if _covers(scope, reclaimed) and (spell is None or time > spell.observed_at):
                spell = after_observation(spell, False, time, was_held=True)
        is_due = spell is None or now - spell.observed_at >= _HELD_OBSERVED_S
        if is_due and any(is_of(machine, offer) for machine in machines):
            was_held = spell is not None and spell.is_available
            spell = after_observation(spell, True, now, was_held=was_held)
        if spell is not None and spell is not before:
            changed[scope] = spell
    return changed


def _covers(scope: Scope, reclaimed: Scope) -> bool:
    zone = reclaimed.zone if scope.zone else ""
    return scope._replace(capacity="") == reclaimed._replace(zone=zone, capacity="")


def spell_of(spells: Mapping[Scope, SpotSpell], offer: Offer, now: float) -> SpotSpell:
    """Return the spell of an offer. An offer that was never observed has no history."""
    return spells.get(Scope.of(offer)) or SpotSpell(True, now, now)
