"""`det job list --all`: experiments and tasks of all types, finished and running."""

import argparse
import re
import time
from collections.abc import Iterator, Sequence
from datetime import datetime, timezone
from itertools import islice
from typing import Any

from determined.common.http import Session

from det_cli.actions import costs, users
from det_cli.actions.experiment_settings import workspace_of
from det_cli.connection import V1, connect, pages
from det_cli.errors import MissingError, UsageError
from det_cli.render import Column, local_time, percent, show, state_text

_PAGE = 200
SORTS = {"submitted": "SUBMISSION_TIME", "ended": "END_TIME", "name": "NAME", "owner": "USER"}
# The options that need --all, with their names in the parsed arguments.
_OPTIONS = {
    "--type": "type", "--state": "state", "--owner": "owner", "--workspace-name": "workspace_name", "--name": "name",
    "--since": "since", "--sort": "sort", "--archived": "archived",
}  # fmt: skip
_AGO = re.compile(r"([1-9][0-9]*)([mhd])", re.ASCII)
_UNITS = {"m": 60, "h": 3600, "d": 86400}
_COLUMNS: tuple[Column, ...] = (
    ("ID", lambda w: w["entityId"]),
    ("Type", lambda w: w["type"].removeprefix("TYPE_").lower()),
    ("Name", lambda w: w["name"]),
    ("State", lambda w: state_text(w["state"])),
    ("Owner", lambda w: w["username"]),
    ("Workspace", lambda w: w["workspaceName"]),
    ("Pool", lambda w: w["resourcePool"]),
    ("Priority", lambda w: w["priority"]),
    ("Progress", lambda w: percent(w["progress"])),
    ("Slots", lambda w: w["allocatedSlots"]),
    ("Submitted", lambda w: local_time(w["submissionTime"])),
    ("Ended", lambda w: local_time(w["endTime"])),
)


def refuse_without_all(args: argparse.Namespace) -> None:
    """Refuse options that only the list of all work has."""
    given = [option for option, name in _OPTIONS.items() if getattr(args, name, None)]
    if given:
        raise UsageError(
            f"{given[0]} needs --all", "without it, the jobs of one pool are listed in queue order"
        )


def list_(args: argparse.Namespace) -> None:
    query = _query(args)
    session = connect(args)
    if args.workspace_name:
        query["workspaceIds"] = workspace_of(session, args.workspace_name)["id"]
    rows: list[dict[str, Any]] = []
    cost_columns: tuple[Column, ...] = ()
    for page in _in_pages(_rows(session, args, query)):
        cost_columns = _add_costs(session, page) or cost_columns
        rows += page
    if args.limit != 0:
        _refuse_unknown(session, args, rows)
    filtered = set(query) - {"sortBy", "orderBy", "archived"}
    none = "no work that you may see matches the filters" if filtered else "there is no work yet"
    none = "--limit 0 prints no rows" if args.limit == 0 else none
    show(args, _COLUMNS + cost_columns, rows, {"work": rows}, empty=none)


def pool_named(session: Session, name: "str | None") -> dict[str, Any]:
    """Return a resource pool, or the default one without a name. Raises MissingError."""
    pools = list(pages(session, "/resource-pools", "resourcePools"))
    for pool in pools:
        if pool["name"] == name or (name is None and pool["defaultComputePool"]):
            return dict(pool)
    names = ", ".join(p["name"] for p in pools) or "none"
    description = f"resource pool '{name}'" if name else "a default resource pool"
    raise MissingError(
        f"there is no {description}", f"the pools are: {names}; `det pool list` lists them"
    )


def _refuse_unknown(
    session: Session, args: argparse.Namespace, rows: Sequence[dict[str, Any]]
) -> None:
    """Refuse an owner or a pool that does not exist. Work of a deleted pool can still be listed."""
    for owner in sorted(set(args.owner) - {row["username"] for row in rows}):
        users.id_of(session, owner)
    if args.resource_pool and not rows:
        pool_named(session, args.resource_pool)


def _query(args: argparse.Namespace) -> dict[str, Any]:
    sort, _, direction = (args.sort or "submitted=desc").partition("=")
    if sort not in SORTS or direction not in ("", "asc", "desc"):
        raise UsageError(f"--sort {args.sort!r}: there is no such order", f"use {', '.join(SORTS)}")
    descending = (direction == "desc") != bool(args.reverse)
    values = {
        "types": [f"TYPE_{name.upper()}" for name in args.type],
        "states": [f"STATE_{name.upper()}" for name in args.state],
        "users": args.owner,
        "resourcePools": args.resource_pool,
        "text": args.name,
        "since": _since(args.since) if args.since else None,
        "archived": args.archived or None,
        "sortBy": f"SORT_BY_{SORTS[sort]}",
        "orderBy": "ORDER_BY_DESC" if descending else "ORDER_BY_ASC",
    }
    return {name: value for name, value in values.items() if value}


def _rows(
    session: Session, args: argparse.Namespace, query: dict[str, Any]
) -> Iterator[dict[str, Any]]:
    """Yield as many rows as the paging options allow. New work does not shift the pages of the usual order."""
    size = min(args.limit, _PAGE) if args.limit else _PAGE
    one_page = args.pages == "1" and args.limit is None
    if args.limit == 0:
        return iter(())
    if query["sortBy"] != "SORT_BY_SUBMISSION_TIME":
        found = pages(session, "/work", "work", query, limit=size, offset=args.offset, one_page=one_page)  # fmt: skip
    else:
        found = _by_cursor(session, query, size, args.offset, one_page=one_page)
    return islice(found, args.limit)


def _by_cursor(
    session: Session, query: dict[str, Any], size: int, offset: int, *, one_page: bool
) -> Iterator[dict[str, Any]]:
    place: dict[str, Any] = {"offset": offset}
    while True:
        rows = session.get(V1 + "/work", {**query, "limit": size, **place})["work"]
        yield from rows
        if one_page or len(rows) < size:
            return
        place = {"after": rows[-1]["cursor"]}


def _in_pages(rows: Iterator[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    while page := list(islice(rows, _PAGE)):
        yield page


def _add_costs(session: Session, rows: list[dict[str, Any]]) -> tuple[Column, ...]:
    """Add costs to a page of rows, and return the columns if any row used a rented machine."""
    columns: tuple[Column, ...] = ()
    for kind, is_experiment in (("experiments", True), ("tasks", False)):
        own = [row for row in rows if (row["type"] == "TYPE_EXPERIMENT") == is_experiment]
        for row in own:
            row["id"] = int(row["entityId"]) if is_experiment else row["entityId"]
            row.update(costUsd=0.0, slotHours=0.0)
        columns = costs.add(session, kind, own) or columns
    for row in rows:
        del row["id"]
    return columns


def _since(text: str) -> str:
    """Return a time of the API for a time or an age, such as 7d."""
    age = _AGO.fullmatch(text)
    if age:
        seconds = int(age[1]) * _UNITS[age[2]]
        return datetime.fromtimestamp(time.time() - seconds, timezone.utc).isoformat()
    try:
        at = datetime.fromisoformat(text.replace("Z", "+00:00"))
    except ValueError:
        raise UsageError(
            f"--since {text!r} is not a time", "write 12h, 7d or 2026-11-20T12:00:00Z"
        ) from None
    return at.astimezone(timezone.utc).isoformat()
