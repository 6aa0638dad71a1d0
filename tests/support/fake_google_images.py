"""The parts of Compute Engine that make an image, for the fake project of `det deploy gcp`.

Left out: the time that operations and the serial port take, and images of running machines, which Google refuses.
"""

import re
from dataclasses import dataclass, field
from typing import Any

from tests.support.fake_google import FakeGoogle

Json = dict[str, Any]
_ZONE = r"/compute/compute/v1/projects/acme/zones/(?P<zone>[^/]+)"
_GLOBAL = "/compute/compute/v1/projects/acme/global"


@dataclass
class Baking:
    """Answers the calls in front of the fake's own routes."""

    google: FakeGoogle
    console: str
    image_error: str = ""
    started: list[Json] = field(default_factory=list)
    images: dict[str, Json] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._others = self.google.answer
        self.google.answer = self._answer  # type: ignore[method-assign]

    def _answer(self, method: str, path: str, query: dict[str, str], body: Any) -> Any:
        for wanted, pattern, route in _ROUTES:
            match = re.fullmatch(pattern, path)
            if match and wanted == method:
                self.google.calls.append(f"{method} {path}")
                return route(self, match.groupdict(), body)
        return self._others(method, path, query, body)

    def insert(self, at: dict[str, str], body: Any) -> Json:
        self.started.append(body)
        machine = {**body, "zone": f"zones/{at['zone']}", "status": "RUNNING"}
        self.google.instances[f"{at['zone']}/{body['name']}"] = machine
        return {"name": "op-start", "status": "RUNNING", "zone": at["zone"]}

    def machine(self, at: dict[str, str], body: Any) -> Json | None:
        return self.google.instances.get(f"{at['zone']}/{at['name']}")

    def serial_port(self, at: dict[str, str], body: Any) -> Json | None:
        return {"contents": self.console} if self.machine(at, body) else None

    def stop(self, at: dict[str, str], body: Any) -> Json:
        self.google.instances[f"{at['zone']}/{at['name']}"]["status"] = "TERMINATED"
        return {"name": "op-stop", "status": "RUNNING", "zone": at["zone"]}

    def make_image(self, at: dict[str, str], body: Any) -> Json:
        name = body["sourceDisk"].rpartition("/")[2]
        (machine,) = [m for m in self.google.instances.values() if m["name"] == name]
        assert machine["status"] == "TERMINATED", "Google refuses the disk of a running machine"
        self.images[body["name"]] = body
        return {"name": "op-image", "status": "PENDING"}

    def delete_image(self, at: dict[str, str], body: Any) -> Json | None:
        return None if self.images.pop(at["name"], None) is None else {"status": "DONE"}

    def operation(self, at: dict[str, str], body: Any) -> Json:
        done = {"name": at["name"], "status": "DONE"}
        if at["name"] == "op-image" and self.image_error:
            return {**done, "error": {"errors": [{"message": self.image_error}]}}
        return done


_ROUTES = (
    ("POST", f"{_ZONE}/instances", Baking.insert),
    ("GET", f"{_ZONE}/instances/(?P<name>[^/]+)", Baking.machine),
    ("GET", f"{_ZONE}/instances/(?P<name>[^/]+)/serialPort", Baking.serial_port),
    ("POST", f"{_ZONE}/instances/(?P<name>[^/]+)/stop", Baking.stop),
    ("GET", f"{_ZONE}/operations/(?P<name>[^/]+)", Baking.operation),
    ("GET", f"{_GLOBAL}/operations/(?P<name>[^/]+)", Baking.operation),
    ("POST", f"{_GLOBAL}/images", Baking.make_image),
    ("DELETE", f"{_GLOBAL}/images/(?P<name>[^/]+)", Baking.delete_image),
)
