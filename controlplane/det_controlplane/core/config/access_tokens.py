"""Read what access tokens are good for, and how long (docs/reference/cluster-config.md#securitytoken)."""

from dataclasses import dataclass
from datetime import timedelta

from det_controlplane.core.config.reading import Reader

FOREVER = -1
_USUAL, _MOST = 30, 36500


@dataclass(frozen=True, slots=True)
class AccessTokens:
    """Days for which access tokens are good (FOREVER: they have no end), and whether they manage people."""

    default_lifespan_days: int = _USUAL
    max_lifespan_days: int = _USUAL
    administers: bool = False

    @property
    def default(self) -> timedelta | None:
        return _length(self.default_lifespan_days)

    @property
    def longest(self) -> timedelta | None:
        return _length(self.max_lifespan_days)


def read_access_tokens(reader: Reader) -> AccessTokens:
    most = _days(reader, "max_lifespan_days", _USUAL)
    usual = _days(reader, "default_lifespan_days", _USUAL if most == FOREVER else min(_USUAL, most))
    if most != FOREVER and not 0 <= usual <= most:
        reader.refuse("default_lifespan_days", f"must not be more than max_lifespan_days, {most}")
    administers = reader.flag("administers", False)
    reader.close()
    return AccessTokens(usual, most, administers)


def _days(reader: Reader, key: str, default: int) -> int:
    days = reader.whole(key, default, FOREVER, _MOST)
    if days == 0:
        reader.refuse(key, "must be 1 at least, or -1: without an end")
    return days


def _length(days: int) -> timedelta | None:
    return None if days == FOREVER else timedelta(days=days)
