"""Poll a cluster with a bounded rate, and continue through outages."""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from determined.common.http import APIError, MasterUnreachableError, UnauthenticatedError

from det_cli.errors import DENIED, CommandError

State = TypeVar("State")
SHORTEST_S, LONGEST_S, LONGEST_OUTAGE_S = 2.0, 10.0, 30.0
_OUTAGES = frozenset({408, 429, 500, 502, 503, 504})


@dataclass(frozen=True)
class Observation(Generic[State]):
    """The last known state, and the current outage or failure."""

    state: "State | None"
    seen_at: float
    pause_s: float
    outage: str = ""
    failure: "Exception | None" = None


class SignInExpired(CommandError):
    code = DENIED


class Observer(Generic[State]):
    """Polls a state every 2 s while it changes, and less often while it does not or during an outage."""

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
        """Read the state. During an outage, return the last known state. Other failures end the watch."""
        before = self.news
        try:
            state = self._read()
        except UnauthenticatedError as e:
            return self._fail(_expired_error(e))
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

    def _out(self, cause: str, retry_after_s: float) -> Observation[State]:
        before = self.news
        pause_s = min(before.pause_s * 2, LONGEST_OUTAGE_S) if before.outage else SHORTEST_S
        self.news = Observation(
            before.state, before.seen_at, max(pause_s, retry_after_s), outage=cause
        )
        return self.news

    def _fail(self, error: Exception) -> Observation[State]:
        self.news = Observation(self.news.state, self.news.seen_at, 0.0, failure=error)
        return self.news


def _expired_error(error: Exception) -> SignInExpired:
    cause = f"the sign-in has expired: {error}"
    hint = getattr(error, "hint", "") or "sign in with `det user login`"
    return SignInExpired(cause, "" if "det user login" in cause else hint)


class BackgroundObserver(Generic[State]):
    """Polls in a separate thread, so that the screen reacts to keys while the cluster is slow."""

    def __init__(self, observer: Observer[State], notify: Callable[[], None]) -> None:
        self._observer = observer
        self._notify = notify
        self._over = threading.Event()
        # A daemon thread, because a request that hangs must not block the end of the command.
        self._thread = threading.Thread(target=self._run, name="det-watch", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self, seconds: float) -> bool:
        """Stop the thread. Return True if it ended in time."""
        self._over.set()
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def _run(self) -> None:
        while not self._over.wait(self._observer.news.pause_s):
            news = self._observer.look()
            self._notify()
            if news.failure is not None:
                return
