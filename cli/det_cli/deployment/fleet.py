"""The rented machines of a cluster, in all regions and clouds in which its pools rent or have rented."""

import importlib.util
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from det_cli.deployment import extras
from det_cli.errors import CommandError
from det_cli.render import Say, counted

_GONE_S = 600.0
_CLOUDS = {"aws": "AWS", "gcp": "Google Cloud"}


@dataclass(frozen=True, order=True)
class Location:
    """A place in which one request lists all machines: an AWS region or a Google Cloud project."""

    provider: str  # aws or gcp
    name: str  # the AWS region or Google Cloud project

    def __str__(self) -> str:
        return f"{'project ' if self.provider == 'gcp' else ''}{self.name} of {_CLOUDS.get(self.provider, '')}"


class MachineAccount(Protocol):
    """Lists and terminates the machines in one location."""

    def has_cluster(self, cluster_id: str) -> bool:
        """Return True if a cluster with this name is deployed in the location."""

    def machines(self, cluster_id: str) -> list[str]:
        """Return the rented machines of a cluster that are not terminated."""

    def terminate(self, machines: Sequence[str]) -> None: ...

    def forget_machines(self, cluster_id: str) -> None:
        """Delete the resources that the cluster created for renting machines."""


@dataclass(frozen=True)
class MachineList:
    """The machines by location, and the locations that could not be checked."""

    machines: Mapping[Location, Sequence[str]]
    unchecked: Mapping[Location, CommandError]

    def names(self) -> list[str]:
        """Return the machines. Machines outside of the first location include their location."""
        names = []
        for number, (location, machines) in enumerate(self.machines.items()):
            where = "" if number == 0 else f" in {location}"
            names += [f"{machine}{where}" for machine in machines]
        return names


class Fleet:
    """All machines of one cluster. The first location is the cluster's own."""

    def __init__(
        self, cluster_id: str, locations: Mapping[Location, Callable[[], MachineAccount]], say: Say
    ) -> None:
        self._cluster_id = cluster_id
        self._locations = dict(locations)
        self._own = next(iter(locations))
        self._say = say

    def machines(self) -> MachineList:
        """List the machines in all locations. Raises CommandError if the cluster's own location cannot be listed."""
        machines: dict[Location, Sequence[str]] = {}
        unchecked: dict[Location, CommandError] = {}
        for location, open_account in self._locations.items():
            try:
                machines[location] = self._machines_at(location, open_account())
            except CommandError as e:
                if location == self._own:
                    raise
                unchecked[location] = e
        return MachineList(machines, unchecked)

    def _machines_at(self, location: Location, account: MachineAccount) -> Sequence[str]:
        """Return the machines in a location. Raises CommandError if they may belong to another cluster."""
        machines = account.machines(self._cluster_id)
        if machines and self._is_of_another(location, account):
            raise CommandError(
                f"another cluster named {self._cluster_id} is deployed there, so the owner of the"
                f" machines {', '.join(machines[:5])} is unknown",
                "terminate this cluster's machines there manually",
            )
        return machines

    def _is_of_another(self, location: Location, account: MachineAccount) -> bool:
        return location != self._own and account.has_cluster(self._cluster_id)

    def of_provider(self, provider: str) -> list[Location]:
        """Return the locations in a cloud."""
        return [location for location in self._locations if location.provider == provider]

    def end(self) -> None:
        """Terminate all listed machines and wait until they are gone. Raises CommandError."""
        inventory = self.machines()
        if not inventory.names():
            return
        self._say(f"Terminating {counted(len(inventory.names()), 'machine')}")
        for location, machines in inventory.machines.items():
            self._locations[location]().terminate(machines)
        limit = time.monotonic() + _GONE_S
        while remaining := self.machines().names():
            if time.monotonic() > limit:
                raise CommandError(
                    f"machines do not terminate: {', '.join(remaining)}",
                    "check them in the cloud's console",
                )
            time.sleep(5)

    def forget(self) -> None:
        """Delete the resources that the cluster created for renting machines, if they can be listed."""
        for location, open_account in self._locations.items():
            try:
                account = open_account()
                if not self._is_of_another(location, account):
                    account.forget_machines(self._cluster_id)
            except CommandError:
                if location == self._own:
                    raise


def locations_of(config: Mapping[str, Any]) -> list[Location]:
    """Return the locations in which the pools of a configuration rent machines. Raises InvalidConfig."""
    from det_controlplane.core.config.cluster import load_cluster

    locations: set[Location] = set()
    for pool in load_cluster(config).resource_pools:
        for section in pool.sections:
            project = str(section.settings.get("project") or "")
            names = section.regions if section.provider == "aws" else (project,)
            locations.update(Location(section.provider, name) for name in names if name)
    return sorted(locations)


def stored_locations(options: Mapping[str, Any]) -> list[Location]:
    """Return the locations of all earlier configurations from the stored options."""
    return [Location(str(provider), str(name)) for provider, name in options.get("places") or ()]


def merge_locations(*locations: Iterable[Location]) -> list[list[str]]:
    """Return the distinct locations in the format of the stored options."""
    return [[p.provider, p.name] for p in sorted({p for group in locations for p in group})]


def account_at(location: Location) -> MachineAccount:
    """Return the operator's account in another cloud, with the operator's default credentials."""
    if location.provider == "gcp":
        from det_cli.deployment.google import Google

        return Google(location.name, "")
    if importlib.util.find_spec("boto3") is None:
        raise extras.missing("boto3", "aws")
    from det_cli.deployment.aws_account import Aws

    return Aws(location.name)


def lookup_hint(location: Location, cluster_id: str) -> str:
    """Return the web page or the command that lists the machines in a location."""
    if location.provider == "gcp":
        page = f"https://console.cloud.google.com/compute/instances?project={location.name}"
        return f"{page} (label det-cluster: {cluster_id})"
    return (
        f"`aws ec2 describe-instances --region {location.name}"
        f" --filters Name=tag:determined-cluster,Values={cluster_id}`"
    )
