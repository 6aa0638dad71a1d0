"""Versions of a cluster's secrets. Each changed value adds a version. An upgrade destroys old versions."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from det_cli.deployment.google import LABEL, Google


def prune(google: Google, cluster_id: str) -> None:
    """Destroy unused versions of secrets, except the newest unused version. Raises CommandError.

    The previous revision reads that version after a rollback.
    """
    used = _versions_read_by(google.services(cluster_id).values())
    path = f"/v1/projects/{google.project}/secrets"
    label_filter = f"labels.{LABEL}={cluster_id}"
    for secret in google.pages("secretmanager", path, "secrets", filter=label_filter):
        name = _last(secret["name"])
        if used[name]:
            _destroy_older(google, f"{path}/{name}/versions", min(used[name]))


def _destroy_older(google: Google, path: str, oldest_used: int) -> None:
    versions = google.pages("secretmanager", path, "versions")
    existing = [int(_last(v["name"])) for v in versions if v["state"] != "DESTROYED"]
    older = sorted(number for number in existing if number < oldest_used)
    for number in older[:-1]:
        google.call("POST", "secretmanager", f"{path}/{number}:destroy", {})


def _versions_read_by(services: Iterable[Mapping[str, Any]]) -> dict[str, set[int]]:
    """Return the versions that the newest revisions of the services read, by secret."""
    versions: defaultdict[str, set[int]] = defaultdict(set)
    for service in services:
        for secret, version in _references(service.get("template", {})):
            if version.isdigit():
                versions[_last(secret)].add(int(version))
    return versions


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
