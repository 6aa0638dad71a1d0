"""Read the trust in CI pipelines, which sign in as a user with the token of their CI service."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any
from urllib.parse import urlsplit

from det_controlplane.core.config.reading import Reader

_HERE = ("localhost", "127.0.0.1", "::1")
_SESSION_S, _LONGEST_S = 6 * 3600.0, 24 * 3600.0


@dataclass(frozen=True, slots=True)
class PipelineTrust:
    """The trust in an issuer. A token signs in as `user` if all claims match. `*` matches any characters."""

    issuer: str = ""
    audience: str = ""  # empty: determined:CLUSTER_ID
    user: str = ""
    claims: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    session: float = _SESSION_S  # seconds

    def admits(self, claims: Mapping[str, Any]) -> bool:
        return all(
            any(fnmatchcase(str(claims.get(name, "")), pattern) for pattern in values)
            for name, values in self.claims.items()
        )


def read_pipelines(readers: Sequence[Reader]) -> tuple[PipelineTrust, ...]:
    return tuple(_read(reader) for reader in readers)


def _read(reader: Reader) -> PipelineTrust:
    trust = PipelineTrust(
        issuer=reader.text("issuer", "").rstrip("/"),
        audience=reader.text("audience", ""),
        user=reader.text("user", ""),
        claims=_claims(reader),
        session=reader.seconds("session", _SESSION_S) or _SESSION_S,
    )
    if not trust.user:
        reader.refuse("user", "is required: the user as whom these pipelines sign in")
    if not is_safe(trust.issuer):
        reader.refuse("issuer", "must be the https address of who signs the tokens")
    if trust.session > _LONGEST_S:
        reader.refuse("session", "must be a day at most")
    reader.close()
    return trust


def _claims(reader: Reader) -> dict[str, tuple[str, ...]]:
    claims = reader.section("claims")
    claims_by_name = {str(name): claims.texts(str(name)) for name in claims.content()}
    if not any(value.strip("*") for values in claims_by_name.values() for value in values):
        reader.refuse(
            "claims", "is required, such as {repository: me/mine}: without it every pipeline of the issuer may"
        )  # fmt: skip
    return {name: values for name, values in claims_by_name.items() if values}


def is_safe(address: str) -> bool:
    """Return whether responses from the address can be trusted: it uses https or is this machine."""
    parts = urlsplit(address)
    return bool(parts.hostname) and (parts.scheme == "https" or parts.hostname in _HERE)
