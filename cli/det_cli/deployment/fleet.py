"""The machines that a cluster rents, wherever its pools rent or rented: in other regions, on the other cloud too."""

import importlib.util
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from det_cli.errors import CommandError

_GONE_S = 600.0
_CLOUDS = {"aws": "AWS", "gcp": "Google Cloud"}

Say = Callable[[str], None]


@dataclass(frozen=True, order=True)
class Place:
    """Name where machines are rented and found by one question."""

    provider: str  # aws or gcp
    name: str  # a region of AWS, a project of Google Cloud

    def __str__(self) -> str:
        return f"{'project ' if self.provider == 'gcp' else ''}{self.name} of {_CLOUDS.get(self.provider, '')}"


class Landlord(Protocol):
    """Find and end the machines of one place."""

    def has_cluster(self, cluster_id: str) -> bool:
        """Tell whether a cluster of this name is deployed at the place."""

    def machines(self, cluster_id: str) -> list[str]:
        """Return the rented machines of a cluster that are not gone."""

    def terminate(self, machines: Sequence[str]) -> None: ...

    def forget_machines(self, cluster_id: str) -> None:
        """Delete what the cluster made to rent machines by."""


@dataclass(frozen=True)
class Found:
    """Hold what was found, and the places that could not be looked at."""

    machines: Mapping[Place, Sequence[str]]
    unseen: Mapping[Place, CommandError]

    def names(self) -> list[str]:
        """Return the machines, those of the first place without its name."""
        shown = []
        for number, (place, machines) in enumerate(self.machines.items()):
            where = "" if number == 0 else f" in {place}"
            shown += [f"{machine}{where}" for machine in machines]
        return shown


class Fleet:
    """All machines of one cluster. The first place is the cluster's own."""

    def __init__(
        self, cluster_id: str, places: Mapping[Place, Callable[[], Landlord]], say: Say
    ) -> None:
        self._cluster_id = cluster_id
        self._places = dict(places)
        self._own = next(iter(places))
        self._say = say

    def found(self) -> Found:
        """Look for machines everywhere. Raises CommandError when the cluster's own place does not tell."""
        machines: dict[Place, Sequence[str]] = {}
        unseen: dict[Place, CommandError] = {}
        for place, landlord in self._places.items():
            try:
                machines[place] = self._machines(place, landlord())
            except CommandError as e:
                if place == self._own:
                    raise
                unseen[place] = e
        return Found(machines, unseen)

    def _machines(self, place: Place, landlord: Landlord) -> Sequence[str]:
        """Return the machines of a place. Raises CommandError where they may be those of another cluster."""
        found = landlord.machines(self._cluster_id)
        if found and self._is_another_s(place, landlord):
            raise CommandError(
                f"another cluster {self._cluster_id} is deployed there, and the name alone tells whose"
                f" machines {', '.join(found[:5])} are",
                "end those of this cluster there by hand",
            )
        return found

    def _is_another_s(self, place: Place, landlord: Landlord) -> bool:
        return place != self._own and landlord.has_cluster(self._cluster_id)

    def seen(self, provider: str) -> list[Place]:
        """Return the places of a cloud."""
        return [place for place in self._places if place.provider == provider]

    def end(self) -> None:
        """End the machines that can be found, and wait until they are gone. Raises CommandError."""
        found = self.found()
        if not found.names():
            return
        self._say(f"Ending {len(found.names())} machines")
        for place, machines in found.machines.items():
            self._places[place]().terminate(machines)
        limit = time.monotonic() + _GONE_S
        while left := self.found().names():
            if time.monotonic() > limit:
                raise CommandError(
                    f"machines do not end: {', '.join(left)}", "look at them in the cloud's console"
                )
            time.sleep(5)

    def forget(self) -> None:
        """Delete what the cluster itself made to rent machines by, where that can be looked at."""
        for place, landlord in self._places.items():
            try:
                there = landlord()
                if not self._is_another_s(place, there):
                    there.forget_machines(self._cluster_id)
            except CommandError:
                if place == self._own:
                    raise


def places_of(config: Mapping[str, Any]) -> list[Place]:
    """Return where the pools of a cluster's configuration rent. Raises InvalidConfig."""
    from det_controlplane.core.config.cluster import load_cluster

    found: set[Place] = set()
    for pool in load_cluster(config).resource_pools:
        for section in pool.sections:
            project = str(section.settings.get("project") or "")
            names = section.regions if section.provider == "aws" else (project,)
            found.update(Place(section.provider, name) for name in names if name)
    return sorted(found)


def kept(options: Mapping[str, Any]) -> list[Place]:
    """Return the places of all configurations that the cluster has had."""
    return [Place(str(provider), str(name)) for provider, name in options.get("places") or ()]


def to_keep(*places: Iterable[Place]) -> list[list[str]]:
    """Return places as options hold them."""
    return [[p.provider, p.name] for p in sorted({p for given in places for p in given})]


def landlord_of(place: Place) -> Landlord:
    """Return the operator's account on another cloud than the cluster's own, by their sign-in there."""
    if place.provider == "gcp":
        from det_cli.deployment.google import Google

        return Google(place.name, "")
    if importlib.util.find_spec("boto3") is None:
        raise CommandError("boto3 is missing", "pip install 'determined-serverless[aws]'")
    from det_cli.deployment.aws_account import Aws

    return Aws(place.name)


def question(place: Place, cluster_id: str) -> str:
    """Return the command by which an operator looks for machines at a place."""
    if place.provider == "gcp":
        return f"`gcloud compute instances list --project {place.name} --filter labels.det-cluster={cluster_id}`"
    return (
        f"`aws ec2 describe-instances --region {place.name}"
        f" --filters Name=tag:determined-cluster,Values={cluster_id}`"
    )
