"""The number of agents' requests without long polls, which bench/cost.py uses."""

from det_controlplane.api.http import Request, Stream

from bench import cost
from tests.support.api import create
from tests.support.rented import MachineAgent, RentedCluster, poll


def pause_s(agent: MachineAgent) -> float:
    """Poll; return when the next poll is due."""
    return float(poll(agent)["next_poll_s"])


def polls_in_an_hour(cluster: RentedCluster, agent: MachineAgent) -> int:
    polls, left_s = 0, 3600.0
    while left_s > 0:
        wait_s = pause_s(agent)
        cluster.pass_time(seconds=wait_s)
        polls, left_s = polls + 1, left_s - wait_s
    return polls


def test_agent_polls_as_often_as_the_cost_page_says(cluster: RentedCluster) -> None:
    admin = cluster.api.signed_in("admin")
    create(admin, activate=True)
    cluster.settle()
    agent = cluster.boot(cluster.cloud.alive()[-1])
    assert polls_in_an_hour(cluster, agent) == cost.IDLE_POLLS
    cluster.settle()
    agent.work()
    assert agent.running
    assert polls_in_an_hour(cluster, agent) == cost.STEADY_POLLS


def test_agent_polls_sooner_during_starts_and_preemption(cluster: RentedCluster) -> None:
    admin = cluster.api.signed_in("admin")
    id = create(admin, activate=True)
    cluster.settle()
    agent = cluster.boot(cluster.cloud.alive()[-1])
    cluster.settle()
    agent.seq += 1
    body = {"incarnation": agent.incarnation, "seq": agent.seq, "containers": [], "signals": []}
    answer = agent.caller.post("/agents/v1/poll", body)
    assert answer["containers"]
    assert answer["next_poll_s"] == 2.0
    agent.running = {order["id"]: order for order in answer["containers"]}
    pause_s(agent)
    assert pause_s(agent) == 10.0
    admin.post(f"/api/v1/experiments/{id}/pause")
    assert pause_s(agent) == 2.0


def test_log_lines_are_batched_until_a_reader_follows_them(cluster: RentedCluster) -> None:
    admin = cluster.api.signed_in("admin")
    create(admin, activate=True)
    cluster.settle()
    agent = cluster.boot(cluster.cloud.alive()[-1])
    assert poll(agent)["logs_within_s"] == 1.0
    cluster.settle()
    assert agent.poll()  # it starts: somebody waits for the first lines
    assert poll(agent)["logs_within_s"] == 3600 / cost.LOG_BATCHES
    (order,) = agent.running.values()
    path = f"/api/v1/tasks/{order['spec']['task_id']}/logs"
    assert admin.ask("GET", path).status == 200
    assert poll(agent)["logs_within_s"] > 1.0, "a look at a log does not follow it"
    headers = {"authorization": f"Bearer {admin.token}"}
    request = Request("GET", path, query={"follow": ["true"]}, headers=headers)
    response = cluster.api.app.handle(request)
    assert isinstance(response, Stream)
    response.fetch(response.cursor)
    assert poll(agent)["logs_within_s"] == 1.0
    cluster.pass_time(minutes=5)
    assert poll(agent)["logs_within_s"] > 1.0


def test_log_lines_are_sent_immediately_with_long_polls(cluster: RentedCluster) -> None:
    cluster.api.ctx.host.may_wait_s = 20.0
    create(cluster.api.signed_in("admin"), activate=True)
    _, agent = cluster.employ()
    assert poll(agent)["logs_within_s"] == 1.0
