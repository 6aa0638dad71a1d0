"""The machines that a cluster rents, wherever its pools rent or rented: in other regions, on the other cloud too."""

import importlib.util
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from det_cli.deployment import extras
from det_cli.errors import CommandError
from det_cli.render import Say

_GONE_S = 600.0
_CLOUDS = {"aws": "AWS", "gcp": "Google Cloud"}


@dataclass(frozen=True, order=True)
class Location:
    """Name where machines are rented and found by one question."""

    provider: str  # aws or gcp
    name: str  # a region of AWS, a project of Google Cloud

    def __str__(self) -> str:
        return f"{'project ' if self.provider == 'gcp' else ''}{self.name} of {_CLOUDS.get(self.provider, '')}"


class MachineAccount(Protocol):
    """Find and end the machines of one location."""

    def has_cluster(self, cluster_id: str) -> bool:
        """Tell whether a cluster of this name is deployed at the location."""

    def machines(self, cluster_id: str) -> list[str]:
        """Return the rented machines of a cluster that are not gone."""

    def terminate(self, machines: Sequence[str]) -> None: ...

    def forget_machines(self, cluster_id: str) -> None:
        """Delete the resources that the cluster made to rent machines with."""


@dataclass(frozen=True)
class FoundMachines:
    """Hold what was found, and the locations that could not be looked at."""

    machines: Mapping[Location, Sequence[str]]
    unseen: Mapping[Location, CommandError]

    def names(self) -> list[str]:
        """Return the machines, those of the first location without its name."""
        shown = []
        for number, (location, machines) in enumerate(self.machines.items()):
            where = "" if number == 0 else f" in {location}"
            shown += [f"{machine}{where}" for machine in machines]
        return shown


class Fleet:
    """All machines of one cluster. The first location is the cluster's own."""

    def __init__(
        self, cluster_id: str, locations: Mapping[Location, Callable[[], MachineAccount]], say: Say
    ) -> None:
        self._cluster_id = cluster_id
        self._locations = dict(locations)
        self._own = next(iter(locations))
        self._say = say

    def found(self) -> FoundMachines:
        """Look for machines everywhere. Raises CommandError when the cluster's own location does not tell."""
        machines: dict[Location, Sequence[str]] = {}
        unseen: dict[Location, CommandError] = {}
        for location, open_account in self._locations.items():
            try:
                machines[location] = self._machines(location, open_account())
            except CommandError as e:
                if location == self._own:
                    raise
                unseen[location] = e
        return FoundMachines(machines, unseen)

    def _machines(self, location: Location, account: MachineAccount) -> Sequence[str]:
        """Return the machines of a location. Raises CommandError where they may be those of another cluster."""
        found = account.machines(self._cluster_id)
        if found and self._is_of_another(location, account):
            raise CommandError(
                f"another cluster {self._cluster_id} is deployed there, and the name alone tells whose"
                f" machines {', '.join(found[:5])} are",
                "end those of this cluster there by hand",
            )
        return found

    def _is_of_another(self, location: Location, account: MachineAccount) -> bool:
        return location != self._own and account.has_cluster(self._cluster_id)

    def of_provider(self, provider: str) -> list[Location]:
        """Return the locations on a cloud."""
        return [location for location in self._locations if location.provider == provider]

    def end(self) -> None:
        """End the machines that can be found, and wait until they are gone. Raises CommandError."""
        found = self.found()
        if not found.names():
            return
        self._say(f"Ending {len(found.names())} machines")
        for location, machines in found.machines.items():
            self._locations[location]().terminate(machines)
        limit = time.monotonic() + _GONE_S
        while left := self.found().names():
            if time.monotonic() > limit:
                raise CommandError(
                    f"machines do not end: {', '.join(left)}", "look at them in the cloud's console"
                )
            time.sleep(5)

    def forget(self) -> None:
        """Delete the resources that the cluster itself made to rent machines with, where they can be listed."""
        for location, open_account in self._locations.items():
            try:
                there = open_account()
                if not self._is_of_another(location, there):
                    there.forget_machines(self._cluster_id)
            except CommandError:
                if location == self._own:
                    raise


def locations_of(config: Mapping[str, Any]) -> list[Location]:
    """Return where the pools of a cluster's configuration rent. Raises InvalidConfig."""
    from det_controlplane.core.config.cluster import load_cluster

    found: set[Location] = set()
    for pool in load_cluster(config).resource_pools:
        for section in pool.sections:
            project = str(section.settings.get("project") or "")
            names = section.regions if section.provider == "aws" else (project,)
            found.update(Location(section.provider, name) for name in names if name)
    return sorted(found)


def kept(options: Mapping[str, Any]) -> list[Location]:
    """Return the locations of all configurations that the cluster has had."""
    return [Location(str(provider), str(name)) for provider, name in options.get("places") or ()]


def to_keep(*locations: Iterable[Location]) -> list[list[str]]:
    """Return locations as options hold them."""
    return [[p.provider, p.name] for p in sorted({p for given in locations for p in given})]


def account_at(location: Location) -> MachineAccount:
    """Return the operator's account on another cloud than the cluster's own, by their sign-in there."""
    if location.provider == "gcp":
        from det_cli.deployment.google import Google

        return Google(location.name, "")
    if importlib.util.find_spec("boto3") is None:
        raise extras.missing("boto3", "aws")
    from det_cli.deployment.aws_account import Aws

    return Aws(location.name)


def question(location: Location, cluster_id: str) -> str:
    """Return the page or the command that lists the machines at a location."""
    if location.provider == "gcp":
        page = f"https://console.cloud.google.com/compute/instances?project={location.name}"
        return f"{page} (label det-cluster: {cluster_id})"
    return (
        f"`aws ec2 describe-instances --region {location.name}"
        f" --filters Name=tag:determined-cluster,Values={cluster_id}`"
    )
