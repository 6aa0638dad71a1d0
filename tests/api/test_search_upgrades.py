"""Searches continue when a new version of the program replaces the one that started them."""

import pytest
from det_controlplane.core.search import model_asha

from tests.support.api import Api, Caller, create
from tests.support.searches import MODEL, SPACE, train

E = "/api/v1/experiments"
TRIALS = 40


def upgrade(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    """Continue with an empty memory and a model that proposes other trials."""
    api.ctx.memory.clear()
    monkeypatch.setattr(model_asha, "_NEIGHBOURS", 7)
    monkeypatch.setattr(model_asha, "_ANYWHERE", 3)


@pytest.mark.parametrize("finished", [11, 19, 20])
def test_model_may_propose_other_trials_after_an_upgrade(
    api: Api, user: Caller, monkeypatch: pytest.MonkeyPatch, finished: int
) -> None:
    searcher = {**MODEL, "max_trials": TRIALS, "stop_when": None}
    experiment_id = create(user, activate=True, searcher=searcher, hyperparameters=SPACE)
    train(user, experiment_id, finished)
    upgrade(api, monkeypatch)
    train(user, experiment_id, 10 * TRIALS)
    trials = user.get(f"{E}/{experiment_id}/trials", limit=-1)["trials"]
    assert len(trials) == TRIALS
    assert user.get(f"{E}/{experiment_id}")["experiment"]["progress"] == 1.0


def test_reason_of_an_ended_search_stays_after_an_upgrade(
    api: Api, user: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    experiment_id = create(user, activate=True, searcher=MODEL, hyperparameters=SPACE)
    train(user, experiment_id, 300)
    before = user.get(f"{E}/{experiment_id}/search")
    upgrade(api, monkeypatch)
    after = user.get(f"{E}/{experiment_id}/search")
    assert before["ending"]["reason"] == "GAIN_BELOW"
    assert (after["ending"], after["expectedGain"]) == (before["ending"], before["expectedGain"])
