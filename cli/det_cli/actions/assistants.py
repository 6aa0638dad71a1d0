"""`det mcp`: serve the tools for assistants."""

import argparse
import os
import secrets
import socket
from pathlib import Path

from det_cli.connection import address, connect
from det_cli.deployment import extras
from det_cli.errors import CommandError, UsageError
from det_cli.render import say


def serve(args: argparse.Namespace) -> None:
    root = Path(args.root)
    if not root.is_dir():
        raise UsageError(f"{root} is not a folder", "--root is the folder with your training code")
    if args.http is not None:
        _check_port(args.http)
    with extras.needed("mcp"):
        from det_cli.assistants import server as mcp_server
    from det_cli.assistants.plans import Plans

    session = connect(args)
    plans = Plans(f"{address(args)} {session.username}")
    server = mcp_server.server_for(session, plans, root, allow_writes=args.allow_writes)
    if args.http is None:
        mcp_server.serve_stdio(server)
        return
    secret = os.environ.get("DET_MCP_SECRET") or secrets.token_urlsafe(24)
    say(f"Serving http://127.0.0.1:{args.http}/mcp with the header Authorization: Bearer {secret}")
    mcp_server.serve_http(server, args.http, secret)


def _check_port(port: int) -> None:
    if not 0 < port < 65536:
        raise UsageError(f"--http {port} is not a port", "use a number from 1 to 65535")
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as e:
            raise CommandError(
                f"cannot listen on port {port} of 127.0.0.1: {e.strerror}", "choose another --http"
            ) from e
