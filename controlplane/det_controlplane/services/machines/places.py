"""List the places where pools rent machines, and the settings with which their clouds are reached."""

from det_controlplane.core.config.pools import Pool
from det_controlplane.db.machines import machines
from det_controlplane.ports.compute import Place
from det_controlplane.services.context import Context


def rented_pools(ctx: Context) -> list[Pool]:
    """Return the pools that rent machines."""
    return [pool for pool in ctx.config.resource_pools if pool.offers]


def providers_left(ctx: Context) -> set[str]:
    """Return the clouds that have machines, including clouds in which pools stopped renting."""
    with ctx.db.autocommit() as tx:
        return {provider for provider, _ in machines.places(tx)}


def place_of(ctx: Context, provider: str, region: str) -> Place:
    """Return a region with the settings of a section that rents there."""
    sections = [s for pool in rented_pools(ctx) for s in pool.sections if s.provider == provider]
    own = next((s for s in sections if region in s.regions), sections[0] if sections else None)
    return Place(region, own.settings if own is not None else {})
