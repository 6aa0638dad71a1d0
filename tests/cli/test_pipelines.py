"""`ci/train`, the script that GitHub's action and GitLab's template run."""

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import jwt
import pytest
import yaml
from det_controlplane.adapters import own_wheel

from tests.cli.conftest import Det
from tests.support.fake_api import Raw, RecordedRequest
from tests.support.fake_cluster import FakeCluster
from tests.support.oidc_server import oidc_server

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "ci/train"


@pytest.fixture
def environment(cluster: FakeCluster, tmp_path: Path) -> dict[str, str]:
    cluster.tokens["token"] = "ada"
    (tmp_path / "config.yaml").write_text("name: digits\nsearcher: {name: single, metric: loss}\n")
    (tmp_path / "model").mkdir()
    (tmp_path / "model/train.py").write_text("print(1)\n")
    return {
        **{k: v for k, v in os.environ.items() if not k.startswith("DET_")},
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "HOME": str(tmp_path),
        "DET_MASTER": cluster.url,
        "DET_USER_TOKEN": "token",
        "DET_SUMMARY": str(tmp_path / "summary.md"),
        "GITHUB_OUTPUT": str(tmp_path / "output"),
    }


def ended(cluster: FakeCluster, state: str, **more: Any) -> None:
    experiment = {
        "id": 1, "state": state, "numTrials": 3, "bestTrialId": 12, "bestTrialSearcherMetric": 0.25,
        "startTime": "2026-01-01T00:00:00Z", "duration": 60, "config": {}, "username": "ada", "name": "digits", **more,
    }  # fmt: skip
    config = {"searcher": {"metric": "loss"}}
    cluster.on("GET", "/api/v1/experiments/1", {"experiment": experiment, "config": config})
    cluster.on("GET", "/api/v1/why/experiment/1", {"reasons": []})
    costs = {"costs": [{"id": 1, "costUsd": 1.5, "slotHours": 3.0}]}
    cluster.on("GET", "/api/v1/costs/experiments", costs)


def train(environment: dict[str, str], tmp_path: Path) -> "subprocess.CompletedProcess[str]":
    command = ["bash", str(SCRIPT), "config.yaml", "model"]
    return subprocess.run(
        command, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False
    )  # fmt: skip


def test_summary_has_metric_and_cost(
    cluster: FakeCluster, environment: dict[str, str], tmp_path: Path
) -> None:
    ended(cluster, "STATE_COMPLETED")
    result = train(environment, tmp_path)
    assert result.returncode == 0, result.stderr
    summary = Path(environment["DET_SUMMARY"]).read_text()
    for row in ("| state | completed |", "| loss | 0.25 |", "| trials | 3 |", "| cost | $1.50 |"):
        assert row in summary
    assert Path(environment["GITHUB_OUTPUT"]).read_text() == "experiment-id=1\n"


def test_summary_is_appended_to_output_without_summary_file(
    cluster: FakeCluster, environment: dict[str, str], tmp_path: Path
) -> None:
    """Standard output may be a file. Opening `/dev/stdout` for writing would truncate it."""
    ended(cluster, "STATE_COMPLETED")
    del environment["DET_SUMMARY"]
    environment.pop("GITHUB_STEP_SUMMARY", None)
    command = ["bash", str(SCRIPT), "config.yaml", "model"]
    with (tmp_path / "log").open("w") as log:
        subprocess.run(command, env=environment, cwd=tmp_path, stdout=log, timeout=120, check=True)
    output = (tmp_path / "log").read_text()
    assert output.index("Created experiment 1") < output.index("| loss | 0.25 |")


@pytest.fixture
def bare(cluster: FakeCluster, environment: dict[str, str], tmp_path: Path) -> dict[str, str]:
    """A runner without `det`. PYTHONPATH holds the libraries, because tests do not use a package index. Python does
    not load the editable packages of that folder."""
    wheel = own_wheel.find()
    assert wheel is not None
    place = {"Location": f"wheel/{wheel.name()}"}
    cluster.on("GET", "/agents/v1/wheel", Raw(b"", place, status=302))
    cluster.on("GET", f"/agents/v1/wheel/{wheel.name()}", Raw(wheel.content()))
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "python3").write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    (programs / "python3").chmod(0o755)
    return {
        **{k: v for k, v in environment.items() if not k.startswith(("PIP_", "PYTHON", "VIRTUAL_"))},
        "PATH": f"{programs}:/usr/sbin:/usr/bin:/sbin:/bin", "PIP_NO_DEPS": "1",
        "PYTHONPATH": str(Path(yaml.__file__).parents[1]), "TMPDIR": str(tmp_path),
    }  # fmt: skip


def test_runner_installs_det_from_the_cluster(
    cluster: FakeCluster, bare: dict[str, str], tmp_path: Path
) -> None:
    """This cluster has no constraints.txt with versions of libraries."""
    ended(cluster, "STATE_COMPLETED")
    result = train(bare, tmp_path)
    assert result.returncode == 0, result.stderr
    assert "| loss | 0.25 |" in Path(bare["DET_SUMMARY"]).read_text()
    assert cluster.sent("GET", "/agents/v1/wheel/.*"), "the command of this machine was used"
    assert not list(tmp_path.glob("tmp*")), "the installation is removed with the job"


def test_address_without_scheme_is_completed(
    cluster: FakeCluster, bare: dict[str, str], tmp_path: Path
) -> None:
    """The download of `det` and the link in the summary both use the complete address."""
    ended(cluster, "STATE_COMPLETED")
    result = train({**bare, "DET_MASTER": cluster.url.removeprefix("http://")}, tmp_path)
    assert result.returncode == 0, result.stderr
    assert f"]({cluster.url}/det/experiments/1)" in Path(bare["DET_SUMMARY"]).read_text()
    assert cluster.sent("GET", "/agents/v1/wheel/.*")


def test_runner_installs_library_versions_of_the_cluster(
    cluster: FakeCluster, bare: dict[str, str], tmp_path: Path
) -> None:
    """The version contradicts the version of the wheel, so pip fails if it reads constraints.txt."""
    ended(cluster, "STATE_COMPLETED")
    cluster.on("GET", "/agents/v1/wheel/constraints.txt", Raw(b"determined-serverless==0.0.1\n"))
    result = train(bare, tmp_path)
    assert result.returncode != 0
    assert "Cannot install determined-serverless" in result.stderr
    assert not cluster.sent("POST", "/api/v1/experiments")


def test_failed_experiment_fails_the_job(
    cluster: FakeCluster, environment: dict[str, str], tmp_path: Path
) -> None:
    ended(cluster, "STATE_ERROR")
    result = train(environment, tmp_path)
    assert result.returncode == 1
    assert "| state | error |" in Path(environment["DET_SUMMARY"]).read_text()


def test_early_failure_removes_old_summary(
    cluster: FakeCluster, environment: dict[str, str], tmp_path: Path
) -> None:
    """Otherwise GitHub's action would post the summary of the earlier job as a comment of this job."""
    summary = Path(environment["DET_SUMMARY"])
    summary.write_text("### Experiment 1\n")
    cluster.on("POST", "/api/v1/experiments", Raw(b"{}", status=400))
    assert train(environment, tmp_path).returncode != 0
    assert not summary.exists()


def test_terminated_job_cancels_its_experiment(
    cluster: FakeCluster, environment: dict[str, str], tmp_path: Path
) -> None:
    ended(cluster, "STATE_RUNNING", endTime=None)
    cluster.on("POST", "/api/v1/experiments/1/cancel", {})
    job = subprocess.Popen(
        ["bash", str(SCRIPT), "config.yaml", "model"],
        env=environment, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        start_new_session=True,
    )  # fmt: skip
    assert job.stderr is not None
    for line in job.stderr:
        if "RUNNING" in line.upper():
            break
    os.killpg(job.pid, signal.SIGTERM)
    job.communicate(timeout=60)
    assert job.returncode == 130
    assert cluster.sent("POST", "/api/v1/experiments/1/cancel")


def test_job_terminated_during_submission_cancels_the_experiment(
    cluster: FakeCluster, environment: dict[str, str], tmp_path: Path
) -> None:
    """The signal reaches every process of the job while the request is in progress."""
    arrived, may_answer = threading.Event(), threading.Event()
    response = {"experiment": {"id": 1, "state": "STATE_ACTIVE"}, "configWarnings": []}

    def create(_: RecordedRequest) -> Any:
        arrived.set()
        assert may_answer.wait(60)
        return response

    cluster.on("POST", "/api/v1/experiments", create)
    ended(cluster, "STATE_ACTIVE", endTime=None)
    cluster.on("POST", "/api/v1/experiments/1/cancel", {})
    job = subprocess.Popen(
        ["bash", str(SCRIPT), "config.yaml", "model"],
        env=environment, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        start_new_session=True,
    )  # fmt: skip
    assert arrived.wait(60)
    os.killpg(job.pid, signal.SIGTERM)
    may_answer.set()
    _, stderr = job.communicate(timeout=60)
    assert job.returncode == 130, stderr
    assert "canceling experiment 1" in stderr
    assert cluster.sent("POST", "/api/v1/experiments/1/cancel"), stderr


def test_missing_variable_and_arguments_are_reported(
    environment: dict[str, str], tmp_path: Path
) -> None:
    result = train({k: v for k, v in environment.items() if k != "DET_MASTER"}, tmp_path)
    assert result.returncode != 0
    assert "DET_MASTER" in result.stderr
    usage = subprocess.run(["bash", str(SCRIPT)], capture_output=True, text=True, check=False)
    assert usage.returncode == 2


def test_action_and_template_run_the_script() -> None:
    action = yaml.safe_load((ROOT / ".github/actions/train/action.yml").read_text())
    commands = [step.get("run", "") for step in action["runs"]["steps"]]
    assert any("ci/train" in command for command in commands)
    template = yaml.safe_load((ROOT / "ci/gitlab.yml").read_text())
    assert "ci/train" in template[".determined-train"]["script"][0]


def test_github_job_signs_in_with_its_identity_token(
    cluster: FakeCluster, environment: dict[str, str], tmp_path: Path
) -> None:
    ended(cluster, "STATE_COMPLETED")
    audiences = trust(cluster)
    with oidc_server() as github:
        variables = {
            "ACTIONS_ID_TOKEN_REQUEST_URL": f"{github.url}/github/token?api-version=2.0",
            "ACTIONS_ID_TOKEN_REQUEST_TOKEN": "of the job",
        }
        result = train({**environment, **variables, "DET_USER_TOKEN": ""}, tmp_path)
    assert result.returncode == 0, result.stderr
    assert "as ada, until" in result.stderr
    assert audiences == ["determined:fake"]


def test_gitlab_job_signs_in_with_its_identity_token(
    cluster: FakeCluster, environment: dict[str, str], tmp_path: Path
) -> None:
    ended(cluster, "STATE_COMPLETED")
    audiences = trust(cluster)
    with oidc_server() as gitlab:
        token = gitlab.token("of the job's choice")
    result = train({**environment, "DET_OIDC_TOKEN": token, "DET_USER_TOKEN": ""}, tmp_path)
    assert result.returncode == 0, result.stderr
    assert audiences == ["of the job's choice"]


def test_password_has_precedence_over_identity_token(
    cluster: FakeCluster, environment: dict[str, str], tmp_path: Path
) -> None:
    ended(cluster, "STATE_COMPLETED")
    audiences = trust(cluster)
    credentials = {"DET_USER": "ada", "DET_PASS": "Lovelace1", "DET_USER_TOKEN": ""}
    result = train({**environment, **credentials, "DET_OIDC_TOKEN": "of the job"}, tmp_path)
    assert result.returncode == 0, result.stderr
    assert cluster.sent("POST", "/api/v1/auth/login")
    assert audiences == []


def test_job_without_identity_token_gets_a_hint(cluster: FakeCluster, det: Det) -> None:
    trust(cluster)
    result = det("user", "login", "--pipeline")
    assert result.code == 2
    assert "permissions: {id-token: write}" in result.err
    assert "aud: determined:fake" in result.err


def test_missing_github_token_is_reported(
    cluster: FakeCluster, det: Det, monkeypatch: pytest.MonkeyPatch
) -> None:
    trust(cluster)
    monkeypatch.setenv("ACTIONS_ID_TOKEN_REQUEST_URL", f"{cluster.url}/nothing-here")
    monkeypatch.setenv("ACTIONS_ID_TOKEN_REQUEST_TOKEN", "of the job")
    result = det("user", "login", "--pipeline")
    assert (result.code, "GitHub made no identity token" in result.err) == (1, True)


def trust(cluster: FakeCluster) -> list[str]:
    """Make the cluster accept identity tokens. Return the list of the audiences of received tokens."""
    audiences: list[str] = []

    def exchange(request: RecordedRequest) -> dict[str, Any]:
        claims = jwt.decode(request.body["token"], options={"verify_signature": False})
        audiences.append(claims["aud"])
        ends = "2026-11-22T18:00:00+00:00"
        return {"token": "token", "user": {"id": 3, "username": "ada"}, "expiresAt": ends}

    cluster.on("POST", "/api/v1/auth/pipeline", exchange)
    cluster.on("GET", "/info", {"version": "0.38.1", "cluster_id": "fake"})
    return audiences
