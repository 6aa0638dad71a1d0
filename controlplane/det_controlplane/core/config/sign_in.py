"""Read how people sign in at the identity provider of their organization (OIDC)."""

from dataclasses import dataclass, field
from urllib.parse import urlsplit

from det_controlplane.core.config.pipelines import is_safe
from det_controlplane.core.config.reading import Reader

_SESSION_S = 7 * 24 * 3600.0
_LONGEST_S = 30 * 24 * 3600.0
# Determined's keys that mean nothing here.
_IGNORED = (
    "idp_recipient_url", "scim_authentication_attribute", "always_redirect", "exclude_groups_scope",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class SignInProvider:
    """The keys are those that Determined's administrators know, where they have one."""

    provider: str = "OIDC"  # as people see it
    issuer: str = ""
    client_id: str = ""
    client_secret: str = field(
        default="", repr=False
    )  # empty: a public client, which proves itself by PKCE alone
    authentication_claim: str = "email"
    display_name_attribute_name: str = "name"
    groups_attribute_name: str = ""  # empty: groups are kept here
    auto_provision_users: bool = False
    domains: tuple[str, ...] = ()  # of e-mail addresses; empty: all
    scopes: tuple[str, ...] = ("openid", "email", "profile")
    session: float = _SESSION_S  # seconds


_DEFAULT = SignInProvider()


def read_provider(reader: Reader) -> tuple[SignInProvider | None, list[str]]:
    """Return the provider, and the keys that were given in vain."""
    if not reader.content() or not reader.flag("enabled", True):
        return None, []
    ignored = reader.ignore(*_IGNORED)
    found = SignInProvider(
        provider=reader.text("provider", _DEFAULT.provider),
        issuer=reader.text("issuer", "", "idp_sso_url").rstrip("/"),
        client_id=reader.text("client_id", ""),
        client_secret=reader.text("client_secret", ""),
        authentication_claim=reader.text("authentication_claim", "email"),
        display_name_attribute_name=reader.text("display_name_attribute_name", "name"),
        groups_attribute_name=reader.text("groups_attribute_name", ""),
        auto_provision_users=reader.flag("auto_provision_users", False),
        domains=tuple(domain.lower().lstrip("@") for domain in reader.texts("domains")),
        scopes=_scopes(reader),
        session=reader.seconds("session", _SESSION_S) or _SESSION_S,
    )
    reader.close()
    _check(reader, found)
    return found, ignored


def _scopes(reader: Reader) -> tuple[str, ...]:
    given = reader.texts("scopes") or _DEFAULT.scopes
    return given if "openid" in given else ("openid", *given)


def _check(reader: Reader, found: SignInProvider) -> None:
    if not is_safe(found.issuer) or urlsplit(found.issuer).query:
        reader.refuse("issuer", "must be the https address of the identity provider")
    if not found.client_id:
        reader.refuse("client_id", "is required: the name that the provider gave this cluster")
    if found.session > _LONGEST_S:
        reader.refuse("session", "must be 30 days at most")
    if found.domains and found.authentication_claim != "email":
        reader.refuse("domains", "needs authentication_claim: email")
