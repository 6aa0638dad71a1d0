"""Trials that run elsewhere and only report, as the clients of Determined 0.38.1 and older ones do."""

from dataclasses import replace

import pytest
from det_controlplane.db.engine.database import Tx
from det_controlplane.db.trials import unmanaged as rows
from det_controlplane.services.trials import unmanaged

from tests.support.api import Api, Caller, config_of, create, trial_of


@pytest.fixture
def trial_id(user: Caller) -> int:
    """A trial of an unmanaged experiment, created but not started."""
    body = {"config": config_of(), "unmanaged": True}
    experiment_id = user.post("/api/v1/experiments", body)["experiment"]["id"]
    new = {"experimentId": experiment_id, "hparams": {}, "unmanaged": True}
    stored_trial_id: int = user.post("/api/v1/trials", new)["trial"]["id"]
    return stored_trial_id


def start(caller: Caller, trial_id: int) -> None:
    caller.post(f"/api/v1/trials/{trial_id}/start", {"trialId": trial_id, "resume": False})


def tell(caller: Caller, trial_id: int, state: str) -> str:
    """Report a state, and return the one that the answer shows."""
    body = {"trialId": trial_id, "state": state}
    reported_state: str = caller.done("PATCH", f"/api/v1/trials/{trial_id}", body)["trial"]["state"]
    return reported_state


def experiment_state(caller: Caller, trial_id: int) -> str:
    experiment_id = caller.get(f"/api/v1/trials/{trial_id}")["trial"]["experimentId"]
    state: str = caller.get(f"/api/v1/experiments/{experiment_id}")["experiment"]["state"]
    return state


@pytest.mark.parametrize("state", ["STATE_RUNNING", "STATE_ACTIVE", "STATE_STARTING"])
def test_started_trial_is_running(user: Caller, trial_id: int, state: str) -> None:
    start(user, trial_id)
    assert tell(user, trial_id, state) == "STATE_RUNNING"
    assert experiment_state(user, trial_id) == "STATE_ACTIVE"


@pytest.mark.parametrize("end", ["STATE_ERROR", "STATE_COMPLETED", "STATE_CANCELED"])
def test_experiment_ends_with_its_trial(user: Caller, trial_id: int, end: str) -> None:
    start(user, trial_id)
    assert tell(user, trial_id, end) == end
    assert experiment_state(user, trial_id) == end


def test_trial_without_reports_fails_after_the_silence_limit(
    api: Api, user: Caller, trial_id: int
) -> None:
    def shown() -> set[str]:
        trial = user.get(f"/api/v1/trials/{trial_id}")["trial"]
        return {trial["state"].replace("RUNNING", "ACTIVE"), experiment_state(user, trial_id)}

    assert shown() == {"STATE_ACTIVE"}
    now = api.ctx.now()
    api.ctx = replace(api.ctx, now=lambda: now + unmanaged.SILENCE)
    api.tick()
    assert shown() == {"STATE_ERROR"}


def test_trial_that_fails_before_its_start_fails_its_experiment(
    user: Caller, trial_id: int
) -> None:
    assert tell(user, trial_id, "STATE_ERROR") == "STATE_ERROR"
    assert experiment_state(user, trial_id) == "STATE_ERROR"


def test_rejects_unknown_state(user: Caller, trial_id: int) -> None:
    response = user.ask("PATCH", f"/api/v1/trials/{trial_id}", {"state": "STATE_DANCING"})
    assert response.status == 400
    assert "not 'DANCING'" in response.error


def test_rejects_state_reports_for_a_managed_trial(user: Caller) -> None:
    experiment_id = create(user)
    trial_id = trial_of(user, experiment_id)["id"]
    response = user.ask("PATCH", f"/api/v1/trials/{trial_id}", {"state": "STATE_COMPLETED"})
    assert response.status == 400
    assert "managed" in response.error
    assert user.ask("POST", f"/api/v1/trials/{trial_id}/start", {}).status == 400
    assert experiment_state(user, trial_id) == "STATE_PAUSED"


def test_missing_trial_is_not_found(api: Api, user: Caller) -> None:
    assert user.ask("PATCH", "/api/v1/trials/99", {"state": "STATE_RUNNING"}).status == 404


def test_concurrent_requests_for_an_external_id_return_one_trial(
    user: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = {"config": config_of(), "unmanaged": True}
    experiment_id = user.post("/api/v1/experiments", body)["experiment"]["id"]
    new = {"experimentId": experiment_id, "hparams": {}, "unmanaged": True}
    put = {"createTrialRequest": new, "externalTrialId": "first"}
    look = rows.by_external_id
    created_ids: list[int] = []

    def overtaken(tx: Tx, experiment_id: int, external_id: str) -> int | None:
        """Return the present trial before another request creates it in its own transaction."""
        row = look(tx, experiment_id, external_id)
        monkeypatch.setattr(rows, "by_external_id", look)
        created_ids.append(user.done("PUT", "/api/v1/trials", put)["trial"]["id"])
        return row

    monkeypatch.setattr(rows, "by_external_id", overtaken)
    assert [user.done("PUT", "/api/v1/trials", put)["trial"]["id"]] == created_ids
