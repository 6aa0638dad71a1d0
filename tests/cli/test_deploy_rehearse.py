"""`det deploy aws rehearse` and `gcp rehearse`, with fakes for the clouds, Terraform and the cluster."""

import json
from pathlib import Path
from typing import Any

import boto3
import pytest

from tests.cli.conftest import CommandResult, Det
from tests.support.aws_account import MADE, Account
from tests.support.fake_cluster import FakeCluster, page
from tests.support.fake_terraform import FakeTerraform
from tests.support.google_project import MADE as MADE_IN_GOOGLE
from tests.support.google_project import Project, outputs, state

SPOT: dict[str, Any] = {"compute_agent_instance_type": "g4dn.xlarge", "spot": True}


@pytest.fixture
def answering(cluster: FakeCluster) -> FakeCluster:
    """Return a cluster without machines, with the routes that a rehearsal requests first."""
    cluster.on("GET", "/api/v1/master", {"version": "0.38.1", "productVersion": "9.9"})
    cluster.on("GET", "/api/v1/instances", lambda request: page("instances", [], request))
    return cluster


@pytest.fixture
def existing(account: Account, terraform: FakeTerraform, answering: FakeCluster) -> Account:
    """Return an account with the cluster `box`."""
    account.has_cluster(**SPOT)
    outputs_by_name = {"url": answering.url, "initial_user_password": "Secret123", "schedules": []}
    terraform.answers(
        output={
            "out": json.dumps({name: {"value": value} for name, value in outputs_by_name.items()})
        },
        state_pull={"out": json.dumps(MADE)},
    )
    return account


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


def rehearse(det: Det, account: Account, *more: object) -> CommandResult:
    return det("deploy", "aws", "rehearse", *account.where, *more)


def test_rehearses_a_cluster_and_writes_the_report(
    det: Det, existing: Account, terraform: FakeTerraform, here: Path
) -> None:
    result = rehearse(det, existing, "--steps", "up", "--yes")
    assert result.code == 0, result.err
    assert "up: create the cluster if it does not exist" in result.out
    assert "The cluster box exists and is kept." in result.out
    report = json.loads((here / "rehearsal-box.json").read_text())
    (step,) = report["steps"]
    assert (step["state"], "with version 9.9" in step["detail"]) == ("passed", True)
    assert "us-west-2" in report["place"]
    assert (here / "rehearsal-box.md").exists()
    assert terraform.calls("apply", "destroy") == []


def test_a_failed_step_exits_with_1_and_prints_the_next_step(
    det: Det, existing: Account, here: Path, cluster: FakeCluster
) -> None:
    cluster.passwords["admin"] = "changed"  # the command then signs in as `determined`
    result = rehearse(det, existing, "--steps", "up,idle", "--yes", "--report", "r.md")
    assert result.code == 1, result.err
    assert "determined is not an administrator" in result.err
    assert "user login admin" in result.err
    steps = json.loads((here / "r.json").read_text())["steps"]
    assert [step["state"] for step in steps] == ["failed", "skipped"]


def test_requires_a_confirmation(det: Det, existing: Account, here: Path) -> None:
    result = rehearse(det, existing, "--steps", "spot")
    assert (result.code, "give --yes" in result.err) == (2, True)
    assert "spot: submit a small job" in result.out
    assert not list(here.iterdir())


@pytest.mark.parametrize(
    ("options", "cause", "hint"),
    [
        (["--steps", "fly"], "there is no step fly", "the steps are up, idle, spot"),
        (["--steps", "down"], "the cluster existed before the rehearsal", "give --down"),
        (["--max-cost", "0.1"], "more than --max-cost 0.1", "fewer --steps"),
        (["--max-cost", "0"], "--max-cost must be more than 0", "US dollars"),
        (["--idle-minutes", "-1"], "--idle-minutes must be 0 or more", ""),
        (["--pool", "mine"], "no pool mine rents machines", "compute-pool, aux-pool"),
        (["--pool", "aux-pool"], "aux-pool rents no spot machines", "another --pool"),
        (["--spot"], "the cluster box exists, and --spot would change it", "det deploy aws up"),
        (["--report", "none/r.md"], "in a folder that does not exist", "create it"),
    ],
)
def test_rejects_invalid_input_before_any_step(
    det: Det,
    existing: Account,
    terraform: FakeTerraform,
    here: Path,
    options: list[str],
    cause: str,
    hint: str,
) -> None:
    result = rehearse(det, existing, "--yes", *options)
    assert (result.code, result.out) == (2, "")
    assert cause in result.err
    assert hint in result.err
    assert terraform.calls("init", "apply") == []
    assert not list(here.iterdir())


def test_the_spot_step_needs_spot_machines(det: Det, account: Account, here: Path) -> None:
    result = rehearse(det, account, "--yes")
    assert (result.code, "give --spot if the cluster is new" in result.err) == (2, True)


def test_the_plan_of_a_new_cluster_ends_with_its_removal(
    det: Det, account: Account, here: Path
) -> None:
    plan = rehearse(det, account, "--spot").out
    assert "down: remove the cluster" in plan
    assert "The cluster box is created and is removed at the end." in plan
    plan_to_keep = rehearse(det, account, "--spot", "--keep").out
    assert "down: " not in plan_to_keep
    assert "The cluster box is created and is kept." in plan_to_keep


def test_removes_an_existing_cluster_only_with_down(
    det: Det, existing: Account, here: Path
) -> None:
    assert "is removed at the end" in rehearse(det, existing, "--down").out
    assert "down: " not in rehearse(det, existing).out


def test_keep_and_down_exclude_each_other(det: Det, existing: Account, here: Path) -> None:
    result = rehearse(det, existing, "--keep", "--down")
    assert (result.code, "not allowed with argument" in result.err) == (2, True)


def test_reports_missing_credentials(
    det: Det, account: Account, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setattr(boto3, "DEFAULT_SESSION", None)
    result = rehearse(det, account, "--yes", "--spot")
    assert (result.code, "there are no AWS credentials" in result.err) == (1, True)


def test_rehearses_a_cluster_on_google_cloud(
    project: Project, terraform: FakeTerraform, answering: FakeCluster, here: Path
) -> None:
    project.google.has_cluster(spot=True)
    terraform.answers(output=outputs(answering), state_pull=state(MADE_IN_GOOGLE[0]))
    result = project.run("rehearse", "--cluster-id", "lab", "--steps", "up", "--yes")
    assert result.code == 0, result.err
    report = json.loads((here / "rehearsal-lab.json").read_text())
    assert (report["cloud"], report["place"]) == ("Google Cloud", "us-west1 of project acme")
    assert report["steps"][0]["state"] == "passed"
