"""How often agents call where polls are not held: bench/cost.py computes with it."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from det_controlplane.db.engine import Database

from bench import cost
from tests.support.api import create
from tests.support.rented import MachineAgent, Rented, rented_cluster


@pytest.fixture
def cluster(database: Database, tmp_path: Path) -> Iterator[Rented]:
    with rented_cluster(database, tmp_path) as made:
        yield made


def pause_s(agent: MachineAgent) -> float:
    """Poll with what runs; return when the next poll is due."""
    agent.seq += 1
    reports = [
        {"id": id, "epoch": order["epoch"], "state": "running"}
        for id, order in agent.running.items()
    ]
    body = {
        "incarnation": agent.incarnation,
        "seq": agent.seq,
        "containers": reports,
        "signals": [],
    }
    return float(agent.caller.post("/agents/v1/poll", body)["next_poll_s"])


def polls_in_an_hour(cluster: Rented, agent: MachineAgent) -> int:
    polls, left_s = 0, 3600.0
    while left_s > 0:
        wait_s = pause_s(agent)
        cluster.pass_time(seconds=wait_s)
        polls, left_s = polls + 1, left_s - wait_s
    return polls


def test_an_agent_polls_as_often_as_the_page_about_costs_says(cluster: Rented) -> None:
    admin = cluster.api.signed_in("admin")
    create(admin, activate=True)
    cluster.settle()
    agent = cluster.boot(cluster.cloud.alive()[-1])
    assert polls_in_an_hour(cluster, agent) == cost.IDLE_POLLS
    cluster.settle()
    agent.work()
    assert agent.running
    assert polls_in_an_hour(cluster, agent) == cost.STEADY_POLLS


def test_an_agent_polls_soon_while_something_starts_or_is_asked_to_leave(cluster: Rented) -> None:
    admin = cluster.api.signed_in("admin")
    id = create(admin, activate=True)
    cluster.settle()
    agent = cluster.boot(cluster.cloud.alive()[-1])
    cluster.settle()
    agent.seq += 1
    body = {"incarnation": agent.incarnation, "seq": agent.seq, "containers": [], "signals": []}
    started = agent.caller.post("/agents/v1/poll", body)
    assert started["containers"]
    assert started["next_poll_s"] == 2.0
    agent.running = {order["id"]: order for order in started["containers"]}
    pause_s(agent)
    assert pause_s(agent) == 10.0
    admin.post(f"/api/v1/experiments/{id}/pause")
    assert pause_s(agent) == 2.0
