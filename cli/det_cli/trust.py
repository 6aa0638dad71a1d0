"""Trust on first use: ask the user whether to trust a cluster's certificate."""

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
    """Return True if the user trusts the certificate. Raise CommandError if the user cannot or must not decide."""
    master = address(args)
    named = os.environ.get("DET_MASTER_CERT_FILE")
    if named:
        raise CommandError(
            f"the certificate of {master} does not match {named}, or was issued for another name",
            "set DET_MASTER_CERT_FILE to the cluster's certificate and DET_MASTER_CERT_NAME to the"
            " name in it",
        )
    store = TrustStore(master)
    before = store.trusted()
    pem = _fetch_certificate(master)
    fingerprint = fingerprint_of_pem(pem)
    if before is not None:
        raise CommandError(
            f"the certificate of {master} has changed since you trusted it:\n"
            f"  now     {fingerprint}\n  before  {before}\n"
            "the certificate was replaced, or another machine answers at this address",
            f"if the administrator confirms the new fingerprint, remove the old certificate from {store.path}",
        )
    if not sys.stdin.isatty():
        raise CommandError(
            f"the certificate of {master} cannot be verified; its SHA-256 fingerprint is\n  {fingerprint}",
            "run `det user login` at a terminal to trust it, or set DET_MASTER_CERT_FILE to its file",
        )
    print(
        f"The certificate of {master} cannot be verified. Its SHA-256 fingerprint is\n  {fingerprint}\n"
        "Compare it with the output of `det deploy local status` on the cluster's machine.\n"
        "Trust this certificate from now on? [y/N]: ",
        end="",
        file=sys.stderr,
        flush=True,
    )
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise CommandError("stopped: the certificate is not trusted, so no request was sent")
    store.keep(pem)
    return True


def _fetch_certificate(master: str) -> str:
    parts = urlsplit(master)
    try:
        return fetch(parts.hostname or "", parts.port or 443)
    except (OSError, ssl.SSLError) as e:
        raise MasterUnreachableError(f"cannot reach {master}: {e}") from e
