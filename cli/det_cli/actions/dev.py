"""`det dev`: send requests to the API."""

import argparse
import shlex
import sys

from determined.common.http import error_from

from det_cli.connection import V1, connect
from det_cli.errors import FAILED, OK
from det_cli.render import say


def auth_token(args: argparse.Namespace) -> None:
    session = connect(args)
    # This request verifies that the token is still valid.
    session.get(V1 + "/me")
    print(session.token)


def curl(args: argparse.Namespace) -> int:
    method = args.request or ("POST" if args.data else "GET")
    body = args.data.encode() if args.data else None
    path = args.path if args.path.startswith("/") else f"/{args.path}"
    session = connect(args)
    if args.show:
        say(_curl_command(session.base_url, args.user, method, path, args.data))
    status, _, payload = session.request_bytes(method, path, body=body)
    return print_response(status, payload)


def print_response(status: int, payload: bytes) -> int:
    """Print a response and return the command's exit status."""
    if status in (401, 403, 404, 409):
        raise error_from(status, payload)
    sys.stdout.write(payload.decode("utf-8", "replace"))
    sys.stdout.write("\n")
    return OK if status < 300 else FAILED


def _curl_command(base_url: str, user: str | None, method: str, path: str, data: str | None) -> str:
    """Return the request as a shell command. The command reads the token from det, so it is not printed."""
    words = ["curl", "-X", method, *(["-d", data] if data else []), base_url + path]
    token = ["det", "-m", base_url, *(["-u", user] if user else []), "dev", "auth-token"]
    return f'{shlex.join(words)} -H "Authorization: Bearer $({shlex.join(token)})"'
