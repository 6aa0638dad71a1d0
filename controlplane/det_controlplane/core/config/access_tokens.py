"""Read the lifespans and rights of access tokens (docs/reference/cluster-config.md#securitytoken)."""

from dataclasses import dataclass
from datetime import timedelta

from det_controlplane.core.config.reading import Reader

FOREVER = -1
_DEFAULT, _MOST = 30, 36500


@dataclass(frozen=True, slots=True)
class AccessTokens:
    """The lifespans of access tokens in days (FOREVER: no expiry), and whether tokens can manage accounts."""

    default_lifespan_days: int = _DEFAULT
    max_lifespan_days: int = _DEFAULT
    administers: bool = False

    @property
    def default(self) -> timedelta | None:
        return _lifespan(self.default_lifespan_days)

    @property
    def longest(self) -> timedelta | None:
        return _lifespan(self.max_lifespan_days)


def read_access_tokens(reader: Reader) -> AccessTokens:
    most = _days(reader, "max_lifespan_days", _DEFAULT)
    default_days = _days(
        reader, "default_lifespan_days", _DEFAULT if most == FOREVER else min(_DEFAULT, most)
    )
    if most != FOREVER and not 0 <= default_days <= most:
        reader.refuse("default_lifespan_days", f"must not be more than max_lifespan_days, {most}")
    administers = reader.flag("administers", False)
    reader.close()
    return AccessTokens(default_days, most, administers)


def _days(reader: Reader, key: str, default: int) -> int:
    days = reader.whole(key, default, FOREVER, _MOST)
    if days == 0:
        reader.refuse(key, "must be 1 at least, or -1: without an end")
    return days


def _lifespan(days: int) -> timedelta | None:
    return None if days == FOREVER else timedelta(days=days)
