"""Send changes of projects, models and model versions to a client, starting at its last known state."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from det_controlplane.core import id_ranges
from det_controlplane.core.id_ranges import Ranges
from det_controlplane.core.people.roles import Right
from det_controlplane.db.people import updates
from det_controlplane.services.context import Context
from det_controlplane.services.principal import User

# The keys of changed and deleted rows in messages, and the right to see such rows.
_NAMES = {
    "projects": ("project", "projects_deleted", Right.VIEW_PROJECT),
    "models": ("model", "models_deleted", Right.VIEW_MODEL_REGISTRY),
    "modelversions": ("modelversion", "modelversions_deleted", Right.VIEW_MODEL_REGISTRY),
}
KINDS: Mapping[str, Sequence[str]] = {kind: updates.filters_of(kind) for kind in _NAMES}
"""The kinds of objects that clients can subscribe to, with the names of their id filters."""

Seen = Mapping[str, Mapping[int, int]]
"""The number of the last reported change of each row, by kind and id."""


@dataclass(frozen=True, slots=True)
class Subscription:
    """The rows of one kind that a client subscribes to."""

    known: Ranges  # ids that it has from an earlier connection
    chosen: Mapping[str, Sequence[int]]  # none: every row that it may see


@dataclass(frozen=True, slots=True)
class Change:
    """A message about a change: its name, and its value as JSON."""

    name: str
    value: str


def look(
    ctx: Context, user: User, wishes: Mapping[str, Subscription], seen: Seen | None
) -> tuple[list[Change], Seen]:
    """Return the changes since the last look, and the state to compare with next time; at first everything is new."""
    changes: list[Change] = []
    now: dict[str, Mapping[int, int]] = {}
    with ctx.db.autocommit() as tx:
        for kind, subscription in wishes.items():
            within = user.grants.workspaces(_NAMES[kind][2])
            numbers = updates.numbers(tx, kind, within, subscription.chosen)
            before = {} if seen is None else seen[kind]
            known_ids = subscription.known if seen is None else id_ranges.of(before)
            name, deleted, _ = _NAMES[kind]
            missing_ids = id_ranges.without(known_ids, numbers)
            if missing_ids:
                changes.append(Change(deleted, f'"{id_ranges.shown(missing_ids)}"'))
            changed = [id for id, seq in numbers.items() if before.get(id) != seq]
            changes += [Change(name, row) for row in updates.rows(tx, kind, changed, within)]
            now[kind] = numbers
    return changes, now
