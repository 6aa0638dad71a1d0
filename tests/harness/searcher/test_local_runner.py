"""A search method in a local process. Failures on the way do not change its search."""

import importlib.util
import json
import math
import random
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest
from det_controlplane.db.engine.database import Database
from determined import core, searcher
from determined.common.http import APIError

from tests.support.api import Caller, api_over, config_of
from tests.support.cluster import ROOT
from tests.support.played_session import Died, Plan, PlayedSession

LENGTHS = [4, 12, 36]
CONFIG = {
    "name": "searched",
    "entrypoint": "python3 train.py",
    "searcher": {"name": "custom", "metric": "loss"},
}


def method() -> Any:
    spec = importlib.util.spec_from_file_location(
        "halving", ROOT / "examples/custom_search/halving.py"
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.SuccessiveHalving(9, LENGTHS, seed=1)


def loss(hparams: dict[str, Any], length: int) -> float:
    """Return a loss that is best at a learning rate of 0.03."""
    return abs(math.log10(hparams["learning_rate"]) + 1.5) + 1 / length


@pytest.fixture
def user(database: Database, tmp_path: Path) -> Iterator[Caller]:
    with api_over(database, tmp_path) as api:
        yield api.signed_in("determined")


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("determined.searcher._runner.time.sleep", lambda _: None)


def trials(user: Caller, experiment_id: int) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = user.get(f"/api/v1/experiments/{experiment_id}/trials")["trials"]
    return rows


def search(user: Caller, folder: Path, plan: Plan) -> tuple[int, int]:
    """Run a search to its end, restarting it when its process dies. Return the experiment and the restarts."""
    processes = 0
    while True:
        processes += 1
        session = PlayedSession(user, plan, loss)
        try:
            return searcher.LocalSearchRunner(method(), folder, session).run(CONFIG), processes
        except Died:
            assert processes < 500


def outcome(user: Caller, experiment_id: int) -> list[tuple[float, float]]:
    return sorted(
        (t["hparams"]["learning_rate"], t["searcherMetricValue"] or 0.0)
        for t in trials(user, experiment_id)
    )


def test_search_trains_best_trials_longest_and_completes(user: Caller, tmp_path: Path) -> None:
    session = PlayedSession(user, Plan(random.Random(0)), loss)
    experiment_id = searcher.LocalSearchRunner(method(), tmp_path / "s", session).run(CONFIG)
    experiment = user.get(f"/api/v1/experiments/{experiment_id}")["experiment"]
    assert (experiment["state"], experiment["progress"]) == ("STATE_COMPLETED", 1)
    operations = [o for body in session.posted for o in body["searcherOperations"]]
    creations = [o["createTrial"] for o in operations if "createTrial" in o]
    rates = {c["requestId"]: json.loads(c["hyperparams"]) for c in creations}
    best = min(rates, key=lambda trial: loss(rates[trial], 36))
    requests = [o["trialOperation"]["validateAfter"] for o in operations if "trialOperation" in o]
    assert [sum(a["length"] == str(n) for a in requests) for n in LENGTHS] == [9, 3, 1]
    assert [a["requestId"] for a in requests if a["length"] == "36"] == [best]


@pytest.mark.parametrize("seed", range(3))
def test_failures_neither_lose_nor_repeat_an_operation(
    user: Caller, tmp_path: Path, seed: int
) -> None:
    smooth, _ = search(user, tmp_path / "smooth", Plan(random.Random(0)))
    plan = Plan(random.Random(seed), lost_requests=10, lost_answers=10, deaths=10)
    rough, processes = search(user, tmp_path / "rough", plan)
    assert processes > 1
    assert rough != smooth
    assert outcome(user, rough) == outcome(user, smooth)
    experiments = user.get("/api/v1/experiments")["experiments"]
    assert {e["state"] for e in experiments} == {"STATE_COMPLETED"}
    assert len(experiments) == 2


def test_ended_search_returns_its_experiment_at_once(user: Caller, tmp_path: Path) -> None:
    plan = Plan(random.Random(0))
    first, _ = search(user, tmp_path / "s", plan)
    second_search, processes = search(user, tmp_path / "s", plan)
    assert (second_search, processes) == (first, 1)


class OneTrial(searcher.SearchMethod):
    """A search method that creates one trial, and records its events."""

    def __init__(self) -> None:
        self.events: list[Any] = []

    def initial_operations(self, state: Any) -> list[Any]:
        request_id = uuid.UUID(int=5)
        return [searcher.Create(request_id, {}), searcher.ValidateAfter(request_id, 4)]

    def on_trial_created(self, state: Any, request_id: Any) -> list[Any]:
        return []

    def on_validation_completed(
        self, state: Any, request_id: Any, metric: Any, n: int
    ) -> list[Any]:
        self.events.append((metric, n, state.trial_progress[request_id]))
        return [searcher.Close(request_id)]

    def on_trial_exited_early(self, state: Any, request_id: Any, reason: Any) -> list[Any]:
        self.events.append(reason)
        return []

    def on_trial_closed(self, state: Any, request_id: Any) -> list[Any]:
        return [searcher.Shutdown()]

    def progress(self, state: Any) -> float:
        return len(state.trials_closed)


def test_killed_experiment_ends_its_runner(user: Caller, tmp_path: Path) -> None:
    class Killing(PlayedSession):
        def _play(self, experiment: str) -> None:
            if self.caller.get(f"{experiment}/trials")["trials"]:
                self.caller.post(f"{experiment}/kill")

    runner = searcher.LocalSearchRunner(
        OneTrial(), tmp_path / "s", Killing(user, Plan(random.Random(0)), loss)
    )
    experiment_id = runner.run(CONFIG)
    assert runner.state.experiment_failed
    state = user.get(f"/api/v1/experiments/{experiment_id}")["experiment"]["state"]
    assert state == "STATE_CANCELED"


def test_paused_experiment_continues_after_activation(user: Caller, tmp_path: Path) -> None:
    class Pausing(PlayedSession):
        pauses = 0

        def _play(self, experiment: str) -> None:
            if self.pauses < 2:
                self.caller.post(f"{experiment}/{('pause', 'activate')[self.pauses]}")
                self.pauses += 1
            else:
                super()._play(experiment)

    one_trial = OneTrial()
    runner = searcher.LocalSearchRunner(
        one_trial, tmp_path / "s", Pausing(user, Plan(random.Random(0)), lambda *_: math.nan)
    )
    runner.run(CONFIG)
    assert runner.state.experiment_completed
    ((metric, length, progress),) = one_trial.events
    assert math.isnan(metric)
    assert (length, progress) == (4, 4.0)


def test_trial_progress_is_recorded_without_saving(user: Caller, tmp_path: Path) -> None:
    class Progressing(PlayedSession):
        remaining = 3

        def _play(self, experiment: str) -> None:
            trials = self.caller.get(f"{experiment}/trials")["trials"]
            if self.remaining and trials:
                path = f"/api/v1/trials/{trials[0]['id']}/progress"
                self.caller.post(path, {"progress": 1 - self.remaining / 4})
                self.remaining -= 1
            else:
                super()._play(experiment)

    class Counting(searcher.LocalSearchRunner):
        saves = 0
        progress: ClassVar[list[float]] = []

        def _save(self) -> None:
            self.saves += 1
            super()._save()

        def _exit_if_preempted(self) -> None:
            self.progress.extend(self.state.trial_progress.values())

    session = Progressing(user, Plan(random.Random(0)), lambda *_: 0.5)
    runner = Counting(OneTrial(), tmp_path / "s", session)
    runner.run(CONFIG)
    # The events are: begin, created, validated, closed, ended.
    assert runner.saves <= 5
    assert {1.0, 2.0, 3.0, 4.0} <= {*runner.progress}


def test_killed_trial_is_reported_with_its_reason(user: Caller, tmp_path: Path) -> None:
    class KillingTrial(PlayedSession):
        def _play(self, experiment: str) -> None:
            for trial in self.caller.get(f"{experiment}/trials")["trials"]:
                self.caller.post(f"/api/v1/trials/{trial['id']}/kill")

    one_trial = OneTrial()
    session = KillingTrial(user, Plan(random.Random(0)), loss)
    searcher.LocalSearchRunner(one_trial, tmp_path / "s", session).run(CONFIG)
    assert one_trial.events == [searcher.ExitedReason.USER_CANCELED]


def test_rejects_other_searcher_before_creating_the_experiment(
    user: Caller, tmp_path: Path
) -> None:
    session = PlayedSession(user, Plan(random.Random(0)), loss)
    runner = searcher.LocalSearchRunner(OneTrial(), tmp_path / "s", session)
    with pytest.raises(ValueError, match="'custom', not 'single'"):
        runner.run({**CONFIG, "searcher": {"name": "single", "metric": "loss"}})
    assert user.get("/api/v1/experiments")["experiments"] == []


def test_kills_experiment_if_its_file_has_another_searcher(user: Caller, tmp_path: Path) -> None:
    (tmp_path / "single.yaml").write_text(config_of())
    session = PlayedSession(user, Plan(random.Random(0)), loss)
    runner = searcher.LocalSearchRunner(OneTrial(), tmp_path / "s", session)
    with pytest.raises(ValueError, match="'custom', not 'single'"):
        runner.run(tmp_path / "single.yaml")
    states = [e["state"] for e in user.get("/api/v1/experiments")["experiments"]]
    assert states == ["STATE_CANCELED"]


def test_error_names_trial_that_was_never_created(user: Caller, tmp_path: Path) -> None:
    class Confused(OneTrial):
        def initial_operations(self, state: Any) -> list[Any]:
            return [searcher.Close(uuid.UUID(int=6))]

    session = PlayedSession(user, Plan(random.Random(0)), loss)
    runner = searcher.LocalSearchRunner(Confused(), tmp_path / "s", session)
    with pytest.raises(APIError, match=str(uuid.UUID(int=6))):
        runner.run(CONFIG)


def test_remote_runner_outside_of_a_cluster_names_the_local_one() -> None:
    with core.init() as context, pytest.raises(RuntimeError, match="LocalSearchRunner"):
        searcher.RemoteSearchRunner(OneTrial(), context)
