"""Verify the identity tokens that machines get from Google's metadata server."""

import json
import re
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from det_controlplane.core.agent_protocol import gce_audience
from det_controlplane.ports.compute import Unreachable
from det_controlplane.ports.identity import MachineIdentity, NotProven, Proof

from det_provisioner_gcp import naming

KIND = "gce_identity_token"
CERTIFICATES_URL = "https://www.googleapis.com/oauth2/v1/certs"
ISSUERS = ("https://accounts.google.com", "accounts.google.com")
CLOCK_SKEW_S = 30
_TIMEOUT_S = 10.0
_LEAST_AGE_S = 60.0  # the minimum time between fetches for unknown keys
_ZONE = re.compile(r"[a-z]+-[a-z]+\d+-[a-z]")
_MAX_AGE = re.compile(r"max-age=(\d+)")


@dataclass(frozen=True, slots=True)
class CertificateSet:
    """Google's certificates by key id, and the time for which they may be cached."""

    by_key: Mapping[str, str]
    max_age_s: float


def fetch_certificates() -> CertificateSet:
    """Fetch Google's certificates. Raises Unreachable."""
    try:
        with urllib.request.urlopen(CERTIFICATES_URL, timeout=_TIMEOUT_S) as answer:
            by_key = json.loads(answer.read())
            max_age = _MAX_AGE.search(answer.headers.get("Cache-Control", ""))
    except (OSError, ValueError) as e:
        raise Unreachable(f"Google's certificates cannot be fetched: {e}") from e
    return CertificateSet(by_key, float(max_age[1]) if max_age else 0.0)


class GoogleCertificates:
    """A cache of Google's certificates. It refreshes them after Google's maximum age, or for an unknown key."""

    def __init__(
        self,
        fetch: Callable[[], CertificateSet] = fetch_certificates,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._fetch = fetch
        self._now = now
        self._lock = threading.Lock()
        self._cached = CertificateSet({}, 0.0)
        self._fetched_at = float("-inf")

    def of(self, key_id: str) -> str:
        """Return the certificate of a key, or "" if Google has no such key. Raises Unreachable."""
        with self._lock:
            age_s = self._now() - self._fetched_at
            is_new = key_id not in self._cached.by_key
            if age_s >= max(self._cached.max_age_s, _LEAST_AGE_S) or (
                is_new and age_s >= _LEAST_AGE_S
            ):
                self._cached, self._fetched_at = self._fetch(), self._now()
            return self._cached.by_key.get(key_id, "")


class GceIdentityVerifier:
    """Implements `ports.identity.IdentityVerifier` for machines of the given Google projects."""

    provider = "gcp"
    kind = KIND

    def __init__(self, projects: Collection[str], certificates: GoogleCertificates) -> None:
        self._projects = frozenset(projects)
        self._certificates = certificates

    def claimed(self, proof: Proof) -> str | None:
        """Return None, because Google's signature is verified here."""
        return None

    def verify(self, proof: Proof) -> MachineIdentity:
        """Return the identity of the machine. Google signed its project, zone and name for this join."""
        token = proof.fields.get("token", "")
        claims = self._claims(token)
        if str(claims.get("aud")).rpartition("/")[0] != gce_audience(proof.nonce):
            raise NotProven("the identity token has another audience: it is not for this join")
        if claims.get("iss") not in ISSUERS:
            raise NotProven(
                f"the identity token was issued by {claims.get('iss')!r}, not by Google"
            )
        # A signature can be encoded in several ways, but the signed part cannot.
        return self._identity(_machine_claims(claims), token.rpartition(".")[0])

    def _claims(self, token: str) -> Mapping[str, Any]:
        """Return the claims of a token after verifying its signature and times."""
        from google.auth import exceptions, jwt

        try:
            header = jwt.decode_header(token)
            if header.get("alg") != "RS256":
                raise NotProven("the identity token is not signed by RS256")
            certificate = self._certificates.of(str(header.get("kid", "")))
            if not certificate:
                raise NotProven("the identity token is signed by a key that is not Google's")
            claims: Mapping[str, Any] = jwt.decode(
                token, certificate, clock_skew_in_seconds=CLOCK_SKEW_S
            )
        except (exceptions.GoogleAuthError, ValueError, TypeError) as e:
            raise NotProven(f"the identity token does not hold: {e}") from e
        return claims

    def _identity(self, machine: Mapping[str, str], signed: str) -> MachineIdentity:
        project, zone = machine["project_id"], machine["zone"]
        if project not in self._projects:
            raise NotProven(f"the machine is of the project {project}, which has no pool here")
        if not _ZONE.fullmatch(zone):
            raise NotProven(f"the identity token names no zone: {zone!r}")
        return MachineIdentity(
            self.provider,
            project,
            naming.region_of(zone),
            naming.cloud_id(project, machine["instance_name"]),
            signed,
        )


def _machine_claims(claims: Mapping[str, Any]) -> Mapping[str, str]:
    """Return the claims about the machine from a token in the full format."""
    google = claims.get("google")
    machine = google.get("compute_engine") if isinstance(google, Mapping) else None
    names = ("project_id", "zone", "instance_id", "instance_name")
    if not isinstance(machine, Mapping) or not all(
        isinstance(machine.get(name), str) and machine[name] for name in names
    ):
        raise NotProven("the identity token names no machine: ask for it with format=full")
    return {name: machine[name] for name in names}
