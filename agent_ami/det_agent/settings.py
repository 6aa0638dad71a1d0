"""The agent's options. Flags override environment variables (DET_<OPTION>), a YAML file and defaults, in this order."""

import argparse
import difflib
import json
import re
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypedDict

import yaml
from det_controlplane.core.json_log import FORMATS


class BadSettings(Exception):
    """An option is unknown, missing or of the wrong type."""


@dataclass(frozen=True)
class Option:
    name: str
    default: Any
    help: str
    old_names: tuple[str, ...] = ()

    @property
    def flag(self) -> str:
        return "--" + self.name.replace("_", "-").replace(".", "-")

    @property
    def dest(self) -> str:
        return self.name.replace(".", "_")


# Options that Determined has too have the same names.
OPTIONS = (
    Option("config_file", "", "YAML file with these options"),
    Option("master_url", "", "URL of the cluster, instead of master_host and master_port"),
    Option("master_host", "", "host of the cluster"),
    Option("master_port", 0, "port of the cluster (8080, with TLS 8443)"),
    Option("agent_id", "", "unique name of this agent (the host name)"),
    Option("resource_pool", "default", "name of the agent's pool ('default')", ("pool",)),
    Option(
        "slots",
        "",
        "auto (default: the GPUs that nvidia-smi or rocm-smi lists, or one CPU slot), none, cpu, cuda, rocm,"
        " or artificial:N without devices",
    ),
    Option("slot_type", "auto", "auto, none, cpu, cuda, rocm or gpu"),
    Option("artificial_slots", 0, "number of slots without devices"),
    Option("visible_gpus", "", "indexes or UUIDs of GPUs, separated by commas (all)"),
    Option(
        "exclude_gpus",
        "",
        "indexes or UUIDs of GPUs that get no work, separated by commas, for example faulty ones",
    ),
    Option(
        "container_runtime",
        "auto",
        "docker, process, or auto (default): Docker if an engine answers",
        ("runtime",),
    ),
    Option(
        "task_python",
        "",
        "Python for tasks without Docker: a path, or a name on PATH (the agent's own)",
    ),
    Option(
        "state_dir",
        "/var/lib/determined/agent",
        "directory for identity, stored logs and reports, one for each agent (/var/lib/determined/agent)",
    ),
    Option(
        "data_dir",
        "",
        "directory for data sets of tasks, on the fastest local disk (the folder data of state_dir)",
    ),
    Option(
        "data_cache_size",
        "",
        "most bytes of data sets on this machine, for example 500g; 0 loads none (half of the disk)",
    ),
    Option("token_file", "", "file with the bootstrap token; read at every join"),
    Option(
        "identity",
        "token",
        "proof of identity: the bootstrap token (default), the machine on aws or gcp, or the output of a command",
    ),
    Option(
        "identity_command",
        [],
        "with identity command: a program that prints a proof of this machine, for clouds with their own provider",
    ),
    Option("cluster_id", "", "id of the cluster; required with all identities except token"),
    Option(
        "container_credentials",
        "machine",
        "with identity aws and gcp: machine (default) gives containers the machine's role; or none",
    ),
    Option(
        "aws_role_arn",
        "",
        "with identity gcp: an AWS role for containers; it trusts the machine's account",
    ),
    Option(
        "google_credentials",
        "",
        "with identity aws: a Google account for containers, which trusts the machine's role;"
        " JSON of type external_account, without secrets",
    ),
    Option("bind_ip", "", "address of the task gateway (by runtime)"),
    Option(
        "bind_port",
        0,
        "port of the task gateway (a free port, kept for later starts)",
        ("gateway_port",),
    ),
    Option("container_master_host", "", "host of the gateway for containers (detected)"),
    Option("container_master_port", 0, "port of the gateway for containers (bind_port)"),
    Option("security.tls.enabled", False, "use HTTPS for master_host"),
    Option("security.tls.skip_verify", False, "accept any certificate"),
    Option("security.tls.master_cert", "", "file with the cluster's certificate authority"),
    Option(
        "security.tls.master_cert_sha256",
        "",
        "trust only the certificate with this fingerprint; `det deploy local status` prints it",
    ),
    Option("http_proxy", "", "passed to containers"),
    Option("https_proxy", "", "passed to containers"),
    Option("ftp_proxy", "", "passed to containers"),
    Option("no_proxy", "", "passed to containers"),
    Option(
        "shutdown_after_silence",
        0.0,
        "seconds without an answer from the cluster until the agent runs hooks.on_connection_lost and exits,"
        " after its containers ended (0: never)",
    ),
    Option(
        "hooks.on_connection_lost", [], "command to run after that silence: [systemctl, poweroff]"
    ),
    Option(
        "on_rebalance",
        "leave",
        "with identity aws, when EC2 recommends to leave a spot machine: leave (default) moves the work at once,"
        " stay waits for the two-minute notice",
    ),
    Option(
        "on_stop",
        "leave",
        "containers at SIGTERM: leave (default) keeps them running, kill ends them",
    ),
    Option(
        "stop_grace",
        10.0,
        "seconds for a last checkpoint before a kill or a shutdown"
        " (10; 20 on machines that a pool rents on Google Cloud)",
    ),
    Option("container_auto_remove_disabled", False, "keep exited containers"),
    Option(
        "log_lines_per_second",
        1000.0,
        "limit of a task's log, after a burst of one minute (1000; 0: no limit)",
    ),
    Option(
        "log_bytes_per_second",
        1048576.0,
        "limit of a task's log, after a burst of one minute (1048576)",
    ),
    Option("log.level", "info", "trace, debug, info (default), warning or error"),
    Option(
        "log.format",
        "text",
        "text (default), or json: one JSON object on each line, with ids and trace ids",
    ),
    Option("log.color", True, "accepted, without effect"),
    Option("debug", False, "same as log.level debug"),
    Option("agent_reconnect_attempts", 5, "accepted, without effect: the agent always reconnects"),
    Option("agent_reconnect_backoff", 5, "accepted, without effect"),
    Option("api_enabled", False, "accepted, without effect"),
)


@dataclass(frozen=True)
class Settings:
    master_url: str
    agent_id: str
    resource_pool: str
    slots: str
    visible_gpus: str
    exclude_gpus: str
    runtime: str
    task_python: str
    state_dir: Path
    data_dir: Path
    data_cache_size: int | None  # None: half of the disk; 0: no data sets
    token_file: str
    identity: str
    identity_command: tuple[str, ...]
    cluster_id: str
    container_credentials: str
    aws_role_arn: str
    google_credentials: Mapping[str, Any]
    bind_ip: str
    bind_port: int
    container_master_host: str
    container_master_port: int
    cert_file: str | None
    cert_sha256: str | None
    verify: bool
    shutdown_after_silence: float
    on_connection_lost: tuple[str, ...]
    on_rebalance: str
    on_stop: str
    stop_grace: float
    keep_exited: bool
    log_lines_s: float
    log_bytes_s: float
    log_level: str
    log_format: str
    proxies: Mapping[str, str] = field(default_factory=dict)

    @property
    def trust(self) -> "TlsOptions":
        return {
            "cert_file": self.cert_file,
            "verify": self.verify,
            "fingerprint": self.cert_sha256,
        }


class TlsOptions(TypedDict):
    """The options for checking the cluster's certificate."""

    cert_file: str | None
    verify: bool
    fingerprint: str | None


def add_flags(parser: argparse.ArgumentParser) -> None:
    for option in OPTIONS:
        names = [option.flag, *("--" + n.replace("_", "-") for n in option.old_names)]
        parser.add_argument(
            *names, dest=option.dest, default=None, metavar="VALUE", help=option.help
        )


def load(flags: Mapping[str, Any], environ: Mapping[str, str]) -> Settings:
    path = flags.get("config_file") or environ.get("DET_CONFIG_FILE") or ""
    from_file = _read_file(Path(path)) if path else {}
    values = {option.dest: _value(option, flags, environ, from_file) for option in OPTIONS}
    return _settings(values)


def _value(
    option: Option,
    flags: Mapping[str, Any],
    environ: Mapping[str, str],
    from_file: Mapping[str, Any],
) -> Any:
    if flags.get(option.dest) is not None:
        return _convert_value(option, flags[option.dest], option.flag)
    for name in (option.name, *option.old_names):
        variable = "DET_" + name.replace(".", "_").upper()
        if environ.get(variable):
            return _convert_value(option, environ[variable], variable)
    for name in (option.name, *option.old_names):
        if name in from_file:
            return _convert_value(option, from_file[name], name)
    return option.default


def _convert_value(option: Option, value: Any, where: str) -> Any:
    kind = type(option.default)
    try:
        if kind is bool and not isinstance(value, bool):
            return {"true": True, "1": True, "false": False, "0": False}[str(value).lower()]
        if kind is list:
            return value.split() if isinstance(value, str) else [str(part) for part in value]
        return kind(value)
    except (ValueError, TypeError, KeyError):
        raise BadSettings(f"{where}: {value!r} is not a {kind.__name__}") from None


def _read_file(path: Path) -> dict[str, Any]:
    try:
        body = yaml.safe_load(path.read_text())
    except (OSError, yaml.YAMLError) as e:
        raise BadSettings(f"cannot read the configuration file {path}: {e}") from e
    if not isinstance(body, dict):
        raise BadSettings(f"{path} must hold options, one `name: value` a line")
    flat = _flatten(body)
    names = {n for option in OPTIONS for n in (option.name, *option.old_names)}
    for name in flat:
        if name not in names:
            near = difflib.get_close_matches(name, names, n=1)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise BadSettings(f"{path}: unknown option {name}{hint}")
    return flat


def _flatten(body: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in body.items():
        if isinstance(value, dict):
            flat.update(_flatten(value, f"{prefix}{key}."))
        elif value is not None:
            flat[f"{prefix}{key}"] = value
    return flat


def _settings(v: Mapping[str, Any]) -> Settings:
    _one_of("container_runtime", v["container_runtime"], ("auto", "docker", "process"))
    _one_of("identity", v["identity"], ("token", "aws", "gcp", "command"))
    if v["identity"] == "command" and not v["identity_command"]:
        raise BadSettings(
            "identity_command is missing: identity command needs the program that proves the machine"
        )
    if v["identity"] != "token" and not v["cluster_id"]:
        raise BadSettings(
            f"cluster_id is missing: with identity {v['identity']}, a machine proves itself to one cluster"
        )
    _one_of("container_credentials", v["container_credentials"], ("machine", "none"))
    _one_of("on_rebalance", v["on_rebalance"], ("leave", "stay"))
    _one_of("on_stop", v["on_stop"], ("leave", "kill"))
    _one_of("log.format", v["log_format"], FORMATS)
    proxies = {n: v[n] for n in ("http_proxy", "https_proxy", "ftp_proxy", "no_proxy") if v[n]}
    return Settings(
        master_url=_master_url(v),
        agent_id=v["agent_id"] or socket.gethostname(),
        resource_pool=v["resource_pool"],
        slots=_slots(v),
        visible_gpus=v["visible_gpus"],
        exclude_gpus=v["exclude_gpus"],
        runtime=v["container_runtime"],
        task_python=v["task_python"],
        state_dir=Path(v["state_dir"]),
        data_dir=Path(v["data_dir"] or f"{v['state_dir']}/data"),
        data_cache_size=_bytes("data_cache_size", v["data_cache_size"]),
        token_file=v["token_file"],
        identity=v["identity"],
        identity_command=tuple(v["identity_command"]),
        cluster_id=v["cluster_id"],
        container_credentials=v["container_credentials"],
        aws_role_arn=v["aws_role_arn"],
        google_credentials=_external_account(v["google_credentials"]),
        bind_ip=v["bind_ip"],
        bind_port=v["bind_port"],
        container_master_host=v["container_master_host"],
        container_master_port=v["container_master_port"],
        cert_file=v["security_tls_master_cert"] or None,
        cert_sha256=v["security_tls_master_cert_sha256"] or None,
        verify=not v["security_tls_skip_verify"],
        shutdown_after_silence=v["shutdown_after_silence"],
        on_connection_lost=tuple(v["hooks_on_connection_lost"]),
        on_rebalance=v["on_rebalance"],
        on_stop=v["on_stop"],
        stop_grace=v["stop_grace"],
        keep_exited=v["container_auto_remove_disabled"],
        log_lines_s=v["log_lines_per_second"],
        log_bytes_s=v["log_bytes_per_second"],
        log_level="debug" if v["debug"] else v["log_level"],
        log_format=v["log_format"],
        proxies=proxies | {n.upper(): value for n, value in proxies.items()},
    )


def _master_url(v: Mapping[str, Any]) -> str:
    if v["master_url"]:
        if not v["master_url"].startswith(("http://", "https://")):
            raise BadSettings(f"master_url {v['master_url']!r} must start with http:// or https://")
        return str(v["master_url"]).rstrip("/")
    if not v["master_host"]:
        raise BadSettings("master_url is missing: give --master-url, DET_MASTER_URL or master_host")
    scheme, port = ("https", 8443) if v["security_tls_enabled"] else ("http", 8080)
    return f"{scheme}://{v['master_host']}:{v['master_port'] or port}"


def _slots(v: Mapping[str, Any]) -> str:
    if v["slots"]:
        return str(v["slots"])
    return f"artificial:{v['artificial_slots']}" if v["artificial_slots"] else str(v["slot_type"])


def _bytes(name: str, text: str) -> int | None:
    if not text:
        return None
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(?:([kmgtp])(?:i?b)?|b)?", str(text).strip().lower())
    if match is None:
        raise BadSettings(f"{name}: {text!r} is not a size such as 500g")
    return int(float(match[1]) * 1024 ** " kmgtp".index(match[2] or " "))


def _external_account(text: str) -> Mapping[str, Any]:
    if not text:
        return {}
    try:
        account = json.loads(text)
    except ValueError as e:
        raise BadSettings(f"google_credentials: {e}") from None
    if not isinstance(account, dict):
        raise BadSettings("google_credentials: must be a JSON object")
    return account


def _one_of(name: str, value: str, allowed: Sequence[str]) -> None:
    if value not in allowed:
        raise BadSettings(f"{name}: {value!r} is not one of {', '.join(allowed)}")
