"""Launch the machines of a gang close to each other: the first machine decides the zone of the others."""

from collections.abc import Sequence

from det_controlplane.core.provision.gang import Gang
from det_controlplane.db.machines import gangs
from det_controlplane.db.machines.machines import Requested
from det_controlplane.ports.compute import CloudMachine, LaunchOutcome
from det_controlplane.services.context import Context

Waves = tuple[list[Requested], list[Requested]]


def waves(requests: Sequence[Requested]) -> Waves:
    """Return the launches to make at once, and the launches that follow: all but the first of each gang."""
    first: list[Requested] = []
    rest: list[Requested] = []
    started: set[str] = set()
    for request in requests:
        follows = request.purpose in started
        (rest if follows else first).append(request)
        if request.purpose:
            started.add(request.purpose)
    return first, rest


def of_request(ctx: Context, requested: Requested) -> Gang | None:
    """Return the gang that a machine is for, or None."""
    if not requested.purpose:
        return None
    with ctx.db.autocommit() as tx:
        return gangs.of_machine(tx, requested.id, ctx.now())


def placement_of(
    machine: CloudMachine, outcome: LaunchOutcome | None, gang: Gang | None
) -> str | None:
    """Return where the cloud placed a machine of a gang. Return None for other machines outside of groups."""
    if machine.group:
        return gangs.IN_GROUP + machine.group
    if outcome is None or gang is None:
        return None
    reason = outcome.outside_group
    return f"no placement group: {reason}" if reason else "no placement group"
