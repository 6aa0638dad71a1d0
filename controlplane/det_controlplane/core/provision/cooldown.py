"""Remember refusals of clouds: which offers are not asked for, and until when."""

import math
from collections.abc import Iterable, Sequence
from datetime import datetime, timezone
from typing import NamedTuple

from .model import Cooldown, Hold, RefusalKind
from .offers import Offer, Scope


class _Backoff(NamedTuple):
    first_s: float
    most_s: float


_BACKOFFS = {
    RefusalKind.NO_CAPACITY: _Backoff(180.0, 600.0),
    RefusalKind.QUOTA: _Backoff(30.0, 900.0),
    RefusalKind.DENIED: _Backoff(30.0, 900.0),
    RefusalKind.INVALID: _Backoff(math.inf, math.inf),  # until an operator resumes the pool
    RefusalKind.RETRYABLE: _Backoff(2.0, 30.0),
}
# For unknown errors: they may pass, and frequent retries would throttle the account.
_PASSING = _Backoff(300.0, 14_400.0)
# A cooldown that is longer than any backoff ends when an operator resumes the pool.
ENDLESS_S = 86_400.0
# Causes that only an operator can change.
_FOR_OPERATORS = frozenset({RefusalKind.QUOTA, RefusalKind.DENIED, RefusalKind.INVALID})
FAILURES_TO_HOLD = 3
# A refusal after so long a silence is a first one again.
_FORGOTTEN_AFTER_S = 3600.0


def after_refusal(
    earlier: Cooldown | None,
    kind: RefusalKind,
    scope: Scope,
    sentence: str,
    now: float,
    pool: str = "",
    hint: tuple[str, ...] = (),
    passing: bool = False,
) -> Cooldown:
    """Return how long to leave a scope alone, longer with every failure; `earlier` is its last cooldown.

    `passing` gives an invalid offer an end."""
    again = (
        earlier is not None and earlier.kind is kind and now - earlier.until < _FORGOTTEN_AFTER_S
    )
    # Answers to calls that were under way when the cooldown began are not failures of their own.
    if again and earlier is not None and now < earlier.until:
        return earlier
    failures = earlier.failures + 1 if again and earlier is not None else 1
    backoff = _PASSING if passing and kind is RefusalKind.INVALID else _BACKOFFS[kind]
    length = min(backoff.most_s, backoff.first_s * 2 ** min(failures - 1, 16))
    return Cooldown(scope, kind, now + length, sentence, failures, pool, hint)


def after_success(
    cooldowns: Iterable[Cooldown], offer: Offer, pool: str = ""
) -> tuple[Cooldown, ...]:
    """Return the cooldowns that still hold after an offer gave a pool a machine."""
    return tuple(c for c in cooldowns if not (c.scope.covers(offer) and c.pool in ("", pool)))


class Cooldowns:
    """The cooldowns that have not ended, found by the offers that they cover."""

    def __init__(self, cooldowns: Iterable[Cooldown], now: float, pool: str = "") -> None:
        self._by_scope: dict[Scope, Cooldown] = {}
        self._hints: set[Scope] = set()
        self.pool = pool
        self._now = now
        for cooldown in cooldowns:
            if cooldown.until > now and cooldown.pool in ("", pool):
                self._hints |= {cooldown.scope._replace(zone=zone) for zone in cooldown.hint}
                longest = self._by_scope.get(cooldown.scope, cooldown)
                self._by_scope[cooldown.scope] = max(longest, cooldown, key=lambda c: c.until)
        self._masks = masks_of(self._by_scope)

    def hints(self, offer: Offer) -> bool:
        """Return whether the cloud named the offer's zone as one that has room, when another had none."""
        return bool(self._hints) and Scope.of(offer) in self._hints

    def of(self, offer: Offer) -> Cooldown | None:
        """Return the cooldown of an offer that ends last."""
        scopes = (masked(Scope.of(offer), mask) for mask in self._masks)
        cooldowns = [self._by_scope[scope] for scope in scopes if scope in self._by_scope]
        return max(cooldowns, key=lambda c: c.until, default=None)

    def is_endless(self, cooldown: Cooldown) -> bool:
        """Return whether only an operator ends a cooldown."""
        return cooldown.until - self._now > ENDLESS_S


Mask = tuple[bool, ...]


def masks_of(scopes: Iterable[Scope]) -> frozenset[Mask]:
    """Return the masks of scopes, which say which of their values are given: few masks serve thousands of scopes."""
    return frozenset(tuple(bool(value) for value in scope) for scope in scopes)


def masked(scope: Scope, mask: Mask) -> Scope:
    """Return the wider scope that gives only the values of the mask."""
    return Scope(*(value if flag else "" for value, flag in zip(scope, mask, strict=True)))


def hold_for(offers: Sequence[Offer], cooldowns: Cooldowns) -> Hold | None:
    """Hold a pool if all its offers are refused repeatedly for causes that only an operator can change."""
    causes: dict[str, Cooldown] = {}
    for offer in offers:
        cooldown = cooldowns.of(offer)
        if cooldown is None or not _is_for_operators(cooldown, cooldowns):
            return None
        causes.setdefault(cooldown.sentence, cooldown)
    if not causes:
        return None
    ends = [c.until for c in causes.values() if not cooldowns.is_endless(c)]
    sentence = "; ".join(causes)
    if not ends:
        return Hold(
            f"{sentence}; correct it"
        )  # every hold without an end names the command that ends it
    return Hold(sentence, min(ends))


def _is_for_operators(cooldown: Cooldown, cooldowns: Cooldowns) -> bool:
    often = cooldown.failures >= FAILURES_TO_HOLD or cooldowns.is_endless(cooldown)
    return often and cooldown.kind in _FOR_OPERATORS


def clock(time: float) -> str:
    """Format a time for sentences: the same text at every decision, so that rows are not written again."""
    return datetime.fromtimestamp(time, timezone.utc).strftime("%H:%M:%S UTC")
