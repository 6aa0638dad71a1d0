"""The contract of a search method: inherit `SearcherContract`, name a searcher, and its tests run.

    class TestMyMethod(SearcherContract):
        searcher = {"name": "my_method", "metric": "loss", ...}
        max_trials = 12

No test framework is needed: every rule is a method that asserts.
"""

import json
import math
import random
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from det_controlplane.core.hparams import (
    Categorical,
    Const,
    Double,
    HParam,
    Int,
    Log,
    Nested,
    Space,
)
from det_controlplane.core.search import (
    Action,
    Create,
    Event,
    Exited,
    ExitedEarly,
    ExitReason,
    Fail,
    OperationCompleted,
    Park,
    Search,
    Shutdown,
    Started,
    Stop,
    TrainTo,
    Validated,
    event_from_json,
    new,
    report_lengths,
    restore,
    unit_of,
)

CONTRACT_SPACE: Space = {
    "activation": Categorical(("relu", "gelu")),
    "learning_rate": Log(-4.0, -1.0, 10.0, count=3),
    "net": Nested({"dropout": Double(0.0, 0.5, count=2), "width": Int(8, 64, count=2)}),
}

Loss = Callable[[random.Random, Mapping[str, Any]], Any]


@dataclass(slots=True)
class DrivenTrial:
    create: Create
    length: int = 0
    target: int | None = None
    parked: bool = False
    stopped: bool = False
    left: bool = False  # user code ended it early
    invalid: bool = False


@dataclass(frozen=True, slots=True)
class Faults:
    """The steps in a hundred at which a trial ends early, by reason."""

    reasons: tuple[ExitReason, ...] = ()
    percent: int = 0
    repeats: int = 0  # percent of events that are delivered twice


NO_FAULTS = Faults()
EVERY_FAULT = Faults(tuple(ExitReason), 8, 10)


def random_loss(rng: random.Random, hparams: Mapping[str, Any]) -> float:
    return rng.random()


@dataclass
class Driver:
    """Plays the trials of a search in a seeded, arbitrary order and checks every action."""

    search: Search
    searcher: Mapping[str, Any]
    seed: int
    max_trials: int
    faults: Faults = NO_FAULTS
    loss: Loss = random_loss
    max_events: int = 200_000
    reports: int = 2  # at least so many on the way to the end
    live: dict[str, DrivenTrial] = field(default_factory=dict)
    known: set[str] = field(default_factory=set)
    events: list[Event] = field(default_factory=list)
    actions: list[tuple[Action, ...]] = field(default_factory=list)
    invalid: int = 0
    most_at_once: int = 0

    def __post_init__(self) -> None:
        self.rng = random.Random(self.seed)
        self._full = report_lengths(self.searcher)[-1]
        self._ids: list[str] = list(self.live)

    def run(self) -> "Driver":
        self.fold(Started())
        return self.finish()

    def finish(self) -> "Driver":
        """Play the live trials until the search ends."""
        while not self.search.over:
            assert len(self.events) < self.max_events, "the search does not come to an end"
            assert self.live, "no trial is left, and the search does not shut down"
            self._step()
        return self

    def fold(self, event: Event) -> tuple[Action, ...]:
        self.events.append(event)
        actions = self.search.fold(event)
        self.actions.append(actions)
        for action in actions:
            self._check(action)
        return actions

    @property
    def outcome(self) -> Action:
        return self.actions[-1][-1]

    def _step(self) -> None:
        request_id = self._pick()
        trial = self.live[request_id]
        if trial.stopped or trial.left:
            self._close(request_id)
        elif self.rng.randrange(100) < self.faults.percent:
            self._leave(request_id, self.rng.choice(self.faults.reasons))
        elif trial.length >= (trial.target or self._full):
            self._close(request_id)
        else:
            self._report(request_id, trial)

    def _pick(self) -> str:
        """Pick a trial that can do something: a parked one only if all are parked."""
        while True:
            index = self.rng.randrange(len(self._ids))
            request_id = self._ids[index]
            trial = self.live.get(request_id)
            if trial is not None and (not trial.parked or trial.stopped):
                return request_id
            self._ids[index] = self._ids[-1]
            self._ids.pop()
            assert self._ids, "every trial is parked, and none is promoted or stopped"

    def _report(self, request_id: str, trial: DrivenTrial) -> None:
        end = trial.target or self._full
        trial.length = min(trial.length + self.rng.randint(1, max(end // self.reports, 1)), end)
        loss = self.loss(self.rng, trial.create.hparams)
        if trial.target is not None and trial.length == end and self.rng.random() < 0.5:
            self._deliver(OperationCompleted(request_id, trial.length, loss))
        else:
            metrics = {self.searcher["metric"]: loss, unit_of(self.searcher): trial.length}
            self._deliver(Validated(request_id, metrics))

    def _leave(self, request_id: str, reason: ExitReason) -> None:
        trial = self.live[request_id]
        trial.left = True
        if reason in (ExitReason.INVALID_HP, ExitReason.INIT_INVALID_HP):
            trial.invalid = True
            self.invalid += 1
        self._deliver(ExitedEarly(request_id, reason))

    def _close(self, request_id: str) -> None:
        del self.live[request_id]
        self._deliver(Exited(request_id))

    def _deliver(self, event: Event) -> None:
        self.fold(event)
        if not self.search.over and self.rng.randrange(100) < self.faults.repeats:
            assert self.fold(event) == (), f"a repeated event was acted upon: {event}"

    def _check(self, action: Action) -> None:
        if isinstance(action, Create):
            self._created(action)
        elif isinstance(action, (TrainTo, Park, Stop)):
            self._directed(action)

    def _created(self, create: Create) -> None:
        assert create.request_id not in self.known, f"created twice: {create.request_id}"
        assert create.warm_start_from is None or create.warm_start_from in self.known
        self.known.add(create.request_id)
        self._ids.append(create.request_id)
        self.live[create.request_id] = DrivenTrial(create)
        self.most_at_once = max(self.most_at_once, len(self.live))
        assert len(self.known) - self.invalid <= self.max_trials, "more trials than max_trials"

    def _directed(self, action: TrainTo | Park | Stop) -> None:
        trial = self.live.get(action.request_id)
        assert trial is not None, f"{action} for a trial that is closed"
        assert not trial.stopped, f"{action} for a trial that was stopped"
        if isinstance(action, TrainTo):
            assert action.length > trial.length, f"{action} has been trained already"
            trial.target, trial.parked = action.length, False
        elif isinstance(action, Park):
            assert not trial.parked, f"{action} for a trial that is parked"
            trial.parked = True
        else:
            trial.stopped = True
        self._ids.append(action.request_id)


class SearcherContract:
    """State the promises of every search method. Set `searcher` and `max_trials`; the rest has defaults."""

    searcher: ClassVar[Mapping[str, Any]]
    max_trials: ClassVar[int]
    space: ClassVar[Space] = CONTRACT_SPACE
    seeds: ClassVar[Sequence[int]] = range(12)
    reads_metrics: ClassVar[bool] = True

    def scaled(self, trials: int) -> Mapping[str, Any] | None:
        """Return the searcher for so many trials, if `max_trials` bounds it: the cost must not grow with it."""
        return {**self.searcher, "max_trials": trials} if "max_trials" in self.searcher else None

    def drive(self, seed: int, faults: Faults = NO_FAULTS, loss: Loss = random_loss) -> Driver:
        search = new(self.searcher, self.space, seed)
        return Driver(search, self.searcher, seed, self.max_trials, faults, loss).run()

    def test_it_shuts_down_well_when_all_trials_end_well(self) -> None:
        for seed in self.seeds:
            assert self.drive(seed).outcome == Shutdown()

    def test_every_trial_has_values_of_the_space(self) -> None:
        for seed in self.seeds:
            for actions in self.drive(seed, EVERY_FAULT).actions:
                for create in (action for action in actions if isinstance(action, Create)):
                    assert _is_in(Nested(self.space), create.hparams), create.hparams

    def test_larger_metrics_may_be_better(self) -> None:
        smaller = self.searcher.get("smaller_is_better", True)
        flipped = {**self.searcher, "smaller_is_better": not smaller}
        search = new(flipped, self.space, 2)
        mirror = Driver(search, flipped, 2, self.max_trials, EVERY_FAULT, _negative_loss).run()
        assert mirror.actions == self.drive(2, EVERY_FAULT).actions

    def test_it_ends_whatever_goes_wrong_and_never_exceeds_max_trials(self) -> None:
        for seed in self.seeds:
            assert isinstance(self.drive(seed, EVERY_FAULT).outcome, Shutdown)

    def test_equal_seeds_make_equal_searches_and_others_do_not(self) -> None:
        first, again, other = self.drive(1), self.drive(1), self.drive(2)
        assert first.actions == again.actions
        assert first.known.isdisjoint(other.known)

    def test_replaying_stored_events_gives_the_same_actions(self) -> None:
        for seed in self.seeds:
            live = self.drive(seed, EVERY_FAULT)
            replayed = new(self.searcher, self.space, seed)
            stored = [json.loads(_dumps(event.to_json())) for event in live.events]
            assert [replayed.fold(event_from_json(event)) for event in stored] == live.actions

    def test_a_snapshot_taken_anywhere_continues_as_the_original(self) -> None:
        for seed in self.seeds:
            live = self.drive(seed, EVERY_FAULT)
            resumed = new(self.searcher, self.space, seed)
            for event, actions in zip(live.events, live.actions, strict=True):
                snapshot = json.loads(_dumps(resumed.snapshot()))
                resumed = restore(self.searcher, self.space, seed, snapshot)
                assert resumed.fold(event) == actions

    def test_failures_of_all_trials_fail_the_search(self) -> None:
        driver = self.drive(3, Faults((ExitReason.ERRORED,), 100))
        assert driver.outcome == Shutdown(failure=True)

    def test_cancels_of_all_trials_cancel_the_search(self) -> None:
        driver = self.drive(3, Faults((ExitReason.USER_CANCELED,), 100))
        assert driver.outcome == Shutdown(cancel=True)

    def test_a_space_that_is_wholly_invalid_comes_to_an_end(self) -> None:
        driver = self.drive(3, Faults((ExitReason.INVALID_HP,), 100))
        assert len(driver.known) <= 101 + 11 * self.max_trials

    def test_metrics_that_are_not_a_number_are_the_worst_but_no_error(self) -> None:
        for value in (float("nan"), "NaN", "Infinity"):
            assert self.drive(4, loss=_always(value)).outcome == Shutdown()

    def test_a_missing_metric_ends_the_search_with_a_reason(self) -> None:
        if self.reads_metrics:
            search = new(self.searcher, self.space, 0)
            first = search.fold(Started())[0]
            assert isinstance(first, Create)
            full = report_lengths(self.searcher)[-1]
            (fail,) = search.fold(Validated(first.request_id, {unit_of(self.searcher): full}))
            assert isinstance(fail, Fail)
            assert self.searcher["metric"] in fail.reason
            assert first.request_id in fail.reason

    def test_nothing_happens_after_the_end(self) -> None:
        driver = self.drive(5)
        assert all(driver.search.fold(event) == () for event in driver.events)

    def test_events_of_unknown_trials_ask_for_nothing(self) -> None:
        search = new(self.searcher, self.space, 6)
        search.fold(Started())
        for reason in ExitReason:
            assert search.fold(ExitedEarly("nobody", reason)) == ()
        assert search.fold(Exited("nobody")) == ()
        assert search.fold(Validated("nobody", {})) == ()
        assert search.fold(OperationCompleted("nobody", 1, 0.5)) == ()

    def test_progress_stays_between_0_and_1(self) -> None:
        live = self.drive(7, EVERY_FAULT)
        search = new(self.searcher, self.space, 7)
        for event in live.events:
            search.fold(event)
            assert 0 <= search.progress(dict.fromkeys(live.known, 1.0)) <= 1

    def test_the_cost_of_an_event_does_not_grow_with_the_trials(self) -> None:
        small, large = self.scaled(150), self.scaled(1500)
        if small is not None and large is not None:
            assert self._lines_per_event(large, 1500) <= 1.3 * self._lines_per_event(small, 150)

    def _lines_per_event(self, searcher: Mapping[str, Any], trials: int) -> float:
        """Count lines of code run, not seconds: the same on every machine."""
        live = Driver(new(searcher, self.space, 8), searcher, 8, trials).run()
        search, lines = new(searcher, self.space, 8), 0

        def count(*_: Any) -> Callable[..., Any]:
            nonlocal lines
            lines += 1
            return count

        before = sys.gettrace()
        sys.settrace(count)
        try:
            for event in live.events:
                search.fold(event)
        finally:
            sys.settrace(before)
        return lines / len(live.events)


def _is_in(hparam: HParam, value: Any) -> bool:
    if isinstance(hparam, Nested):
        names = value.keys() == hparam.members.keys()
        return names and all(_is_in(part, value[name]) for name, part in hparam.members.items())
    if isinstance(hparam, Const):
        return bool(value == hparam.val)
    if isinstance(hparam, Categorical):
        return value in hparam.vals
    if isinstance(hparam, Int):
        return isinstance(value, int) and hparam.minval <= value <= hparam.maxval
    ends = [hparam.minval, hparam.maxval]
    if isinstance(hparam, Log):
        ends = sorted(hparam.base**exponent for exponent in ends)
    within = ends[0] <= value <= ends[1]
    return within or any(math.isclose(value, end, rel_tol=1e-9) for end in ends)


def _negative_loss(rng: random.Random, hparams: Mapping[str, Any]) -> float:
    return -random_loss(rng, hparams)


def _always(value: Any) -> Loss:
    return lambda rng, hparams: value


def _dumps(value: Any) -> str:
    """Write JSON as strictly as a JSON column."""
    return json.dumps(value, allow_nan=False)
