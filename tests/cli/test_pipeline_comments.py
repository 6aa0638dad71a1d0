"""The comment of `ci/comment.py`, as GitHub's action and GitLab's template write it."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.fake_api import Asked, FakeApi, Raw, Refusal

ROOT = Path(__file__).parents[2]
ACTION = ROOT / ".github/actions/train"
GITHUB = "/repos/me/mine/issues/7/comments"
GITLAB = "/projects/5/merge_requests/7/notes"


class Host(FakeApi):
    """The comments under request 7, at GitHub and at GitLab."""

    def __init__(self) -> None:
        super().__init__()
        self.comments: list[dict[str, Any]] = []
        for path, id in ((GITHUB, "/repos/me/mine/issues/comments"), (GITLAB, GITLAB)):
            self.on("GET", path, self._listed)
            self.on("POST", path, self._added)
            for method in ("PATCH", "PUT"):
                self.on(method, f"{id}/(\\d+)", self._changed)
        self.on("GET", "/user", {"id": 3})

    def has(self, body: str, *, ours: bool = True) -> None:
        id = len(self.comments) + 1
        user = {"type": "Bot" if ours else "User"}
        self.comments.append(
            {"id": id, "body": body, "user": user, "author": {"id": 3 if ours else 4}}
        )

    def bodies(self) -> list[str]:
        return [comment["body"] for comment in self.comments]

    def _listed(self, asked: Asked) -> Any:
        size, page = int(asked.first("per_page")), int(asked.first("page"))
        return self.comments[(page - 1) * size : page * size]

    def _added(self, asked: Asked) -> Any:
        self.has(asked.body["body"])
        return self.comments[-1]

    def _changed(self, asked: Asked) -> Any:
        found = self.comments[int(asked.found[0]) - 1]
        found.update(asked.body)
        return found


@pytest.fixture
def host() -> Iterator[Host]:
    with Host() as made:
        yield made


class Job:
    """The step or script after the training, with the summary that the training wrote."""

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


def test_pushes_change_one_comment(host: Host, job: Job) -> None:
    """Comments of people, and of other configurations, stay."""
    host.has("<!-- determined: b/config.yaml -->\nof another job")
    host.has("<!-- determined: a/config.yaml -->\nof a stranger", ours=False)
    for _ in range(100):
        host.has("looks good")
    before = host.bodies()
    assert job.run("loss 0.5").returncode == 0
    assert job.run("loss 0.25").returncode == 0
    assert host.bodies() == [*before, "<!-- determined: a/config.yaml -->\nloss 0.25"]


def test_a_job_that_may_not_comment_stays_good(host: Host, job: Job) -> None:
    def refuse(_: Asked) -> Any:
        raise Refusal(403, "Resource not accessible by integration")

    for path in (GITHUB, GITLAB):
        host.on("POST", path, refuse)
    ran = job.run("loss 0.5")
    assert ran.returncode == 0, ran.stderr
    assert "the summary could not be written as a comment: HTTP Error 403" in ran.stdout
    assert "pull-requests: write" in ran.stdout


def test_a_host_that_does_not_answer_leaves_the_job_good(job: Job) -> None:
    for name in ("GITHUB_API_URL", "CI_API_V4_URL"):
        job.environment[name] = "http://127.0.0.1:9"
    ran = job.run("loss 0.5")
    assert (ran.returncode, "could not be written" in ran.stdout) == (0, True)


def test_comments_of_accounts_that_are_gone_are_passed_over(host: Host, job: Job) -> None:
    host.comments = [
        {"id": 1, "body": "of a ghost", "user": None, "author": None},
        {"id": 2, "body": None, "user": {"type": "Bot"}, "author": {"id": 3}},
    ]
    ran = job.run("loss 0.5")
    assert (ran.returncode, ran.stderr) == (0, "")
    assert host.bodies()[2:] == ["<!-- determined: a/config.yaml -->\nloss 0.5"]


@pytest.mark.parametrize("answer", [Raw(b"<html>"), [{}], {"message": "moved"}, 7])
def test_a_host_that_answers_something_else_leaves_the_job_good(
    host: Host, job: Job, answer: Any
) -> None:
    for path in (GITHUB, GITLAB):
        host.on("GET", path, answer)
    ran = job.run("loss 0.5")
    assert (ran.returncode, "could not be written" in ran.stdout) == (0, True), ran.stderr


def test_a_job_whose_token_is_missing_stays_good(job: Job) -> None:
    for name in ("GITHUB_TOKEN", "GITLAB_TOKEN"):
        job.environment.pop(name, None)
    ran = job.run("loss 0.5")
    assert ran.returncode == 0, ran.stderr


def test_without_a_request_or_a_summary_nothing_is_written(host: Host, job: Job) -> None:
    assert job.run("").returncode == 0
    for name in ("NUMBER", "CI_MERGE_REQUEST_IID"):
        job.environment[name] = ""
    assert job.run("loss 0.5").returncode == 0
    assert host.asked == []


def test_the_example_calls_the_action_with_what_it_knows() -> None:
    workflow = yaml.safe_load((ROOT / ".github/workflows/train-example.yml").read_text())
    (step,) = [s for s in workflow["jobs"]["train"]["steps"] if s.get("uses", "").startswith("./")]
    action = yaml.safe_load((ROOT / step["uses"] / "action.yml").read_text())
    required = {name for name, given in action["inputs"].items() if given.get("required")}
    assert required <= set(step["with"]) <= set(action["inputs"])
    assert (ROOT / step["with"]["config"]).is_file()
    assert (ROOT / step["with"]["model"]).is_dir()
