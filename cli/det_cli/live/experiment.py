"""The state of an experiment for its screen and summary, built from API responses."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from determined.common.log_stream import TERMINAL

from det_cli.live.charts import Points, moment, number
from det_cli.render import STOPPED_EARLY, WAITING, state_text

_ENDED = frozenset(state_text(s) for s in TERMINAL)
_BATCHES = "batches"
NOTHING: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Trial:
    id: int
    state: str
    batches: int
    latest: "float | None"
    best: "float | None"
    best_at: int
    restarts: int
    hparams: Mapping[str, Any]
    checkpoint: str = ""
    reason: str = ""
    curve: Points = ()
    stopped_early: bool = False
    waits_for_search: bool = False

    @property
    def shown_state(self) -> str:
        if self.stopped_early:
            return STOPPED_EARLY
        return WAITING if self.waits_for_search else self.state

    @property
    def ended(self) -> bool:
        return self.state in _ENDED


@dataclass(frozen=True, slots=True)
class Reason:
    """Explains why an experiment or trial waits, runs or failed. The sentence of a failure is its cause."""

    state: str
    sentence: str
    trial_id: "int | None" = None
    details: str = ""
    failed_trial_id: "int | None" = None
    next_step: str = ""


@dataclass(frozen=True, slots=True)
class Rung:
    """A training length at which trials are compared, and the number of trials of all brackets that reached it."""

    length: float
    arrived: int


@dataclass(frozen=True, slots=True)
class Search:
    name: str
    metric: str
    smaller_is_better: bool
    time_metric: str
    rungs: tuple[Rung, ...] = ()
    max_trials: "int | None" = None
    searched: frozenset[str] = frozenset()  # hyperparameters that differ between trials
    gain: "Mapping[str, Any] | None" = None  # the expected gain, as the API shows it
    ending: str = ""  # why the search ended before its last trial


@dataclass(frozen=True, slots=True)
class Experiment:
    id: int
    name: str
    description: str
    state: str
    owner: str
    place: str
    pool: str
    labels: tuple[str, ...]
    progress: "float | None"
    started: "float | None"
    ended_at: "float | None"
    search: Search
    trials: tuple[Trial, ...]
    reasons: tuple[Reason, ...] = ()
    jobs_ahead: "int | None" = None
    deadline: "Mapping[str, Any] | None" = None  # as the API shows it
    cost_usd: float = field(default=0.0, compare=False)
    slot_hours: float = field(default=0.0, compare=False)

    @property
    def ended(self) -> bool:
        return self.state in _ENDED

    @property
    def best(self) -> "Trial | None":
        return next((t for t in best_first(self.trials, self.search) if t.best is not None), None)


def best_first(trials: Sequence[Trial], search: Search) -> list[Trial]:
    sign = 1 if search.smaller_is_better else -1

    def order(trial: Trial) -> tuple[float, int]:
        best = math.inf if trial.best is None else sign * trial.best
        return (math.inf if math.isnan(best) else best), trial.id

    return sorted(trials, key=order)


def in_view(trials: Sequence[Trial], search: Search) -> list[Trial]:
    """Return trials in screen order: active trials first, then ended trials, each with the best first."""
    ordered = best_first(trials, search)
    return [t for t in ordered if not t.ended] + [t for t in ordered if t.ended]


def experiment_of(
    response: Mapping[str, Any],
    trials: Sequence[Mapping[str, Any]],
    reasons: Sequence[Reason] = (),
    searched: Mapping[str, Any] = NOTHING,
) -> Experiment:
    """Return an experiment. `searched` is the response of the search route, if the cluster has it."""
    experiment = response["experiment"]
    search = _search_of(experiment.get("config") or response.get("config") or {}, searched)
    trial_reasons = {int(t["id"]): str(t["sentence"]) for t in searched.get("trials") or ()}
    trial_reasons |= {r.trial_id: r.sentence for r in reasons if r.trial_id is not None}
    place = " / ".join(
        filter(None, (experiment.get("workspaceName"), experiment.get("projectName")))
    )
    return Experiment(
        id=int(experiment["id"]),
        name=str(experiment.get("name") or ""),
        description=str(experiment.get("description") or ""),
        state=_short_state(experiment["state"]),
        owner=str(experiment.get("username") or ""),
        place=place,
        pool=str(experiment.get("resourcePool") or ""),
        labels=tuple(sorted(map(str, experiment.get("labels") or ()))),
        progress=number(experiment.get("progress")),
        started=moment(experiment.get("startTime")),
        ended_at=moment(experiment.get("endTime")),
        search=search,
        trials=tuple(_trial_of(t, search, trial_reasons.get(int(t["id"]), "")) for t in trials),
        reasons=tuple(reasons),
        jobs_ahead=(response.get("jobSummary") or {}).get("jobsAhead"),
        deadline=experiment.get("deadline"),
    )


def reasons_of(rows: Sequence[Mapping[str, Any]]) -> tuple[Reason, ...]:
    def one(reason: Mapping[str, Any]) -> Reason:
        trial = reason.get("trialId")
        return Reason(
            state=state_text(reason.get("state")),
            sentence=str(reason.get("cause") or reason.get("sentence") or ""),
            trial_id=None if trial is None else int(trial),
            details=str(reason.get("details") or ""),
            failed_trial_id=reason.get("failedTrialId"),
            next_step=str(reason.get("nextStep") or ""),
        )

    return tuple(one(reason) for reason in rows)


def _trial_of(trial: Mapping[str, Any], search: Search, reason: str) -> Trial:
    best = trial.get("bestValidation") or {}
    batches = int(trial.get("totalBatchesProcessed") or 0)
    value = _metric(best, search)
    return Trial(
        id=int(trial["id"]),
        state=_short_state(trial["state"]),
        stopped_early=bool(trial.get("stoppedEarly")),
        waits_for_search=bool(trial.get("waitsForSearch")),
        batches=batches,
        latest=_metric(trial.get("latestValidation") or {}, search),
        best=number(trial.get("searcherMetricValue")) if value is None else value,
        best_at=int(best.get("totalBatches") or 0),
        restarts=int(trial.get("restarts") or 0),
        hparams=trial.get("hparams") or {},
        checkpoint=str((trial.get("bestCheckpoint") or {}).get("uuid") or ""),
        reason=reason,
    )


def _short_state(state: str) -> str:
    """Return a state in one word: STOPPING for every STOPPING_… state."""
    text = state_text(state)
    return "STOPPING" if text.startswith("STOPPING") else text


def _metric(validation: Mapping[str, Any], search: Search) -> "float | None":
    metrics = (validation.get("metrics") or {}).get("avgMetrics") or {}
    return number(metrics.get(search.metric)) if isinstance(metrics, dict) else None


def _search_of(config: Mapping[str, Any], searched: Mapping[str, Any]) -> Search:
    searcher = config.get("searcher") or {}
    hparams = config.get("hyperparameters") or {}
    return Search(
        name=str(searcher.get("name") or ""),
        metric=str(searcher.get("metric") or ""),
        smaller_is_better=bool(searcher.get("smaller_is_better", True)),
        time_metric=str(searched.get("unit") or searcher.get("time_metric") or _BATCHES),
        rungs=tuple(_rungs(searched)),
        max_trials=searcher.get("max_trials"),
        searched=frozenset(_find_searched_hparams(hparams)),
        gain=searched.get("expectedGain"),
        ending=str((searched.get("ending") or {}).get("sentence") or ""),
    )


def _find_searched_hparams(hparams: Any, prefix: str = "") -> Iterator[str]:
    for name, value in hparams.items() if isinstance(hparams, dict) else ():
        kind = value.get("type") if isinstance(value, dict) else "const"
        if isinstance(value, dict) and not isinstance(kind, str):
            yield from _find_searched_hparams(value, f"{prefix}{name}.")
        elif kind != "const":
            yield f"{prefix}{name}"


def _rungs(searched: Mapping[str, Any]) -> list[Rung]:
    """Return the rungs of all brackets, merged by length, because brackets share their lengths."""
    arrivals: dict[float, int] = {}
    for bracket in searched.get("brackets") or ():
        for rung in bracket["rungs"]:
            arrivals[rung["length"]] = arrivals.get(rung["length"], 0) + int(rung["arrived"])
    return [Rung(float(length), arrivals[length]) for length in sorted(arrivals)]
