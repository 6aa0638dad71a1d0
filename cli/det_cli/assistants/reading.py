"""The tools that read: experiments, trials, metrics, logs, reasons, the queue, pools and costs."""

from typing import Any

from determined.common.http import NotFoundError, Session
from determined.common.log_stream import LEVELS, from_level
from determined.common.pages import V1

from det_cli import outlooks
from det_cli.assistants.answers import page, without_empty
from det_cli.errors import MissingError, UsageError
from det_cli.render import state_text, trial_state_text

_ROWS = 100  # read at once; the answer has as many as fit
_LINES = 60
_CONFIG_KEYS = (
    "entrypoint", "resources", "searcher", "hyperparameters", "data", "max_restarts", "labels",
)  # fmt: skip


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
        """Describe an experiment: state, progress, cost, the main parts of its configuration. For some searches also
        the gain that another full training is expected to bring, or why the search ended early."""
        answer = self._session.get(f"{V1}/experiments/{experiment_id}")
        experiment = answer["experiment"]
        config = experiment.get("config") or answer.get("config") or {}
        return {
            **_experiment(experiment),
            "cost_usd": self._cost("experiments", experiment_id),
            **_outlook(outlooks.of(self._session, experiment_id, config)),
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
            raise UsageError(
                "a log belongs to one trial or task", "give either trial_id or task_id"
            )
        if level and from_level(level.upper()) is None:
            raise UsageError(f"there is no level {level!r}", f"use one of {', '.join(LEVELS)}")
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

    def why(
        self, experiment_id: int = 0, trial_id: int = 0, job_id: str = "", task_id: str = ""
    ) -> Any:
        """Explain why an experiment, trial, job or task waits, runs or failed, with the next step. Give one id."""
        ids = {"experiment": experiment_id, "trial": trial_id, "job": job_id, "task": task_id}
        given = [(kind, id) for kind, id in ids.items() if id]
        if len(given) != 1:
            raise UsageError(
                "a reason belongs to one experiment, trial, job or task",
                "give one of experiment_id, trial_id, job_id and task_id",
            )
        ((kind, id),) = given
        reasons = self._session.get(f"{V1}/why/{kind}/{id}")["reasons"]
        names = ("trialId", "state", "code", "sentence", "since", "nextTry", "cause", "nextStep")
        rows = [without_empty({name: reason.get(name) for name in names}) for reason in reasons]
        return page("reasons", rows, 0, len(rows))

    def list_queue(self, pool: str = "", cursor: str = "") -> Any:
        """List the jobs of a pool in the order of its queue, with the number of jobs ahead. Without a name, the
        default pool for training."""
        pools = {p["name"]: p for p in self._session.get(f"{V1}/resource-pools")["resourcePools"]}
        name = pool or next((n for n, p in pools.items() if p["defaultComputePool"]), "")
        if name not in pools:
            raise MissingError(f"there is no pool {name!r}", f"use one of {', '.join(pools)}")
        params = {"resourcePool": name}
        answer = self._page("/job-queues-v2", "jobs", cursor, params, _job)
        return {"pool": name, **answer}

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


def _experiment(row: dict[str, Any]) -> dict[str, Any]:
    return without_empty(
        {
            "id": row.get("id"),
            "name": row.get("name"),
            "state": state_text(row.get("state")),
            "progress": round(float(row.get("progress") or 0), 3),
            "user": row.get("username"),
            "trials": row.get("numTrials"),
            "pool": row.get("resourcePool"),
            "started": row.get("startTime"),
            "ended": row.get("endTime"),
            "labels": row.get("labels"),
        }
    )


def _outlook(outlook: "dict[str, Any] | None") -> dict[str, Any]:
    gain = (outlook or {}).get("expectedGain") or {}
    return without_empty(
        {
            "expected_gain": gain.get("value"),
            "expected_gain_per_usd": gain.get("perUsd"),
            "search_ended": ((outlook or {}).get("ending") or {}).get("sentence"),
        }
    )


def _trial(row: dict[str, Any]) -> dict[str, Any]:
    best = row.get("bestValidation") or {}
    return without_empty(
        {
            "id": row.get("id"),
            "state": trial_state_text(row),
            "batches": row.get("totalBatchesProcessed"),
            "restarts": row.get("restarts"),
            "hparams": row.get("hparams"),
            "searcher_metric": row.get("searcherMetricValue"),
            "best_validation": (best.get("metrics") or {}).get("avgMetrics"),
            "created": row.get("startTime"),
            "started": row.get("firstRunTime"),
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
    """Return a job. Its work has the name of the argument with which other tools find it."""
    job = row.get("full") or row.get("limited") or row
    summary = job.get("summary") or {}
    ahead = summary.get("jobsAhead", -1)  # -1: the job does not wait
    kind = str(job.get("type") or "").removeprefix("TYPE_").lower()
    entity = str(job.get("entityId") or "")
    is_experiment = kind == "experiment" and entity.isdigit()
    return without_empty(
        {
            "job_id": job.get("jobId"),
            "type": kind,
            "experiment_id": int(entity) if is_experiment else None,
            "task_id": "" if is_experiment else entity,
            "name": job.get("name"),
            "user": job.get("username"),
            "state": state_text(summary.get("state")),
            "ahead": None if ahead < 0 else ahead,
            "slots": job.get("requestedSlots"),
            "allocated": job.get("allocatedSlots"),
            "priority": job.get("priority"),
            "progress": job.get("progress"),
            "submitted": job.get("submissionTime"),
            "expected_start": job.get("expectedStart"),
            "why": job.get("why"),
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
