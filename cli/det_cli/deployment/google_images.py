"""The machine on Compute Engine that becomes an image. Google deletes it after a time limit, whatever happens."""

import secrets
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from det_cli.deployment.google import Google
from det_cli.deployment.machine_image import BAKING_LIMIT_S, LOOK_S, Recipe
from det_cli.deployment.pool_checks import GPU_IMAGE
from det_cli.errors import CommandError

IMAGE_LABEL = "det-image-of"
BASE_IMAGE, MACHINE_TYPE = GPU_IMAGE, "n1-standard-4"
_REGISTER_S = 3600.0
_ENDED = ("TERMINATED", "STOPPED", "SUSPENDED")


def zone_of(google: Google, region: str, machine_type: str) -> str:
    """Return the first zone of a region that has a machine type. Raises CommandError."""
    path = f"/compute/v1/projects/{google.project}/aggregated/machineTypes"
    rows = google.aggregated(path, "machineTypes", filter=f'name="{machine_type}"')
    zones = sorted(zone for zone, _ in rows if zone.rpartition("-")[0] == region)
    if not zones:
        raise CommandError(
            f"no zone of {region} has {machine_type}", "give --machine-type, or another --region"
        )
    return zones[0]


class GoogleBuilder:
    """Bakes an image of a cluster in its subnet, without a service account on the machine."""

    def __init__(
        self,
        google: Google,
        cluster_id: str,
        zone: str,
        network: Mapping[str, Any],
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        self._google, self._cluster_id, self._zone = google, cluster_id, zone
        self._network, self._pause = network, pause
        self._name = f"det-{cluster_id}-image-{secrets.token_hex(3)}"
        self._begun = False
        self._image = ""
        self._is_registered = False

    @property
    def _project(self) -> str:
        return f"/compute/v1/projects/{self._google.project}"

    def _machine(self, name: str = "", zone: str = "") -> str:
        return f"{self._project}/zones/{zone or self._zone}/instances/{name or self._name}"

    def leftovers(self) -> Sequence[str]:
        names = []
        label = f'labels.{IMAGE_LABEL}="{self._cluster_id}"'
        path = f"{self._project}/aggregated/instances"
        for zone, machine in self._google.aggregated(path, "instances", filter=label):
            self._google.call("DELETE", "compute", self._machine(machine["name"], zone))
            names.append(str(machine["name"]))
        return names

    def start(self, recipe: Recipe, script: str) -> str:
        self._begun = True
        disk = {
            "boot": True,
            "autoDelete": True,
            "initializeParams": {
                "sourceImage": recipe.base_image,
                "diskSizeGb": str(recipe.disk_gb),
                "diskType": f"projects/{self._google.project}/zones/{self._zone}/diskTypes/pd-balanced",
                "labels": {IMAGE_LABEL: self._cluster_id},
            },
        }
        body = {
            "name": self._name,
            "machineType": f"zones/{self._zone}/machineTypes/{recipe.machine_type}",
            "labels": {IMAGE_LABEL: self._cluster_id},
            "disks": [disk],
            "networkInterfaces": [dict(self._network)],
            "metadata": {"items": [{"key": "startup-script", "value": script}]},
            "scheduling": {
                "maxRunDuration": {"seconds": str(BAKING_LIMIT_S)},
                "instanceTerminationAction": "DELETE",
                "automaticRestart": False,
            },
        }
        path = f"{self._project}/zones/{self._zone}/instances"
        self._finish(self._google.call("POST", "compute", path, body), "start the machine")
        return self._name

    def console(self) -> str:
        response = self._google.call("GET", "compute", f"{self._machine()}/serialPort")
        return str((response or {}).get("contents") or "")

    def is_running(self) -> bool:
        machine = self._google.call("GET", "compute", self._machine())
        return machine is not None and machine.get("status") not in _ENDED

    def register(self, name: str) -> str:
        self._finish(
            self._google.call("POST", "compute", f"{self._machine()}/stop"), "stop the machine"
        )
        self._image = name
        body = {
            "name": name,
            "description": f"Machines of the Determined cluster {self._cluster_id}",
            "labels": {IMAGE_LABEL: self._cluster_id},
            "sourceDisk": f"projects/{self._google.project}/zones/{self._zone}/disks/{self._name}",
        }
        path = f"{self._project}/global/images"
        self._finish(self._google.call("POST", "compute", path, body), "make the image")
        self._is_registered = True
        return f"projects/{self._google.project}/global/images/{name}"

    def discard(self) -> None:
        if self._image and not self._is_registered:
            self._google.call("DELETE", "compute", f"{self._project}/global/images/{self._image}")
        if self._begun:
            self._google.call("DELETE", "compute", self._machine())

    def _finish(self, operation: Any, purpose: str) -> None:
        """Wait until an operation of Compute Engine is done. Raises CommandError with its errors."""
        waited_s = 0.0
        while (operation or {}).get("status") != "DONE":
            if operation is None or waited_s >= _REGISTER_S:
                raise CommandError(f"Google Cloud does not {purpose}", "run the command again")
            self._pause(LOOK_S / 5)
            waited_s += LOOK_S / 5
            place = f"zones/{self._zone}" if operation.get("zone") else "global"
            path = f"{self._project}/{place}/operations/{operation['name']}"
            operation = self._google.call("GET", "compute", path)
        causes = list(_causes(operation))
        if causes:
            raise CommandError(
                f"Google Cloud could not {purpose}: {'; '.join(causes)}",
                "correct the cause and run the command again",
            )


def _causes(operation: Mapping[str, Any]) -> Iterator[str]:
    for error in (operation.get("error") or {}).get("errors") or ():
        yield str(error.get("message") or error.get("code"))
