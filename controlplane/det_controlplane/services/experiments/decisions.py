"""Explain the decisions of a search at its rungs by folding its events again."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from det_controlplane.core import search
from det_controlplane.core.hparams import Space
from det_controlplane.core.search import Ending, History, Judgement, JudgementWording, Outcome
from det_controlplane.db.experiments import searches
from det_controlplane.db.experiments.searches import SearchedTrial, StoredSearch
from det_controlplane.services.context import Context
from det_controlplane.services.errors import Missing
from det_controlplane.services.memory import WatchedSearch
from det_controlplane.services.money import costs
from det_controlplane.services.search.journal import parse_space

# Methods that compare trials at rungs.
_HALVING = ("async_halving", "adaptive_asha", "local_asha", "model_asha")
_NAMES = {
    "async_halving": "ASHA",
    "adaptive_asha": "adaptive ASHA",
    "local_asha": "local ASHA",
    "model_asha": "model ASHA",
}


def of(ctx: Context, experiment_id: int, *, whole: bool = False) -> dict[str, Any]:
    """Return the search of an experiment: brackets with rungs, and its trials, with hyperparameters on request."""
    with ctx.db.autocommit() as tx:
        row = searches.searching(tx, experiment_id)
        if row is None:
            raise Missing(f"experiment {experiment_id} not found")
        unit = search.unit_of(row.searcher)
        trials = searches.trials_of(tx, experiment_id, unit, whole=whole)
    watched = _watched(ctx, experiment_id, row)
    histories = watched.histories if watched else ()
    current = _current(ctx, experiment_id, row, watched)
    view = _SearchView(row, histories, current.ending if current else None)
    return {
        "method": row.searcher["name"], "metric": row.searcher.get("metric") or "", "unit": unit,
        "smallerIsBetter": row.searcher.get("smaller_is_better", True),
        "divisor": row.searcher.get("divisor") if histories else None,
        "brackets": [_bracket(h, t) for h, t in zip(histories, _wordings(row, histories), strict=True)],
        "ending": view.ending_json(), "expectedGain": _expected_gain(ctx, experiment_id, row, current, trials),
        "trials": [view.trial(t) for t in trials],
    }  # fmt: skip


def sentence_of(ctx: Context, experiment_id: int, trial_id: int, state: str) -> str:
    """Return why a trial stopped or waits, or '' if no rung decided about it."""
    with ctx.db.autocommit() as tx:
        row = searches.searching(tx, experiment_id)
        if row is None or row.searcher["name"] not in _HALVING:
            return ""
        request_id = searches.request_of(tx, trial_id)
    watched = _watched(ctx, experiment_id, row)
    current = _current(ctx, experiment_id, row, watched)
    view = _SearchView(row, watched.histories, current.ending) if watched and current else None
    return view.sentence(request_id, state) if view else ""


def ending_of(ctx: Context, experiment_id: int) -> str:
    """Return why the search of an experiment ended before its last trial, or ''."""
    with ctx.db.autocommit() as tx:
        row = searches.searching(tx, experiment_id)
    if row is None or not row.searcher.get("stop_when"):
        return ""
    watched = _watched(ctx, experiment_id, row)
    current = _current(ctx, experiment_id, row, watched)
    ending = current.ending if current else None
    return ending.sentence(str(row.searcher["metric"])) if ending else ""


def _expected_gain(
    ctx: Context,
    experiment_id: int,
    row: StoredSearch,
    current: search.Search | None,
    trials: Sequence[SearchedTrial],
) -> dict[str, Any] | None:
    """Return the expected gain of another full training, also for each dollar if the trainings cost money."""
    gain = current.method.expected_gain() if current else None
    if gain is None:
        return None
    (cost,) = costs.of_experiments(ctx, [experiment_id])
    trained = sum(trial.trained for trial in trials)
    usd = cost["costUsd"] / trained * search.report_lengths(row.searcher)[-1] if trained else 0
    return {
        "value": gain,
        "limit": (row.searcher.get("stop_when") or {}).get("expected_gain_below"),
        "usdOfTraining": round(usd, 6) if usd else None,
        "perUsd": gain / usd if usd else None,
    }


@dataclass(frozen=True, slots=True)
class _SearchView:
    found: StoredSearch
    histories: Sequence[History]
    ending: Ending | None

    def ending_json(self) -> dict[str, Any] | None:
        if self.ending is None:
            return None
        sentence = self.ending.sentence(str(self.found.searcher["metric"]))
        return {"reason": self.ending.reason.value, "sentence": sentence}

    def trial(self, trial: SearchedTrial) -> dict[str, Any]:
        bracket, judgements = self._of(trial.request_id)
        last = judgements[-1] if judgements else None
        return {
            "id": trial.id, "state": f"STATE_{trial.state}", "stoppedEarly": trial.stopped_early,
            "waitsForSearch": trial.waits, "trained": trial.trained, "value": trial.value, "rungValue": self._rung_value(bracket, last),
            "bracket": bracket, "rung": len(judgements), "outcome": last.outcome.value if last else None,
            "sentence": self.sentence(trial.request_id, trial.state), **trial.given,
        }  # fmt: skip

    def _rung_value(self, bracket: int | None, last: Judgement | None) -> float | None:
        """Return the metric that the last decision compared, or None if no rung has decided."""
        if bracket is None or last is None:
            return None
        return _wordings(self.found, self.histories)[bracket].value(last.loss)

    def sentence(self, request_id: str, state: str) -> str:
        """Return the last decision about a trial, unless the trial ended for another reason."""
        bracket, judgements = self._of(request_id)
        if bracket is None or not judgements:
            return ""
        last = judgements[-1]
        final_outcomes = (Outcome.STOPPED, Outcome.PASSED_OVER, Outcome.FINISHED)
        if state in ("ERROR", "CANCELED"):
            return ""
        if state == "COMPLETED" and last.outcome not in final_outcomes:
            metric = str(self.found.searcher["metric"])
            return f"was stopped, because {self.ending.sentence(metric)}" if self.ending else ""
        return _wordings(self.found, self.histories)[bracket].sentence(last)

    def _of(self, request_id: str) -> tuple[int | None, Sequence[Judgement]]:
        for bracket, history in enumerate(self.histories):
            if request_id in history.trials:
                return bracket, history.trials[request_id]
        return None, ()


def _bracket(history: History, wording: JudgementWording) -> dict[str, Any]:
    rungs = [
        {
            "length": rung.length, "arrived": rung.arrived, "wentOn": rung.went_on, "stopped": rung.stopped,
            "cutOff": wording.value(rung.worst_on),
        }
        for rung in history.rungs
    ]  # fmt: skip
    return {"trials": len(history.trials), "rungs": rungs}


def _wordings(row: StoredSearch, histories: Sequence[History]) -> list[JudgementWording]:
    searcher = row.searcher
    return [
        JudgementWording(
            method=_NAMES[searcher["name"]],
            metric=str(searcher["metric"]),
            smaller_is_better=searcher.get("smaller_is_better", True) is not False,
            unit=search.unit_of(searcher),
            lengths=[rung.length for rung in history.rungs],
        )
        for history in histories
    ]


def _watched(ctx: Context, experiment_id: int, row: StoredSearch) -> WatchedSearch | None:
    """Fold the events since the last request in this process, if the search has anything to show."""
    if row.searcher["name"] not in _HALVING and not row.searcher.get("stop_when"):
        return None
    cache = ctx.memory.watched.pop(experiment_id)
    if cache is None or cache.seq > row.seq:
        space: Space = parse_space({"hyperparameters": row.hyperparameters})
        folded = search.new(row.searcher, space, row.seed)
        cache = WatchedSearch(0, folded, folded.method.watched())
    with ctx.db.autocommit() as tx:
        events = searches.events(tx, experiment_id, cache.seq, row.seq)
    for event in events:
        cache.search.fold(search.event_from_json(event))
    cache.seq = row.seq
    ctx.memory.watched.store(experiment_id, cache)
    return cache


def _current(
    ctx: Context, experiment_id: int, row: StoredSearch, watched: WatchedSearch | None
) -> search.Search | None:
    """Return the search that decides. It differs from a replay if another version of its model has decided earlier."""
    if watched is None or not watched.search.method.has_model:
        return watched.search if watched else None
    with ctx.db.autocommit() as tx:
        saved, seq = searches.snapshot(tx, experiment_id)
        events = searches.events(tx, experiment_id, seq, row.seq)
    if saved is None:
        return watched.search
    space: Space = parse_space({"hyperparameters": row.hyperparameters})
    restored = search.restore(row.searcher, space, row.seed, saved)
    for event in events:
        restored.fold(search.event_from_json(event))
    return restored
