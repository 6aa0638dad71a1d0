"""Explain empty tables: by the rows of other users, archived rows, filters and rights."""

import argparse
import json
from typing import Any

from determined.common.http import APIError
from determined.common.sign_in import SignedIn

from det_cli.actions import tables
from det_cli.connection import V1

_SIMILAR = 5  # names in a message


def of_table(session: SignedIn, args: argparse.Namespace, path: str, noun: str) -> str:
    """Explain an empty table of experiments or runs. `path` is the route that searches them."""
    if args.limit == 0:
        return "--limit 0 prints no rows"
    if args.offset:
        return f"no {noun} after the first {args.offset} (--offset)"
    if args.filter:
        if unknown := _unknown_names(session, args, noun):
            return unknown
        if args.all:
            return f"no {noun} that you may see matches the filter"
        return f"no {noun} of yours matches the filter; --all includes the others"
    total = _count(session, path)
    if args.all or not total:
        return f"there is no {noun} yet that you may see"
    own = _count(session, path, user=session.username or _username(session))
    archived = f"{own} archived" if own else ""
    others = f"{total - own} of others" if total > own else ""
    scope = "none of yours that is not archived" if own else "none of yours"
    return f"{scope}; {', '.join(filter(None, (archived, others)))}: --all"


def _unknown_names(session: SignedIn, args: argparse.Namespace, noun: str) -> str:
    """Explain the hyperparameters and metrics in the filters that no visible row has, with similar names."""
    names = [name for name in tables.filter_names(args) if "." in name]
    if not names:
        return ""
    params = {"tableType": f"TABLE_TYPE_{noun.upper()}"}
    try:
        columns = session.get(f"{V1}/projects/0/columns", params)["columns"]
    except APIError:
        return ""  # the table itself was read, so the command has succeeded
    known = [column["column"] for column in columns if "." in column["column"]]
    # A mapping of hyperparameters is no column, but its values are.
    unknown = [n for n in names if not any(k == n or k.startswith(f"{n}.") for k in known)]
    return "; ".join(_unknown(name, known, noun) for name in unknown)


def _unknown(name: str, known: list[str], noun: str) -> str:
    import difflib  # only misspelt names need it

    similar = difflib.get_close_matches(name, known, n=_SIMILAR)
    kind = name.partition(".")[0] + "."
    others = similar or [other for other in known if other.startswith(kind)][:_SIMILAR] or ["none"]
    label = "similar names" if similar else f"known names with {kind}"
    return f"{name} is unknown: no {noun} that you may see has it; {label}: {', '.join(others)}"


def _count(session: SignedIn, path: str, user: str = "") -> int:
    """Return the number of rows, of all users or of one, including archived ones."""
    owner = {
        "kind": "field", "columnName": "user", "operator": "=", "value": user, "type": "COLUMN_TYPE_TEXT",
    }  # fmt: skip
    group = {"kind": "group", "conjunction": "and", "children": [owner] if user else []}
    body: dict[str, Any] = {
        "projectId": 0, "limit": 1, "filter": json.dumps({"filterGroup": group, "showArchived": True}),
    }  # fmt: skip
    return int(session.post(V1 + path, body)["pagination"]["total"])


def _username(session: SignedIn) -> str:
    return str(session.get(V1 + "/me")["user"]["username"])
