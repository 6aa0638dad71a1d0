"""Count the requests and statements of an hour of steady work on a serverless host, for bench/cost.py."""

import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial

import pytest
from det_controlplane.entry.scheduled_work import Clock, run_while_due, ticking
from det_controlplane.services.machines import calling
from det_controlplane.services.maintenance import tick

from bench import cost
from tests.support.api import create, trial_of
from tests.support.rented import MachineAgent, RentedCluster, poll
from tests.support.statements import trips

TURN_S = 120.0


@dataclass
class Wakes:
    topics: list[str] = field(default_factory=list)

    def wake(self, topic: str) -> None:
        self.topics.append(topic)


class SteadyHour:
    """Working agents that poll on demand, and turns that begin each minute, a second early or late."""

    def __init__(self, cluster: RentedCluster, agents: list[MachineAgent]) -> None:
        self._cluster = cluster
        self._due = dict.fromkeys(range(len(agents)), cluster.time)
        self._agents = agents
        self.passes = 0
        self.waited_s = 0.0

    def play(self, turn: Callable[[Clock], object]) -> None:
        clock = Clock(lambda: TURN_S, self._wait)
        for minute in range(60):
            due = self._cluster.time + timedelta(seconds=61 if minute % 2 else 59)
            self.passes += 1
            turn(clock)
            self._pass_time((due - self._cluster.time).total_seconds())

    def _wait(self, seconds: float) -> None:
        self.passes += 1
        self.waited_s += seconds
        self._pass_time(seconds)

    def _pass_time(self, seconds: float) -> None:
        until = self._cluster.time + timedelta(seconds=seconds)
        while self._next() <= until:
            number = min(self._due, key=lambda n: self._due[n])
            self._cluster.time = self._due[number]
            pause_s = float(poll(self._agents[number])["next_poll_s"])
            self._due[number] += timedelta(seconds=pause_s)
        self._cluster.time = until

    def _next(self) -> datetime:
        return min(self._due.values())


def at_work(cluster: RentedCluster, count: int) -> list[MachineAgent]:
    """Return agents of rented machines with running trials."""
    admin = cluster.api.signed_in("admin")
    for _ in range(count):
        create(admin, activate=True)
    cluster.settle()
    agents = [cluster.boot(machine) for machine in cluster.cloud.alive()]
    cluster.settle()
    for agent in agents:
        agent.work()
    assert all(agent.running for agent in agents)
    assert len(agents) == count
    cluster.settle()
    return agents


def test_steady_work_wakes_no_functions_beside_their_schedules(cluster: RentedCluster) -> None:
    hour = SteadyHour(cluster, at_work(cluster, 2))
    cluster.api.ctx.waker = wakes = Wakes()
    hour.play(lambda clock: None)
    assert set(wakes.topics).isdisjoint({"schedule", "provision"})


def test_ticks_take_as_long_as_the_cost_page_says(cluster: RentedCluster) -> None:
    hour = SteadyHour(cluster, at_work(cluster, 3))
    hour.play(ticking(cluster.api.ctx, None))
    assert hour.passes <= cost.TICK_PASSES
    assert hour.waited_s <= cost.TICK_WAITS_S


def test_machines_are_listed_as_often_as_the_cost_page_says(cluster: RentedCluster) -> None:
    hour = SteadyHour(cluster, at_work(cluster, 3))
    one_pass = partial(
        calling.run, cluster.api.ctx, {"aws": cluster.cloud}, {"aws": cluster.market}
    )
    hour.play(lambda clock: run_while_due(one_pass, clock))
    assert hour.passes <= cost.PROVISION_PASSES
    assert hour.waited_s == 0.0


def test_database_requests_are_as_frequent_as_the_cost_page_says(
    cluster: RentedCluster,
) -> None:
    (agent,) = at_work(cluster, 1)
    ((id, order),) = agent.running.items()
    task = cluster.api.with_token(order["spec"]["session_token"])
    trial = trial_of(task, int(task.get("/api/v1/experiments")["experiments"][0]["id"]))["id"]
    line = {
        "task_id": order["spec"]["task_id"],
        "allocation_id": order["allocation_id"],
        "container_id": id,
    }
    steps = iter(range(1, 100))

    def ship() -> None:
        lines = [{**line, "log": "a line", "timestamp": "2026-01-01T00:00:00Z"}]
        agent.caller.post("/agents/v1/logs", {"batch_id": str(uuid.uuid4()), "logs": lines})

    def report() -> None:
        body = {"avgMetrics": {"loss": 0.5}}
        values = {"trialId": trial, "trialRunId": 1, "stepsCompleted": next(steps), "metrics": body}
        task.post(f"/api/v1/trials/{trial}/metrics", {"metrics": values, "group": "training"})

    counts = {}
    requests: dict[str, Callable[[], object]] = {
        "polls": partial(poll, agent),
        "ships": ship,
        "reports": report,
    }
    for name, request in requests.items():
        request()
        with trips(cluster.api.ctx.db) as round_trips:
            request()
        counts[name] = len(round_trips)
    shares = {"polls": cost.STEADY_POLLS, "ships": cost.LOG_BATCHES, "reports": cost.REPORTS}
    average = sum(counts[name] * share for name, share in shares.items()) / sum(shares.values())
    assert average == pytest.approx(cost.REQUEST_TRIPS, abs=0.1), counts
    with trips(cluster.api.ctx.db) as round_trips:
        tick.run(cluster.api.ctx)
    assert len(round_trips) <= cost.TICK_TRIPS
    with trips(cluster.api.ctx.db) as round_trips:
        calling.run(cluster.api.ctx, {"aws": cluster.cloud}, {"aws": cluster.market})
    assert len(round_trips) <= cost.PROVISION_TRIPS
