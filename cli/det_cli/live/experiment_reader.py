"""Read the state of an experiment from a cluster, with few requests when little changes."""

from dataclasses import replace
from typing import Any

from determined.common.http import Session
from determined.common.pages import V1, pages

from det_cli.live.experiment import Experiment, experiment_of, in_view, reasons_of
from det_cli.live.pictures import Points, number
from det_cli.live.reading import Parts

_CURVES = 40  # trials whose curves are asked for
_POINTS = 60
_COST_S = 30.0


class ExperimentReader:
    """Remember curves: only those of trials that trained on are asked for again."""

    def __init__(self, session: Session, experiment_id: int) -> None:
        self._session = session
        self._id = experiment_id
        self._parts = Parts(session)
        self._curves: dict[int, tuple[int, Points]] = {}

    def read(self) -> Experiment:
        answer = self._session.get(f"{V1}/experiments/{self._id}")
        trials = list(pages(self._session, f"/experiments/{self._id}/trials", "trials", limit=500))
        told = self._parts.get(f"/why/experiment/{self._id}", of="why") or {}
        searched = self._parts.get(f"/experiments/{self._id}/search", of="search") or {}
        found = experiment_of(answer, trials, reasons_of(told.get("reasons") or ()), searched)
        return self._with_cost(self._with_curves(found))

    def pause_at_least_s(self, experiment: Experiment) -> float:
        """Ask less often for what is large."""
        return len(experiment.trials) / 100

    def _with_curves(self, experiment: Experiment) -> Experiment:
        shown = in_view(experiment.trials, experiment.search)[:_CURVES]
        metric = experiment.search.metric
        known = self._curves
        wanted = [t.id for t in shown if t.batches and known.get(t.id, (0, ()))[0] != t.batches]
        if wanted and metric:
            self._fetch(wanted, metric, {t.id: t.batches for t in shown})
        trials = [
            replace(t, curve=known[t.id][1]) if t.id in known else t for t in experiment.trials
        ]
        return replace(experiment, trials=tuple(trials))

    def _fetch(self, trial_ids: list[int], metric: str, batches: dict[int, int]) -> None:
        params = {
            "trialIds": trial_ids, "metricNames": [metric], "group": "validation", "maxDatapoints": _POINTS,
        }  # fmt: skip
        answer = self._parts.get("/trials/time-series", params, of="curves") or {}
        for found in answer.get("trials") or ():
            trial_id = int(found["trial"]["id"])
            self._curves[trial_id] = batches.get(trial_id, 0), _points(found, metric)

    def _with_cost(self, experiment: Experiment) -> Experiment:
        answer = self._parts.seldom(_COST_S, "/costs/experiments", {"ids": [self._id]})
        for cost in answer.get("costs") or ():
            return replace(experiment, cost_usd=cost["costUsd"], slot_hours=cost["slotHours"])
        return experiment


def _points(found: dict[str, Any], metric: str) -> Points:
    """Return the points of a curve, without those that have no number."""
    rows = [row for part in found.get("metrics") or () for row in part.get("data") or ()]
    read = [(row["batches"], number((row.get("values") or {}).get(metric))) for row in rows]
    return tuple((float(at), value) for at, value in read if value is not None)
