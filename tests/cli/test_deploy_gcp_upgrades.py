"""Upgrade a cluster on Google Cloud that does not answer afterwards; Terraform and Google Cloud are stand-ins."""

from typing import Any

import pytest

from tests.support.fake_api import Raw
from tests.support.fake_cluster import FakeCluster
from tests.support.fake_google import FakeGoogle
from tests.support.fake_terraform import FakeTerraform
from tests.support.google_project import MADE, Project, cause, outputs, state

NAMES = ("det-lab-api", "det-lab-tick", "det-lab-provision")


def service(name: str, revision: int, **more: Any) -> dict[str, Any]:
    path = f"projects/acme/locations/us-west1/services/{name}"
    return {
        "name": path, "labels": {"determined-cluster": "lab"},
        "latestReadyRevision": f"{path}/revisions/{name}-{revision}", **more,
    }  # fmt: skip


@pytest.fixture
def upgraded(
    project: Project, terraform: FakeTerraform, cluster: FakeCluster, google: FakeGoogle,
    monkeypatch: pytest.MonkeyPatch,
) -> Project:  # fmt: skip
    """A cluster whose newest revisions, made by Terraform's apply, do not answer."""
    google.has_cluster()
    google.leftovers["services"] = [service(name, 1) for name in NAMES]
    terraform.answers(output=outputs(cluster), state_pull=state(*MADE))
    real = project.google.answer
    looks = []

    def answer(method: str, path: str, query: dict[str, str], body: Any) -> Any:
        if method == "GET" and path.endswith("/services") and path.startswith("/run/"):
            looks.append(path)
            if len(looks) == 2:  # after the apply
                google.leftovers["services"] = [service(name, 2) for name in NAMES]
        return real(method, path, query, body)

    monkeypatch.setattr(google, "answer", answer)
    monkeypatch.setattr("det_cli.deployment.cluster._HEALTH_S", -1.0)
    monkeypatch.setattr("det_cli.deployment.google.time.sleep", lambda _: None)
    cluster.on("GET", "/health", Raw(b"{}", status=500))
    return project


def test_revisions_that_do_not_answer_make_room_for_those_before(
    upgraded: Project, cluster: FakeCluster
) -> None:
    ran = upgraded.up("--image", "img")
    assert cause(ran) == (
        f"the new version does not answer at {cluster.url}: the previous one is back"
    )
    assert "gcloud run services logs read det-lab-api" in ran.err
    traffic = {
        s["name"].rpartition("/")[2]: s["trafficStatuses"]
        for s in upgraded.google.leftovers["services"]
    }
    pinned = {"type": "TRAFFIC_TARGET_ALLOCATION_TYPE_REVISION", "percent": 100}
    assert traffic == {name: [{**pinned, "revision": f"{name}-1"}] for name in NAMES}


def test_a_first_cluster_that_does_not_answer_has_nothing_to_go_back_to(
    project: Project,
    terraform: FakeTerraform,
    cluster: FakeCluster,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    terraform.answers(output=outputs(cluster), state_pull=state(*MADE))
    monkeypatch.setattr("det_cli.deployment.cluster._HEALTH_S", -1.0)
    cluster.on("GET", "/health", Raw(b"{}", status=500))
    ran = project.up("--image", "img")
    assert cause(ran) == f"the cluster does not answer at {cluster.url}"
