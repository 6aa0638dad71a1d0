"""Look at a cluster again and again: not too often, and through outages."""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from determined.common.failures import SignInFailed
from determined.common.http import APIError, MasterUnreachableError, UnauthenticatedError

from det_cli.errors import DENIED, CommandError

State = TypeVar("State")
SHORTEST_S, LONGEST_S, LONGEST_OUTAGE_S = 2.0, 10.0, 30.0
_OUTAGES = frozenset({408, 429, 500, 502, 503, 504})


@dataclass(frozen=True)
class Observation(Generic[State]):
    """Hold what was seen last, and since when the cluster does not answer."""

    state: "State | None"
    seen_at: float
    pause_s: float
    outage: str = ""
    failure: "Exception | None" = None


class SignInExpired(CommandError):
    code = DENIED


class Observer(Generic[State]):
    """Read a state: each 2 s while it changes, less often while it does not, and ever less often in an outage."""

    def __init__(
        self,
        read: Callable[[], State],
        least_s: Callable[[State], float] = lambda state: 0.0,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._read = read
        self._least_s = least_s
        self._now = now
        self.news: Observation[State] = Observation(None, now(), 0.0)

    def look(self) -> Observation[State]:
        """Return the state now. During an outage it is the last one; other failures end the watch."""
        before = self.news
        try:
            state = self._read()
        except (SignInFailed, UnauthenticatedError) as e:
            return self._fail(_expired(e))
        except MasterUnreachableError as e:
            return self._out(str(e), 0.0)
        except APIError as e:
            if e.status not in _OUTAGES:
                return self._fail(e)
            return self._out(f"the cluster answers {e.status}: {e.message}", e.retry_after_s)
        except Exception as e:
            return self._fail(e)
        changed = before.outage or state != before.state
        pause_s = SHORTEST_S if changed else min(before.pause_s * 1.5, LONGEST_S)
        self.news = Observation(state, self._now(), max(pause_s, self._least_s(state)))
        return self.news

    def _out(self, told: str, asked_s: float) -> Observation[State]:
        before = self.news
        pause_s = min(before.pause_s * 2, LONGEST_OUTAGE_S) if before.outage else SHORTEST_S
        self.news = Observation(before.state, before.seen_at, max(pause_s, asked_s), outage=told)
        return self.news

    def _fail(self, error: Exception) -> Observation[State]:
        self.news = Observation(self.news.state, self.news.seen_at, 0.0, failure=error)
        return self.news


def _expired(error: Exception) -> SignInExpired:
    cause = f"the sign-in is no longer good: {error}"
    hint = getattr(error, "hint", "") or "sign in with `det user login`"
    return SignInExpired(cause, "" if "det user login" in cause else hint)


class BackgroundObserver(Generic[State]):
    """Look in a thread of its own, so that keys are answered while a cluster is slow."""

    def __init__(self, observer: Observer[State], told: Callable[[], None]) -> None:
        self._observer = observer
        self._told = told
        self._over = threading.Event()
        # A request that hangs must not keep the command from ending.
        self._thread = threading.Thread(target=self._run, name="det-watch", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self, seconds: float) -> bool:
        """End the thread; return whether it ended in time."""
        self._over.set()
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def _run(self) -> None:
        while not self._over.wait(self._observer.news.pause_s):
            news = self._observer.look()
            self._told()
            if news.failure is not None:
                return
