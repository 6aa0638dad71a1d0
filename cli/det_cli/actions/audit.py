"""`det audit`: list and export the audit log."""

import argparse
import json
from typing import Any

from det_cli.connection import V1, connect, pages
from det_cli.render import Column, cell, show
from det_cli.times import local

_COLUMNS: tuple[Column, ...] = (
    ("Time", lambda e: local(e["at"])),
    ("User", lambda e: e["username"]),
    ("Action", lambda e: e["action"]),
    ("Object", lambda e: e["object"]),
    ("Details", lambda e: _details(e["details"])),
    ("By", lambda e: f"task {e['taskId']}" if e["taskId"] else e["via"]),
    ("From", lambda e: e["address"]),
)


def list_(args: argparse.Namespace) -> None:
    params = {**_filters(args), "limit": args.limit, "orderBy": "ORDER_BY_DESC"}
    show(args, _COLUMNS, connect(args).get(V1 + "/audit", params)["entries"])


def export(args: argparse.Namespace) -> None:
    for entry in pages(connect(args), "/audit", "entries", _filters(args), limit=1000):
        print(json.dumps(entry, sort_keys=True))


def _filters(args: argparse.Namespace) -> dict[str, Any]:
    filters = {
        "username": args.by, "object": args.object, "action": args.action, "since": args.since,
        "until": args.until,
    }  # fmt: skip
    return {name: value for name, value in filters.items() if value}


def _details(details: dict[str, Any]) -> str:
    items = [f"{name}={_text(value)}" for name, value in details.items() if name != "fields"]
    return ", ".join([*items, *details.get("fields", ())])


def _text(value: Any) -> str:
    if isinstance(value, dict):
        return " ".join(f"{name}={_text(inner)}" for name, inner in value.items())
    return " ".join(map(_text, value)) if isinstance(value, list) else cell(value)
