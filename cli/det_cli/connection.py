"""Connections to the cluster's API."""

import argparse
import sys
from collections.abc import Iterable
from itertools import islice
from typing import Any

from determined.common import master_address
from determined.common.http import Session
from determined.common.pages import V1, pages
from determined.common.sign_in import SignedIn, open_session, sign_in
from determined.common.token_store import TokenStore

from det_cli import prompts

__all__ = [
    "V1", "address", "anonymous", "connect", "is_part", "limited", "page_options", "paged", "pages", "total",
]  # fmt: skip
_PAGE = 200


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
    return limited(args, pages(session, path, key, params, **page_options(args)))


def page_options(args: argparse.Namespace) -> dict[str, Any]:
    """Return the size and the offset of the requested pages. No page has more rows than the user wants."""
    size = _PAGE if args.limit is None else max(min(args.limit, _PAGE), 1)
    one_page = getattr(args, "pages", "all") == "1" and (args.limit is None or args.limit <= _PAGE)
    return {"limit": size, "offset": args.offset, "one_page": one_page}


def is_part(args: argparse.Namespace) -> bool:
    """Return whether the command wants a part of a list: then the newest rows, in the order of the whole list."""
    return args.limit is not None or getattr(args, "pages", "all") == "1"


def limited(args: argparse.Namespace, rows: Iterable[Any]) -> list[Any]:
    """Return as many rows as --limit allows, without reading further pages."""
    return list(rows if args.limit is None else islice(rows, args.limit))


def total(session: Session, path: str, params: "dict[str, Any] | None" = None) -> int:
    """Return the number of rows of a list."""
    answer = session.get(V1 + path, {**(params or {}), "limit": 1})
    return int((answer.get("pagination") or {}).get("total") or 0)
