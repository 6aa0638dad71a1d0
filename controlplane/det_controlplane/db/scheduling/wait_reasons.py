"""Store why allocations wait: one row for each reason, to which the allocations of a pool refer.

Thousands of allocations wait for the same reason. When its numbers change, one row changes.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from sqlalchemy import text

from det_controlplane.core.schedule import WaitCode, WaitReason
from det_controlplane.db.engine.database import Tx, as_json

_STORED = text("SELECT id, code::text AS code, sentence FROM wait_reasons WHERE pool = :pool")
_CHANGE = text("""
    UPDATE wait_reasons w SET sentence = x.sentence
    FROM jsonb_to_recordset(cast(:rows AS jsonb)) AS x (id bigint, sentence text) WHERE w.id = x.id
""")
_INSERT = text("""
    INSERT INTO wait_reasons (pool, code, sentence)
    SELECT :pool, x.code, x.sentence FROM jsonb_to_recordset(cast(:rows AS jsonb)) AS x (code wait_code, sentence text)
    RETURNING id, code::text AS code, sentence
""")
_DELETE = text("DELETE FROM wait_reasons WHERE id = ANY(cast(:ids AS bigint[]))")
# A pass refers to allocations of many experiments, which others lock in orders of their own. Skip locked rows.
_REFER = text("""
    WITH x AS (
        SELECT s.* FROM jsonb_to_recordset(cast(:rows AS jsonb)) AS s (id text, code wait_code, reason bigint)
        JOIN allocations f ON f.id = s.id WHERE f.state = 'QUEUED' FOR UPDATE OF f SKIP LOCKED)
    UPDATE allocations a SET wait_code = x.code, wait_reason = NULL, wait_reason_id = x.reason,
        wait_since = coalesce(a.wait_since, :now)
    FROM x WHERE a.id = x.id
""")


@dataclass(slots=True)
class Changes:
    """The rows of wait_reasons to change, to insert and to delete, and the reason of each row that stays."""

    sentences: dict[int, str] = field(default_factory=dict)
    new: list[WaitReason] = field(default_factory=list)
    unused: list[int] = field(default_factory=list)
    ids: dict[WaitReason, int] = field(default_factory=dict)


def record(
    tx: Tx,
    pool: str,
    current: Mapping[str, int | None],
    waiting: Mapping[str, WaitReason],
    now: datetime,
) -> None:
    """Store the reason of each waiting allocation; `current` has the ids to which they refer.

    An allocation that another transaction has locked keeps its id: that transaction marks the pool for another pass.
    """
    reasons = {
        r.id: WaitReason(WaitCode(r.code), r.sentence) for r in tx.execute(_STORED, {"pool": pool})
    }
    members = _by_reason(waiting)
    changes = changes_of(reasons, members, current)
    if changes.sentences:
        rows = [{"id": id, "sentence": sentence} for id, sentence in changes.sentences.items()]
        tx.execute(_CHANGE, {"rows": as_json(rows)})
    if changes.new:
        rows = [{"code": r.code.value, "sentence": r.sentence} for r in changes.new]
        for row in tx.execute(_INSERT, {"pool": pool, "rows": as_json(rows)}):
            changes.ids[WaitReason(WaitCode(row.code), row.sentence)] = row.id
    _refer(tx, members, changes.ids, current, now)
    if changes.unused:
        tx.execute(_DELETE, {"ids": changes.unused})


def changes_of(
    stored: Mapping[int, WaitReason],
    members: Mapping[WaitReason, Iterable[str]],
    current: Mapping[str, int | None],
) -> Changes:
    """Return changes after which few allocations refer to another row: a row follows most of its allocations."""
    changes = Changes()
    claims = []
    for reason, allocations in members.items():
        for id, count in Counter(map(current.get, allocations)).items():
            if id is not None and id in stored and stored[id].code == reason.code:
                claims.append((count, id, reason))
    used_ids: set[int] = set()
    for _, id, reason in sorted(claims, reverse=True):
        if id not in used_ids and reason not in changes.ids:
            changes.ids[reason] = id
            used_ids.add(id)
            if stored[id].sentence != reason.sentence:
                changes.sentences[id] = reason.sentence
    changes.new = [reason for reason in members if reason not in changes.ids]
    changes.unused = sorted(stored.keys() - used_ids)
    return changes


def _by_reason(waiting: Mapping[str, WaitReason]) -> dict[WaitReason, list[str]]:
    """Group allocations by reason. Grouping by object first is faster, because most reasons are shared."""
    by_object: defaultdict[int, list[str]] = defaultdict(list)
    keys = list(map(id, waiting.values()))
    for allocation_id, key in zip(waiting, keys, strict=True):
        by_object[key].append(allocation_id)
    reasons = dict(zip(keys, waiting.values(), strict=True))
    members: dict[WaitReason, list[str]] = {}
    for key, allocations in by_object.items():
        members.setdefault(reasons[key], []).extend(allocations)
    return members


def _refer(
    tx: Tx,
    members: Mapping[WaitReason, Iterable[str]],
    ids: Mapping[WaitReason, int],
    current: Mapping[str, int | None],
    now: datetime,
) -> None:
    rows = [
        {"id": allocation, "code": reason.code.value, "reason": ids[reason]}
        for reason, allocations in members.items()
        if set(map(current.get, allocations)) != {ids[reason]}  # thousands at once, nearly always
        for allocation in allocations
        if current.get(allocation) != ids[reason]
    ]
    if rows:
        tx.execute(_REFER, {"rows": as_json(rows), "now": now})
