"""The API by hand."""

import argparse
import sys

from determined.common.http import error_from

from det_cli.connection import V1, connect
from det_cli.errors import FAILED, OK


def auth_token(args: argparse.Namespace) -> None:
    session = connect(args)
    # A request makes sure that the token is one the cluster still knows.
    session.get(V1 + "/me")
    print(session.token)


def curl(args: argparse.Namespace) -> int:
    method = args.request or ("POST" if args.data else "GET")
    body = args.data.encode() if args.data else None
    path = args.path if args.path.startswith("/") else f"/{args.path}"
    status, _, payload = connect(args).request_bytes(method, path, body=body)
    if status in (401, 403, 404, 409):
        raise error_from(status, payload)
    sys.stdout.write(payload.decode("utf-8", "replace"))
    sys.stdout.write("\n")
    return OK if status < 300 else FAILED
