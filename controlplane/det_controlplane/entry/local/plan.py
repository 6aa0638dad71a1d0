"""Plan the processes of a local cluster from the flags and the configuration file of `det deploy local`."""

import json
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from det_controlplane.adapters import otlp_spans
from det_controlplane.core.config import cluster_check
from det_controlplane.core.config.cluster import ClusterConfig, load_cluster
from det_controlplane.core.config.cluster_check import load_checked
from det_controlplane.core.config.text import load_yaml
from det_controlplane.entry.local import certificate, own_database, rented
from det_controlplane.entry.local.errors import NOT_FOUND, LocalError
from det_controlplane.entry.local.files import Desired, LocalAgent, LocalFiles
from det_controlplane.entry.providers import register_used
from det_controlplane.entry.settings import BadSettings
from det_controlplane.services.random_text import random_text

AGENTS_KEY = "local_agents"
DEFAULT_NAME = "determined"
_PASSWORD_BYTES = 12
_LAST_PORT = 65_535


class BadPlan(Exception):
    """Flags or configuration that make no cluster."""


@dataclass(frozen=True, slots=True)
class Plan:
    desired: Desired
    config: str  # the cluster configuration, as JSON
    initial_password: str | None  # for the built-in accounts; None if they have one
    password_is_random: bool
    ignored: tuple[str, ...] = ()  # keys of the configuration without effect here
    warnings: tuple[str, ...] = ()  # about settings that probably do not work as intended


def plan(files: LocalFiles, args: Any) -> Plan:
    """Plan the cluster: apply the changes of the flags to the previous plan."""
    before = files.desired() if files.has_cluster() else None
    raw = _read_config(files, args)
    agents = _configured_agents(raw.pop(AGENTS_KEY, None))
    config = _complete_config(raw, files, args, _name_of(args, before))
    # Everything that is wrong with it is said here, not in the log of a server.
    checked = load_checked(config, own_keys=(AGENTS_KEY,))
    database_url = getattr(args, "db", None) or (before.database_url if before else "")
    awaits = _awaits_password(files, database_url)
    untold = None if awaits else files.unprinted_password()
    password, is_random = _password(args, checked.initial_user_password, awaits, untold)
    name = _name_of(args, before)
    host = _host(args, before, password)
    tls_cert, tls_key = _tls(files, args, host, before)
    desired = Desired(
        cluster_name=name,
        host=host,
        port=_port(args) or (before.port if before else checked.port),
        database_url=database_url,
        agents=_agents(args, name, agents, before),
        tls_cert=tls_cert,
        tls_key=tls_key,
    )
    _check_pools(desired, [p.pool_name for p in checked.resource_pools])
    text = json.dumps(config, indent=2) + "\n"
    warnings = (
        *cluster_check.credential_warnings(checked),
        *rented.warnings(checked, desired.url),
        *_telemetry_warnings(checked),
    )
    return Plan(desired, text, password, is_random, checked.ignored, warnings)


def _telemetry_warnings(config: ClusterConfig) -> Iterator[str]:
    if otlp_spans.endpoint_of(os.environ, config.telemetry) and not otlp_spans.has_packages():
        yield f"no traces are sent: install {otlp_spans.EXTRA} (docs/guides/observability.md), and restart the cluster"


def cluster_name(args: Any) -> str:
    return getattr(args, "cluster_name", None) or DEFAULT_NAME


def _name_of(args: Any, before: Desired | None) -> str:
    """Return the name of the flags, or the name that the cluster of a `--data-dir` has."""
    if not getattr(args, "cluster_name", None) and before is not None:
        return before.cluster_name
    return cluster_name(args)


def agent_of(args: Any, default_name: str) -> LocalAgent:
    """Return the agent that the flags of `agent-up` describe."""
    return LocalAgent(
        name=getattr(args, "agent_name", None) or default_name,
        pool=getattr(args, "agent_resource_pool", None) or "default",
        slots=_slots(args),
        runtime=getattr(args, "container_runtime", None) or "auto",
    )


def with_agent(files: LocalFiles, agent: LocalAgent, pools: Sequence[str] = ()) -> Desired:
    """Return the desired processes after `agent-up`. `pools` are the pools of the running cluster."""
    raw = load_yaml(files.cluster_config.read_text("utf-8"), what="cluster configuration")
    register_used(raw)
    config = load_cluster(raw)
    configured = [p.pool_name for p in config.resource_pools]
    in_database = agent.pool in pools and agent.pool not in configured
    desired = files.desired().with_agent(replace(agent, in_database=in_database))
    _check_pools(desired, list(dict.fromkeys((*configured, *pools))))
    return desired


def deletion_warning(files: LocalFiles, records: Mapping[str, int]) -> str:
    """Return what `--delete-db` deletes. `records` has the numbers, or is empty if they are unknown."""
    if files.desired().database_url:
        return (
            "--delete-db deletes the uploaded code on this machine. The database of --db stays, with its"
            " experiments and users"
        )
    if not records:
        return "--delete-db deletes the database: all experiments, records of checkpoints and users"
    nouns = (
        ("experiment", "experiments"),
        ("record of a checkpoint", "records of checkpoints"),
        ("user", "users"),
    )
    counts = [
        f"{records[key]:,} {one if records[key] == 1 else many}"
        for key, (one, many) in zip(("experiments", "checkpoints", "users"), nouns, strict=True)
    ]
    return f"--delete-db deletes the database: {counts[0]}, {counts[1]} and {counts[2]}"


def remove_data(files: LocalFiles) -> None:
    """Remove the data of a cluster except checkpoints and logs, as `--delete-db` asks."""
    for folder in (files.database, files.objects, files.folder / "agents"):
        shutil.rmtree(folder, ignore_errors=True)
    files.forget_schema()
    files.delete_unprinted_password()


def _read_config(files: LocalFiles, args: Any) -> dict[str, Any]:
    option = getattr(args, "config", None) or getattr(args, "master_config_path", None)
    path = Path(option) if option else files.cluster_config
    if not option and not path.exists():
        return {}
    try:
        text = path.read_text("utf-8")
    except FileNotFoundError as e:
        raise LocalError(f"cannot read {path}: {e.strerror}", NOT_FOUND) from e
    except OSError as e:
        raise BadPlan(f"cannot read {path}: {e.strerror}") from e
    raw = dict(load_yaml(text, what="cluster configuration")) if text.strip() else {}
    try:
        register_used(raw)
    except BadSettings as e:
        raise BadPlan(f"{path}: {e}") from e
    return raw


def _complete_config(
    raw: dict[str, Any], files: LocalFiles, args: Any, name: str
) -> dict[str, Any]:
    """Return the configuration with the defaults that only this machine can give."""
    config = {"cluster_name": name, **raw}
    storage = getattr(args, "storage_host_path", None)
    if storage or "checkpoint_storage" not in config:
        host_path = Path(storage).expanduser().absolute() if storage else files.checkpoints
        host_path.mkdir(parents=True, exist_ok=True)
        config["checkpoint_storage"] = {
            "type": "shared_fs",
            "host_path": str(host_path),
            "save_experiment_best": 0,
            "save_trial_best": 1,
            "save_trial_latest": 1,
        }
    work_dir = getattr(args, "auto_work_dir", None)
    if work_dir:
        folder = str(Path(work_dir).expanduser().absolute())
        defaults = dict(config.get("task_container_defaults") or {})
        mounts = [*defaults.get("bind_mounts", []), {"host_path": folder, "container_path": folder}]
        config["task_container_defaults"] = {**defaults, "work_dir": folder, "bind_mounts": mounts}
    return config


def _configured_agents(raw: Any) -> tuple[LocalAgent, ...] | None:
    if raw is None:
        return None
    if not isinstance(raw, list):
        raise BadPlan(f"{AGENTS_KEY}: must be a list of agents with name, pool and slots")
    agents = tuple(_configured_agent(i, item) for i, item in enumerate(raw))
    names = [a.name for a in agents]
    twice = sorted({n for n in names if names.count(n) > 1})
    if twice:
        raise BadPlan(f"{AGENTS_KEY}: the name {twice[0]!r} is given twice; names must differ")
    return agents


def _configured_agent(index: int, item: Any) -> LocalAgent:
    where = f"{AGENTS_KEY}[{index}]"
    if not isinstance(item, dict):
        raise BadPlan(f"{where}: must be an object with name, pool and slots")
    unknown = sorted(set(item) - {"name", "pool", "slots", "runtime"})
    if unknown:
        raise BadPlan(f"{where}.{unknown[0]}: unknown; an agent has name, pool, slots and runtime")
    slots = item.get("slots", "auto")
    if isinstance(slots, bool) or (isinstance(slots, int) and slots < 0):
        raise BadPlan(f"{where}.slots: must be a number of artificial slots, or auto, cpu, none")
    if isinstance(slots, int):
        slots = f"artificial:{slots}" if slots else "none"
    return LocalAgent(
        name=str(item.get("name") or f"agent-{index}"),
        pool=str(item.get("pool") or "default"),
        slots=str(slots),
        runtime=str(item.get("runtime") or "auto"),
    )


def _agents(
    args: Any, name: str, configured: tuple[LocalAgent, ...] | None, before: Desired | None
) -> tuple[LocalAgent, ...]:
    if configured is not None:
        return configured
    count = getattr(args, "agents", None)
    if count is None and before is not None:
        return tuple(_with_flags(agent, args) for agent in before.agents)
    count = 1 if count is None else count
    if count < 0:
        raise BadPlan(f"--agents must be 0 or more, not {count}")
    one = agent_of(args, "")
    return tuple(replace(one, name=f"{name}-agent-{n}") for n in range(count))


def _with_flags(agent: LocalAgent, args: Any) -> LocalAgent:
    """Return the previous settings of an agent with the changes of the flags."""
    slots, runtime = _slots(args), getattr(args, "container_runtime", None)
    return replace(
        agent,
        slots=agent.slots if slots == "auto" else slots,
        runtime=runtime or agent.runtime,
    )


def _slots(args: Any) -> str:
    artificial = getattr(args, "slots_per_agent", None)
    if artificial is not None and artificial < 0:
        raise BadPlan(f"--slots-per-agent must be 0 or more, not {artificial}")
    if artificial is not None:
        return f"artificial:{artificial}" if artificial else "none"
    no_gpu = getattr(args, "no_gpu", False) or getattr(args, "gpu", True) is False
    return "cpu" if no_gpu else "auto"


def _port(args: Any) -> int | None:
    port: int | None = getattr(args, "master_port", None)
    if port is not None and not 1 <= port <= _LAST_PORT:
        raise BadPlan(f"--master-port must be a number from 1 to {_LAST_PORT}, not {port}")
    return port


def _host(args: Any, before: Desired | None, password: str | None) -> str:
    """Listen for this machine only, unless asked otherwise."""
    host = getattr(args, "host", None)
    if host:
        if password == "" and not _is_loopback(str(host)):
            raise BadPlan(
                f"--host {host} lets other machines in: give a password by --initial-user-password"
            )
        return str(host)
    return "127.0.0.1" if before is None or password == "" else before.host


def _tls(files: LocalFiles, args: Any, host: str, before: Desired | None) -> tuple[str, str]:
    """Encrypt connections of other machines with the given certificate or a self-signed one."""
    cert, key = getattr(args, "tls_cert", None), getattr(args, "tls_key", None)
    if getattr(args, "no_tls", False):
        if cert or key:
            raise BadPlan("--no-tls and --tls-cert exclude each other")
        return "", ""
    if bool(cert) != bool(key):
        raise BadPlan("--tls-cert and --tls-key go together: give the files of both")
    if cert and key:
        paths = tuple(Path(path).expanduser().absolute() for path in (cert, key))
        try:
            certificate.check(*paths)
        except certificate.BadCertificate as e:
            raise BadPlan(str(e)) from e
        return str(paths[0]), str(paths[1])
    if before is not None and (before.tls_cert or not getattr(args, "host", None)):
        return before.tls_cert, before.tls_key
    return ("", "") if _is_loopback(host) else (str(files.tls_cert), str(files.tls_key))


def _is_loopback(host: str) -> bool:
    return host == "localhost" or host.startswith("127.")


def _password(
    args: Any, configured: str | None, awaits: bool, untold: str | None
) -> tuple[str | None, bool]:
    # An interrupted start may have set this password. The accounts accept no other initial password then.
    if untold is not None:
        return untold, True
    password = getattr(args, "initial_user_password", None)
    if password is not None:
        return str(password), False
    if configured is not None:
        if awaits and configured:
            _check_configured(args, configured)
        return configured, False
    return (random_text(_PASSWORD_BYTES), True) if awaits else (None, False)


def _check_configured(args: Any, password: str) -> None:
    """Refuse a weak first password. The rule is repeated here, because the control plane does not import the package of
    the command line."""
    weakness_of = getattr(args, "password_weakness", None)
    if weakness_of and (weakness := weakness_of(password)):
        raise BadPlan(
            f"security.initial_user_password of the configuration: {weakness};"
            " use '' to disable passwords; omit the setting to generate one"
        )


def _awaits_password(files: LocalFiles, database_url: str) -> bool:
    """Return whether the built-in accounts still await their first password."""
    if not database_url:
        return not any(files.database.glob("**/PG_VERSION"))
    try:
        return own_database.prepare(database_url)
    except own_database.BadDatabase as e:
        raise BadPlan(str(e)) from e


def _check_pools(desired: Desired, pools: list[str]) -> None:
    for agent in desired.agents:
        if agent.pool not in pools and not agent.in_database:
            raise BadPlan(
                f"agent {agent.name}: resource pool {agent.pool!r} does not exist;"
                f" the configuration has: {', '.join(pools)}."
                " Choose one by --agent-resource-pool or local_agents,"
                f" or remove the agent: det deploy local agent-down --agent-name {agent.name}"
            )
