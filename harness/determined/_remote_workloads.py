"""The next workload as the control plane hands it out."""

import logging
from typing import Any, Optional

from determined.common.http import APIError, MasterUnreachableError, NotFoundError
from determined.workloads import Kind, LocalSource, Progress, Workload

logger = logging.getLogger("determined.pytorch")


class RemoteSource:
    """Workloads from `GET /api/v1/trials/{id}/workload`; without an answer it decides alone.

    A trial that must stop is finished by the plan's own rules: the answer could not be any other.
    """

    def __init__(self, session: Any, trial_id: int, local: LocalSource) -> None:
        self._session: Optional[Any] = session
        self._path = f"/api/v1/trials/{trial_id}/workload"
        self._local = local

    def next(self, progress: Progress) -> Workload:
        planned = self._local.next(progress)
        if progress.stopping or self._session is None:
            return planned
        try:
            answer = self._session.get(self._path, {"stepsCompleted": progress.batches})
        except NotFoundError:
            self._session = None
            return planned
        except (APIError, MasterUnreachableError) as e:
            logger.warning("going on by the trial's own plan: no workload was handed out (%s)", e)
            return planned
        told = Workload.from_json(answer["workload"])
        return planned if _is_done(told, progress) else told


def _is_done(told: Workload, progress: Progress) -> bool:
    """Return whether a workload is done already: an answer may lag behind reports, which travel in the background."""
    done_at = {Kind.VALIDATE: progress.validated_at, Kind.CHECKPOINT: progress.checkpointed_at}
    return done_at.get(told.kind) == progress.batches
