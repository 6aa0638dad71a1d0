"""Get the addresses of the other containers of this allocation."""

import time
from typing import Any, Dict, Mapping

from determined._task_session import bounded_task_session
from determined.common.http import APIError
from determined.exec._gateway import answered
from determined.exec._prepare import write_info

RETRY_S = 0.5
READ_TIMEOUT_S = 120.0
STILL_WAITING = (502, 503, 504)


def rendezvous(env: Mapping[str, str]) -> Dict[str, Any]:
    """Block until every container runs. Status 504 means that some containers are still missing."""
    session = bounded_task_session(env, retries=0)
    path = (
        f"/api/v1/allocations/{env['DET_ALLOCATION_ID']}"
        f"/resources/{env.get('DET_RESOURCES_ID', '')}/rendezvous"
    )
    while True:
        try:
            # Waits without limit for missing containers, but with a limit for an absent agent.
            answer = answered(lambda: session.get(path, timeout_s=READ_TIMEOUT_S), statuses=())
        except APIError as e:
            if e.status not in STILL_WAITING:
                raise
            time.sleep(RETRY_S)
        else:
            info: Dict[str, Any] = answer["rendezvousInfo"]
            peers = {
                "container_addrs": info["addresses"],
                "container_rank": info["rank"],
                "container_slot_counts": info["slots"],
            }
            write_info("rendezvous", peers)
            return info
