"""`det pool`, `det pool access` and `det agent move`."""

# ruff: noqa: E501 – the lines of the expected tables are long

from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cli.conftest import Det
from tests.support.fake_api import Refusal
from tests.support.fake_cluster import FakeCluster

OPEN = {"restricted": False, "users": [], "groups": []}
LISTED = """\
 Name    | Source        |   Agents | Slots (used/total)   |   Queued Jobs | Machines   |   $/hour | Access                    | State
---------+---------------+----------+----------------------+---------------+------------+----------+---------------------------+---------------------------------------
 default | configuration |        2 | 3/4                  |             0 |            |          | open                      | ready
 gpu     | database      |        2 | 3/4                  |             0 | 1 (0-8)    |     0.36 | restricted: @vision, rita | held by admin
 old     | database      |        2 | 3/4                  |             0 |            |          | restricted: administrators | is deleted when its work has ended
"""


def pool(name: str = "gpu", **more: Any) -> dict[str, Any]:
    facts = {"name": name, "source": "database", "kind": "static", "state": "ready", "problem": ""}
    use = {"agents": 2, "usedSlots": 3, "slots": 4, "queuedJobs": 0}
    other = {
        "access": OPEN,
        "ignoresEntry": False,
        "notices": [],
        "rented": None,
        "settings": {"pool_name": name},
        "agentsTo": "default",
    }
    return {**facts, **use, **other, "minInstances": None, "maxInstances": None, **more}


@pytest.fixture
def pools(cluster: FakeCluster) -> FakeCluster:
    cluster.on("GET", "/api/v1/rented-pools", {"pools": []})
    cluster.on("GET", "/api/v1/pools/gpu", {"pool": pool()})
    cluster.on("POST", "/api/v1/pools", {"pool": pool()})
    for method in ("PUT", "PATCH"):
        cluster.on(method, "/api/v1/pools/gpu", {"pool": pool()})
    return cluster


def test_list_shows_source_access_and_state_of_every_pool(pools: FakeCluster, det: Det) -> None:
    restricted = {"restricted": True, "users": ["rita"], "groups": ["vision"]}
    rented: dict[str, Any] = {
        "kind": "rented",
        "minInstances": 0,
        "maxInstances": 8,
        "access": restricted,
    }
    hold = {
        "name": "gpu",
        "instances": 1,
        "priceUsdHour": 0.3622,
        "hold": {"sentence": "held by admin"},
    }
    pools.on("GET", "/api/v1/rented-pools", {"pools": [hold]})
    leaving = {"state": "leaving", "access": {**restricted, "users": [], "groups": []}}
    every = [pool("default", source="configuration"), pool(**rented), pool("old", **leaving)]
    pools.on("GET", "/api/v1/pools", {"pools": every})
    rows = det("pool", "list").out.splitlines()
    assert [line.split() for line in rows[2:]] == [line.split() for line in LISTED.splitlines()[2:]]
    assert rows[0].split() == LISTED.splitlines()[0].split()


def test_list_tells_that_agents_of_a_leaving_pool_need_another(
    pools: FakeCluster, det: Det
) -> None:
    lab = pool("lab", state="leaving", agents=1, kind="static", agentsTo=None)
    pools.on("GET", "/api/v1/pools", {"pools": [lab]})
    assert "`det pool delete lab --drain --agents-to POOL`" in det("pool", "list").out
    lab["agentsTo"] = "default"
    assert "--agents-to" not in det("pool", "list").out


def test_a_missing_group_is_looked_up_among_groups(pools: FakeCluster, det: Det) -> None:
    def refuse(_: object) -> object:
        raise Refusal(404, "group 'x' not found")

    pools.on("POST", "/api/v1/pools/gpu/access", refuse)
    err = det("pool", "access", "grant", "gpu", "--group", "x").err
    assert "`det user-group list`" in err


def test_list_names_entries_that_are_ignored(pools: FakeCluster, det: Det) -> None:
    pools.on("GET", "/api/v1/pools", {"pools": [pool(ignoresEntry=True)]})
    assert "its entry in the cluster configuration is ignored" in det("pool", "list").err


def test_create_sends_the_options_as_settings(pools: FakeCluster, det: Det) -> None:
    options = (
        "--provider",
        "aws",
        "--region",
        "us-east-1",
        "--instance-type",
        "g5.xlarge",
        "--spot",
        "--max-instances",
        "4",
    )
    result = det(
        "pool",
        "create",
        "gpu",
        *options,
        "--set",
        "scheduler.type=fair_share",
        "--description",
        "d",
    )
    assert result.code == 0, result.err
    (request,) = pools.sent("POST", "/api/v1/pools")
    provider = {
        "type": "aws",
        "regions": ["us-east-1"],
        "instance_types": ["g5.xlarge"],
        "spot": True,
        "max_instances": 4,
    }
    settings = {
        "pool_name": "gpu",
        "scheduler": {"type": "fair_share"},
        "description": "d",
        "provider": provider,
    }
    assert request.body == {"settings": settings, "validateOnly": False}


def test_create_reads_a_file_and_options_override_it(
    pools: FakeCluster, det: Det, tmp_path: Path
) -> None:
    file = tmp_path / "pool.yaml"
    file.write_text(
        yaml.safe_dump({"pool_name": "gpu", "offers": [{"type": "aws"}], "max_instances": 2})
    )
    assert det("pool", "create", "--config", str(file), "--max-instances", "3").code == 0
    (request,) = pools.sent("POST", "/api/v1/pools")
    assert request.body["settings"] == {
        "pool_name": "gpu",
        "offers": [{"type": "aws"}],
        "max_instances": 3,
    }


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("create",), "a pool needs a name"),
        (("update", "gpu"), "nothing to change"),
        (("default", "gpu"), "--compute, --aux or both"),
        (("create", "gpu", "--set", "wibble"), "--set 'wibble' is not KEY=VALUE"),
        (("update", "gpu", "--unset", "wibble"), "--unset wibble: the pool has no such key"),
        (("update", "gpu", "--unset", "description.x"), "--unset description.x: the pool has no"),
    ],
)
def test_missing_arguments_are_named(
    pools: FakeCluster, det: Det, arguments: tuple[str, ...], message: str
) -> None:
    result = det("pool", *arguments)
    assert (result.code != 0, message in result.err) == (True, True)


def test_a_name_that_differs_from_the_file_is_refused(
    pools: FakeCluster, det: Det, tmp_path: Path
) -> None:
    file = tmp_path / "pool.yaml"
    file.write_text("pool_name: other\n")
    assert "is about pool other, not gpu" in det("pool", "create", "gpu", "--config", str(file)).err


def test_dry_run_prints_the_settings(pools: FakeCluster, det: Det) -> None:
    pools.on("POST", "/api/v1/pools", {"pool": pool(notices=["log_group has no effect here"])})
    result = det("pool", "create", "gpu", "--dry-run")
    assert yaml.safe_load(result.out) == {"pool_name": "gpu"}
    assert "note: log_group has no effect here" in result.err
    assert "Nothing was changed" in result.err


def test_update_changes_single_settings(pools: FakeCluster, det: Det) -> None:
    settings = {"pool_name": "gpu", "description": "old"}
    pools.on("GET", "/api/v1/pools/gpu", {"pool": pool(settings=settings)})
    assert det("pool", "update", "gpu", "--max-instances", "9", "--unset", "description").code == 0
    (request,) = pools.sent("PATCH", "/api/v1/pools/gpu")
    assert request.body["settings"] == {"provider": {"max_instances": 9}, "description": None}


def test_update_puts_sizes_beside_offers(pools: FakeCluster, det: Det) -> None:
    pools.on("GET", "/api/v1/pools/gpu", {"pool": pool(settings={"offers": []})})
    assert det("pool", "update", "gpu", "--max-instances", "9").code == 0
    (request,) = pools.sent("PATCH", "/api/v1/pools/gpu")
    assert request.body["settings"] == {"max_instances": 9}


def test_update_from_a_file_replaces_the_settings(
    pools: FakeCluster, det: Det, tmp_path: Path
) -> None:
    file = tmp_path / "pool.yaml"
    file.write_text("description: new\n")
    rented = {"instances": 2, "offers": [{}]}
    pools.on(
        "PUT", "/api/v1/pools/gpu", {"pool": pool(rented=rented, kind="rented", maxInstances=5)}
    )
    result = det("pool", "update", "gpu", "--config", str(file), "--replace-machines")
    (request,) = pools.sent("PUT", "/api/v1/pools/gpu")
    assert request.body == {
        "settings": {"description": "new"},
        "validateOnly": False,
        "replaceMachines": True,
    }
    assert "2 machines: idle ones end now, busy ones after their work" in result.err


def test_delete_asks_first_and_tells_when_work_is_left(pools: FakeCluster, det: Det) -> None:
    pools.on("DELETE", "/api/v1/pools/gpu", {"completed": False})
    assert det("pool", "delete", "gpu").code != 0
    result = det("pool", "delete", "gpu", "--drain", "--agents-to", "default", "--yes")
    (request,) = pools.sent("DELETE", "/api/v1/pools/gpu")
    assert (request.first("drain"), request.first("agentsTo")) == ("true", "default")
    assert "deleted when its queued and running work has ended" in result.err


def test_a_deletion_is_called_off(pools: FakeCluster, det: Det) -> None:
    pools.on("POST", "/api/v1/pools/gpu/keep", {"pool": pool()})
    assert "stays" in det("pool", "delete", "gpu", "--cancel").err


def test_adopt_release_and_default_are_sent(pools: FakeCluster, det: Det) -> None:
    pools.on("POST", "/api/v1/pools/gpu/(adopt|release)", {"pool": pool()})
    pools.on("PUT", "/api/v1/pools/gpu/default", {"pool": pool()})
    assert "entry in the cluster configuration is ignored" in det("pool", "adopt", "gpu").err
    assert det("pool", "release", "gpu").code == 0
    assert det("pool", "default", "gpu", "--aux").code == 0
    (request,) = pools.sent("PUT", "/api/v1/pools/gpu/default")
    assert request.body == {"compute": False, "aux": True}


def test_access_is_granted_revoked_listed_and_opened(pools: FakeCluster, det: Det) -> None:
    access = {"restricted": True, "users": ["rita"], "groups": ["vision"]}
    path = "/api/v1/pools/gpu/access"
    pools.on("POST", path, {"access": access})
    pools.on("GET", path, {"access": access})
    pools.on("POST", f"{path}/revoke", {"access": {**access, "users": [], "groups": []}})
    pools.on("DELETE", path, {"access": OPEN})
    result = det("pool", "access", "grant", "gpu", "--user", "rita", "--group", "vision")
    assert "restricted: @vision, rita" in result.err
    (request,) = pools.sent("POST", path)
    assert request.body == {"users": ["rita"], "groups": ["vision"]}
    assert [
        line.split()[-1] for line in det("pool", "access", "list", "gpu").out.splitlines()[2:]
    ] == ["vision", "rita"]
    revoked = det("pool", "access", "revoke", "gpu", "--user", "rita", "--group", "vision").err
    assert "Queued and running work stays" in revoked
    assert "det pool access open gpu" in revoked
    assert "Everybody may use pool gpu" in det("pool", "access", "open", "gpu").err


def test_agent_move_tells_when_the_agent_moves(pools: FakeCluster, det: Det) -> None:
    pools.on("POST", "/api/v1/agents/a1/move", {"agent": {"movesTo": "gpu"}})
    result = det("agent", "move", "a1", "gpu", "--preempt")
    (request,) = pools.sent("POST", "/api/v1/agents/a1/move")
    assert request.body == {"pool": "gpu", "preempt": True}
    assert "moves to pool gpu after its work" in result.err
    pools.on("POST", "/api/v1/agents/a1/move", {"agent": {"movesTo": None}})
    assert "is in pool gpu" in det("agent", "move", "a1", "gpu").err


@pytest.mark.parametrize(
    ("moves_to", "expected"),
    [
        (None, "It stays disabled: `det agent enable a1` lets it take work."),
        ("gpu", "It stays disabled: `det agent enable a1` after the move lets it take work."),
    ],
)
def test_move_of_a_disabled_agent_says_that_it_stays_disabled(
    pools: FakeCluster, det: Det, moves_to: "str | None", expected: str
) -> None:
    agent = {"movesTo": moves_to, "disabled": True}
    pools.on("POST", "/api/v1/agents/a1/move", {"agent": agent})
    assert expected in det("agent", "move", "a1", "gpu").err
    pools.on("POST", "/api/v1/agents/a1/move", {"agent": {**agent, "disabled": False}})
    assert "disabled" not in det("agent", "move", "a1", "gpu").err
