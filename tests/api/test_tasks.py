"""Tasks as the API shows them."""

import json
from dataclasses import replace

from det_controlplane.core.config.pools import Scheduler

from tests.support.api import Api, Caller, create, create_ended
from tests.support.played_agent import PlayedAgent


def test_live_tasks_have_the_scheduler_of_their_pool(api: Api, user: Caller) -> None:
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


def test_task_has_the_devices_of_its_containers(api: Api, user: Caller) -> None:
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


def test_trial_has_the_proxied_ports_of_its_configuration(user: Caller) -> None:
    ports = [
        {"proxy_port": 8000},
        {"proxy_port": 6006, "proxy_tcp": True, "unauthenticated": True},
        {"proxy_port": 8265, "default_service_id": True},
    ]
    create(user, activate=True, environment={"proxy_ports": ports})
    ((_, task),) = user.get("/api/v1/tasks")["allocationIdToSummary"].items()
    name = task["taskId"]
    assert task["proxyPorts"] == [
        {"port": 8265, "proxyTcp": False, "serviceId": name, "unauthenticated": False},
        {"port": 8000, "proxyTcp": False, "serviceId": f"{name}:8000", "unauthenticated": False},
        {"port": 6006, "proxyTcp": True, "serviceId": f"{name}:6006", "unauthenticated": True},
    ]


def test_continued_trial_has_the_proxied_ports_of_its_new_configuration(
    user: Caller,
) -> None:
    experiment_id = create_ended(user)
    override = {"environment": {"proxy_ports": [{"proxy_port": 7000}]}}
    user.post(
        "/api/v1/experiments/continue",
        {"id": experiment_id, "overrideConfig": json.dumps(override)},
    )
    tasks = user.get("/api/v1/tasks")["allocationIdToSummary"].values()
    assert [[p["port"] for p in task["proxyPorts"]] for task in tasks] == [[7000]]
