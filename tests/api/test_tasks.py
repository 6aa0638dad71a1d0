"""Tasks as the API shows them."""

from dataclasses import replace

from det_controlplane.core.config.pools import Scheduler

from tests.support.api import Api, Caller, create
from tests.support.played_agent import PlayedAgent


def test_live_tasks_tell_the_scheduler_of_their_pool(api: Api, user: Caller) -> None:
    def shown() -> list[tuple[str, int]]:
        tasks = user.get("/api/v1/tasks")["allocationIdToSummary"].values()
        return [(task["schedulerType"], task["priority"]) for task in tasks]

    default, *others = api.ctx.config.resource_pools
    fair = replace(default, scheduler=Scheduler("fair_share", default_priority=7))
    api.ctx.config = replace(api.ctx.config, resource_pools=(fair, *others))
    create(user, activate=True)
    assert shown() == [("fair_share", 7)]
    api.ctx.config = replace(api.ctx.config, resource_pools=(default, *others))
    assert shown() == [("priority", 42)]


def test_a_task_tells_the_devices_that_its_containers_have(api: Api, user: Caller) -> None:
    experiment_id = create(user, activate=True)
    agent = PlayedAgent(api, "gpus")
    agent.join()
    api.tick()
    (container,) = agent.poll()
    task = user.get(f"/api/v1/experiments/{experiment_id}/trials")["trials"][0]["taskId"]
    (device,) = user.get(f"/api/v1/tasks/{task}/acceleratorData")["acceleratorData"]
    assert (device["containerId"], device["nodeName"]) == (container["id"], "gpus")
    assert (device["acceleratorType"], len(device["acceleratorUuids"])) == ("A100", 1)
    assert user.ask("GET", "/api/v1/tasks/none/acceleratorData").status == 404
