"""Versions of a cluster's secrets: each changed value adds one, and the old ones are destroyed after an upgrade."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from det_cli.deployment.google import LABEL, Google


def prune(google: Google, cluster_id: str) -> None:
    """Destroy the versions that the cluster's services do not read, apart from the one before those.

    That one stays for the previous revision, to which an operator may go back. Raises CommandError.
    """
    used = _versions_read_by(google.services(cluster_id).values())
    path = f"/v1/projects/{google.project}/secrets"
    wanted = f"labels.{LABEL}={cluster_id}"
    for secret in google.pages("secretmanager", path, "secrets", filter=wanted):
        name = _last(secret["name"])
        if used[name]:
            _destroy_older(google, f"{path}/{name}/versions", min(used[name]))


def _destroy_older(google: Google, path: str, oldest_used: int) -> None:
    listed = google.pages("secretmanager", path, "versions")
    existing = [int(_last(v["name"])) for v in listed if v["state"] != "DESTROYED"]
    older = sorted(number for number in existing if number < oldest_used)
    for number in older[:-1]:
        google.call("POST", "secretmanager", f"{path}/{number}:destroy", {})


def _versions_read_by(services: Iterable[Mapping[str, Any]]) -> dict[str, set[int]]:
    """Return the numbers of the versions that the newest revisions of services name, by secret."""
    found: defaultdict[str, set[int]] = defaultdict(set)
    for service in services:
        for secret, version in _references(service.get("template", {})):
            if version.isdigit():
                found[_last(secret)].add(int(version))
    return found


def _references(template: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for container in template.get("containers", ()):
        for variable in container.get("env", ()):
            reference = variable.get("valueSource", {}).get("secretKeyRef")
            if reference:
                yield reference["secret"], str(reference.get("version", ""))
    for volume in template.get("volumes", ()):
        for item in volume.get("secret", {}).get("items", ()):
            yield volume["secret"]["secret"], str(item.get("version", ""))


def _last(name: str) -> str:
    return name.rpartition("/")[2]
