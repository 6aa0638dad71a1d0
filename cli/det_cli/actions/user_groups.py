"""`det user-group`: groups of users."""

import argparse
from collections.abc import Sequence
from typing import Any

from determined.common.http import Session

from det_cli import prompts
from det_cli.actions.users import id_of as user_id_of
from det_cli.connection import V1, connect, limited
from det_cli.errors import MissingError
from det_cli.render import Column, counted, say, show

_ALL = -1
_COLUMNS: tuple[Column, ...] = (
    ("Group ID", lambda g: g["group"]["groupId"]),
    ("Group Name", lambda g: g["group"]["name"]),
    ("# Users", lambda g: g["numMembers"]),
)
_MEMBERS: tuple[Column, ...] = (
    ("User ID", lambda u: u["id"]),
    ("Username", lambda u: u["username"]),
    ("Display Name", lambda u: u.get("displayName") or ""),
    ("Active", lambda u: u["active"]),
)


def group_of(session: Session, name: str) -> dict[str, Any]:
    """Return the group with this name, including its users."""
    groups = session.post(V1 + "/groups/search", {"name": name, "limit": _ALL})["groups"]
    group = next((g["group"] for g in groups if g["group"]["name"] == name), None)
    if group is None:
        raise MissingError(f"there is no group '{name}'", "`det user-group list` lists the groups")
    return dict(session.get(f"{V1}/groups/{group['groupId']}")["group"])


def create(args: argparse.Namespace) -> None:
    session = connect(args)
    ids = _ids(session, args.add_user or [])
    group = session.post(V1 + "/groups", {"name": args.group_name, "addUsers": ids})["group"]
    print(f"Created group '{group['name']}' with id {group['groupId']}")


def list_(args: argparse.Namespace) -> None:
    session = connect(args)
    body = {"offset": args.offset, "limit": _ALL}
    if args.groups_user_belongs_to:
        body["userId"] = user_id_of(session, args.groups_user_belongs_to)
    groups = limited(args, session.post(V1 + "/groups/search", body)["groups"])
    show(args, _COLUMNS, groups, empty="no group matches")


def describe(args: argparse.Namespace) -> None:
    group = group_of(connect(args), args.group_name)
    if not args.format:
        say(f"Group {group['groupId']}, '{group['name']}':")
    show(args, _MEMBERS, group["users"], group)


def add_users(args: argparse.Namespace) -> None:
    count = _edit(args, "addUsers")
    print(f"Added {count} to group '{args.group_name}'")


def remove_users(args: argparse.Namespace) -> None:
    count = _edit(args, "removeUsers")
    print(f"Removed {count} from group '{args.group_name}'")


def rename(args: argparse.Namespace) -> None:
    session = connect(args)
    id = group_of(session, args.old_group_name)["groupId"]
    session.put(f"{V1}/groups/{id}", {"name": args.new_group_name})
    print(f"Renamed group '{args.old_group_name}' to '{args.new_group_name}'")


def delete(args: argparse.Namespace) -> None:
    session = connect(args)
    group = group_of(session, args.group_name)
    prompts.confirm(
        f"Delete group '{args.group_name}' and its roles? Its users ({len(group['users'])}) are kept.",
        yes=args.yes,
    )
    session.delete(f"{V1}/groups/{group['groupId']}")
    print(f"Deleted group '{args.group_name}'")


def _edit(args: argparse.Namespace, change: str) -> str:
    session = connect(args)
    names = [name for word in args.usernames for name in word.split(",") if name]
    id = group_of(session, args.group_name)["groupId"]
    session.put(f"{V1}/groups/{id}", {change: _ids(session, names)})
    return counted(len(names), "user")


def _ids(session: Session, names: Sequence[str]) -> list[int]:
    return [user_id_of(session, name) for name in names]
