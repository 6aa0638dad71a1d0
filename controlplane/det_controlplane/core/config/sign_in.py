"""Read the settings for the sign-in with an identity provider (OIDC), and for access tokens."""

from dataclasses import dataclass, field
from datetime import timedelta
from urllib.parse import urlsplit

from det_controlplane.core.config.pipelines import is_safe
from det_controlplane.core.config.reading import Reader

_SESSION_S = 7 * 24 * 3600.0
_LONGEST_S = 30 * 24 * 3600.0
# Keys of Determined that have no effect here.
_IGNORED = (
    "idp_recipient_url", "scim_authentication_attribute", "always_redirect", "exclude_groups_scope",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class SignInProvider:
    """The identity provider. Its keys have Determined's names where Determined has the setting."""

    provider: str = "OIDC"  # the displayed name
    issuer: str = ""
    client_id: str = ""
    client_secret: str = field(
        default="", repr=False
    )  # empty: a public client, which uses PKCE only
    authentication_claim: str = "email"
    display_name_attribute_name: str = "name"
    groups_attribute_name: str = ""  # empty: the cluster's own groups
    auto_provision_users: bool = False
    domains: tuple[str, ...] = ()  # of email addresses; empty: all
    scopes: tuple[str, ...] = ("openid", "email", "profile")
    session: float = _SESSION_S  # seconds


_DEFAULT = SignInProvider()


def read_provider(reader: Reader) -> tuple[SignInProvider | None, list[str]]:
    """Return the provider and the keys without effect."""
    if not reader.content() or not reader.flag("enabled", True):
        return None, []
    ignored = reader.ignore(*_IGNORED)
    provider = SignInProvider(
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
    _check(reader, provider)
    return provider, ignored


def _scopes(reader: Reader) -> tuple[str, ...]:
    scopes = reader.texts("scopes") or _DEFAULT.scopes
    return scopes if "openid" in scopes else ("openid", *scopes)


def _check(reader: Reader, provider: SignInProvider) -> None:
    if not is_safe(provider.issuer) or urlsplit(provider.issuer).query:
        reader.refuse("issuer", "must be the https address of the identity provider")
    if not provider.client_id:
        reader.refuse("client_id", "is required: the name that the provider gave this cluster")
    if provider.session > _LONGEST_S:
        reader.refuse("session", "must be 30 days at most")
    if provider.domains and provider.authentication_claim != "email":
        reader.refuse("domains", "needs authentication_claim: email")


FOREVER = -1
_DEFAULT_DAYS, _MOST_DAYS = 30, 36500


@dataclass(frozen=True, slots=True)
class AccessTokens:
    """The lifespans of access tokens in days (FOREVER: no expiry), and whether tokens can manage accounts."""

    default_lifespan_days: int = _DEFAULT_DAYS
    max_lifespan_days: int = _DEFAULT_DAYS
    administers: bool = False

    @property
    def default(self) -> timedelta | None:
        return _lifespan(self.default_lifespan_days)

    @property
    def longest(self) -> timedelta | None:
        return _lifespan(self.max_lifespan_days)


def read_access_tokens(reader: Reader) -> AccessTokens:
    most = _days(reader, "max_lifespan_days", _DEFAULT_DAYS)
    default_days = _days(
        reader,
        "default_lifespan_days",
        _DEFAULT_DAYS if most == FOREVER else min(_DEFAULT_DAYS, most),
    )
    if most != FOREVER and not 0 <= default_days <= most:
        reader.refuse("default_lifespan_days", f"must not be more than max_lifespan_days, {most}")
    administers = reader.flag("administers", False)
    reader.close()
    return AccessTokens(default_days, most, administers)


def _days(reader: Reader, key: str, default: int) -> int:
    days = reader.whole(key, default, FOREVER, _MOST_DAYS)
    if days == 0:
        reader.refuse(key, "must be 1 at least, or -1: without an end")
    return days


def _lifespan(days: int) -> timedelta | None:
    return None if days == FOREVER else timedelta(days=days)
