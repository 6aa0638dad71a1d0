"""Upgrades and rollbacks of a cluster on Google Cloud, with fakes for Terraform and Google Cloud."""

import re
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.support.fake_api import Raw
from tests.support.fake_cluster import FakeCluster
from tests.support.fake_google import FakeGoogle
from tests.support.fake_terraform import FakeTerraform
from tests.support.google_project import MADE, Project, cause, outputs, state
from tests.support.terraform import INFRA

NAMES = ("det-lab-api", "det-lab-tick", "det-lab-provision", "det-lab-relay")
LATEST = "TRAFFIC_TARGET_ALLOCATION_TYPE_LATEST"
REVISION = "TRAFFIC_TARGET_ALLOCATION_TYPE_REVISION"
SECRET = "det-lab-configuration"
URL_SECRET = "det-lab-database-url"


def declared_traffic() -> list[str]:
    """Return the traffic setting of each Cloud Run resource in the stack, which Terraform sends at each apply."""
    text = "".join(path.read_text() for path in sorted(INFRA.glob("modules/gcp/controlplane/*.tf")))
    blocks = re.findall(r'^resource "google_cloud_run_v2_service" .*?^\}', text, re.M | re.S)
    return [" ".join(re.findall(r"^  traffic \{(.*?)\}", block, re.M | re.S)) for block in blocks]


@dataclass
class Upgrades:
    """A cluster in which each apply creates a new revision of each service and a new version of the secret."""

    project: Project
    google: FakeGoogle
    cluster: FakeCluster
    revision: int = 1
    applied: list[Any] = field(default_factory=list)

    def deploy(self) -> None:
        """Create the next revision of each service, as Cloud Run does at an apply.

        Traffic keeps its target unless the stack sets one. The target of a new service is the newest revision.
        """
        self.revision += 1
        self.google.versions[SECRET][self.revision] = "ENABLED"
        for service in self.google.leftovers["services"]:
            name = service["name"].rpartition("/")[2]
            service["latestReadyRevision"] = f"{service['name']}/revisions/{name}-{self.revision}"
            service["template"] = template(self.revision)
            if all(LATEST in text and "100" in text for text in declared_traffic()):
                service["trafficStatuses"] = [{"type": LATEST, "percent": 100}]

    def serving(self) -> dict[str, str]:
        revisions = {}
        for service in self.google.leftovers["services"]:
            (target,) = service["trafficStatuses"]
            newest = service["latestReadyRevision"].rpartition("/")[2]
            revisions[service["name"].rpartition("/")[2]] = target.get("revision") or newest
        return revisions

    def up(self, *, answers: bool) -> Any:
        self.cluster.on("GET", "/health", Raw(b"{}", status=200 if answers else 500))
        return self.project.up("--image", "img")


def template(version: int) -> dict[str, Any]:
    url = {
        "name": "DET_DB_URL",
        "valueSource": {"secretKeyRef": {"secret": URL_SECRET, "version": "1"}},
    }
    plain = {"name": "DET_ROLE", "value": "api"}
    items = [{"path": "cluster.yaml", "version": str(version)}]
    return {
        "containers": [{"env": [plain, url]}],
        "volumes": [{"name": "configuration", "secret": {"secret": SECRET, "items": items}}],
    }  # fmt: skip


def service(name: str) -> dict[str, Any]:
    path = f"projects/acme/locations/us-west1/services/{name}"
    return {
        "name": path, "labels": {"determined-cluster": "lab"}, "template": template(1),
        "latestReadyRevision": f"{path}/revisions/{name}-1",
        "trafficStatuses": [{"type": LATEST, "percent": 100}],
    }  # fmt: skip


@pytest.fixture
def upgrades(
    project: Project, terraform: FakeTerraform, cluster: FakeCluster, google: FakeGoogle,
    monkeypatch: pytest.MonkeyPatch,
) -> Upgrades:  # fmt: skip
    google.has_cluster()
    google.leftovers["services"] = [service(name) for name in NAMES]
    google.leftovers["secrets"] = [
        {"name": f"projects/1/secrets/{name}", "labels": {"determined-cluster": "lab"}}
        for name in (SECRET, URL_SECRET)
    ]
    google.versions = {SECRET: {1: "ENABLED"}, URL_SECRET: {1: "ENABLED"}}
    terraform.answers(output=outputs(cluster), state_pull=state(*MADE))
    result = Upgrades(project, google, cluster)
    answer = google.answer

    def answer_after_applies(method: str, path: str, query: dict[str, str], body: Any) -> Any:
        for apply in terraform.calls("apply")[len(result.applied) :]:
            result.applied.append(apply)
            result.deploy()
        return answer(method, path, query, body)

    monkeypatch.setattr(google, "answer", answer_after_applies)
    monkeypatch.setattr("det_cli.deployment.running_cluster._HEALTHY_S", -1.0)
    monkeypatch.setattr("det_cli.deployment.google.time.sleep", lambda _: None)
    return result


def test_rolls_back_an_upgrade_that_does_not_answer(upgrades: Upgrades) -> None:
    result = upgrades.up(answers=False)
    assert cause(result) == (
        f"the new version does not answer at {upgrades.cluster.url}: the previous version was restored"
    )
    assert "det-lab-api" in result.err
    assert upgrades.serving() == {name: f"{name}-1" for name in NAMES}


def test_an_upgrade_after_a_rollback_serves_the_new_version(upgrades: Upgrades) -> None:
    """The rollback pinned traffic to a revision. Cloud Run keeps the pin until a request changes it."""
    assert upgrades.up(answers=False).code == 1
    result = upgrades.up(answers=True)
    assert result.code == 0, result.err
    assert upgrades.serving() == {name: f"{name}-3" for name in NAMES}


def test_a_rollback_keeps_the_secrets_of_the_previous_version(upgrades: Upgrades) -> None:
    assert upgrades.up(answers=False).code == 1
    assert upgrades.google.versions[SECRET] == {1: "ENABLED", 2: "ENABLED"}


def test_a_successful_upgrade_destroys_old_versions_of_secrets(upgrades: Upgrades) -> None:
    """The previous version is kept, because an operator may roll back to its revision."""
    for _ in range(3):
        result = upgrades.up(answers=True)
        assert result.code == 0, result.err
    states = {1: "DESTROYED", 2: "DESTROYED", 3: "ENABLED", 4: "ENABLED"}
    assert upgrades.google.versions == {SECRET: states, URL_SECRET: {1: "ENABLED"}}


def test_an_upgrade_continues_if_old_versions_cannot_be_destroyed(
    upgrades: Upgrades, monkeypatch: pytest.MonkeyPatch
) -> None:
    upgrades.google.permissions_missing = {"secretmanager.versions.list"}
    result = upgrades.up(answers=True)
    assert result.code == 0, result.err
    assert "warning: old versions of secrets could not be destroyed: " in result.err


def test_a_new_cluster_that_does_not_answer_has_no_rollback(
    project: Project,
    terraform: FakeTerraform,
    cluster: FakeCluster,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    terraform.answers(output=outputs(cluster), state_pull=state(*MADE))
    monkeypatch.setattr("det_cli.deployment.running_cluster._HEALTHY_S", -1.0)
    cluster.on("GET", "/health", Raw(b"{}", status=500))
    result = project.up("--image", "img")
    assert cause(result) == f"the cluster does not answer at {cluster.url}"
