"""What an agent needs to run a container: image, command, environment, files, mounts."""

import base64
import json
from typing import Any
from uuid import UUID

from det_controlplane.core.config.task_defaults import TaskContainerDefaults
from det_controlplane.db.sql import text
from det_controlplane.services.context import Context
from det_controlplane.services.identity import new_session

VERSION = "0.38.1"
RUN_DIR = "/run/determined"
WORK_DIR = f"{RUN_DIR}/workdir"
SHARED_FS_MOUNT = "/determined_shared_fs"
TRIAL_PORT = 1734
ENTRY = ["python3", "-m", "determined.exec.entry"]

_CONTAINER = text("""
    SELECT c.id, c.epoch, c.rank, c.slot_ids, c.agent_id, c.allocation_id, a.task_id, a.ports, a.run_id, a.slots, a.pool, a.peer_key, a.token_expires_at,
           t.kind::text AS kind, t.config AS task_config, t.experiment_id, t.trial_id, j.user_id,
           u.username, coalesce(u.agent_user, w.agent_user) AS agent_user,
           (SELECT count(*) FROM containers p WHERE p.allocation_id = c.allocation_id AND p.epoch = c.epoch) AS peers,
           (SELECT min(s.device_type) FROM slots s WHERE s.agent_id = c.agent_id) AS device_type
    FROM containers c JOIN allocations a ON a.id = c.allocation_id JOIN tasks t ON t.id = a.task_id
    JOIN jobs j ON j.id = a.job_id JOIN users u ON u.id = j.user_id JOIN workspaces w ON w.id = j.workspace_id
    WHERE c.id = :id FOR SHARE OF a
""")
_TRIAL = text("""
    SELECT t.seed, t.hparams, t.total_batches, e.config,
           coalesce((SELECT c.uuid FROM checkpoints c WHERE c.trial_id = t.id AND c.state = 'COMPLETED'
                     ORDER BY c.steps_completed DESC, c.reported_at DESC LIMIT 1), t.warm_start_uuid) AS latest_checkpoint,
           coalesce((SELECT max(c.steps_completed) FROM checkpoints c
                     WHERE c.trial_id = t.id AND c.state = 'COMPLETED'), 0) AS steps_completed
    FROM trials t JOIN experiments e ON e.id = t.experiment_id WHERE t.id = :id
""")


def of_container(ctx: Context, container_id: UUID) -> dict[str, Any] | None:
    """The specification as docs/reference/agent-protocol.md lists it, with a fresh token; None when it is deleted."""
    with ctx.db.begin() as tx:
        row = tx.row(_CONTAINER, {"id": container_id})
        if row is None:
            return None
        # Under the allocation's lock: its end lets every token die, and one that comes later dies with them.
        token = new_session(
            ctx, tx, "allocation", row.user_id, row.token_expires_at,
            allocation_id=row.allocation_id,
        )  # fmt: skip
        trial = tx.row(_TRIAL, {"id": row.trial_id}) if row.trial_id else None
    config: dict[str, Any] = trial.config if trial is not None else (row.task_config or {})
    pool = ctx.config.pool(row.pool)
    defaults = (pool and pool.task_container_defaults) or ctx.config.task_container_defaults
    env = _environment(ctx, row, token)
    if trial is not None:
        env |= _trial_environment(row, trial)
    env |= _user_environment(config, row.device_type)
    if defaults.startup_hook:
        hook = base64.b64encode(defaults.startup_hook.encode()).decode()
        env["DET_TASK_STARTUP_HOOK_B64"] = hook
    return {
        "container_id": str(row.id),
        "resources_id": str(row.id),
        "allocation_id": row.allocation_id,
        "task_id": row.task_id,
        "task_type": row.kind,
        "epoch": row.epoch,
        "name": _name(row),
        "command": config.get("_command") or ENTRY,
        "work_dir": config.get("work_dir") or defaults.work_dir or WORK_DIR,
        "env": env,
        "files": config.get("_files") or [],
        "slot_ids": list(row.slot_ids),
        "user": _user(row.agent_user),
        "session_token": token,
        **_machine(config, defaults, row.device_type, int(row.peers)),
    }


def _name(row: Any) -> str:
    if row.trial_id is not None:
        return f"exp-{row.experiment_id}-trial-{row.trial_id}-attempt-{row.run_id}"
    return f"{row.kind.lower()}-{row.task_id}"


def _machine(
    config: dict[str, Any], defaults: TaskContainerDefaults, device_type: str | None, peers: int
) -> dict[str, Any]:
    environment = config.get("environment") or {}
    resources = config.get("resources") or {}
    shm = resources.get("shm_size")
    return {
        "image": _image(environment, device_type),
        "force_pull": bool(environment.get("force_pull_image")),
        "registry_auth": environment.get("registry_auth"),
        "mounts": _mounts(config),
        "devices": resources.get("devices") or [],
        "shm_size_bytes": shm or defaults.shm_size_bytes,
        "cap_add": environment.get("add_capabilities") or [],
        "cap_drop": environment.get("drop_capabilities") or [],
        "network": "host" if peers > 1 else defaults.network_mode,
        "ports": [
            TRIAL_PORT,
            *(int(p["proxy_port"]) for p in environment.get("proxy_ports") or []),
        ],
    }


def _image(environment: dict[str, Any], device_type: str | None) -> str:
    image = environment.get("image") or ""
    if isinstance(image, dict):
        return str(image.get(device_type or "cpu") or image.get("cpu") or "")
    return str(image)


def _mounts(config: dict[str, Any]) -> list[dict[str, Any]]:
    mounts = list(config.get("bind_mounts") or [])
    storage = config.get("checkpoint_storage") or {}
    if storage.get("type") == "shared_fs":
        mounts.append(
            {
                "host_path": storage["host_path"],
                "container_path": SHARED_FS_MOUNT,
                "read_only": False,
                "propagation": storage.get("propagation") or "rprivate",
            }
        )
    return mounts


def _user(agent_user: dict[str, Any] | None) -> dict[str, Any]:
    found = agent_user or {}
    return {
        "uid": int(found.get("agentUid") or 0),
        "gid": int(found.get("agentGid") or 0),
        "user": found.get("agentUser") or "root",
        "group": found.get("agentGroup") or "root",
    }


def _environment(ctx: Context, row: Any, token: str) -> dict[str, str]:
    """Facts §7.5; the agent adds what only it knows."""
    logging = {"task_id": row.task_id, "allocation_id": row.allocation_id}
    return {
        "DET_TASK_ID": row.task_id,
        "DET_ALLOCATION_ID": row.allocation_id,
        "DET_RESOURCES_ID": str(row.id),
        "DET_CONTAINER_ID": str(row.id),
        "DET_TASK_TYPE": row.kind,
        "DET_RESOURCES_TYPE": "docker-container",
        "DET_CLUSTER_ID": ctx.cluster_id,
        "DET_MASTER_ID": ctx.cluster_id,
        "DET_USER": row.username,
        "DET_SESSION_TOKEN": token,
        "DET_PEER_KEY": row.peer_key,
        "DET_USE_TLS": "false",
        "DET_SEGMENT_ENABLED": "false",
        "DET_TASK_LOGGING_METADATA": json.dumps(logging),
        **{name: str(port) for name, port in (row.ports or {}).items()},
    }


def _trial_environment(row: Any, trial: Any) -> dict[str, str]:
    env = {
        "DET_EXPERIMENT_ID": str(row.experiment_id),
        "DET_TRIAL_ID": str(row.trial_id),
        "DET_TRIAL_RUN_ID": str(row.run_id),
        "DET_TRIAL_SEED": str(trial.seed),
        "DET_EXPERIMENT_CONFIG": json.dumps(trial.config),
        "DET_HPARAMS": json.dumps(trial.hparams),
        "DET_STEPS_COMPLETED": str(trial.steps_completed),
    }
    if trial.latest_checkpoint is not None:
        env["DET_LATEST_CHECKPOINT"] = str(trial.latest_checkpoint)
    return env


def _user_environment(config: dict[str, Any], device_type: str | None) -> dict[str, str]:
    """`K=V` lines; a bare `K` asks for the agent's own value, which the agent resolves."""
    variables = (config.get("environment") or {}).get("environment_variables") or []
    if isinstance(variables, dict):
        variables = variables.get(device_type or "cpu") or []
    return dict(v.partition("=")[::2] for v in variables if "=" in v)
