"""`det deploy aws|gcp import`: imports run beside the database of a cluster."""

import json
import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from det_controlplane.entry.importing import beside
from det_controlplane.services.importing import importing
from moto.awslambda.models import LambdaFunction

from tests.cli.conftest import CommandResult, Det
from tests.support.aws_account import Account
from tests.support.determined_source import SourceCluster, populate
from tests.support.google_project import Project
from tests.support.postgres import DatabaseServer

IMPORTED = "imported 4 experiments, 2 trials, 5 reports of metrics and 3 lines of logs"


@pytest.fixture
def old(postgres_server: DatabaseServer) -> Iterator[SourceCluster]:
    with postgres_server.empty_database() as url:
        cluster = SourceCluster(url)
        populate(cluster)
        yield cluster
        cluster.close()


class Aws:
    """A cluster on AWS. Its function runs in this process; the test changes the answers."""

    def __init__(self, account: Account, det: Det, database_url: str) -> None:
        account.make_functions("migrate")
        self._account, self._det, self._url = account, det, database_url
        self.calls = 0
        self.time_outs = 0

    def invoke(self, function: Any, body: str, headers: Any, answer: dict[str, str]) -> bytes:
        self.calls += 1
        if self.time_outs:
            self.time_outs -= 1
            answer["x-amz-function-error"] = "Unhandled"
            return b'{"errorMessage": "2026-11-29T12:00:00Z 1 Task timed out after 900.00 seconds"}'
        event = json.loads(body)
        return json.dumps(beside.run_slice(event["import"], self._url)).encode()

    def run(self, *words: str) -> CommandResult:
        return self._det("deploy", "aws", "import", *words, *self._account.where)


@pytest.fixture
def aws(account: Account, det: Det, database_url: str, monkeypatch: pytest.MonkeyPatch) -> Aws:
    cluster = Aws(account, det, database_url)
    monkeypatch.setattr(
        LambdaFunction, "invoke", lambda function, *rest: cluster.invoke(function, *rest)
    )
    return cluster


def test_import_on_aws_takes_as_many_calls_as_it_needs(
    aws: Aws, old: SourceCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(beside, "SLICE_S", 1e-9)
    monkeypatch.setattr(importing, "_EXPERIMENTS", 1)
    result = aws.run(old.url)
    assert (result.code, aws.calls) == (0, 4)
    assert [line for line in result.err.splitlines() if "remain" in line] == [
        "3 experiments remain", "2 experiments remain", "1 experiments remain",
    ]  # fmt: skip
    assert "compare both clusters" in result.out
    verified = aws.run(old.url, "--verify")
    assert verified.code == 0
    assert "reports of metrics" in verified.out


def test_import_on_aws_continues_after_a_timeout(aws: Aws, old: SourceCluster) -> None:
    aws.time_outs = 1
    result = aws.run(old.url)
    assert result.code == 0
    assert IMPORTED in result.out


def test_experiment_that_is_too_large_for_a_function_is_explained(
    aws: Aws, old: SourceCluster
) -> None:
    aws.time_outs = 2
    result = aws.run(old.url)
    assert result.code == 1
    assert "one experiment takes longer to import than a function may run" in result.err
    assert "--var 'memory_mb={migrate: 3538}'" in result.err


def test_failed_import_on_aws_has_the_exit_status_and_the_reason(aws: Aws) -> None:
    result = aws.run("postgresql://user@127.0.0.1:1/det")
    assert result.code == 1
    assert "the old cluster's database does not answer" in result.out


def test_missing_cluster_on_aws_is_explained(
    account: Account, det: Det, old: SourceCluster
) -> None:
    result = det("deploy", "aws", "import", old.url, *account.where)
    assert result.code != 0
    assert "there is no function det-box-migrate in this region" in result.err


@pytest.fixture
def lab(project: Project, database_url: str, monkeypatch: pytest.MonkeyPatch) -> Project:
    """A project with a cluster. The URL of its database is in a secret."""
    monkeypatch.setattr("det_cli.deployment.google_import._LOOK_S", 0.01)
    path = "projects/acme/locations/us-west1/services/det-lab-api"
    url = {"secretKeyRef": {"secret": "det-lab-database-url", "version": "1"}}
    container = {
        "image": "img", "env": [{"name": "DET_ROLE", "value": "api"}, {"name": "DET_DB_URL", "valueSource": url}],
    }  # fmt: skip
    template = {
        "containers": [container], "serviceAccount": "det-lab-api@acme.iam.gserviceaccount.com",
        "vpcAccess": {"egress": "PRIVATE_RANGES_ONLY"},
    }  # fmt: skip
    project.google.leftovers["services"] = [
        {"name": path, "labels": {"determined-cluster": "lab"}, "template": template}
    ]
    project.google.jobs.environment = {"det-lab-database-url": database_url}
    return project


def run_on_google(project: Project, *words: str) -> CommandResult:
    return project.run("import", *words, "--cluster-id", "lab")


def test_import_on_google_cloud_runs_as_a_job(lab: Project, old: SourceCluster) -> None:
    lab.google.jobs.grants_late = 1
    result = run_on_google(lab, old.url, "--name", "lab")
    assert result.code == 0, result.err
    assert result.out.count(IMPORTED) == 1
    jobs = lab.google.jobs
    assert (jobs.jobs, jobs.secrets) == ({}, {})
    assert jobs.deleted[-2:] == ["job det-lab-import", "secret det-lab-import"]
    created = next(b for m, p, _, b, _ in lab.google.exchanges if p.endswith("/jobs"))
    assert old.url not in json.dumps(created)
    assert created["template"]["template"]["vpcAccess"] == {"egress": "PRIVATE_RANGES_ONLY"}
    assert run_on_google(lab, old.url, "--verify").code == 0


def test_failed_import_on_google_cloud_removes_its_job(lab: Project) -> None:
    result = run_on_google(lab, "postgresql://user@127.0.0.1:1/det")
    assert result.code == 1
    assert "the old cluster's database does not answer" in result.out
    assert (lab.google.jobs.jobs, lab.google.jobs.secrets) == ({}, {})


def test_interrupted_import_on_google_cloud_stops_its_job(
    lab: Project, old: SourceCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(seconds: float) -> None:
        raise KeyboardInterrupt

    # Replace the module's own name: the fake server's threads sleep, too.
    clock = SimpleNamespace(sleep=interrupt, monotonic=time.monotonic)
    monkeypatch.setattr("det_cli.deployment.google_import.time", clock)
    assert run_on_google(lab, old.url).code == 130
    assert lab.google.jobs.deleted == [
        "execution det-lab-import-x1", "job det-lab-import", "secret det-lab-import",
    ]  # fmt: skip


def test_second_import_on_google_cloud_is_refused(lab: Project, old: SourceCluster) -> None:
    lab.google.jobs.secrets["det-lab-import"] = "of another command"
    result = run_on_google(lab, old.url)
    assert result.code == 1
    assert "det-lab-import exists: an import into this cluster is running" in result.err
    assert "gcloud secrets delete det-lab-import --project acme" in result.err
    assert lab.google.jobs.secrets == {"det-lab-import": "of another command"}


def test_missing_cluster_on_google_cloud_is_explained(project: Project, old: SourceCluster) -> None:
    result = project.run("import", old.url, "--cluster-id", "nowhere")
    assert "there is no cluster nowhere in us-west1 of project acme" in result.err


@pytest.mark.parametrize("cloud", ["aws", "gcp"])
@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["dump"], "dump is not the URL of a database"),
        (["mysql://host/det"], "is not the URL of a database"),
        (["postgresql://h/d?sslrootcert=ca.pem"], "sslrootcert names a file of this machine"),
        (["postgresql://h/d", "--verify", "--dry-run"], "exclude each other"),
        (["postgresql://h/d", "--id-offset", "-1"], "must be a number, 0 or more"),
    ],
)
def test_wrong_options_are_refused_before_any_call(
    det: Det, cloud: str, words: list[str], message: str
) -> None:
    result = det("deploy", cloud, "import", "--cluster-id", "lab", *words)
    assert result.code != 0
    assert message in result.err
