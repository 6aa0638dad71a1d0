"""Find imported rows by their old ids."""

from collections.abc import Iterator, Sequence

from sqlalchemy import select

from det_controlplane.core.importing.ids import KINDS
from det_controlplane.db import schema
from det_controlplane.db.engine.database import Tx
from det_controlplane.db.importing.target import Progress

_ROWS = 10_000  # read at a time


def present(tx: Tx, kind: str, ids: Sequence[int]) -> set[int]:
    """Return the ids that rows of a kind have."""
    column = schema.metadata.tables[kind].c.id
    return set(tx.execute(select(column).where(column.in_(ids))).scalars())


def mapped(tx: Tx, progress: Progress) -> Iterator[tuple[str, int, int]]:
    """Yield the kind, the old id and the new id of imported rows, except metrics."""
    for kind in KINDS:
        if kind == "metrics":
            continue
        merged = progress.merged.get(kind, {})
        yield from ((kind, old, new) for old, new in sorted(merged.items()))
        offset = progress.offsets[kind]
        for id in _ids(tx, kind, offset, offset + progress.last_ids.get(kind, 0)):
            if id - offset not in merged:
                yield kind, id - offset, id


def _ids(tx: Tx, kind: str, after: int, last: int) -> Iterator[int]:
    column = schema.metadata.tables[kind].c.id
    while True:
        statement = select(column).where(column > after, column <= last).order_by(column)
        page = list(tx.execute(statement.limit(_ROWS)).scalars())
        yield from page
        if len(page) < _ROWS:
            return
        after = page[-1]
