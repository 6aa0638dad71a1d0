"""The question whether to trust a cluster's certificate, asked when it is seen first."""

import argparse
import os
import ssl
import sys
from urllib.parse import urlsplit

from determined.common.certificates import TrustStore, fetch, fingerprint_of_pem
from determined.common.http import MasterUnreachableError

from det_cli.connection import address
from det_cli.errors import CommandError


def ask(args: argparse.Namespace) -> bool:
    """Return whether the person at the terminal trusts the certificate now; raise what else is to be done."""
    master = address(args)
    named = os.environ.get("DET_MASTER_CERT_FILE")
    if named:
        raise CommandError(
            f"{master} shows a certificate that {named} does not vouch for, or under another name",
            "give the cluster's certificate in DET_MASTER_CERT_FILE, and the name in it in"
            " DET_MASTER_CERT_NAME",
        )
    store = TrustStore(master)
    before = store.trusted()
    pem = _shown(master)
    print_of = fingerprint_of_pem(pem)
    if before is not None:
        raise CommandError(
            f"{master} shows another certificate than the one that was trusted here:\n"
            f"  now     {print_of}\n  before  {before}\n"
            "either it was replaced, or another machine answers in its place",
            f"when its administrator confirms the new fingerprint, remove the old certificate from {store.path}",
        )
    if not sys.stdin.isatty():
        raise CommandError(
            f"nobody vouches for the certificate of {master}, whose SHA-256 fingerprint is\n  {print_of}",
            "`det user login` at a terminal asks whether to trust it; DET_MASTER_CERT_FILE names a file with it",
        )
    print(
        f"Nobody vouches for the certificate of {master}. Its SHA-256 fingerprint is\n  {print_of}\n"
        "`det deploy local status` on the cluster's machine prints the right one.\n"
        "Trust this certificate from now on? [y/N]: ",
        end="",
        file=sys.stderr,
        flush=True,
    )
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise CommandError("stopped: the certificate is not trusted, and nothing was sent")
    store.keep(pem)
    return True


def _shown(master: str) -> str:
    parts = urlsplit(master)
    try:
        return fetch(parts.hostname or "", parts.port or 443)
    except (OSError, ssl.SSLError) as e:
        raise MasterUnreachableError(f"cannot reach {master}: {e}") from e
