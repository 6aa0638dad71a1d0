"""Connections to the cluster's API."""

import argparse
import sys
from typing import Any

from determined.common import master_address
from determined.common.http import Session
from determined.common.pages import V1, pages
from determined.common.sign_in import SignedIn, open_session, sign_in
from determined.common.token_store import TokenStore

from det_cli import prompts

__all__ = ["V1", "address", "anonymous", "connect", "paged", "pages"]


def address(args: argparse.Namespace) -> str:
    return master_address.chosen(args.master)


def anonymous(args: argparse.Namespace) -> Session:
    return open_session(address(args))


def connect(args: argparse.Namespace) -> SignedIn:
    """Sign in as the user of this command. Ask for a password only if stdin is a terminal."""
    master = address(args)
    ask = _ask if sys.stdin.isatty() else None
    return sign_in(open_session(master), TokenStore(master), username=args.user, ask=ask)


def _ask(username: str) -> str:
    return prompts.password(f"Password for user '{username}': ", "set DET_USER and DET_PASS")


def paged(
    session: Session, args: argparse.Namespace, path: str, key: str, **params: Any
) -> list[Any]:
    """Read a list with the paging options of the command: --limit, --offset and --pages."""
    rows = pages(
        session,
        path,
        key,
        params,
        limit=args.limit,
        offset=args.offset,
        one_page=getattr(args, "pages", "all") == "1",
    )
    return list(rows)
