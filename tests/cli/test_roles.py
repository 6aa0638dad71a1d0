"""`det rbac` and `det user-group` against the real API."""

import json
from dataclasses import replace

import pytest
from det_controlplane.core.config.cluster import Authz

from tests.cli.conftest import Det
from tests.support.api import Api
from tests.support.house import House


@pytest.fixture
def api(api: Api, monkeypatch: pytest.MonkeyPatch) -> Api:
    api.ctx.config = replace(api.ctx.config, authz=Authz.RBAC)
    monkeypatch.setenv("DET_USER", "admin")
    return api


@pytest.fixture
def house(api: Api) -> House:
    return House(api, api.signed_in("admin"))


def done(det: Det, *words: object) -> str:
    answer = det(*words)
    assert answer.code == 0, answer.err
    return answer.out


def test_role_is_assigned_listed_and_removed(house: House, det: Det) -> None:
    house.person("ada")
    assert "workspace 'red'" in done(det, "rbac", "assign-role", "Editor", "-w", "red", "-u", "ada")
    roles = done(det, "rbac", "list-users-roles", "ada")
    assert "Editor" in roles
    assert "workspace 'red'" in roles
    permissions = done(det, "-u", "ada", "rbac", "my-permissions")
    assert "CREATE_EXPERIMENT" in permissions
    assert "UPDATE_AGENTS" not in permissions
    assert "ada" in done(det, "workspace", "list-members", "red")
    done(det, "rbac", "unassign-role", "editor", "-w", "red", "-u", "ada")
    assert "Editor" not in done(det, "rbac", "list-users-roles", "ada")
    result = det("rbac", "unassign-role", "Editor", "-w", "red", "-u", "ada")
    assert result.code != 0
    assert "not assigned" in result.err


def test_list_roles_and_describe_role(house: House, det: Det) -> None:
    all_roles = {r["name"] for r in json.loads(done(det, "rbac", "list-roles", "--json"))}
    assignable = json.loads(done(det, "rbac", "list-roles", "--exclude-global-roles", "--json"))
    assert all_roles - {r["name"] for r in assignable} == {
        "ClusterAdmin", "WorkspaceCreator", "AgentOperator",
    }  # fmt: skip
    assert "UPDATE_AGENTS" in done(det, "rbac", "describe-role", "AgentOperator")
    result = det("rbac", "describe-role", "King")
    assert "the roles are ClusterAdmin" in result.err


def test_role_assignment_requires_one_user_or_group(house: House, det: Det) -> None:
    for options in ([], ["-u", "determined", "-g", "team"]):
        result = det("rbac", "assign-role", "Viewer", *options)
        assert result.code != 0
        assert "one user or one group" in result.err


def test_group_is_created_changed_and_deleted(house: House, det: Det) -> None:
    for name in ("ada", "grace", "mary"):
        house.person(name)
    done(det, "user-group", "create", "navy", "--add-user", "ada", "--add-user", "grace")
    done(det, "user-group", "add-user", "navy", "mary,determined")
    done(det, "user-group", "remove-user", "navy", "grace")
    document = json.loads(done(det, "user-group", "describe", "navy", "--json"))
    assert [u["username"] for u in document["users"]] == ["determined", "ada", "mary"]
    done(det, "user-group", "change-name", "navy", "army")
    assert "army" in done(det, "user-group", "ls", "--groups-user-belongs-to", "ada")
    assert "army" not in done(det, "user-group", "list", "--groups-user-belongs-to", "grace")
    done(det, "rbac", "assign-role", "Viewer", "-g", "army")
    assert "the whole cluster" in done(det, "rbac", "list-groups-roles", "army")
    assert "group army" in done(det, "rbac", "list-users-roles", "ada")
    assert "red" in done(det, "-u", "ada", "workspace", "list")
    done(det, "user-group", "delete", "army", "--yes")
    assert "red" not in done(det, "-u", "ada", "workspace", "list")
    missing = det("user-group", "describe", "army")
    assert "there is no group 'army'" in missing.err


def test_viewer_lists_users_without_costs(house: House, det: Det) -> None:
    house.person("eda", "Viewer", house.red)
    result = det("-u", "eda", "user", "list", "--json")
    assert result.code == 0, result.err
    assert "eda" in {user["username"] for user in json.loads(result.out)}
    assert "not shown: costs of users: " in result.err
