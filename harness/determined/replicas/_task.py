"""The replicas of a task: its memory, its reports, and the step from which the cluster lets its run start."""

import os
from typing import Dict, Mapping, Optional

from determined._info import ClusterInfo
from determined.common.http import Session
from determined.core._distributed import DistributedContext
from determined.core._json import encode
from determined.core._outbox import Outbox
from determined.replicas._replicator import Replicator, Reports, Settings

_FLUSH_S = 2.0
# A header has room for so many groups. Trials rarely have more than training and validation.
_MOST_GROUPS = 16


def replicator_of_task(
    info: ClusterInfo,
    session: Session,
    distributed: DistributedContext,
    outbox: Optional[Outbox],
    reported: Mapping[str, int],
    env: Optional[Mapping[str, str]] = None,
) -> Optional[Replicator]:
    """Return the replicator of this rank, or None if the configuration of the trial gives no memory."""
    variables = os.environ if env is None else env
    limit = int(variables.get("DET_REPLICA_BYTES") or 0)
    if not limit:
        return None
    settings = Settings(
        variables.get("DET_REPLICA_DIR") or "",
        limit,
        info.trial._trial_run_id,
        info.trial._steps_completed,
        info.container_addrs[info.container_rank],
    )

    def last_reports() -> Dict[str, int]:
        return dict(list(reported.items())[:_MOST_GROUPS])

    def flush() -> None:
        if outbox is not None:
            outbox.flush(timeout_s=_FLUSH_S)

    def start_from(steps: int, reports: Dict[str, int]) -> str:
        path = f"/api/v1/allocations/{info.allocation_id}/replica"
        body = {"stepsCompleted": steps, "reported": reports}
        answer = session.post(path, encode(body)) or {}
        return str(answer.get("refusal") or "")

    return Replicator(distributed, settings, Reports(last_reports, flush, start_from))
