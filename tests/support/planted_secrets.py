"""A cluster in which secrets were put wherever a configuration may be given."""

import json
from typing import Any

from det_controlplane.core.config.cluster import load_cluster
from sqlalchemy import text

from tests.support.api import Api, Caller, create, report_checkpoint, trial_of
from tests.support.inbox import Inbox, make_webhook
from tests.support.played_agent import PlayedAgent

MARK = "planted"
# Secrets of webhooks: only administrators, who may set them, can see them here.
ADDRESS_MARK = "concealed"
ADDRESS = f"https://hooks.example.com/{ADDRESS_MARK}"
STORAGE = {
    "type": "s3",
    "bucket": "b",
    "access_key": "planted-access",
    "secret_key": "planted-secret",
}
SECRET_CONFIG: dict[str, Any] = {
    "checkpoint_storage": STORAGE,
    "environment": {
        "environment_variables": ["WANDB_API_KEY=planted-variable", "NCCL_DEBUG=INFO"],
        "registry_auth": {"username": "me", "password": "planted-registry"},
    },
    "data": {"secrets": {"anything": "planted-data"}, "url": "postgresql://me:planted-url@host/db"},
}


def everything_planted(api: Api, admin: Caller, user: Caller, agent: PlayedAgent) -> dict[str, str]:
    """Put secrets in all places that a configuration has. Return values for path parameters."""
    azure = {
        "type": "azure",
        "container": "c",
        "connection_string": "AccountKey=planted-azure",
    }
    response = user.post(
        "/api/v1/workspaces", {"name": "secrets", "checkpointStorageConfig": azure}
    )
    workspace = response["workspace"]["id"]
    user.post("/api/v1/templates/t", {"name": "t", "config": SECRET_CONFIG})
    policy = json.dumps({"invariant_config": {"environment": SECRET_CONFIG["environment"]}})
    body = {"workloadType": "EXPERIMENT", "configPolicies": policy}
    for scope in ("global", f"workspaces/{workspace}"):
        admin.done("PUT", f"/api/v1/config-policies/{scope}/experiment", body)
    api.ctx.courier = Inbox()
    never = {"triggerType": "TRIGGER_TYPE_TASK_LOG", "condition": {"regex": "never in a log"}}
    make_webhook(admin, url=ADDRESS, triggers=[never])
    make_webhook(admin, url=ADDRESS, workspaceId=0, triggers=[never])
    experiment = create(user, activate=True, **SECRET_CONFIG)
    api.tick()
    agent.poll()
    checkpoint = report_checkpoint(user, experiment, state="1")
    trial = trial_of(user, experiment)
    user.post(f"/api/v1/experiments/{experiment}/kill")
    agent.poll("terminated", exit_code=0)
    user.done("DELETE", "/api/v1/checkpoints", {"checkpointUuids": [checkpoint]})
    api.tick()
    with api.ctx.db.begin() as tx:
        tasks = [row.id for row in tx.execute(text("SELECT id FROM tasks ORDER BY kind"))]
    return {
        "experimentId": str(experiment), "trialId": str(trial["id"]), "checkpointUuid": checkpoint, "uuid": checkpoint,
        "workspaceId": str(workspace), "templateName": "t", "name": "t", "taskId": tasks[0],
        "workloadType": "experiment",
    }  # fmt: skip


def played_secrets(api: Api, admin: Caller, user: Caller, agent: PlayedAgent) -> dict[str, str]:
    """Put secrets in the cluster's configuration and all other places. Return values for path parameters."""
    pool = {
        "environment_variables": ["TOKEN=planted-pool"],
        "registry_auth": {"password": "planted-pool"},
    }
    cluster = {
        "checkpoint_storage": STORAGE,
        "task_container_defaults": pool,
        "security": {
            "oidc": {
                "enabled": True,
                "issuer": "https://id.example.com",
                "client_id": "c",
                "client_secret": "planted-oidc",
            }
        },
        "resource_pools": [{"pool_name": "default", "task_container_defaults": pool}],
    }
    api.ctx.config = load_cluster(cluster)
    return everything_planted(api, admin, user, agent)
