"""`det agent token`: tokens that agents use to join the cluster."""

import argparse
from typing import Any

from det_cli.connection import V1, connect
from det_cli.render import Column, say, show
from det_cli.times import local

_COLUMNS: tuple[Column, ...] = (
    ("ID", lambda t: t["id"]),
    ("Description", lambda t: t["description"]),
    ("Made by", lambda t: t["username"]),
    ("Agents", lambda t: _uses(t)),
    ("Ends", lambda t: local(t.get("expiresAt"))),
    ("Revoked", lambda t: local(t.get("revokedAt"))),
)


def _uses(token: dict[str, Any]) -> str:
    max_uses = token.get("maxUses")
    return f"{token['uses']} of {max_uses}" if max_uses else str(token["uses"])


def create(args: argparse.Namespace) -> None:
    body = {
        "description": args.description,
        "lifespan": args.expiration,
        "maxUses": args.agents,
    }
    token = connect(args).post(V1 + "/agent-tokens", body)["agentToken"]
    say(
        f"Created token {token['id']}. It is not shown again and expires {local(token['expiresAt'])}."
        " Write it to the token_file of det-agent."
    )
    print(token["token"])


def list_(args: argparse.Namespace) -> None:
    show(args, _COLUMNS, connect(args).get(V1 + "/agent-tokens")["agentTokens"])


def revoke(args: argparse.Namespace) -> None:
    connect(args).request("DELETE", f"{V1}/agent-tokens/{args.token_id}")
    say(f"Revoked agent token {args.token_id}: agents can no longer join with it.")
