"""Secrets of configurations are stored encrypted, masked in answers, and reach the container that needs them."""

import base64
import gzip
import json
from collections.abc import Iterator

import pytest
from det_controlplane.adapters.aes_cipher import AesCipher
from det_controlplane.api import routes
from det_controlplane.db.experiments.submissions import experiment_config
from det_controlplane.services import sealing
from det_controlplane.services.maintenance import housekeeping
from sqlalchemy import text

from tests.support.api import (
    PASSWORD,
    Api,
    ApiResponse,
    Caller,
    config_of,
    create,
)
from tests.support.fake_cluster import archive
from tests.support.planted_secrets import ADDRESS_MARK, MARK, SECRET_CONFIG, STORAGE, played_secrets
from tests.support.played_agent import PlayedAgent, task_of
from tests.support.uploads import uploaded


@pytest.fixture
def agent(api: Api) -> PlayedAgent:
    played_agent = PlayedAgent(api, "agent-1")
    played_agent.join()
    return played_agent


@pytest.fixture
def planted(api: Api, admin: Caller, user: Caller, agent: PlayedAgent) -> dict[str, str]:
    return played_secrets(api, admin, user, agent)


def paths(places: dict[str, str]) -> Iterator[str]:
    """Yield the path of every GET route, about things that have secrets where it names one."""
    for route in routes.every():
        if route.method != "GET":
            continue
        for fallback in ("1", places["taskId"], places["checkpointUuid"]):
            parts = [
                places.get(part.strip("{}").removesuffix("..."), fallback)
                if part.startswith("{")
                else part
                for part in route.path.split("/")
            ]
            yield "/".join(parts)


def test_responses_of_all_routes_contain_no_secrets(
    api: Api, admin: Caller, user: Caller, planted: dict[str, str]
) -> None:
    token_of = {"nobody": api.anonymous(), "user": user, "admin": admin}
    response_count = 0
    for path in sorted(set(paths(planted))):
        for name, caller in token_of.items():
            response = caller.ask("GET", path)
            assert MARK.encode() not in response.body, f"{name}: GET {path}"
            is_address = ADDRESS_MARK.encode() in response.body
            assert not is_address or (name, path.split("/")[3]) == ("admin", "webhooks"), path
            response_count += response.status == 200
    assert response_count > 100


@pytest.mark.parametrize("kind", ["command", "notebook", "shell"])
def test_launches_and_previews_contain_no_secrets(
    user: Caller, planted: dict[str, str], kind: str
) -> None:
    """Pools and templates have their own secrets. Users who launch code can read them there, and no answer shows
    them."""
    config = {"description": kind, "entrypoint": "true"}
    body = {"config": config, "templateName": "t", "preview": kind == "notebook"}
    response = user.ask("POST", f"/api/v1/{kind}s", body)
    assert response.status == 200, response.error
    assert b"TOKEN=****" in response.body, "it has the variables of the pool"
    assert MARK.encode() not in response.body


def test_database_contains_no_plain_secrets(api: Api, planted: dict[str, str]) -> None:
    with api.ctx.db.begin() as tx:
        tables = tx.execute(
            text("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")
        ).scalars()
        for table in list(tables):
            rows = tx.execute(text(f'SELECT CAST(t AS text) FROM "{table}" t')).scalars()
            content = "\n".join(rows)
            assert MARK not in content, table
            assert ADDRESS_MARK not in content, table
            encoded_mark = base64.b64encode(MARK.encode() * 3).decode()[:8]
            assert encoded_mark not in content, table


def test_container_receives_the_secrets(api: Api, user: Caller, agent: PlayedAgent) -> None:
    create(user, activate=True, **SECRET_CONFIG)
    api.tick()
    (order,) = agent.poll()
    env, auth = order["spec"]["env"], order["spec"]["registry_auth"]
    assert env["WANDB_API_KEY"] == "planted-variable"
    assert auth["password"] == "planted-registry"
    config = json.loads(env["DET_EXPERIMENT_CONFIG"])
    assert config["checkpoint_storage"]["secret_key"] == "planted-secret"
    assert config["data"] == SECRET_CONFIG["data"]


def test_checkpoint_deletion_receives_the_keys_of_its_storage(
    planted: dict[str, str], agent: PlayedAgent
) -> None:
    (spec,) = (o["spec"] for o in agent.poll() if o["spec"]["task_type"] == "CHECKPOINT_GC")
    work = json.loads(base64.b64decode(spec["files"][0]["content_b64"]))
    assert work["storage"]["secret_key"] == "planted-secret"


def test_deletion_is_repeated_after_its_agent_was_disabled(
    api: Api, admin: Caller, planted: dict[str, str], agent: PlayedAgent
) -> None:
    (first,) = (o for o in agent.poll() if o["spec"]["task_type"] == "CHECKPOINT_GC")
    agent.poll()
    admin.post("/api/v1/agents/agent-1/disable", {})
    agent.poll("terminated", exit_code=137, failure="container_failed")
    admin.post("/api/v1/agents/agent-1/enable", {})
    api.tick()
    second_allocation = first["allocation_id"].replace(".1", ".2")
    assert second_allocation in [order["allocation_id"] for order in agent.poll()]


def test_settings_of_libraries_are_not_masked(user: Caller) -> None:
    id = create(user, **SECRET_CONFIG)
    config = user.get(f"/api/v1/experiments/{id}")["experiment"]["config"]
    gpu = config["environment"]["environment_variables"]["cuda"]
    assert gpu == ["WANDB_API_KEY=********", "NCCL_DEBUG=INFO"]


VARIABLES = {
    "environment": {
        "environment_variables": [
            "DATA_DIR=/data/planted",
            "WANDB_API_KEY=planted-variable",
            "DB=postgres://me:planted-url@host/db",
        ],
        "registry_auth": {"username": "me", "password": "planted-registry"},
    },
    "checkpoint_storage": STORAGE,
}
_HIDDEN_VARIABLES = ["DATA_DIR=********", "WANDB_API_KEY=********", "DB=********"]
_SHOWN_VARIABLES = ["DATA_DIR=/data/planted", *_HIDDEN_VARIABLES[1:]]


def test_template_owner_sees_variables_without_secret_names(user: Caller, admin: Caller) -> None:
    path = "/api/v1/templates/t"
    new_config = user.post(path, {"name": "t", "config": VARIABLES})["template"]["config"]
    for config in (new_config, user.get(path)["template"]["config"]):
        assert config["environment"]["environment_variables"] == _SHOWN_VARIABLES
        assert config["environment"]["registry_auth"]["password"] == "********"
        assert config["checkpoint_storage"]["secret_key"] == "********"
    other = admin.get(path)["template"]["config"]
    assert other["environment"]["environment_variables"] == _HIDDEN_VARIABLES
    # The other user stores the masked configuration, and does not become the owner.
    admin.done("PUT", path, {"name": "t", "config": other})
    assert admin.get(path)["template"]["config"] == other
    assert user.get(path)["template"]["config"] == new_config


def test_owner_sees_variables_of_each_kind_of_slot(user: Caller) -> None:
    variables = {"cpu": ["A=1"], "cuda": ["B=2", "TOKEN=3"]}
    config = {"environment": {"environment_variables": variables}}
    user.post("/api/v1/templates/t", {"name": "t", "config": config})
    environment = user.get("/api/v1/templates/t")["template"]["config"]["environment"]
    expected = {"cpu": ["A=1"], "cuda": ["B=2", "TOKEN=********"]}
    assert environment["environment_variables"] == expected


def test_experiment_owner_sees_variables_and_its_tasks_do_not(
    api: Api, user: Caller, admin: Caller
) -> None:
    task, experiment_id = task_of(api, user, **VARIABLES)
    path = f"/api/v1/experiments/{experiment_id}"
    answer = user.get(path)
    for config in (answer["config"], answer["experiment"]["config"]):
        assert config["environment"]["environment_variables"]["cpu"] == _SHOWN_VARIABLES
        assert config["checkpoint_storage"]["secret_key"] == "********"
    for other in (admin, task):
        config = other.get(path)["config"]
        assert config["environment"]["environment_variables"]["cpu"] == _HIDDEN_VARIABLES


@pytest.mark.parametrize("kind", ["command", "notebook", "shell"])
def test_the_owner_of_a_task_sees_its_variables_and_its_code_does_not(
    api: Api, user: Caller, admin: Caller, agent: PlayedAgent, kind: str
) -> None:
    config = {"environment": VARIABLES["environment"], "resources": {"slots": 0}}
    path = f"/api/v1/{kind}s/{user.post(f'/api/v1/{kind}s', {'config': config})[kind]['id']}"
    api.tick()
    (order,) = agent.poll()
    code = api.with_token(order["spec"]["session_token"])
    for caller, variables in (
        (user, _SHOWN_VARIABLES),
        (admin, _HIDDEN_VARIABLES),
        (code, _HIDDEN_VARIABLES),
    ):
        environment = caller.get(path)["config"]["environment"]
        assert environment["environment_variables"]["cpu"] == variables
        assert environment["registry_auth"]["password"] == "********"


def refork(caller: Caller, parent: int) -> ApiResponse:
    config = caller.get(f"/api/v1/experiments/{parent}")["experiment"]["config"]
    request = {"config": json.dumps(config), "activate": False, "parentId": parent}
    return caller.ask("POST", "/api/v1/experiments", request)


def test_fork_contains_secrets_only_for_their_owner(api: Api, user: Caller, admin: Caller) -> None:
    parent = create(user, **SECRET_CONFIG)
    assert refork(user, parent).status == 200
    response = refork(admin, parent)
    assert response.status == 400
    assert "stands for a secret that is not shown: give its value" in response.error


def test_new_key_encrypts_and_old_key_still_decrypts(api: Api, user: Caller) -> None:
    config = {"environment": {"registry_auth": {"password": "planted"}}}
    before = sealing.seal(api.ctx, config)
    api.ctx.cipher = AesCipher(["another key of the tests", "the key of the tests"])
    after = sealing.seal(api.ctx, config)
    assert before.secrets.split(".")[1] != after.secrets.split(".")[1]
    assert sealing.unsealed(api.ctx, before.shown, before.secrets) == config
    assert sealing.unsealed(api.ctx, after.shown, after.secrets) == config


def test_rejects_secrets_without_an_encryption_key(api: Api, user: Caller) -> None:
    api.ctx.cipher = None
    assert create(user)
    request = {"config": config_of(**SECRET_CONFIG), "activate": False}
    response = user.ask("POST", "/api/v1/experiments", request)
    assert response.status == 400
    assert "DET_SECRETS_KEY" in response.error
    response = user.ask("POST", "/api/v1/notebooks", {"config": {}})
    assert response.error.startswith("invalid notebook configuration: has a secret")


def test_plain_secrets_of_earlier_rows_are_encrypted(api: Api, user: Caller) -> None:
    id = create(user, **SECRET_CONFIG)
    plain = json.dumps({"password": "planted"})
    with api.ctx.db.begin() as tx:
        tx.execute(
            text("""UPDATE experiments SET sealed = NULL, original_config = :text,
                    config = cast(jsonb_set(cast(config AS jsonb), '{data}', cast(:data AS jsonb)) AS json)"""),
            {"data": plain, "text": f"data: {plain}\nname: old"},
        )
    assert housekeeping.seal_earlier_secrets(api.ctx) == 1
    assert housekeeping.seal_earlier_secrets(api.ctx) == 0
    assert MARK.encode() not in user.ask("GET", f"/api/v1/experiments/{id}").body
    config_text = experiment_config(api.ctx.db, id)
    assert config_text is not None
    assert sealing.unsealed(api.ctx, config_text.config, config_text.sealed)["data"] == {
        "password": "planted"
    }


def opened_by_address(user: Caller) -> list[tuple[str, dict[str, object]]]:
    return [
        ("notebook", {"config": {}}),
        ("tensorboard", {"config": {}, "experimentIds": [create(user)]}),
    ]


def token_in_address_of(user: Caller, kind: str, body: dict[str, object]) -> str:
    """Launch a task. Return the token that opens it without a sign-in."""
    task = user.post(f"/api/v1/{kind}s", body)[kind]
    token = str(task["serviceAddress"].partition("?token=")[2])
    assert len(token) > 30
    return token


def test_database_contains_only_hashes_of_tokens_and_passwords(api: Api, user: Caller) -> None:
    access = user.post("/api/v1/tokens", {"userId": 2, "lifespan": "24h"})["token"]
    task, _ = task_of(api, user)
    agent = PlayedAgent(api, "agent-1")
    agent.join()
    opening = [token_in_address_of(user, kind, body) for kind, body in opened_by_address(user)]
    secrets = [user.token, access, task.token, agent.caller.token, PASSWORD, *opening]
    with api.ctx.db.begin() as tx:
        tables = tx.execute(
            text("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")
        ).scalars()
        for table in list(tables):
            rows = "\n".join(tx.execute(text(f'SELECT CAST(t AS text) FROM "{table}" t')).scalars())
            assert [secret for secret in secrets if secret in rows] == [], table


def test_object_store_contains_code_but_no_credentials(api: Api, user: Caller) -> None:
    context = uploaded(api, user, archive({"a.py": b"print('code')"}))
    user.post("/api/v1/experiments", {"config": config_of(**SECRET_CONFIG), "contextId": context})
    api.tick()
    files = [p for p in api.checkpoints.parent.rglob("*") if p.is_file()]
    assert [p.suffixes for p in files] == [[".tar", ".gz"]]
    for path in files:
        content = path.read_bytes()
        content = gzip.decompress(content) if content[:2] == b"\x1f\x8b" else content
        for secret in (user.token, PASSWORD, MARK):
            assert secret.encode() not in content, path
