"""`det token`: access tokens, with which programs sign in."""

import argparse
import sys
from typing import Any

from determined.common.http import Session
from determined.common.sign_in import SignedIn
from determined.common.token_store import TokenStore

from det_cli.connection import V1, address, anonymous, connect, pages
from det_cli.errors import MissingError, UsageError
from det_cli.render import Column, local_time, print_object, say, show

_HOURS_A_DAY = 24


def create(args: argparse.Namespace) -> None:
    session = connect(args)
    body: dict[str, Any] = {"userId": _user_id(session, args.username)}
    if args.expiration_days is not None:
        body["lifespan"] = _lifespan(args.expiration_days)
    if args.description is not None:
        body["description"] = args.description
    token = session.post(V1 + "/tokens", body)
    if args.format:
        print_object(args, token)
        return
    (info,) = _tokens(session, [token["tokenId"]])
    expiry = f"expires {local_time(info['expiry'])}" if info.get("expiry") else "never expires"
    say(
        f"Created token {info['id']}. It is not shown again and {expiry}. Programs read it from DET_USER_TOKEN."
    )
    print(token["token"])


def _lifespan(days: int) -> str:
    if days == 0 or days < -1:
        raise UsageError(
            f"a token cannot expire after {days} days", "-1 creates a token that never expires"
        )
    return "-1" if days == -1 else f"{days * _HOURS_A_DAY}h"


def describe(args: argparse.Namespace) -> None:
    _show(args, connect(args), args.token_id)


def edit(args: argparse.Namespace) -> None:
    if args.description is None:
        raise UsageError("nothing to change", "give --description")
    session = connect(args)
    session.patch(f"{V1}/tokens/{args.token_id}", {"description": args.description})
    _show(args, session, [args.token_id])


def list_(args: argparse.Namespace) -> None:
    session = connect(args)
    params: dict[str, Any] = {"showInactive": True} if args.show_inactive else {}
    if args.username:
        _user_id(session, args.username)  # raises if there is no such user
        params["username"] = args.username
    why = "there is no token" + ("" if args.show_inactive else " in force; --show-inactive: all")
    show(args, _columns(session), list(pages(session, "/tokens", "tokenInfo", params)), empty=why)


def revoke(args: argparse.Namespace) -> None:
    connect(args).patch(f"{V1}/tokens/{args.token_id}", {"setRevoked": True})
    say(f"Revoked token {args.token_id}: it no longer gives access to the cluster.")


def login(args: argparse.Namespace) -> None:
    """Verify a token and store it like the token of a sign-in."""
    token = sys.stdin.readline().strip() if args.token == "-" else args.token
    store = TokenStore(address(args))
    username = SignedIn(anonymous(args), "", token).get(V1 + "/me")["user"]["username"]
    store.keep(username, token, activate=True)
    say(f"Signed in to {store.master} as {username}.")


def _show(args: argparse.Namespace, session: Session, ids: list[int]) -> None:
    show(args, _columns(session), _tokens(session, ids))


def _tokens(session: Session, ids: list[int]) -> list[Any]:
    params = {"tokenIds": ids, "showInactive": True}
    tokens = {t["id"]: t for t in pages(session, "/tokens", "tokenInfo", params)}
    unknown = next((id for id in ids if id not in tokens), None)
    if unknown is not None:
        raise MissingError(
            f"token {unknown} not found", "`det token list --show-inactive` lists all tokens"
        )
    return [tokens[id] for id in ids]


def _user_id(session: Session, username: "str | None") -> int:
    path = f"/users/{username}/by-username" if username else "/me"
    return int(session.get(V1 + path)["user"]["id"])


def _columns(session: Session) -> tuple[Column, ...]:
    names = {u["id"]: u["username"] for u in pages(session, "/users", "users")}
    return (
        ("ID", lambda t: t["id"]),
        ("User", lambda t: names.get(t["userId"], t["userId"])),
        ("Description", lambda t: t.get("description", "")),
        ("Made", lambda t: local_time(t.get("createdAt"))),
        ("Ends", lambda t: local_time(t.get("expiry")) or "never"),
        ("Revoked", lambda t: t.get("revoked", False)),
    )
