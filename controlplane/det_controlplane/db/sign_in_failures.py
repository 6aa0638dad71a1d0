"""Attempts to sign in that are not known to have succeeded, by account and address; accounts need not exist."""

from datetime import datetime

from sqlalchemy import delete, text

from det_controlplane.db.engine import Tx
from det_controlplane.db.schema import sign_in_failures

# Counted before the password is looked at: attempts at the same time are counted, too.
_ATTEMPT = text("""
    INSERT INTO sign_in_failures AS f (username, address, failures, last_at) VALUES (:username, :address, 1, :now)
    ON CONFLICT (username, address) DO UPDATE SET last_at = :now,
        failures = CASE WHEN f.last_at < :forgotten THEN 1 ELSE f.failures + 1 END
    WHERE f.failures < :free OR f.last_at < :forgotten
        OR f.last_at + make_interval(secs => least(:longest_s, power(2, least(f.failures - :free, 20)))) <= :now
    RETURNING failures
""")
_f = sign_in_failures.c


def attempt(
    tx: Tx,
    username: str,
    address: str,
    now: datetime,
    forgotten: datetime,
    free: int,
    longest_s: float,
) -> bool:
    """Count an attempt; False where it comes too soon after others, and is not counted."""
    values = {
        "username": username, "address": address, "now": now, "forgotten": forgotten, "free": free,
        "longest_s": longest_s,
    }  # fmt: skip
    return tx.execute(_ATTEMPT, values).first() is not None


def forget(tx: Tx, username: str, address: str) -> None:
    tx.execute(delete(sign_in_failures).where(_f.username == username, _f.address == address))


def forget_old(tx: Tx, before: datetime) -> None:
    tx.execute(delete(sign_in_failures).where(_f.last_at < before))
