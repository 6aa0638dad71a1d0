"""Every change leaves an append-only audit entry: user, action, object, time and address."""

import json
import logging
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

import pytest
from det_controlplane.api import routes
from det_controlplane.api.app import audit_object
from det_controlplane.api.http import STRANGERS_BODY, Request, Response
from det_controlplane.api.router import Match, Router
from det_controlplane.core.config.cluster import load_cluster
from det_controlplane.core.problems import InvalidConfig
from det_controlplane.db.cluster import audit as audit_rows
from det_controlplane.db.engine.errors import QueryFailed, TryAgain
from det_controlplane.services.identity import sign_in
from det_controlplane.services.identity.sign_in import FREE_ATTEMPTS
from det_controlplane.services.logs.master_log import StoredLog
from det_controlplane.services.organization import audit_listing as listing
from det_controlplane.services.recorder import Recorder
from sqlalchemy import text

from tests.support.api import PASSWORD, Api, Caller, create
from tests.support.played_agent import PlayedAgent, task_of
from tests.support.statements import statements
from tests.support.stock_asker import World
from tests.support.stock_catalog import catalog
from tests.support.stock_world import build

CHANGING = [r for r in routes.every() if r.method not in ("GET", "HEAD")]
# Requests that have no effect in this test and therefore leave no audit entry.
NOTHING_TO_DO = {
    "PATCH /api/v1/users/assignments", "POST /api/v1/cleanup_logs", "POST /api/v1/runs/delete",
    "POST /api/v1/runs/pause", "POST /api/v1/runs/resume",
}  # fmt: skip


def entries(admin: Caller, **query: object) -> list[dict[str, Any]]:
    stored_entries: list[dict[str, Any]] = admin.get("/api/v1/audit", **query)["entries"]
    return stored_entries


def count(api: Api) -> int:
    return int(api.ctx.db.read(text("SELECT count(*) FROM audit_log"))[0][0])


def test_every_changing_route_has_an_audit_action_or_an_exemption() -> None:
    assert [f"{r.method} {r.path}" for r in CHANGING if r.audit is None] == []


def test_audit_actions_distinguish_routes() -> None:
    actions = [r.audit for r in CHANGING if isinstance(r.audit, str)]
    assert len(actions) > 100
    # Edits of users and ends of sessions each have two routes; the object says whether one or several are meant.
    assert len(actions) - len(set(actions)) == 2


@pytest.mark.parametrize(
    ("method", "path", "action"),
    [
        ("POST", "/api/v1/users", "user.create"),
        ("PATCH", "/api/v1/users/{userId}", "user.edit"),
        ("POST", "/api/v1/experiments/{id}/kill", "experiment.kill"),
        ("DELETE", "/api/v1/experiments/{experimentId}", "experiment.delete"),
        ("PUT", "/api/v1/experiments/{experimentId}/labels/{label}", "experiment.labels.set"),
        ("POST", "/api/v1/auth/login", "auth.login"),
    ],
)
def test_audit_actions_have_the_expected_names(method: str, path: str, action: str) -> None:
    (route,) = (r for r in CHANGING if (r.method, r.path) == (method, path))
    assert route.audit == action


def test_audit_object_is_derived_from_the_path() -> None:
    path = "/api/v1/models/{modelName}/versions/{modelVersionNum}"
    object_name = audit_object(path, {"modelName": "digits", "modelVersionNum": "3"})
    assert object_name == "model digits version 3"
    assert audit_object("/api/v1/users", {}) == ""


@dataclass
class Watched(World):
    """Notes which routes were answered, and which of them left a row."""

    answered: set[str] = field(default_factory=set)
    told_of: set[str] = field(default_factory=set)
    router: Router = field(default_factory=lambda: Router(routes.every()))

    def _answer(self, name: str, url: str, body: Any, query: dict[str, list[str]]) -> Any:
        method = self.catalog.calls[name].method
        before = count(self.api)
        answer = super()._answer(name, url, body, query)
        match = self.router.match(method, url)
        assert isinstance(match, Match)
        route = f"{match.route.method} {match.route.path}"
        self.answered.add(route)
        if count(self.api) > before:
            self.told_of.add(route)
        return answer


def test_every_change_by_the_stock_client_leaves_a_row(api: Api, admin: Caller) -> None:
    world = Watched(api, catalog(), admin, PlayedAgent(api, "a1"))
    build(world)
    changing = {r for r in world.answered if not r.startswith("GET ")}
    actions = {f"{r.method} {r.path}": r.audit for r in CHANGING}
    recorded_actions = {name for name in changing if isinstance(actions[name], str)}
    assert len(recorded_actions) > 60
    assert recorded_actions - world.told_of == NOTHING_TO_DO
    assert world.told_of <= recorded_actions


def test_audit_entry_has_user_action_object_and_address(api: Api, admin: Caller) -> None:
    ada = {"user": {"username": "ada", "active": True}, "password": "a planted secret"}
    user_id = admin.post("/api/v1/users", ada)["user"]["id"]
    request = Request(
        "PATCH", f"/api/v1/users/{user_id}", body=b'{"displayName": "Ada", "password": "planted 2"}',
        headers={"authorization": f"Bearer {admin.token}"}, client="192.0.2.7",
    )  # fmt: skip
    answer = api.app.handle(request)
    assert isinstance(answer, Response)
    assert answer.status == 200
    edit, creation = entries(admin, orderBy="ORDER_BY_DESC", object=f"user {user_id}")
    assert {k: edit[k] for k in ("username", "action", "object", "address", "via", "details")} == {
        "username": "admin", "action": "user.edit", "object": f"user {user_id}", "address": "192.0.2.7",
        "via": "user", "details": {"displayName": "Ada", "password": "new"},
    }  # fmt: skip
    assert creation["details"] == {
        "user": {"username": "ada", "active": True}, "password": "new",
    }  # fmt: skip
    assert "planted" not in json.dumps(entries(admin, limit=-1))


def test_audit_entries_distinguish_sessions_tokens_and_tasks(
    api: Api, user: Caller, admin: Caller
) -> None:
    me = user.get("/api/v1/me")["user"]["id"]
    token = user.post("/api/v1/tokens", {"userId": me, "description": "ci"})
    program = api.with_token(token["token"])
    experiment_id = create(program)
    (row,) = entries(admin, object=f"experiment {experiment_id}")
    assert (row["username"], row["via"], row["action"]) == (
        "determined", "access", "experiment.create",
    )  # fmt: skip
    assert row["sessionId"] == token["tokenId"]
    task, _ = task_of(api, user)
    (row,) = entries(admin, object=f"experiment {create(task)}")
    assert (row["username"], row["via"]) == ("determined", "allocation")
    (creation,) = entries(admin, object=f"token {token['tokenId']}")
    assert creation["details"]["description"] == "ci"


def test_junk_fields_do_not_hide_a_change(api: Api, user: Caller, admin: Caller) -> None:
    me = user.get("/api/v1/me")["user"]["id"]
    junk = {"a": "x" * 2 * STRANGERS_BODY, **{f"a{i}": 0 for i in range(100)}}
    admin.done("PATCH", f"/api/v1/users/{me}", {"password": "a new one", "admin": True, **junk})
    (edit,) = entries(admin, object=f"user {me}", action="user.edit")
    assert (edit["details"]["password"], edit["details"]["admin"]) == ("new", True)
    many = {"user_ids": [{}] * 2000 + [me], "activate": True, **junk}
    admin.done("PATCH", "/api/v1/users", many)
    _, activated = entries(admin, object=f"user {me}", action="user.edit")
    assert activated["details"]["userIds"] == [me]


def test_audit_records_every_assigned_role_and_member(api: Api, admin: Caller) -> None:
    users = [
        admin.post("/api/v1/users", {"user": {"username": f"user-{i}"}})["user"]["id"]
        for i in range(60)
    ]
    role = {"role": {"role_id": 4}, "scope_cluster": True}
    assignments = [{"user_id": id, "role_assignment": role} for id in users]
    for path in ("add-assignments", "remove-assignments"):
        admin.post(f"/api/v1/roles/{path}", {"user_role_assignments": assignments})
        (row,) = entries(admin, object=f"user {users[0]}", action=f"role.{path}")
        assert len(row["details"]["assignments"]) == 60
        assert f"of user {users[-1]} in the cluster" in row["details"]["assignments"][-1]
    group = admin.post("/api/v1/groups", {"name": "all", "add_users": users})["group"]["groupId"]
    (creation,) = entries(admin, object=f"group {group}", action="group.create")
    assert (creation["details"]["addUsers"], creation["details"]["name"]) == (users, "all")
    body = {"user_ids": users[:1], "remove_groups": [group]}
    admin.done("PATCH", "/api/v1/users/assignments", body)
    (row,) = entries(admin, object=f"user {users[0]} group {group}")
    assert row["details"] == {"userIds": users[:1], "removeGroups": [group]}


def test_rejects_bulk_changes_too_large_for_an_audit_entry(api: Api, admin: Caller) -> None:
    many = {"name": "all", "addUsers": list(range(2000))}
    response = admin.ask("POST", "/api/v1/groups", many)
    assert (response.status, "1000 are recorded at once" in response.error) == (400, True)


def test_successful_sign_in_is_recorded_and_a_failed_one_is_not(api: Api, admin: Caller) -> None:
    body = {"username": "determined", "password": "wrong", "isHashed": False}
    assert api.anonymous().ask("POST", "/api/v1/auth/login", body).status == 401
    assert entries(admin, username="determined") == []
    api.signed_in("determined")
    (row,) = entries(admin, username="determined")
    assert (row["action"], row["via"]) == ("auth.login", "sign-in")
    assert PASSWORD not in json.dumps(row)


def fail_to_sign_in(api: Api, username: str) -> None:
    body = {"username": username, "password": "a guess", "isHashed": False}
    for _ in range(FREE_ATTEMPTS):
        assert api.anonymous().ask("POST", "/api/v1/auth/login", body).status == 401


def test_change_is_rolled_back_if_its_audit_entry_fails(
    api: Api, admin: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any, **__: Any) -> bool:
        raise RuntimeError("the disk is full")

    before = count(api)
    with monkeypatch.context() as patched:
        patched.setattr(audit_rows, "add", full)
        response = admin.ask("POST", "/api/v1/users", {"user": {"username": "eve", "active": True}})
    assert response.status == 500
    assert count(api) == before
    assert admin.ask("GET", "/api/v1/users/eve/by-username").status == 404


def test_repeated_failed_sign_ins_are_recorded_once(api: Api, admin: Caller) -> None:
    fail_to_sign_in(api, "determined")
    body = {"username": "determined", "password": "a guess", "isHashed": False}
    assert api.anonymous().ask("POST", "/api/v1/auth/login", body).status == 403
    (row,) = entries(admin, username="determined")
    assert (row["action"], row["details"]) == ("auth.refused", {"attempts": FREE_ATTEMPTS})
    assert "a guess" not in json.dumps(row)


def test_unauthenticated_requests_write_few_audit_entries(
    api: Api, admin: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sign_in, "MOST_REFUSALS", 2)
    for name in ("determined", "nobody", "no-one"):
        fail_to_sign_in(api, name)
    rows = entries(admin, action="auth.refused")
    assert {row["username"] for row in rows} == {"determined", "nobody"}


def test_rejected_requests_leave_no_audit_entry(api: Api, user: Caller, admin: Caller) -> None:
    before = count(api)
    assert user.ask("POST", "/api/v1/users", {"user": {"username": "eve"}}).status == 403
    assert admin.ask("POST", "/api/v1/users", {"user": {"username": "Determined"}}).status == 409
    assert user.ask("DELETE", "/api/v1/experiments/999").status == 404
    assert count(api) == before


def test_audit_entries_cannot_be_changed_or_deleted(api: Api, admin: Caller) -> None:
    for tampering in (
        "UPDATE audit_log SET username = 'eve'", "DELETE FROM audit_log", "TRUNCATE audit_log",
    ):  # fmt: skip
        with pytest.raises(QueryFailed, match="only grows"), api.ctx.db.begin() as tx:
            tx.execute(text(tampering))
    assert [e["username"] for e in entries(admin)] == ["admin"]


def test_expired_audit_entries_are_deleted(api: Api, admin: Caller) -> None:
    now = api.ctx.now()
    api.ctx.now = lambda: now - timedelta(days=100)
    api.signed_in("determined")
    api.ctx.now = lambda: now
    listing.forget_old(api.ctx)
    assert len(entries(admin)) == 2
    api.ctx.config = replace(api.ctx.config, audit_retention_days=90)
    listing.forget_old(api.ctx)
    assert [e["username"] for e in entries(admin)] == ["admin"]


def test_rejects_short_audit_retention() -> None:
    with pytest.raises(InvalidConfig, match="must be 30 at least"):
        load_cluster({"security": {"audit_retention_days": 7}})


def test_only_administrators_read_the_audit_log(user: Caller) -> None:
    response = user.ask("GET", "/api/v1/audit")
    assert response.status == 403


def test_audit_log_can_be_filtered(api: Api, admin: Caller, user: Caller) -> None:
    first, second = create(user), create(user)
    user.post(f"/api/v1/experiments/{first}/kill")
    acts = [e["action"] for e in entries(admin, object=f"experiment {first}")]
    assert acts == ["experiment.create", "experiment.kill"]
    assert [e["object"] for e in entries(admin, action="experiment.create")] == [
        f"experiment {first}", f"experiment {second}",
    ]  # fmt: skip
    assert len(entries(admin, action="experiment")) == 3
    assert entries(admin, action="experiment", since="2100-01-01") == []
    assert len(entries(admin, action="experiment", since="1h")) == 3
    assert entries(admin, until="2020-01-01T00:00:00Z") == []
    assert admin.ask("GET", "/api/v1/audit", query={"since": ["x"]}).status == 400


def test_audit_costs_one_statement_for_changes_and_none_for_reads(api: Api, user: Caller) -> None:
    experiment_id = create(user)
    with statements(api.ctx.db) as queries:
        user.get(f"/api/v1/experiments/{experiment_id}")
    assert [s for s in queries if "audit_log" in s] == []
    with statements(api.ctx.db) as queries:
        user.post(f"/api/v1/experiments/{experiment_id}/kill")
    assert len([s for s in queries if "audit_log" in s]) == 1


@pytest.mark.parametrize(("error", "rows"), [(None, 1), (TryAgain("deadlock"), 0)])
def test_stored_log_line_adds_no_audit_entry(
    api: Api, user: Caller, error: Exception | None, rows: int
) -> None:
    before, log = count(api), StoredLog(api.ctx.db)
    line = logging.LogRecord("det", logging.ERROR, "", 0, "a line", (), None)
    ids = api.ctx.db.read(text("SELECT id FROM users WHERE username = 'determined'"))
    recorder = Recorder(api.ctx.now, "pool.create", "", "", None, signed_in=ids[0][0])
    with suppress(TryAgain), api.ctx.with_recorder(recorder).db.begin() as tx:
        tx.execute(text("INSERT INTO pools (name) VALUES ('another')"))
        log.handle(line)
        if error is not None:
            raise error
    assert api.ctx.db.read(text("SELECT count(*) FROM master_logs"))[0][0] == 1
    assert count(api) - before == rows
