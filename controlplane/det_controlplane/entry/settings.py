"""Read the settings of a process of the control plane from its environment."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

_PREFIX = "DET_"


class BadSettings(Exception):
    """A variable is missing or makes no sense."""


@dataclass(frozen=True, slots=True)
class Settings:
    database_url: str
    cluster_config: str = ""  # YAML, or the path of a YAML file
    objects: str = ""  # "s3://bucket/prefix", "gs://bucket/prefix" or a directory
    objects_secret: str = ""  # signs upload URLs of a directory
    public_url: str = ""
    relay_url: str = ""  # of the relay; empty if this process carries traffic to tasks
    relay_beside: bool = False  # the front end of this API sends agents and traffic to a relay
    revision: str = ""  # name of the revision on Cloud Run
    relay_idle_s: float = 0.0  # a relay ends after so long without a task; 0 means never
    relay_function: str = ""  # Lambda function with the newest program of this relay
    # AWS's description of that function when this relay was started.
    relay_deployed: Mapping[str, Any] = field(default_factory=dict)
    cluster_id: str = ""  # tag of machines, used by policies; if empty, the first start creates one
    bootstrap_token: str = ""
    secrets_key: str = ""  # location of the keys that encrypt secrets of configurations
    initial_user_password: str | None = None
    may_wait_s: float = 0.0
    tls_cert: str = ""  # PEM files: the certificate chain of the server, and its key
    tls_key: str = ""
    public: bool = True  # whether other machines can reach the API
    pool_size: int = 32
    db_idle_s: float = 0.0  # idle connections are closed after so long, so that the database can pause; 0 means never
    db_wake_s: float = 0.0  # time that a request waits for a waking database
    database_read_url: str = ""  # URL of a read-only copy for lists and reports
    keys_function: str = ""  # Lambda function that fetches the keys of the issuers of pipelines
    # Defaults for keys that provider sections of pools leave out, by provider.
    provider_defaults: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


def from_environment(environment: Mapping[str, str]) -> Settings:
    def text(name: str) -> str:
        return environment.get(_PREFIX + name, "")

    return Settings(
        database_url=_require_variable(environment, "DB_URL"),
        database_read_url=text("DB_READ_URL"),
        cluster_config=text("CLUSTER_CONFIG"),
        objects=text("OBJECTS"),
        objects_secret=text("OBJECTS_SECRET"),
        public_url=text("PUBLIC_URL"),
        relay_url=text("RELAY_URL").rstrip("/"),
        relay_beside=text("RELAY_URL") == "/",
        revision=environment.get("K_REVISION", ""),
        relay_idle_s=_number(environment, "RELAY_IDLE_S", 0.0),
        relay_function=text("RELAY_FUNCTION"),
        relay_deployed=_object(environment, "RELAY_DEPLOYED"),
        cluster_id=text("CLUSTER_ID"),
        bootstrap_token=text("BOOTSTRAP_TOKEN"),
        secrets_key=text("SECRETS_KEY"),
        **_tls(text("TLS_CERT"), text("TLS_KEY")),
        initial_user_password=environment.get(_PREFIX + "INITIAL_USER_PASSWORD"),
        may_wait_s=_number(environment, "MAY_WAIT_S", 0.0),
        pool_size=int(_number(environment, "DB_POOL_SIZE", 32)),
        keys_function=text("KEYS_FUNCTION"),
        db_idle_s=_number(environment, "DB_IDLE_S", 0.0),
        db_wake_s=_number(environment, "DB_WAKE_S", 0.0),
        provider_defaults={
            name: _object(environment, f"{name.upper()}_DEFAULTS") for name in ("aws", "gcp")
        },
    )


def _tls(cert: str, key: str) -> dict[str, Any]:
    if bool(cert) != bool(key):
        raise BadSettings("DET_TLS_CERT and DET_TLS_KEY go together: give the files of both")
    for name, path in (("DET_TLS_CERT", cert), ("DET_TLS_KEY", key)):
        if path and not Path(path).is_file():
            raise BadSettings(f"{name}: there is no file {path}")
    return {"tls_cert": cert, "tls_key": key}


def _object(environment: Mapping[str, str], name: str) -> dict[str, Any]:
    value = environment.get(_PREFIX + name, "")
    try:
        content = json.loads(value) if value else {}
    except ValueError:
        content = None
    if not isinstance(content, dict):
        raise BadSettings(f"{_PREFIX}{name} must be a JSON object, not {value!r}")
    return content


def _require_variable(environment: Mapping[str, str], name: str) -> str:
    value = environment.get(_PREFIX + name, "")
    if not value:
        raise BadSettings(
            f"{_PREFIX}{name} is not set: give the URL of the PostgreSQL database,"
            " like postgresql://user:password@host:5432/name"
        )
    return value


def _number(environment: Mapping[str, str], name: str, default: float) -> float:
    value = environment.get(_PREFIX + name, "")
    if not value:
        return default
    try:
        return float(value)
    except ValueError as e:
        raise BadSettings(f"{_PREFIX}{name} must be a number, not {value!r}") from e
