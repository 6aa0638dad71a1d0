"""Requests to the agent's gateway while a container starts. They wait for an agent that is away or restarting."""

import time
from typing import Callable, Collection, Optional, TypeVar

from determined.common.connections import RETRY_STATUSES, pauses
from determined.common.http import APIError, MasterUnreachableError, UntrustedMasterError

T = TypeVar("T")
PATIENCE_S = 3600.0  # the same limit as for log lines and metrics
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.5, 5.0


class AgentAway(Exception):
    """The agent did not answer within the time limit. This is an infrastructure failure, not a failure of the task."""


def answered(ask: Callable[[], T], statuses: Collection[int] = RETRY_STATUSES) -> T:
    """Return the gateway's response. Retry while the gateway does not answer or answers with one of `statuses`.

    Raises AgentAway after PATIENCE_S. Other errors are raised at once."""
    away_since: Optional[float] = None
    for pause_s in pauses(FIRST_PAUSE_S, LONGEST_PAUSE_S):
        try:
            return ask()
        except UntrustedMasterError:
            raise
        except (MasterUnreachableError, APIError) as e:
            if isinstance(e, APIError) and e.status not in statuses:
                raise
            now = time.monotonic()
            away_since = now if away_since is None else away_since
            if now + pause_s > away_since + PATIENCE_S:
                raise AgentAway(
                    f"the agent of this machine did not answer for {now - away_since:.0f} s: {e}"
                ) from e
            time.sleep(max(pause_s, getattr(e, "retry_after_s", 0.0)))
    raise AssertionError("pauses never end")
