"""`det job`: show and reorder the job queue."""

import argparse
import re
from typing import Any

from determined.common.http import Session

from det_cli.actions import work
from det_cli.connection import V1, connect, paged, pages
from det_cli.errors import UsageError, require_change
from det_cli.render import Column, local_time, say, show

_PREFIX = re.compile(r"[0-9a-f-]{1,35}", re.IGNORECASE)  # a whole id has 36 characters
_FIELDS = {
    "priority": "priority",
    "weight": "weight",
    "resource-pool": "resourcePool",
    "ahead-of": "aheadOf",
    "behind-of": "behindOf",
}


def list_(args: argparse.Namespace) -> None:
    if args.all:
        work.list_(args)
        return
    work.refuse_without_all(args)
    session = connect(args)
    pool = work.pool_named(session, args.resource_pool)
    order = "ORDER_BY_DESC" if args.reverse else "ORDER_BY_ASC"
    filters = {"resourcePool": pool["name"], "orderBy": order}
    rows = paged(session, args, "/job-queues-v2", "jobs", **filters)
    jobs = [j.get("full") or j["limited"] for j in rows]
    no_jobs = f"no job is queued or running in pool {pool['name']}; -p POOL lists another pool"
    show(args, _columns(pool["schedulerType"]), jobs, {"jobs": jobs}, empty=no_jobs)
    for job in jobs:
        if job.get("resourcePool", pool["name"]) != pool["name"] and job.get("why"):
            say(f"{job.get('name') or job['jobId']}: {job['why']}")


def _columns(scheduler: str) -> tuple[Column, ...]:
    is_fair_share = scheduler == "SCHEDULER_TYPE_FAIR_SHARE"
    weight: Column = ("Weight", lambda j: j.get("weight"))
    priority: Column = ("Priority", lambda j: j.get("priority"))
    return (
        ("#", lambda j: _position(j)),
        ("ID", lambda j: j["jobId"]),
        ("Type", lambda j: j["type"]),
        ("Job Name", lambda j: f"{j.get('name', '')} ({j['entityId']})" if "entityId" in j else ""),
        weight if is_fair_share else priority,
        ("Submitted", lambda j: local_time(j.get("submissionTime"))),
        ("Slots (acquired/needed)", lambda j: f"{j['allocatedSlots']}/{j['requestedSlots']}"),
        ("State", lambda j: (j.get("summary") or {}).get("state")),
        ("User", lambda j: j.get("username")),
    )


def _position(job: dict[str, Any]) -> Any:
    """Return the position of a job in its queue, as pages and `det top` number it: the first is 1."""
    jobs_ahead = (job.get("summary") or {}).get("jobsAhead", -1)
    return jobs_ahead + 1 if jobs_ahead > -1 else "N/A"


def update(args: argparse.Namespace) -> None:
    values = {name: getattr(args, name.replace("-", "_")) for name in _FIELDS}
    changes = {_FIELDS[name]: value for name, value in values.items() if value is not None}
    require_change(changes)
    session = connect(args)
    _send(session, _with_job_ids(session, {"jobId": args.job_id, **changes}))
    say(f"Updated job {args.job_id}.")


def update_batch(args: argparse.Namespace) -> None:
    """Update several jobs. All items are parsed first, so that a typing error changes no job."""
    changes = [_parse(item) for item in args.operation]
    session = connect(args)
    resolved = [_with_job_ids(session, change) for change in changes]
    for number, (change, request) in enumerate(zip(changes, resolved, strict=True), 1):
        try:
            _send(session, request)
        except Exception:
            remaining = args.operation[number:]
            if remaining:
                say(f"Not sent because an earlier update failed: {' '.join(remaining)}")
            raise
        say(f"Updated job {change['jobId']}.")


def _with_job_ids(session: Session, change: dict[str, Any]) -> dict[str, Any]:
    """Replace the numbers of experiments in an update by the ids of their jobs, and prefixes by whole ids."""
    jobs = {name: str(change[name]) for name in ("jobId", "aheadOf", "behindOf") if name in change}
    numbers = {name: word for name, word in jobs.items() if word.isascii() and word.isdigit()}
    experiments = {
        name: session.get(f"{V1}/experiments/{number}")["experiment"]
        for name, number in numbers.items()
    }
    prefixes = {name: word for name, word in jobs.items() if _PREFIX.fullmatch(word)}
    queued_ids = _queued_ids(session) if prefixes.keys() - numbers.keys() else []
    whole_ids = {name: _whole_id(queued_ids, word) for name, word in prefixes.items()}
    job_ids = {name: experiment["jobId"] for name, experiment in experiments.items()}
    return change | whole_ids | job_ids


def _queued_ids(session: Session) -> list[str]:
    """Return the job ids of all pools."""
    pools = [pool["name"] for pool in pages(session, "/resource-pools", "resourcePools")]
    rows = [
        row
        for name in pools
        for row in pages(session, "/job-queues-v2", "jobs", {"resourcePool": name})
    ]
    return [str((row.get("full") or row["limited"])["jobId"]) for row in rows]


def _whole_id(ids: list[str], prefix: str) -> str:
    """Return the only id with this prefix, or the prefix if no id has it."""
    matches = [id for id in ids if id.startswith(prefix.lower())]
    if len(matches) > 1:
        raise UsageError(
            f"{len(matches)} jobs have ids that begin with '{prefix}'",
            f"such as {', '.join(matches[:3])}",
        )
    return matches[0] if matches else prefix


def _send(session: Session, change: dict[str, Any]) -> None:
    session.post(V1 + "/job-queues", {"updates": [change]})


def _parse(item: str) -> dict[str, Any]:
    target, eq, value = item.partition("=")
    job, dot, operation = target.rpartition(".")
    if not (eq and dot and job and value):
        hint = "write JOB.OPERATION=VALUE, such as 12.priority=10"
        raise UsageError(f"'{item}' is not an update", hint)
    if operation not in _FIELDS:
        raise UsageError(f"'{operation}' of '{item}' is not one of {', '.join(_FIELDS)}")
    return {"jobId": job, _FIELDS[operation]: _value(operation, value, item)}


def _value(operation: str, value: str, item: str) -> Any:
    kinds = {"priority": int, "weight": float}
    try:
        return kinds.get(operation, str)(value)
    except ValueError as e:
        raise UsageError(f"'{value}' of '{item}' is not a number") from e
