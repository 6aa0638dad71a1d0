"""Build the specification by which an agent runs a container: image, command, environment, files, mounts."""

import base64
import hmac
import json
from typing import Any
from urllib.parse import quote
from uuid import UUID

from det_controlplane.core.agent_protocol import (
    ENTRY,
    ContainerFile,
    ContainerSpec,
    TaskUser,
    TraceTarget,
)
from det_controlplane.core.trace_context import run_context
from det_controlplane.core.trials.start_spans import submission_of
from det_controlplane.db.engine.database import Tx
from det_controlplane.db.people import sessions
from det_controlplane.db.tasks import container_specs
from det_controlplane.db.tasks.container_specs import StartedContainer, StartedTrial
from det_controlplane.db.trials import start_times
from det_controlplane.services import sealing
from det_controlplane.services.agents import container_settings
from det_controlplane.services.context import Context
from det_controlplane.services.identity.authentication import token_hash
from det_controlplane.services.logs import policies

RUN_DIR = "/run/determined"
WORK_DIR = f"{RUN_DIR}/workdir"


def of_container(ctx: Context, container_id: UUID) -> ContainerSpec | None:
    """Return a container's specification with its token; None when it is deleted."""
    with ctx.db.begin() as tx:
        row = container_specs.container(tx, container_id)
        if row is None:
            return None
        # Under the allocation's lock: its end lets every token die, and one that comes later dies with them.
        token = token_of(ctx, row.id, row.epoch, row.peer_key)
        trial = container_specs.trial(tx, row.allocation_id) if row.trial_id else None
        source = row if trial is None else trial
        environment = (source.config or {}).get("environment") or {}
        trace = _trace(ctx, tx, row)
        sessions.create_for_task(
            tx, row.user_id, row.allocation_id, token_hash(token), ctx.now(), row.token_expires_at,
            narrow=environment.get("det_token") == "task",
        )  # fmt: skip
    config: dict[str, Any] = sealing.unsealed(ctx, source.config or {}, source.sealed)
    pool = ctx.config.pool(row.pool)
    defaults = (pool and pool.task_container_defaults) or ctx.config.task_container_defaults
    network = "host" if row.peers > 1 else defaults.network_mode
    values, of_agent = container_settings.variables(config, row.device_type)
    # Later entries override earlier ones.
    replica_bytes = container_settings.replica_bytes(config) if trial else 0
    env = {
        **_environment(ctx, row, token),
        **(_trace_environment(ctx, row, trace) if trace else {}),
        **(_trial_environment(row, trial, config) if trial else {}),
        **({"DET_REPLICA_BYTES": str(replica_bytes)} if replica_bytes else {}),
        **(config.get("_environment") or {}),
        **({"DET_SERVICE_HOST": "127.0.0.1"} if network == "host" else {}),
        **container_settings.network_interface(defaults),
        **values,
        **_startup_hook(defaults.startup_hook),
    }
    spec = ContainerSpec(
        container_id=str(row.id),
        allocation_id=row.allocation_id,
        task_id=row.task_id,
        task_type=row.kind,
        epoch=row.epoch,
        name=_name(row),
        command=tuple(config.get("_command") or ENTRY),
        work_dir=config.get("work_dir") or defaults.work_dir or WORK_DIR,
        env=env,
        env_of_agent=tuple(of_agent),
        files=tuple(_file(f) for f in config.get("_files") or []),
        log_patterns=tuple(policies.patterns_of(config)),
        slot_ids=tuple(row.slot_ids),
        user=_user(row.agent_user),
        session_token=token,
        network=network,
        local_ports=tuple(config.get("_ports") or ()),
        replica_bytes=replica_bytes,
        trace=trace,
    )
    return container_settings.applied(spec, config, defaults, row.device_type)


def _trace(ctx: Context, tx: Tx, row: StartedContainer) -> TraceTarget | None:
    """Return the trace to which the spans of a trial's containers belong, or None if telemetry is off."""
    if ctx.spans is None or row.experiment_id is None or row.trial_id is None:
        return None
    caller = start_times.caller_of(tx, row.experiment_id)
    submission = submission_of(ctx.cluster_id, row.experiment_id, caller)
    run = run_context(submission, row.allocation_id)
    start = start_times.of_allocation(tx, row.allocation_id)
    is_rented = start is not None and start.times.machine_joined_at is not None
    return TraceTarget(run.header(), ctx.spans.task_endpoint, is_rented)


def _trace_environment(ctx: Context, row: StartedContainer, trace: TraceTarget) -> dict[str, str]:
    """Return the standard variables of OpenTelemetry, by which programs of users join the trace."""
    attributes = {
        "det.cluster.id": ctx.cluster_id,
        "det.experiment.id": row.experiment_id,
        "det.trial.id": row.trial_id,
        "det.allocation.id": row.allocation_id,
        "det.agent.id": quote(row.agent_id),
    }
    resource = ",".join(f"{name}={value}" for name, value in attributes.items())
    env = {"TRACEPARENT": trace.traceparent, "OTEL_RESOURCE_ATTRIBUTES": resource}
    if trace.endpoint:
        env |= {
            "OTEL_SERVICE_NAME": "determined-task",
            "OTEL_EXPORTER_OTLP_ENDPOINT": trace.endpoint,
            "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf",
        }
    return env


def _startup_hook(script: str) -> dict[str, str]:
    return (
        {"DET_TASK_STARTUP_HOOK_B64": base64.b64encode(script.encode()).decode()} if script else {}
    )


def token_of(ctx: Context, container_id: UUID, epoch: int, peer_key: str) -> str:
    """Return the token of a container. It is the same at every poll, because its session is created once.

    It is derived from the secret of the cluster, so a copy of the database is not enough to forge it."""
    what = f"session of container {container_id}, epoch {epoch}".encode()
    # A cluster in a cloud has a key for secrets, and no token that is common to its agents.
    secret = ctx.cipher.fingerprint(what) if ctx.cipher else ""
    key = f"{ctx.bootstrap_token}{secret}{peer_key}".encode()
    digest = hmac.digest(key, what, "sha256")
    return base64.urlsafe_b64encode(digest).decode().rstrip("=")


def _name(row: StartedContainer) -> str:
    if row.trial_id is not None:
        return f"exp-{row.experiment_id}-trial-{row.trial_id}-attempt-{row.run_id}"
    return f"{row.kind.lower()}-{row.task_id}"


def _file(file: dict[str, Any]) -> ContainerFile:
    """Return a file of a task: bytes in base64, or an object with separate secrets."""
    if "content" not in file:
        return ContainerFile.from_json(file)
    content = base64.b64encode(json.dumps(file["content"]).encode()).decode()
    return ContainerFile.from_json({**file, "content_b64": content})


def _user(agent_user: dict[str, Any] | None) -> TaskUser:
    settings = agent_user or {}
    return TaskUser(
        uid=int(settings.get("agentUid") or 0),
        gid=int(settings.get("agentGid") or 0),
        user=settings.get("agentUser") or "root",
        group=settings.get("agentGroup") or "root",
    )


def _environment(ctx: Context, row: StartedContainer, token: str) -> dict[str, str]:
    """Return the variables of a task. The agent adds the variables that depend on its machine."""
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


def _trial_environment(
    row: StartedContainer, trial: StartedTrial, config: dict[str, Any]
) -> dict[str, str]:
    env = {
        "DET_EXPERIMENT_ID": str(row.experiment_id),
        "DET_TRIAL_ID": str(row.trial_id),
        "DET_TRIAL_RUN_ID": str(row.run_id),
        "DET_TRIAL_SEED": str(trial.seed),
        "DET_EXPERIMENT_CONFIG": json.dumps(config),
        "DET_HPARAMS": json.dumps(trial.hparams),
        "DET_STEPS_COMPLETED": str(trial.steps_completed),
    }
    if trial.latest_checkpoint is not None:
        env["DET_LATEST_CHECKPOINT"] = str(trial.latest_checkpoint)
    return env
