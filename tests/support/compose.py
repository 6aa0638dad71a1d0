"""Read a compose file as `docker compose` does, as far as ours goes: Docker's plugin for it is on few machines."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

FILE = Path(__file__).resolve().parents[2] / "controlplane/cloudrun/compose.yaml"
_VARIABLE = re.compile(r"\$\{(\w+)(?::([-?])((?:[^${}]|\$\{[^{}]*\})*))?\}")
# Keys of a service that Docker's SDK knows by the same name, or does not need.
_SAME = ("image", "environment", "read_only", "cap_drop", "security_opt", "user", "entrypoint")
_LEFT_OUT = ("restart", "stop_grace_period", "depends_on", "ports")


class Unset(Exception):
    """A variable that must be set is not; the message is the file's."""


def services(variables: Mapping[str, str]) -> dict[str, dict[str, Any]]:
    """Return the arguments of Docker's SDK for each service, without ports."""
    document = yaml.safe_load(FILE.read_text())
    return {name: _run(service, variables) for name, service in document["services"].items()}


def _run(service: Mapping[str, Any], variables: Mapping[str, str]) -> dict[str, Any]:
    names = {*_SAME, *_LEFT_OUT, "tmpfs", "volumes"}
    assert set(service) <= names, f"say here what {set(service) - names} means to Docker's SDK"
    run = {key: _filled(service[key], variables) for key in _SAME if key in service}
    mounts = [volume.split(":") for volume in service.get("volumes", ())]
    return {
        **run,
        "tmpfs": dict.fromkeys(service.get("tmpfs", ()), ""),
        "volumes": {source: {"bind": target} for source, target in mounts},
    }


def _filled(value: Any, variables: Mapping[str, str]) -> Any:
    if isinstance(value, dict):
        return {key: _filled(each, variables) for key, each in value.items()}
    if isinstance(value, list):
        return [_filled(each, variables) for each in value]
    if not isinstance(value, str):
        return value

    def of(match: re.Match[str]) -> str:
        name, kind, rest = match.groups()
        if variables.get(name):
            return variables[name]
        if kind == "?":
            raise Unset(f"{name}: {rest}")
        return str(_filled(rest or "", variables))

    return _VARIABLE.sub(of, value)
