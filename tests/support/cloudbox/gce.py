"""Compute Engine's instances as machines of the box, with their metadata."""

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from tests.support.cloudbox.metadata import GceMetadata
from tests.support.fake_gce.cloud import FakeGce, Instance
from tests.support.google_machines import Google, machine_claims

PROJECT = "acme"


@dataclass
class GceInstance:
    """An instance in the fake's list, with Google's metadata while it runs."""

    fake: FakeGce
    google: Google
    found: Instance
    claims: dict[str, str] = field(default_factory=dict)  # instead of the right ones
    values: dict[str, str] = field(default_factory=dict)

    @property
    def cloud_id(self) -> str:
        return f"{self.found.project}/{self.found.name}"

    @property
    def name(self) -> str:
        return self.found.name

    @property
    def place(self) -> str:
        return self.found.zone

    @property
    def image(self) -> str:
        return str(self.found.body["disks"][0]["initializeParams"]["sourceImage"])

    @property
    def user_data(self) -> str:
        items = self.found.body.get("metadata", {}).get("items", ())
        return next((i["value"] for i in items if i["key"] == "startup-script"), "")

    @property
    def is_on(self) -> bool:
        exists = self.found in self.fake.listed(self.found.project)
        return exists and self.found.status(self.fake.now()) == "RUNNING"

    def metadata(self) -> GceMetadata:
        return GceMetadata(self._tree, self._identity)

    def announce(self) -> None:
        """Tell the instance that it is preempted."""
        self.values["instance/preempted"] = "TRUE"

    def take(self) -> None:
        """Reclaim the instance, as Google does half a minute after its notice."""
        self.fake.preempt(self.found.name)

    def powered_off(self) -> None:
        self.found.stopped_because = self.found.stopped_because or "Instance terminated by guest."

    def show_console(self, text: str) -> None:
        self.found.console = text

    def _tree(self) -> Mapping[str, str]:
        zone = f"projects/42/zones/{self.found.zone}"
        return {
            "instance/preempted": str(self.found.is_preempted).upper(), "instance/maintenance-event": "NONE",
            "instance/name": self.name, "instance/zone": zone, "project/project-id": self.found.project,
            "instance/attributes/startup-script": self.user_data, **self.values,
        }  # fmt: skip

    def _identity(self, audience: str) -> str:
        facts = {
            "project_id": self.found.project, "zone": self.found.zone,
            "instance_id": self.found.id, "instance_name": self.name, **self.claims,
        }  # fmt: skip
        return self.google.token(aud=audience, google=machine_claims(**facts))


@dataclass
class Gce:
    """Finds the instances of the fake."""

    fake: FakeGce = field(default_factory=lambda: FakeGce(now=time.monotonic))
    google: Google = field(default_factory=Google)
    _known: dict[str, GceInstance] = field(default_factory=dict)

    def instances(self) -> Iterator[GceInstance]:
        with self.fake.lock:
            matching_instances = list(self.fake.listed(PROJECT))
        for instance in matching_instances:
            if instance.id not in self._known:
                self._known[instance.id] = GceInstance(self.fake, self.google, instance)
        yield from list(self._known.values())
