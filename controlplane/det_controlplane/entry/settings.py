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
    cluster_config: str = ""  # the YAML itself, or the path of a file with it
    objects: str = ""  # "s3://bucket/prefix", "gs://bucket/prefix" or a directory
    objects_secret: str = ""  # signs upload URLs of a directory
    public_url: str = ""
    relay_url: str = ""  # of a process that carries traffic to tasks; empty: this one does
    relay_beside: bool = False  # what leads to this API leads agents and traffic to a relay
    revision: str = ""  # as Cloud Run names it
    relay_idle_s: float = 0.0  # a relay that no task needs for so long ends; 0: never
    relay_function: str = ""  # keeps the newest program of this relay, on AWS
    # What that function was when this relay was started from it, as AWS tells it.
    relay_deployed: Mapping[str, Any] = field(default_factory=dict)
    cluster_id: str = ""  # tags machines; policies of a deployment may ask for it. Empty: made up at the first start
    bootstrap_token: str = ""
    secrets_key: str = ""  # where the keys are that secrets of configurations are encrypted with
    initial_user_password: str | None = None
    may_wait_s: float = 0.0
    tls_cert: str = (
        ""  # files in PEM: the server's certificate with those that vouch for it, and its key
    )
    tls_key: str = ""
    public: bool = True  # more than this machine reaches the API
    pool_size: int = 32
    db_idle_s: float = (
        0.0  # the database closes connections that rest longer, so that it may pause; 0: never
    )
    db_wake_s: float = 0.0  # how long a request waits for a database that wakes
    keys_function: str = (
        ""  # fetches the keys of pipelines' issuers, from where they can be reached
    )
    # What provider sections of pools leave out, by provider.
    provider_defaults: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


def from_environment(environment: Mapping[str, str]) -> Settings:
    def text(name: str) -> str:
        return environment.get(_PREFIX + name, "")

    return Settings(
        database_url=_required(environment, "DB_URL"),
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
        found = json.loads(value) if value else {}
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise BadSettings(f"{_PREFIX}{name} must be a JSON object, not {value!r}")
    return found


def _required(environment: Mapping[str, str], name: str) -> str:
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
