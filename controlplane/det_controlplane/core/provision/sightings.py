"""Compare a cloud's list of machines with the rows of the cluster."""

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from uuid import UUID

from det_controlplane.core.lifecycle.machine import MachineState

# A running machine may be missing in some lists: clouds are eventually consistent, two lists may be read within a
# moment, and one may be from another account. A machine with a polling agent exists, whatever lists say.
ABSENCES_BELIEVED = 2
ABSENCE_BELIEVED_S = 60.0
# One that was ordered to end is expected to be missing, and costs until it is believed to be; but a list that never had
# it may be older than its launch.
ENDING_BELIEVED_S = 5.0


@dataclass(frozen=True, slots=True)
class Row:
    """A live instance as stored."""

    id: UUID
    state: MachineState
    cloud_id: str | None
    unseen: int
    under_way: bool = False  # its launch may be answered at any moment
    silent_s: float = math.inf  # since it was seen, launched or asked for, or its agent polled
    was_listed: bool = True


@dataclass(frozen=True, slots=True)
class Sighting:
    """A machine with the cluster's tag, as its cloud lists it."""

    cloud_id: str
    instance_id: UUID | None
    is_gone: bool
    is_stopped: bool = False


@dataclass(frozen=True, slots=True)
class Reconciliation:
    """Hold the consequences of one list of everything that the cluster owns."""

    adopted: Mapping[UUID, Sighting]  # their launch was never answered, but happened
    seen: tuple[UUID, ...]
    stopped: tuple[UUID, ...]
    absent: tuple[UUID, ...]  # missing, and not long enough to be believed
    gone: tuple[UUID, ...]
    orphans: tuple[Sighting, ...]  # machines without a live row: they are to be ended


def reconcile(rows: Collection[Row], sightings: Iterable[Sighting]) -> Reconciliation:
    """Compare live rows with the machines that their cloud listed before the rows were read."""
    all_sightings = list(sightings)
    alive = {s.cloud_id: s for s in all_sightings if not s.is_gone}
    ended_ids = {s.cloud_id for s in all_sightings if s.is_gone}
    by_id = {s.instance_id: s for s in alive.values() if s.instance_id is not None}
    adopted: dict[UUID, Sighting] = {}
    seen_ids, stopped, absent, gone = [], [], [], []
    claimed: set[str] = set()
    for row in rows:
        sighting = alive.get(row.cloud_id) if row.cloud_id else by_id.get(row.id)
        if sighting is not None:
            claimed.add(sighting.cloud_id)
            seen_ids.append(row.id)
            if row.cloud_id is None:
                adopted[row.id] = sighting
            if sighting.is_stopped:
                stopped.append(row.id)
        elif row.under_way or row.state is MachineState.REQUESTED:
            continue  # its launch is repeated until it is answered
        elif row.cloud_id in ended_ids or _is_believed(row):
            gone.append(row.id)
        else:
            absent.append(row.id)
    orphans = tuple(s for s in alive.values() if s.cloud_id not in claimed)
    return Reconciliation(
        adopted, tuple(seen_ids), tuple(stopped), tuple(absent), tuple(gone), orphans
    )


def _is_believed(absent: Row) -> bool:
    ending = absent.state is MachineState.TERMINATING and absent.was_listed
    least_s = ENDING_BELIEVED_S if ending else ABSENCE_BELIEVED_S
    return absent.unseen + 1 >= ABSENCES_BELIEVED and absent.silent_s >= least_s
