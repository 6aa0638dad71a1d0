"""The agent's options. Flags override environment variables (DET_<OPTION>), a YAML file and defaults, in this order."""

import argparse
import difflib
import json
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypedDict

import yaml


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
    Option("master_url", "", "URL of the cluster; or give master_host and master_port"),
    Option("master_host", "", "host of the cluster"),
    Option("master_port", 0, "port of the cluster (8080, with TLS 8443)"),
    Option("agent_id", "", "name of this agent (the host name)"),
    Option("resource_pool", "default", "pool this agent joins", ("pool",)),
    Option("slots", "", "auto, none, cpu, cuda, rocm or artificial:N"),
    Option("slot_type", "auto", "auto, none, cpu, cuda, rocm or gpu"),
    Option("artificial_slots", 0, "pretend to have this many slots"),
    Option("visible_gpus", "", "comma-separated indexes or UUIDs of the GPUs to use"),
    Option("container_runtime", "auto", "auto, docker or process", ("runtime",)),
    Option("task_python", "", "the Python of tasks without Docker (the agent's own)"),
    Option("state_dir", "/var/lib/determined/agent", "where this agent keeps its state"),
    Option("token_file", "", "file with the bootstrap token this agent joins with"),
    Option("identity", "token", "what it proves itself by: token, or its machine on aws or gcp"),
    Option("cluster_id", "", "the cluster that the proof of a machine is for"),
    Option(
        "container_credentials",
        "machine",
        "lend containers the role of this machine, where identity is aws or gcp: machine or none",
    ),
    Option(
        "aws_role_arn", "", "role of AWS that a machine on gcp lends, too: it trusts its account"
    ),
    Option(
        "google_credentials",
        "",
        "account of Google that a machine on aws lends, too: a JSON text without secrets, of type external_account",
    ),
    Option("bind_ip", "", "address the task gateway listens on (by runtime)"),
    Option("bind_port", 0, "port of the task gateway (a free one, then kept)", ("gateway_port",)),
    Option("container_master_host", "", "how containers reach this machine (found out)"),
    Option("container_master_port", 0, "at which port they reach the gateway (bind_port)"),
    Option("security.tls.enabled", False, "reach master_host by HTTPS"),
    Option("security.tls.skip_verify", False, "accept any certificate"),
    Option("security.tls.master_cert", "", "certificate authority of the cluster"),
    Option(
        "security.tls.master_cert_sha256", "", "fingerprint of the one certificate to trust instead"
    ),
    Option("http_proxy", "", "passed to containers"),
    Option("https_proxy", "", "passed to containers"),
    Option("ftp_proxy", "", "passed to containers"),
    Option("no_proxy", "", "passed to containers"),
    Option("shutdown_after_silence", 0.0, "seconds without the cluster until hooks run (0: never)"),
    Option("hooks.on_connection_lost", [], "command to run after that silence"),
    Option(
        "on_rebalance",
        "leave",
        "where EC2 recommends to leave a spot machine: leave it, or stay until it is taken back",
    ),
    Option("on_stop", "leave", "containers at SIGTERM: leave them running, or kill them"),
    Option("stop_grace", 10.0, "seconds for trials to save a checkpoint before on_stop kills them"),
    Option("container_auto_remove_disabled", False, "keep exited containers for inspection"),
    Option("log_lines_per_second", 1000.0, "lines of a task's log that are kept (0: all)"),
    Option("log_bytes_per_second", 1048576.0, "bytes of a task's log that are kept"),
    Option("log.level", "info", "trace, debug, info, warning or error"),
    Option("log.color", True, "accepted and ignored"),
    Option("debug", False, "the same as log level debug"),
    Option("agent_reconnect_attempts", 5, "accepted and ignored: the agent never gives up"),
    Option("agent_reconnect_backoff", 5, "accepted and ignored"),
    Option("api_enabled", False, "accepted and ignored"),
)


@dataclass(frozen=True)
class Settings:
    master_url: str
    agent_id: str
    resource_pool: str
    slots: str
    visible_gpus: str
    runtime: str
    task_python: str
    state_dir: Path
    token_file: str
    identity: str
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
        return _typed(option, flags[option.dest], option.flag)
    for name in (option.name, *option.old_names):
        variable = "DET_" + name.replace(".", "_").upper()
        if environ.get(variable):
            return _typed(option, environ[variable], variable)
    for name in (option.name, *option.old_names):
        if name in from_file:
            return _typed(option, from_file[name], name)
    return option.default


def _typed(option: Option, value: Any, where: str) -> Any:
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
    _one_of("identity", v["identity"], ("token", "aws", "gcp"))
    if v["identity"] != "token" and not v["cluster_id"]:
        raise BadSettings(
            f"cluster_id is missing: a machine on {v['identity']} proves itself to one cluster"
        )
    _one_of("container_credentials", v["container_credentials"], ("machine", "none"))
    _one_of("on_rebalance", v["on_rebalance"], ("leave", "stay"))
    _one_of("on_stop", v["on_stop"], ("leave", "kill"))
    proxies = {n: v[n] for n in ("http_proxy", "https_proxy", "ftp_proxy", "no_proxy") if v[n]}
    return Settings(
        master_url=_master_url(v),
        agent_id=v["agent_id"] or socket.gethostname(),
        resource_pool=v["resource_pool"],
        slots=_slots(v),
        visible_gpus=v["visible_gpus"],
        runtime=v["container_runtime"],
        task_python=v["task_python"],
        state_dir=Path(v["state_dir"]),
        token_file=v["token_file"],
        identity=v["identity"],
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
