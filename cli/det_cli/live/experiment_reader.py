"""Read the state of an experiment from a cluster, with few requests if little has changed."""

from dataclasses import replace
from typing import Any

from determined.common.http import Session
from determined.common.pages import V1, pages

from det_cli.live.charts import Points, number
from det_cli.live.experiment import Experiment, experiment_of, in_view, reasons_of
from det_cli.live.reading import Parts

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


def _points(trial: dict[str, Any], metric: str) -> Points:
    """Return the points of a curve without missing values."""
    rows = [row for part in trial.get("metrics") or () for row in part.get("data") or ()]
    pairs = [(row["batches"], number((row.get("values") or {}).get(metric))) for row in rows]
    return tuple((float(at), value) for at, value in pairs if value is not None)
