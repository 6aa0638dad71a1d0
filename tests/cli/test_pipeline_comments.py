"""The comment that `ci/comment.py` writes for GitHub's action and GitLab's template."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.fake_api import FakeApi, Raw, RecordedRequest, Refusal

ROOT = Path(__file__).parents[2]
ACTION = ROOT / ".github/actions/train"
GITHUB = "/repos/me/mine/issues/7/comments"
GITLAB = "/projects/5/merge_requests/7/notes"


class Host(FakeApi):
    """A fake of GitHub and GitLab with the comments of request 7."""

    def __init__(self) -> None:
        super().__init__()
        self.comments: list[dict[str, Any]] = []
        for path, id in ((GITHUB, "/repos/me/mine/issues/comments"), (GITLAB, GITLAB)):
            self.on("GET", path, self._list)
            self.on("POST", path, self._add)
            for method in ("PATCH", "PUT"):
                self.on(method, f"{id}/(\\d+)", self._change)
        self.on("GET", "/user", {"id": 3})

    def has(self, body: str, *, ours: bool = True) -> None:
        id = len(self.comments) + 1
        user = {"type": "Bot" if ours else "User"}
        self.comments.append(
            {"id": id, "body": body, "user": user, "author": {"id": 3 if ours else 4}}
        )

    def bodies(self) -> list[str]:
        return [comment["body"] for comment in self.comments]

    def _list(self, request: RecordedRequest) -> Any:
        size, page = int(request.first("per_page")), int(request.first("page"))
        return self.comments[(page - 1) * size : page * size]

    def _add(self, request: RecordedRequest) -> Any:
        self.has(request.body["body"])
        return self.comments[-1]

    def _change(self, request: RecordedRequest) -> Any:
        comment = self.comments[int(request.found[0]) - 1]
        comment.update(request.body)
        return comment


@pytest.fixture
def host() -> Iterator[Host]:
    with Host() as host:
        yield host


class Job:
    """The step or script that runs after the training and reads its summary."""

    def __init__(self, script: str, environment: dict[str, str], folder: Path) -> None:
        self.script, self.folder = script, folder
        programs = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        self.environment = {**environment, "PATH": programs}

    def run(self, summary: str) -> "subprocess.CompletedProcess[str]":
        (self.folder / "summary.md").write_text(summary)
        command = ["bash", "--noprofile", "--norc", "-e", "-o", "pipefail", "-c", self.script]
        return subprocess.run(
            command, env=self.environment, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
        )  # fmt: skip


@pytest.fixture(params=["github", "gitlab"])
def job(request: pytest.FixtureRequest, host: Host, tmp_path: Path) -> Job:
    summary, shared = str(tmp_path / "summary.md"), {"CONFIG": "a/config.yaml"}
    if request.param == "gitlab":
        template = yaml.safe_load((ROOT / "ci/gitlab.yml").read_text())
        environment = {
            **shared, "GITLAB_CI": "true", "GITLAB_TOKEN": "t", "CI_MERGE_REQUEST_IID": "7", "CI_PROJECT_ID": "5",
            "CI_API_V4_URL": host.url, "DET_SUMMARY": summary,
        }  # fmt: skip
        return Job(template[".determined-train"]["after_script"][0], environment, tmp_path)
    steps = yaml.safe_load((ACTION / "action.yml").read_text())["runs"]["steps"]
    environment = {
        **shared, "GITHUB_ACTIONS": "true", "GITHUB_TOKEN": "t", "NUMBER": "7", "GITHUB_REPOSITORY": "me/mine",
        "GITHUB_API_URL": host.url, "SUMMARY": summary, "COMMENT": "true",
        "GITHUB_STEP_SUMMARY": str(tmp_path / "shown.md"), "GITHUB_ACTION_PATH": str(ACTION),
    }  # fmt: skip
    return Job(steps[-1]["run"], environment, tmp_path)


def test_pushes_update_one_comment(host: Host, job: Job) -> None:
    """Comments of people and of other configurations are kept."""
    host.has("<!-- determined: b/config.yaml -->\nof another job")
    host.has("<!-- determined: a/config.yaml -->\nof a stranger", ours=False)
    for _ in range(100):
        host.has("looks good")
    before = host.bodies()
    assert job.run("loss 0.5").returncode == 0
    assert job.run("loss 0.25").returncode == 0
    assert host.bodies() == [*before, "<!-- determined: a/config.yaml -->\nloss 0.25"]


def test_job_without_comment_permission_passes(host: Host, job: Job) -> None:
    def refuse(_: RecordedRequest) -> Any:
        raise Refusal(403, "Resource not accessible by integration")

    for path in (GITHUB, GITLAB):
        host.on("POST", path, refuse)
    result = job.run("loss 0.5")
    assert result.returncode == 0, result.stderr
    assert "the summary could not be written as a comment: HTTP Error 403" in result.stdout
    assert "pull-requests: write" in result.stdout


def test_job_passes_if_host_is_unreachable(job: Job) -> None:
    for name in ("GITHUB_API_URL", "CI_API_V4_URL"):
        job.environment[name] = "http://127.0.0.1:9"
    result = job.run("loss 0.5")
    assert (result.returncode, "could not be written" in result.stdout) == (0, True)


def test_comments_of_deleted_accounts_are_skipped(host: Host, job: Job) -> None:
    host.comments = [
        {"id": 1, "body": "of a ghost", "user": None, "author": None},
        {"id": 2, "body": None, "user": {"type": "Bot"}, "author": {"id": 3}},
    ]
    result = job.run("loss 0.5")
    assert (result.returncode, result.stderr) == (0, "")
    assert host.bodies()[2:] == ["<!-- determined: a/config.yaml -->\nloss 0.5"]


@pytest.mark.parametrize("answer", [Raw(b"<html>"), [{}], {"message": "moved"}, 7])
def test_job_passes_if_host_response_is_unexpected(host: Host, job: Job, answer: Any) -> None:
    for path in (GITHUB, GITLAB):
        host.on("GET", path, answer)
    result = job.run("loss 0.5")
    assert (result.returncode, "could not be written" in result.stdout) == (0, True), result.stderr


def test_job_without_token_passes(job: Job) -> None:
    for name in ("GITHUB_TOKEN", "GITLAB_TOKEN"):
        job.environment.pop(name, None)
    result = job.run("loss 0.5")
    assert result.returncode == 0, result.stderr


def test_no_comment_without_request_or_summary(host: Host, job: Job) -> None:
    assert job.run("").returncode == 0
    for name in ("NUMBER", "CI_MERGE_REQUEST_IID"):
        job.environment[name] = ""
    assert job.run("loss 0.5").returncode == 0
    assert host.asked == []


def test_example_workflow_passes_valid_inputs() -> None:
    workflow = yaml.safe_load((ROOT / ".github/workflows/train-example.yml").read_text())
    (step,) = [s for s in workflow["jobs"]["train"]["steps"] if s.get("uses", "").startswith("./")]
    action = yaml.safe_load((ROOT / step["uses"] / "action.yml").read_text())
    required = {name for name, input in action["inputs"].items() if input.get("required")}
    assert required <= set(step["with"]) <= set(action["inputs"])
    assert (ROOT / step["with"]["config"]).is_file()
    assert (ROOT / step["with"]["model"]).is_dir()
