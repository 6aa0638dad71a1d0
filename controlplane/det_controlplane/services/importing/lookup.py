"""Find imported objects by the ids that they had in their old cluster."""

from collections.abc import Iterator, Sequence
from typing import Any

from det_controlplane.core.importing.ids import Reference, parse_reference
from det_controlplane.db.importing import lookup, target
from det_controlplane.db.importing.target import Progress
from det_controlplane.services.context import Context
from det_controlplane.services.errors import Invalid, Missing

# Kinds of objects that people name by their numbers, with their tables.
_KINDS = {"experiment": "experiments", "trial": "trials"}


def listed(ctx: Context) -> list[dict[str, Any]]:
    """Return all imports, the oldest first."""
    with ctx.db.autocommit() as tx:
        return [
            {
                "id": each.id, "name": each.name or "", "clusterId": each.source, "complete": each.ended,
                "startTime": each.began_at.isoformat(), "experimentOffset": each.offsets["experiments"],
                "lastExperimentId": each.last_ids.get("experiments", 0),
            }
            for each in target.every(tx)
        ]  # fmt: skip


def resolve(ctx: Context, kind: str, text: str) -> int:
    """Return the id here of a reference such as old:17. Raises Missing, and Invalid if several imports have it."""
    reference = parse_reference(text)
    if reference is None:
        raise Invalid(f"{text!r} is no old id: write old:17, or old:NAME/17 for a named import")
    table = _KINDS.get(kind)
    if table is None:
        raise Invalid(f"kind {kind!r}: give experiment or trial")
    with ctx.db.autocommit() as tx:
        imports = target.every(tx)
        candidates = {
            each.title: each.ids.new(table, reference.id)
            for each in _selected(imports, reference)
            if reference.id <= each.last_ids.get(table, 0)
        }
        present = lookup.present(tx, table, list(candidates.values()))
    found = {title: id for title, id in candidates.items() if id in present}
    if not found:
        raise Missing(_absence(kind, reference, imports))
    if len(found) > 1:
        raise Invalid(
            f"several imports have {kind} {reference.id}: write "
            + " or ".join(
                f"old:{title}/{reference.id} ({kind} {id})" for title, id in found.items()
            )
        )
    return next(iter(found.values()))


def _selected(imports: Sequence[Progress], reference: Reference) -> Iterator[Progress]:
    chosen = [each for each in imports if not reference.name or reference.name == each.title]
    if reference.name and imports and not chosen:
        names = ", ".join(each.title for each in imports)
        raise Missing(f"there is no import {reference.name}: the imports are {names}")
    yield from chosen


def _absence(kind: str, reference: Reference, imports: Sequence[Progress]) -> str:
    if not imports:
        return f"{reference} names an imported {kind}, and this cluster has no imports"
    unfinished = [each.title for each in imports if not each.ended]
    rest = f"; import {unfinished[0]} is not complete" if unfinished else ""
    return f"no import has {kind} {reference.id}{rest}"
