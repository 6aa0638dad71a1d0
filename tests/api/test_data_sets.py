"""Experiments with data sets: the agents that hold them are preferred, and `det why` says so."""

import uuid
from typing import Any

import pytest

from tests.support.api import Api, Caller, create

SOURCE = "s3://bucket/train"
DATA = [{"source": SOURCE, "at": "/data"}]


class PolledAgent:
    def __init__(self, api: Api, id: str) -> None:
        self.api, self.incarnation, self.seq = api, str(uuid.uuid4()), 0
        body = {
            "agent_id": id, "agent_key": f"key of {id}", "incarnation": self.incarnation, "runtime": "process",
            "slots": [{"id": 0, "type": "cpu"}], "proof": {"kind": "bootstrap_token", "token": api.ctx.bootstrap_token},
        }  # fmt: skip
        self.token = api.anonymous().post("/agents/v1/join", body)["agent_token"]

    def poll(self, containers: Any = (), **more: Any) -> list[dict[str, Any]]:
        self.seq += 1
        body = {"incarnation": self.incarnation, "seq": self.seq, "containers": list(containers)}
        answer = self.api.with_token(self.token).post("/agents/v1/poll", body | more)
        orders: list[dict[str, Any]] = answer["containers"]
        return orders


def cache(size: int = 40_000_000_000, **more: Any) -> dict[str, Any]:
    held = {"source": SOURCE, "bytes": size, "total": size, "in_use": False, **more}
    return {"size_bytes": 100_000_000_000, "used_bytes": size, "sets": [held]}


@pytest.mark.parametrize("holder", ["a", "b", "c"])
def test_trial_starts_on_the_agent_that_holds_its_data(api: Api, user: Caller, holder: str) -> None:
    agents = {id: PolledAgent(api, id) for id in "abc"}
    agents[holder].poll(data_cache=cache())
    id = create(user, activate=True, data=DATA)
    api.tick()
    (order,) = agents[holder].poll()
    assert order["spec"]["data_sets"] == [{"source": SOURCE, "at": "/data", "mode": "cached"}]
    (reason,) = user.get(f"/api/v1/why/experiment/{id}")["reasons"]
    because = f"{holder} was chosen because it holds {SOURCE} (40 GB)"
    assert reason["sentence"].endswith(because)
    (trial,) = user.get(f"/api/v1/experiments/{id}/trials")["trials"]
    assert because in str(user.lines(f"/api/v1/trials/{trial['id']}/logs"))


def test_agent_shows_its_cache_until_it_reports_another(api: Api, user: Caller) -> None:
    agent = PolledAgent(api, "a")
    assert user.get("/api/v1/agents/a")["agent"]["dataCache"] is None
    agent.poll(data_cache=cache(7))
    agent.poll()
    shown = user.get("/api/v1/agents/a")["agent"]["dataCache"]
    assert shown["usedBytes"] == 7
    assert shown["sets"] == [{"source": SOURCE, "bytes": 7, "total": 7, "in_use": False}]
    agent.poll(data_cache={"size_bytes": 9, "used_bytes": 0})
    assert user.get("/api/v1/agents/a")["agent"]["dataCache"]["sets"] == []


def test_late_poll_does_not_replace_a_newer_report(api: Api, user: Caller) -> None:
    agent = PolledAgent(api, "a")
    agent.seq = 5
    agent.poll(data_cache=cache(8))
    agent.seq = 2
    agent.poll(data_cache=cache(7))
    assert user.get("/api/v1/agents/a")["agent"]["dataCache"]["usedBytes"] == 8


def test_reports_are_bounded(api: Api) -> None:
    agent = PolledAgent(api, "a")
    sets = [{"source": SOURCE, "bytes": 1, "total": 1}] * 65
    with pytest.raises(Exception, match="more than 64 entries"):
        agent.poll(data_cache={"sets": sets})
    with pytest.raises(Exception, match="must not be negative"):
        agent.poll(data_cache={"size_bytes": -1})


def test_start_has_a_phase_for_the_data(api: Api, user: Caller) -> None:
    agent = PolledAgent(api, "a")
    id = create(user, activate=True, data=DATA)
    api.tick()
    (order,) = agent.poll()
    state = {"id": order["id"], "epoch": order["epoch"]}
    agent.poll([state | {"state": "pulling"}])
    agent.poll([state | {"state": "starting"}])
    sentence = user.get(f"/api/v1/why/experiment/{id}")["reasons"][0]["sentence"]
    assert sentence == "loads its data sets on a"
    agent.poll([state | {"state": "running", "data_s": 28.5}])
    (trial,) = user.get(f"/api/v1/experiments/{id}/trials")["trials"]
    start = user.get(f"/api/v1/trials/{trial['id']}/start")["start"]
    names = [phase["name"] for phase in start["phases"]]
    assert names == ["decision", "image", "data", "container"]


def test_dry_run_refuses_bad_data_sets(api: Api, user: Caller) -> None:
    with pytest.raises(Exception, match="must be an absolute path"):
        create(user, data=[{"source": SOURCE, "at": "data"}])
