"""The audit log: its rows are written in the transaction of the change that they record, and listed."""

from collections.abc import Iterator
from datetime import datetime
from typing import Any

from sqlalchemy import and_, bindparam, delete, func, or_, select, text

from det_controlplane.core.paging import Page, Sort
from det_controlplane.db.engine import pages
from det_controlplane.db.engine.database import Database, Tx, as_json
from det_controlplane.db.engine.pages import Collection
from det_controlplane.db.engine.views import moment, shown
from det_controlplane.db.schema import audit_log

_a = audit_log.c
# Only a transaction that has written something has an id.
_ADD = text("""
    INSERT INTO audit_log (at, user_id, username, via, session_id, task_id, address, action, object, details)
    SELECT :at, :user_id, coalesce(nullif(:username, ''), (SELECT username FROM users WHERE id = :user_id), ''),
        :via, :session_id, :task_id, :address, :action, :object, cast(:details AS jsonb)
    WHERE pg_current_xact_id_if_assigned() IS NOT NULL
""")
_ADD_REFUSAL = text("""
    INSERT INTO audit_log (at, user_id, username, via, address, action, object, details)
    SELECT :at, coalesce((SELECT id FROM users WHERE username = :username), 0), :username, 'sign-in', :address, :action, '',
        jsonb_build_object('attempts', cast(:attempts AS integer))
    WHERE :most > (SELECT count(*) FROM audit_log WHERE action = :action AND at > :since)
""")
_LISTED = Collection(
    "entries",
    select(
        shown(
            _a.id, _a.user_id, _a.username, _a.via, _a.session_id, _a.task_id, _a.address, _a.action, _a.object,
            _a.details, at=moment(_a.at),
        )
    ),
    orders={"SORT_BY_ID": _a.id},
    filters={
        "username": _a.username == bindparam("username"),
        "object": or_(
            _a.object == bindparam("object"), func.starts_with(_a.object, bindparam("object") + " ")
        ),
        # Names that begin with the action and a dot; `/` is the next character. An index finds such a range.
        "action": or_(
            _a.action == bindparam("action"),
            and_(
                _a.action.bool_op("~>=~")(func.concat(bindparam("action"), ".")),
                _a.action.bool_op("~<~")(func.concat(bindparam("action"), "/")),
            ),
        ),
        "since": _a.at >= bindparam("since"),
        "until": _a.at < bindparam("until"),
    },
    counted=10_000,
)  # fmt: skip


def add(tx: Tx, details: dict[str, Any], **columns: Any) -> bool:
    """Write a row if the transaction has written anything; return whether it has."""
    return tx.execute(_ADD, {**columns, "details": as_json(details)}).rowcount == 1


def count_as_writing(tx: Tx) -> None:
    """Mark a transaction that only reads as one that the audit log records."""
    tx.execute(text("SELECT pg_current_xact_id()"))


def has(tx: Tx, action: str, object: str, session_id: int, since: datetime) -> bool:
    """Return whether a session has an audit entry for an action on an object since a time."""
    conditions = (
        _a.object == object,
        _a.action == action,
        _a.session_id == session_id,
        _a.at > since,
    )
    return tx.execute(select(_a.id).where(*conditions).limit(1)).first() is not None


def add_refusal(tx: Tx, *, since: datetime, most: int, **columns: Any) -> None:
    """Write a row about a sign-in that failed, unless there are many since a time."""
    tx.execute(_ADD_REFUSAL, {**columns, "since": since, "most": most})


def listed(db: Database, page: Page, sort: Sort, filters: dict[str, Any]) -> Iterator[str]:
    return pages.find(db, _LISTED, page, sort, filters)


def forget_before(tx: Tx, time: datetime) -> None:
    tx.execute(delete(audit_log).where(_a.at < time))
