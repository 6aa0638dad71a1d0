"""Read the state of a cluster. Expensive or slowly changing parts are read less often."""

import time
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timezone
from typing import Any

from determined.common.http import Session
from determined.common.pages import V1

from det_cli.live.cluster import Cluster, Job, Money, Pool, job_of, machines_of, pool_of
from det_cli.live.reading import Parts

_REASONS = 10  # the number of waiting jobs per pool for which to read the reason
_REASON_S, _POOLS_S, _MONEY_S = 10.0, 10.0, 60.0
_WARNING = ("WARNED", "DRAINING", "STOPPED")


class ClusterReader:
    def __init__(
        self, session: Session, user: str, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._session = session
        self._user = user
        self._parts = Parts(session, now)
        self._name: str | None = None

    def read(self) -> Cluster:
        if self._name is None:
            self._name = str(self._session.get(V1 + "/master").get("clusterName") or "")
        rented = {
            p["name"]: p for p in self._parts.seldom(_POOLS_S, "/rented-pools").get("pools") or ()
        }
        pool_rows = self._get("/resource-pools", of="pools").get("resourcePools") or ()
        pools = tuple(pool_of(pool, rented.get(pool["name"])) for pool in pool_rows)
        jobs = tuple(job for pool in pools for job in self._jobs(pool))
        machines = tuple(
            machines_of(
                self._get("/agents", of="agents").get("agents") or (),
                self._get("/instances", {"limit": 500}, of="machines").get("instances") or (),
                (self._get("/tasks", of="tasks").get("allocationIdToSummary") or {}).values(),
            )
        )
        costs = self._money()
        hidden = tuple(f"{part}: {why}" for part, why in sorted(self._parts.hidden.items()))
        return Cluster(self._name, self._user, pools, jobs, machines, hidden, costs)

    def pause_at_least_s(self, cluster: Cluster) -> float:
        """Return a longer pause for larger clusters."""
        return (len(cluster.jobs) + len(cluster.machines)) / 50

    def _get(self, path: str, params: "Mapping[str, Any] | None" = None, *, of: str) -> Any:
        return self._parts.get(path, params, of=of) or {}

    def _jobs(self, pool: Pool) -> Iterable[Job]:
        params = {"resourcePool": pool.name, "orderBy": "ORDER_BY_ASC", "limit": 200}
        job_rows = self._get("/job-queues-v2", params, of="queue").get("jobs") or ()
        rows = [row.get("full") or row.get("limited") or {} for row in job_rows]
        reasons = 0
        for row in rows:
            job = job_of(row, pool, "")
            if job.waits and reasons < _REASONS:
                reasons += 1
                job = job_of(row, pool, self._reason(job))
            yield job

    def _reason(self, job: Job) -> str:
        """Return the first reason why a job waits, or '' if the user may not see it."""
        path = f"/why/job/{job.id}"
        reasons = self._parts.seldom(_REASON_S, path).get("reasons") or ()
        sentences = [str(r.get("sentence") or "") for r in reasons if r.get("state") == "QUEUED"]
        return sentences[0] if sentences else ""

    def _money(self) -> "Money | None":
        today = datetime.now().astimezone().replace(hour=0, minute=0, second=0, microsecond=0)
        totals = []
        for span, start in (("today", today), ("this month", today.replace(day=1))):
            after = start.astimezone(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
            key = f"costs of pools {span}"
            response = self._parts.seldom(_MONEY_S, "/costs/pools", {"after": after}, key=key)
            if "costs" not in response:
                return None
            totals.append(sum(cost["costUsd"] for cost in response["costs"]))
        budgets = self._parts.seldom(_MONEY_S, "/budgets").get("budgets") or ()
        warnings = tuple(_budget(b) for b in budgets if b.get("state") in _WARNING)
        return Money(totals[0], totals[1], warnings)


def _budget(budget: Mapping[str, Any]) -> str:
    amounts = f"${budget['spentUsd']:.2f} of ${budget['limitUsd']:.2f}"
    return f"{budget['scope']} {budget['scopeName']}: {amounts} ({str(budget['state']).lower()})"
