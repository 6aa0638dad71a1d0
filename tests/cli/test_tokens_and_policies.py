"""`det token`, `det config-policies` and `det audit` against the real API."""

import json
from pathlib import Path

import pytest
import yaml

from tests.cli.conftest import Det
from tests.support.api import PASSWORD, Api, create

POLICIES = """\
constraints:
  resources:
    max_slots: 4
  priority_limit: 10
invariant_config:
  max_restarts: 3
"""


@pytest.fixture
def api(served_api: Api) -> Api:
    return served_api


@pytest.fixture
def as_user(api: Api, det: Det, monkeypatch: pytest.MonkeyPatch) -> Det:
    """Return `det` with a password, so that `-u` can name any user."""
    monkeypatch.setenv("DET_PASS", PASSWORD)
    return det


def token_ids(det: Det, *options: str) -> list[int]:
    return [t["id"] for t in json.loads(det(*options, "--json").out)]


def test_token_is_valid_until_revoked(
    api: Api, as_user: Det, monkeypatch: pytest.MonkeyPatch
) -> None:
    response = as_user("-u", "determined", "token", "create", "-e", 2, "-d", "nightly")
    assert response.code == 0, response.err
    assert "It is not shown again" in response.err
    token, (id,) = response.out.strip(), token_ids(as_user, "-u", "determined", "tkn", "ls")
    assert "nightly" in as_user("-u", "determined", "token", "describe", id).out
    monkeypatch.setenv("DET_USER_TOKEN", token)
    assert "'determined'" in as_user("user", "whoami").out
    monkeypatch.delenv("DET_USER_TOKEN")
    assert as_user("-u", "determined", "token", "revoke", id).code == 0
    monkeypatch.setenv("DET_USER_TOKEN", token)
    assert as_user("user", "whoami").code == 4


def test_revoked_token_is_listed_with_show_inactive(api: Api, as_user: Det) -> None:
    response = as_user("-u", "admin", "token", "create", "determined", "-e", -1, "--json")
    id = json.loads(response.out)["tokenId"]
    assert "never" in as_user("-u", "admin", "token", "list", "determined").out
    as_user("-u", "admin", "token", "revoke", id)
    assert token_ids(as_user, "-u", "admin", "token", "list") == []
    assert token_ids(as_user, "-u", "admin", "token", "list", "--show-inactive") == [id]


def test_token_edit_and_unknown_tokens(api: Api, as_user: Det) -> None:
    as_user("-u", "determined", "token", "create")
    (id,) = token_ids(as_user, "-u", "determined", "token", "list")
    response = as_user("-u", "determined", "token", "edit", id, "-d", "weekly")
    assert "weekly" in response.out
    missing = as_user("-u", "determined", "token", "describe", id, id + 1)
    assert (missing.code, f"token {id + 1} not found" in missing.err) == (3, True)
    assert as_user("-u", "determined", "token", "list", "nobody").code == 3
    assert as_user("-u", "determined", "token", "create", "-e", 0).code == 2
    long = as_user("-u", "determined", "token", "create", "-e", 999_999_999_999)
    assert (long.code, "more than the limit of 30 days: ask for less" in long.err) == (1, True)


def test_sessions_are_listed_and_ended(api: Api, as_user: Det) -> None:
    second, third = api.signed_in("determined"), api.signed_in("determined")
    own, *others = json.loads(as_user("-u", "determined", "user", "list-sessions", "--json").out)
    assert (own["current"], own["program"].startswith("Determined client")) == (True, True)
    assert [o["current"] for o in others] == [False, False]
    response = as_user("-u", "determined", "user", "end-session", others[0]["id"])
    assert response.out == f"Ended session {others[0]['id']}\n"
    assert (third.ask("GET", "/api/v1/me").status, second.ask("GET", "/api/v1/me").status) == (
        401,
        200,
    )
    assert as_user("-u", "determined", "user", "end-session", "--others").out == "Ended 1 session\n"
    assert second.ask("GET", "/api/v1/me").status == 401
    assert "say which sessions to end" in as_user("-u", "determined", "user", "end-session").err
    answer = as_user("-u", "determined", "user", "list-sessions", "--of", "admin")
    assert "only an administrator may see where another user is signed in" in answer.err


def test_token_login_stores_the_token(
    api: Api, as_user: Det, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = as_user("-u", "admin", "token", "create").out.strip()
    monkeypatch.delenv("DET_PASS")
    assert as_user("token", "login", token).code == 0
    assert "'admin'" in as_user("user", "whoami").out
    response = as_user("token", "login", "nonsense")
    assert (response.code, "unknown or has expired" in response.err) == (4, True)


@pytest.mark.parametrize("scope", [[], ["-w", "Uncategorized"]])
def test_policies_are_set_enforced_described_and_deleted(
    api: Api, as_user: Det, tmp_path: Path, scope: list[str]
) -> None:
    file = tmp_path / "policies.yaml"
    file.write_text(POLICIES)
    admin = ("-u", "admin", "config-policies")
    result = as_user(*admin, "set", "experiment", file, *scope)
    assert result.code == 0, result.err
    output = as_user("-u", "admin", "cp", "describe", "experiment", *scope).out
    assert yaml.safe_load(output) == yaml.safe_load(POLICIES)
    user = api.signed_in("determined")
    experiment = user.get(f"/api/v1/experiments/{create(user, max_restarts=1)}")
    assert experiment["config"]["max_restarts"] == 3
    assert as_user(*admin, "delete", "experiment", *scope).code == 0
    response = as_user(*admin, "describe", "experiment", "--json", *scope)
    assert json.loads(response.out) == {}


def test_invalid_policies_are_rejected(api: Api, as_user: Det, tmp_path: Path) -> None:
    file = tmp_path / "policies.yaml"
    file.write_text(POLICIES)
    response = as_user("-u", "admin", "cp", "set", "tasks", file)
    assert (response.code, "tasks can only have constraints" in response.err) == (1, True)
    unknown = as_user("-u", "admin", "cp", "set", "experiment", file, "-w", "nowhere")
    assert (unknown.code, "there is no workspace 'nowhere'" in unknown.err) == (3, True)


def test_audit_log_is_listed_and_exported(api: Api, as_user: Det) -> None:
    experiment_id = create(api.signed_in("determined"), name="first")
    response = as_user("-u", "admin", "audit", "list", "--object", f"experiment {experiment_id}")
    assert response.code == 0, response.err
    assert "experiment.create" in response.out
    assert "determined" in response.out
    lines = as_user("-u", "admin", "audit", "export", "--action", "auth.login").out.splitlines()
    assert {json.loads(line)["username"] for line in lines} == {"determined", "admin"}
    ids = [json.loads(line)["id"] for line in lines]
    assert ids == sorted(ids)
    (newest,) = json.loads(as_user("-u", "admin", "audit", "--limit", 1, "--json").out)
    assert newest["action"] == "auth.login"
    assert as_user("-u", "admin", "audit", "list", "--user", "nobody", "--csv").out.count("\n") == 1


def test_audit_log_requires_administrator(api: Api, as_user: Det) -> None:
    response = as_user("-u", "determined", "audit", "list")
    assert (response.code, "only an administrator" in response.err) == (4, True)
