"""Request the next workload of a trial from the control plane."""

import logging
from typing import Any, Optional

from determined.common.http import APIError, MasterUnreachableError, NotFoundError
from determined.workloads import Kind, LocalSource, Progress, Workload

logger = logging.getLogger("determined.pytorch")


class RemoteSource:
    """Workloads from `GET /api/v1/trials/{id}/workload`, or from the local plan if the request fails.

    A trial that is stopping follows the local plan, because the control plane would return the same workload.
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
            logger.warning(
                "continuing with the trial's own plan: requesting the workload failed (%s)", e
            )
            return planned
        workload = Workload.from_json(answer["workload"])
        return planned if _is_done(workload, progress) else workload


def _is_done(workload: Workload, progress: Progress) -> bool:
    """Return whether the trial already did this workload. Reports are sent in the background, so the answer may lag."""
    done_at = {Kind.VALIDATE: progress.validated_at, Kind.CHECKPOINT: progress.checkpointed_at}
    return done_at.get(workload.kind) == progress.batches
