"""Explain empty tables: by the rows of other users, archived rows, filters and rights."""

import argparse
import json
from typing import Any

from determined.common.sign_in import SignedIn

from det_cli.connection import V1


def of_table(session: SignedIn, args: argparse.Namespace, path: str, noun: str) -> str:
    """Explain an empty table of experiments or runs. `path` is the route that searches them."""
    if args.limit == 0:
        return "--limit 0 prints no rows"
    if args.offset:
        return f"no {noun} after the first {args.offset} (--offset)"
    if args.filter:
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
