"""The contract kit catches methods that break it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import pytest
from det_controlplane.core.search import Action, Create, Stop, registry
from det_controlplane.core.search.random_search import RandomSearch
from det_controlplane.core.search.sampling import Sampler
from det_controlplane.testing.searchers import SearcherContract

_SECRET_DRAWS = iter(range(1_000_000))


class TooMany(RandomSearch):
    def exited(self, request_id: str) -> Sequence[Action]:
        return [*super().exited(request_id), *self._create()]


class Endless(RandomSearch):
    def exited(self, request_id: str) -> Sequence[Action]:
        self._created = 0
        return super().exited(request_id)


class Forgetful(RandomSearch):
    def restore(self, state: Mapping[str, Any]) -> None:
        self._created = self._max_trials


class Moody(RandomSearch):
    def exited(self, request_id: str) -> Sequence[Action]:
        if next(_SECRET_DRAWS) % 3 == 0:
            return [*super().exited(request_id), *super().exited(request_id)]
        return super().exited(request_id)


class StopsTheDead(RandomSearch):
    def exited(self, request_id: str) -> Sequence[Action]:
        return [Stop(request_id), *super().exited(request_id)]


class Straying(RandomSearch):
    def started(self) -> Sequence[Action]:
        first, *others = super().started()
        assert isinstance(first, Create)
        return [replace(first, hparams={**first.hparams, "learning_rate": 1.0}), *others]


class OneSided(RandomSearch):
    def validated(self, request_id: str, metrics: Mapping[str, Any]) -> Sequence[Action]:
        return [Stop(request_id)] if metrics["loss"] > 0.5 else []


class Slowing(RandomSearch):
    def exited(self, request_id: str) -> Sequence[Action]:
        for number in range(self._created):
            str(number)
        return super().exited(request_id)


class BrokenContract(SearcherContract):
    searcher: ClassVar[Mapping[str, Any]] = {"name": "broken", "metric": "loss", "max_trials": 12}
    max_trials = 12
    reads_metrics = False


CATCHES: list[tuple[type[RandomSearch], Callable[[SearcherContract], None]]] = [
    (TooMany, SearcherContract.test_it_ends_whatever_goes_wrong_and_never_exceeds_max_trials),
    (Endless, SearcherContract.test_it_shuts_down_well_when_all_trials_end_well),
    (Forgetful, SearcherContract.test_a_snapshot_taken_anywhere_continues_as_the_original),
    (Moody, SearcherContract.test_replaying_stored_events_gives_the_same_actions),
    (StopsTheDead, SearcherContract.test_it_shuts_down_well_when_all_trials_end_well),
    (Straying, SearcherContract.test_every_trial_has_values_of_the_space),
    (OneSided, SearcherContract.test_larger_metrics_may_be_better),
    (Slowing, SearcherContract.test_the_cost_of_an_event_does_not_grow_with_the_trials),
]


@pytest.mark.parametrize(("method", "rule"), CATCHES)
def test_contract_kit_detects_a_broken_method(
    method: type[RandomSearch],
    rule: Callable[[SearcherContract], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def build(searcher: Mapping[str, Any], sampler: Sampler) -> RandomSearch:
        return method(sampler, int(searcher["max_trials"]), 4)

    monkeypatch.setitem(registry._METHODS, "broken", build)
    with pytest.raises(AssertionError):
        rule(BrokenContract())
