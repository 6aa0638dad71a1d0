"""`searcher.stop_when`: searches end when their gain is small or their cost is high, and say so."""

from typing import Any

import pytest
from det_controlplane.services.maintenance import search_costs, tick

from tests.support.api import Api, Caller, create
from tests.support.rented import MachineAgent, RentedCluster
from tests.support.searches import MODEL, SPACE, train

E = "/api/v1/experiments"
RANDOM: dict[str, Any] = {
    "name": "random", "metric": "loss", "max_trials": 9, "max_concurrent_trials": 2,
    "stop_when": {"or_cost_above": 0.10},
}  # fmt: skip


@pytest.fixture
def api(cluster: RentedCluster) -> Api:
    return cluster.api


def experiment_of(caller: Caller, experiment_id: int) -> dict[str, Any]:
    shown: dict[str, Any] = caller.get(f"{E}/{experiment_id}")["experiment"]
    return shown


def search_of(caller: Caller, experiment_id: int) -> dict[str, Any]:
    search: dict[str, Any] = caller.get(f"{E}/{experiment_id}/search")
    return search


def why(caller: Caller, experiment_id: int) -> str:
    (reason,) = caller.get(f"/api/v1/why/experiment/{experiment_id}")["reasons"]
    return str(reason["sentence"])


def test_search_with_a_small_expected_gain_completes_and_says_why(user: Caller) -> None:
    experiment_id = create(user, activate=True, searcher=MODEL, hyperparameters=SPACE)
    assert search_of(user, experiment_id)["expectedGain"] is None
    assert train(user, experiment_id, 300) < 300
    assert experiment_of(user, experiment_id)["state"] == "STATE_COMPLETED"
    search = search_of(user, experiment_id)
    assert search["ending"]["reason"] == "GAIN_BELOW"
    assert "the expected gain in loss by another full training of" in search["ending"]["sentence"]
    assert 0 <= search["expectedGain"]["value"] < search["expectedGain"]["limit"] == 0.05
    assert search["ending"]["sentence"] in why(user, experiment_id)


def at_work(
    cluster: RentedCluster, user: Caller, searcher: dict[str, Any]
) -> tuple[int, MachineAgent]:
    experiment_id = create(user, activate=True, searcher=searcher, hyperparameters=SPACE)
    _, agent = cluster.employ()
    return experiment_id, agent


def pass_minutes(cluster: RentedCluster, agent: MachineAgent, minutes: int) -> None:
    for _ in range(minutes * 3):
        cluster.pass_time(seconds=20)
        agent.poll()
        tick.run(cluster.api.ctx)


def test_search_ends_when_it_costs_more_than_its_limit(
    cluster: RentedCluster, user: Caller
) -> None:
    """The machine costs $0.40 an hour, so the limit of $0.10 is reached after 15 minutes."""
    experiment_id, agent = at_work(cluster, user, RANDOM)
    pass_minutes(cluster, agent, 14)
    assert search_of(user, experiment_id)["ending"] is None
    pass_minutes(cluster, agent, 4)
    search = search_of(user, experiment_id)
    assert search["ending"]["reason"] == "COST_ABOVE"
    agent.finish()
    tick.run(cluster.api.ctx)
    assert experiment_of(user, experiment_id)["state"] == "STATE_COMPLETED"
    assert len(search["trials"]) == 2
    assert "exceeded stop_when.or_cost_above ($0.10)" in why(user, experiment_id)


def test_expected_gain_has_a_price_on_rented_machines(cluster: RentedCluster, user: Caller) -> None:
    searcher = {**MODEL, "stop_when": {"or_cost_above": 50}}
    experiment_id, agent = at_work(cluster, user, searcher)
    pass_minutes(cluster, agent, 10)
    train(user, experiment_id, 12)
    gain = search_of(user, experiment_id)["expectedGain"]
    assert gain["limit"] is None
    assert gain["usdOfTraining"] > 0
    assert gain["perUsd"] == pytest.approx(gain["value"] / gain["usdOfTraining"], rel=1e-3)


def test_clusters_without_rented_machines_or_limits_have_no_deadline(
    cluster: RentedCluster, user: Caller
) -> None:
    ctx = cluster.api.ctx
    _, agent = at_work(cluster, user, {"name": "single", "metric": "loss"})
    agent.poll()
    with ctx.db.autocommit() as tx:
        assert search_costs.next_due(ctx, tx) is None
