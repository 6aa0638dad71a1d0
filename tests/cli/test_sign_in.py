"""Signing in and out, tokens, sessions and passwords of the command line."""

import io
import json
import os
import stat
from pathlib import Path

import pytest
from determined.common import sign_in
from determined.common.token_store import TokenStore

from tests.cli.conftest import Det
from tests.support.api import PASSWORD, Api
from tests.support.fake_api import Refusal
from tests.support.fake_cluster import FakeCluster


def auth_file(home: Path) -> dict[str, object]:
    content: dict[str, object] = json.loads(
        (home / ".config" / "determined" / "auth.json").read_text()
    )
    return content


def test_password_is_sent_as_salted_digest() -> None:
    digest = sign_in.salt_password("Secret123")
    assert len(digest) == 128
    assert digest == sign_in.salt_password("Secret123") != sign_in.salt_password("Secret124")
    assert sign_in.salt_password("") == ""


def test_default_user_signs_in_without_a_session(cluster: FakeCluster, det: Det) -> None:
    result = det("user", "whoami")
    assert (result.code, result.out) == (0, "You are logged in as user 'determined'\n")


def test_second_command_reuses_the_token(cluster: FakeCluster, det: Det) -> None:
    det("user", "whoami")
    det("user", "whoami")
    assert len(cluster.sent("POST", "/api/v1/auth/login")) == 1


def test_login_sets_the_active_user(
    cluster: FakeCluster, det: Det, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DET_PASS", "Lovelace1")
    assert det("user", "login", "ada").code == 0
    monkeypatch.delenv("DET_PASS")
    assert det("user", "whoami").out == "You are logged in as user 'ada'\n"
    masters = auth_file(home)["masters"]
    assert masters[cluster.url]["active_user"] == "ada"  # type: ignore[index]
    assert auth_file(home)["version"] == 2


def test_token_file_is_readable_only_by_its_owner(
    cluster: FakeCluster, det: Det, home: Path
) -> None:
    det("user", "whoami")
    mode = os.stat(home / ".config" / "determined" / "auth.json").st_mode
    assert stat.S_IMODE(mode) == 0o600


def test_wrong_password_error_names_the_next_step(
    cluster: FakeCluster, det: Det, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DET_PASS", "wrong")
    result = det("user", "login", "ada")
    assert result.code == 4
    assert "refused user 'ada'" in result.err
    assert "the password in DET_PASS; " in result.err
    assert "`det user change-password ada`" in result.err
    assert result.out == ""


def test_missing_session_error_names_det_user_login(cluster: FakeCluster, det: Det) -> None:
    result = det("-u", "ada", "experiment", "list")
    assert result.code == 4
    assert "det user login ada" in result.err


def test_environment_credentials_have_precedence_over_active_user(
    cluster: FakeCluster, det: Det, monkeypatch: pytest.MonkeyPatch
) -> None:
    det("user", "whoami")
    monkeypatch.setenv("DET_USER", "ada")
    monkeypatch.setenv("DET_PASS", "Lovelace1")
    assert det("user", "whoami").out == "You are logged in as user 'ada'\n"


def test_token_of_environment_needs_no_sign_in(
    cluster: FakeCluster, det: Det, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.tokens["of-environment"] = "admin"
    monkeypatch.setenv("DET_USER_TOKEN", "of-environment")
    assert det("user", "whoami").out == "You are logged in as user 'admin'\n"
    assert cluster.sent("POST", "/api/v1/auth/login") == []


def test_expired_token_is_renewed_silently(cluster: FakeCluster, det: Det) -> None:
    det("user", "whoami")
    cluster.tokens.clear()
    result = det("user", "whoami")
    assert (result.code, result.err) == (0, "")


@pytest.mark.parametrize("variable", ["DET_USER_TOKEN", "DET_SESSION_TOKEN"])
@pytest.mark.parametrize("words", ["user whoami", "task logs 1.t10"])
def test_expired_token_error_names_the_variable(
    cluster: FakeCluster, det: Det, monkeypatch: pytest.MonkeyPatch, variable: str, words: str
) -> None:
    det("user", "whoami")
    monkeypatch.setenv(variable, "old")
    result = det(*words.split())
    assert result.code == 4
    assert f"{variable} holds a token that is unknown to the cluster or has expired" in result.err
    assert "hint:" not in result.err


@pytest.mark.parametrize(
    ("content", "why"), [(None, "No such file"), ("words", "it has no certificate in PEM")]
)
def test_unreadable_certificate_file_is_named(
    home: Path, det: Det, monkeypatch: pytest.MonkeyPatch, content: "str | None", why: str
) -> None:
    path = home / "cluster.pem"
    if content:
        path.write_text(content)
    monkeypatch.setenv("DET_MASTER", "https://127.0.0.1:1")
    monkeypatch.setenv("DET_MASTER_CERT_FILE", str(path))
    result = det("user", "whoami")
    assert (result.code, f"cannot use the certificates in {path}: {why}" in result.err) == (1, True)


def test_expired_token_is_renewed_for_streams(cluster: FakeCluster, det: Det) -> None:
    cluster.add(1)
    det("user", "whoami")
    cluster.tokens.clear()
    assert det("task", "logs", "1.t10").code == 0


def test_logout_ends_session_on_client_and_cluster(
    cluster: FakeCluster, det: Det, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DET_PASS", "Lovelace1")
    det("user", "login", "ada")
    assert det("user", "logout").code == 0
    assert "ada" not in cluster.tokens.values()
    store = TokenStore(cluster.url)
    assert (store.token("ada"), store.active_user()) == (None, None)


def test_logout_all_ends_all_sessions(
    cluster: FakeCluster, det: Det, monkeypatch: pytest.MonkeyPatch
) -> None:
    det("user", "whoami")
    monkeypatch.setenv("DET_PASS", "Lovelace1")
    det("user", "login", "ada")
    det("user", "logout", "--all")
    assert cluster.tokens == {}
    assert TokenStore(cluster.url).users() == []


def test_logout_reports_the_next_user(
    cluster: FakeCluster, det: Det, monkeypatch: pytest.MonkeyPatch
) -> None:
    det("user", "whoami")
    monkeypatch.setenv("DET_PASS", "Lovelace1")
    det("user", "login", "ada")
    monkeypatch.delenv("DET_PASS")
    assert "Later commands run as determined, who is still signed in" in det("user", "logout").err
    assert det("user", "whoami").out == "You are logged in as user 'determined'\n"
    assert "Later commands" not in det("user", "logout").err
    monkeypatch.setenv("DET_USER_TOKEN", "of-environment")
    assert "Later commands use the token in DET_USER_TOKEN" in det("user", "logout").err


@pytest.mark.parametrize("words", ["rename admin chief", "edit admin --username chief"])
def test_renamed_user_stays_signed_in(
    served_api: Api, det: Det, monkeypatch: pytest.MonkeyPatch, words: str
) -> None:
    monkeypatch.setenv("DET_PASS", PASSWORD)
    assert det("user", "login", "admin").code == 0
    monkeypatch.delenv("DET_PASS")
    assert det("user", *words.split()).code == 0
    store = TokenStore(os.environ["DET_MASTER"])
    assert (store.users(), store.active_user()) == (["chief"], "chief")
    assert det("-u", "chief", "user", "whoami").out == "You are logged in as user 'chief'\n"
    assert det("user", "create", "bob", "--password", "Bobby1234").code == 0
    assert det("user", "rename", "bob", "rob").code == 0
    assert store.users() == ["chief"]


def test_sessions_of_two_clusters_are_separate(home: Path) -> None:
    TokenStore("http://one:8080").keep("ada", "t1", activate=True)
    TokenStore("http://two:8080").keep("bob", "t2")
    one = TokenStore("http://one:8080")
    assert (one.users(), one.active_user(), one.token("bob")) == (["ada"], "ada", None)


def test_invalid_session_file_is_named(cluster: FakeCluster, det: Det, home: Path) -> None:
    folder = home / ".config" / "determined"
    folder.mkdir(parents=True)
    (folder / "auth.json").write_text("{")
    result = det("user", "whoami")
    assert result.code == 1
    assert str(folder / "auth.json") in result.err


def test_user_stays_signed_in_after_changing_own_password(
    cluster: FakeCluster, det: Det, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DET_NEW_PASS", "Fresh1234")
    assert det("user", "change-password").code == 0
    assert cluster.passwords["determined"] == sign_in.salt_password("Fresh1234")
    assert det("user", "whoami").code == 0


def test_changing_own_password_sends_current_password(
    cluster: FakeCluster, det: Det, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.passwords["determined"] = sign_in.salt_password("Secret123")
    monkeypatch.setenv("DET_NEW_PASS", "Fresh1234")
    answer_with(monkeypatch, "Secret123", "Secret123")
    assert det("user", "change-password").code == 0
    assert det("user", "change-password", "ada").code == 0
    own, other = (request.body for request in cluster.sent("PATCH", "/api/v1/users/.*"))
    assert own["currentPassword"] == sign_in.salt_password("Secret123")
    assert "currentPassword" not in other


@pytest.mark.parametrize("weak", ["short1A", "alllower1", "ALLUPPER1", "NoDigitsHere"])
def test_weak_password_is_rejected_before_any_request(
    cluster: FakeCluster, det: Det, weak: str
) -> None:
    result = det("user", "create", "bob", "--password", weak)
    assert result.code == 2
    assert "bob" not in cluster.users


def test_weak_initial_password_option_is_rejected_before_deployment(home: Path, det: Det) -> None:
    result = det("deploy", "local", "cluster-up", "--initial-user-password", "abc")
    assert (result.code, "a password needs at least 8 characters" in result.err) == (2, True)
    assert list(home.rglob("*")) == []


def test_weak_initial_password_in_configuration_is_rejected_before_deployment(
    home: Path, tmp_path: Path, det: Det
) -> None:
    config = tmp_path / "cluster.yaml"
    # The unknown pool prevents the start of a cluster if the password check does not fail.
    config.write_text(
        "{security: {initial_user_password: abc}, local_agents: [{name: a, pool: absent}]}"
    )
    result = det("deploy", "local", "cluster-up", "--config", str(config))
    assert result.code == 1
    message = "security.initial_user_password of the configuration: a password needs at least 8"
    assert message in result.err


def test_creating_existing_user_is_a_conflict(cluster: FakeCluster, det: Det) -> None:
    assert det("user", "create", "bob", "--password", "Bobby1234").code == 0
    result = det("user", "create", "bob", "--password", "Bobby1234")
    assert result.code == 5
    assert "'bob' already exists" in result.err


def test_deactivated_user_cannot_sign_in(
    cluster: FakeCluster, det: Det, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: object) -> None:
        raise Refusal(403, "user is not active")

    cluster.on("POST", "/api/v1/auth/login", refuse)
    monkeypatch.setenv("DET_PASS", "Lovelace1")
    result = det("user", "login", "ada")
    assert result.code == 4
    assert "user is not active" in result.err


def answer_with(monkeypatch: pytest.MonkeyPatch, *typed_passwords: str) -> None:
    """Simulate a terminal at which a person types these passwords."""
    remaining = iter(typed_passwords)
    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    monkeypatch.setattr("getpass.getpass", lambda _: next(remaining))


def test_terminal_prompts_for_password(
    cluster: FakeCluster, det: Det, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer_with(monkeypatch, "Lovelace1")
    assert det("-u", "ada", "user", "whoami").out == "You are logged in as user 'ada'\n"


def test_default_user_is_prompted_after_empty_password_fails(
    cluster: FakeCluster, det: Det, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.passwords["determined"] = sign_in.salt_password("Secret123")
    answer_with(monkeypatch, "Secret123")
    assert det("user", "whoami").code == 0
    assert len(cluster.sent("POST", "/api/v1/auth/login")) == 2


@pytest.mark.parametrize(
    "words", ["user login ada", "-u ada user whoami", "user change-password", "user create bob"]
)
def test_end_of_input_at_password_prompt_is_an_error(
    cluster: FakeCluster, det: Det, monkeypatch: pytest.MonkeyPatch, words: str
) -> None:
    def end(_: str) -> str:
        raise EOFError

    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    monkeypatch.setattr("getpass.getpass", end)
    result = det(*words.split())
    assert (result.code, "no password given" in result.err, "unexpected" in result.err) == (
        1,
        True,
        False,
    )


def test_new_password_is_typed_twice(
    cluster: FakeCluster, det: Det, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer_with(monkeypatch, "Bobby1234", "Bobby4321")
    result = det("user", "create", "bob")
    assert result.code == 1
    assert "the two passwords differ" in result.err
    assert "bob" not in cluster.users


def test_login_reads_password_from_standard_input(
    cluster: FakeCluster, det: Det, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("Lovelace1\n"))
    assert det("user", "login", "ada").code == 0
    assert det("user", "whoami").out == "You are logged in as user 'ada'\n"


@pytest.mark.parametrize("words", ["change-password determined", "create bob"])
def test_new_password_is_read_from_standard_input(
    cluster: FakeCluster, det: Det, monkeypatch: pytest.MonkeyPatch, words: str
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("Fresh1234\nFresh1234\n"))
    assert det("user", *words.split()).code == 0
    assert cluster.passwords[words.split()[1]] == sign_in.salt_password("Fresh1234")


def test_det_new_pass_sets_password_of_new_user(
    cluster: FakeCluster, det: Det, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DET_NEW_PASS", "Fresh1234")
    assert det("user", "create", "bob").code == 0
    assert cluster.passwords["bob"] == sign_in.salt_password("Fresh1234")


@pytest.mark.parametrize(
    ("words", "variable"),
    [("login ada", "DET_PASS"), ("change-password", "DET_NEW_PASS"), ("create b", "DET_NEW_PASS")],
)
def test_missing_password_error_names_the_variable(
    cluster: FakeCluster, det: Det, monkeypatch: pytest.MonkeyPatch, words: str, variable: str
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    result = det("user", *words.split())
    assert result.code == 2
    assert "standard input" in result.err
    assert f"set {variable}" in result.err


def test_other_commands_do_not_read_standard_input(
    cluster: FakeCluster, det: Det, monkeypatch: pytest.MonkeyPatch
) -> None:
    stdin = io.StringIO("Lovelace1\n")
    monkeypatch.setattr("sys.stdin", stdin)
    assert det("-u", "ada", "experiment", "list").code == 4
    assert stdin.tell() == 0


def test_task_uses_its_session_token(
    cluster: FakeCluster, det: Det, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DET_SESSION_TOKEN", "of-the-allocation")
    cluster.on("GET", "/api/v1/agents", {"agents": []})
    assert det("agent", "list").code == 0
    (request,) = cluster.asked
    assert request.headers["grpc-metadata-x-allocation-token"] == "Bearer of-the-allocation"


def test_answer_no_does_not_delete_the_experiment(
    cluster: FakeCluster, det: Det, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    cluster.add(1)
    monkeypatch.setattr("sys.stdin", Terminal("n\n"))
    assert det("e", "delete", 1).code == 1
    assert cluster.sent("DELETE", ".*") == []
    monkeypatch.setattr("sys.stdin", Terminal("y\n"))
    assert det("e", "delete", 1).code == 0


def test_deactivation_lists_running_experiments_and_tasks(cluster: FakeCluster, det: Det) -> None:
    assert det("user", "create", "bob", "--password", "Bobby1234").code == 0
    id = cluster.users["bob"]["id"]
    cluster.on("PATCH", f"/api/v1/users/{id}", {"user": {}, "runningExperiments": [3, 4],
               "runningTasks": [{"taskId": "t1", "kind": "shell", "name": "mine"}]})  # fmt: skip
    result = det("user", "deactivate", "bob")
    assert "continue: 3, 4" in result.err
    assert "Still running: shell t1 (mine)" in result.err
    assert "--pause-work" in result.err
    cluster.on("PATCH", f"/api/v1/users/{id}", {"user": {}, "pausedExperiments": [3, 4]})
    assert (
        "Paused experiments of that user: 3, 4"
        in det("user", "deactivate", "bob", "--pause-work").out
    )
    assert cluster.sent("PATCH", f"/api/v1/users/{id}")[-1].body["pauseWork"] is True
