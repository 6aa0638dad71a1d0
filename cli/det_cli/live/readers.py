"""Read the state of a cluster or an experiment with few requests. Parts may be unsupported or forbidden."""

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from datetime import datetime, timezone
from typing import Any

from determined.common.http import APIError, Session
from determined.common.pages import V1, pages

from det_cli.live.charts import Points, number
from det_cli.live.cluster import Cluster, Job, Money, Pool, job_of, machines_of, pool_of
from det_cli.live.experiment import Experiment, Reason, experiment_of, in_view, reasons_of


class Parts:
    """Reads the parts of a screen. Forbidden parts are omitted and listed in `hidden`."""

    def __init__(self, session: Session, now: Callable[[], float] = time.monotonic) -> None:
        self._session = session
        self._now = now
        self._kept: dict[str, tuple[float, Any]] = {}
        self._absent: set[str] = set()
        self.hidden: dict[str, str] = {}

    def get(self, path: str, params: "Mapping[str, Any] | None" = None, *, of: str = "") -> Any:
        """Return a response, or None if the route does not exist or is forbidden.

        `of` names the part. A part that was absent once is not requested again."""
        if of and of in self._absent:
            return None
        try:
            return self._session.get(V1 + path, params)
        except APIError as e:
            if e.status not in (403, 404, 501):
                raise
            if of:
                self._absent.add(of)
                if e.status == 403:
                    self.hidden[of] = e.message
            return None

    def seldom(
        self,
        every_s: float,
        path: str,
        params: "Mapping[str, Any] | None" = None,
        *,
        key: str = "",
    ) -> Any:
        """Return a response that is at most `every_s` old, or {} if the part is absent."""
        name = key or path
        read_at, response = self._kept.get(name, (float("-inf"), None))
        if self._now() - read_at >= every_s:
            response = self.get(path, params, of=name) or {}
            self._kept[name] = self._now(), response
        return response


_POOLS_S, _MONEY_S = 10.0, 60.0
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
        for row in job_rows:
            fields = row.get("full") or row.get("limited") or {}
            job = job_of(fields, pool, "")
            # The reason comes with the state, so it is never older than the state.
            yield replace(job, reason=str(fields.get("why") or "")) if job.waits else job

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


_CURVES = 40  # the number of trials for which to read curves
_POINTS = 60
_COST_S = 30.0


class ExperimentReader:
    """Caches curves. It reads a curve again only after its trial has trained further."""

    def __init__(self, session: Session, experiment_id: int) -> None:
        self._session = session
        self._id = experiment_id
        self._parts = Parts(session)
        self._curves: dict[int, tuple[int, Points]] = {}

    def read(self) -> Experiment:
        response = self._session.get(f"{V1}/experiments/{self._id}")
        trials = list(pages(self._session, f"/experiments/{self._id}/trials", "trials", limit=500))
        why = self._parts.get(f"/why/experiment/{self._id}", of="why") or {}
        searched = self._parts.get(f"/experiments/{self._id}/search", of="search") or {}
        experiment = experiment_of(response, trials, reasons_of(why.get("reasons") or ()), searched)
        return self._with_cost(self._with_curves(experiment))

    def pause_at_least_s(self, experiment: Experiment) -> float:
        """Return a longer pause for larger experiments."""
        return len(experiment.trials) / 100

    def _with_curves(self, experiment: Experiment) -> Experiment:
        visible = in_view(experiment.trials, experiment.search)[:_CURVES]
        metric = experiment.search.metric
        cache = self._curves
        outdated = [t.id for t in visible if t.batches and cache.get(t.id, (0, ()))[0] != t.batches]
        if outdated and metric:
            self._fetch(outdated, metric, {t.id: t.batches for t in visible})
        trials = [
            replace(t, curve=cache[t.id][1]) if t.id in cache else t for t in experiment.trials
        ]
        return replace(experiment, trials=tuple(trials))

    def _fetch(self, trial_ids: list[int], metric: str, batches: dict[int, int]) -> None:
        params = {
            "trialIds": trial_ids, "metricNames": [metric], "group": "validation", "maxDatapoints": _POINTS,
        }  # fmt: skip
        response = self._parts.get("/trials/time-series", params, of="curves") or {}
        for curve in response.get("trials") or ():
            trial_id = int(curve["trial"]["id"])
            self._curves[trial_id] = batches.get(trial_id, 0), _points(curve, metric)

    def _with_cost(self, experiment: Experiment) -> Experiment:
        response = self._parts.seldom(_COST_S, "/costs/experiments", {"ids": [self._id]})
        for cost in response.get("costs") or ():
            return replace(experiment, cost_usd=cost["costUsd"], slot_hours=cost["slotHours"])
        return experiment


class TrialReader:
    """Reads a trial with its experiment, curve and reasons."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._parts = Parts(session)

    def read(
        self, trial: Mapping[str, Any]
    ) -> "tuple[Experiment, Mapping[str, Any], tuple[Reason, ...]]":
        """Return the experiment with this trial only, the trial in the API's JSON, and its reasons.

        The JSON gets the phases of its start."""
        response = self._session.get(f"{V1}/experiments/{trial['experimentId']}")
        why = self._parts.get(f"/why/trial/{trial['id']}", of="why") or {}
        experiment = experiment_of(response, [trial])
        curve = self._curve(int(trial["id"]), experiment.search.metric)
        trials = tuple(replace(t, curve=curve) for t in experiment.trials)
        start = self._parts.get(f"/trials/{trial['id']}/start", of="start") or {}
        return (
            replace(experiment, trials=trials),
            {**trial, **start},
            reasons_of(why.get("reasons") or ()),
        )

    def _curve(self, trial_id: int, metric: str) -> Points:
        params = {
            "trialIds": [trial_id], "metricNames": [metric], "group": "validation", "maxDatapoints": _POINTS,
        }  # fmt: skip
        response = self._parts.get("/trials/time-series", params, of="curves") if metric else None
        curves = (response or {}).get("trials") or [{}]
        return _points(curves[0], metric)


def _points(trial: dict[str, Any], metric: str) -> Points:
    """Return the points of a curve without missing values."""
    rows = [row for part in trial.get("metrics") or () for row in part.get("data") or ()]
    pairs = [(row["batches"], number((row.get("values") or {}).get(metric))) for row in rows]
    return tuple((float(at), value) for at, value in pairs if value is not None)
