"""Early exits that programs report: invalid hyperparameters, and a stop of their own."""

from det_controlplane.services.scheduling import stopping

from tests.support.api import Api, Caller, create, trial_of
from tests.support.played_agent import PlayedAgent


def state_of(user: Caller, experiment_id: int) -> str:
    return str(user.get(f"/api/v1/experiments/{experiment_id}")["experiment"]["state"])


def test_trial_gets_time_to_log_the_reason_of_its_failure(api: Api, user: Caller) -> None:
    experiment_id = create(user, activate=True)
    agent = PlayedAgent(api, "a1")
    agent.join()
    api.tick()
    agent.poll()
    trial_id = trial_of(user, experiment_id)["id"]
    user.post(f"/api/v1/trials/{trial_id}/early_exit", {"reason": "EXITED_REASON_INVALID_HP"})
    assert state_of(user, experiment_id) == "STATE_STOPPING_ERROR"
    assert [order["desired"] for order in agent.poll()] == ["running"]
    later = api.ctx.now() + stopping.KILL_DELAY
    api.ctx.now = lambda: later
    api.tick()
    assert [order["desired"] for order in agent.poll()] == ["killed"]
    agent.poll("terminated", exit_code=137, failure="container_failed")
    assert state_of(user, experiment_id) == "STATE_ERROR"


def test_queued_trial_with_invalid_hyperparameters_ends_immediately(api: Api, user: Caller) -> None:
    experiment_id = create(user, activate=True)
    trial_id = trial_of(user, experiment_id)["id"]
    user.post(f"/api/v1/trials/{trial_id}/early_exit", {"reason": "EXITED_REASON_INVALID_HP"})
    assert state_of(user, experiment_id) == "STATE_ERROR"


def test_stopping_trial_gets_time_to_store_its_checkpoint(api: Api, user: Caller) -> None:
    experiment_id = create(user, activate=True)
    agent = PlayedAgent(api, "a1")
    agent.join()
    api.tick()
    agent.poll()
    trial_id = trial_of(user, experiment_id)["id"]
    stop = {"reason": "EXITED_REASON_USER_REQUESTED_STOP"}
    user.post(f"/api/v1/trials/{trial_id}/early_exit", stop)
    later = api.ctx.now() + stopping.KILL_DELAY
    api.ctx.now = lambda: later
    api.tick()
    assert [order["desired"] for order in agent.poll()] == ["running"]
    agent.poll("terminated", exit_code=0)
    assert state_of(user, experiment_id) == "STATE_COMPLETED"
