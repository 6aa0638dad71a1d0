"""Answer `det why`: the reasons why an experiment, trial, job or task waits, in the scheduler's own words."""

import re
from typing import Any
from uuid import UUID

from det_controlplane.core.money.budget import spent_sentence
from det_controlplane.core.numerals import whole
from det_controlplane.core.provision import boot
from det_controlplane.core.provision.deadlines import watched
from det_controlplane.core.run_failures import RunFailure, explain_failed_search, explain_failure
from det_controlplane.core.schedule.model import WaitCode
from det_controlplane.core.search import not_reported
from det_controlplane.db.engine.database import Tx
from det_controlplane.db.machines import deadlines, warm_pools
from det_controlplane.db.money import budgets
from det_controlplane.db.scheduling import waiting
from det_controlplane.db.scheduling.waiting import Subject
from det_controlplane.db.trials import metric_names
from det_controlplane.services.context import Context
from det_controlplane.services.errors import Invalid, Missing
from det_controlplane.services.experiments import decisions

_SENTENCES = {
    "PAUSED": "is paused; resume with `det experiment activate {experiment_id}`",
    "COMPLETED": "completed successfully",
    "CANCELED": "was canceled",
    "ENDED": "has ended",
}
# The beginning of the provisioner's reason, which the scheduler's reason already contains.
_NEED = re.compile(r"^needs (\d+ slots?( on one machine)?|a machine, but no slot); ")

_CLEAN_END = "clean"  # the kind of the end of a run without an error
_EVERY_TRIAL = (
    "every trial failed"  # an experiment's error that says less than the failure of a trial
)
_NAMED = 3  # of the experiments that a TensorBoard waits for


def of(ctx: Context, kind: str, id: str) -> list[dict[str, Any]]:
    """Return one entry for each live allocation; without any, one for the thing itself."""
    if kind not in waiting.KINDS:
        raise Invalid(f"unknown kind {kind!r}; use one of {', '.join(waiting.KINDS)}")
    if kind in ("experiment", "trial") and (whole(id) is None or len(id) > 9):
        raise Invalid(f"{kind} id must be a number, not {id!r}")
    if kind == "job" and not _is_uuid(id):
        raise Missing(f"job '{id}' not found: job IDs are UUIDs; `det job list` shows them")
    with ctx.db.begin() as tx:
        # The state is read after the reasons. If the last run ends meanwhile, the answer is the end.
        rows = waiting.reasons(tx, kind, id)
        subject = waiting.subject(tx, kind, id)
        if subject is None:
            raise Missing(f"{kind} '{id}' not found")
        rows = [_add_warm_machines(ctx, tx, _of_metrics(tx, reason)) for reason in rows]
        reasons = [_of_pool(ctx, reason, subject.experiment_id) for reason in rows]
        spent = _spent_budget(ctx, tx, subject.experiment_id)
        nearly = "" if spent else _nearly_spent_budget(ctx, tx, subject.experiment_id)
        refused = 0 if reasons else metric_names.refused_reports(tx, kind, id)
        warning = "" if reasons else _unreported_metric(tx, subject)
        deadline = _deadline(ctx, tx, subject.experiment_id) if reasons else ""
    if reasons:
        return [_entry(reason, spent, nearly, deadline) for reason in reasons]
    ended = _state_entry(subject, spent)
    sentence = _describe_decision(ctx, kind, id, subject) or ended["sentence"]
    sentence += _early_ending(ctx, kind, subject)
    sentence += _refusal_note(refused) + (f"; {warning}" if warning else "")
    return [{**ended, "sentence": sentence, "warning": warning}]


def _add_warm_machines(ctx: Context, tx: Tx, reason: dict[str, Any]) -> dict[str, Any]:
    """Add how many machines the pool of a queued job keeps warm, if the pool chooses their number."""
    pool = ctx.config.pool(reason["pool"])
    if reason["state"] != "QUEUED" or pool is None or pool.limits.warm_policy is None:
        return reason
    warm = warm_pools.shown(tx, pool.pool_name, ctx.now())
    return reason if warm is None else reason | {"warm": warm.sentence}


def _unreported_metric(tx: Tx, subject: Subject) -> str:
    """Return a warning if an experiment has completed without its searcher's metric."""
    if subject.state != "COMPLETED" or subject.experiment_id is None:
        return ""
    stored = metric_names.read(tx, subject.experiment_id)
    if stored is None or not stored.searcher_metric:
        return ""
    reported = stored.names.get("validation", {})
    if stored.searcher_metric in reported:
        return ""
    return not_reported(stored.searcher_metric, reported)


def _refusal_note(reports: int) -> str:
    if not reports:
        return ""
    noun = "report has" if reports == 1 else "reports have"
    return f"; {reports:,} {noun} metrics that were not stored, because of too many names: see the trial's log"


def _of_metrics(tx: Tx, reason: dict[str, Any]) -> dict[str, Any]:
    """Complete the reason of a waiting TensorBoard with the experiments that have no metrics and their states."""
    if reason["code"] != "NO_METRICS":
        return reason
    experiments = [
        f"experiment {id} ({state})" for id, state in waiting.shown_by(tx, reason["allocationId"])
    ]
    more = f" and {len(experiments) - _NAMED} more" if len(experiments) > _NAMED else ""
    suffix = f" for {', '.join(experiments[:_NAMED])}{more}" if experiments else ""
    sentence = (
        f"{reason['sentence']} and has no metrics to show yet{suffix}; waiting for the first ones"
    )
    return reason | {"sentence": sentence}


def _of_pool(ctx: Context, reason: dict[str, Any], experiment_id: int | None) -> dict[str, Any]:
    """Replace the scheduler's reason for a pool that is not configured any more, or is deleted without agents."""
    name = reason.pop("pool")
    pool = ctx.config.pool(name)
    job = None if reason["trialId"] is None else experiment_id
    if reason["state"] != "QUEUED":
        return reason
    if pool is None:
        sentence = without_pool(ctx, name, job)
        return reason | {
            "code": "NO_POOL", "sentence": sentence, "machineReason": None, "noShow": None
        }  # fmt: skip
    if pool.is_leaving and not pool.offers and reason["code"] == "NO_AGENTS":
        need = reason["sentence"].partition("; ")[0]
        cause = f"resource pool {name!r} is being deleted and has no agent with slots"
        keep = f"keep the pool with `det pool delete {name} --cancel`"
        return reason | {"sentence": f"{need}; {cause}; {_way_out(ctx, job)}, or {keep}"}
    return reason


def without_pool(ctx: Context, pool: str, experiment_id: int | None) -> str:
    """Return the reason for a job in a pool that is no longer configured, with the command that moves it."""
    names = ", ".join(p.pool_name for p in ctx.config.resource_pools)
    way = _way_out(ctx, experiment_id)
    return f"needs resource pool {pool!r}, which no longer exists; {way} (available: {names})"


def _way_out(ctx: Context, experiment_id: int | None) -> str:
    """Return how a job gets to another pool. Only experiments can move."""
    if experiment_id is None:
        return "start it again in another pool and kill this one"
    default = ctx.config.default_compute_resource_pool
    return f"move it with `det job update {experiment_id} --resource-pool {default}`"


def _describe_decision(ctx: Context, kind: str, id: str, subject: Subject) -> str:
    """Return the search's decision about a trial that has ended well, or waits at a rung."""
    if kind != "trial" or subject.experiment_id is None:
        return ""
    if subject.state != "COMPLETED" and not (subject.state == "ACTIVE" and subject.parked):
        return ""
    return decisions.sentence_of(ctx, subject.experiment_id, int(id), subject.state)


def _early_ending(ctx: Context, kind: str, subject: Subject) -> str:
    """Return why the search of a completed experiment ended before its last trial."""
    if kind != "experiment" or subject.state != "COMPLETED" or subject.experiment_id is None:
        return ""
    ending = decisions.ending_of(ctx, subject.experiment_id)
    return f"; {ending}" if ending else ""


def _spent_budget(ctx: Context, tx: Tx, experiment_id: int | None) -> str:
    """Return which spent budget pauses an experiment, and the way out; empty where none does."""
    if experiment_id is None or not ctx.config.rents:
        return ""
    budget = budgets.spent_for(tx, experiment_id, ctx.now())
    return spent_sentence(budget) if budget else ""


def _nearly_spent_budget(ctx: Context, tx: Tx, experiment_id: int | None) -> str:
    if experiment_id is None or not ctx.config.rents:
        return ""
    budget = budgets.nearly_spent_for(tx, experiment_id, ctx.now())
    return f"{budget.name} is nearly spent; raise it with `det budget set`" if budget else ""


def _deadline(ctx: Context, tx: Tx, experiment_id: int | None) -> str:
    """Return the last decision about the deadline. Pools that rent no machines compute it from the progress."""
    row = None if experiment_id is None else deadlines.of(tx, experiment_id)
    if row is None:
        return ""
    pool, now = ctx.config.pool(row.pool), ctx.now()
    # The stored sentence of a deadline that has passed since may still say how much time is left.
    if pool is not None and pool.offers and now < row.deadline:
        return row.sentence or "its deadline is looked at in a moment"
    jobs = (job for job in deadlines.jobs(tx, row.pool, now) if job.experiment_id == experiment_id)
    return next((watched(job, now.timestamp()).sentence for job in jobs), "")


def _entry(reason: dict[str, Any], spent: str, nearly: str, deadline: str) -> dict[str, Any]:
    """Join the reasons of the scheduler, the provisioner and budgets."""
    machines, lost_agents = reason.pop("machineReason"), reason.pop("lostAgents")
    if reason["state"] == "QUEUED" and machines:
        reason["sentence"] = joined(reason["sentence"], machines, reason["code"])
    for addition in (deadline, reason.pop("warm", "")):
        if addition and addition not in reason["sentence"]:
            reason["sentence"] += f"; {addition}"
    if reason["code"] in ("PREEMPTED", "KILLED") and spent:
        reason["sentence"] += f", because {spent}"
    if nearly:
        reason["sentence"] += f"; {nearly}"
    if lost_agents:
        reason["sentence"] += _may_go_on(lost_agents)
    return _with_no_show(reason)


def _may_go_on(lost_agents: list[str]) -> str:
    if len(lost_agents) == 1:
        return f"; its run on agent {lost_agents[0]}, which is unreachable, continues if the agent returns first"
    agents = ", ".join(lost_agents)
    return f"; its run on agents {agents}, which are unreachable, continues if all of them return first"


def in_queue(waits: dict[str, Any]) -> str:
    """Return why a waiting allocation does, as a queue shows it."""
    sentence, machines = waits["sentence"], waits["machines"]
    sentence = joined(sentence, machines, waits["code"] or "") if machines else sentence
    return f"trial {waits['trialId']} {sentence}" if waits["trialId"] else str(sentence)


def joined(scheduler: str, machines: str, code: str) -> str:
    """Join reasons so that the need is named once. Where the pool has no agent, only machines matter."""
    need = scheduler.partition("; ")[0]
    rest = _NEED.sub("", machines) if need.startswith("needs ") else machines
    return f"{need}; {rest}" if code == WaitCode.NO_AGENTS.value else f"{scheduler}; {rest}"


def _with_no_show(reason: dict[str, Any]) -> dict[str, Any]:
    """Add where the machine stopped that was rented for a waiting allocation before and never joined."""
    no_show = reason.pop("noShow")
    if no_show is not None:
        step, words = boot.last_step(no_show["console"]), boot.last_words(no_show["console"])
        at = f"; last startup step: {step}" if step else ""
        quote = f"; last output: {words}" if words else ""
        sentence = (
            f"an earlier machine did not join{at}{quote} (`det instance describe {no_show['id']}`)"
        )
        reason["sentence"] += f"; {sentence}"
    return reason


def _state_entry(row: Subject, spent: str) -> dict[str, Any]:
    entry = {
        "allocationId": None, "trialId": None, "state": row.state, "code": row.state,
        "sentence": _sentence_of(row, spent), "since": None,
    }  # fmt: skip
    if not _has_failed(row):
        return entry
    failure = _failure_of(row)
    last_trial_id = row.last_trial_id if row.exit_kind == "failed" else None
    return entry | {
        "sentence": f"has failed: {failure.cause}", "cause": failure.cause, "details": "; ".join(failure.details),
        "failedTrialId": failure.trial_id or last_trial_id,
        "needsNewCode": failure.needs_new_code, "nextStep": failure.next_step(has_files=row.has_files),
    }  # fmt: skip


def _has_failed(row: Subject) -> bool:
    return row.state == "ERROR" or (row.state == "ENDED" and row.exit_kind == "failed")


def _failure_of(row: Subject) -> RunFailure:
    """Return the failure of the search or of the last run, or the error of the experiment if it says more."""
    if failed_search := explain_failed_search(row.error):
        return failed_search
    if not row.exit_reason or row.exit_kind == _CLEAN_END:
        return RunFailure(row.error or "see its logs", (), needs_new_code=False)
    run = explain_failure(row.exit_reason, row.errors.splitlines())
    name = "its last run" if row.last_trial_id is None else f"trial {row.last_trial_id}"
    used = f", after restart {row.restarts} of {row.max_restarts}" if row.restarts else ""
    if row.error in ("", _EVERY_TRIAL):
        begin = f"{name}{used}: {run.details[0]}" if run.details else f"{name}{used} failed"
        details = (begin, *run.details[1:]) if run.details or row.last_trial_id else ()
        return RunFailure(run.cause, details, run.needs_new_code)
    details = (f"{name}{used}: {run.cause}", *run.details)
    return RunFailure(row.error, details, run.needs_new_code)


def _sentence_of(row: Subject, spent: str) -> str:
    if row.state == "PAUSED" and spent:
        return f"is paused because {spent}, then resume with `det experiment activate {row.experiment_id}`"
    if row.state == "ENDED" and row.exit_kind == _CLEAN_END:
        return _SENTENCES["COMPLETED"]
    if row.state == "ENDED" and row.exit_reason:
        return f"{_SENTENCES['ENDED']}; its last run: {row.exit_reason}"
    if row.state == "ACTIVE" and row.parked:
        return "is waiting for the searcher and holds no slots"
    if row.state == "PAUSED" and row.experiment_id is None:
        return "is paused; resume with `det task unpause`"
    sentence = _SENTENCES.get(row.state, "has no queued or running work")
    return sentence.format(experiment_id=row.experiment_id)


def _is_uuid(value: str) -> bool:
    try:
        UUID(value)
    except ValueError:
        return False
    return True
