"""The machines of one allocation, which clouds place close to each other."""

from collections.abc import Sequence
from dataclasses import dataclass

from .offers import Offer


@dataclass(frozen=True, slots=True)
class Gang:
    """A gang that gets a machine. Its other machines may exist, or may be requested at the same time."""

    id: str  # the allocation
    zones: tuple[str, ...] = ()  # of the machines that exist, the zone with most machines first
    is_strict: bool = False  # a machine outside the zone and the group of the others is no use
    avoids_group: bool = False  # a machine of the gang was accepted, and the cloud had no room

    def zone_among(self, offers: Sequence[Offer]) -> str:
        """Return the zone of the gang in which an offer can be rented, or an empty text."""
        return next((z for z in self.zones if any(o.zone in ("", z) for o in offers)), "")

    def ordered(self, offers: Sequence[Offer]) -> tuple[Offer, ...]:
        """Return the offers with those for the gang's zone first. A strict gang gets only these."""
        zone = self.zone_among(offers)
        if not zone:
            return tuple(offers)
        near = [offer for offer in offers if offer.zone in ("", zone)]
        if self.is_strict:
            return tuple(near)
        return (*near, *(offer for offer in offers if offer not in near))
