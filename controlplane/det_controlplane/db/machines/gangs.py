"""Read the gangs that rented machines belong to."""

from collections.abc import Collection
from datetime import datetime
from uuid import UUID

from sqlalchemy import select, text

from det_controlplane.core.provision.gang import Gang
from det_controlplane.db import schema
from det_controlplane.db.engine.database import Tx

_i = schema.instances.c
IN_GROUP = "placement group "  # how the placement of a machine in a group begins

# A machine that its cloud accepted and ended before it joined: the cloud had no room after all.
_GANG = text("""
    SELECT a.id, a.strict_topology,
        coalesce((SELECT json_agg(z.zone ORDER BY z.machines DESC, z.zone) FROM (
            SELECT i.zone, count(*) AS machines FROM instances i
            WHERE i.pool = m.pool AND i.state IN ('LAUNCHED', 'REGISTERED') AND i.purpose = m.purpose
                AND i.provider = m.provider AND i.region = m.region AND i.zone <> '' AND i.cloud_id IS NOT NULL
            GROUP BY i.zone) z), '[]'::json) AS zones,
        EXISTS (SELECT FROM instances i WHERE i.ended_at > cast(:now AS timestamptz) - interval '1 hour'
            AND i.launched_at IS NOT NULL AND i.purpose = m.purpose AND i.state = 'GONE'
            AND i.registered_at IS NULL AND i.terminating_since IS NULL) AS avoids_group
    FROM instances m JOIN allocations a ON a.id = m.purpose
    WHERE m.id = :id AND m.slots > 0 AND a.slots > m.slots
""")


def any_in_group(tx: Tx, ids: Collection[UUID]) -> bool:
    """Return whether some machines were in a placement group."""
    in_group = select(_i.id).where(_i.id.in_(ids), _i.placement.startswith(IN_GROUP)).exists()
    return bool(ids) and bool(tx.execute(select(in_group)).scalar())


def of_machine(tx: Tx, machine_id: UUID, now: datetime) -> Gang | None:
    """Return the gang that a requested machine is for, or None if its allocation needs one machine only."""
    row = tx.execute(_GANG, {"id": machine_id, "now": now}).first()
    return (
        None
        if row is None
        else Gang(row.id, tuple(row.zones), row.strict_topology, row.avoids_group)
    )
