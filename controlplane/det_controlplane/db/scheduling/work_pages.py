"""All work as pages: experiments, commands, notebooks, shells, TensorBoards and generic tasks, by their jobs.

Triggers copy the values for filters and orders from experiments and tasks to `jobs`, so one index has the rows in
their order. The JSON of a row is one expression, which PostgreSQL evaluates for the rows of a page only.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import ColumnElement, Text, bindparam, func, literal_column, select, text, tuple_

from det_controlplane.core.config.pools import DEFAULT_PRIORITY
from det_controlplane.core.paging import Page, Sort
from det_controlplane.db.engine import pages, views
from det_controlplane.db.engine.database import Database
from det_controlplane.db.engine.pages import Collection, has_text, one_of
from det_controlplane.db.schema import jobs, users, workspaces

_JOBS, _USERS, _WORKSPACES = jobs.alias("j"), users.alias("u"), workspaces.alias("w")
# With an inner join, PostgreSQL reads the rows owner by owner.
_OWNERS = users.alias("o")
_j, _u, _w = _JOBS.c, _USERS.c, _WORKSPACES.c
# The state of the furthest run of active work. Nobody schedules the runs of an unmanaged experiment.
_IS_UNMANAGED = "coalesce((SELECT e.unmanaged FROM experiments e WHERE e.job_id = j.id), false)"
_LIVE = f"""CASE WHEN {_IS_UNMANAGED} THEN 'ACTIVE'
    ELSE {views.FURTHEST.format(key="job_id = j.id")} END"""
# A filter finds the live jobs once, because few jobs are live. Active work without a run is queued.
_IS_LIVE = f"""(j.work_state = 'ACTIVE' AND (j.id IN (
        SELECT a.job_id FROM allocations a WHERE a.state <> 'TERMINATED' GROUP BY a.job_id
        HAVING {views.FURTHEST_STATE} = ANY(cast(:live_states AS text[])))
    OR 'QUEUED' = ANY(cast(:live_states AS text[])) AND NOT {_IS_UNMANAGED} AND NOT EXISTS (
        SELECT FROM allocations a WHERE a.job_id = j.id AND a.state <> 'TERMINATED' OFFSET 0)))"""
_STATE = f"CASE WHEN j.work_state = 'ACTIVE' THEN {_LIVE} ELSE j.work_state END"
_PRIORITY = f"""coalesce(j.priority, (SELECT p.default_priority
    FROM json_to_recordset(cast(:pools AS json)) AS p(name text, default_priority integer) WHERE p.name = j.pool),
    {DEFAULT_PRIORITY})"""
_ALLOCATED = """(SELECT coalesce(sum(a.slots), 0) FROM allocations a
    WHERE a.job_id = j.id AND a.state NOT IN ('QUEUED', 'TERMINATED'))"""
_OF_EXPERIMENT = views.fields(
    {
        "entityId": views.quoted("e.id"),
        "progress": "coalesce(e.progress::text, 'null')",
        "unmanaged": "e.unmanaged::text",
        "noPause": "e.unmanaged::text",
        "exitStatus": "to_json(e.error)",
    }
)
_OF_TASK = views.fields(
    {
        "entityId": "to_json(k.id)",
        "progress": "'null'",
        "unmanaged": "'false'",
        "noPause": "(k.kind <> 'GENERIC' OR k.no_pause)::text",
        "exitStatus": "to_json(coalesce(k.exit_status, ''))",
    }
)
_FIELDS = views.fields(
    {
        "type": views.quoted("'TYPE_' || j.kind"),
        "name": "to_json(j.name)",
        "state": views.quoted(f"'STATE_' || {_STATE}"),
        "userId": "j.user_id",
        "username": "to_json(u.username)",
        "displayName": "to_json(coalesce(u.display_name, ''))",
        "workspaceId": "j.workspace_id",
        "workspaceName": "to_json(w.name)",
        "resourcePool": "to_json(j.pool)",
        "weight": "j.weight",
        "allocatedSlots": _ALLOCATED,
        "submissionTime": views.quoted(views.time("j.submitted_at")),
        "endTime": f"coalesce(to_json({views.time('j.work_ended_at')})::text, 'null')",
        "archived": "j.work_archived::text",
        "cursor": views.quoted(
            "trunc(extract(epoch FROM j.submitted_at) * 1000000)::text || '.' || j.id"
        ),
    }
)
# Each job is one row, also if several tasks share it.
_ENTITY = f"""coalesce((SELECT concat({_OF_EXPERIMENT}) FROM experiments e WHERE e.job_id = j.id),
    (SELECT concat({_OF_TASK}) FROM tasks k WHERE k.job_id = j.id AND k.trial_id IS NULL
     ORDER BY k.started_at, k.id LIMIT 1))"""
_ROW: ColumnElement[str] = func.concat(
    literal_column(f"""'{{"jobId":"', j.id, '"', {_FIELDS}, ',"priority":'"""),
    text(_PRIORITY),
    literal_column(f"{_ENTITY}, '}}'"),
)
_CONDITIONS: dict[str, Any] = {
    "types": text("j.kind = ANY(cast(:types AS job_kind[]))"),
    "states": text("j.work_state = ANY(cast(:states AS text[]))"),
    "all_states": text(f"(j.work_state = ANY(cast(:all_states AS text[])) OR {_IS_LIVE})"),
    "seen": text(
        "CASE WHEN j.kind = 'EXPERIMENT' THEN cast(:seen_experiments AS integer[]) IS NULL"
        " OR j.workspace_id = ANY(cast(:seen_experiments AS integer[]))"
        " ELSE cast(:seen_tasks AS integer[]) IS NULL"
        " OR j.workspace_id = ANY(cast(:seen_tasks AS integer[])) END"
    ),
}
_LISTED = Collection(
    "work",
    # The joined rows always exist. PostgreSQL removes outer joins that a count does not need.
    select(_ROW)
    .select_from(
        _JOBS.outerjoin(_USERS, _u.id == _j.user_id).outerjoin(
            _WORKSPACES, _w.id == _j.workspace_id
        )
    )
    .where(_j.work_state.is_not(None)),
    # Each order has an index. Rows of a type, a state, a pool or a workspace are found by filters.
    orders={
        "SORT_BY_SUBMISSION_TIME": _j.submitted_at, "SORT_BY_END_TIME": _j.work_ended_at, "SORT_BY_NAME": _j.name,
        "SORT_BY_USER": _OWNERS.c.username,
    },
    filters={
        **_CONDITIONS,
        "users": one_of(_u.username, "users"),
        "user_ids": one_of(_j.user_id, "user_ids"),
        "workspace_ids": one_of(_j.workspace_id, "workspace_ids"),
        "pools_named": one_of(_j.pool, "pools_named"),
        "text": has_text(_j.name, bindparam("text", type_=Text())),
        "since": _j.submitted_at >= bindparam("since"),
        "unarchived": ~_j.work_archived,
        # Rows after a cursor, in the two directions of the first order.
        "below": tuple_(_j.submitted_at, _j.id) < tuple_(bindparam("at"), bindparam("after_id")),
        "above": tuple_(_j.submitted_at, _j.id) > tuple_(bindparam("at"), bindparam("after_id")),
    },
    key=_j.id,
    searches=frozenset({"text"}),
    joins=[(_OWNERS, _OWNERS.c.id == _j.user_id)],
)  # fmt: skip
# Programs that read page after page need no exact number of the rows that are left.
_FOLLOWED = replace(_LISTED, counted=10_000)


@dataclass(frozen=True, slots=True)
class Cursor:
    """The place of a row in the order of submission."""

    submitted_at: datetime
    job_id: UUID


@dataclass(frozen=True, slots=True)
class Seen:
    """The workspaces whose experiments and other tasks the caller may see; None stands for all of them."""

    experiments: Sequence[int] | None
    tasks: Sequence[int] | None


def find(
    db: Database,
    page: Page,
    sort: Sort,
    filters: Mapping[str, Any],
    seen: Seen,
    default_priorities: Mapping[str, int],
    after: Cursor | None = None,
) -> Iterator[str]:
    """Return a page of work. Rows after a cursor are read in the order of submission."""
    given: dict[str, Any] = dict(filters)
    others: dict[str, Any] = {}
    others["pools"] = json.dumps(
        [{"name": name, "default_priority": n} for name, n in default_priorities.items()]
    )
    if live_states := given.pop("live_states", None):
        given["all_states"] = given.pop("states")
        others["live_states"] = live_states
    if seen.experiments is not None or seen.tasks is not None:
        given["seen"] = True
        others |= {
            "seen_experiments": None if seen.experiments is None else list(seen.experiments),
            "seen_tasks": None if seen.tasks is None else list(seen.tasks),
        }
    if after is None:
        return pages.find(db, _LISTED, page, sort, given, **others)
    given["below" if sort.descending else "above"] = True
    return pages.find(
        db, _FOLLOWED, page, sort, given, **others, at=after.submitted_at, after_id=after.job_id
    )
