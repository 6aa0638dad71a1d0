"""The tools that read: experiments, trials, metrics, logs, reasons, the queue, pools and costs."""

from typing import Any

from determined.common.http import NotFoundError, Session
from determined.common.log_stream import from_level
from determined.common.pages import V1

from det_cli.assistants.answers import page, without_empty
from det_cli.errors import UsageError

_ROWS = 100  # read at once; the answer has as many as fit
_LINES = 60
_KINDS = ("experiment", "trial", "job", "task")
_CONFIG_KEYS = ("entrypoint", "resources", "searcher", "hyperparameters", "max_restarts", "labels")


class Reader:
    """Reads from the cluster with the rights of a session."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def list_experiments(
        self, name: str = "", state: str = "", user: str = "", cursor: str = ""
    ) -> Any:
        """List experiments, the newest first. `state` is for example ACTIVE, PAUSED, COMPLETED, ERROR or CANCELED."""
        params = {
            "sortBy": "SORT_BY_ID", "orderBy": "ORDER_BY_DESC", "name": name or None, "users": user or None,
            "states": f"STATE_{state.upper()}" if state else None, "archived": False,
        }  # fmt: skip
        return self._page("/experiments", "experiments", cursor, params, _experiment)

    def describe_experiment(self, experiment_id: int) -> Any:
        """Describe an experiment: state, progress, cost, the main parts of its configuration."""
        answer = self._session.get(f"{V1}/experiments/{experiment_id}")
        experiment = answer["experiment"]
        config = experiment.get("config") or answer.get("config") or {}
        return {
            **_experiment(experiment),
            "cost_usd": self._cost("experiments", experiment_id),
            "config": without_empty({key: config.get(key) for key in _CONFIG_KEYS}),
        }

    def list_trials(self, experiment_id: int, cursor: str = "") -> Any:
        """List the trials of an experiment with their hyperparameters and best validation."""
        path = f"/experiments/{experiment_id}/trials"
        return self._page(path, "trials", cursor, {}, _trial)

    def describe_trial(self, trial_id: int) -> Any:
        """Describe a trial: state, restarts, batches, summary of its metrics, cost."""
        trial = self._session.get(f"{V1}/trials/{trial_id}")["trial"]
        return {
            **_trial(trial),
            "experiment_id": trial.get("experimentId"),
            "cost_usd": self._cost("trials", trial_id),
            "summary_metrics": trial.get("summaryMetrics") or {},
        }

    def get_metrics(self, trial_id: int, kind: str = "validation", cursor: str = "") -> Any:
        """Return the reports of a trial by steps, the newest first.

        `kind` is validation, or all for training metrics and checkpoints too.
        """
        if kind not in ("validation", "all"):
            raise UsageError(f"there are no {kind!r} metrics", "ask for validation or all")
        params = {
            "orderBy": "ORDER_BY_DESC",
            "filter": "FILTER_OPTION_VALIDATION" if kind == "validation" else None,
        }
        path = f"/trials/{trial_id}/workloads"
        return self._page(path, "workloads", cursor, params, _report, "metrics")

    def get_logs(
        self,
        trial_id: int = 0,
        task_id: str = "",
        level: str = "",
        search: str = "",
        cursor: str = "",
    ) -> Any:
        """Return the last log lines of a trial or task, oldest first; with a cursor, the lines before them.

        `level` returns this level and higher ones, for example ERROR. `search` is a text in the line.
        """
        if bool(trial_id) == bool(task_id):
            raise UsageError("whose log?", "give either trial_id or task_id")
        path = f"/trials/{trial_id}/logs" if trial_id else f"/tasks/{task_id}/logs"
        skip = _offset(cursor)
        params: dict[str, Any] = {
            "limit": skip + _LINES, "orderBy": "ORDER_BY_DESC", "levels": from_level(level.upper()),
            "searchText": search or None,
        }  # fmt: skip
        newest_first = list(self._session.stream_lines("GET", V1 + path, params=params))
        lines = [_line(line) for line in newest_first[skip:]]
        # A full answer means that there may be earlier lines.
        more = len(newest_first) == skip + _LINES
        answer = page("lines", lines, skip, len(newest_first) + more)
        cursors = {"next_cursor": answer["next_cursor"]} if "next_cursor" in answer else {}
        return {"lines": answer["lines"][::-1], **cursors}

    def why(self, id: str, kind: str = "experiment") -> Any:
        """Explain why an experiment, trial, job or task waits, runs or failed, with the next step."""
        if kind not in _KINDS:
            raise UsageError(f"unknown kind {kind!r}", f"use one of {', '.join(_KINDS)}")
        reasons = self._session.get(f"{V1}/why/{kind}/{id}")["reasons"]
        names = ("trialId", "state", "code", "sentence", "since", "nextTry", "cause", "nextStep")
        rows = [without_empty({name: reason.get(name) for name in names}) for reason in reasons]
        return page("reasons", rows, 0, len(rows))

    def list_queue(self, pool: str = "", cursor: str = "") -> Any:
        """List the jobs of a pool in the order of its queue. Without a name, the default pool."""
        params = {"resourcePool": pool or None}
        return self._page("/job-queues-v2", "jobs", cursor, params, _job)

    def list_pools(self) -> Any:
        """List resource pools: slots, and for pools that rent machines their prices and state."""
        pools = self._session.get(f"{V1}/resource-pools")["resourcePools"]
        try:
            rented = {p["name"]: p for p in self._session.get(f"{V1}/rented-pools")["pools"]}
        except NotFoundError:
            rented = {}
        rows = [_pool(pool, rented.get(pool["name"])) for pool in pools]
        return page("pools", rows, 0, len(rows))

    def get_costs(self, experiment_ids: "list[int] | None" = None) -> Any:
        """Return the cost of experiments in US dollars; without ids, the cost of your work. Lists the budgets too."""
        costs: Any = {}
        if experiment_ids:
            answer = self._session.get(f"{V1}/costs/experiments", {"ids": list(experiment_ids)})
            costs = {"experiments": answer["costs"]}
        else:
            costs = {"you": self._session.get(f"{V1}/costs/me")}
        names = ("id", "scope", "scopeName", "limitUsd", "period", "spentUsd", "state")
        budgets = self._session.get(f"{V1}/budgets")["budgets"]
        rows = [{name: budget.get(name) for name in names} for budget in budgets]
        return page("budgets", rows, 0, len(rows), **costs)

    def _cost(self, kind: str, id: int) -> "float | None":
        try:
            (cost,) = self._session.get(f"{V1}/costs/{kind}", {"ids": [id]})["costs"]
        except NotFoundError:
            return None
        return round(float(cost["costUsd"]), 4)

    def _page(
        self,
        path: str,
        key: str,
        cursor: str,
        params: dict[str, Any],
        row_of: Any,
        name: str = "",
    ) -> Any:
        offset = _offset(cursor)
        answer = self._session.get(V1 + path, {**params, "limit": _ROWS, "offset": offset})
        rows = [row_of(row) for row in answer.get(key) or []]
        total = int((answer.get("pagination") or {}).get("total") or offset + len(rows))
        return page(name or key, rows, offset, total)


def _offset(cursor: str) -> int:
    if not cursor:
        return 0
    if not (cursor.isascii() and cursor.isdigit()):
        raise UsageError(f"{cursor!r} is not a cursor", "give the next_cursor of the last answer")
    return int(cursor)


def _state(value: Any) -> str:
    return str(value or "").removeprefix("STATE_")


def _experiment(row: dict[str, Any]) -> dict[str, Any]:
    return without_empty(
        {
            "id": row.get("id"),
            "name": row.get("name"),
            "state": _state(row.get("state")),
            "progress": round(float(row.get("progress") or 0), 3),
            "user": row.get("username"),
            "trials": row.get("numTrials"),
            "pool": row.get("resourcePool"),
            "started": row.get("startTime"),
            "ended": row.get("endTime"),
            "labels": row.get("labels"),
        }
    )


def _trial(row: dict[str, Any]) -> dict[str, Any]:
    best = row.get("bestValidation") or {}
    return without_empty(
        {
            "id": row.get("id"),
            "state": _state(row.get("state")),
            "batches": row.get("totalBatchesProcessed"),
            "restarts": row.get("restarts"),
            "hparams": row.get("hparams"),
            "searcher_metric": row.get("searcherMetricValue"),
            "best_validation": (best.get("metrics") or {}).get("avgMetrics"),
            "started": row.get("startTime"),
            "ended": row.get("endTime"),
        }
    )


def _report(row: dict[str, Any]) -> dict[str, Any]:
    kind = next((kind for kind in ("validation", "training", "checkpoint") if row.get(kind)), "")
    work = row.get(kind) or {}
    metrics = (work.get("metrics") or {}).get("avgMetrics") or {}
    report = {"kind": kind, "batches": work.get("totalBatches"), "metrics": metrics}
    return without_empty({**report, "checkpoint": work.get("uuid")})


def _line(line: dict[str, Any]) -> str:
    rank = line.get("rankId")
    where = "" if rank is None else f" [rank {rank}]"
    return f"{str(line.get('timestamp'))[:23]}{where} {str(line.get('log') or line.get('message') or '').rstrip()}"


def _job(row: dict[str, Any]) -> dict[str, Any]:
    full = row.get("full") or row.get("limited") or row
    summary = full.get("summary") or {}
    ahead = summary.get("jobsAhead", -1)  # -1: the job does not wait
    return without_empty(
        {
            "job": full.get("jobId"),
            "type": str(full.get("type") or "").removeprefix("TYPE_").lower(),
            "entity": full.get("entityId"),
            "name": full.get("name"),
            "user": full.get("username"),
            "state": _state(summary.get("state")),
            "ahead": None if ahead < 0 else ahead,
            "slots": full.get("requestedSlots"),
            "allocated": full.get("allocatedSlots"),
            "priority": full.get("priority"),
            "why": full.get("reason"),
        }
    )


def _pool(row: dict[str, Any], rented: "dict[str, Any] | None") -> dict[str, Any]:
    pool = {
        "name": row.get("name"),
        "is_default": row.get("defaultComputePool") or None,
        "agents": row.get("numAgents"),
        "slots": row.get("slotsAvailable"),
        "used": row.get("slotsUsed"),
    }
    if rented is not None:
        prices = sorted(float(offer["priceUsdHour"]) for offer in rented["offers"])
        pool |= {
            "usd_per_hour_now": rented.get("priceUsdHour"),
            "queued": rented.get("queued"),
            "offers_usd_per_hour": [prices[0], prices[-1]] if prices else [],
            "hold": (rented.get("hold") or {}).get("sentence"),
            "spent_budget": rented.get("spentBudget"),
        }
    return without_empty(pool)
