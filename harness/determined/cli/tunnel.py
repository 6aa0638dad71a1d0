"""Connect standard input and output, or a local port, to a proxied port of a task."""

import argparse
import os
import sys
import threading
from typing import List, Optional, Tuple

from determined.common import master_address, tunnel
from determined.common.blocking import hearing_signals
from determined.common.failures import Failure
from determined.common.http import Session
from determined.common.sign_in import open_session, sign_in
from determined.common.token_store import TokenStore


def main(argv: Optional[List[str]] = None) -> int:
    args = _parser().parse_args(argv)
    try:
        session = _session(args)
        if args.listener is None:
            return _through_pipes(session, args.service)
        host, port = _listener(args.listener)
        with tunnel.listening(session, args.service, host, port, _say):
            hearing_signals(threading.Event().wait)
    except Failure as e:
        _say(tunnel.with_hint(e))
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m determined.cli.tunnel", description=__doc__)
    parser.add_argument("master_url", help="address of the cluster")
    parser.add_argument("service", help="a task, or <task>:<port>")
    parser.add_argument("--cert-file", help="trust this certificate of the cluster")
    parser.add_argument("--cert-name", help="the host name in the cluster's certificate")
    parser.add_argument(
        "--listener",
        metavar="[HOST:]PORT",
        help="listen here and forward each connection to the task",
    )
    parser.add_argument("-u", "--user", help="sign in as this user")
    parser.add_argument(
        "--auth", action="store_true", help="sign in; only ports of shells work without it"
    )
    return parser


def _session(args: argparse.Namespace) -> Session:
    master = master_address.canonical(args.master_url)
    anonymous = open_session(master, cert_file=args.cert_file, cert_name=args.cert_name)
    if not args.auth and args.user is None:
        return anonymous
    return sign_in(anonymous, TokenStore(master), username=args.user)


def _listener(text: str) -> Tuple[str, int]:
    host, _, port = text.rpartition(":")
    if not port.isdigit():
        raise Failure(f"--listener is a port, or host:port, not {text!r}")
    return host or "127.0.0.1", int(port)


def _through_pipes(session: Session, service: str) -> int:
    with tunnel.websocket_to(session, service) as websocket:
        tunnel.carry(websocket, lambda size: os.read(0, size), _write, lambda: os.close(1))
    return 0


def _write(content: bytes) -> None:
    while content:
        content = content[os.write(1, content) :]


def _say(text: str) -> None:
    print(text, file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
