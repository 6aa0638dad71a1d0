"""Access tokens: what programs sign in by."""

import argparse
import sys
from typing import Any

from determined.common.http import Session
from determined.common.sign_in import SignedIn
from determined.common.token_store import TokenStore

from det_cli.connection import V1, address, anonymous, connect, pages
from det_cli.errors import MissingError, UsageError
from det_cli.render import Column, print_object, say, show
from det_cli.times import local

_HOURS_A_DAY = 24


def create(args: argparse.Namespace) -> None:
    session = connect(args)
    body: dict[str, Any] = {"userId": _user_id(session, args.username)}
    if args.expiration_days is not None:
        body["lifespan"] = _lifespan(args.expiration_days)
    if args.description is not None:
        body["description"] = args.description
    made = session.post(V1 + "/tokens", body)
    if args.format:
        print_object(args, made)
        return
    (info,) = _found(session, [made["tokenId"]])
    ends = f"ends {local(info['expiry'])}" if info.get("expiry") else "never ends"
    say(f"Token {info['id']}, shown this once; it {ends}. Programs read it from DET_USER_TOKEN.")
    print(made["token"])


def _lifespan(days: int) -> str:
    if days == 0 or days < -1:
        raise UsageError(f"a token cannot end after {days} days", "-1 makes one that never ends")
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
    given: dict[str, Any] = {"showInactive": True} if args.show_inactive else {}
    if args.username:
        _user_id(session, args.username)  # complains about a name that there is not
        given["username"] = args.username
    show(args, _columns(session), list(pages(session, "/tokens", "tokenInfo", given)))


def revoke(args: argparse.Namespace) -> None:
    connect(args).patch(f"{V1}/tokens/{args.token_id}", {"setRevoked": True})
    say(f"Revoked token {args.token_id}: nobody signs in by it any more.")


def login(args: argparse.Namespace) -> None:
    """Keep a token as if it had come from a sign-in, once the cluster knows it."""
    token = sys.stdin.readline().strip() if args.token == "-" else args.token
    store = TokenStore(address(args))
    username = SignedIn(anonymous(args), "", token).get(V1 + "/me")["user"]["username"]
    store.keep(username, token, activate=True)
    say(f"Signed in to {store.master} as {username}.")


def _show(args: argparse.Namespace, session: Session, ids: list[int]) -> None:
    show(args, _columns(session), _found(session, ids))


def _found(session: Session, ids: list[int]) -> list[Any]:
    asked = {"tokenIds": ids, "showInactive": True}
    found = {t["id"]: t for t in pages(session, "/tokens", "tokenInfo", asked)}
    unknown = next((id for id in ids if id not in found), None)
    if unknown is not None:
        raise MissingError(
            f"token {unknown} not found", "`det token list --show-inactive` shows what there is"
        )
    return [found[id] for id in ids]


def _user_id(session: Session, username: "str | None") -> int:
    path = f"/users/{username}/by-username" if username else "/me"
    return int(session.get(V1 + path)["user"]["id"])


def _columns(session: Session) -> tuple[Column, ...]:
    names = {u["id"]: u["username"] for u in pages(session, "/users", "users")}
    return (
        ("ID", lambda t: t["id"]),
        ("User", lambda t: names.get(t["userId"], t["userId"])),
        ("Description", lambda t: t.get("description", "")),
        ("Made", lambda t: local(t.get("createdAt"))),
        ("Ends", lambda t: local(t.get("expiry")) or "never"),
        ("Revoked", lambda t: t.get("revoked", False)),
    )
