"""Rebuild the search of a running experiment from the validations of its trials.

The search is started again with the configuration and the seed, and folds the validations in their order. It must
create the trials that exist. Then it continues where the experiment was paused."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from det_controlplane.core import hparams, search
from det_controlplane.core.lifecycle.trial import TrialState
from det_controlplane.core.search import (
    Create,
    Event,
    Exited,
    ExitReason,
    Park,
    Rest,
    Stop,
    TrainTo,
    Validated,
)

# Searches that choose the hyperparameters of later trials independently of earlier trials.
_INDEPENDENT = frozenset({"single", "random", "adaptive_asha", "async_halving"})


@dataclass(frozen=True, slots=True)
class OldTrial:
    id: int
    state: TrialState  # PAUSED: it has not ended
    hparams: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class OldValidation:
    trial_id: int
    metrics: Mapping[str, Any]


@dataclass(slots=True)
class Replay:
    """The rebuilt search. With a problem, the other fields are without meaning."""

    problem: str = ""
    events: list[dict[str, Any]] = field(default_factory=list)
    request_ids: dict[int, str] = field(default_factory=dict)  # by trial
    stopped: set[int] = field(default_factory=set)  # trials that the search stopped
    train_to: dict[int, float] = field(default_factory=dict)  # lengths, by trial
    created: list[Create] = field(default_factory=list)  # trials that do not exist yet


class _Mismatch(Exception):
    """The rebuilt search differs from the search of the experiment."""


def rebuild(
    config: Mapping[str, Any],
    seed: int,
    trials: Sequence[OldTrial],
    validations: Iterable[OldValidation],
) -> Replay:
    """Rebuild a search. `trials` are in the order of their ids, `validations` in the order of their reports."""
    try:
        return _Rebuilder(config, seed, trials).run(validations)
    except _Mismatch as e:
        return Replay(problem=str(e))


class _Rebuilder:
    def __init__(self, config: Mapping[str, Any], seed: int, trials: Sequence[OldTrial]) -> None:
        searcher = config.get("searcher") or {}
        self._name = str(searcher.get("name"))
        self._trials = list(trials)
        self._search = _new_search(searcher, config, seed)
        self._replay = Replay()
        self._by_request: dict[str, OldTrial] = {}

    def run(self, validations: Iterable[OldValidation]) -> Replay:
        self._fold(search.Started())
        last_validation = {}
        reports = list(validations)
        for position, report in enumerate(reports):
            last_validation[report.trial_id] = position
        silent = [t for t in self._trials if t.id not in last_validation]
        by_id = {trial.id: trial for trial in self._trials}
        for position, report in enumerate(reports):
            if report.trial_id not in by_id:
                continue
            request_id = self._request_id(report.trial_id)
            self._fold(Validated(request_id, self._read_metrics(report.metrics)))
            if last_validation[report.trial_id] == position:
                self._end(by_id[report.trial_id])
        for trial in silent:
            self._end(trial)
        if len(self._replay.request_ids) < len(self._trials):
            raise _Mismatch(
                f"its search would have created {len(self._replay.request_ids)} trials, and it has {len(self._trials)}"
            )
        return self._replay

    def _read_metrics(self, metrics: Mapping[str, Any]) -> dict[str, Any]:
        names = self._search.metric_names
        return {name: metrics[name] for name in names if name in metrics}

    def _request_id(self, trial_id: int) -> str:
        request_id = self._replay.request_ids.get(trial_id)
        if request_id is None:
            raise _Mismatch(f"its search would not have created trial {trial_id} when it reported")
        return request_id

    def _end(self, trial: OldTrial) -> None:
        """Fold the end of a trial that has ended, or that the search has stopped by now."""
        is_stopped = trial.id in self._replay.stopped
        if not trial.state.terminal and not is_stopped:
            return
        request_id = self._request_id(trial.id)
        if trial.state is TrialState.ERROR:
            self._fold(search.ExitedEarly(request_id, ExitReason.ERRORED))
        elif trial.state is TrialState.CANCELED:
            self._fold(search.ExitedEarly(request_id, ExitReason.USER_CANCELED))
        self._fold(Exited(request_id))

    def _fold(self, event: Event) -> None:
        self._replay.events.append(event.to_json())
        for action in self._search.fold(event):
            if isinstance(action, Create):
                self._create(action)
            elif isinstance(action, Stop):
                self._stop(action)
            elif isinstance(action, TrainTo):
                self._train_to(action)
            elif isinstance(action, Park | Rest):
                raise _Mismatch(f"searcher {self._name} trains in rounds, which cannot be rebuilt")
            elif isinstance(action, search.Fail):
                raise _Mismatch(action.reason)

    def _create(self, action: Create) -> None:
        number = len(self._replay.request_ids)
        if number >= len(self._trials):
            self._replay.created.append(action)
            return
        trial = self._trials[number]
        if self._name not in _INDEPENDENT and dict(action.hparams) != dict(trial.hparams):
            raise _Mismatch(f"{self._name} would choose other hyperparameters here")
        self._replay.request_ids[trial.id] = action.request_id
        self._by_request[action.request_id] = trial

    def _train_to(self, action: TrainTo) -> None:
        trial = self._by_request.get(action.request_id)
        if trial is not None:
            self._replay.train_to[trial.id] = action.length

    def _stop(self, action: Stop) -> None:
        trial = self._by_request.get(action.request_id)
        if trial is not None:
            self._replay.stopped.add(trial.id)


def _new_search(searcher: Mapping[str, Any], config: Mapping[str, Any], seed: int) -> search.Search:
    space, problems = hparams.parse(config.get("hyperparameters") or {})
    if problems:
        raise _Mismatch(f"its hyperparameters are not supported: {problems[0]}")
    try:
        built = search.new(searcher, space, seed)
    except KeyError as e:
        raise _Mismatch(f"its searcher {searcher.get('name')} lacks {e.args[0]}") from e
    except (search.SearchFailed, TypeError, ValueError) as e:
        raise _Mismatch(f"its searcher is not supported: {e}") from e
    return built
