"""Attempts to sign in that are not known to have succeeded, by account and address; accounts need not exist."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import delete, func, text, update

from det_controlplane.db.engine.database import Tx
from det_controlplane.db.schema import sign_in_failures

_MAY_TRY = """f.failures < :free OR f.last_at < :forgotten
        OR f.last_at + make_interval(secs => least(:longest_s, power(2, least(f.failures - :free, 20)))) <= :now"""
# Counted before the password is looked at: attempts at the same time are counted, too.
_ATTEMPT = text(f"""
    INSERT INTO sign_in_failures AS f (username, address, failures, last_at) VALUES (:username, :address, 1, :now)
    ON CONFLICT (username, address) DO UPDATE SET last_at = :now,
        failures = CASE WHEN f.last_at < :forgotten THEN 1 ELSE f.failures + 1 END
    WHERE {_MAY_TRY}
    RETURNING failures
""")
_HELD_UP = text(f"""
    SELECT 1 FROM sign_in_failures AS f
    WHERE username = :username AND address = :address AND NOT ({_MAY_TRY})
""")
_AT_HOME = text("""
    SELECT 1 FROM users AS u JOIN sessions AS s ON s.user_id = u.id
    WHERE u.username = :username AND s.kind = 'user' AND s.address = :address
        AND NOT EXISTS (SELECT 1 FROM sign_in_failures AS f WHERE f.username = :username AND f.address = :address)
    LIMIT 1
""")
_f = sign_in_failures.c


@dataclass(frozen=True, slots=True)
class AttemptLimits:
    """Bounds attempts to sign in: so many are free, and each further one waits longer."""

    free: int
    longest_s: float
    forgotten_after: timedelta


def attempt(tx: Tx, username: str, address: str, now: datetime, patience: AttemptLimits) -> int:
    """Count an attempt and return the number of attempts. Return 0 if it is too early and was not counted."""
    count = tx.execute(_ATTEMPT, _values(username, address, now, patience)).scalar()
    return int(count or 0)


def is_too_early(
    tx: Tx, username: str, address: str, now: datetime, patience: AttemptLimits
) -> bool:
    """Return whether an attempt would come too soon; count none."""
    return tx.execute(_HELD_UP, _values(username, address, now, patience)).first() is not None


def _values(username: str, address: str, now: datetime, patience: AttemptLimits) -> dict[str, Any]:
    return {
        "username": username, "address": address, "now": now, "forgotten": now - patience.forgotten_after,
        "free": patience.free, "longest_s": patience.longest_s,
    }  # fmt: skip


def is_at_home(tx: Tx, username: str, address: str) -> bool:
    """Return whether somebody has signed in under a name from an address, and no attempt failed there since."""
    return tx.execute(_AT_HOME, {"username": username, "address": address}).first() is not None


def uncount(tx: Tx, username: str, address: str) -> None:
    """Subtract an attempt that has succeeded from the failures."""
    this = update(sign_in_failures).where(_f.username == username, _f.address == address)
    tx.execute(this.values(failures=func.greatest(_f.failures - 1, 0)))


def forget(tx: Tx, username: str, address: str) -> None:
    tx.execute(delete(sign_in_failures).where(_f.username == username, _f.address == address))


def forget_old(tx: Tx, before: datetime) -> None:
    tx.execute(delete(sign_in_failures).where(_f.last_at < before))
