"""Fake users leave no work paused. Otherwise a world would fail without a bug."""

from random import Random
from typing import Any

from tests.world.hosts import Hosts
from tests.world.machine_people import MachineUser
from tests.world.machine_world import MachineWorld
from tests.world.script import Call, Reply


class Ground:
    """As much of a world as the script of one user needs."""

    def stream(self, name: str) -> Random:
        return Random(1)


def test_users_resume_paused_work_after_the_budget_is_deleted() -> None:
    """Seed 22167: a budget was spent right after its user had seen the work active for the last time."""
    ground: Any = Ground()
    user = MachineUser(ground, 0, ("default",))
    user._mine.append(5)
    script = user._see_work_go_on()
    answers = [Reply(200, {"budgets": [{"id": 1}]}), Reply(0), Reply(200, {"budgets": []})]
    requests = [next(script)]
    while answers:
        requests.append(script.send(answers.pop(0) if isinstance(requests[-1], Call) else Reply(0)))
    calls = [call.path for call in requests if isinstance(call, Call)]
    assert calls == [*["/api/v1/budgets"] * 3, "/api/v1/experiments/5"]
    assert not user.is_done, "the world goes on until it is"


def test_world_continues_until_sleeping_users_are_done(hosts: Hosts) -> None:
    """In seed 9 of gangs a user slept for 500 s while its work was paused, and the world ended too early."""
    world = MachineWorld(1, hosts)
    world._demand_ended_s = -1e6
    world.users = [user := MachineUser(world, 0, ("default",))]
    assert not world._is_over()
    user.is_done = True
    assert world._is_over()
