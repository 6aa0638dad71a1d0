"""An operator's project at Google Cloud, as `det deploy gcp` finds it."""

import json
import re
from pathlib import Path
from typing import Any

from tests.cli.conftest import CommandResult, Det
from tests.support.fake_cluster import FakeCluster
from tests.support.fake_google import FakeGoogle

STATES, DATA = "acme-determined-deploy", "det-lab-acme"
MADE = [
    ("module.storage", "google_storage_bucket"),
    ("module.database", "google_sql_database_instance"),
    ("module.controlplane", "google_cloud_run_v2_service"),
]


class Project:
    """An operator's terminal with a key of the project."""

    def __init__(self, det: Det, google: FakeGoogle, folder: Path) -> None:
        self._det = det
        self.google = google
        self.key = google.key(folder)

    def run(self, verb: str, *more: Any) -> CommandResult:
        at = ("--project-id", "acme", "--keypath", self.key, "--endpoint-url", self.google.url)
        return self._det("deploy", "gcp", verb, *at, *more)

    def up(self, *more: Any) -> CommandResult:
        return self.run("up", "--cluster-id", "lab", "--yes", *more)

    def down(self, *more: Any) -> CommandResult:
        return self.run("down", "--cluster-id", "lab", "--yes", *more)


def outputs(cluster: FakeCluster) -> dict[str, str]:
    body = {"url": cluster.url, "initial_user_password": "Secret123"}
    return {"out": json.dumps({name: {"value": value} for name, value in body.items()})}


def state(*made: tuple[str, str]) -> dict[str, str]:
    resources = [
        {"mode": "managed", "module": module, "type": kind, "name": "this", "instances": [{}]}
        for module, kind in made
    ]
    return {"out": json.dumps({"resources": resources})}


def cause(result: CommandResult) -> str:
    """Return the sentence about a failure."""
    assert result.code != 0, result.out
    assert "Traceback" not in result.err
    causes = (
        re.match(r"(?:error|det deploy gcp [a-z]+): (.*)", line) for line in result.err.splitlines()
    )
    return next(match[1] for match in causes if match)
